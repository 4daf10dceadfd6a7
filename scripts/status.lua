-- status: the current state of the name. It changes nothing. Expired entries are still in the keys, so the caller
-- subtracts them: each call counts some of them, until the caller has all.
--
-- ARGV    at    server ms as of which to count; 0: now
--         from  how many of the expired entries earlier calls have counted
-- Results: limit, declared, pinned (1 or 0), holders, waiters and units held, including expired ones;
--         the expired entries, and how many of these this call has counted: entries, holders, units of these, and
--         waiters; us since the first waiter arrived that is not expired (-1: none was found), ms until the nearest
--         deadline of a holder or a waiter (-1: none), ms after which a grant of a rate expires (0: not a rate), whether Redis knows the name
--         (1 or 0), permits granted, permits expired, how many of the holders that this call has counted expired, too,
--         the ms as of which it has counted, the time in us, and the time to send with a limit that is pinned now: the
--         current one, or more than that of the last pin; permits granted while there were waiters, lately, and
--         in how many us; 0, 0: no waiters
-- First write: none.

-- include semaphore.lua
-- include limit.lua

local at, from = unpack(ARGV, OWN, OWN + 1)
at, from = tonumber(at), tonumber(from)
if at == 0 then at = now end
local extra_weight = holders > 0 and weight_count > 0 and whole(redis.call("HGET", weight, "extra"), MOST_EXTRA) or 0
local expired = redis.call("ZCOUNT", timeout, "-inf", text(at))
local ids = expired > from and redis.call("ZRANGEBYSCORE", timeout, "-inf", text(at), "LIMIT", from, 2 * BOUND) or {}
local held, units, waited = 0, 0, 0
if #ids > 0 then
  local tokens, positions = redis.call("ZMSCORE", owner, unpack(ids)), redis.call("ZMSCORE", queue, unpack(ids))
  local weights = extra_weight > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
  for i = 1, #ids do
    if tokens[i] then
      held, units = held + 1, units + parse_weight(weights[i])
    elseif positions[i] then
      waited = waited + 1
    end
  end
end

-- Expired waiters may precede the first that is not: at most as many as there are expired entries.
local arrived
local heads = waiters > 0 and redis.call("ZRANGE", queue, from, from + 2 * BOUND, "WITHSCORES") or {}
for i = 1, #heads, 2 do
  local deadline = expired > 0 and tonumber(redis.call("ZSCORE", timeout, heads[i])) or at + 1
  if deadline > at then
    arrived = whole(heads[i + 1]) or 0
    break
  end
end

-- The nearest deadline of a holder or a waiter. That of an evicted permit stays until its process knows; of BOUND and more of these the last
-- counts.
local function lives(id) return redis.call("ZSCORE", owner, id) or redis.call("ZSCORE", queue, id) end
local function due(count) return redis.call("ZRANGEBYSCORE", timeout, "(" .. text(at), "+inf", "WITHSCORES", "LIMIT", 0, count) end
local deadlines = holders + waiters > 0 and due(1) or {}
if deadlines[1] and not lives(deadlines[1]) then deadlines = due(BOUND) end
local nearest
for i = 1, #deadlines, 2 do
  if lives(deadlines[i]) or i == 2 * BOUND - 1 then
    nearest = deadlines[i + 1]
    break
  end
end
local expired_count = held
if window > 0 or now < (whole(stored_grace_until, now + DAY) or 0) then
  expired_count = 0 -- they are meant to expire, or may be restored
end
local counts = redis.call("HMGET", meta, "granted", "lapsed", "before_at", "before", "marked_at", "marked")
local from_time, from_count = whole(counts[3], steady), whole(counts[4])
if not (from_time and from_count) then from_time, from_count = whole(counts[5], steady), whole(counts[6]) end
local has_pace = waiters > 0 and from_time and from_count
for _, number in ipairs({
  limit,
  declared,
  pinned and 1 or 0,
  holders,
  waiters,
  holders + extra_weight,
  expired,
  #ids,
  held,
  units,
  waited,
  arrived and math.max(0, steady - arrived) or -1,
  nearest and math.max(0, math.min(nearest - now, MONTH + DAY)) or -1,
  math.max(0, window - 1),
  (stored_layout or expire_at > 0) and 1 or 0, -- either may be missing: a pin needs no "until", and meta may be lost
  whole(counts[1]) or 0,
  whole(counts[2]) or 0,
  expired_count,
  at,
  steady,
  math.max(micros, (whole(redis.call("HGET", meta, "pinned_at"), CENTURY) or 0) + 1),
  has_pace and math.max(0, (whole(counts[1]) or 0) - from_count) or 0,
  has_pace and steady - from_time or 0,
}) do
  size = size + 1
  reply[size] = number
end
return reply
