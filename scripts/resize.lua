-- resize: sets a limit by hand, which stands whatever processes declare, or takes it away. A smaller
-- one takes nothing from anybody; under 0 nobody gets in.
--
-- ARGV    7 pin  the limit to be pinned; -1: none, so that the declared one holds again
-- Results: none
-- First write: HSET, so that a pin is refused under OOM, or HDEL, so that taking it away is not.
local pin = tonumber(ARGV[7])
if pin >= 0 then
  redis.call("HSET", meta, "pinned", text(pin), "layout", LAYOUT)
  redis.call("PERSIST", meta)
  pinned, limit = pin, pin
elseif pinned then
  redis.call("HDEL", meta, "pinned")
  pinned, limit = nil, declared
  horizon, renew = math.max(horizon, now + 2 * LINGER), true -- meta had no end
end
if lapsed > 0 then reap() end

