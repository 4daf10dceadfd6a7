-- quick_acquire.lua: an acquire while nobody waits, of ids that nobody knows and that all fit, needs
-- no line, and neither does what it gives back, if all of that holds. Nor does it reap: who has lapsed
-- takes room that is not needed, until the keys have to be renewed or somebody does not fit.
local count, back = tonumber(ARGV[10]), tonumber(ARGV[11])
local weighed = #ARGV == 11 + 2 * count + back and count > 0
if not weighed and #ARGV ~= 11 + count + back or not distinct(12, count) then
  return redis.error_reply("FAIRSEMIDS the ids are not as many as the call says, or one comes twice")
end
local seen = redis.call("ZMSCORE", timeout, unpack(ARGV, 12, 11 + count))
local quick = waiting + weights == 0 and holders - back + count <= limit
  and not (weighed or renew or declares or lost or now < quiet)
for i = 1, count do quick = quick and not seen[i] end

local over = 0 -- of a rate: how many are in the way of nobody, and do not count
if quick and window > 0 then
  over = redis.call("ZCOUNT", timeout, "-inf", text(now))
  quick = back == 0 and over < BOUND and (over == 0 or redis.call("ZCARD", timeout) == holders)
end

if quick and back > 0 then
  local held = redis.call("ZMSCORE", owner, unpack(ARGV, 12 + count))
  for i = 1, back do
    quick = quick and held[i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, 0
  end
end

if quick then
  size = size + 2 * back
  local due, granted, deadline = {}, {}, text(now + (window > 0 and window or lease))
  for i = 1, count do
    last = last < steady and steady or last + 1
    due[2 * i - 1], due[2 * i] = deadline, ARGV[11 + i]
    granted[2 * i - 1], granted[2 * i] = text(last), ARGV[11 + i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, last
  end
  redis.call("SET", counter, text(last), "PXAT", text(horizon))
  redis.pcall("HINCRBY", meta, "granted", count)
  if back > 0 then
    redis.call("ZREM", owner, unpack(ARGV, 12 + count))
    redis.call("ZREM", timeout, unpack(ARGV, 12 + count))
  end
  redis.call("ZADD", timeout, unpack(due))
  redis.call("ZADD", owner, unpack(granted))
  if holders == back then -- both are new
    redis.call("PEXPIREAT", timeout, text(horizon))
    redis.call("PEXPIREAT", owner, text(horizon))
  end
  if window > 0 then reply[5] = limit - holders + over - count end
  return reply
end
