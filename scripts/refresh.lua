-- refresh: renews the leases of holders and waiters, and returns the state of each. It never revives an expired id.
-- With no ids it only reaps and promotes. A grant of a rate is not renewed, and with a lease of 0 nothing is.
--
-- ARGV    knows_tokens  1: the caller knows that these ids are holders, and their tokens; 0: it does not
--         .. ids
-- Results: HELD (without a number if the caller knows it), WAITING, EVICTED or GONE
-- First write: PEXPIREAT or ZREM, so that it works under OOM.

-- include semaphore.lua
-- include limit.lua
-- include epoch.lua

local knows_tokens = ARGV[OWN]
local first_id = OWN + 1
local count = #ARGV - first_id + 1

-- The fast path: a refresh by a caller that knows the tokens, if there are no waiters, no expired entries and no
-- tombstones: then every id with a deadline is a holder. Not for a rate, whose grants are not renewed.
local fast = knows_tokens == "1" and lease > 0 and window + waiters == 0 and count > 0
  and redis.call("ZCARD", timeout) == holders and redis.call("ZCOUNT", timeout, "-inf", text(now)) == 0
  and not (declares or state_lost or renew_keys or stored_numbered and redis.call("EXISTS", numbers) == 0)
if fast then
  local due, deadline = {}, text(now + lease)
  for i = 1, count do
    due[2 * i - 1], due[2 * i] = deadline, ARGV[first_id + i - 1]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, 0
  end
  redis.call("PEXPIREAT", timeout, text(expire_at)) -- works under OOM, and so does what follows it
  if redis.call("ZADD", timeout, "XX", "CH", unpack(due)) == count then return reply end
  reply = { since or 0, NOT_REPORTED, 0, epoch, 0, reply[SERVER], reply[PLAIN], waiters } -- an id is missing, or was renewed in this very millisecond
end

-- include remove.lua
-- include queue.lua
-- include forecast.lua

local ids, due = { unpack(ARGV, first_id) }, {}
redis.call("PEXPIREAT", timeout, text(expire_at))
if expired_entries > 0 then reap() end
if #ids > 0 then
  local deadlines = redis.call("ZMSCORE", timeout, unpack(ids))
  local tokens = redis.call("ZMSCORE", owner, unpack(ids))
  local positions = waiters > 0 and redis.call("ZMSCORE", queue, unpack(ids)) or {}
  local deadline = text(now + lease)
  for i, id in ipairs(ids) do
    local state, number = GONE, 0
    local undated = not deadlines[i] and (tokens[i] or positions[i]) -- another program has deleted its deadline
    local has_lost = tokens[i] and numbering and numbering.lost and numbering.has(id) -- its entry stays until its lease ends
    if not has_lost and (undated or (tonumber(deadlines[i]) or 0) > now) then -- an expired id may still be stored, beyond the bound
      if tokens[i] then
        state, number = HELD, whole(tokens[i]) or 0
        if numbering and knows_tokens ~= "1" then report_numbers(number, numbering.of(id)) end
      elseif positions[i] then
        state, number = WAITING, whole(positions[i]) or 0
      else
        state = EVICTED
      end
    end
    if undated and state == HELD and window > 0 then
      due[#due + 1], due[#due + 2] = text(now + window), id
    elseif lease > 0 and (state == WAITING or state == HELD and window == 0) then
      due[#due + 1], due[#due + 2] = deadline, id
    end
    reply[size + 1], reply[size + 2] = state, number
    size = size + 2
  end
end
if #due > 0 then
  redis.call("ZADD", timeout, unpack(due))
  redis.call("PEXPIREAT", timeout, text(expire_at)) -- in case the key is new
end
if waiters > 0 and window == 0 then
  local nearest = redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2]
  reply[NEXT] = nearest and math.max(0, nearest - now) or NOT_REPORTED
end

-- include finish.lua
