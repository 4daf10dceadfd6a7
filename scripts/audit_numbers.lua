-- audit_numbers: which numbers the units of one name have, and what the holders say to that, at one moment, for fairsem doctor. It only
-- reads, a part each call. numbers.lua says what is stored.
--
-- KEYS    owner, weight, numbers
-- ARGV    holder  rank of the first holder to read
--         number  rank of the first number to read
--         count   of how many holders, of how many numbers, and after how many units of holders it ends
-- Returns holder   rank of the first holder that was not read
--         number   rank of the first number that was not read
--         unread   how many holders were not read, and how many numbers
--         twice    how many times a number is that of the unit before, too, and of the first: the number, and both ids
--         stray    how many numbers are of units that no permit has, and the id of the first
--         missing  how many holders lack a number, and the id of the first
local owner, weight, numbers = unpack(KEYS)
local holder, number, count = unpack(ARGV, 1, 3)
holder, number, count = tonumber(holder), tonumber(number), tonumber(count)

local MOST = 1000 -- as in numbers.lua
local function has_numbers(id) return string.find(id, "^[^:]*:%d+#") ~= nil end
local function units_of(stored) return math.min(MOST, tonumber(stored) or 1) end
local function split(unit)
  local of, id = string.match(unit, "^(%d+):(.*)$")
  return tonumber(of), id or unit
end

local twice, stray, missing = { 0, false, false, false }, { 0, false }, { 0, false }

-- One more, to compare with the last.
local stored, units, ids = redis.call("ZRANGE", numbers, number, number + count, "WITHSCORES"), {}, {}
for i = 1, #stored, 2 do
  units[#units + 1], ids[#ids + 1] = split(stored[i])
  units[#ids] = units[#ids] or false
  if i > 2 and stored[i + 1] == stored[i - 1] then
    twice = { twice[1] + 1, twice[2] or stored[i + 1], twice[3] or ids[#ids - 1], twice[4] or ids[#ids] }
  end
end
if #ids > 0 then
  local tokens, weights = redis.call("ZMSCORE", owner, unpack(ids)), redis.call("HMGET", weight, unpack(ids))
  for i = 1, math.min(count, #ids) do
    if not (units[i] and tokens[i] and has_numbers(ids[i]) and units[i] >= 1 and units[i] <= units_of(weights[i])) then
      stray = { stray[1] + 1, stray[2] or ids[i] }
    end
  end
end
number = number + math.min(count, #ids)

local holders = redis.call("ZRANGE", owner, holder, holder + count - 1)
local weights, read = #holders > 0 and redis.call("HMGET", weight, unpack(holders)) or {}, 0
for i, id in ipairs(holders) do
  if read >= count then break end
  holder = holder + 1
  if has_numbers(id) then
    local wanted = {}
    for unit = 1, units_of(weights[i]) do wanted[unit] = unit .. ":" .. id end
    read = read + #wanted
    for _, score in ipairs(redis.call("ZMSCORE", numbers, unpack(wanted))) do
      if not score then
        missing = { missing[1] + 1, missing[2] or id }
        break
      end
    end
  end
end

return {
  holder, number, { redis.call("ZCARD", owner) - holder, redis.call("ZCARD", numbers) - number },
  twice, stray, missing,
}
