-- forecast.lua: for a rate, when units become available. The reply says when a waiter's grant is due, and it polls then:
-- units of a rate are never released, so no release can wake it.
--
-- needs:    STEP, departed, extra_weight, forecast, limit, notify, now, tenancy, tenant_of, window
-- provides: rate
-- changes:  forecast
local rate = {}
if window > 0 then
  local MAX_WAIT = 2 ^ 43 -- ms: the longest wait that the clients' durations can hold
  local SOON = 500        -- ms: a turn that comes earlier by no more than that need not be known

  -- expiry_order returns the key that has the holders in the order in which they expire. That is the order of their
  -- tokens, except for a while after another window was declared or a clock was stepped back.
  local order -- as it was at first: what the call queues does not change it
  local function expiry_order()
    order = order or waiters == 0 and redis.call("ZCARD", timeout) == redis.call("ZCARD", owner) and timeout or owner
    return order
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

  -- A line is what is to come where weights differ: when units become available, and those that wait for them, in order. Its times and
  -- sums, of units, are those of the expiries so far and to come; taken is how many of them have been used, until the time at, when so many
  -- units are available.
  local function fits_at(line, units) -- the index of the expiry with which so many are available; nil: none that was read
    local required = line.sums[line.taken] + units - line.available
    local low, high = line.taken, #line.times + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if line.sums[middle] >= required then high = middle else low = middle + 1 end
    end
    return low <= #line.times and low or nil
  end

  local function add_expiry(line, units, at)
    local last = #line.times
    line.times[last + 1], line.sums[last + 1] = math.max(line.times[last], at), line.sums[last] + units
  end

  -- needed returns how many units must be available before a waiter leaves the queue. One that can never fit leaves it
  -- as soon as any unit is available.
  local function needed(units) return units <= limit and units or 1 end

  -- advance grants to the next in line, at its turn.
  local function advance(line, units)
    local nth = fits_at(line, needed(units))
    if not nth then return false end
    line.available, line.taken, line.at = line.available + line.sums[nth] - line.sums[line.taken], nth, math.max(line.at, line.times[nth])
    if units <= limit then
      line.available = line.available - units
      if line.all then add_expiry(line, units, line.at + window) end
    end
    return true
  end

  -- line_behind returns the line behind so many waiters. It reads what requests for so many units need.
  local function line_behind(ahead, most)
    local queued, excess = {}, most
    if ahead > 0 then
      queued = redis.call("HMGET", weight, unpack(redis.call("ZRANGE", queue, 0, math.min(ahead, BOUND) - 1)))
      for i, stored in ipairs(queued) do
        queued[i] = parse_weight(stored)
        excess = excess + queued[i]
      end
    end
    local unread = holders + extra_weight
    local line = { times = { [0] = now }, sums = { [0] = 0 }, taken = 0, available = limit - unread, at = now, used = unread }
    excess = excess - line.available

    local ids = excess > 0 and redis.call("ZRANGE", expiry_order(), 0, math.min(excess, BOUND) - 1) or {}
    local weights, deadlines = {}, {}
    if #ids > 0 then
      weights, deadlines = redis.call("HMGET", weight, unpack(ids)), redis.call("ZMSCORE", timeout, unpack(ids))
    end
    for i = 1, #ids do
      local units = parse_weight(weights[i])
      add_expiry(line, units, whole(deadlines[i]) or now + window)
      unread = unread - units
    end
    line.all = #ids < math.min(excess, BOUND)
    if line.all and unread > 0 then add_expiry(line, unread, now + window) end -- granted by this very call
    for _, units in ipairs(queued) do
      if not advance(line, units) then break end
    end
    return line
  end

  -- weighted_grant_time is the time of the grant if weights differ. All requests of one call come behind the same line, what the call has
  -- granted since, and what has queued up.
  local line
  local function weighted_grant_time(ahead, units, most)
    line = line or line_behind(ahead, most)
    local granted = holders + extra_weight - line.used
    if granted > 0 then
      line.available, line.used = line.available - granted, line.used + granted
      if line.all then add_expiry(line, granted, now + window) end
    end
    local nth = fits_at(line, needed(units))
    if not nth and line.all then return math.max(line.times[#line.times], now + window) end
    return math.max(line.at, line.times[nth or #line.times])
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
  local function wanted_by(known, weighted)
    if not weighted then return tenancy.length(known) end
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
  local function tenant_grant_time(known, units, weighted)
    local ahead = wanted_by(known, weighted)
    local at = weighted and earliest(holders + extra_weight, ahead + units, limit) or plain_grant_time(ahead, units)
    return known.limit > 0 and math.max(at, earliest(known.units, ahead + units, known.limit, known.tenant)) or at
  end

  local queued = 0 -- requests of this call that have queued up

  -- rate.time_until_grant returns the ms until a request for so many units is granted, behind so many waiters, of which the last may have
  -- queued up in this call. In one call most must always be the units of all its requests. It is weighted if any of these or of what is stored
  -- weighs more than 1. Beyond the bound the result is too low, and the waiter that polls then gets another. Where tenants share the name it
  -- is that of tenant_grant_time.
  function rate.time_until_grant(ahead, units, most, weighted, known)
    if limit == 0 then return lease end -- paused
    local at
    if known then
      at = tenant_grant_time(known, units, weighted)
    elseif weighted then
      at = weighted_grant_time(ahead - queued, units, most)
    else
      at = plain_grant_time(ahead, units)
    end
    return math.max(1, math.min(at - now, MAX_WAIT))
  end

  -- rate.queue_up has later requests of the call come behind this one, whose time_until_grant is known.
  function rate.queue_up(units, known)
    queued = queued + 1
    if line then advance(line, units) end
    if known and known.wanted then known.wanted = known.wanted + units end
  end

  -- ask_anew has what follows asked of what is stored now.
  local function ask_anew() order, nth_deadlines, chunk, line, queued = nil, {}, 1, nil, 0 end

  -- departed.report has the first waiter of each other client poll if its turn comes earlier by more than SOON, because others have left.
  -- Waiters of tenants poll anyway when the next entry expires.
  function departed.report()
    ask_anew()
    local heads, notified = redis.call("ZRANGE", queue, 0, BOUND - 1, "WITHSCORES"), { [forecast and caller or ""] = true }
    for i = 1, tenancy and 0 or #heads, 2 do
      local client, position, ahead = string.match(heads[i], "^([^:]*):") or "", whole(heads[i + 1]) or 0, (i - 1) / 2
      if not notified[client] and position > departed.from
        and (weight_count > 0 or plain_grant_time(ahead + departed.count, 1) - plain_grant_time(ahead, 1) > SOON) then
        notify(heads[i], position, 0)
      end
      notified[client] = true
    end
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
    ask_anew()
    local turn = rate.time_until_grant(ahead, units, units, weight_count > 0)
    if turn > SOON and ahead > 0 then -- it comes earlier if the process of one that is ahead has died
      for _, deadline in ipairs(redis.call("ZMSCORE", timeout, unpack(others, 1, math.min(ahead, BOUND)))) do
        turn = math.min(turn, math.max(SOON, (whole(deadline) or TOP) - now))
      end
    end
    return turn
  end
end
