-- plain_tenants_acquire: what plain_acquire does, on a plain name without waiters that tenants share, as in plain.lua, for ids that are all of
-- one tenant. It declines what would give it more than its limit.
--
-- KEYS    owner, timeout, counter, meta, tenants
-- ARGV    known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms
--         count        how many ids it acquires
--         declared     1 if it declares the tenant, or 0
--         .. if so its name, share and limit, and the us from since to when the caller first declared these
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
-- include plain_account.lua
if counted ~= holders then return { 0 } end
if first_id > first_tenant then -- turns may change with a share or a limit
  local name, new_share, new_limit, after = unpack(ARGV, first_tenant, first_id - 1)
  local declared_at = since + after
  if name ~= tenant then return { 0 } end
  if declared_at > tonumber(tenant_since) or tonumber(tenant_since) > micros then
    if new_share ~= share or new_limit ~= most then
      new_share, new_limit = declared_as(new_share, new_limit)
      if not new_share or last and (new_share + 0 ~= share + 0 or new_limit + 0 ~= most + 0) then return { 0 } end
    end
    share, most, tenant_since = new_share, new_limit, format("%d", declared_at)
  end
end

local leaving = #ARGV + 1 - first_released
if units < leaving then return { 0 } end
units = units - leaving + count
if most + 0 > 0 and units > most + 0 then return { 0 } end

-- include plain_enter.lua
if released > 0 then
  redis.call("ZREM", owner, unpack(ARGV, first_released))
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end
redis.call("ZADD", owner, unpack(entries))
if new_keys then redis.call("PEXPIREAT", owner, expiry) end

redis.call("HSET", tenants, "all", format("%s %d %s", generation, holders - released + count, last_token), field,
  write_plain(generation, units, share, most, tenant_since, place(last_token) .. "1"))

-- include plain_renew.lua
return { first }
