-- queue.lua: grants from the head of the queue, and notifies the waiters.
--
-- needs:    budget, declares, expire_at, extra_weight, grace_until, last_number, limit, now, numbering, pinned, steady,
--           store_extra, stored_extra, tenancy, window
-- provides: forecast, granted_count, grants, had_queue, may_promote, messages, notify, notify_heads, promote,
--           remove_oversized, report_numbers, resizing, store_holders, store_promoted
-- changes:  budget, extra_weight, holders, last_number, waiters
local had_queue, granted_count = waiters > 0, 0 -- before this call; permits that this call grants
local resizing = false -- set by resize: waiters that can never fit are removed even if no unit is available

-- store_holders stores holders that are counted already: token, id, token, id, ...
local function store_holders(granted)
  if extra_weight > stored_extra then store_extra() end
  if tenancy then tenancy.store(true) end
  if numbering then numbering.store() end
  redis.call("ZADD", owner, unpack(granted))
  if 2 * holders == #granted then redis.call("PEXPIREAT", owner, text(expire_at)) end -- the key is new
end

local grants, messages = {}, {} -- of promoted waiters: the caller's, and those of other clients by client

-- report_numbers replies with the numbers of the caller's permit that has this token, once: a call may ask again for what it grants.
local reported = {}
local function report_numbers(token, list)
  if reported[token] then return end
  reported[token] = true
  local NUMBER_MARK = -1 -- where a grant has the position of its waiter
  for _, number in ipairs(list) do grants[#grants + 1], grants[#grants + 2], grants[#grants + 3] = token, NUMBER_MARK, number end
end

-- notify records that the waiter at position was granted token, and the list of numbers, if it has any. Token 0: that waiter must
-- poll, or, in evict, the holder whose token is given as position.
local function notify(id, position, token, list)
  local client, seq = string.match(id, "^([^:]*):(%d+)")
  if client == caller then
    grants[#grants + 1], grants[#grants + 2], grants[#grants + 3] = tonumber(seq), position, token
    if list then report_numbers(token, list) end
  elseif client then
    local entries = messages[client] or {}
    entries[#entries + 1] = seq .. ":" .. text(position) .. ":" .. text(token)
    if list and #list > 0 then entries[#entries] = entries[#entries] .. ":" .. table.concat(list, ".") end
    messages[client] = entries
  end
end

-- store_promoted stores waiters that hold from now on, of which holders and extra_weight know nothing yet.
local function store_promoted(fitting, granted, available)
  redis.call("SET", counter, text(last_number), "PXAT", text(expire_at))
  waiters, holders = waiters - redis.call("ZREM", queue, unpack(fitting)), holders + #fitting
  granted_count = granted_count + #fitting
  extra_weight = limit - available - holders
  if window > 0 then
    local due, deadline = {}, text(now + window)
    for i, id in ipairs(fitting) do due[2 * i - 1], due[2 * i] = deadline, id end
    redis.call("ZADD", timeout, unpack(due))
  end
  store_holders(granted)
end

-- remove_oversized removes waiters that can never be granted what they want.
local function remove_oversized(ids)
  waiters = waiters - redis.call("ZREM", queue, unpack(ids))
  redis.call("ZREM", timeout, unpack(ids))
  redis.call("HDEL", weight, unpack(ids))
end

-- may_promote reports whether the limit is known, is not 0, and no grace period is in effect.
local function may_promote()
  return limit > 0 and now >= grace_until and (since or pinned or stored_spec) -- else meta was lost, and the limit that was sent may be wrong
end

local notify_heads, promote, forecast
if waiters > 0 then -- otherwise this call promotes no waiter

  -- notify_heads makes the first waiter of each client near the head of the queue poll, except for the caller's.
  function notify_heads()
    local heads, notified = redis.call("ZRANGE", queue, 0, window > 0 and BOUND - 1 or 9, "WITHSCORES"), { [caller] = true }
    for i = 1, #heads, 2 do
      local client = string.match(heads[i], "^([^:]*):") or caller
      if not notified[client] then notify(heads[i], whole(heads[i + 1]) or 0, 0) end
      notified[client] = true
    end
  end

  -- weights_of returns the stored weights for a list of id, position, id, ...
  local function weights_of(heads)
    local ids = {}
    for i = 1, #heads, 2 do ids[#ids + 1] = heads[i] end
    return #ids > 0 and redis.call("HMGET", weight, unpack(ids))
  end

  -- promote is the fairness rule: it grants to the head of the queue, or not at all. A head that does not fit blocks
  -- every waiter behind it; only one that can never fit is removed. It reads as many heads as can fit; if weights
  -- differ it reads few at first, and more the more of them fit.
  function promote()
    local available, scanned, blocked = limit - holders - extra_weight, 0, not may_promote()
    local extra_cost, full = 0, false -- of ids with many numbers
    local chunk = weight_count == 0 and math.max(available, 1) or 1
    local granted, fitting, oversized = {}, {}, {}
    while scanned < math.min(waiters, budget) and (available > 0 or declares or resizing) and not (blocked or full) do
      local heads = redis.call("ZRANGE", queue, scanned, math.min(scanned + chunk, budget) - 1, "WITHSCORES")
      if #heads == 0 then break end
      local weights = weight_count > 0 and weights_of(heads)
      for i = 1, #heads, 2 do
        local id, position = heads[i], whole(heads[i + 1]) or 0
        local units = weights and parse_weight(weights[(i + 1) / 2]) or 1
        blocked = units <= limit and units > available
        local cost = numbering and numbering.cost(id, units) or 1
        full = #fitting > 0 and #fitting + #oversized + extra_cost + cost > budget
        if blocked or full then break end
        if units > limit then
          oversized[#oversized + 1] = id
          notify(id, position, 0)
        else
          available, last_number = available - units, math.max(last_number + 1, steady)
          fitting[#fitting + 1] = id
          granted[#granted + 1], granted[#granted + 2] = text(last_number), id
          notify(id, position, last_number, numbering and numbering.allot(id, units))
          extra_cost = extra_cost + cost - 1
        end
      end
      scanned, chunk = scanned + #heads / 2, 2 * chunk
    end
    if #oversized > 0 then remove_oversized(oversized) end
    if #fitting > 0 then store_promoted(fitting, granted, available) end
    if (scanned >= budget or full) and waiters > 0 and available > 0 and not blocked then reply[MORE] = 1 end
    budget = math.max(0, budget - #fitting - #oversized - extra_cost)
  end
end

-- include turns.lua
