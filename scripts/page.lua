-- page: some of the holders, by token, or of the waiters, by position.
--
-- ARGV    kind      owner or queue
--         after     the number of the entry after which the page begins, as this script returned it; empty: the first
--         after_id  of that entry, which may have been removed since
--         count    most entries to return; large ids make it fewer
-- Returns whether more follow (1 or 0), then id, number, weight, ms until the deadline (-1: expired), the numbers of its units, with
--         commas, id, ... A number is text, as another program may have stored what is not one of ours.
-- First write: none.

-- include semaphore.lua
-- include numbers.lua
-- include bytes.lua

local kind, after, after_id, count = unpack(ARGV, OWN, OWN + 3)
local key = kind == "owner" and owner or queue
local STEP, SIZE = 20, 65536 -- entries that are read at once; bytes of ids at which a page is full
local OF_NUMBER = 60 -- as many bytes a number takes the place of

-- Head starts can give several waiters one number, so the end of a page is known by the id, too.
local first = 0
if after ~= "" then
  local high = redis.call("ZCOUNT", key, "-inf", after)
  first = redis.call("ZCOUNT", key, "-inf", "(" .. after)
  while first < high do
    local middle = math.floor((first + high) / 2)
    if sorts_before(after_id, redis.call("ZRANGE", key, middle, middle)[1]) then high = middle else first = middle + 1 end
  end
end

local clock = redis.call("TIME")
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
local page, bytes = { 0 }, 0
count = math.min(tonumber(count), 2 * BOUND)
repeat
  local found = redis.call("ZRANGE", key, first, first + math.min(STEP, count) - 1, "WITHSCORES")
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  local deadlines = #ids > 0 and redis.call("ZMSCORE", timeout, unpack(ids))
  local weights = #ids > 0 and redis.call("HMGET", weight, unpack(ids))
  local read = 0
  for i, id in ipairs(ids) do
    if bytes > SIZE then break end
    local list = numbering and kind == "owner" and numbering.of(id) or {}
    local remaining = (tonumber(deadlines[i]) or 0) - now
    page[#page + 1], page[#page + 2], page[#page + 3] = id, found[2 * i], parse_weight(weights[i])
    page[#page + 1] = remaining > 0 and math.min(remaining, MONTH + DAY) or -1
    page[#page + 1] = "" .. table.concat(list, ",") -- miniredis returns a single number as one
    bytes, read = bytes + #id + OF_NUMBER * #list, read + 1
  end
  first, count = first + read, count - read
until #ids == 0 or count < 1 or bytes > SIZE
page[1] = redis.call("ZCARD", key) > first and 1 or 0
return page
