-- evict: revokes a permit, or removes a waiter. The deadline stays as a tombstone: until then the process that had
-- the id can query it, and so learn that it was evicted and did not expire.
--
-- ARGV    id  of the holder or waiter
-- Results: the previous state, HELD, WAITING, EVICTED (or released) or GONE, without a number
-- First write: ZREM, so that it works under OOM.

-- include semaphore.lua
-- include limit.lua
-- include epoch.lua
-- include remove.lua
-- include queue.lua
-- include forecast.lua
forecast = nil -- no waiter is the caller's

local id = ARGV[OWN]
if expired_entries > 0 then reap() end
local deadline, token = redis.call("ZSCORE", timeout, id), redis.call("ZSCORE", owner, id)
local number = token or redis.call("ZSCORE", queue, id)
reply[size + 1], reply[size + 2] = (tonumber(deadline) or 0) > now and EVICTED or GONE, 0
if number then
  reply[size + 1] = remove({ id }, 1)[1]
  if token then departed.add(0) end
  if deadline then
    if now < grace_until then deadline = text(math.max(deadline, grace_until)) end -- it may be that of an old file
    redis.call("ZADD", timeout, deadline, id)
    redis.call("PEXPIREAT", timeout, text(expire_at)) -- the key may be new
  end
  notify(id, whole(number) or 0, 0)
end
size = size + 2

-- include finish.lua
