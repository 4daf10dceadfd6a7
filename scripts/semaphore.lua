-- semaphore.lua: what every script begins and ends with. scripts.go puts it in front of each verb.
--
-- KEYS    1 owner    zset    id -> token: who holds
--         2 queue    zset    id -> place in line: who waits
--         3 timeout  zset    id -> deadline, server ms: everyone above, and the tombstones
--         4 counter  string  the ticket counter
--         5 weight   hash    id -> weight where it is not 1; "extra": units held beyond one a holder
--         6 meta     hash    layout, declared, since, pinned, until
-- ARGV    1 caller   client id of the calling process: its grants go into the reply
--         2 wake     channel prefix: any other client hears of its grants on wake .. its client id
--         3 limit    the limit that the caller declares
--         4 since    server us at which it first did; 0 or less: minus the us since it first did, if
--                    it does not know; empty: it declares nothing
-- Returns whatever finish() below returns, unless the verb says otherwise.
--
-- Order of writes: a deadline comes before what it guards and goes after it, nobody is in owner and
-- queue at once, and "extra" errs on the high side until it is counted again. So a script that is
-- stopped half-way, because a right is missing, lets nobody in whom it should not, and what it leaves
-- behind lapses.
local owner, queue, timeout, counter, weight, meta = unpack(KEYS)
local caller, wake = ARGV[1], ARGV[2]

local LAYOUT = 1     -- of the keys above; a script never writes to a layout from its future
local BOUND = 500    -- most ids that one call reaps, and most that it promotes
local LINGER = 10000 -- ms that keys outlive the last deadline in them

-- States, as replies tell them; scripts.go has the same list.
local GONE, HELD, WAITING, REFUSED, FULL, TOO_BIG = 0, 1, 2, 3, 4, 5

-- Every key is read before the first write, so one of the wrong type fails with nothing changed.
local clock = redis.call("TIME") -- once: before Redis 7.2 it moves while a script runs
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
local known = redis.call("HMGET", meta, "layout", "pinned", "declared", "since", "until")
local holders = redis.call("ZCARD", owner)
local waiting = redis.call("ZCARD", queue)
local last = tonumber(redis.call("GET", counter)) or 0
local stored = tonumber(redis.call("HGET", weight, "extra")) or 0
local extra = holders > 0 and stored or 0 -- nobody holds, so nothing can be held
local nearest = tonumber(redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2])

if (tonumber(known[1]) or LAYOUT) > LAYOUT then
  return redis.error_reply("FAIRSEMLAYOUT the keys have layout " .. known[1] .. ", this client knows " .. LAYOUT)
end

-- The newest declaration stands. Each carries the time it was first made, so neither repeating an
-- old one nor a lost meta can bring back a limit that a later process replaced.
local pinned, declared, since = tonumber(known[2]), tonumber(known[3]), tonumber(known[4]) or 0
local my_since = tonumber(ARGV[4])
if my_since and my_since <= 0 then my_since = micros + my_since end
local declares = my_since and (not declared or my_since > since)
if declares or not declared then declared = tonumber(ARGV[3]) end
local limit = pinned or declared

local horizon = tonumber(known[5]) or 0 -- server ms at which the keys expire
local renew = false                     -- whether finish() has to move it
local fresh = {}                        -- keys made by this call: they have no expiry yet
local more = 0                          -- 1: stopped at BOUND, call again
local grants, messages = {}, {}         -- who was promoted: the caller's, and by client the others'

-- keep sees to it that the keys outlive a deadline ttl ms from now, without touching all of them
-- on every call.
local function keep(ttl)
  local longest = now + ttl
  if horizon == 0 and nearest then -- meta was lost
    longest = math.max(longest, tonumber(redis.call("ZRANGE", timeout, -1, -1, "WITHSCORES")[2]))
  end
  if horizon < longest + LINGER then horizon, renew = longest + 2 * LINGER, true end
end

-- ticket returns the next number of the name: server time, yet larger than all before it.
local function ticket()
  last = math.max(last + 1, micros)
  return last
end

local function store_counter()
  redis.call("SET", counter, last, "PXAT", math.max(horizon, now + LINGER))
end

local function store_extra()
  stored = extra
  if extra == 0 then return redis.call("HDEL", weight, "extra") end
  redis.call("HSET", weight, "extra", extra)
  fresh[weight] = true
end

-- recount sets "extra" right again, should a script have been stopped half-way. It is for now and
-- then, and for as many holders as one call may read.
local function recount()
  if extra == 0 or holders > BOUND then return end
  extra = 0
  for _, units in ipairs(redis.call("HMGET", weight, unpack(redis.call("ZRANGE", owner, 0, -1)))) do
    extra = extra + (tonumber(units) or 1) - 1
  end
end

-- remove takes ids out of every key.
local function remove(ids)
  local weighty = extra > 0 or waiting > 0 -- else no weight is stored
  if extra > 0 then
    local weights = redis.call("HMGET", weight, unpack(ids))
    local tokens = redis.call("ZMSCORE", owner, unpack(ids))
    for i = 1, #ids do
      if tokens[i] and weights[i] then extra = extra - (weights[i] - 1) end
    end
  end
  holders = holders - redis.call("ZREM", owner, unpack(ids))
  if waiting > 0 then waiting = waiting - redis.call("ZREM", queue, unpack(ids)) end
  redis.call("ZREM", timeout, unpack(ids))
  nearest = nil -- not known any more
  if weighty then redis.call("HDEL", weight, unpack(ids)) end
  if extra ~= stored then store_extra() end
end

-- reap removes ids whose deadline has passed.
local function reap()
  if not nearest or nearest > now then return end
  local lapsed = redis.call("ZRANGEBYSCORE", timeout, "-inf", now, "LIMIT", 0, BOUND)
  if #lapsed > 0 then remove(lapsed) end
  if #lapsed == BOUND then more = 1 end
end

-- tell notes that the waiter at place was granted token; token 0: it has to look again.
local function tell(id, place, token)
  local client, seq = string.match(id, "^(.*):(%d+)$")
  if client == caller then
    grants[#grants + 1], grants[#grants + 2], grants[#grants + 3] = tonumber(seq), place, token
  elseif client then
    local note = string.format("%s:%.0f:%.0f", seq, place, token)
    messages[client] = messages[client] and messages[client] .. "," .. note or note
  end
end

-- admit moves waiters from the line to the holders: granted is token, id, token, id, ...
local function admit(ids, granted)
  store_counter()
  if extra > stored then store_extra() end
  redis.call("ZREM", queue, unpack(ids))
  waiting = waiting - #ids
  redis.call("ZADD", owner, unpack(granted))
end

-- expel takes a waiter that can never fit out of the line.
local function expel(id, place)
  redis.call("ZREM", queue, id)
  waiting = waiting - 1
  redis.call("ZREM", timeout, id)
  nearest = nil
  redis.call("HDEL", weight, id)
  tell(id, place, 0)
end

-- promote is the fairness rule: the head of the line goes first, or nobody does. A head that does
-- not fit holds up everyone behind it; only one that can never fit leaves the line. It reads few
-- heads, and more the more of them fit.
local function promote()
  local budget, chunk, blocked = BOUND, 1, false
  while waiting > 0 and budget > 0 and limit > 0 and (holders + extra < limit or declares) and not blocked do
    local heads = redis.call("ZRANGE", queue, 0, math.min(chunk, budget) - 1, "WITHSCORES")
    local ids, granted = {}, {}
    for i = 1, #heads, 2 do ids[#ids + 1] = heads[i] end
    local weights = redis.call("HMGET", weight, unpack(ids))
    local fitting, oversized = {}, nil
    if holders == 0 then fresh[owner] = true end
    for i, id in ipairs(ids) do
      local units, place = tonumber(weights[i]) or 1, tonumber(heads[2 * i])
      if units > limit then
        oversized = i
        break
      end
      blocked = holders + extra + units > limit
      if blocked then break end
      holders, extra = holders + 1, extra + units - 1
      fitting[#fitting + 1] = id
      granted[#granted + 1], granted[#granted + 2] = ticket(), id
      tell(id, place, last)
    end
    if #fitting > 0 then admit(fitting, granted) end
    if oversized then expel(ids[oversized], tonumber(heads[2 * oversized])) end
    budget, chunk = budget - #ids, 2 * chunk
    if budget <= 0 and waiting > 0 and holders + extra < limit and not blocked then more = 1 end
  end
end

-- expire leaves an expiry on every key, so that a name whose users all died goes away by itself.
local function expire()
  if holders + waiting == 0 and horizon > now + 4 * LINGER and redis.call("EXISTS", timeout) == 0 then
    horizon, renew = now + 2 * LINGER, true -- idle again: a long lease is over
  end
  if renew then
    for i = 1, 5 do redis.call("PEXPIREAT", KEYS[i], horizon) end
  else
    for key in pairs(fresh) do redis.call("PEXPIREAT", key, horizon) end
  end
  if declares then redis.call("HSET", meta, "layout", LAYOUT, "declared", declared, "since", my_since) end
  if renew then redis.call("HSET", meta, "until", horizon) end
  if renew and not pinned then redis.call("PEXPIREAT", meta, horizon) end
end

-- finish promotes, tells, and returns { {since, next, more}, results, grants }:
--   since    server us at which the caller first declared its limit; 0: it declared nothing
--   next     ms until the nearest deadline: whoever waits looks again then; -1: nobody waits
--   more     1: work was left over at the bound, call again
--   results  state, number of each id: HELD its token, WAITING its place, else 0
--   grants   seq, place, token of each waiter of the caller that this call promoted
local function finish(results)
  promote()
  if renew then recount() end
  if extra ~= stored then store_extra() end
  expire()
  for client, message in pairs(messages) do
    redis.pcall("PUBLISH", wake .. client, message .. " " .. owner)
  end
  local next_deadline = -1
  if waiting > 0 then
    local first = redis.call("ZRANGE", timeout, 0, 0, "WITHSCORES")[2]
    if first then next_deadline = math.max(0, first - now) end
  end
  return { { my_since or 0, next_deadline, more }, results, grants }
end
