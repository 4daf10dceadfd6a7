-- turns.lua: the fairness rule where tenants share a name. Of the tenants whose first waiter may be granted what it wants, the next is the one
-- that holds the fewest units per unit of share; of several, the one that was granted something longest ago: accounts.lua says when that is
-- if it never was. If what its first waiter wants does not fit, all calls wait.
--
-- needs:    AT_LIMIT, budget, declares, expire_at, extra_weight, last_number, limit, may_promote, micros, notify, numbering, promote, remove_oversized,
--           renew_keys, resizing, sorts_before, steady, store_promoted, tenancy, tenant_of_turn
-- changes:  budget, last_number, promote
if tenancy then
  -- turn_of returns the turn of a tenant with this first waiter, as in turns: its score and its member. A waiter that can never be granted
  -- what it wants has its turn, too, to be removed then.
  local function turn_of(known, head)
    local fits = known.limit == 0 or known.units + head.units <= known.limit or head.units > known.limit
    return { fits and known.units / known.share or AT_LIMIT, tenancy.since_last(known, head.position) .. known.tenant }
  end

  local function precedes(one, other)
    return not other or one[1] < other[1] or one[1] == other[1] and not sorts_before(other[2], one[2])
  end

  -- first_turns returns some of the first turns.
  local function first_turns(count)
    local found = tenancy.turn_count > 0 and redis.call("ZRANGE", turns, 0, count - 1, "WITHSCORES") or {}
    local list = {}
    for i = 1, #found, 2 do list[#list + 1] = { tonumber(found[i + 1]), found[i] } end
    return list
  end

  local function add_turn(turn)
    local new = tenancy.turn_count == 0
    tenancy.turn_count = tenancy.turn_count + redis.call("ZADD", turns, string.format("%.17g", turn[1]), turn[2])
    if new then redis.call("PEXPIREAT", turns, text(expire_at)) end
  end

  local function remove_turn(turn) tenancy.turn_count = tenancy.turn_count - redis.call("ZREM", turns, turn) end

  -- settle stores the turns of the tenants that have changed.
  function tenancy.settle()
    for _, known in ipairs(tenancy.touched) do
      local head = tenancy.head(known)
      local turn = head and turn_of(known, head) or {}
      if head then
        known.last = tenancy.since_last(known, head.position)
        add_turn(turn)
      end
      if known.turn and known.turn ~= turn[2] and tenancy.turn_count > 0 then remove_turn(known.turn) end
      known.turn, known.touched = turn[2], false
    end
    tenancy.touched = {}
  end

  -- arrive prepares a tenant for a request: one that was never granted anything has been without since its first waiter joined.
  local function arrive(known)
    local head = tenancy.head(known)
    if not head and not known.granted then known.last = nil end
    return head
  end

  local first_stored, first_joined -- the first of turns, false if there is none; and the first of those that this call adds

  -- join records that a waiter will be added, so that is_next knows of it.
  function tenancy.join(known, id, position, units)
    local head = arrive(known)
    known.last = tenancy.since_last(known, position)
    known.added = (known.added or 0) + 1
    if head and head.position <= position then
      if not head.joins then tenancy.forget_heads(known) end
      return
    end
    tenancy.touch(known)
    tenancy.add_head(known, id, position, units)
    local turn = turn_of(known, tenancy.head(known))
    if precedes(turn, first_joined) then first_joined = turn end
  end

  -- is_next reports whether a new request of a tenant would be granted what is available: it comes before those of its own that
  -- wait, it keeps within its limit, and no other tenant comes before it. What waits then does not fit.
  function tenancy.is_next(known, units, position)
    if known.limit > 0 and known.units + units > known.limit then return false end
    if waiters == 0 then return true end
    local head = arrive(known)
    if head and head.position <= position then return false end
    if first_stored and tenancy.account(tenant_of_turn(first_stored[2])).touched then -- by a grant of this call
      tenancy.settle()
      first_stored = nil
    end
    if first_stored == nil then first_stored = first_turns(1)[1] or false end
    local mine = turn_of(known, { position = position, units = units })
    return precedes(mine, first_stored) and precedes(mine, first_joined)
  end

  -- insert adds a turn to a list of them in order.
  local function insert(list, turn)
    local low, high = 1, #list + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if precedes(list[middle], turn) then low = middle + 1 else high = middle end
    end
    table.insert(list, low, turn)
  end

  -- discard removes the first waiter of a tenant, which can never be granted what it wants.
  local function discard(known, head)
    tenancy.take_head(known)
    remove_oversized({ head.id })
    notify(head.id, head.position, 0)
    tenancy.touch(known)
    budget = budget - 1
  end

  -- discard_beyond_limits removes the first waiters that can never be granted what they want since the call changes the limit of
  -- their tenant.
  local function discard_beyond_limits()
    for _, known in ipairs(tenancy.lowered) do
      local head = tenancy.head(known)
      while budget > 0 and head and head.units > known.limit do
        discard(known, head)
        head = tenancy.head(known)
      end
    end
    tenancy.lowered = {}
    tenancy.leave({}, {})
    tenancy.settle()
  end

  -- remove_first removes what cannot be granted from the front: a turn that does not follow from what its tenant has, or a waiter that
  -- can never be granted what it wants. It reports whether it did.
  local function remove_first(turn, known, head)
    local due = head and turn_of(known, head)
    if not due or due[1] ~= turn[1] or due[2] ~= turn[2] then
      remove_turn(turn[2])
    elseif not redis.call("ZSCORE", queue, head.id) then
      tenancy.take_head(known)
    elseif head.units > limit or known.limit > 0 and head.units > known.limit then
      discard(known, head)
    else
      return false
    end
    tenancy.touch(known)
    return true
  end

  local counted = false   -- whether this call has compared what is counted with what is stored
  local available         -- units
  local granted, fitting  -- what is to be stored: token, id, ...; and the ids
  local function wanted() return budget > 0 and (available > 0 or declares or resizing) end

  local function grant(known, head)
    tenancy.take_head(known)
    available, last_number = available - head.units, math.max(last_number + 1, steady)
    fitting[#fitting + 1] = head.id
    granted[#granted + 1], granted[#granted + 2] = text(last_number), head.id
    tenancy.granted(known, head.units, last_number)
    notify(head.id, head.position, last_number, numbering and numbering.allot(head.id, head.units))
  end

  -- grant_some grants to those whose turn it is. It returns whether the first one does not fit, and whether there may be more to do once the
  -- turns are read again: after it had to remove something, and where a first one may have to be removed although all units are granted. A
  -- grant makes one turn later, so the first as many turns as there are units are all that can come while any is left.
  local function grant_some()
    local list = wanted() and first_turns(math.min(budget, math.max(available, 1))) or {}
    while #list > 0 and wanted() do
      local turn = table.remove(list, 1)
      local known = tenancy.account(tenant_of_turn(turn[2]))
      local head = tenancy.head(known)
      if remove_first(turn, known, head) then
        budget = budget - 1
        return false, true
      end
      if turn[1] == AT_LIMIT then return false, false end -- and so are all that follow
      if head.units > available then return true, false end
      local cost = numbering and numbering.cost(head.id, head.units) or 1
      if #fitting > 0 and cost > budget then budget = 0 end
      if budget == 0 then break end
      grant(known, head)
      budget = math.max(0, budget - cost)
      if available == 0 then return false, wanted() end
      head = tenancy.head(known)
      if head then insert(list, turn_of(known, head)) end
    end
    return false, false
  end

  -- compare_some has the turns of some tenants follow anew from what these have: a script that is stopped half-way leaves a turn that comes
  -- too late. Where few calls wait, all turns are made anew when the keys are renewed.
  local function compare_some()
    local SOME = 8
    local first = micros % math.max(1, tenancy.turn_count - SOME + 1) -- others the next time
    for _, turn in ipairs(redis.call("ZRANGE", turns, first, first + SOME - 1)) do
      local known = tenancy.touch(tenancy.account(tenant_of_turn(turn)))
      if known.turn ~= turn then remove_turn(turn) end
    end
  end

  function promote()
    if not counted then
      tenancy.count_again()
      if renew_keys and tenancy.caught_up and tenancy.turn_count > 0 then compare_some() end
    end
    counted = true
    tenancy.settle()
    if not tenancy.caught_up or not may_promote() then return end
    discard_beyond_limits()
    local blocked, again
    repeat
      available, granted, fitting = limit - holders - extra_weight, {}, {}
      blocked, again = grant_some()
      if #fitting > 0 then store_promoted(fitting, granted, available) end
      tenancy.leave({}, {})
      tenancy.settle() -- at the end, so that a script that is stopped half-way leaves turns too many, and not too few
    until not again or budget <= 0
    if budget <= 0 and waiters > 0 and available > 0 and not blocked then reply[MORE] = 1 end
  end
end
