-- quick_release.lua: a release while nobody waits lets nobody in, so it needs no clock, limit or ticket.
-- Nor does it compare servers, unless something is missing: whether that was lost depends on it. Not if
-- weights have to be subtracted, tombstones set, something is to be counted, or keys shortened that would
-- outlive a long lease.
if waiting + weights + lease == 0 and not late and redis.call("PTTL", counter) <= 4 * LINGER then
  redis.call("ZREM", timeout, unpack(ARGV, 7)) -- first, for nothing has read this key yet
  local missing = false
  for i = 7, #ARGV do
    local held = redis.call("ZREM", owner, ARGV[i]) == 1
    missing = missing or not held
    reply[size + 1], reply[size + 2] = held and HELD or GONE, 0
    size = size + 2
  end
  if missing and identity() == known[8] then reply[4] = whole(known[6]) or 0 end
  return reply
end

