-- page: some of those who hold, by token, or of those who wait, by place.
--
-- ARGV    7 key    owner or queue
--         8 after  the number to go on after; 0: from the first
--         9 count  most entries to return; entries with the number of the last one all come along
-- Returns id, number, weight, ms until the deadline (-1: lapsed), id, ...
-- First write: none.
local key = ARGV[7] == "owner" and owner or queue
local found = redis.call("ZRANGEBYSCORE", key, "(" .. ARGV[8], "+inf", "WITHSCORES", "LIMIT", 0, tonumber(ARGV[9]))
if #found > 0 then -- head starts can give two waiters one place: cut no such pair in two
  local edge = found[#found]
  while found[#found] == edge do found[#found], found[#found - 1] = nil, nil end
  for _, entry in ipairs(redis.call("ZRANGEBYSCORE", key, edge, edge, "WITHSCORES")) do found[#found + 1] = entry end
end

local clock = redis.call("TIME")
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
local page = {}
for i = 1, #found, 2 do
  local id = found[i]
  local deadline = tonumber(redis.call("ZSCORE", timeout, id)) or 0
  page[#page + 1] = id
  page[#page + 1] = tonumber(found[i + 1])
  page[#page + 1] = tonumber(redis.call("HGET", weight, id)) or 1
  page[#page + 1] = deadline > now and deadline - now or -1
end
return page
