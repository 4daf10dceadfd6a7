-- release: removes holders and waiters.
--
-- ARGV    5 lease  of the tombstones: ms for which a late acquire of these ids must not succeed; 0: none can come.
--                  Below 0: -1 minus those ms, and the leases of these ids have ended: holders count as
--                  expired, except for grants of a rate, which are meant to expire
--         7.. ids
-- Results: the previous state of each id, HELD, WAITING or GONE, without a number
-- First write: ZREM, so that it works under OOM.
if expired_entries > 0 then reap() end
local before = holders
release(7)
if already_expired and window == 0 then expired_count = expired_count + before - holders end
if lease > 0 then
  local due = {}
  for i = 7, #ARGV do due[#due + 1], due[#due + 2] = text(now + lease), ARGV[i] end
  redis.call("ZADD", timeout, unpack(due))
  redis.call("PEXPIREAT", timeout, text(expire_at)) -- the key may be new
end

