-- plain_ids.lua: what the plain scripts of names with a queue have in common: they decline unless no lease has ended, all ids to release are
-- holders, and none of the new ids is known. One new id, and one to release by a call that acquires none, are left to plain_store.lua.
--
-- needs:    count, first_id, holders, last_number, leaves, micros, now, queue, timeout
-- provides: BOUND, first_number, first_released, nearest, released, waiters
-- changes:  count
count = tonumber(count)
local BOUND = 150 -- as in semaphore.lua
local first_released = first_id + count
local released, waiters = #ARGV + 1 - first_released, redis.call("ZCARD", queue)
local first_number = last_number < micros and micros or last_number + 1 -- of what the call grants and adds to the queue

-- The deadlines of the ids that leave, and at least one more, show whether anything has expired.
local deadlines = redis.call("ZRANGE", timeout, 0, released, "WITHSCORES")
local nearest = tonumber(deadlines[2])
if nearest and nearest <= now or not nearest and holders + waiters > 0 then return { 0 } end
-- include plain_holders.lua
if released > 0 then
  nearest = nil -- of those that stay
  for i = #deadlines - 1, 1, -2 do
    if not leaves[deadlines[i]] then nearest = tonumber(deadlines[i + 1]) end
  end
end
if count > 1 then -- if it is one, ZADD says whether it is new
  local known = redis.call("ZMSCORE", timeout, unpack(ARGV, first_id, first_released - 1))
  for i = 1, count do
    if known[i] then return { 0 } end
  end
end
