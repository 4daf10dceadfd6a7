-- forecast.lua: for a rate, when units become available. The reply says when a waiter's grant is due, and it polls then:
-- units of a rate are never released, so no release can wake it.
--
-- needs:    SOON, STEP, extra_weight, forecast, limit, now, tenancy, tenant_of, window
-- provides: time_until_grant
-- changes:  forecast
local time_until_grant
if window > 0 then
  local MAX_WAIT = 2 ^ 43 -- ms: the longest wait that the clients' durations can hold

  -- expiry_order returns the key that has the holders in the order in which they expire. That is the order of their
  -- tokens, except for a while after another window was declared or a clock was stepped back.
  local function expiry_order()
    return waiters == 0 and redis.call("ZCARD", timeout) == redis.call("ZCARD", owner) and timeout or owner
  end

  -- plain_grant_time is the time of the grant if every weight is 1: nth holders must expire first, or those that
  -- replaced them, whole windows later.
  local nth_deadlines, chunk = {}, 1 -- of the nth holder to expire; how many to read
  local function plain_grant_time(ahead, units)
    local used = holders + extra_weight
    local excess = used + ahead + units - limit
    local windows = math.max(0, math.ceil((excess - used) / limit))
    local nth, at = excess - windows * limit, now
    if nth > 0 then
      if not nth_deadlines[nth] then
        local ids = redis.call("ZRANGE", expiry_order(), nth - 1, nth + chunk - 2)
        local deadlines = #ids > 0 and redis.call("ZMSCORE", timeout, unpack(ids)) or {}
        for i = 1, chunk do
          nth_deadlines[nth + i - 1] = ids[i] and whole(deadlines[i]) or now + window -- granted by this very call
        end
        chunk = math.min(2 * chunk, BOUND)
      end
      at = nth_deadlines[nth]
    end
    return at + windows * window
  end

  -- needed returns how many units must be available before a waiter leaves the queue. One that can never fit leaves it
  -- as soon as any unit is available.
  local function needed(units) return units <= limit and units or 1 end

  -- simulate goes through expiries and waiters, one by one, until so many waiters are granted, at the time at, or until
  -- the end of what it reads. frees has the units available then, and after each expiry that follows, at times. It
  -- reads what a request for most units needs.
  local function simulate(ahead, most)
    local available, queued, excess, at = limit - holders - extra_weight, {}, most, now
    if ahead > 0 then
      queued = redis.call("HMGET", weight, unpack(redis.call("ZRANGE", queue, 0, math.min(ahead, BOUND) - 1)))
      for i, stored in ipairs(queued) do
        queued[i] = parse_weight(stored)
        excess = excess + queued[i]
      end
    end
    excess = excess - available

    local ids = excess > 0 and redis.call("ZRANGE", expiry_order(), 0, math.min(excess, BOUND) - 1) or {}
    local all = #ids < math.min(excess, BOUND)
    local units, deadlines, unread, latest = {}, {}, holders + extra_weight, now
    if #ids > 0 then
      units, deadlines = redis.call("HMGET", weight, unpack(ids)), redis.call("ZMSCORE", timeout, unpack(ids))
    end
    for i = 1, #ids do
      units[i], latest = parse_weight(units[i]), math.max(latest, whole(deadlines[i]) or 0)
      deadlines[i], unread = latest, unread - units[i]
    end
    if all and unread > 0 then units[#ids + 1], deadlines[#ids + 1] = unread, now + window end -- granted by this very call

    local nth, i = 1, 1
    while queued[i] and (available >= needed(queued[i]) or deadlines[nth]) do
      if available < needed(queued[i]) then
        available, at, nth = available + units[nth], math.max(at, deadlines[nth]), nth + 1
      else
        if queued[i] <= limit then
          available = available - queued[i]
          if all then units[#units + 1], deadlines[#deadlines + 1] = queued[i], at + window end
        end
        i = i + 1
      end
    end

    local frees, times = { available }, { at }
    for j = nth, #deadlines do
      available, at = available + units[j], math.max(at, deadlines[j])
      frees[#frees + 1], times[#times + 1] = available, at
    end
    return { frees = frees, times = times, all = all, used = holders + extra_weight }
  end

  -- weighted_grant_time is the time of the grant if weights differ. All requests of one call come after the same
  -- waiters, so these are simulated once; what the call has granted since then comes first, too, and so does what it has added to the queue.
  local simulation
  local function weighted_grant_time(ahead, units, most, joined)
    simulation = simulation or simulate(ahead, most)
    local frees, times = simulation.frees, simulation.times
    local required = needed(units) + joined + holders + extra_weight - simulation.used
    local low, high = 1, #frees + 1 -- the first at which it fits is one of these; the last one means none
    while low < high do
      local middle = math.floor((low + high) / 2)
      if frees[middle] >= required then high = middle else low = middle + 1 end
    end
    return times[low] or simulation.all and math.max(times[#times], now + window) or times[#times]
  end

  -- expiries_of returns when permits of a tenant expire and what each of them holds, of those that expire first of all; nil: of all tenants.
  -- It reads them once.
  local expiries, last_expiry, has_all = nil, now, true
  local function expiries_of(tenant)
    if not expiries then
      expiries = { all = {} }
      local ids = redis.call("ZRANGE", expiry_order(), 0, BOUND - 1)
      local deadlines = #ids > 0 and redis.call("ZMSCORE", timeout, unpack(ids))
      local weights = #ids > 0 and weight_count > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
      has_all = #ids < BOUND
      for i, id in ipairs(ids) do
        local of = ":" .. tenant_of(id)
        last_expiry = math.max(last_expiry, whole(deadlines[i]) or now)
        expiries[of] = expiries[of] or {}
        for _, list in ipairs({ expiries[of], expiries.all }) do list[#list + 1] = { at = last_expiry, units = parse_weight(weights[i]) } end
      end
    end
    return expiries[tenant and ":" .. tenant or "all"] or {}
  end

  -- earliest is before when so many units cannot be granted under a limit of which some are used: those of a tenant, or of all. No
  -- window has more grants than the limit, so those beyond it take whole windows. Where weights differ, or beyond the bound, it is too low.
  local function earliest(used, units, most, tenant)
    local windows = math.max(0, math.ceil(units / most) - 1)
    local excess, at = used + units - most - windows * most, now
    for _, expiry in ipairs(excess > 0 and expiries_of(tenant) or {}) do
      if excess <= 0 then break end
      at, excess = expiry.at, excess - expiry.units
    end
    if excess > 0 then at = has_all and now + window or last_expiry end -- granted by this very call, or not read
    return at + windows * window
  end

  -- wanted_by returns how many units the waiters of a tenant want, where weights differ the first of them. One that can never be granted what
  -- it wants counts as 0: it is removed, as those beyond may be.
  local function wanted_by(known)
    if weight_count == 0 then return tenancy.length(known) end
    if not known.wanted then
      local first = tenancy.first_waiters(known, STEP)
      known.wanted = 0
      for _, waiter in ipairs(first) do
        local fits = waiter.units <= limit and (known.limit == 0 or waiter.units <= known.limit)
        known.wanted = known.wanted + (fits and waiter.units or 0)
      end
    end
    return known.wanted
  end

  -- tenant_grant_time is the earliest time of the grant to a tenant, whose own waiters come first: if no other tenant does.
  local function tenant_grant_time(known, units)
    local ahead = wanted_by(known)
    local at = weight_count > 0 and earliest(holders + extra_weight, ahead + units, limit) or plain_grant_time(ahead, units)
    return known.limit > 0 and math.max(at, earliest(known.units, ahead + units, known.limit, known.tenant)) or at
  end

  -- time_until_grant returns the ms until a request for so many units, behind so many waiters, is granted, and behind those that this
  -- call has added to the queue, for joined units. In one call ahead must always be the same, and units at most most. Beyond the
  -- bound the result is too low, and the waiter that polls then gets another. Where tenants share the name it is that of tenant_grant_time.
  function time_until_grant(ahead, units, most, known, joined)
    if limit == 0 then return lease end -- paused
    local at
    if known then
      at = tenant_grant_time(known, units)
    elseif weight_count > 0 then
      at = weighted_grant_time(ahead, units, most, joined)
    else
      at = plain_grant_time(ahead + joined, units)
    end
    return math.max(1, math.min(at - now, MAX_WAIT))
  end

  -- forecast returns the ms until the first waiter of the caller is granted its units; -1: it has none.
  function forecast()
    if tenancy then -- nothing changes before an entry expires
      local nearest = whole(redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2])
      return nearest and math.max(1, math.min(nearest - now, MAX_WAIT)) or -1
    end
    local ahead, others, size, units = 0, {}, 16, nil
    while ahead < math.min(waiters, BOUND) and not units do
      local ids = redis.call("ZRANGE", queue, ahead, ahead + size - 1)
      if #ids == 0 then break end
      for _, id in ipairs(ids) do
        units = string.sub(id, 1, #caller) == caller
          and (weight_count > 0 and parse_weight(redis.call("HGET", weight, id)) or 1)
        if units then break end
        ahead = ahead + 1
        others[ahead] = id
      end
      size = 4 * size
    end
    if not units and waiters <= BOUND then return -1 end
    units = units or 1
    local turn = time_until_grant(ahead, units, units, nil, 0)
    if turn > SOON and ahead > 0 then -- it comes earlier if the process of one that is ahead has died
      for _, deadline in ipairs(redis.call("ZMSCORE", timeout, unpack(others, 1, math.min(ahead, BOUND)))) do
        turn = math.min(turn, math.max(1, (whole(deadline) or TOP) - now))
      end
    end
    return turn
  end
end
