-- plain_tenants_release: what release does for holders of a plain name without waiters that tenants share, as in plain.lua: it grants
-- nothing, so it needs no limit, ticket number or, except after a long lease, clock.
--
-- KEYS    owner, timeout, counter, meta, tenants
-- ARGV    ids
-- Returns 1: all were holders, and are released; or 0: release must answer
-- First write: ZREM, so that it works under OOM.
local owner, timeout, counter, meta, tenants = unpack(KEYS)
local first_id, first_released = 1, 1
local LAYOUT, LINGER = "2", 10000 -- ms; as in semaphore.lua
local layout, plain = unpack(redis.call("HMGET", meta, "layout", "plain"), 1, 2)
if layout ~= LAYOUT or not plain or not string.find(plain, "^%d+@$") then return { 0 } end
local holders, leaves = redis.call("ZCARD", owner), {}
for _, id in ipairs(ARGV) do
  if leaves[id] then return { 0 } end
  leaves[id] = true
end

-- include plain_leave.lua
-- include tenant_ids.lua
-- include plain_accounts.lua
redis.call("ZREM", timeout, unpack(ARGV)) -- first, because this key may not have been read yet
local removed = redis.call("ZREM", owner, unpack(ARGV))
local records = { "all", string.format("%s %d %s", generation, holders - removed, newest_token) }
for _, known in ipairs(account_list) do records[#records + 1], records[#records + 2] = ":" .. known.tenant, record_of(known) end
redis.call("HSET", tenants, unpack(records))

-- include plain_renew.lua
return { 1 }
