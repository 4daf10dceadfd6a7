-- page: some of those who hold, by token, or of those who wait, by place.
--
-- ARGV    7 key    owner or queue
--         8 after  the number of the entry to go on after, as this script told it; empty: from the first
--         9 id     of that entry, which may be gone by now
--        10 count  most entries to return; large ids make it fewer
-- Returns whether more follow (1 or 0), then id, number, weight, ms until the deadline (-1: lapsed), id, ... A number
--         is text, as a neighbour may have stored what is none of ours.
-- First write: none.
local key, after, latest = ARGV[7] == "owner" and owner or queue, ARGV[8], ARGV[9]
local STEP, SIZE = 20, 65536 -- entries that are read at once; bytes of ids, from which on a page is full

-- follows reports whether Redis has one id after the other where their numbers are equal: by bytes, of which ours
-- have no more than are compared.
local function follows(one, other)
  for i = 1, math.min(#one, #other, 1024) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a > b end
  end
  return #one > #other
end

-- Head starts give several waiters one number, so where a page ended is known by the id, too.
local first = 0
if after ~= "" then
  local beyond = redis.call("ZCOUNT", key, "-inf", after)
  first = redis.call("ZCOUNT", key, "-inf", "(" .. after)
  while first < beyond do
    local middle = math.floor((first + beyond) / 2)
    if follows(redis.call("ZRANGE", key, middle, middle)[1], latest) then beyond = middle else first = middle + 1 end
  end
end

local clock = redis.call("TIME")
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
local page, bytes, count = { 0 }, 0, math.min(tonumber(ARGV[10]), 2 * BOUND)
repeat
  local found = redis.call("ZRANGE", key, first, first + math.min(STEP, count) - 1, "WITHSCORES")
  local ids = {}
  for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
  local deadlines = #ids > 0 and redis.call("ZMSCORE", timeout, unpack(ids))
  local units = #ids > 0 and redis.call("HMGET", weight, unpack(ids))
  for i, id in ipairs(ids) do
    local left = (tonumber(deadlines[i]) or 0) - now
    page[#page + 1], page[#page + 2], page[#page + 3] = id, found[2 * i], weighs(units[i])
    page[#page + 1] = left > 0 and math.min(left, MONTH + DAY) or -1
    bytes = bytes + #id
  end
  first, count = first + #ids, count - #ids
until #ids == 0 or count < 1 or bytes > SIZE
page[1] = redis.call("ZCARD", key) > first and 1 or 0
return page
