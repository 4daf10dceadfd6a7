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

-- After a long lease the keys need not exist for so long once the name is idle. What has expired is left to the full script.
local renew_keys, expire_at = redis.call("PTTL", owner) > 4 * LINGER, nil
if renew_keys then
  local clock = redis.call("TIME")
  local now = 1000 * clock[1] + math.floor(clock[2] / 1000)
  if redis.call("ZCOUNT", timeout, "-inf", now) > 0 then return { 0 } end
  renew_keys = redis.call("ZCARD", timeout) == #ARGV
  expire_at = now + 2 * LINGER
end
redis.call("ZREM", timeout, unpack(ARGV)) -- first, because this key may not have been read yet
redis.call("ZREM", owner, unpack(ARGV))

-- include plain_renew.lua
return { 1 }
