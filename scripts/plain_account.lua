-- plain_account.lua: what a tenant has, as accounts.lua stores it, for the plain scripts of names that tenants share while no call waits. They
-- decline unless all ids of the call are of that tenant, and all is counted.
--
-- needs:    first_id, read_plain, tenant_of, tenants
-- provides: counted, field, generation, last, most, newest_token, share, tenant, tenant_since, units
local tenant = tenant_of(ARGV[first_id])
for i = first_id + 1, #ARGV do
  if tenant_of(ARGV[i]) ~= tenant then return { 0 } end
end
local field = ":" .. tenant
local all, record = unpack(redis.call("HMGET", tenants, "all", field), 1, 2)
local generation, counted, newest_token = string.match(all or "", "^(%d+) (%d+) (%d+)$")
local of, units, share, most, tenant_since, last = generation, "0", "1", "0", "0", nil
if record then of, units, share, most, tenant_since, last = read_plain(record) end
if not counted or not units or share + 0 == 0 then return { 0 } end
if counted + units + share + tenant_since >= 2 ^ 53 or most + 0 >= 2 ^ 53 then return { 0 } end
counted, units = tonumber(counted), of == generation and tonumber(units) or 0
