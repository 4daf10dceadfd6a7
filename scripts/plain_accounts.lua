-- plain_accounts.lua: what tenants have, as accounts.lua stores it, for plain_tenants.lua: those of the ids of the call, without those that
-- it releases, and those whose turns come first. It declines unless all is counted. plain_account.lua reads that of one tenant.
--
-- needs:    first_id, first_released, first_turns, holders, read_plain, tenant_of, tenant_of_turn, tenants
-- provides: account_list, accounts, counted, fields, generation, newest_token, owners_of
local accounts, account_list, fields = {}, {}, { "all" } -- accounts: by name
local function account_of(tenant)
  local known = accounts[tenant]
  if not known then
    -- Lua makes room for 16 fields at once if more than 8 are here.
    known = { tenant = tenant, released = 0, units = 0, share = "1", limit = "0", since = "0", last = nil, at = 1, taken = 0 }
    accounts[tenant], account_list[#account_list + 1], fields[#fields + 1] = known, known, ":" .. tenant
  end
  return known
end
local owners_of = {} -- whose each id is
for i = first_id, #ARGV do
  local known = account_of(tenant_of(ARGV[i]))
  known.changes, owners_of[i] = true, known
  if i >= first_released then known.released = known.released + 1 end
end
for i = 1, #first_turns, 2 do account_of(tenant_of_turn(first_turns[i])) end

local records = redis.call("HMGET", tenants, unpack(fields))
local generation, counted, newest_token = string.match(records[1] or "", "^(%d+) (%d+) (%d+)$")
if tonumber(counted) ~= holders then return { 0 } end
for i = 1, #account_list do
  local known, record = account_list[i], records[i + 1]
  local released = known.released
  if record then
    local of, units, share, most, since, last = read_plain(record)
    if not units or units + share + since >= 2 ^ 53 or most + 0 >= 2 ^ 53 or share + 0 == 0 then return { 0 } end
    if of ~= generation then units = 0 end
    if units + 0 < released then return { 0 } end
    known.units, known.share, known.limit, known.since, known.last = units - released, share, most, since, last
    known.stored_turn = last .. known.tenant
  elseif released > 0 then
    return { 0 }
  end
end
