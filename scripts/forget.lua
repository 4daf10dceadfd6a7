-- forget.lua: how tenants that are remembered although they have nothing are forgotten, so that there is room for others.
--
-- needs:    REMEMBERED, read_record, tenant_of_turn
-- provides: forget

-- forget removes some tenants that have nothing: of a sample those that were granted something longest ago. Those in accounts stay. What is
-- counted is of a generation.
local function forget(accounts, generation)
  if redis.call("HLEN", tenants) <= REMEMBERED / 2 then return end
  local sample, idle, list = redis.call("HRANDFIELD", tenants, REMEMBERED / 2, "WITHVALUES"), {}, {}
  for i = 1, #sample, 2 do
    local of, units, _, _, _, _, last = read_record(sample[i + 1])
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
  for i = 1, math.min(#list, REMEMBERED / 4) do fields[i] = list[i].field end
  if #fields > 0 then redis.call("HDEL", tenants, unpack(fields)) end
end
