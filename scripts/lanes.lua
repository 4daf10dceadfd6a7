-- lanes.lua: the waiters of each tenant: see accounts.lua.
--
-- needs:    place, tenancy, to_position
if tenancy then
  -- member is a waiter in lanes.
  local function member(known, id, position)
    return known.lane .. place(position) .. string.sub(id, 1, #id - #known.suffix)
  end

  -- read_heads reads the next waiters of a tenant: at first one, then more and more.
  local function read_heads(known)
    local from = known.lane
    local found = waiters > 0 and redis.call("ZRANGEBYLEX", lanes, "[" .. from, "(" .. from .. "\255", "LIMIT", known.taken, known.chunk) or {}
    local heads, ids = {}, {}
    for i, first in ipairs(found) do
      ids[i] = string.sub(first, #from + 15) .. known.suffix
      heads[i] = { id = ids[i], member = first, position = whole(to_position(first, from)) or 0, units = 1 }
    end
    local weights = #ids > 0 and weight_count > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
    for i, stored in ipairs(weights) do heads[i].units = parse_weight(stored) end
    known.heads, known.at, known.chunk = heads, 1, 2 * known.chunk
  end

  -- head returns the first waiter of a tenant that has not been taken: its id, position and units.
  function tenancy.head(known)
    if not known.heads or known.at > #known.heads and #known.heads > 0 then read_heads(known) end
    return known.heads[known.at]
  end

  -- first_waiters returns the first waiters of a tenant that are stored.
  function tenancy.first_waiters(known, count)
    local all = { lane = known.lane, suffix = known.suffix, taken = 0, chunk = count }
    read_heads(all)
    return all.heads
  end

  function tenancy.forget_heads(known) known.heads, known.chunk = nil, 1 end

  -- add_head makes a waiter that the call will add the first of its tenant.
  function tenancy.add_head(known, id, position, units)
    known.heads, known.at = { { id = id, member = member(known, id, position), position = position, units = units, joins = true } }, 1
  end

  -- take_head removes the first waiter of a tenant, once leave is called.
  local taken, taken_of = {}, {}
  function tenancy.take_head(known)
    taken[#taken + 1], taken_of[#taken_of + 1] = known.heads[known.at].member, known
    known.at, known.taken = known.at + 1, known.taken + 1
  end

  -- length returns how many waiters a tenant has, with those that this call adds.
  function tenancy.length(known)
    local added = known.added or 0
    if waiters == added then return added end
    return added + redis.call("ZLEXCOUNT", lanes, "[" .. known.lane, "(" .. known.lane .. "\255")
  end

  -- leave removes from lanes what was taken, and ids with these positions.
  function tenancy.leave(ids, positions)
    for i, id in ipairs(ids) do
      local known = tenancy.touch(tenancy.of(id))
      tenancy.forget_heads(known)
      taken[#taken + 1] = member(known, id, whole(positions[i]) or 0)
    end
    for _, known in ipairs(taken_of) do known.taken = 0 end
    if #taken > 0 then redis.call("ZREM", lanes, unpack(taken)) end
    taken, taken_of = {}, {}
  end

  -- add_member adds a waiter to a list for ZADD.
  function tenancy.add_member(list, id, position)
    list[#list + 1], list[#list + 2] = "0", member(tenancy.of(id), id, position)
  end
end
