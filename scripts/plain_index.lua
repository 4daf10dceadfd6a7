-- plain_index.lua: once a second, makes the sorted sets that have an entry for each waiter fast. Redis searches one of up to 128 short members
-- from its beginning, unless it once had a member that was not short: then it has an index. The member is removed at once. If it could stay, it
-- would be a waiter whose lease has ended.
--
-- needs:    crowds, format, now, paced, queued, remaining, timeout
if paced and remaining + queued >= 16 then
  local long = string.rep("-", 65) -- zset-max-listpack-value is 64
  if redis.pcall("ZREM", timeout, long) == 0 then -- else it cannot be removed: the right is missing
    redis.call("ZADD", timeout, format("%d", now), long)
    for _, key in ipairs(crowds) do
      redis.call("ZADD", key, "inf", long)
      redis.call("ZREM", key, long)
    end
    redis.call("ZREM", timeout, long)
  end
end
