-- plain_tenants_acquire: what plain_acquire does, on a plain name without waiters that tenants share, as in plain.lua. It declines what would
-- give a tenant more than its limit.
--
-- KEYS    owner, timeout, counter, meta, tenants
-- ARGV    known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms
--         count        how many ids it acquires
--         declared     how many tenants it declares, all of them of these ids
--         .. for each its name, share and limit, and the us from since to when the caller first declared these
--         .. ids, then the ids to release before that, all of which must be holders
-- Returns the token of the first id, the others have those that follow; or 0: acquire must answer
-- First write: ZADD, so that it is refused under OOM.
local owner, timeout, counter, meta, tenants = unpack(KEYS)
local known_epoch, since, lease, count, declared = unpack(ARGV, 1, 5)
local first_tenant = 6
local first_id = first_tenant + 4 * declared
local first_released = first_id + count
local limit_form = "^(%d+)@$"

-- include plain.lua
if renew_keys and holders > 0 then return { 0 } end -- then the full script compares what is counted with what is stored
-- include tenant_ids.lua
-- include plain_accounts.lua
-- include plain_declare.lua
-- include crowd.lua
local of, added = {}, 0 -- the tenant of each new id, and how many are not known yet
for i = 1, count do
  of[i] = accounts[tenant_of(ARGV[first_id + i - 1])]
  of[i].units, of[i].permits = of[i].units + 1, of[i].permits + 1
end
for _, known in ipairs(account_list) do
  if known.limit > 0 and known.units > known.limit then return { 0 } end
  if not known.stored_turn then added = added + 1 end
end
if added > 0 and crowded(redis.call("HLEN", tenants) + added, added) then return { 0 } end -- the full script forgets some

-- include plain_enter.lua
if released > 0 then
  redis.call("ZREM", owner, unpack(ARGV, first_released))
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end
for i = 1, count do
  entries[2 * i - 1] = format("%d", first + i - 1)
  of[i].last = place(first + i - 1) .. "1"
end
redis.call("ZADD", owner, unpack(entries))
if new_keys then redis.call("PEXPIREAT", owner, expiry) end

local records = { "all", format("%s %d %d", generation, holders - released + count, first + count - 1) }
for _, known in ipairs(account_list) do
  records[#records + 1], records[#records + 2] = ":" .. known.tenant, record_of(known)
end
redis.call("HSET", tenants, unpack(records))

-- include plain_renew.lua
return { first }
