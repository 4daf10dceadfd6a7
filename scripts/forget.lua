-- forget.lua: how tenants that have nothing are forgotten. Some are remembered: of tenants that hold equally little the next is the one that
-- has been granted nothing for longest.
--
-- needs:    lane_of, tenant_record
-- provides: forget
local FEW = 128 -- how many tenants are remembered although they may have nothing

-- forget removes more tenants that have nothing than were added, if there are many: of some, those that were granted something longest ago.
-- Those in accounts stay. What is counted is of a generation.
local function forget(added, accounts, generation)
  if redis.call("HLEN", tenants) <= FEW then return end
  local sample, idle = redis.call("HRANDFIELD", tenants, 2 * added + 2, "WITHVALUES"), {}
  for i = 1, #sample, 2 do
    local of, units, _, _, _, _, last = string.match(sample[i + 1], tenant_record)
    local tenant = string.sub(sample[i], 2)
    local lane = lane_of(tenant)
    if last and (of ~= generation or units == "0") and not accounts[tenant]
      and #redis.call("ZRANGEBYLEX", lanes, "[" .. lane, "(" .. lane .. "\255", "LIMIT", 0, 1) == 0 then
      idle[#idle + 1] = { sample[i], last }
    end
  end
  table.sort(idle, function(one, other) return one[2] < other[2] end)
  for i = 1, math.min(#idle, added + 1) do redis.call("HDEL", tenants, idle[i][1]) end
end
