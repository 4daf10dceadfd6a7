-- floor_acquire: one permit, if the name is in the state that the caller knows and a unit is free.
--
-- KEYS    owner    zset  id -> token
--         timeout  zset  id -> deadline, server ms
--         meta     hash  state, limit, last token, granted, epoch, expiry of the keys
-- ARGV    state, lease in ms, id
-- Returns token, epoch; nothing if it was not granted
local stored = redis.call("HMGET", KEYS[3], "state", "limit", "last", "granted", "epoch", "until")
local held = redis.call("ZCARD", KEYS[1])
if stored[1] ~= ARGV[1] or held >= tonumber(stored[2]) then return {} end

local clock = redis.call("TIME")
local token = clock[1] * 1000000 + clock[2]
local deadline = string.format("%d", math.floor(token / 1000) + ARGV[2])
token = math.max(token, stored[3] + 1)
if redis.call("ZADD", KEYS[2], "NX", deadline, ARGV[3]) == 0 then return {} end -- it was sent before
local text = string.format("%d", token)
redis.call("HSET", KEYS[3], "last", text, "granted", stored[4] + 1)
redis.call("ZADD", KEYS[1], text, ARGV[3])
if held == 0 then
  redis.call("PEXPIREAT", KEYS[1], stored[6])
  redis.call("PEXPIREAT", KEYS[2], stored[6])
end
return { token, tonumber(stored[5]) }
