-- acquire: permits, or places in line, for a batch of ids. An id that is known already gets the
-- same answer again, keeps its place and has its lease renewed: any number of deliveries are one
-- grant, and the answer to each is worth a whole ttl.
--
-- ARGV    5 ttl         ms that an id keeps what it gets without a refresh
--         6 wait        1: who does not fit joins the line; 0: is REFUSED
--         7 max_queue   most waiters there may be, else FULL; 0: any number
--         8 head_start  us by which to queue ahead of now
--         9.. id, weight, id, weight, ...
-- Returns finish(): HELD, WAITING, REFUSED, FULL, TOO_BIG (weight above the limit), or GONE (given
--         up before this call arrived)
-- First write: SET, refused under OOM, unless something had lapsed.
local ttl, wait = tonumber(ARGV[5]), ARGV[6] == "1"
local max_queue, head_start = tonumber(ARGV[7]), tonumber(ARGV[8])
local ids = {}
for i = 9, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local seen = redis.call("ZMSCORE", timeout, unpack(ids))

keep(ttl)
reap()
promote() -- who waits comes before who asks

local deadline = now + ttl
local due, granted, queued, weights, results = {}, {}, {}, {}, {}

local function whereabouts(id)
  local token = redis.call("ZSCORE", owner, id)
  if token then return HELD, tonumber(token) end
  local place = redis.call("ZSCORE", queue, id)
  if place then return WAITING, tonumber(place) end
  return GONE, 0
end

local function admit_or_queue(id, units)
  if limit > 0 and units > limit then return TOO_BIG, 0 end
  local fits = waiting == 0 and holders + extra + units <= limit
  if not fits and not wait then return REFUSED, 0 end
  if not fits and max_queue > 0 and waiting >= max_queue then return FULL, 0 end

  due[#due + 1], due[#due + 2] = deadline, id
  if units > 1 then weights[#weights + 1], weights[#weights + 2] = id, units end
  if fits then
    if holders == 0 then fresh[owner] = true end
    holders, extra = holders + 1, extra + units - 1
    granted[#granted + 1], granted[#granted + 2] = ticket(), id
    return HELD, last
  end
  if waiting == 0 then fresh[queue] = true end
  waiting = waiting + 1
  queued[#queued + 1], queued[#queued + 2] = ticket() - head_start, id
  return WAITING, last - head_start
end

for i, id in ipairs(ids) do
  local state, number
  if seen[i] then
    state, number = whereabouts(id)
    if state ~= GONE then due[#due + 1], due[#due + 2] = deadline, id end
  else
    state, number = admit_or_queue(id, tonumber(ARGV[8 + 2 * i]))
  end
  results[#results + 1], results[#results + 2] = state, number
end

-- warn has the first waiter of another process look again: a deadline comes before all it knows of.
local function warn()
  local heads = redis.call("ZRANGE", queue, 0, 9, "WITHSCORES")
  for i = 1, #heads, 2 do
    if string.match(heads[i], "^(.*):") ~= caller then return tell(heads[i], tonumber(heads[i + 1]), 0) end
  end
end

if #due > 0 then
  local sooner = waiting > 0 and (not nearest or deadline < nearest)
  store_counter()
  redis.call("ZADD", timeout, unpack(due))
  if not nearest then fresh[timeout] = true end -- there may have been none
  if #weights > 0 then
    redis.call("HSET", weight, unpack(weights))
    fresh[weight] = true
  end
  if extra > stored then store_extra() end
  if #granted > 0 then redis.call("ZADD", owner, unpack(granted)) end
  if #queued > 0 then redis.call("ZADD", queue, unpack(queued)) end
  if sooner then warn() end
end
return finish(results)
