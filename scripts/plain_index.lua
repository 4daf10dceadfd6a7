-- plain_index.lua: makes the sorted sets that have an entry for each waiter fast. Redis searches one of up to 128 short members from its
-- beginning, unless it once had a member that was not short: then it has an index.
--
-- needs:    crowds, queued, remaining
-- provides: index_crowds
local function index_crowds()
  if remaining + queued < 16 then return end
  local long = string.rep("-", 65) -- zset-max-listpack-value is 64
  for _, key in ipairs(crowds) do
    redis.call("ZADD", key, "inf", long)
    redis.call("ZREM", key, long)
  end
end
