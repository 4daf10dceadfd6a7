-- turns.lua: the fairness rule where tenants share a name. Of the tenants whose first waiter may be granted what it wants, the next is the one
-- that holds the fewest units per unit of share; of several, the one that was granted something longest ago. If what its first
-- waiter wants does not fit, all calls wait.
--
-- needs:    account, budget, caught_up, count_again, declares, extra_weight, first_turns, granted_to, has_turn, head_of,
--           last_number, leave_lanes, limit, lowered, may_promote, notify, numbering, precedes, promote, remove_oversized, remove_turn, resizing,
--           settle, shares, steady, store_promoted, take_head, touch, turn_of
-- changes:  budget, last_number, lowered, promote
if shares then
  local counted = false -- whether this call has compared what is counted with what is stored

  -- insert adds a turn to a list of them in order.
  local function insert(list, turn)
    local low, high = 1, #list + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if precedes(list[middle], turn) then low = middle + 1 else high = middle end
    end
    table.insert(list, low, turn)
  end

  -- discard_head removes the first waiter of a tenant, which can never be granted what it wants.
  local function discard_head(known, head)
    take_head(known)
    remove_oversized({ head.id })
    notify(head.id, head.position, 0)
    touch(known)
    budget = budget - 1
  end

  -- remove_first removes what cannot be granted from the front: a turn that does not follow from what its tenant has, or a waiter that
  -- can never be granted what it wants. It reports whether it did.
  local function remove_first(turn, known, head)
    local due = has_turn(known) and turn_of(known, head)
    if not due or due[1] ~= turn[1] or due[2] ~= turn[2] then
      remove_turn(turn[2])
    elseif not redis.call("ZSCORE", queue, head.id) then
      take_head(known)
    elseif head.units > limit or known.limit > 0 and head.units > known.limit then
      discard_head(known, head)
    else
      return false
    end
    touch(known)
    return true
  end

  function promote()
    if not counted then count_again() end
    counted = true
    settle()
    if not caught_up or not may_promote() then return end
    for _, known in ipairs(lowered) do
      local head = head_of(known)
      while budget > 0 and head and head.units > known.limit do
        discard_head(known, head)
        head = head_of(known)
      end
    end
    lowered = {}
    leave_lanes({}, {})
    settle()
    local available, removed, blocked
    repeat
      local granted, fitting = {}, {}
      available, removed, blocked = limit - holders - extra_weight, false, false
      -- A grant makes one turn later, so the first as many turns as there are units are all that can come.
      local list = budget > 0 and (available > 0 or declares or resizing) and first_turns(math.min(budget, math.max(available, 1))) or {}
      while #list > 0 and budget > 0 and (available > 0 or declares or resizing) and not removed and not blocked do
        local turn = table.remove(list, 1)
        local known = account(string.sub(turn[2], 16))
        local head = head_of(known)
        removed = remove_first(turn, known, head)
        blocked = not removed and head.units > available
        if not (removed or blocked) then
          take_head(known)
          available, last_number = available - head.units, math.max(last_number + 1, steady)
          fitting[#fitting + 1] = head.id
          granted[#granted + 1], granted[#granted + 2] = text(last_number), head.id
          granted_to(known, head.units, last_number)
          if numbering then budget = math.max(1, budget + 1 - numbering.cost(head.id, head.units)) end
          notify(head.id, head.position, last_number, numbering and numbering.allot(head.id, head.units))
          if has_turn(known) then insert(list, turn_of(known, head_of(known))) end
        end
        budget = budget - 1
      end
      if #fitting > 0 then store_promoted(fitting, granted, available) end
      leave_lanes({}, {})
      settle() -- at the end, so that a script that is stopped half-way leaves turns too many, and not too few
    until not removed or budget <= 0
    if budget <= 0 and waiters > 0 and available > 0 and not blocked then reply[MORE] = 1 end
  end
end
