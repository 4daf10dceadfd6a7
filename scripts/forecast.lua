-- forecast.lua: of a rate, when units come free. Who waits is told when its turn comes, and looks then:
-- nothing is given back here that could wake it.
local turn
if window > 0 then

  -- turn returns the ms until who comes after so many waiters, and wants so many units, gets them. Units lapse
  -- in the order in which they were granted; those that the waiters get lapse a window after that, too.
  -- Beyond the bound it returns less: whoever looks then is told again.
  function turn(ahead, mine)
    if limit == 0 then return lease end -- paused
    local short, at = holders + extra + ahead + mine - limit, now
    if weights == 0 and short > 0 then -- all units are alike: it is the short-th that has to lapse
      local nth = (short - 1) % limit
      local id = redis.call("ZRANGE", owner, nth, nth)[1]
      at = (id and redis.call("ZSCORE", timeout, id) or now + window) + (short - 1 - nth) / limit * window
    elseif weights > 0 then
      local ids, line = redis.call("ZRANGE", owner, 0, BOUND - 1), { mine }
      local units = #ids > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
      local lapses = #ids > 0 and redis.call("ZMSCORE", timeout, unpack(ids)) or {}
      if ahead > 0 then
        line = redis.call("HMGET", weight, unpack(redis.call("ZRANGE", queue, 0, math.min(ahead, BOUND) - 1)))
        line[#line + 1] = mine
      end
      local room, next_one = limit - holders - extra, 1
      for _, wanted in ipairs(line) do
        wanted = tonumber(wanted) or 1
        while room < wanted and lapses[next_one] do
          room, at = room + (tonumber(units[next_one]) or 1), math.max(at, lapses[next_one])
          next_one = next_one + 1
        end
        room = room - wanted
        units[#lapses + 1], lapses[#lapses + 1] = wanted, at + window
      end
    end
    return math.max(0, at - now)
  end

  -- forecast returns the ms until the first waiter of the caller gets its units.
  function forecast()
    local ahead, chunk, mine = 0, 16, nil
    while ahead < math.min(waiting, BOUND) and not mine do
      for _, id in ipairs(redis.call("ZRANGE", queue, ahead, ahead + chunk - 1)) do
        mine = string.find(id, caller, 1, true) == 1 and (weights > 0 and redis.call("HGET", weight, id) or 1)
        if mine then break end
        ahead = ahead + 1
      end
      chunk = 4 * chunk
    end
    return turn(ahead, tonumber(mine) or 1)
  end
end

