-- release: takes ids out, whether they hold or wait.
--
-- ARGV    5 lease  as a tombstone: ms for which a late acquire of these ids must find them gone; 0:
--                  none can come. Below 0: as much below -1, and their leases have ended: who holds
--                  has lapsed, but for grants of a rate, which are meant to
--         7.. ids
-- Results: what each id was, HELD, WAITING or GONE, without a number
-- First write: ZREM, so that it works under OOM.
if lapsed > 0 then reap() end
local before = holders
give_back(7)
if late and window == 0 then overdue = overdue + before - holders end
if lease > 0 then
  local due = {}
  for i = 7, #ARGV do due[#due + 1], due[#due + 2] = text(now + lease), ARGV[i] end
  redis.call("ZADD", timeout, unpack(due))
  redis.call("PEXPIREAT", timeout, text(horizon)) -- it may be new
end

