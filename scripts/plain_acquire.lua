-- plain_acquire: what acquire does for new ids that weigh 1 and fit, on a name that is plain: "plain" in meta is then
-- its limit. finish.lua sets it while nobody waits, every weight is 1 and the server has lost nothing, and whatever ends that
-- removes it first. So this script needs neither the queue nor the weights. It is the same rule in fewer steps: all
-- that it leaves to acquire it leaves before its first write.
--
-- KEYS    owner, timeout, counter, meta
-- ARGV    known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms
--         count        how many ids it acquires
--         .. ids, then the ids to release before that, all of which must be holders
-- Returns the token of the first id, the others have those that follow; or 0: acquire must answer
-- First write: ZADD, so that it is refused under OOM.
local owner, timeout, counter, meta = unpack(KEYS)
local LAYOUT, LINGER, FARTHEST = "2", 10000, 32 * 86400000 -- ms; as in semaphore.lua
local known_epoch, since, lease, count = unpack(ARGV, 1, 4)
local layout, limit, expire_at, epoch, server, declared_at =
  unpack(redis.call("HMGET", meta, "layout", "plain", "until", "epoch", "server", "since"), 1, 6)
if layout ~= LAYOUT or not limit or epoch ~= known_epoch then return { 0 } end

count = tonumber(count)
local first_id = 5
local first_released = first_id + count
local released, holders, clock = #ARGV + 1 - first_released, redis.call("ZCARD", owner), redis.call("TIME")
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
local deadline, last_number = now + lease, tonumber(redis.call("GET", counter))
limit, expire_at, declared_at = tonumber(limit), tonumber(expire_at), tonumber(declared_at)

-- What is stored may be any text, so whatever is not certainly right is left to acquire: NaN is neither more nor less.
local sound = limit and expire_at and declared_at and last_number and tonumber(since) <= declared_at
  and limit < 2 ^ 53 and holders - released + count <= limit and micros >= tonumber(epoch) and last_number <= micros + 1000000
  and expire_at >= deadline + LINGER and expire_at <= now + FARTHEST
if not sound then return { 0 } end

-- The server is the one that meta names: else it may have lost state.
local info = redis.pcall("INFO", "replication")
if type(info) ~= "string" or not server or #server ~= 12 or not string.find(info, "master_replid:" .. server, 1, true) then return { 0 } end

if released > 0 then
  local held = redis.call("ZMSCORE", owner, unpack(ARGV, first_released))
  for i = 1, released do
    if not held[i] then return { 0 } end
  end
end

deadline = string.format("%d", deadline)
local expiry, new_keys = string.format("%d", expire_at), holders == released
local entries = { deadline, ARGV[first_id] } -- for ZADD: score, id, ...
if count == 1 then -- ZADD says whether the id is new
  if redis.call("ZADD", timeout, "NX", deadline, ARGV[first_id]) == 0 then return { 0 } end
else
  local known = redis.call("ZMSCORE", timeout, unpack(ARGV, first_id, first_released - 1))
  for i = 1, count do
    if known[i] then return { 0 } end
    entries[2 * i - 1], entries[2 * i] = deadline, ARGV[first_id + i - 1]
  end
  redis.call("ZADD", timeout, unpack(entries))
end
if new_keys then redis.call("PEXPIREAT", timeout, expiry) end -- at once, in case a right is missing for what follows

local first = last_number < micros and micros or last_number + 1
redis.call("SET", counter, string.format("%d", first + count - 1), "PXAT", expiry)
redis.pcall("HINCRBY", meta, "granted", count)
if released > 0 then
  redis.call("ZREM", owner, unpack(ARGV, first_released))
  redis.call("ZREM", timeout, unpack(ARGV, first_released))
end
for i = 1, count do entries[2 * i - 1] = string.format("%d", first + i - 1) end
redis.call("ZADD", owner, unpack(entries))
if new_keys then redis.call("PEXPIREAT", owner, expiry) end
return { first }
