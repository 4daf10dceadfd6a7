-- pace.lua: how fast the queue is. Status computes it from how many permits had been granted at two moments since the queue is not
-- empty, under the same limit: the later one, and the one before, at least a second earlier.
--
-- needs:    had_queue, recorded_at, steady
-- provides: SECOND, record_pace
local SECOND = 1000000 -- us
local function record_pace()
  local recorded = redis.call("HMGET", meta, "marked", "granted")
  if had_queue and recorded_at then
    redis.pcall("HSET", meta, "before_at", string.format("%d", recorded_at), "before", recorded[1] or 0)
  else
    redis.pcall("HDEL", meta, "before_at", "before")
  end
  redis.pcall("HSET", meta, "marked_at", string.format("%d", steady), "marked", recorded[2] or 0)
end
