-- quick_release.lua: without waiters a release grants nothing, so it needs no clock, limit or ticket number. It compares
-- servers only if an id is missing: whether it was lost depends on that. It is not used if weights must be
-- subtracted, tombstones set, expired permits counted, or keys shortened that would outlive a long lease.
if waiters + weight_count + lease == 0 and not already_expired and redis.call("PTTL", counter) <= 4 * LINGER then
  redis.call("ZREM", timeout, unpack(ARGV, 7)) -- first, because this key has not been read yet
  local missing = false
  for i = 7, #ARGV do
    local held = redis.call("ZREM", owner, ARGV[i]) == 1
    missing = missing or not held
    reply[size + 1], reply[size + 2] = held and HELD or GONE, 0
    size = size + 2
  end
  if missing and identity() == meta_fields[8] then reply[4] = whole(meta_fields[6]) or 0 end
  return reply
end

