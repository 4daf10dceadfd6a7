-- plain_declare.lua: what a call declares of tenants, for the plain scripts of names that they share. They decline if it changes a share or a
-- limit, because turns may change with it.
--
-- needs: accounts, first_id, first_tenant, micros
for i = first_tenant, first_id - 4, 4 do
  local known, declared_at = accounts[ARGV[i]], since + ARGV[i + 3]
  if not known then return { 0 } end
  if declared_at > known.since or known.since > micros then
    local share, most = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    if known.last and (share ~= known.share or most ~= known.limit) then return { 0 } end
    known.share, known.limit, known.since = share, most, declared_at
  end
end
