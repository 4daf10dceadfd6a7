-- quick_acquire.lua: an acquire while nobody waits, of ids that nobody knows and that all fit, needs
-- no line. Nor does it reap: who has lapsed takes room that is not needed, until the keys have to be
-- renewed or somebody does not fit.
local ids, quick = #ARGV - 9, not renew and not declares and waiting + weights == 0 -- no weights follow the ids
if quick and ids == tonumber(ARGV[9]) and holders + ids <= limit then
  local seen = redis.call("ZMSCORE", timeout, unpack(ARGV, 10))
  for i = 1, ids do quick = quick and not seen[i] end
else
  quick = false
end
if quick then
  local due, granted, deadline = {}, {}, text(now + lease)
  for i = 1, ids do
    last = last < micros and micros or last + 1
    due[2 * i - 1], due[2 * i] = deadline, ARGV[9 + i]
    granted[2 * i - 1], granted[2 * i] = text(last), ARGV[9 + i]
    reply[2 * i + 2], reply[2 * i + 3] = HELD, last
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

