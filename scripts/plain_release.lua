-- plain_release: what release does for holders of a plain name without waiters, as in plain.lua: it grants nothing, so it
-- needs no limit, no ticket number and no clock.
--
-- KEYS    owner, timeout, meta
-- ARGV    ids
-- Returns 1: all were holders, and are released; or 0: release must answer
-- First write: ZREM, so that it works under OOM.
local owner, timeout, meta = unpack(KEYS)
local limit_form = "^%d+$"

-- include plain_leave.lua
if redis.call("ZREM", owner, unpack(ARGV)) == 0 then return { 0 } end
redis.call("ZREM", timeout, unpack(ARGV))
return { 1 }
