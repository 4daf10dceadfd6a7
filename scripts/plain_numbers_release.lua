-- plain_numbers_release: what plain_release does, on a name of which some permits have numbers.
--
-- KEYS    owner, timeout, meta, numbers
-- ARGV    ids
-- Returns 1: all were holders, and are released; or 0: release must answer
-- First write: ZREM, so that it works under OOM.
local owner, timeout, meta, numbers = unpack(KEYS)
local limit_form = "^%d+#$"

local stored = redis.call("ZCARD", numbers)
local units = {}
for i, id in ipairs(ARGV) do units[i] = "1:" .. id end

-- include plain_leave.lua
if redis.call("ZREM", owner, unpack(ARGV)) == 0 then return { 0 } end
if stored > 0 then redis.call("ZREM", numbers, unpack(units)) end
redis.call("ZREM", timeout, unpack(ARGV)) -- last: what is left of an id is removed with its deadline
return { 1 }
