-- acquire: permits, or positions in the queue, for a batch of ids. An id that is known already gets the same answer
-- again, keeps its position and has its lease renewed: any number of deliveries are one grant, and the answer to each is
-- worth a whole lease. Before that the call releases other ids: a busy client has both to send at once, and one
-- call is cheaper than two.
--
-- ARGV    wait        1: an id that does not fit joins the queue; 0: it is REFUSED
--         max_queue   most waiters there may be, else FULL; 0: any number
--         head_start  us by which to queue ahead of now, if it waits
--         bounded    1: it says of each id how long it may wait, and none joins the queue whose turn comes later: of a rate
--         count      how many ids it acquires
--         released   how many ids it releases
--         tenants_declared  how many tenants it declares. Before the ids come, for each, its name, share and limit, and the us
--                    from since to when the caller first declared these
--         with_numbers  1: its permits have numbers, as their ids say
--         .. ids, then, if any of them weighs more than 1, the weights of all, then, if they are bounded, the ms that each may wait, then the ids to release
-- Results: of the ids that it releases, as in release.lua; then HELD, WAITING, REFUSED (for a rate, with the ms until
--         it would be granted if no other request came; also one that may not wait for so long), FULL, TOO_BIG (weight above the limit), EARLY (instead of
--         REFUSED, with the ms until a server that may have lost state grants again; or, also instead of FULL and
--         with 0, if expired ids are left over at the bound: they may be all that is in its way, so it asks
--         again), EVICTED (also if it was released before this call arrived), or GONE
-- First write: SET, so that it is refused under OOM; PEXPIREAT if all ids are grants of a rate already.

-- include semaphore.lua
-- include limit.lua
-- include epoch.lua

local wait, max_queue, head_start, bounded, count, released, tenants_declared, with_numbers = unpack(ARGV, OWN, OWN + 7)
count, released, tenant_args, first_tenant_arg = tonumber(count), tonumber(released), tonumber(tenants_declared), OWN + 8
adds_numbers = with_numbers == "1"
local first_id = first_tenant_arg + 4 * tenant_args
local last_id, first_released = first_id + count - 1, #ARGV - released + 1
bounded = bounded == "1" and count or 0 -- of how many ids it says how long they may wait
local has_weights = count > 0 and first_released - bounded == last_id + count + 1
if not has_weights and first_released - bounded ~= last_id + 1 or not distinct(first_id, count) then
  return redis.error_reply("FAIRSEMIDS the ids are not as many as the call says, or one comes twice")
end
local old_deadlines = redis.call("ZMSCORE", timeout, unpack(ARGV, first_id, last_id))

-- The fast path of a rate, as plain_acquire.lua is that of a limit: without waiters, an acquire of new ids that all fit
-- needs no queue. It does not reap: expired holders occupy units that are not needed, until the keys have to be renewed, also because its
-- numbers are ahead of the clock, or an id does not fit.
local fast = window > 0 and waiters + weight_count + released == 0 and holders + count <= limit and steady < 1000 * (expire_at - LINGER)
  and not (stored_tenants or tenant_args > 0 or stored_numbered or adds_numbers or has_weights or renew_keys or declares or state_lost or now < grace_until)
for i = 1, count do fast = fast and not old_deadlines[i] end

local unreaped = 0 -- how many holders have expired; they block no grant and do not count
if fast then
  unreaped = redis.call("ZCOUNT", timeout, "-inf", text(now))
  fast = unreaped < BOUND and (unreaped == 0 or redis.call("ZCARD", timeout) == holders)
end

if fast then
  local due, granted, deadline = {}, {}, text(now + window)
  for i = 1, count do
    last_number = last_number < steady and steady or last_number + 1
    local id = ARGV[first_id + i - 1]
    due[2 * i - 1], due[2 * i] = deadline, id
    granted[2 * i - 1], granted[2 * i] = text(last_number), id
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, last_number
  end
  redis.call("SET", counter, text(last_number), "PXAT", text(expire_at))
  redis.pcall("HINCRBY", meta, "granted", count)
  redis.call("ZADD", timeout, unpack(due))
  redis.call("ZADD", owner, unpack(granted))
  if holders == 0 then -- both keys are new
    redis.call("PEXPIREAT", timeout, text(expire_at))
    redis.call("PEXPIREAT", owner, text(expire_at))
  end
  reply[ROOM] = limit - holders + unreaped - count
  return reply
end

-- include remove.lua
-- include queue.lua
-- include forecast.lua
-- include enter.lua

wait, max_queue = wait == "1", tonumber(max_queue)
head_start = wait and tonumber(head_start) or 0 -- else a call that does not wait would overtake waiters of its tenant

-- The SET comes first, as what follows would be allowed under OOM.
if expired_entries + released > 0 or tenancy and (waiters > 0 or not tenancy.caught_up) then
  redis.call("SET", counter, text(last_number), "PXAT", text(expire_at))
end
if expired_entries > 0 then reap() end
if released > 0 then release(first_released) end
if promote then promote() end -- waiters come before new requests

local had_waiters = waiters > 0
local deadline = text(now + lease)
local grant_deadline = window > 0 and text(now + window) or deadline
local due, granted, queued, new_weights = {}, {}, {}, {} -- for ZADD: score, id, ...; for HSET: id, weight, ...
-- For a rate: the units of the requests whose turn is asked, where one may come behind another the sum of all.
local most = math.max(1, bounded)
if has_weights and window > 0 and (bounded > 0 or not wait) then
  most = bounded > 0 and 0 or math.max(unpack(ARGV, last_id + 1, last_id + count))
  for i = last_id + 1, last_id + bounded do most = most + ARGV[i] end
end
local repeated = false -- whether any of the ids was sent before
for i = 1, count do repeated = repeated or old_deadlines[i] end
local tokens = repeated and redis.call("ZMSCORE", owner, unpack(ARGV, first_id, last_id))
local positions = repeated and waiters > 0 and redis.call("ZMSCORE", queue, unpack(ARGV, first_id, last_id)) or {}

-- turn_of returns the ms until a request would be granted, of a rate.
local turn_of = window > 0 and function(units, known)
  return rate.time_until_grant(waiters, units, most, weight_count > 0 or bounded > 0 and has_weights, known)
end

for i = first_id, last_id do
  local id, units = ARGV[i], has_weights and tonumber(ARGV[i + count]) or 1
  local nth = i - first_id + 1
  local state, number, known = GONE, nil, tenancy and tenancy.of(id)
  if old_deadlines[nth] then
    if tonumber(old_deadlines[nth]) > now then state, number = HELD, whole(tokens[nth]) end
    if state == HELD and not number then state, number = WAITING, whole(positions[nth]) end
    if state == WAITING and not number then state = redis.call("ZSCORE", timeout, id) and EVICTED or TOO_BIG end -- which promote has removed
    if state == HELD and numbering then report_numbers(number, numbering.of(id)) end
  elseif limit > 0 and units > limit or known and known.limit > 0 and units > known.limit then
    state = TOO_BIG
  elseif tenancy and not tenancy.caught_up then
    state = EARLY
  elseif now >= grace_until and holders + extra_weight + units <= limit
    and (known and tenancy.is_next(known, units, math.max(last_number + 1, steady) - head_start) or not known and waiters == 0) then
    last_number = last_number < steady and steady or last_number + 1
    state, number = HELD, last_number
    holders, extra_weight, granted_count = holders + 1, extra_weight + units - 1, granted_count + 1
    granted[#granted + 1], granted[#granted + 2] = text(last_number), id
    if known then tenancy.granted(known, units, last_number) end
    if numbering then report_numbers(last_number, numbering.allot(id, units)) end
  elseif not wait or turn_of and bounded > 0 -- it may not wait for its turn, or its turn is not known yet
    and (now < grace_until or reply[MORE] == 1 or turn_of(units, known) >= tonumber(ARGV[first_released - bounded + nth - 1])) then
    state = (now < grace_until or reply[MORE] == 1) and EARLY or REFUSED
  elseif max_queue > 0 and (known and tenancy.length(known) or waiters) >= max_queue then
    state = reply[MORE] == 1 and EARLY or FULL
  else
    last_number = last_number < steady and steady or last_number + 1
    state, number = WAITING, last_number - head_start
    waiters = waiters + 1
    if turn_of and bounded > 0 then rate.queue_up(units, known) end
    queued[#queued + 1], queued[#queued + 2] = text(number), id
    if known then tenancy.join(known, id, number, units) end
  end
  if number and not (state == HELD and window > 0 and old_deadlines[nth]) then -- a grant of a rate keeps its deadline, also a new one of promote
    due[#due + 1], due[#due + 2] = state == HELD and grant_deadline or deadline, id
    if units > 1 and not old_deadlines[nth] then
      new_weights[#new_weights + 1], new_weights[#new_weights + 2] = id, ARGV[i + count]
    end
  end
  number = number or 0
  if state == EARLY then number = reply[MORE] == 1 and 0 or grace_until - now end
  if turn_of and state == REFUSED then number = turn_of(units, known) end
  reply[size + 1], reply[size + 2] = state, number
  size = size + 2
end

-- report_deadline replies, if there are waiters, when the nearest deadline is. If it is earlier than all
-- that other processes know of, it makes the first waiters near the head of the queue poll.
local function report_deadline()
  local nearest = whole(redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2])
  reply[NEXT] = math.max(0, math.min(lease, nearest and nearest - now or lease))
  if not had_waiters or nearest and nearest <= now + lease then return end
  notify_heads()
end

if not wait then forecast = nil end -- only a caller that waits needs it

if #due > 0 then
  redis.call("SET", counter, text(last_number), "PXAT", text(expire_at))
  if waiters > 0 and window == 0 then report_deadline() end
  enter(due, granted, queued, new_weights)
elseif repeated and window > 0 then
  redis.call("PEXPIREAT", timeout, text(expire_at)) -- or WAIT would have no write to wait for
end

-- include finish.lua
