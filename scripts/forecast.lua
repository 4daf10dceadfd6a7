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
  local lapses_at = {} -- of the nth to lapse
  local function plain_turn(ahead, mine)
    local used = holders + extra
    local short = used + ahead + mine - limit
    local windows = math.max(0, math.ceil((short - used) / limit))
    local nth, at = short - windows * limit, now
    if nth > 0 then
      if not lapses_at[nth] then
        local id = redis.call("ZRANGE", lapsing(), nth - 1, nth - 1)[1]
        lapses_at[nth] = id and whole(redis.call("ZSCORE", timeout, id)) or now + window -- of what this very call grants
      end
      at = lapses_at[nth]
    end
    return at + windows * window
  end

  -- what is needed of the room by who wants so much: who can never fit leaves the line when anything is free
  local function need(wanted) return wanted <= limit and wanted or 1 end

  -- serve goes through those who lapse and those who wait, one by one, until so many waiters are served, at the time at,
  -- or until the end of what it reads. How much is free then, and after each who lapses next, is in frees. It reads
  -- what those need who want most units.
  local function serve(ahead, most)
    local room, line, short, at = limit - holders - extra, {}, most, now
    if ahead > 0 then
      line = redis.call("HMGET", weight, unpack(redis.call("ZRANGE", queue, 0, math.min(ahead, BOUND) - 1)))
      for i, wanted in ipairs(line) do
        line[i] = weighs(wanted)
        short = short + line[i]
      end
    end
    short = short - room

    local ids = short > 0 and redis.call("ZRANGE", lapsing(), 0, math.min(short, BOUND) - 1) or {}
    local all = #ids < math.min(short, BOUND)
    local units, lapses, unread, latest = {}, {}, holders + extra, now
    if #ids > 0 then units, lapses = redis.call("HMGET", weight, unpack(ids)), redis.call("ZMSCORE", timeout, unpack(ids)) end
    for i = 1, #ids do
      units[i], latest = weighs(units[i]), math.max(latest, whole(lapses[i]) or 0)
      lapses[i], unread = latest, unread - units[i]
    end
    if all and unread > 0 then units[#ids + 1], lapses[#ids + 1] = unread, now + window end -- of this very call

    local nth, i = 1, 1
    while line[i] and (room >= need(line[i]) or lapses[nth]) do
      if room < need(line[i]) then
        room, at, nth = room + units[nth], math.max(at, lapses[nth]), nth + 1
      else
        if line[i] <= limit then
          room = room - line[i]
          if all then units[#units + 1], lapses[#lapses + 1] = line[i], at + window end
        end
        i = i + 1
      end
    end

    local frees, times = { room }, { at }
    for j = nth, #lapses do
      room, at = room + units[j], math.max(at, lapses[j])
      frees[#frees + 1], times[#times + 1] = room, at
    end
    return { frees = frees, times = times, all = all, used = holders + extra }
  end

  -- weighed_turn is turn where they are not. Who asks in one call comes after the same waiters, so these are served
  -- once; what was granted since then is in the way too.
  local served
  local function weighed_turn(ahead, mine, most)
    served = served or serve(ahead, most)
    local frees, times = served.frees, served.times
    local wanted = need(mine) + holders + extra - served.used
    local low, high = 1, #frees + 1 -- the first in which it fits is one of these, the last being none
    while low < high do
      local middle = math.floor((low + high) / 2)
      if frees[middle] >= wanted then high = middle else low = middle + 1 end
    end
    return times[low] or served.all and math.max(times[#times], now + window) or times[#times]
  end

  -- turn returns the ms until who comes after so many waiters, and wants so many units, gets them; in each call for one
  -- number of waiters only, and for nobody who wants more than most. Beyond the bound it is less, for whoever looks then
  -- is told again.
  function turn(ahead, mine, most)
    if limit == 0 then return lease end -- paused
    local at = (weights > 0 and weighed_turn or plain_turn)(ahead, mine, most)
    return math.max(1, math.min(at - now, FAR))
  end

  -- forecast returns the ms until the first waiter of the caller gets its units; -1: it has none.
  function forecast()
    local ahead, chunk, mine = 0, 16, nil
    while ahead < math.min(waiting, BOUND) and not mine do
      local ids = redis.call("ZRANGE", queue, ahead, ahead + chunk - 1)
      if #ids == 0 then break end
      for _, id in ipairs(ids) do
        mine = string.sub(id, 1, #caller) == caller and (weights > 0 and weighs(redis.call("HGET", weight, id)) or 1)
        if mine then break end
        ahead = ahead + 1
      end
      chunk = 4 * chunk
    end
    if not mine and waiting <= BOUND then return -1 end
    mine = mine or 1
    return turn(ahead, mine, mine)
  end
end
