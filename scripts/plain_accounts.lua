-- plain_accounts.lua: what tenants have, as accounts.lua stores it, for plain_tenants.lua: those of the ids of the call, of which those that
-- it releases are taken away, and those whose turns come first. It declines unless all is counted. plain_account.lua reads that of one tenant.
--
-- needs:    first_id, first_released, first_turns, read_record, tenant_of, tenant_of_turn
-- provides: account_list, accounts, counted, generation, newest_token
local accounts, account_list, fields = {}, {}, { "all" } -- accounts: by name
local function account_of(tenant)
  local known = accounts[tenant]
  if not known then
    -- Lua makes room for all fields at once if it knows them from the start.
    known = { tenant = tenant, released = 0, units = 0, permits = 0, share = 1, limit = 0, since = "0", last = false, token = 0, changes = false,
      waits = false, heads = false, at = 1, taken = 0, more = false }
    accounts[tenant], account_list[#account_list + 1], fields[#fields + 1] = known, known, ":" .. tenant
  end
  return known
end
for i = first_id, #ARGV do
  local known = account_of(tenant_of(ARGV[i]))
  known.changes = true
  if i >= first_released then known.released = known.released + 1 end
end
for i = 1, #first_turns, 2 do account_of(tenant_of_turn(first_turns[i])) end

local records = redis.call("HMGET", tenants, unpack(fields))
local generation, counted, newest_token = string.match(records[1] or "", "^(%d+) (%d+) (%d+)$")
if tonumber(counted) ~= holders then return { 0 } end
for i, known in ipairs(account_list) do
  local of, units, permits, share, most, declared_at, last = read_record(records[i + 1])
  if last then
    if of ~= generation then units, permits = 0, 0 end
    known.units, known.permits, known.share, known.limit = tonumber(units), tonumber(permits), tonumber(share), tonumber(most)
    known.since, known.last, known.token = declared_at, last, tonumber(string.sub(last, 1, 14), 16)
    known.stored_turn = last .. known.tenant
    if math.max(known.units, known.permits, known.share, known.limit, tonumber(declared_at)) >= 2 ^ 53 or known.share == 0 then return { 0 } end
  end
  known.units, known.permits = known.units - known.released, known.permits - known.released
  if math.min(known.units, known.permits) < 0 then return { 0 } end
end
