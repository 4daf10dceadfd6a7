-- quick_release.lua: a release while nobody waits lets nobody in, so it needs no clock, limit or
-- ticket. Not if weights have to be subtracted, tombstones set, something is to be counted, or keys
-- shortened that would outlive a long lease.
if waiting + weights + lease == 0 and not late and redis.call("PTTL", counter) <= 4 * LINGER then
  redis.call("ZREM", timeout, unpack(ARGV, 7)) -- first, for nothing has read this key yet
  for i = 7, #ARGV do
    reply[size + 1], reply[size + 2] = redis.call("ZREM", owner, ARGV[i]) == 1 and HELD or GONE, 0
    size = size + 2
  end
  reply[4] = tonumber(known[6]) or 0
  return reply
end

