-- line.lua: removes expired entries, and grants from the head of the queue.
local expired_entries = redis.call("ZCOUNT", timeout, "-inf", text(now))
local stored_extra = weight_count > 0 and whole(redis.call("HGET", weight, "extra")) or 0
local extra_weight = holders > 0 and stored_extra or 0 -- without holders no units are held
local had_queue = waiters > 0 -- before this call
local granted_count, expired_count = 0, 0 -- permits that this call grants, and those that it counts as expired
local counts_expired = window == 0 and now >= grace_until -- otherwise they are meant to expire, or may be restored
local resizing = false -- set by resize: waiters that can never fit are removed even if no unit is available
local budget, remaining = BOUND, 0        -- ids that it may still reap or remove from the queue; expired entries left over

local function store_extra()
  stored_extra = extra_weight
  if extra_weight == 0 then return redis.call("HDEL", weight, "extra") end
  redis.call("HSET", weight, "extra", text(extra_weight))
  redis.call("PEXPIREAT", weight, text(expire_at))
end

-- store_holders stores holders that are counted already: token, id, token, id, ...
local function store_holders(granted)
  if extra_weight > stored_extra then store_extra() end
  redis.call("ZADD", owner, unpack(granted))
  if 2 * holders == #granted then redis.call("PEXPIREAT", owner, text(expire_at)) end -- the key is new
end

-- remove_from removes the ids from index first on from a key, and returns which of them were in it. Removing them one
-- at a time would take several times as long.
local function remove_from(key, ids, first)
  if #ids == first then return { redis.call("ZREM", key, ids[first]) == 1 } end
  local scores = redis.call("ZMSCORE", key, unpack(ids, first))
  redis.call("ZREM", key, unpack(ids, first))
  return scores
end

-- remove removes the ids from index first on from every key, and returns the previous state of each.
local function remove(ids, first)
  local units = extra_weight > 0 and redis.call("HMGET", weight, unpack(ids, first))
  local held = holders > 0 and remove_from(owner, ids, first) or {}
  local waited = waiters > 0 and remove_from(queue, ids, first) or {}
  local states, removed = {}, {}
  for i = first, #ids do
    local n, state = i - first + 1, GONE
    if held[n] and not removed[ids[i]] then
      state, holders = HELD, holders - 1
      if units then extra_weight = extra_weight + 1 - parse_weight(units[n]) end
    elseif waited[n] and not removed[ids[i]] then
      state, waiters = WAITING, waiters - 1
    end
    states[n], removed[ids[i]] = state, true
  end
  redis.call("ZREM", timeout, unpack(ids, first))
  if weight_count > 0 then redis.call("HDEL", weight, unpack(ids, first)) end
  if extra_weight ~= stored_extra then store_extra() end
  return states
end

-- release removes the ids in ARGV from index first on, and replies with the previous state of each.
local function release(first)
  for _, state in ipairs(remove(ARGV, first)) do
    reply[size + 1], reply[size + 2] = state, 0
    size = size + 2
  end
end

-- discard removes ids whose previous state no caller needs.
local function discard(ids)
  if extra_weight > 0 then return remove(ids, 1) end -- else no holder weighs more than 1
  local held = redis.call("ZREM", owner, unpack(ids))
  holders = holders - held
  if waiters > 0 and held < #ids then waiters = waiters - redis.call("ZREM", queue, unpack(ids)) end
  redis.call("ZREM", timeout, unpack(ids))
  if weight_count > 0 then redis.call("HDEL", weight, unpack(ids)) end
end

-- reap removes ids whose deadline has passed.
local function reap()
  local before = holders
  local ids = redis.call("ZRANGEBYSCORE", timeout, "-inf", text(now), "LIMIT", 0, budget)
  if #ids > 0 then discard(ids) end
  budget, remaining = budget - #ids, expired_entries - #ids
  if remaining > 0 then reply[3] = 1 end
  if counts_expired then expired_count = before - holders end
end

local grants, messages = {}, {} -- of promoted waiters: the caller's, and those of other clients by client

-- notify records that the waiter at position was granted token. Token 0: that waiter must poll, or, in evict, the holder
-- whose token is given as position.
local function notify(id, position, token)
  local client, seq = string.match(id, "^(.*):(%d+)$")
  if client == caller then
    grants[#grants + 1], grants[#grants + 2], grants[#grants + 3] = tonumber(seq), position, token
  elseif client then
    local entries = messages[client] or {}
    entries[#entries + 1] = seq .. ":" .. text(position) .. ":" .. text(token)
    messages[client] = entries
  end
end

local notify_heads, promote, forecast
if waiters > 0 then -- otherwise this call promotes no waiter

  -- notify_heads makes the first waiter of each client near the head of the queue poll, except for the caller's.
  function notify_heads()
    local heads, notified = redis.call("ZRANGE", queue, 0, 9, "WITHSCORES"), { [caller] = true }
    for i = 1, #heads, 2 do
      local client = string.match(heads[i], "^(.*):") or caller
      if not notified[client] then notify(heads[i], whole(heads[i + 1]) or 0, 0) end
      notified[client] = true
    end
  end

  -- weights_of returns the stored weights for a list of id, position, id, ...
  local function weights_of(heads)
    local ids = {}
    for i = 1, #heads, 2 do ids[#ids + 1] = heads[i] end
    return #ids > 0 and redis.call("HMGET", weight, unpack(ids))
  end

  -- promote is the fairness rule: it grants to the head of the queue, or not at all. A head that does not fit blocks
  -- every waiter behind it; only one that can never fit is removed. It reads as many heads as can fit; if weights
  -- differ it reads few at first, and more the more of them fit.
  function promote()
    local available, scanned, blocked = limit - holders - extra_weight, 0, limit == 0 or now < grace_until
    blocked = blocked or not (since or pinned or meta_fields[3]) -- meta was lost, and the limit that was sent may be wrong
    local chunk = weight_count == 0 and math.max(available, 1) or 1
    local granted, fitting, oversized = {}, {}, {}
    while scanned < math.min(waiters, budget) and (available > 0 or declares or resizing) and not blocked do
      local heads = redis.call("ZRANGE", queue, scanned, math.min(scanned + chunk, budget) - 1, "WITHSCORES")
      if #heads == 0 then break end
      local weights = weight_count > 0 and weights_of(heads)
      for i = 1, #heads, 2 do
        local id, position = heads[i], whole(heads[i + 1]) or 0
        local units = weights and parse_weight(weights[(i + 1) / 2]) or 1
        blocked = units <= limit and units > available
        if blocked then break end
        if units > limit then
          oversized[#oversized + 1] = id
          notify(id, position, 0)
        else
          available, last_number = available - units, math.max(last_number + 1, steady)
          fitting[#fitting + 1] = id
          granted[#granted + 1], granted[#granted + 2] = text(last_number), id
          notify(id, position, last_number)
        end
      end
      scanned, chunk = scanned + #heads / 2, 2 * chunk
    end
    if #oversized > 0 then
      waiters = waiters - redis.call("ZREM", queue, unpack(oversized))
      redis.call("ZREM", timeout, unpack(oversized))
      redis.call("HDEL", weight, unpack(oversized))
    end
    if #fitting > 0 then
      redis.call("SET", counter, text(last_number), "PXAT", text(expire_at))
      waiters, holders = waiters - redis.call("ZREM", queue, unpack(fitting)), holders + #fitting
      granted_count = granted_count + #fitting
      extra_weight = limit - available - holders
      if window > 0 then
        local due, deadline = {}, text(now + window)
        for i, id in ipairs(fitting) do due[2 * i - 1], due[2 * i] = deadline, id end
        redis.call("ZADD", timeout, unpack(due))
      end
      store_holders(granted)
    end
    if scanned >= budget and waiters > 0 and available > 0 and not blocked then reply[3] = 1 end
    budget = budget - #fitting - #oversized
  end
end

