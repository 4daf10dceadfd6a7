-- resize: sets a limit by hand, which stands whatever processes declare, or takes it away. A smaller
-- one takes nothing from anybody; under 0 nobody gets in. What was asked for last stands, in whatever order calls and
-- copies of them arrive. One that is old is refused: what came since may be forgotten, in twice the time.
--
-- ARGV    7 pin    the limit to be pinned; -1: none, so that the declared one holds again
--         8 asked  server us at which it was asked for, as status.lua had it then
-- Results: HELD, also if a later one stands; GONE if it came too late, and changed nothing
-- First write: HSET, so that a pin is refused under OOM, or HDEL, so that taking it away is not.
local pin, asked = tonumber(ARGV[7]), tonumber(ARGV[8])
local newer = asked > (whole(redis.call("HGET", meta, "pinned_at"), CENTURY) or 0)
local expired = newer and micros - asked > 1000 * LINGER
if newer and not expired then
  if pin >= 0 then
    redis.call("HSET", meta, "pinned", text(pin), "pinned_at", text(asked), "layout", LAYOUT)
    redis.call("PERSIST", meta)
    pinned, limit = pin, pin
  else
    redis.call("HDEL", meta, "pinned")
    redis.call("HSET", meta, "pinned_at", text(asked), "layout", LAYOUT)
    pinned, limit = nil, declared
    horizon, renew = math.max(horizon, now + 2 * LINGER), true -- meta had no end, or is new
  end
end
reply[size + 1], reply[size + 2] = expired and GONE or HELD, 0
size = size + 2
if lapsed > 0 then reap() end
