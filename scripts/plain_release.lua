-- plain_release: what release does for holders of a plain name without waiters, as in plain.lua: it grants nothing, so it
-- needs no limit, ticket number or, except after a long lease, clock.
--
-- KEYS    owner, timeout, counter, meta
-- ARGV    ids
-- Returns 1: all were holders, and are released; or 0: release must answer
-- First write: ZREM, so that it works under OOM.
local owner, timeout, counter, meta = unpack(KEYS)
local LAYOUT, LINGER = "2", 10000 -- ms; as in semaphore.lua
local layout, plain = unpack(redis.call("HMGET", meta, "layout", "plain"), 1, 2)
if layout ~= LAYOUT or not tonumber(plain) then return { 0 } end

for _, token in ipairs(redis.call("ZMSCORE", owner, unpack(ARGV))) do
  if not token then return { 0 } end
end
local renew_keys = redis.call("PTTL", owner) > 4 * LINGER and redis.call("ZCARD", owner) == #ARGV
redis.call("ZREM", timeout, unpack(ARGV)) -- first, because this key has not been read yet
redis.call("ZREM", owner, unpack(ARGV))

-- Idle again after a long lease: the keys need not exist for so long.
renew_keys = renew_keys and redis.call("EXISTS", timeout) == 0
local clock = renew_keys and redis.call("TIME")
local expire_at = clock and 1000 * clock[1] + math.floor(clock[2] / 1000) + 2 * LINGER

-- include plain_renew.lua
return { 1 }
