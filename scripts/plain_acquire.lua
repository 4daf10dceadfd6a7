-- plain_acquire: what acquire does for new ids that weigh 1 and fit, on a plain name without waiters, as in plain.lua. So
-- it needs neither the queue nor the weights.
--
-- KEYS    owner, timeout, counter, meta
-- ARGV    known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms
--         count        how many ids it acquires
--         .. ids, then the ids to release before that, all of which must be holders
-- Returns the token of the first id, the others have those that follow; or 0: acquire must answer
-- First write: ZADD, so that it is refused under OOM.
local owner, timeout, counter, meta = unpack(KEYS)
local known_epoch, since, lease, count = unpack(ARGV, 1, 4)
local first_id, first_released = 5, 5 + count
local limit_form = "^%d+$"

-- include plain.lua
-- include plain_enter.lua
if released > 0 then
  redis.call("ZREM", owner, unpack(ARGV, first_released))
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end
redis.call("ZADD", owner, unpack(entries))
if new_keys then redis.call("PEXPIREAT", owner, expiry) end

-- include plain_renew.lua
return { first }
