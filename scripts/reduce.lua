-- reduce: lowers the weight of holders to what they keep. It never raises one, so a late copy undoes
-- nothing, and it renews no lease: that a part is given back says nothing of the rest.
--
-- ARGV    7.. ids, then the units that each keeps
-- Results: HELD, WAITING, EVICTED or GONE; only who holds weighs less now
-- First write: PEXPIREAT, so that it works under OOM.
local count = (#ARGV - 6) / 2
if not distinct(7, count) then return redis.error_reply("FAIRSEMIDS an id comes twice") end
local ids = { unpack(ARGV, 7, 6 + count) }
local fewer, alone = {}, {} -- for HSET: id, weight, ...; for HDEL: who keeps one
redis.call("PEXPIREAT", timeout, text(horizon))
if lapsed > 0 then reap() end
if count > 0 then
  local tokens = redis.call("ZMSCORE", owner, unpack(ids))
  local places = waiting > 0 and redis.call("ZMSCORE", queue, unpack(ids)) or {}
  local units = extra > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
  local deadlines
  for i, id in ipairs(ids) do
    local state = tokens[i] and HELD or places[i] and WAITING or GONE
    local mine, keeps = weighs(units[i]), tonumber(ARGV[6 + count + i])
    if state == HELD and keeps < mine then
      extra = extra - mine + keeps
      if keeps > 1 then fewer[#fewer + 1], fewer[#fewer + 2] = id, text(keeps) else alone[#alone + 1] = id end
    end
    if state == GONE then
      deadlines = deadlines or redis.call("ZMSCORE", timeout, unpack(ids))
      if (tonumber(deadlines[i]) or 0) > now then state = EVICTED end
    end
    reply[size + 1], reply[size + 2] = state, whole(tokens[i] or places[i]) or 0
    size = size + 2
  end
end
if #fewer > 0 then redis.call("HSET", weight, unpack(fewer)) end
if #alone > 0 then redis.call("HDEL", weight, unpack(alone)) end -- and "extra" comes after that, in finish.lua

