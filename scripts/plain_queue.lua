-- plain_queue: what release and then acquire do on a plain name, as in plain.lua, that may have waiters: it releases ids, grants
-- from the head of the queue, and then grants new ids that weigh 1 what is left, or adds them to the queue.
--
-- KEYS    owner, queue, timeout, counter, meta
-- ARGV    caller       client id of the calling process: grants to its waiters are in the reply
--         wake         channel prefix: grants to any other client are published on wake .. its client id
--         known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms; 0: it acquires nothing
--         head_start   us by which to queue ahead of now
--         count        how many ids it acquires
--         .. ids, then the ids to release before that, all of which must be holders
-- Returns 0: release and acquire must answer; or one list of numbers:
--         next     as in semaphore.lua
--         waiters  how many wait after the call; -1: the next call may be plain_acquire or plain_release
--         held     how many of the new ids hold; the others wait
--         first    the token of the first that holds. The numbers of all follow each other, and the position of a
--                  waiter is its number minus the head start
--         grants   as in semaphore.lua
-- First write: SET, so that it is refused under OOM; ZREM, which works then, if it acquires nothing.
local owner, queue, timeout, counter, meta = unpack(KEYS)
local caller, wake, known_epoch, since, lease, head_start, count = unpack(ARGV, 1, 7)
local first_id = 8
local limit_form = "^(%d+)%+?$"

-- include plain.lua
count = tonumber(count)
local BOUND = 150 -- as in semaphore.lua
local first_released = first_id + count
local released, waiters = #ARGV + 1 - first_released, redis.call("ZCARD", queue)

-- The deadlines of the ids that leave, and at least one more, show whether anything has expired.
local deadlines = redis.call("ZRANGE", timeout, 0, released, "WITHSCORES")
local nearest = tonumber(deadlines[2])
if not nearest or nearest <= now then return { 0 } end
if released > 0 then
  local held, leaves = redis.call("ZMSCORE", owner, unpack(ARGV, first_released)), {}
  for i = 1, released do
    local id = ARGV[first_released + i - 1]
    if not held[i] or leaves[id] then return { 0 } end
    leaves[id] = true
  end
  nearest = nil -- of those that stay
  for i = #deadlines - 1, 1, -2 do
    if not leaves[deadlines[i]] then nearest = tonumber(deadlines[i + 1]) end
  end
end
if count > 0 then
  local known = redis.call("ZMSCORE", timeout, unpack(ARGV, first_id, first_released - 1))
  for i = 1, count do
    if known[i] then return { 0 } end
  end
end

-- The fairness rule: units go to the head of the queue, and to new ids when nobody is left in it.
local available = math.max(0, limit - holders + released)
local promoted = math.min(available, waiters)
local remaining = waiters - promoted
local held = math.min(available - promoted, count) -- 0 if anybody remains
local queued = count - held

-- Some of what the full script does is not worth repeating here: it shortens how long the keys exist after a long lease, and makes
-- others poll for a nearer deadline.
local ends_long_lease = count == 0 and not nearest and expire_at > now + 4 * LINGER
local comes_first = remaining > 0 and count > 0 and not (nearest and nearest <= now + lease)
if ends_long_lease or comes_first or promoted >= BOUND then return { 0 } end

local had_queue, steady = waiters > 0, micros
local recorded_at = tonumber(marked_at)
if not (recorded_at and recorded_at >= 0 and recorded_at <= micros) then recorded_at = nil end
-- include pace.lua
local pace_due = micros - (recorded_at or 0) >= SECOND

-- The "+" comes with the first waiter, and goes when nobody has waited for a while: where waiters come and go, that would be two more
-- writes for each.
local may_wait = plain_flag ~= format("%d", limit)
local begins, ends = queued > 0 and not may_wait, may_wait and pace_due and waiters + queued == 0
local reply, size, messages = { -1, 0, held, 0 }, 4, nil
local owners, leavers, number = {}, {}, last_number < micros and micros or last_number + 1 -- owners: token, id, ...
local heads = promoted > 0 and redis.call("ZRANGE", queue, 0, promoted - 1, "WITHSCORES")
for i = 1, promoted do
  local id, position, token = heads[2 * i - 1], tonumber(heads[2 * i]), format("%d", number)
  if not (position >= 0 and position < 2 ^ 53 and position % 1 == 0) then return { 0 } end
  owners[2 * i - 1], owners[2 * i], leavers[i] = token, id, id
  local client, seq = string.match(id, "^([^:]*):(%d+)")
  if client == caller then
    reply[size + 1], reply[size + 2], reply[size + 3] = tonumber(seq), position, number
    size = size + 3
  elseif client then
    local entry = seq .. ":" .. format("%d", position) .. ":" .. token
    messages = messages or {}
    messages[client] = messages[client] and messages[client] .. "," .. entry or entry
  end
  number = number + 1
end
reply[4] = number

local due, positions, deadline = {}, {}, format("%d", now + lease)
for i = 1, count do
  local id = ARGV[first_id + i - 1]
  due[2 * i - 1], due[2 * i] = deadline, id
  if i <= held then
    owners[#owners + 1], owners[#owners + 2] = format("%d", number), id
  else
    positions[#positions + 1], positions[#positions + 2] = format("%d", number - head_start), id
  end
  number = number + 1
end

local expiry, stored = format("%d", expire_at), format("%d", number - 1)
if count > 0 then redis.call("SET", counter, stored, "PXAT", expiry) end
if released > 0 then
  redis.call("ZREM", owner, unpack(ARGV, first_released))
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end
if promoted > 0 then
  if count == 0 then redis.call("SET", counter, stored, "PXAT", expiry) end
  redis.call("ZREM", queue, unpack(leavers))
end
if count > 0 then
  redis.call("ZADD", timeout, unpack(due))
  if not nearest then redis.call("PEXPIREAT", timeout, expiry) end -- the key is new
end
if #owners > 0 then
  redis.call("ZADD", owner, unpack(owners))
  if holders == released then redis.call("PEXPIREAT", owner, expiry) end
  redis.pcall("HINCRBY", meta, "granted", promoted + held)
end
if begins then redis.call("HSET", meta, "plain", plain_flag .. "+") end
if ends and type(redis.pcall("HSET", meta, "plain", format("%d", limit))) ~= "number" then ends = false end
reply[2] = (begins or may_wait and not ends) and remaining + queued or -1
if queued > 0 then
  redis.call("ZADD", queue, unpack(positions))
  if remaining == 0 then redis.call("PEXPIREAT", queue, expiry) end
  reply[1] = nearest and math.min(lease, nearest - now) or tonumber(lease)
end
if pace_due and remaining + queued > 0 and (promoted + held > 0 or not had_queue) then record_pace() end

-- include plain_renew.lua
if messages then
  for client, entries in pairs(messages) do
    redis.pcall("PUBLISH", wake .. client, entries .. " " .. epoch .. " " .. owner)
  end
end
return reply
