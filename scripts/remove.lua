-- remove.lua: removes expired entries and those that a call names, and keeps count of the units of holders.
--
-- needs:    STEP, expire_at, grace_until, granted_since, limit, now, numbering, numbers_granted, tenancy, window
-- provides: budget, counts_expired, departed, expired_count, expired_entries, extra_weight, reap, release, remaining, remove,
--           store_extra, stored_extra
-- changes:  holders, size, waiters
local expired_entries = redis.call("ZCOUNT", timeout, "-inf", text(now))
local stored_extra = weight_count > 0 and whole(redis.call("HGET", weight, "extra"), MOST_EXTRA) or 0
local extra_weight = holders > 0 and stored_extra or 0 -- without holders no units are held
-- include accounts.lua
-- include lanes.lua
-- include recount.lua
-- include numbers.lua
-- include allot.lua
local expired_count = 0 -- permits that this call counts as expired
local departed = { count = 0, from = TOP } -- waiters that leave a rate, and grants that it takes back; the first position, 0 for a grant
local counts_expired = window == 0 and now >= grace_until -- otherwise they are meant to expire, or may be restored
-- Ids that it may still reap or remove from the queue, fewer where each may be another tenant's; expired entries left over.
local budget, remaining = tenancy and STEP or BOUND, 0

local function store_extra()
  stored_extra = extra_weight
  if extra_weight == 0 then return redis.call("HDEL", weight, "extra") end
  redis.call("HSET", weight, "extra", text(extra_weight))
  redis.call("PEXPIREAT", weight, text(expire_at))
end

-- remove_from removes the ids from index first on from a key, and returns which of them were in it, with their scores if tenants
-- share the name. Removing them one at a time would take several times as long.
local function remove_from(key, ids, first)
  if #ids == first and not tenancy and window == 0 then return { redis.call("ZREM", key, ids[first]) == 1 } end
  local scores = redis.call("ZMSCORE", key, unpack(ids, first))
  redis.call("ZREM", key, unpack(ids, first))
  return scores
end

function departed.add(position) -- counts nothing if there is none
  if window == 0 or not position then return end
  departed.count, departed.from = departed.count + 1, math.min(departed.from, tonumber(position) or 0)
end

-- remove removes the ids from index first on from every key, and returns the previous state of each.
local function remove(ids, first)
  local units = extra_weight > 0 and redis.call("HMGET", weight, unpack(ids, first))
  local held = holders > 0 and remove_from(owner, ids, first) or {}
  local waited = waiters > 0 and remove_from(queue, ids, first) or {}
  local states, removed, left, positions = {}, {}, {}, {}
  for i = first, #ids do
    local n, state = i - first + 1, GONE
    if held[n] and not removed[ids[i]] then
      state, holders = HELD, holders - 1
      if units then extra_weight = extra_weight - (parse_weight(units[n]) - 1) end
      if tenancy then tenancy.released(ids[i], units and parse_weight(units[n]) or 1, held[n], 1) end
    elseif waited[n] and not removed[ids[i]] then
      state, waiters = WAITING, waiters - 1
      departed.add(waited[n])
      left[#left + 1], positions[#positions + 1] = ids[i], waited[n]
    end
    states[n], removed[ids[i]] = state, true
  end
  if tenancy and #left > 0 then tenancy.leave(left, positions) end
  if numbering then numbering.free(ids, first, 0) end
  redis.call("ZREM", timeout, unpack(ids, first))
  if weight_count > 0 then redis.call("HDEL", weight, unpack(ids, first)) end
  if extra_weight ~= stored_extra then store_extra() end
  return states
end

-- release removes the ids in ARGV from index first on, and replies with the previous state of each. One of which only the deadline is left
-- was evicted, or released before. The number of one that is GONE is 0 if nothing was granted in this epoch, else one more than how many
-- of the lowest numbers may have been; who had all units then depends on the limit in force.
local function release(first)
  local deadlines = redis.call("ZMSCORE", timeout, unpack(ARGV, first))
  local granted
  for i, state in ipairs(remove(ARGV, first)) do
    if state == GONE and (tonumber(deadlines[i]) or 0) > now then state = EVICTED end
    if state == HELD then departed.add(0) end
    if state == GONE then
      granted = granted or granted_since() and 1 + numbers_granted() or 0
      if granted > 0 and window == 0 then reply[ROOM] = limit end
    end
    reply[size + 1], reply[size + 2] = state, state == GONE and granted or 0
    size = size + 2
  end
end

-- discard removes ids whose previous state no caller needs.
local function discard(ids)
  if extra_weight > 0 or tenancy or numbering then return remove(ids, 1) end -- else no holder weighs more than 1
  local held = redis.call("ZREM", owner, unpack(ids))
  holders = holders - held
  if waiters > 0 and held < #ids then
    for _, position in ipairs(window > 0 and redis.call("ZMSCORE", queue, unpack(ids)) or {}) do departed.add(position) end
    waiters = waiters - redis.call("ZREM", queue, unpack(ids))
  end
  redis.call("ZREM", timeout, unpack(ids))
  if weight_count > 0 then redis.call("HDEL", weight, unpack(ids)) end
end

-- reap removes ids whose deadline has passed.
local function reap()
  local before = holders
  local ids = redis.call("ZRANGEBYSCORE", timeout, "-inf", text(now), "LIMIT", 0, budget)
  if numbering then -- shorten the list to what the budget allows
    local weights = #ids > 0 and weight_count > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
    for i = 1, #ids do
      if budget > 0 then budget = math.max(0, budget - numbering.cost(ids[i], parse_weight(weights[i]))) else ids[i] = nil end
    end
  else
    budget = budget - #ids
  end
  if #ids > 0 then discard(ids) end
  remaining = expired_entries - #ids
  if remaining > 0 then reply[MORE] = 1 end
  if counts_expired then expired_count = before - holders end
end
