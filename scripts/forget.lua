-- forget.lua: how tenants that have nothing are forgotten. Some are remembered: of tenants that hold equally little the next is the one that
-- has been granted nothing for longest.
--
-- needs:    SOME, crowded, tenant_of_turn, tenant_record
-- provides: forget

-- include crowd.lua

-- forget removes at least as many tenants that have nothing as were added, if there are many: of a sample those that were granted something
-- longest ago. One call does it for those that added up to SOME. Those in accounts stay. What is counted is of a generation.
local function forget(added, accounts, generation)
  local most = math.max(added, SOME) + 1
  if not crowded(redis.call("HLEN", tenants), added) then return end
  local sample, idle, list = redis.call("HRANDFIELD", tenants, 2 * most, "WITHVALUES"), {}, {}
  for i = 1, #sample, 2 do
    local of, units, _, _, _, _, last = string.match(sample[i + 1], tenant_record)
    local tenant = string.sub(sample[i], 2)
    if last and (of ~= generation or units == "0") and not accounts[tenant] then idle[#idle + 1] = last .. tenant end
  end
  if #idle == 0 then return end
  -- A tenant has a turn exactly while it has waiters.
  local waits = redis.call("ZMSCORE", turns, unpack(idle))
  for i, turn in ipairs(idle) do
    if not waits[i] then list[#list + 1] = { token = tonumber(string.sub(turn, 1, 14), 16), field = ":" .. tenant_of_turn(turn) } end
  end
  table.sort(list, function(one, other) return one.token < other.token end)
  local fields = {}
  for i = 1, math.min(#list, most) do fields[i] = list[i].field end
  if #fields > 0 then redis.call("HDEL", tenants, unpack(fields)) end
end
