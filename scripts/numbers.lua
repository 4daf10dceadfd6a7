-- numbers.lua: the numbers that units have, where calls ask for numbers. An id with "#" behind its seq has as many numbers as it
-- holds units, of which it has at most MOST.
--
--   numbers  zset  unit, ":" and the id -> number of that unit, from 0 on: units 1, 2, ... of an id have ascending numbers
--
-- provides: numbering
local numbering = nil -- what there is to know and to do about numbers; nil: no permit of the name has any

-- Without "layout" meta was lost, and the key may know more.
if stored_numbered or adds_numbers or not stored_layout and holders + waiters > 0 then
  local MOST = 1000
  numbering = { count = redis.call("ZCARD", numbers) } -- how many are stored

  -- has reports whether an id has numbers.
  function numbering.has(id) return string.find(id, "^[^:]*:%d+#") ~= nil end

  -- units returns the units of an id as they are stored, from the first-th on.
  function numbering.units(id, first, count)
    local list = {}
    for unit = first, math.min(MOST, count) do list[#list + 1] = unit .. ":" .. id end
    return list
  end

  -- of returns the numbers of an id, none if it has none.
  function numbering.of(id)
    local list = {}
    if numbering.count == 0 or not numbering.has(id) then return list end
    local units = numbering.units(id, 1, weight_count > 0 and parse_weight(redis.call("HGET", weight, id)) or 1)
    for _, number in ipairs(redis.call("ZMSCORE", numbers, unpack(units))) do list[#list + 1] = whole(number) end
    return list
  end
end
