-- release: removes holders and waiters.
--
-- ARGV    lease    of the tombstones: ms for which a late acquire of these ids must not succeed; 0: none can come
--         overdue  1: the leases of these ids have ended, so holders count as expired, except for grants of a rate,
--                  which are meant to expire; 0: they have not
--         .. ids
-- Results: the previous state of each id, HELD, WAITING, EVICTED (or released) or GONE, without a number
-- First write: ZREM, so that it works under OOM.

-- include semaphore.lua

local overdue = ARGV[OWN]
local first_id = OWN + 1

-- include limit.lua
-- include epoch.lua
-- include remove.lua
-- include queue.lua
-- include forecast.lua

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
