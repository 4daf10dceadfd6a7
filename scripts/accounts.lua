-- accounts.lua: what each tenant has, where calls name tenants. The id of a permit ends with its tenant, so what is stored here
-- follows from owner, queue and weight, and can be counted again.
--
--   lanes    zset  the waiters, tenant by tenant. All scores are 0, so Redis orders by member: tenant, position, rest of the id
--   turns    zset  when a tenant was granted something last, and the tenant -> the units that it holds per unit of its
--                  share: the tenants whose first waiter may be granted what it wants
--   tenants  hash  ":" and a tenant -> generation, units held, permits, share, limit, time of the declaration, and when it was granted
--                  something last; "all" -> generation, units held by all, and, while they are being counted again, the token up
--                  to which the permits are
--
-- Counts of another generation than the one in "all" are none. A tenant that has nothing any more is remembered for a while:
-- of tenants that hold equally little the next is the one that was granted something longest ago.
--
-- needs:    expire_at, extra_weight, micros, renew_keys, steady
-- provides: STEP, account, add_to_lane, caught_up, count_again, first_turns, granted_to, has_turn, head_of, is_next, join_lane, lane_length,
--           leave_lanes, lowered, precedes, releases, remove_turn, settle, shares, store_tenants, take_head, tenant_of, touch, turn_of
-- changes:  stored_tenants
local STEP = 50 -- most ids at once that may each be another tenant's
local lowered = {} -- tenants whose limit the call changes
local shares = (stored_tenants or tenant_args > 0) and true or false -- whether tenants share the name
local caught_up = true -- false: not all is counted, so nothing is granted or added to the queue
local account, add_to_lane, count_again, first_turns, granted_to, has_turn, head_of, is_next, join_lane, lane_length, leave_lanes, precedes, releases, remove_turn,
  settle, store_tenants, take_head, tenant_of, touch, turn_of

if shares then
  local FEW = 128 -- how many tenants are remembered although they may have nothing
  local accounts, touched = {}, {}
  local turn_count, new_turns = redis.call("ZCARD", turns), false -- how many are in turns; whether the key is new
  local missing = redis.call("ZCARD", lanes) ~= waiters -- whether anything is in queue or in lanes only
  local stored_all = redis.call("HGET", tenants, "all")
  local parts = { string.match(stored_all or "", "^(%d+) (%d+) ?(%d*)$") }
  local generation, counted_to = whole(parts[1]) or 0, whole(parts[3]) -- the token up to which permits are counted; nil: all are
  -- What is stored beside a name that was not shared is not to be trusted: other calls did not maintain it.
  local starts = not stored_tenants or not counted_to and (whole(parts[2]) ~= holders + extra_weight or renew_keys and holders < BOUND)
  if starts then generation, counted_to = micros, 0 end

  local anew = starts and (waiters < STEP or not stored_tenants) -- whether lanes and turns are made anew, too
  missing = missing or anew
  caught_up = not counted_to and not missing

  -- place writes a position or a token so that texts are ordered as numbers are.
  local function place(number) return string.format("%014x", number) end

  -- since_last returns when a tenant was granted something last. One that never was, as far as is known, comes before all others, in
  -- the order of the first waiters.
  local function since_last(known, position) return known.granted and known.last or "0" .. place(position) end

  function tenant_of(id) return string.match(id, "^[^:]*:%d+#?:(.*)$") or "" end

  -- account returns what a tenant has.
  function account(tenant)
    local known = accounts[tenant]
    if known then return known end
    local of, units, permits, share, most, since, last =
      string.match(redis.call("HGET", tenants, ":" .. tenant) or "", "^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([01]%x+)$")
    if last and #last ~= 15 then last = nil end
    share = whole(share)
    known = {
      tenant = tenant, lane = string.format("%d:", #tenant) .. tenant, suffix = tenant == "" and "" or ":" .. tenant,
      units = 0, permits = 0, taken = 0, chunk = 1, share = share and share > 0 and share or 1, limit = whole(most) or 0, since = whole(since) or 0, last = last,
    }
    if whole(of) == generation then known.units, known.permits = whole(units) or 0, whole(permits) or 0 end
    known.granted = last and string.sub(last, 1, 1) == "1"
    known.turn = last and last .. tenant -- how it is in turns, if it is
    accounts[tenant] = known
    return known
  end

  -- touch has a tenant stored, and its turn compared with what it has.
  function touch(known)
    if not known.touched then touched[#touched + 1] = known end
    known.touched, known.unstored = true, true
    return known
  end

  -- member is a waiter in lanes.
  local function member(known, id, position)
    return known.lane .. place(position) .. string.sub(id, 1, #id - #known.suffix)
  end

  -- read_heads reads the next waiters of a tenant: at first one, then more and more.
  local function read_heads(known)
    local from, range = known.lane, { "[" .. known.lane, "(" .. known.lane .. "\255" }
    local found = waiters > 0 and redis.call("ZRANGEBYLEX", lanes, range[1], range[2], "LIMIT", known.taken, known.chunk) or {}
    local heads, ids = {}, {}
    for i, first in ipairs(found) do
      ids[i] = string.sub(first, #from + 15) .. known.suffix
      heads[i] = { id = ids[i], member = first, position = whole(tonumber(string.sub(first, #from + 1, #from + 14), 16)) or 0, units = 1 }
    end
    local weights = #ids > 0 and weight_count > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
    for i, stored in ipairs(weights) do heads[i].units = parse_weight(stored) end
    known.heads, known.at, known.chunk = heads, 1, 2 * known.chunk
  end

  -- head_of returns the first waiter of a tenant that has not been taken: its id, position and units.
  function head_of(known)
    if not known.heads or known.at > #known.heads and #known.heads > 0 then read_heads(known) end
    return known.heads[known.at]
  end

  local function forget_heads(known) known.heads, known.chunk = nil, 1 end

  -- take_head removes the first waiter of a tenant, once leave_lanes is called.
  local taken, taken_of = {}, {}
  function take_head(known)
    taken[#taken + 1], taken_of[#taken_of + 1] = known.heads[known.at].member, known
    known.at, known.taken = known.at + 1, known.taken + 1
  end

  function lane_length(known)
    local added = known.added or 0
    if waiters == added then return added end
    return added + redis.call("ZLEXCOUNT", lanes, "[" .. known.lane, "(" .. known.lane .. "\255")
  end

  -- has_turn reports whether the first waiter of a tenant may be granted what it wants. One that can never be granted it has its
  -- turn, too, to be removed then.
  function has_turn(known)
    local head = head_of(known)
    return head and (known.limit == 0 or known.units + head.units <= known.limit or head.units > known.limit)
  end

  function remove_turn(turn) turn_count = turn_count - redis.call("ZREM", turns, turn) end

  -- first_turns returns some of the first turns, as lists: the units that a tenant holds per unit of share, and since when and the
  -- tenant as in turns.
  function first_turns(count)
    local found = turn_count > 0 and redis.call("ZRANGE", turns, 0, count - 1, "WITHSCORES") or {}
    local list = {}
    for i = 1, #found, 2 do list[#list + 1] = { tonumber(found[i + 1]), found[i] } end
    return list
  end

  -- turn_of returns the turn of a tenant with this first waiter.
  function turn_of(known, head) return { known.units / known.share, since_last(known, head.position) .. known.tenant } end

  function precedes(one, other)
    return not other or one[1] < other[1] or one[1] == other[1] and one[2] <= other[2]
  end

  -- set_turn stores whether it is in turns, and where.
  local function set_turn(known)
    local turn = nil
    if has_turn(known) then
      known.last = since_last(known, head_of(known).position)
      local now_due = turn_of(known, head_of(known))
      turn = now_due[2]
      new_turns = new_turns or turn_count == 0
      turn_count = turn_count + redis.call("ZADD", turns, string.format("%.17g", now_due[1]), turn)
    end
    if known.turn and known.turn ~= turn and turn_count > 0 then remove_turn(known.turn) end
    known.turn = turn
  end

  -- settle stores the turns of all tenants that have changed.
  function settle()
    for _, known in ipairs(touched) do
      set_turn(known)
      known.touched = false
    end
    touched = {}
  end

  -- granted_to counts a grant.
  function granted_to(known, units, token)
    if not (counted_to and token > counted_to) then known.units, known.permits = known.units + units, known.permits + 1 end
    local last = "1" .. place(token)
    if not known.granted or last > known.last then known.last, known.granted = last, true end
    touch(known)
  end

  -- releases counts units that a permit no longer has, all of them or some.
  function releases(id, units, token, permits)
    if counted_to and (tonumber(token) or 0) > counted_to then return end
    local known = touch(account(tenant_of(id)))
    known.units, known.permits = math.max(0, known.units - units), math.max(0, known.permits - permits)
  end

  -- leave_lanes removes from lanes what was taken, and ids with these positions.
  function leave_lanes(ids, positions)
    for i, id in ipairs(ids) do
      local known = touch(account(tenant_of(id)))
      forget_heads(known)
      taken[#taken + 1] = member(known, id, whole(positions[i]) or 0)
    end
    for _, known in ipairs(taken_of) do known.taken = 0 end
    if #taken > 0 then redis.call("ZREM", lanes, unpack(taken)) end
    taken, taken_of = {}, {}
  end

  -- add_to_lane adds a waiter to a list for ZADD.
  function add_to_lane(list, id, position)
    list[#list + 1], list[#list + 2] = "0", member(account(tenant_of(id)), id, position)
  end

  local first_stored, first_joined -- the first of turns, false if there is none; and the first of those that this call adds

  -- join_lane records that a waiter will be added, so that is_next knows of it.
  function join_lane(known, id, position, units)
    local head = head_of(known)
    known.added = (known.added or 0) + 1
    if head and head.position <= position then
      if not head.joins then forget_heads(known) end
      return
    end
    touch(known)
    known.heads, known.at = { { id = id, member = member(known, id, position), position = position, units = units, joins = true } }, 1
    local turn = turn_of(known, head_of(known))
    if has_turn(known) and precedes(turn, first_joined) then first_joined = turn end
  end

  -- is_next reports whether a new request of a tenant would be granted what is available: it comes before those of its own that
  -- wait, it keeps within its limit, and no other tenant comes before it. Whoever waits then does not fit.
  function is_next(known, units, position)
    if known.limit > 0 and known.units + units > known.limit then return false end
    if waiters == 0 then return true end
    local head = head_of(known)
    if head and head.position <= position then return false end
    if first_stored == nil then
      first_stored = first_turns(1)[1] or false
    end
    local mine = turn_of(known, { position = position })
    return precedes(mine, first_stored) and precedes(mine, first_joined)
  end

  -- forget removes tenants that have nothing, more than were added: of some, those that were granted something longest ago.
  local function forget(added)
    local sample, idle = redis.call("HRANDFIELD", tenants, 2 * added + 2, "WITHVALUES"), {}
    for i = 1, #sample, 2 do
      local of, units, last = string.match(sample[i + 1], "^(%d+) (%d+) %d+ %d+ %d+ %d+ ([01]%x+)$")
      local known = last and (whole(of) ~= generation or units == "0") and account(string.sub(sample[i], 2))
      if known and known.units == 0 and not known.unstored and not head_of(known) then idle[#idle + 1] = known end
    end
    table.sort(idle, function(one, other) return one.last < other.last end)
    for i = 1, math.min(#idle, added + 1) do
      redis.call("HDEL", tenants, ":" .. idle[i].tenant)
      accounts[idle[i].tenant] = nil
    end
  end

  -- store_tenants stores the tenants that have changed. Before holders are stored, those with units are enough.
  function store_tenants(with_units_only)
    local fields, gone = {}, {}
    for _, known in pairs(accounts) do
      if known.unstored and (known.units > 0 or not with_units_only) then
        known.unstored = false
        if known.units == 0 and not known.granted and not head_of(known) then
          gone[#gone + 1] = ":" .. known.tenant
        else
          fields[#fields + 1] = ":" .. known.tenant
          fields[#fields + 1] = string.format("%d %d %d %d %d %d ", generation, known.units, known.permits, known.share, known.limit, known.since)
            .. (known.last or since_last(known, 0))
        end
      end
    end
    if new_turns then redis.call("PEXPIREAT", turns, text(expire_at)) end
    new_turns = false
    local sum = string.format("%d %d", generation, holders + extra_weight) .. (counted_to and " " .. text(counted_to) or "")
    if sum ~= stored_all and (#fields > 0 or holders > 0) then fields[#fields + 1], fields[#fields + 2] = "all", sum end
    if #gone > 0 then redis.call("HDEL", tenants, unpack(gone)) end
    if #fields == 0 then return end
    local added = redis.call("HSET", tenants, unpack(fields))
    if not stored_all then redis.call("PEXPIREAT", tenants, text(expire_at)) end
    stored_all = sum
    if added > 0 and redis.call("HLEN", tenants) > FEW then forget(added) end
  end

  -- count_again counts some of the permits that are not counted yet, and adds some of the waiters that are not in lanes: those at
  -- the end of the queue, as nobody joins it meanwhile. What else is missing there shows when none is added.
  function count_again()
    if not stored_tenants then -- before anything of tenants is written
      redis.call("HSET", meta, "tenants", "1")
      stored_tenants = "1"
      end_plain()
    end
    if counted_to then
      local found = redis.call("ZRANGEBYSCORE", owner, "(" .. text(counted_to), "+inf", "WITHSCORES", "LIMIT", 0, BOUND)
      local ids = {}
      for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
      local weights = #ids > 0 and weight_count > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
      local before = counted_to
      for i, id in ipairs(ids) do
        counted_to = whole(found[2 * i]) or counted_to
        granted_to(account(tenant_of(id)), parse_weight(weights[i]), counted_to)
      end
      if #ids < BOUND or counted_to == before then counted_to = nil end -- the latter, if no token is one of ours
    end
    if missing then
      local length = redis.call("ZCARD", lanes)
      if length > waiters or anew then
        redis.call("DEL", lanes, turns)
        length, turn_count, anew = 0, 0, false
      end
      local found, list = redis.call("ZRANGE", queue, length, length + STEP - 1, "WITHSCORES"), {}
      for i = 1, #found, 2 do
        add_to_lane(list, found[i], whole(found[i + 1]) or 0)
        forget_heads(touch(account(tenant_of(found[i]))))
      end
      local added = #list > 0 and redis.call("ZADD", lanes, unpack(list)) or 0
      redis.call("PEXPIREAT", lanes, text(expire_at))
      if #list > 0 and added == 0 then
        redis.call("DEL", lanes, turns)
        turn_count = 0
      end
      missing = length + added < waiters
    end
    caught_up = not counted_to and not missing
    if not caught_up then reply[MORE] = 1 end
  end

  -- A tenant without a limit whose calls wait has a turn. Without one, all are made anew: another program may have deleted them.
  if waiters > 0 and (renew_keys or turn_count == 0) then
    local known = account(tenant_of(redis.call("ZRANGE", queue, 0, 0)[1]))
    local lacks = known.limit == 0 and not (known.turn and redis.call("ZSCORE", turns, known.turn))
    anew, missing, caught_up = anew or lacks, missing or lacks, caught_up and not lacks
  end

  -- What the call declares of tenants. The newest declaration is in effect.
  for i = first_tenant_arg, first_tenant_arg + 4 * tenant_args - 1, 4 do
    local known, declared_since = account(ARGV[i]), (since or steady) + tonumber(ARGV[i + 3])
    if declared_since > known.since or known.since > steady then
      local share, most = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
      if share ~= known.share or most ~= known.limit then touch(known) end
      if most > 0 and most ~= known.limit then lowered[#lowered + 1] = known end
      known.share, known.limit, known.since, known.unstored = share, most, declared_since, true
    end
  end
end
