-- status: what the name looks like now.
--
-- Results: limit, declared, pinned (1 or 0), units in use, holders, waiters, us since the head of the
--         line arrived (0: no line), ms until the nearest deadline (-1: none), ms after which a grant
--         of a rate lapses (0: it is none), whether Redis knows the name (1 or 0), permits granted,
--         permits lapsed, what time it is in us, and what a limit is asked
--         for with that is set by hand now: the time, or more than that of the last one
-- First write: PEXPIREAT or ZREM, and none on a name that is not in use.
if lapsed > 0 then reap() end
if promote then promote() end
local head = waiting > 0 and redis.call("ZRANGE", queue, 0, 0, "WITHSCORES")[2]
local first = redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2]
local counts = redis.call("HMGET", meta, "granted", "lapsed")
for _, number in ipairs({
  limit,
  declared,
  pinned and 1 or 0,
  holders + extra,
  holders,
  waiting,
  head and math.max(0, steady - head) or 0,
  first and math.max(0, first - now) or -1,
  math.max(0, window - 1),
  (known[1] or horizon > 0) and 1 or 0, -- either may be missing: a pin needs no horizon, and meta may be lost
  (tonumber(counts[1]) or 0) + permits,
  (tonumber(counts[2]) or 0) + overdue,
  steady,
  math.max(micros, (tonumber(redis.call("HGET", meta, "pinned_at")) or 0) + 1),
}) do
  size = size + 1
  reply[size] = number
end

