-- plain_account.lua: what a tenant has, as accounts.lua stores it, for the plain scripts of names that tenants share while nobody waits. They
-- decline unless all ids of the call are of that tenant, and all is counted.
--
-- needs:    first_id, read_record, tenant_of
-- provides: counted, field, generation, last, most, newest_token, permits, share, tenant, tenant_since, units
local tenant = tenant_of(ARGV[first_id])
for i = first_id + 1, #ARGV do
  if tenant_of(ARGV[i]) ~= tenant then return { 0 } end
end
local field = ":" .. tenant
local all, record = unpack(redis.call("HMGET", tenants, "all", field), 1, 2)
local generation, counted, newest_token = string.match(all or "", "^(%d+) (%d+) (%d+)$")
local of, units, permits, share, most, tenant_since, last = read_record(record)
if not counted then return { 0 } end
if of ~= generation then units, permits = 0, 0 end
counted, units, permits = tonumber(counted), tonumber(units), tonumber(permits)
share, most, tenant_since = tonumber(share or 1), tonumber(most or 0), tenant_since or "0"
if math.max(counted, units, permits, share, most, tonumber(tenant_since)) >= 2 ^ 53 or share == 0 then return { 0 } end
