-- forecast.lua: of a rate, when units come free. Who waits is told when its turn comes, and looks then:
-- nothing is given back here that could wake it.
local turn
if window > 0 then
  local FAR = 2 ^ 43 -- ms: no more of them fit into what clients count time in

  -- lapsing returns the key that has the holders in the order in which they lapse. That is the order of their
  -- tokens, but for a while after another window was declared, or a clock stepped back.
  local function lapsing()
    return waiting == 0 and redis.call("ZCARD", timeout) == redis.call("ZCARD", owner) and timeout or owner
  end

  -- plain_turn is turn where all units are alike: so many have to lapse, or those that were granted in their
  -- place, whole windows later.
  local function plain_turn(ahead, mine)
    local used = holders + extra
    local short = used + ahead + mine - limit
    local windows = math.max(0, math.ceil((short - used) / limit))
    local nth, at = short - windows * limit, now
    if nth > 0 then
      local id = redis.call("ZRANGE", lapsing(), nth - 1, nth - 1)[1]
      at = id and redis.call("ZSCORE", timeout, id) or now + window -- of what this very call grants
    end
    return at + windows * window
  end

  -- weighed_turn is turn where they are not: it goes through those who lapse and those who wait, one by one.
  local function weighed_turn(ahead, mine)
    local room, line, short, at = limit - holders - extra, {}, mine, now
    if ahead > 0 then
      line = redis.call("HMGET", weight, unpack(redis.call("ZRANGE", queue, 0, math.min(ahead, BOUND) - 1)))
      for _, wanted in ipairs(line) do short = short + (tonumber(wanted) or 1) end
    end
    line[#line + 1], short = mine, short - room

    local ids = short > 0 and redis.call("ZRANGE", lapsing(), 0, math.min(short, BOUND) - 1) or {}
    local units, lapses, unread = {}, {}, holders + extra
    if #ids > 0 then units, lapses = redis.call("HMGET", weight, unpack(ids)), redis.call("ZMSCORE", timeout, unpack(ids)) end
    for i = 1, #ids do
      units[i] = tonumber(units[i]) or 1
      unread = unread - units[i]
    end
    local all = #ids < math.min(short, BOUND)
    if all and unread > 0 then units[#ids + 1], lapses[#ids + 1] = unread, now + window end -- of this very call

    local nth = 1
    for _, wanted in ipairs(line) do
      wanted = tonumber(wanted) or 1
      local fits = wanted <= limit -- else it takes nothing, and leaves the line when anything is free
      while room < (fits and wanted or 1) do
        if not lapses[nth] then return at end
        room, at = room + units[nth], math.max(at, tonumber(lapses[nth]))
        nth = nth + 1
      end
      if fits then
        room = room - wanted
        if all then units[#units + 1], lapses[#lapses + 1] = wanted, at + window end
      end
    end
    return at
  end

  -- turn returns the ms until who comes after so many waiters, and wants so many units, gets them; beyond the
  -- bound less, for whoever looks then is told again.
  function turn(ahead, mine)
    if limit == 0 then return lease end -- paused
    local at = (weights > 0 and weighed_turn or plain_turn)(ahead, mine)
    return math.max(1, math.min(at - now, FAR))
  end

  -- forecast returns the ms until the first waiter of the caller gets its units; -1: it has none.
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
    if not mine and waiting <= BOUND then return -1 end
    return turn(ahead, tonumber(mine) or 1)
  end
end
