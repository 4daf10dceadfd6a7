-- enter.lua: stores new holders and waiters. The lists are for ZADD and HSET: score, id, ... and id, weight, ...; all
-- but due may be empty.
--
-- needs:    expire_at, store_holders
-- provides: enter
-- changes:  weight_count
local function enter(due, granted, queued, new_weights)
  if #new_weights > 0 or #queued > 0 and tonumber(stored_plain) then end_plain() end
  local all_new, had_waiters = 2 * (holders + waiters) == #granted + #queued, 2 * waiters > #queued
  redis.call("ZADD", timeout, unpack(due))
  if all_new then redis.call("PEXPIREAT", timeout, text(expire_at)) end
  if #new_weights > 0 then
    weight_count = weight_count + redis.call("HSET", weight, unpack(new_weights))
    redis.call("PEXPIREAT", weight, text(expire_at))
  end
  if #granted > 0 then store_holders(granted) end
  if #queued > 0 then
    redis.call("ZADD", queue, unpack(queued))
    if not had_waiters then redis.call("PEXPIREAT", queue, text(expire_at)) end
  end
end

