-- release: removes holders and waiters.
--
-- ARGV    lease    of the tombstones: ms for which a late acquire of these ids must not succeed; 0: none can come
--         overdue  1: the leases of these ids have ended, so holders count as expired, except for grants of a rate,
--                  which are meant to expire; 0: they have not
--         .. ids
-- Results: the previous state of each id, HELD, WAITING or GONE, without a number
-- First write: ZREM, so that it works under OOM.

-- include semaphore.lua

local overdue = ARGV[OWN]
local first_id = OWN + 1

-- The fast path: without waiters a release grants nothing, so it needs no clock, limit or ticket number. It compares
-- servers only if an id is missing: whether it was lost depends on that. It is not used if weights must be
-- subtracted, tombstones set, expired permits counted, or keys shortened that would outlive a long lease.
local fast = waiters + weight_count + lease == 0 and overdue == "0" and redis.call("PTTL", counter) <= 4 * LINGER
if fast then
  redis.call("ZREM", timeout, unpack(ARGV, first_id)) -- first, because this key has not been read yet
  local missing = false
  for i = first_id, #ARGV do
    local held = redis.call("ZREM", owner, ARGV[i]) == 1
    missing = missing or not held
    reply[size + 1], reply[size + 2] = held and HELD or GONE, 0
    size = size + 2
  end
  if missing and identity() == stored_server then reply[EPOCH] = whole(stored_epoch) or 0 end
  return reply
end

-- include limit.lua
-- include epoch.lua
-- include remove.lua
-- include queue.lua

if expired_entries > 0 then reap() end
local before = holders
release(first_id)
if overdue == "1" and window == 0 then expired_count = expired_count + before - holders end
if lease > 0 then
  local due = {}
  for i = first_id, #ARGV do due[#due + 1], due[#due + 2] = text(now + lease), ARGV[i] end
  redis.call("ZADD", timeout, unpack(due))
  redis.call("PEXPIREAT", timeout, text(expire_at)) -- the key may be new
end

-- include finish.lua
