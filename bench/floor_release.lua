-- floor_release: releases one permit, if the name is in the state that the caller knows.
--
-- KEYS    as in floor_acquire.lua
-- ARGV    state, id
-- Returns whether it was held (1 or 0), epoch; nothing if the state is another
local stored = redis.call("HMGET", KEYS[3], "state", "epoch")
if stored[1] ~= ARGV[1] then return {} end
redis.call("ZREM", KEYS[2], ARGV[2])
return { redis.call("ZREM", KEYS[1], ARGV[2]), tonumber(stored[2]) }
