-- plain_tenants_release: what release does for holders, all of one tenant, of a plain name without waiters that tenants share, as in plain.lua:
-- it grants nothing, so it needs no limit, no ticket number and no clock.
--
-- KEYS    owner, timeout, meta, tenants
-- ARGV    ids
-- Returns 1: all were holders, and are released; or 0: release must answer
-- First write: ZREM, so that it works under OOM.
local owner, timeout, meta, tenants = unpack(KEYS)
local first_id = 1
local limit_form = "^%d+@$"

-- include plain_leave.lua
-- include tenant_ids.lua
-- include plain_account.lua
if math.min(counted, units) < #ARGV then return { 0 } end
local removed = redis.call("ZREM", owner, unpack(ARGV)) -- fewer if the call has an id twice
if removed == 0 then return { 0 } end
redis.call("ZREM", timeout, unpack(ARGV))
units = units - removed
local all_now = string.format("%s %d %s", generation, counted - removed, newest_token)
if units == 0 and redis.call("HLEN", tenants) > REMEMBERED then
  redis.call("HDEL", tenants, field)
  redis.call("HSET", tenants, "all", all_now)
else
  redis.call("HSET", tenants, "all", all_now, field, write_plain(generation, units, share, most, tenant_since, last))
end
return { 1 }
