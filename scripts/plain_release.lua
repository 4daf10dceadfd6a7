-- plain_release: what release does for holders of a plain name without waiters, as in plain.lua: it grants nothing, so it
-- needs no clock, limit or ticket number.
--
-- KEYS    owner, timeout, meta
-- ARGV    ids
-- Returns 1: all were holders, and are released; or 0: release must answer
-- First write: ZREM, so that it works under OOM.
local owner, timeout, meta = unpack(KEYS)
local LAYOUT, LINGER = "2", 10000 -- ms; as in semaphore.lua
local layout, plain = unpack(redis.call("HMGET", meta, "layout", "plain"), 1, 2)
if layout ~= LAYOUT or not tonumber(plain) then return { 0 } end

-- The last release after a long lease shortens how long the keys exist.
if redis.call("PTTL", owner) > 4 * LINGER and redis.call("ZCARD", owner) == #ARGV then return { 0 } end
for _, token in ipairs(redis.call("ZMSCORE", owner, unpack(ARGV))) do
  if not token then return { 0 } end
end
redis.call("ZREM", timeout, unpack(ARGV)) -- first, because this key has not been read yet
redis.call("ZREM", owner, unpack(ARGV))
return { 1 }
