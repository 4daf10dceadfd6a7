-- audit_tenants: what is counted of the tenants of one name, and what follows from its holders and waiters, at one moment, for fairsem
-- doctor. It only reads. accounts.lua says what is stored.
--
-- KEYS    owner, queue, weight, lanes, turns, tenants
-- ARGV    most  ids and tenants that are read; if there are more, nothing is compared
-- Returns complete  1, or 0 if there is too much to compare
--         counting  1 while the scripts count again, so that nothing is compared
--         sum       units that are counted of all; -1: there is no sum
--         units     that are in use, as all scripts count them
--         wrong     how many tenants have other units or permits than are counted; then of the first: the tenant, the units and
--                   permits that are counted, and those that it has
--         missing   how many waiters are not in lanes, and the id of the first
--         surplus   how many members of lanes are no waiters
--         stuck     how many tenants are not in turns although they have waiters, and the first of them
--         late      how many are there with other units per share than they have, and the first of them
local owner, queue, weight, lanes, turns, tenants = unpack(KEYS)
local most = unpack(ARGV, 1, 1)
most = tonumber(most)

-- include tenant_ids.lua
local function text(number) return string.format("%.0f", number) end
local holders, waiters = redis.call("ZCARD", owner), redis.call("ZCARD", queue)
if holders > most or waiters > most or redis.call("HLEN", tenants) > 4 * most or redis.call("ZCARD", turns) > 4 * most then
  return { 0, 0, "-1", "0", { 0 }, { 0 }, 0, { 0 }, { 0 } }
end

local generation, sum, counting = string.match(redis.call("HGET", tenants, "all") or "", "^(%d+) (%d+) %d+ ?(%d*)$")
local all = {} -- by tenant
local function account(tenant)
  all[tenant] = all[tenant] or { tenant = tenant, units = 0, permits = 0, counted = 0, counted_permits = 0, share = 1, limit = 0 }
  return all[tenant]
end

local cursor = "0"
repeat
  local page = redis.call("HSCAN", tenants, cursor, "COUNT", 1000)
  cursor = page[1]
  for i = 1, #page[2], 2 do
    local tenant = string.match(page[2][i], "^:(.*)$")
    local of, units, permits, share, limit = read_record(page[2][i + 1])
    if tenant and of then
      local known = account(tenant)
      known.share, known.limit = math.max(1, tonumber(share)), tonumber(limit)
      if of == generation then known.counted, known.counted_permits = tonumber(units), tonumber(permits) end
    end
  end
until cursor == "0"

local function units_of(id) return tonumber(redis.call("HGET", weight, id)) or 1 end

for _, id in ipairs(redis.call("ZRANGE", owner, 0, -1)) do
  local known = account(tenant_of(id))
  known.units, known.permits = known.units + units_of(id), known.permits + 1
end

local missing, first_missing = 0, false
local waiting = redis.call("ZRANGE", queue, 0, -1, "WITHSCORES")
for i = 1, #waiting, 2 do
  local id, position = waiting[i], tonumber(waiting[i + 1])
  local known = account(tenant_of(id))
  local suffix = known.tenant == "" and "" or ":" .. known.tenant
  local member = lane_of(known.tenant) .. place(position) .. string.sub(id, 1, #id - #suffix)
  if not redis.call("ZSCORE", lanes, member) then
    missing, first_missing = missing + 1, first_missing or id
  end
  known.head = known.head or { units = units_of(id) }
end

local stored_turns = redis.call("ZRANGE", turns, 0, -1, "WITHSCORES")
for i = 1, #stored_turns, 2 do
  local known = all[tenant_of_turn(stored_turns[i])]
  if known then known.turn = tonumber(stored_turns[i + 1]) end
end

local wrong, stuck, late = { 0 }, { 0 }, { 0 }
for _, known in pairs(all) do
  if known.units ~= known.counted or known.permits ~= known.counted_permits then
    if wrong[1] == 0 then
      wrong = { 0, known.tenant, text(known.counted), text(known.counted_permits), text(known.units), text(known.permits) }
    end
    wrong[1] = wrong[1] + 1
  end
  local head = known.head
  if head and not known.turn then
    stuck = { stuck[1] + 1, stuck[2] or known.tenant }
  elseif head then
    local fits = known.limit == 0 or known.counted + head.units <= known.limit or head.units > known.limit
    if known.turn ~= (fits and known.counted / known.share or AT_LIMIT) then late = { late[1] + 1, late[2] or known.tenant } end
  end
end
local held = holders + (tonumber(redis.call("HGET", weight, "extra")) or 0)
return {
  1, counting and counting ~= "" and 1 or 0, sum or "-1", text(held), wrong,
  { missing, first_missing }, redis.call("ZCARD", lanes) - (waiters - missing), stuck, late,
}
