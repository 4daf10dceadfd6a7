-- forecast.lua: of a rate, when units come free. Who waits is told when its turn comes, and looks then:
-- nothing is given back here that could wake it.
local lapses_in, queued_units
if window > 0 then

  -- lapses_in returns the ms until so many of the units in use have lapsed. Those of who is in line now
  -- lapse a window after they got them, so a line longer than the limit takes whole windows more.
  function lapses_in(units)
    if limit == 0 then return lease end -- paused
    local rounds = math.floor((units - 1) / limit)
    units = units - rounds * limit
    local ids, last_one
    if weights == 0 then
      last_one = redis.call("ZRANGE", owner, units - 1, units - 1)[1]
    else
      ids = redis.call("ZRANGE", owner, 0, BOUND - 1)
      local each = #ids > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
      for i, id in ipairs(ids) do
        last_one, units = id, units - (tonumber(each[i]) or 1)
        if units <= 0 then break end
      end
    end
    local deadline = last_one and redis.call("ZSCORE", timeout, last_one)
    return math.max(0, deadline and deadline - now or window) + rounds * window
  end

  -- queued_units returns the units that the first of the line want; it weighs as many as the bound.
  function queued_units(count)
    if weights == 0 or count == 0 then return count end
    local units = count
    local ids = redis.call("ZRANGE", queue, 0, math.min(count, BOUND) - 1)
    for _, mine in ipairs(redis.call("HMGET", weight, unpack(ids))) do units = units + (tonumber(mine) or 1) - 1 end
    return units
  end

  -- forecast returns the ms until the first waiter of the caller gets its units.
  function forecast()
    local ahead, chunk, found = 0, 16, false
    while ahead < math.min(waiting, BOUND) and not found do
      for _, id in ipairs(redis.call("ZRANGE", queue, ahead, ahead + chunk - 1)) do
        ahead, found = ahead + 1, string.find(id, caller, 1, true) == 1
        if found then break end
      end
      chunk = 4 * chunk
    end
    return lapses_in(math.max(1, holders + extra + queued_units(ahead) - limit))
  end
end

