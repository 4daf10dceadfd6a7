-- resize: pins a limit, which overrides what processes declare, or removes the pin. A lower limit revokes nothing; while
-- it is 0 nothing is granted. The latest request wins, in whatever order calls and copies of them arrive. One older
-- than LINGER is refused: the record of a later one may be gone after twice that time.
--
-- ARGV    pin    the limit to be pinned; empty: none, so that the declared one is in effect again
--         asked  server us at which it was requested, as status.lua returned it then
-- Results: HELD, also if a later request won; GONE if it came too late, and changed nothing
-- First write: HDEL, so that it works under OOM.

-- include semaphore.lua
-- include limit.lua
-- include epoch.lua
-- include remove.lua
-- include queue.lua

local pin, asked = unpack(ARGV, OWN, OWN + 1)
pin, asked, resizing = tonumber(pin), tonumber(asked), true
local newer = asked > (whole(redis.call("HGET", meta, "pinned_at"), CENTURY) or 0)
local too_late = newer and micros - asked > 1000 * LINGER
if newer and not too_late then
  end_plain()
  redis.pcall("HDEL", meta, "marked_at", "marked", "before_at", "before") -- the pace was that under another limit
  stored_marked_at = nil
  if pin then
    redis.call("HSET", meta, "pinned", text(pin), "pinned_at", text(asked), "layout", LAYOUT)
    redis.call("PERSIST", meta)
    pinned, limit = pin, pin
  else
    expire_at, renew_keys = math.max(expire_at, now + 2 * LINGER), true -- meta had no expiry, or is new
    redis.call("HDEL", meta, "pinned")
    redis.call("PEXPIREAT", meta, text(expire_at)) -- at once, in case a right is missing for what follows
    redis.call("HSET", meta, "pinned_at", text(asked), "layout", LAYOUT)
    pinned, limit = nil, declared
  end
end
reply[size + 1], reply[size + 2] = too_late and GONE or HELD, 0
size = size + 2
if expired_entries > 0 then reap() end

-- include finish.lua
