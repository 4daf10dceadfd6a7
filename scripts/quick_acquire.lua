-- quick_acquire.lua: an acquire while nobody waits, of ids that nobody knows and that all fit, needs
-- no line, and neither does what it gives back. Nor does it reap: who has lapsed takes room that is not
-- needed, until the keys have to be renewed or somebody does not fit.
local count, back = tonumber(ARGV[9]), tonumber(ARGV[10])
local weighed = #ARGV > 10 + count + back
local seen = redis.call("ZMSCORE", timeout, unpack(ARGV, 11, 10 + count))
local quick = waiting + weights == 0 and not weighed and not renew and not declares and holders - back + count <= limit
for i = 1, count do quick = quick and not seen[i] end

if quick and back > 0 then
  for i = 11 + count, #ARGV do
    local held = redis.call("ZREM", owner, ARGV[i])
    reply[size + 1], reply[size + 2] = held == 1 and HELD or GONE, 0
    holders, size = holders - held, size + 2
  end
  redis.call("ZREM", timeout, unpack(ARGV, 11 + count))
  back, quick = 0, holders + count <= limit -- not if one of them was gone
end

if quick then
  local due, granted, deadline = {}, {}, text(now + lease)
  for i = 1, count do
    last = last < micros and micros or last + 1
    due[2 * i - 1], due[2 * i] = deadline, ARGV[10 + i]
    granted[2 * i - 1], granted[2 * i] = text(last), ARGV[10 + i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, last
  end
  redis.call("SET", counter, text(last), "PXAT", known[5])
  redis.call("ZADD", timeout, unpack(due))
  redis.call("ZADD", owner, unpack(granted))
  if holders == 0 then -- both are new
    redis.call("PEXPIREAT", timeout, known[5])
    redis.call("PEXPIREAT", owner, known[5])
  end
  return reply
end
