-- plain_refresh: what refresh does for many holders and waiters of a plain name, as in plain.lua, while no lease has ended and waiters find
-- no unit free: it has nothing to reap or to grant, so it may renew more of them in one call.
--
-- KEYS    owner, queue, timeout, counter, meta, lanes, turns, tenants
-- ARGV    known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms
--         holding      how many of the ids hold, as far as the caller knows; the others, which come after them, wait
--         .. ids
-- Returns 0: refresh must answer; or one list of numbers:
--         next, waiters, plain  as in semaphore.lua
--         missed       for each id that does not hold or wait as the caller knows it: which it is, from 1 on. It was not renewed,
--                      and refresh says its state
-- First write: PEXPIREAT, so that it works under OOM.
local owner, queue, timeout, counter, meta, lanes, turns, tenants = unpack(KEYS)
local known_epoch, since, lease, holding = unpack(ARGV, 1, 4)
local first_id = 5
local limit_form = "^(%d+)@?%+?$"

-- include plain.lua

local MANY = 20000 -- among more entries each id takes too long
local waiters, entries = redis.call("ZCARD", queue), redis.call("ZCARD", timeout)
if entries > MANY then return { 0 } end
if entries < holders + waiters then return { 0 } end -- another program has deleted deadlines
if waiters > 0 and holders < limit then return { 0 } end -- refresh grants what is free, unless the waiters' tenants are at their limits

-- nearest_deadline returns the earliest of all, nil if there is none.
local function nearest_deadline() return tonumber(redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2]) end

local nearest = nearest_deadline()
if not (nearest and nearest > now) then return { 0 } end

-- include plain_kind.lua
local reply, due, deadline = { NOT_REPORTED, waiters, plain_kind(plain_flag) }, {}, format("%d", now + lease)

-- check divides the ids from index first to last into those that are in a key, and those that are not.
local function check(key, first, last)
  if last < first then return end
  for i, number in ipairs(redis.call("ZMSCORE", key, unpack(ARGV, first, last))) do
    if number then
      due[#due + 1], due[#due + 2] = deadline, ARGV[first + i - 1]
    else
      reply[#reply + 1] = first - first_id + i
    end
  end
end

check(owner, first_id, first_id + holding - 1)
check(queue, first_id + holding, #ARGV)
if #due > 0 then
  redis.call("PEXPIREAT", timeout, format("%d", expire_at))
  redis.call("ZADD", timeout, unpack(due))
end
if waiters > 0 then reply[1] = math.max(0, nearest_deadline() - now) end

-- include plain_renew.lua
return reply
