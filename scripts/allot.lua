-- allot.lua: gives numbers to units, the lowest free ones, and takes them back. No two units have one number, so the first n that
-- are stored have the numbers from 0 to n-1 exactly if the n-th has n-1: a binary search finds the lowest free number.
--
-- A number is stored before its permit, and removed after it: a script that is stopped half-way never leaves a permit whose number
-- is free. What it leaves of a permit that is not stored is removed with its deadline, or when its number is missing below
-- the limit: as many are free there as units are.
--
-- needs:    epoch, expire_at, grace_until, limit, now, numbering, numbers_granted
-- changes:  grace_until
if numbering then
  local PAGE = 1000         -- most units that one command stores or removes
  local AHEAD = 64          -- how many stored numbers it reads at once
  local given = {}          -- what this call has given and not stored yet: number, unit, ...
  local used, checked = {}, false -- the numbers that it has given; whether it has looked for strays
  local highest = -1        -- that it has granted
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

  local function read_ahead() ahead, at = redis.call("ZRANGE", numbers, rank, rank + AHEAD - 1, "WITHSCORES"), 2 end

  -- look_ahead reads the stored numbers that follow. If those leave no gap, it searches for the first gap.
  local function look_ahead()
    read_ahead()
    if #ahead < 2 * AHEAD or tonumber(ahead[#ahead]) ~= lowest + AHEAD - 1 then return end
    local low, high = rank + AHEAD, numbering.count
    while low < high do
      local middle = math.floor((low + high) / 2)
      local number = tonumber(redis.call("ZRANGE", numbers, middle, middle, "WITHSCORES")[2])
      if number - middle == lowest - rank then low = middle + 1 else high = middle end
    end
    lowest, rank = lowest + low - rank, low
    read_ahead()
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

  -- tokens_of returns for each unit the token of the permit that has it, if there is one.
  local function tokens_of(units)
    local list, ids = {}, {}
    for i, unit in ipairs(units) do ids[i] = string.match(unit, "^%d+:(.*)$") or "" end
    for first = 1, #ids, PAGE do
      local last = math.min(#ids, first + PAGE - 1)
      for i, token in ipairs(redis.call("ZMSCORE", owner, unpack(ids, first, last))) do list[first + i - 1] = whole(token) end
    end
    return list
  end

  -- remove_strays removes units of which there is no permit.
  local function remove_strays()
    local units, strays = redis.call("ZRANGE", numbers, 0, 2 * BOUND - 1), {}
    local tokens = tokens_of(units)
    for i, unit in ipairs(units) do
      if not tokens[i] then strays[#strays + 1] = unit end
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
    for i, unit in ipairs(numbering.units(id, 1, units)) do
      list[i] = give(unit, next_free())
      highest = math.max(highest, list[i])
    end
    return list
  end

  -- store stores what was given. It comes before the permits are stored.
  function numbering.store()
    local is_new = numbering.count == 0 and #given > 0
    for first = 1, #given, 2 * PAGE do
      redis.call("ZADD", numbers, unpack(given, first, math.min(#given, first + 2 * PAGE - 1)))
    end
    if is_new then redis.call("PEXPIREAT", numbers, text(expire_at)) end
    if highest >= numbers_granted() then redis.call("HSET", meta, "highest", text(epoch or 0) .. " " .. text(highest)) end
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

  -- stored_from adds the units that have numbers from first to last to a list. No two have one number, but another program may have stored more.
  local function stored_from(first, last, list)
    for _, unit in ipairs(redis.call("ZRANGEBYSCORE", numbers, text(first), text(last), "LIMIT", 0, PAGE)) do list[#list + 1] = unit end
  end

  -- claim gives a permit that is to be restored the numbers that it had, as text, and returns the ids of those that have one of them no
  -- longer: their tokens are lower, and from before the epoch, so they are from an old file, or lost it in an epoch that they missed. It
  -- returns nothing if the permit itself is one that lost them.
  function numbering.claim(id, list, token, first_token)
    local old, claimed, first = {}, {}, nil -- first: of those that follow each other without a gap
    for text_of in string.gmatch(list, "%d+") do
      local number = tonumber(text_of)
      if used[number] then return end
      if first and number ~= claimed[#claimed] + 1 then
        stored_from(first, claimed[#claimed], old)
        first = nil
      end
      first, claimed[#claimed + 1] = first or number, number
    end
    if first then stored_from(first, claimed[#claimed], old) end
    local tokens, losers = tokens_of(old), {}
    for i, unit in ipairs(old) do
      local other = tokens[i]
      if other and (other >= token or other >= first_token) then return end
      if other then losers[#losers + 1] = string.match(unit, "^%d+:(.*)$") end
    end
    remove_units(old)
    for i, unit in ipairs(numbering.units(id, 1, #claimed)) do give(unit, claimed[i]) end
    return losers
  end

  -- Holders of numbers always have some stored. If another program has deleted them, nothing knows which are free. Their permits are lost, and
  -- nothing is granted until the leases of all have ended: only then do their holders certainly know.
  numbering.lost = false
  for _, id in ipairs(numbering.count == 0 and holders > 0 and redis.call("ZRANGE", owner, 0, BOUND - 1) or {}) do
    numbering.lost = numbering.lost or numbering.has(id)
  end
  if numbering.lost then grace_until = math.max(grace_until, now + 1000) end
end
