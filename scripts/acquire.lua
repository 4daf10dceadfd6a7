-- acquire: permits, or places in line, for a batch of ids. An id that is known already gets the
-- same answer again, keeps its place and has its lease renewed: any number of deliveries are one
-- grant, and the answer to each is worth a whole lease. Before that it gives other ids back: a busy
-- client has both to say at once, and one call is cheaper than two.
--
-- ARGV    7 wait        1: who does not fit joins the line; 0: is REFUSED
--         8 max_queue   most waiters there may be, else FULL; 0: any number
--         9 head_start  us by which to queue ahead of now
--         10 count      how many ids it asks for
--         11 back       how many ids it gives back
--         12.. ids, then, if any of them weighs more than 1, the weights of all, then the ids to give back
-- Results: of what it gives back, as release.lua has them; then HELD, WAITING, REFUSED (of a rate, with the
--         ms until it would not be, if nobody else came), FULL, TOO_BIG (weight above the limit), EARLY
--         (instead of REFUSED, with the ms until a server that may have lost the state grants something; or,
--         also instead of FULL and with 0, if expired ids are left over at the bound: they may be all that is
--         in the way, so it asks again), EVICTED (also if it was given up before this call arrived), or GONE
-- First write: SET, so that it is refused under OOM.
local wait, max_queue, head_start = ARGV[7] == "1", tonumber(ARGV[8]), tonumber(ARGV[9])

if lapsed + back > 0 then redis.call("SET", counter, text(last), "PXAT", text(horizon)) end -- before what OOM allows
if lapsed > 0 then reap() end
if back > 0 then give_back(#ARGV - back + 1) end
if promote then promote() end -- who waits comes before who asks

local lined = waiting > 0
local deadline = text(now + lease)
local lapse = window > 0 and text(now + window) or deadline -- of a grant
local due, granted, queued, units = {}, {}, {}, {} -- for ZADD: score, id, ...; for HSET: id, weight, ...
local dues, grantees, newcomers = 0, 0, 0          -- how many values are in them
-- Of a rate: the most units that anybody wants who is to be told when to come again.
local most = weighed and window > 0 and not wait and math.max(unpack(ARGV, 12 + count, 11 + 2 * count)) or 1
local again = false -- whether any of them was asked for before
for i = 1, count do again = again or seen[i] end
local tokens = again and redis.call("ZMSCORE", owner, unpack(ARGV, 12, 11 + count))
local places = again and waiting > 0 and redis.call("ZMSCORE", queue, unpack(ARGV, 12, 11 + count)) or {}

for i = 12, 11 + count do
  local id, mine = ARGV[i], weighed and tonumber(ARGV[i + count]) or 1
  local state, number = GONE, nil
  if seen[i - 11] then
    if tonumber(seen[i - 11]) > now then state, number = HELD, whole(tokens[i - 11]) end
    if state == HELD and not number then state, number = WAITING, whole(places[i - 11]) end
    if state == WAITING and not number then state = EVICTED end
  elseif limit > 0 and mine > limit then
    state = TOO_BIG
  elseif waiting == 0 and now >= quiet and holders + extra + mine <= limit then
    last = last < steady and steady or last + 1
    state, number = HELD, last
    holders, extra, permits = holders + 1, extra + mine - 1, permits + 1
    granted[grantees + 1], granted[grantees + 2] = text(last), id
    grantees = grantees + 2
  elseif not wait then
    state = (now < quiet or reply[3] == 1) and EARLY or REFUSED
  elseif max_queue > 0 and waiting >= max_queue then
    state = reply[3] == 1 and EARLY or FULL
  else
    last = last < steady and steady or last + 1
    state, number = WAITING, last - head_start
    waiting = waiting + 1
    queued[newcomers + 1], queued[newcomers + 2] = text(number), id
    newcomers = newcomers + 2
  end
  if number then
    due[dues + 1], due[dues + 2] = state == HELD and (window > 0 and seen[i - 11] or lapse) or deadline, id
    dues = dues + 2
    if mine > 1 and not seen[i - 11] then units[#units + 1], units[#units + 2] = id, ARGV[i + count] end
  end
  number = number or 0
  if state == EARLY then number = reply[3] == 1 and 0 or quiet - now end
  if window > 0 and (state == REFUSED or state == EARLY and reply[3] == 0) then
    number = math.max(number, turn(waiting, mine, most))
  end
  reply[size + 1], reply[size + 2] = state, number
  size = size + 2
end

-- hint tells the caller, if somebody waits, when the nearest deadline is. If that is now before all
-- that other processes know of, the first waiters of those who are next in line are told to look again.
local function hint()
  local nearest = whole(redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2])
  reply[2] = math.max(0, math.min(lease, nearest and nearest - now or lease))
  if not lined or nearest and nearest <= now + lease then return end
  alert()
end

if not wait then forecast = nil end -- only who waits has to hear

if dues > 0 then
  redis.call("SET", counter, text(last), "PXAT", text(horizon))
  if waiting > 0 and window == 0 then hint() end
  enter(due, granted, queued, units)
end

