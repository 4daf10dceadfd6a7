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
local first_id = 5
local limit_form = "^%d+$"

-- include plain.lua
count = tonumber(count)
local first_released = first_id + count
local released = #ARGV + 1 - first_released
if holders - released + count > limit then return { 0 } end
if released > 0 then
  local held, leaves = redis.call("ZMSCORE", owner, unpack(ARGV, first_released)), {}
  for i = 1, released do
    local id = ARGV[first_released + i - 1]
    if not held[i] or leaves[id] then return { 0 } end
    leaves[id] = true
  end
end

local deadline, expiry, new_keys = format("%d", now + lease), format("%d", expire_at), holders == released
local entries = { deadline, ARGV[first_id] } -- for ZADD: score, id, ...
if count == 1 then -- ZADD says whether the id is new
  if redis.call("ZADD", timeout, "NX", deadline, ARGV[first_id]) == 0 then return { 0 } end
else
  local known = redis.call("ZMSCORE", timeout, unpack(ARGV, first_id, first_released - 1))
  for i = 1, count do
    if known[i] then return { 0 } end
    entries[2 * i - 1], entries[2 * i] = deadline, ARGV[first_id + i - 1]
  end
  redis.call("ZADD", timeout, unpack(entries))
end
if new_keys then redis.call("PEXPIREAT", timeout, expiry) end -- at once, in case a right is missing for what follows

local first = last_number < micros and micros or last_number + 1
redis.call("SET", counter, format("%d", first + count - 1), "PXAT", expiry)
redis.pcall("HINCRBY", meta, "granted", count)
if released > 0 then
  redis.call("ZREM", owner, unpack(ARGV, first_released))
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end
for i = 1, count do entries[2 * i - 1] = format("%d", first + i - 1) end
redis.call("ZADD", owner, unpack(entries))
if new_keys then redis.call("PEXPIREAT", owner, expiry) end

-- include plain_renew.lua
return { first }
