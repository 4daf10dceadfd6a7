-- quick_acquire.lua: an acquire while nobody waits, of ids that nobody knows and that all fit, needs
-- no line, and neither does what it gives back, if all of that holds. Nor does it reap: who has lapsed takes room that is not
-- needed, until the keys have to be renewed or somebody does not fit.
local count, back = tonumber(ARGV[9]), tonumber(ARGV[10])
local weighed = #ARGV > 10 + count + back
local seen = redis.call("ZMSCORE", timeout, unpack(ARGV, 11, 10 + count))
local quick = waiting + weights == 0 and not weighed and not renew and not declares and holders - back + count <= limit
for i = 1, count do quick = quick and not seen[i] end

if quick and back > 0 then
  local held = redis.call("ZMSCORE", owner, unpack(ARGV, 11 + count))
  for i = 1, back do
    quick = quick and held[i]
    reply[2 * i + 2], reply[2 * i + 3] = HELD, 0
  end
end

if quick then
  size = size + 2 * back
  local due, granted, deadline = {}, {}, text(now + lease)
  for i = 1, count do
    last = last < micros and micros or last + 1
    due[2 * i - 1], due[2 * i] = deadline, ARGV[10 + i]
    granted[2 * i - 1], granted[2 * i] = text(last), ARGV[10 + i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, last
  end
  redis.call("SET", counter, text(last), "PXAT", known[5])
  if back > 0 then
    redis.call("ZREM", owner, unpack(ARGV, 11 + count))
    redis.call("ZREM", timeout, unpack(ARGV, 11 + count))
  end
  redis.call("ZADD", timeout, unpack(due))
  redis.call("ZADD", owner, unpack(granted))
  if holders == back then -- both are new
    redis.call("PEXPIREAT", timeout, known[5])
    redis.call("PEXPIREAT", owner, known[5])
  end
  return reply
end
