-- plain_accounts.lua: what tenants have, as accounts.lua stores it, for plain_tenants.lua: at first those of the ids of the call, of which
-- those that it releases are taken away. It declines unless all is counted. plain_account.lua reads that of one tenant.
--
-- needs:    first_id, first_released, tenant_of, tenant_record
-- provides: account_list, accounts, add_account, counted, generation, newest_token, read_accounts, record_of, unread
local accounts, account_list = {}, {} -- by name; and those of which something changes
local unread, fields = {}, { "all" } -- those that have yet to be read
local function add_account(tenant)
  local known = { tenant = tenant, at = 1, taken = 0, released = 0 }
  accounts[tenant], unread[#unread + 1], fields[#fields + 1] = known, known, ":" .. tenant
  return known
end

-- read_accounts reads what is stored, and reports whether it is sound.
local generation, counted, newest_token -- units of all, and the newest token of a tenant
local function read_accounts()
  local records = redis.call("HMGET", tenants, unpack(fields))
  generation, counted, newest_token = string.match(records[1] or "", "^(%d+) (%d+) (%d+)$")
  if tonumber(counted) ~= holders then return false end
  for i, known in ipairs(unread) do
    local of, units, permits, share, most, declared_at, last = string.match(records[i + 1] or "", tenant_record)
    if of ~= generation then units, permits = 0, 0 end
    known.units, known.permits, known.share, known.limit = tonumber(units), tonumber(permits), tonumber(share or 1), tonumber(most or 0)
    known.since, known.last, known.stored_turn = tonumber(declared_at or 0), last, last and last .. known.tenant
    if math.max(known.units, known.permits, known.share, known.limit, known.since) >= 2 ^ 53 or known.share == 0 then return false end
  end
  unread, fields = {}, { "all" }
  return true
end

for i = first_id, #ARGV do
  local tenant = tenant_of(ARGV[i])
  local known = accounts[tenant]
  if not known then
    known = add_account(tenant)
    known.changes, account_list[#account_list + 1] = true, known
  end
  if i >= first_released then known.released = known.released + 1 end
end
if not read_accounts() then return { 0 } end
for _, known in ipairs(account_list) do
  if known.units < known.released or known.permits < known.released then return { 0 } end
  known.units, known.permits = known.units - known.released, known.permits - known.released
end

local function record_of(known)
  return string.format("%s %d %d %d %d %d %s", generation, known.units, known.permits, known.share, known.limit, known.since, known.last)
end
