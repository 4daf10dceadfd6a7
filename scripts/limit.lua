-- limit.lua: what time it is, which limit holds, and when the keys expire.
local clock = redis.call("TIME") -- once: before Redis 7.2 it moves while a script runs
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
local last = tonumber(redis.call("GET", counter)) or 0 -- ticket of the name

-- Numbers, and when limits were declared, are counted by a clock that never goes back: where the server's was stepped
-- back by more than a second, or one that is behind has taken its place, "ahead" in meta is by how much that runs
-- ahead of it. Deadlines are times of the server's own.
local since, newest = tonumber(ARGV[4]), tonumber(known[4]) or 0
local ahead, reached = tonumber(known[9]) or 0, math.max(last, newest, since or 0)
local stepped = reached > micros + ahead + 1000000 and reached < 2 ^ 52 -- beyond the year 2112 is no clock's
if stepped then ahead = reached + 1000000 - micros end -- whoever declares a limit now did so after that
local steady = micros + ahead

-- The newest declaration stands. Each carries the time it was first made, so neither repeating an
-- old one nor a lost meta can bring back a limit that a later process replaced.
local pinned, stands = tonumber(known[2]), known[3]
if since and since <= 0 then since = steady + since end
if since and stands and not tonumber(stands) ~= not tonumber(ARGV[3]) then
  return redis.error_reply("FAIRSEMKIND the name is that of a " .. (tonumber(stands) and "semaphore" or "rate limit"))
end
local declares = since and (not stands or since > newest)
if declares or not stands then stands = ARGV[3] end
local declared, window = tonumber(stands), 0 -- window: ms after which a grant lapses; 0: not a rate
if not declared then
  declared, window = string.match(stands, "^(%d+)/(%d+)$")
  declared, window = tonumber(declared), tonumber(window) + 1 -- deadlines are whole ms, grants are not
end
local limit = pinned or declared
reply[1] = since or 0

-- The keys expire a while after the last deadline in them, at the time "until" in meta. It moves by
-- so much at once that most calls need not touch it.
local horizon = tonumber(known[5]) or 0 -- server ms
local span = math.max(lease, window)
local renew = (since or holders + waiting > 0) and (stepped or horizon < now + span + LINGER)
if renew then
  local latest = horizon == 0 and redis.call("ZRANGE", timeout, -1, -1, "WITHSCORES")[2] or now -- meta may be lost
  horizon = math.max(horizon, math.max(now + span, tonumber(latest)) + 2 * LINGER)
end

