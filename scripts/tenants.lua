-- tenants: some of the tenants that have permits or waiters. It scans the key, so a tenant that is there all the time is listed at
-- least once. A name that tenants do not share has one tenant, the one without a name.
--
-- ARGV    cursor  where the scan goes on, as this script returned it; "0": at the beginning
--         count   about how many tenants to return
-- Returns the next cursor, "0" at the end, then for each tenant its name, share, limit, units, permits, waiters, and the us for which the
--         first of these has waited (-1: there is none). What has expired does not count, of the BOUND entries that
--         expired first.
-- First write: none.

-- include semaphore.lua
-- include limit.lua
-- include tenant_ids.lua

local cursor, count = unpack(ARGV, OWN, OWN + 1)
local expired = redis.call("ZRANGEBYSCORE", timeout, "-inf", text(now), "LIMIT", 0, BOUND)
local gone = {} -- what has expired, by tenant
local tokens = #expired > 0 and redis.call("ZMSCORE", owner, unpack(expired))
local positions = #expired > 0 and redis.call("ZMSCORE", queue, unpack(expired))
for i, id in ipairs(expired) do
  local tenant = tenant_of(id)
  gone[tenant] = gone[tenant] or { units = 0, permits = 0, waiters = 0 }
  local of = gone[tenant]
  if tokens[i] then
    of.units, of.permits = of.units + parse_weight(weight_count > 0 and redis.call("HGET", weight, id)), of.permits + 1
  elseif positions[i] then
    of.waiters = of.waiters + 1
  end
end

local list = { "0" }
local function add(tenant, share, limit, units, permits, waiting, first)
  local less = gone[tenant] or { units = 0, permits = 0, waiters = 0 }
  units, permits, waiting = units - less.units, permits - less.permits, waiting - less.waiters
  if permits + waiting <= 0 then return end
  local waited = first and waiting > 0 and math.max(0, steady - first) or -1
  for _, value in ipairs({ tenant, share, limit, math.max(0, units), math.max(0, permits), math.max(0, waiting), waited }) do list[#list + 1] = value end
end

if not stored_tenants then
  local extra = holders > 0 and weight_count > 0 and whole(redis.call("HGET", weight, "extra"), MOST_EXTRA) or 0
  local first = redis.call("ZRANGE", queue, 0, 0, "WITHSCORES")[2]
  add("", 1, 0, holders + extra, holders, waiters, whole(first))
  return list
end

local generation = string.match(redis.call("HGET", tenants, "all") or "", "^%d+")
local found = redis.call("HSCAN", tenants, cursor, "COUNT", count)
list[1] = found[1]
for i = 1, #found[2], 2 do
  local tenant = string.match(found[2][i], "^:(.*)$")
  local of, units, permits, share, limit = read_record(found[2][i + 1])
  if tenant and of then
    if of ~= generation then units, permits = 0, 0 end
    local lane = lane_of(tenant)
    local waiting = waiters > 0 and redis.call("ZLEXCOUNT", lanes, "[" .. lane, "(" .. lane .. "\255") or 0
    local head = waiting > 0 and redis.call("ZRANGEBYLEX", lanes, "[" .. lane, "(" .. lane .. "\255", "LIMIT", 0, 1)[1]
    local first = head and whole(to_position(head, lane))
    add(tenant, whole(share) or 1, whole(limit) or 0, whole(units) or 0, whole(permits) or 0, waiting, first)
  end
end
return list
