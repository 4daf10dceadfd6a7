-- plain_tenants: what release and then acquire do on a plain name that tenants share, as in plain.lua, and that may have waiters: it
-- releases ids, grants to those of the tenants that are next, and then grants new ids that weigh 1 what is left, or adds them to the queue.
-- accounts.lua says what is stored, and turns.lua who is next.
--
-- KEYS    owner, queue, timeout, counter, meta, lanes, turns, tenants
-- ARGV    caller       client id of the calling process: grants to its waiters are in the reply
--         wake         channel prefix: grants to any other client are published on wake .. its client id
--         known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms; 0: it acquires nothing
--         queues       1: ids that it cannot acquire join the queue at its end; 0: it declines if there are any
--         count        how many ids it acquires
--         declared     how many tenants it declares, all of them of these ids
--         .. for each its name, share and limit, and the us from since to when the caller first declared these
--         .. ids, then the ids to release before that, all of which must be holders
-- Returns 0: release and acquire must answer; or one list of numbers:
--         next, waiters, plain  as in semaphore.lua
--         results  of the new ids, as in semaphore.lua
--         grants   as in semaphore.lua
-- First write: ZADD, so that it is refused under OOM; ZREM, which works then, if it acquires nothing.
local owner, queue, timeout, counter, meta, lanes, turns, tenants = unpack(KEYS)
local caller, wake, known_epoch, since, lease, queues, count, declared = unpack(ARGV, 1, 8)
local first_tenant = 9
local first_id, head_start = first_tenant + 4 * declared, 0
local limit_form = "^(%d+)@%+?$"

-- include plain.lua
-- include states.lua
-- include plain_ids.lua
if renew_keys and holders + waiters > 0 then return { 0 } end -- then the full script compares what is counted with what is stored
-- include bytes.lua
-- include tenant_ids.lua
local available, first_turns = math.max(0, limit - holders + released), {}
if waiters > 0 then -- else what another program may have left there shows when a call waits
  -- Each grant makes a turn later, so as many turns as units are enough.
  first_turns = redis.call("ZRANGE", turns, 0, math.max(1, math.min(available, STEP)) - 1, "WITHSCORES")
  if redis.call("ZCARD", lanes) ~= waiters or #first_turns == 0 then return { 0 } end -- the full script makes them anew
  if available == 0 then first_turns = {} end
end

-- include plain_accounts.lua
-- What the call declares of tenants. Turns may change with a share or a limit.
for i = first_tenant, first_id - 4, 4 do
  local name, share, most, after = unpack(ARGV, i, i + 3)
  local known, declared_at = accounts[name], since + after
  if not known then return { 0 } end
  local known_since = tonumber(known.since)
  if declared_at > known_since or known_since > micros then
    if share ~= known.share or most ~= known.limit then
      share, most = declared_as(share, most)
      if not share or known.last and (share + 0 ~= known.share + 0 or most + 0 ~= known.limit + 0) then return { 0 } end
    end
    known.share, known.limit, known.since = share, most, format("%d", declared_at)
  end
end
local function may_have_more(known) return known.limit + 0 == 0 or known.units < known.limit + 0 end
local function score_of(known) return may_have_more(known) and known.units / known.share or AT_LIMIT end -- in turns

-- head_of returns the first waiter of a tenant that is not taken, as it is in lanes. It reads two at first, and then more.
local function head_of(known)
  if waiters == 0 then return nil end
  if not known.heads or known.heads[known.at] == nil and known.more then
    known.lane = known.lane or lane_of(known.tenant)
    local lane, size = known.lane, 1 + known.at
    known.heads = redis.call("ZRANGEBYLEX", lanes, "[" .. lane, "(" .. lane .. "\255", "LIMIT", known.taken, size)
    known.at, known.more = 1, #known.heads == size
  end
  return known.heads[known.at]
end

-- The fairness rule, as in turns.lua.
local function precedes(one, other)
  local used, others = one.units / one.share, other.units / other.share
  if used ~= others then return used < others end
  local granted, others_granted = tonumber(string.sub(one.last, 1, 14), 16), tonumber(string.sub(other.last, 1, 14), 16)
  if granted ~= others_granted then return granted < others_granted end
  return sorts_before(one.last .. one.tenant, other.last .. other.tenant)
end

-- Those whose first waiter may be granted something, in that order. The stored turn of a tenant that releases something comes too late, but
-- shows whether it has waiters.
local candidates, releasing, their_turns = {}, {}, {}
local function add_candidate(known)
  local low, high = 1, #candidates + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(candidates[middle], known) then low = middle + 1 else high = middle end
  end
  table.insert(candidates, low, known)
end
for i = 1, #first_turns, 2 do
  local known = accounts[tenant_of_turn(first_turns[i])]
  if known.released == 0 then
    if known.stored_turn ~= first_turns[i] or tonumber(first_turns[i + 1]) ~= score_of(known) then return { 0 } end
    if may_have_more(known) then candidates[#candidates + 1] = known end
  end
end
for i = 1, #account_list do
  local known = account_list[i]
  if known.released > 0 then releasing[#releasing + 1], their_turns[#their_turns + 1] = known, known.stored_turn end
end
if waiters > 0 and #releasing > 0 then
  for i, score in ipairs(redis.call("ZMSCORE", turns, unpack(their_turns))) do
    local known = releasing[i]
    if not score then
      known.heads, known.stored_turn = {}, false
    elseif may_have_more(known) then
      add_candidate(known)
    end
  end
end

newest_token = math.min(tonumber(newest_token), last_number)

local function grant(known, token)
  newest_token = token
  known.units, known.last = known.units + 1, place(token) .. "1"
  known.changes = true
end

local promoted, heads, leavers_of_lanes, ids = 0, {}, {}, {} -- heads: id, position, ...
while promoted < math.min(available, STEP) and #candidates > 0 do
  local known = table.remove(candidates, 1)
  local head = head_of(known)
  if not head then return { 0 } end
  local lane = known.lane
  ids[promoted + 1] = string.sub(head, #lane + 15) .. (known.tenant == "" and "" or ":" .. known.tenant)
  leavers_of_lanes[promoted + 1] = head
  heads[2 * promoted + 1], heads[2 * promoted + 2] = ids[promoted + 1], to_position(head, lane)
  grant(known, first_number + promoted)
  known.at, known.taken, promoted = known.at + 1, known.taken + 1, promoted + 1
  if may_have_more(known) and head_of(known) then add_candidate(known) end
end
if promoted == STEP and promoted < available then return { 0 } end -- more may have their turn
if promoted > 0 then
  for i, position in ipairs(redis.call("ZMSCORE", queue, unpack(ids))) do
    if tonumber(position) ~= heads[2 * i] then return { 0 } end -- of an id that does not wait
  end
end

-- If any unit is left, the tenants of all waiters may have no more.
local held, waits, joining, remaining = 0, {}, {}, waiters - promoted
for i = 1, count do
  local id, number = ARGV[first_id + i - 1], first_number + promoted + i - 1
  local known = owners_of[first_id + i - 1]
  if promoted + held < available and may_have_more(known) then
    grant(known, number)
    held = held + 1
  else
    if queues == "0" then return { 0 } end
    waits[i], known.waits = true, true
    local position = place(number)
    known.last = known.last or place(newest_token) .. "0" .. position
    local bare = known.tenant == "" and id or string.sub(id, 1, -#known.tenant - 2)
    joining[#joining + 1], joining[#joining + 2] = "0", (known.lane or lane_of(known.tenant)) .. position .. bare
  end
end
-- What another program has left there is for the full script to remove. A key of another type fails the call before it writes.
if waiters == 0 and #joining > 0 and redis.call("ZCARD", lanes) + redis.call("ZCARD", turns) > 0 then return { 0 } end
local reply, size = { -1, 0, 0 }, 3 + 2 * count
local crowds = { queue, lanes, turns }

-- include plain_store.lua
reply[2], reply[3] = remaining + queued, may_wait and 5 or 4
for i = 1, count do reply[2 + 2 * i], reply[3 + 2 * i] = waits[i] and WAITING or HELD, first_new + i - 1 end

local changed, later, turns_gone = { "all", format("%s %d %d", generation, holders - released + promoted + held, newest_token) }, {}, {}
local idle, crowded = {}, nil
for i = 1, #account_list do
  local known = account_list[i]
  if known.changes then
    local units, last, stored_turn, turn = known.units, known.last, known.stored_turn, nil
    if known.waits or head_of(known) then
      turn = last .. known.tenant
      later[#later + 1], later[#later + 2] = score_of(known), turn
    end
    if stored_turn and stored_turn ~= turn then turns_gone[#turns_gone + 1] = stored_turn end
    local has_nothing = units == 0 and not turn
    if has_nothing and crowded == nil then crowded = redis.call("HLEN", tenants) > REMEMBERED end
    if has_nothing and crowded then
      idle[#idle + 1] = fields[i + 1]
    else
      changed[#changed + 1] = fields[i + 1]
      changed[#changed + 1] = write_plain(generation, units, known.share, known.limit, known.since, last)
    end
  end
end
redis.call("HSET", tenants, unpack(changed))
if #idle > 0 then redis.call("HDEL", tenants, unpack(idle)) end
if promoted > 0 then redis.call("ZREM", lanes, unpack(leavers_of_lanes)) end
if queued > 0 then
  redis.call("ZADD", lanes, unpack(joining))
  if remaining == 0 then redis.call("PEXPIREAT", lanes, expiry) end
end
if #later > 0 then
  redis.call("ZADD", turns, unpack(later))
  if waiters == 0 then redis.call("PEXPIREAT", turns, expiry) end
end
if waiters > 0 and #turns_gone > 0 then redis.call("ZREM", turns, unpack(turns_gone)) end

-- include plain_index.lua
-- include plain_renew.lua
return reply
