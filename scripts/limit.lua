-- limit.lua: the time, the limit in effect, and when the keys expire.
--
-- provides: CENTURY, clock_ahead, declared, declared_spec, declares, expire_at, keep, last_number, limit, micros, now,
--           pinned, renew_keys, steady, stepped_back, window
-- changes:  since
local clock = redis.call("TIME") -- once: before Redis 7.2 it moves while a script runs
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
local last_number = whole(redis.call("GET", counter), TOP - 1000) or 0 -- token or position; one call adds some hundreds

-- Tokens, positions and the times of declarations use a clock that never goes back. Where the server's clock was stepped
-- back by more than a second, or a server whose clock is behind has replaced it, "ahead" in meta is by how much
-- this clock is ahead of the server's. Deadlines are times of the server's own clock.
local CENTURY = 2 ^ 52 -- us, the year 2112: no clock is beyond it
local given = since
since = tonumber(given) -- nil: the call declares nothing, or the caller sent the age
local declared_at = whole(stored_since, CENTURY - 1) or 0
local clock_ahead = whole(stored_ahead, CENTURY - micros) or 0
local newest = math.max(last_number, declared_at, since or 0)
local stepped_back = newest > micros + clock_ahead + 1000000 and newest < CENTURY
if stepped_back then clock_ahead = newest + 1000000 - micros end -- a limit that is declared now was declared after that
local steady = micros + clock_ahead

-- The newest declaration is in effect. Each carries the time at which it was first made, so repeating an old one does not bring back a limit
-- that a later process replaced; after a loss of meta it does, until that process calls again.
local function parse_limit(declaration) -- a limit, and the ms after which a grant expires; 0: it is not a rate
  local units, period = whole(declaration), 0
  if declaration and not units then
    units, period = string.match(declaration, "^(%d+)/(%d+)$")
    units, period = whole(units), whole(period, MONTH)
    if not (units and period and units * period > 0) then return nil end
    period = period + 1 -- deadlines are whole ms, grants are not
  end
  return units, period
end
local pinned, declared_spec = whole(stored_pin), stored_spec
local declared, window = parse_limit(declared_spec)
if not since and given ~= "" then
  local age = tonumber(string.match(given, "^ago (%d+)$"))
  since = age and steady - age
end
if since and declared and (window > 0) ~= (string.find(spec, "/", 1, true) ~= nil) then
  return redis.error_reply("FAIRSEMKIND the name is that of a " .. (window > 0 and "rate limit" or "semaphore"))
end
local declares = since and (not declared or since > declared_at)
if declares or not declared then
  declared_spec = spec
  declared, window = parse_limit(declared_spec)
end
local limit = pinned or declared
reply[SINCE] = since or 0

-- The keys expire a while after the last deadline in them, at the time "until" in meta. That time moves in steps
-- so large that most calls need not change it.
local farthest = now + MONTH + DAY -- server ms: no deadline of ours is later
local expire_at = whole(stored_until, farthest) or 0 -- server ms
local span = math.max(lease, window)
local renew_keys = (since or holders + waiters > 0) and (stepped_back or expire_at < now + span + LINGER)
if renew_keys then
  -- Without "until", which may be lost with meta, the last deadline says it.
  local latest = expire_at == 0 and whole(redis.call("ZRANGE", timeout, -1, -1, "WITHSCORES")[2], farthest) or now
  expire_at = math.max(expire_at, math.max(now + span, latest) + 2 * LINGER)
end

-- keep stores fields of meta. The key is to expire at once, in case a right is missing for what follows.
local function keep(...)
  redis.call("HSET", meta, ...)
  if not pinned then redis.call("PEXPIREAT", meta, text(math.max(expire_at, now + LINGER))) end
end
