-- line.lua: who holds, who has lapsed, and who goes next.
local lapsed = redis.call("ZCOUNT", timeout, "-inf", text(now))
local stored = weights > 0 and whole(redis.call("HGET", weight, "extra")) or 0
local extra = holders > 0 and stored or 0 -- nobody holds, so nothing can be held
local had_queue = waiting > 0 -- before this call
local permits, overdue = 0, 0             -- how many this call grants, and how many it finds lapsed
local budget, left = BOUND, 0             -- how many ids it may still reap or take out of the line; how many of the lapsed it left

local function store_extra()
  stored = extra
  if extra == 0 then return redis.call("HDEL", weight, "extra") end
  redis.call("HSET", weight, "extra", text(extra))
  redis.call("PEXPIREAT", weight, text(horizon))
end

-- hold stores holders that are counted already: token, id, token, id, ...
local function hold(granted)
  if extra > stored then store_extra() end
  redis.call("ZADD", owner, unpack(granted))
  if 2 * holders == #granted then redis.call("PEXPIREAT", owner, text(horizon)) end -- it is new
end

-- taken takes ids, from the first-th on, out of a key, and returns which of them were in it. One at a time would
-- take several times as long.
local function taken(key, ids, first)
  if #ids == first then return { redis.call("ZREM", key, ids[first]) == 1 } end
  local scores = redis.call("ZMSCORE", key, unpack(ids, first))
  redis.call("ZREM", key, unpack(ids, first))
  return scores
end

-- remove takes ids, from the first-th on, out of every key. It returns the state of each until now.
local function remove(ids, first)
  local units = extra > 0 and redis.call("HMGET", weight, unpack(ids, first))
  local held = holders > 0 and taken(owner, ids, first) or {}
  local waited = waiting > 0 and taken(queue, ids, first) or {}
  local states, gone = {}, {}
  for i = first, #ids do
    local n, state = i - first + 1, GONE
    if held[n] and not gone[ids[i]] then
      state, holders = HELD, holders - 1
      if units then extra = extra + 1 - weighs(units[n]) end
    elseif waited[n] and not gone[ids[i]] then
      state, waiting = WAITING, waiting - 1
    end
    states[n], gone[ids[i]] = state, true
  end
  redis.call("ZREM", timeout, unpack(ids, first))
  if weights > 0 then redis.call("HDEL", weight, unpack(ids, first)) end
  if extra ~= stored then store_extra() end
  return states
end

-- give_back removes the ids in ARGV from the first-th on, for their owner, and tells what they were.
local function give_back(first)
  for _, state in ipairs(remove(ARGV, first)) do
    reply[size + 1], reply[size + 2] = state, 0
    size = size + 2
  end
end

-- drop removes ids of whom nobody asks what they were.
local function drop(ids)
  if extra > 0 then return remove(ids, 1) end -- else nobody who holds weighs more than 1
  local held = redis.call("ZREM", owner, unpack(ids))
  holders = holders - held
  if waiting > 0 and held < #ids then waiting = waiting - redis.call("ZREM", queue, unpack(ids)) end
  redis.call("ZREM", timeout, unpack(ids))
  if weights > 0 then redis.call("HDEL", weight, unpack(ids)) end
end

-- reap removes ids whose deadline has passed.
local function reap()
  local before = holders
  local ids = redis.call("ZRANGEBYSCORE", timeout, "-inf", text(now), "LIMIT", 0, budget)
  if #ids > 0 then drop(ids) end
  budget, left = budget - #ids, lapsed - #ids
  if left > 0 then reply[3] = 1 end
  if window > 0 or now < quiet or VERB == "restore" then return end -- they are meant to lapse, or may come back
  overdue = before - holders
end

local grants, messages = {}, {} -- who was promoted: the caller's, and by client the others'
local tell, alert, promote, forecast
if waiting > 0 or VERB == "evict" then -- else nothing that this call can do makes anybody next

  -- tell notes that the waiter at place was granted token; token 0: it has to look again, and so has
  -- the holder of the token that stands for place.
  function tell(id, place, token)
    local client, seq = string.match(id, "^(.*):(%d+)$")
    if client == caller then
      grants[#grants + 1], grants[#grants + 2], grants[#grants + 3] = tonumber(seq), place, token
    elseif client then
      local notes = messages[client] or {}
      notes[#notes + 1] = seq .. ":" .. text(place) .. ":" .. text(token)
      messages[client] = notes
    end
  end

  -- alert has the first waiters of those who are next in line look again, but for the caller's.
  function alert()
    local heads, told = redis.call("ZRANGE", queue, 0, 9, "WITHSCORES"), { [caller] = true }
    for i = 1, #heads, 2 do
      local client = string.match(heads[i], "^(.*):") or caller
      if not told[client] then tell(heads[i], whole(heads[i + 1]) or 0, 0) end
      told[client] = true
    end
  end

  -- weigh returns the weights in a list of id, place, id, ...
  local function weigh(heads)
    local ids = {}
    for i = 1, #heads, 2 do ids[#ids + 1] = heads[i] end
    return #ids > 0 and redis.call("HMGET", weight, unpack(ids))
  end

  -- promote is the fairness rule: the head of the line goes first, or nobody does. A head that does
  -- not fit holds up everyone behind it; only one that can never fit leaves the line. It looks at as
  -- many heads as can fit; where weights differ at few, and at more the more of them fit.
  function promote()
    local room, seen, blocked = limit - holders - extra, 0, limit == 0 or now < quiet
    blocked = blocked or not (since or pinned or known[3]) -- meta was lost: the limit of who only looks may be any
    local chunk = weights == 0 and math.max(room, 1) or 1
    local granted, fitting, oversized = {}, {}, {}
    while seen < math.min(waiting, budget) and (room > 0 or declares or VERB == "resize") and not blocked do
      local heads = redis.call("ZRANGE", queue, seen, math.min(seen + chunk, budget) - 1, "WITHSCORES")
      if #heads == 0 then break end
      local units = weights > 0 and weigh(heads)
      for i = 1, #heads, 2 do
        local id, place = heads[i], whole(heads[i + 1]) or 0
        local mine = units and weighs(units[(i + 1) / 2]) or 1
        blocked = mine <= limit and mine > room
        if blocked then break end
        if mine > limit then
          oversized[#oversized + 1] = id
          tell(id, place, 0)
        else
          room, last = room - mine, math.max(last + 1, steady)
          fitting[#fitting + 1] = id
          granted[#granted + 1], granted[#granted + 2] = text(last), id
          tell(id, place, last)
        end
      end
      seen, chunk = seen + #heads / 2, 2 * chunk
    end
    if #oversized > 0 then
      waiting = waiting - redis.call("ZREM", queue, unpack(oversized))
      redis.call("ZREM", timeout, unpack(oversized))
      redis.call("HDEL", weight, unpack(oversized))
    end
    if #fitting > 0 then
      redis.call("SET", counter, text(last), "PXAT", text(horizon))
      waiting, holders = waiting - redis.call("ZREM", queue, unpack(fitting)), holders + #fitting
      permits = permits + #fitting
      extra = limit - room - holders
      if window > 0 then
        local due, lapse = {}, text(now + window)
        for i, id in ipairs(fitting) do due[2 * i - 1], due[2 * i] = lapse, id end
        redis.call("ZADD", timeout, unpack(due))
      end
      hold(granted)
    end
    if seen >= budget and waiting > 0 and room > 0 and not blocked then reply[3] = 1 end
    budget = budget - #fitting - #oversized
  end
end

