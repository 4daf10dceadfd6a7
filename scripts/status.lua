-- status: what the name looks like now.
--
-- Returns finish(), with results: limit, declared, pinned (1 or 0), units in use, holders, waiters,
--         us since the head of the line arrived (0: no line), ms until the nearest deadline (-1: none)
-- First write: PEXPIREAT or ZREM, and none on a name that is not in use.
if nearest then keep(0) end
reap()
promote()
local head = waiting > 0 and redis.call("ZRANGE", queue, 0, 0, "WITHSCORES")[2]
local first = redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2]
return finish({
  limit,
  declared,
  pinned and 1 or 0,
  holders + extra,
  holders,
  waiting,
  head and math.max(0, micros - head) or 0,
  first and math.max(0, first - now) or -1,
})
