-- reduce: lowers the weights of holders to what they keep. It never raises one, so a late copy reverts nothing, and it
-- renews no lease: releasing some units says nothing about the rest.
--
-- ARGV    .. ids, then the units that each keeps
-- Results: HELD, WAITING, EVICTED or GONE; only a holder weighs less now
-- First write: PEXPIREAT, so that it works under OOM.

-- include semaphore.lua
-- include limit.lua
-- include epoch.lua
-- include remove.lua
-- include queue.lua

local first_id, count = OWN, (#ARGV - OWN + 1) / 2
local first_kept = first_id + count
if not distinct(first_id, count) then return redis.error_reply("FAIRSEMIDS an id comes twice") end
local ids = { unpack(ARGV, first_id, first_kept - 1) }
local reduced, single = {}, {} -- for HSET: id, weight, ...; for HDEL: ids that keep one unit
redis.call("PEXPIREAT", timeout, text(expire_at))
if expired_entries > 0 then reap() end
if count > 0 then
  local tokens = redis.call("ZMSCORE", owner, unpack(ids))
  local positions = waiters > 0 and redis.call("ZMSCORE", queue, unpack(ids)) or {}
  local weights = extra_weight > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
  local deadlines
  for i, id in ipairs(ids) do
    local state = tokens[i] and HELD or positions[i] and WAITING or GONE
    local units, keeps = parse_weight(weights[i]), tonumber(ARGV[first_kept + i - 1])
    if state == HELD and keeps < units then
      extra_weight = extra_weight - units + keeps
      if tenancy then tenancy.released(id, units - keeps, tokens[i], 0) end
      if numbering then numbering.free({ id }, 1, keeps) end
      if keeps > 1 then reduced[#reduced + 1], reduced[#reduced + 2] = id, text(keeps) else single[#single + 1] = id end
    end
    if state == GONE then
      deadlines = deadlines or redis.call("ZMSCORE", timeout, unpack(ids))
      if (tonumber(deadlines[i]) or 0) > now then state = EVICTED end
    end
    reply[size + 1], reply[size + 2] = state, whole(tokens[i] or positions[i]) or 0
    size = size + 2
  end
end
if #reduced > 0 then redis.call("HSET", weight, unpack(reduced)) end
if #single > 0 then redis.call("HDEL", weight, unpack(single)) end -- "extra" comes after that, in finish.lua

-- include finish.lua
