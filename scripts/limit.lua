-- limit.lua: what time it is, which limit holds, and when the keys expire.
local clock = redis.call("TIME") -- once: before Redis 7.2 it moves while a script runs
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
local last = whole(redis.call("GET", counter), TOP - 1000) or 0 -- ticket of the name; one call adds some hundreds

-- Numbers, and when limits were declared, are counted by a clock that never goes back: where the server's was stepped
-- back by more than a second, or one that is behind has taken its place, "ahead" in meta is by how much that runs
-- ahead of it. Deadlines are times of the server's own.
local CENTURY = 2 ^ 52 -- us, the year 2112: beyond it is no clock's
local since, newest = tonumber(ARGV[4]), whole(known[4], CENTURY) or 0
local ahead, reached = whole(known[9], CENTURY - micros) or 0, math.max(last, newest, since or 0)
local stepped = reached > micros + ahead + 1000000 and reached < CENTURY
if stepped then ahead = reached + 1000000 - micros end -- whoever declares a limit now did so after that
local steady = micros + ahead

-- The newest declaration stands. Each carries the time it was first made, so neither repeating an
-- old one nor a lost meta can bring back a limit that a later process replaced.
local function quota(stated) -- a limit, and the ms after which a grant lapses; 0: it is not a rate
  local units, period = whole(stated), 0
  if stated and not units then
    units, period = string.match(stated, "^(%d+)/(%d+)$")
    units, period = whole(units), whole(period, MONTH)
    if not (units and period and units * period > 0) then return nil end
    period = period + 1 -- deadlines are whole ms, grants are not
  end
  return units, period
end
local pinned, stands = whole(known[2]), known[3]
local declared, window = quota(stands)
if since and since <= 0 then since = steady + since end
if since and declared and (window > 0) ~= (string.find(ARGV[3], "/", 1, true) ~= nil) then
  return redis.error_reply("FAIRSEMKIND the name is that of a " .. (window > 0 and "rate limit" or "semaphore"))
end
local declares = since and (not declared or since > newest)
if declares or not declared then
  stands = ARGV[3]
  declared, window = quota(stands)
end
local limit = pinned or declared
reply[1] = since or 0

-- The keys expire a while after the last deadline in them, at the time "until" in meta. It moves by
-- so much at once that most calls need not touch it.
local farthest = now + MONTH + DAY -- server ms: no deadline of ours is later
local horizon = whole(known[5], farthest) or 0 -- server ms
local span = math.max(lease, window)
local renew = (since or holders + waiting > 0) and (stepped or horizon < now + span + LINGER)
if renew then
  local latest = horizon == 0 and whole(redis.call("ZRANGE", timeout, -1, -1, "WITHSCORES")[2], farthest) or now -- meta may be lost
  horizon = math.max(horizon, math.max(now + span, latest) + 2 * LINGER)
end

