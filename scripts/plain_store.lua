-- plain_store.lua: what the plain scripts of names with a queue have in common once it is decided which waiters are granted. It declines
-- in cases that are not worth repeating here; then it writes, and publishes what others must know. It also declines if its first write finds
-- that the one new id is known, or that the one id to release is no holder.
--
-- needs:    BOUND, SECOND, caller, count, counter, epoch, expire_at, first_id, first_number, first_released, format,
--           head_start, heads, held, holders, lease, marked_at, meta, micros, nearest, now, owner, plain_flag, promoted, queue,
--           record_pace, released, remaining, reply, size, timeout, waiters, waits, wake
-- provides: expiry, first_new, had_queue, may_wait, messages, paced, queued, recorded_at, steady
-- changes:  size
local comes_first = remaining > 0 and count > 0 and not (nearest and nearest <= now + lease) -- the full script has others poll for a nearer deadline
if comes_first or promoted >= BOUND then return { 0 } end

local owners, leavers, number, messages = {}, {}, first_number, nil -- owners: token, id, ...
for i = 1, promoted do
  local id, position, token = heads[2 * i - 1], tonumber(heads[2 * i]), format("%d", number)
  if not (position and position >= 0 and position < 2 ^ 53 and position % 1 == 0) then return { 0 } end
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

local first_new, queued = number, count - held
local due, positions, deadline = {}, {}, format("%d", now + lease)
for i = 1, count do
  local id = ARGV[first_id + i - 1]
  due[2 * i - 1], due[2 * i] = deadline, id
  if waits[i] then
    positions[#positions + 1], positions[#positions + 2] = format("%d", number - head_start), id
  else
    owners[#owners + 1], owners[#owners + 2] = format("%d", number), id
  end
  number = number + 1
end

local expiry, stored = format("%d", expire_at), format("%d", number - 1)
if count > 0 then
  if redis.call("ZADD", timeout, "NX", unpack(due)) == 0 then return { 0 } end
  if not nearest then redis.call("PEXPIREAT", timeout, expiry) end -- the key may be new
  redis.call("SET", counter, stored, "PXAT", expiry) -- before anything is released, in case this right is missing
end
if released > 0 then
  local removed = redis.call("ZREM", owner, unpack(ARGV, first_released))
  if count == 0 and removed == 0 then return { 0 } end
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end
if promoted > 0 then
  if count == 0 then redis.call("SET", counter, stored, "PXAT", expiry) end
  redis.call("ZREM", queue, unpack(leavers))
end
if #owners > 0 then
  redis.call("ZADD", owner, unpack(owners))
  if holders == released then redis.call("PEXPIREAT", owner, expiry) end
  redis.pcall("HINCRBY", meta, "granted", promoted + held)
end
local may_wait = string.sub(plain_flag, -1) == "+" -- which comes with the first waiter
if queued > 0 and not may_wait then
  redis.call("HSET", meta, "plain", plain_flag .. "+")
  may_wait = true
end
if queued > 0 then
  redis.call("ZADD", queue, unpack(positions))
  if remaining == 0 then redis.call("PEXPIREAT", queue, expiry) end
  reply[1] = nearest and math.min(lease, nearest - now) or tonumber(lease)
end

local had_queue, steady = waiters > 0, micros
local recorded_at = tonumber(marked_at)
if not (recorded_at and recorded_at >= 0 and recorded_at <= micros) then recorded_at = nil end
-- include pace.lua
local second_passed = micros - (recorded_at or 0) >= SECOND
local paced = second_passed and remaining + queued > 0 and (promoted + held > 0 or not had_queue)
if paced then record_pace() end

-- The "+" goes when no call has waited for a while: where waiters come and go, that would be two more writes for each.
if may_wait and second_passed and waiters + queued == 0 then
  may_wait = type(redis.pcall("HSET", meta, "plain", string.sub(plain_flag, 1, -2))) ~= "number"
end

if messages then
  for client, entries in pairs(messages) do
    redis.pcall("PUBLISH", wake .. client, entries .. " " .. epoch .. " " .. owner)
  end
end
