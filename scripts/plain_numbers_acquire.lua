-- plain_numbers_acquire: what plain_acquire does, for ids with numbers, on a name that has few of them and is plain otherwise.
--
-- KEYS    owner, timeout, counter, meta, numbers
-- ARGV    known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms
--         count        how many ids it acquires
--         .. ids, then the ids to release before that, all of which must be holders
-- Returns the token of the first id, the others have those that follow, and the number of each; or 0: acquire must answer
-- First write: ZADD, so that it is refused under OOM.
local owner, timeout, counter, meta, numbers = unpack(KEYS)
local known_epoch, since, lease, count = unpack(ARGV, 1, 4)
local first_id, first_released = 5, 5 + count
local limit_form = "^(%d+)#$"

-- include plain.lua
local FEW = 32 -- most numbers that are read; beyond that acquire searches
local stored = redis.call("ZCARD", numbers)
if stored > FEW or stored > holders or stored == 0 and holders > 0 then return { 0 } end
if stored + count > limit then -- a unit that has no permit would raise the others above the limit
  local units, staying = {}, stored
  for i = first_released, #ARGV do units[#units + 1] = "1:" .. ARGV[i] end
  for _, number in ipairs(#units > 0 and redis.call("ZMSCORE", numbers, unpack(units)) or {}) do
    if number then staying = staying - 1 end
  end
  if staying + count > limit then return { 0 } end
end

-- include plain_enter.lua
if released > 0 then
  local units = {}
  for i = 1, released do units[i] = "1:" .. ARGV[first_released + i - 1] end
  redis.call("ZREM", owner, unpack(ARGV, first_released))
  stored = stored - redis.call("ZREM", numbers, unpack(units))
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end

-- The lowest free numbers, and then the permits.
local taken, at, lowest, given, reply = stored > 0 and redis.call("ZRANGE", numbers, 0, -1, "WITHSCORES") or {}, 2, 0, {}, { first }
for i = 1, count do
  while tonumber(taken[at]) == lowest do lowest, at = lowest + 1, at + 2 end
  given[2 * i - 1], given[2 * i] = format("%d", lowest), "1:" .. ARGV[first_id + i - 1]
  reply[i + 1], lowest = lowest, lowest + 1
end
redis.call("ZADD", numbers, unpack(given))
local of, highest = string.match(redis.call("HGET", meta, "highest") or "", "^(%d+) (%d+)$")
if of ~= epoch or lowest - 1 > tonumber(highest) then redis.pcall("HSET", meta, "highest", epoch .. " " .. format("%d", lowest - 1)) end
if stored == 0 then redis.call("PEXPIREAT", numbers, expiry) end
redis.call("ZADD", owner, unpack(entries))
if new_keys then redis.call("PEXPIREAT", owner, expiry) end

-- include plain_renew.lua
return reply
