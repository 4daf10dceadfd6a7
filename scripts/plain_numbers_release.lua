-- plain_numbers_release: what plain_release does, on a name of which some permits have numbers.
--
-- KEYS    owner, timeout, counter, meta, numbers
-- ARGV    ids
-- Returns 1: all were holders, and are released; or 0: release must answer
-- First write: ZREM, so that it works under OOM.
local owner, timeout, counter, meta, numbers = unpack(KEYS)
local LAYOUT, LINGER = "2", 10000 -- ms; as in semaphore.lua
local layout, plain = unpack(redis.call("HMGET", meta, "layout", "plain"), 1, 2)
if layout ~= LAYOUT or not plain or not string.find(plain, "#", 1, true) then return { 0 } end

for _, token in ipairs(redis.call("ZMSCORE", owner, unpack(ARGV))) do
  if not token then return { 0 } end
end
local units = {}
for i, id in ipairs(ARGV) do units[i] = "1:" .. id end

-- After a long lease the keys need not exist for so long once the name is idle. What has expired is left to the full script.
local renew_keys, expire_at = redis.call("PTTL", owner) > 4 * LINGER, nil
local stored, deadlines = redis.call("ZCARD", numbers), redis.call("ZCARD", timeout)
if renew_keys then
  local clock = redis.call("TIME")
  local now = 1000 * clock[1] + math.floor(clock[2] / 1000)
  if redis.call("ZCOUNT", timeout, "-inf", now) > 0 then return { 0 } end
  renew_keys = deadlines == #ARGV
  expire_at = now + 2 * LINGER
end
redis.call("ZREM", owner, unpack(ARGV))
if stored > 0 then redis.call("ZREM", numbers, unpack(units)) end
redis.call("ZREM", timeout, unpack(ARGV)) -- last: what is left of an id is removed with its deadline

-- include plain_renew.lua
return { 1 }
