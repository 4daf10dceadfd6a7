-- plain_leave.lua: what the plain scripts that release have in common: it declines, before anything is written, unless the name is plain and
-- all ids are holders. If it is one, that is left to its ZREM.
--
-- needs:    counter, limit_form, meta, owner, timeout
-- provides: LAYOUT, LINGER, expire_at, renew_keys
local LAYOUT, LINGER = "2", 10000 -- ms; as in semaphore.lua
local layout, plain = unpack(redis.call("HMGET", meta, "layout", "plain"), 1, 2)
if layout ~= LAYOUT or not plain or not string.find(plain, limit_form) then return { 0 } end
local dated = redis.call("ZCARD", timeout) -- a key of another type must fail the call before it writes
if #ARGV > 1 then
  for _, token in ipairs(redis.call("ZMSCORE", owner, unpack(ARGV))) do
    if not token then return { 0 } end
  end
end

-- After a long lease the keys need not exist for so long once the name is idle. What has expired is left to the full script, and so is a last
-- number that is ahead of the clock.
local renew_keys, expire_at = redis.call("PTTL", owner) > 4 * LINGER, nil
if renew_keys then
  local clock, last_number = redis.call("TIME"), tonumber(redis.call("GET", counter))
  local now = 1000 * clock[1] + math.floor(clock[2] / 1000)
  if not (last_number and last_number <= 1000 * now + 1000000) or redis.call("ZCOUNT", timeout, "-inf", now) > 0 then return { 0 } end
  renew_keys = dated == #ARGV
  expire_at = now + 2 * LINGER
end
