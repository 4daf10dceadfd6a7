-- plain_enter.lua: what the plain scripts that acquire have in common: it declines, before anything is written, unless all ids to release are
-- holders, the new ids fit, and none of them is known. Then it stores the deadlines and the last number, and
-- has for ZADD what is to be stored of the permits: token, id, ...
--
-- needs:    count, counter, expire_at, first_id, first_released, format, holders, last_number, lease, limit, meta, micros, now,
--           timeout
-- provides: entries, expiry, first, last_token, new_keys, released
-- changes:  count
count = tonumber(count)
local released = #ARGV + 1 - first_released
if holders - released + count > limit then return { 0 } end
-- include plain_holders.lua

local deadline, expiry, new_keys = format("%d", now + lease), format("%d", expire_at), holders == released
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
local last_token = format("%d", first + count - 1)
for i = 1, count - 1 do entries[2 * i - 1] = format("%d", first + i - 1) end
entries[2 * count - 1] = last_token
redis.call("SET", counter, last_token, "PXAT", expiry)
redis.pcall("HINCRBY", meta, "granted", count)
