-- evict: takes a permit, or a place in line, from whose it is. Its deadline stays as a tombstone: until
-- then its process asks about it, and so learns that it was not by lapsing that it went.
--
-- ARGV    7 id
-- Results: what it was, HELD, WAITING, EVICTED (or given up) or GONE, without a number
-- First write: ZREM, so that it works under OOM.
local id = ARGV[7]
if lapsed > 0 then reap() end
local deadline, token = redis.call("ZSCORE", timeout, id), redis.call("ZSCORE", owner, id)
local number = token or redis.call("ZSCORE", queue, id)
reply[size + 1], reply[size + 2] = (tonumber(deadline) or 0) > now and EVICTED or GONE, 0
if number then
  reply[size + 1] = remove({ id }, 1)[1]
  if deadline then
    if now < quiet then deadline = text(math.max(deadline, quiet)) end -- it may be that of an old file
    redis.call("ZADD", timeout, deadline, id)
    redis.call("PEXPIREAT", timeout, text(horizon)) -- it may be new
  end
  tell(id, whole(number) or 0, 0)
end
size = size + 2

