-- allot.lua: gives numbers to units, the lowest free ones, and takes them back. No two units have one number, so the first n that
-- are stored have the numbers from 0 to n-1 exactly if the n-th has n-1: a binary search finds the lowest free number.
--
-- A number is stored before its permit, and removed after it: a script that is stopped half-way never leaves a permit whose number
-- is free. What it leaves of a permit that is not stored is removed with its deadline, or when its number is missing below
-- the limit: as many are free there as units are.
--
-- needs:    expire_at, limit, numbering
if numbering then
  local PAGE = 1000         -- most units that one command stores or removes
  local given = {}          -- what this call has given and not stored yet: number, unit, ...
  local used, checked = {}, false -- the numbers that it has given; whether it has looked for strays
  local lowest, rank        -- all numbers below lowest have a unit, of which so many are stored
  local ahead, at           -- stored units and numbers from that rank on, and the index of the next number

  local function restart() lowest, rank, ahead, at = 0, 0, {}, 2 end
  restart()

  -- cost is how many ids without numbers take as long as one of so many units that may have numbers.
  function numbering.cost(id, units) return units > 1 and numbering.has(id) and 1 + math.floor(units / 8) or 1 end

  local function remove_units(units)
    for first = 1, #units, PAGE do
      numbering.count = numbering.count - redis.call("ZREM", numbers, unpack(units, first, math.min(#units, first + PAGE - 1)))
    end
    restart()
  end

  -- look_ahead reads the stored numbers that follow, after those that follow without a gap.
  local function look_ahead()
    local low, high = rank, numbering.count
    while high - low > 8 do
      local middle = math.floor((low + high) / 2)
      local number = tonumber(redis.call("ZRANGE", numbers, middle, middle, "WITHSCORES")[2])
      if number - middle == lowest - rank then low = middle + 1 else high = middle end
    end
    lowest, rank, at = lowest + low - rank, low, 2
    ahead = redis.call("ZRANGE", numbers, rank, rank + 31, "WITHSCORES")
  end

  local function next_free()
    while true do
      if at > #ahead and rank < numbering.count then look_ahead() end
      local number = tonumber(ahead[at])
      if not number or number > lowest then
        lowest = lowest + 1
        if not used[lowest - 1] then return lowest - 1 end
      else
        if number == lowest then lowest = lowest + 1 end
        rank, at = rank + 1, at + 2
      end
    end
  end

  -- permit_of is the token of the permit that has a unit, nil if there is none.
  local function permit_of(unit) return whole(redis.call("ZSCORE", owner, string.match(unit, "^%d+:(.*)$") or "")) end

  -- remove_strays removes units of which there is no permit.
  local function remove_strays()
    local strays = {}
    for _, unit in ipairs(redis.call("ZRANGE", numbers, 0, 2 * BOUND - 1)) do
      if not permit_of(unit) then strays[#strays + 1] = unit end
    end
    remove_units(strays)
    checked = true
  end

  local function give(unit, number)
    given[#given + 1], given[#given + 2] = text(number), unit
    used[number] = true
    return number
  end

  -- allot returns the numbers for a permit that will be stored, none if it needs none.
  function numbering.allot(id, units)
    local list = {}
    if not numbering.has(id) then return list end
    if numbering.count + #given / 2 + units > limit and not checked then remove_strays() end
    for i, unit in ipairs(numbering.units(id, 1, units)) do list[i] = give(unit, next_free()) end
    return list
  end

  -- store stores what was given. It comes before the permits are stored.
  function numbering.store()
    local is_new = numbering.count == 0 and #given > 0
    for first = 1, #given, 2 * PAGE do
      redis.call("ZADD", numbers, unpack(given, first, math.min(#given, first + 2 * PAGE - 1)))
    end
    if is_new then redis.call("PEXPIREAT", numbers, text(expire_at)) end
    numbering.count, given = numbering.count + #given / 2, {}
    restart()
  end

  -- free takes back the numbers of ids from index first on, but for the first keeps of each. It comes before their weights are removed.
  function numbering.free(ids, first, keeps)
    if numbering.count == 0 then return end
    local weights, list = weight_count > 0 and redis.call("HMGET", weight, unpack(ids, first)) or {}, {}
    for i = first, #ids do
      if numbering.has(ids[i]) then
        for _, unit in ipairs(numbering.units(ids[i], keeps + 1, parse_weight(weights[i - first + 1]))) do list[#list + 1] = unit end
      end
    end
    remove_units(list)
  end

  -- claim gives a permit that is to be restored the numbers that it had, as text, and reports whether it can have them. Another that is
  -- stored with one of them must be from an old file: its token is lower, and from before the epoch.
  function numbering.claim(id, list, token, epoch)
    local old, count = {}, 0
    for number in string.gmatch(list, "%d+") do
      if used[tonumber(number)] then return false end
      for _, unit in ipairs(redis.call("ZRANGEBYSCORE", numbers, number, number)) do
        local other = permit_of(unit)
        if other and (other >= token or other >= epoch) then return false end
        old[#old + 1] = unit
      end
      count = count + 1
    end
    remove_units(old)
    local units = numbering.units(id, 1, count)
    for number in string.gmatch(list, "%d+") do give(table.remove(units, 1), tonumber(number)) end
    return true
  end
end
