-- semaphore.lua: what every script begins with: the keys, what is sent, and what is there. scripts.go
-- puts a script together from these files, in this order, after a line that sets VERB:
--
--   semaphore.lua      the keys, and how many are in them
--   quick_release.lua  of a release, all there is to do if nobody waits
--   limit.lua          what time it is, which limit holds, and when the keys expire
--   epoch.lua          whether this server may have lost state
--   quick_acquire.lua  of an acquire, all there is to do if nobody waits and all fit; it may give back, too
--   quick_refresh.lua  of a refresh, all there is to do if nobody waits and all hold
--   line.lua           who has lapsed, and who goes next
--   enter.lua          of acquire and restore, how ids are stored
--   forecast.lua       of acquire and refresh, when those who wait for a rate get their units
--   the verb           acquire.lua, release.lua, refresh.lua, reduce.lua, restore.lua, resize.lua,
--                      evict.lua or status.lua
--   finish.lua         who goes next now, messages, reply; not of status.lua, which changes nothing
--
-- KEYS    1 owner    zset    id -> token: who holds
--         2 queue    zset    id -> place in line: who waits
--         3 timeout  zset    id -> deadline, server ms: everyone above, and the tombstones
--         4 counter  string  the ticket counter
--         5 weight   hash    id -> weight where it is not 1; "extra": units held beyond one a holder
--         6 meta     hash    layout, declared, since, pinned, until, epoch, quiet, server,
--                            granted, lapsed, ahead, pinned_at, marked_at, marked, before_at, before
-- ARGV    1 caller   client id of the calling process: its grants go into the reply
--         2 wake     channel prefix: any other client hears of its grants on wake .. its client id
--         3 limit    what the caller declares: a limit, or limit/ms of a rate, whose grants are never
--                    given back and lapse so long after the grant
--         4 since    server us at which it first did; 0 or less: minus the us since it first did, if
--                    it does not know; empty: it declares nothing
--         5 lease    ms from now on for which an id keeps what this call gives it; 0: it gives nothing
--         6 grace    ms for which a server that may have lost the state grants nothing new; then, after a
--                    space, what the caller knows, if anything: "*" if it has used this name before, else
--                    the servers that it has met, with a "!" those that it has known for longer than that,
--                    with a "?" the others
-- Returns one list of numbers, unless the verb says otherwise:
--         since    server us at which the caller first declared its limit; 0: it declared nothing
--         next     ms until the nearest deadline: whoever waits looks again then; -1: it is not told,
--                  because nobody waits or who waits knows it already
--         more     1: work was left over at the bound, call again
--         epoch    server us at which the name began here; another one than before: state may have
--                  been lost. 0: it was not compared, or there is none
--         room     of a rate, units that nobody has when the call is over; else 0
--         server   which server this is; 0: it does not say
--         results  state, number of each id: HELD its token, WAITING its place, else 0; 0 also
--                  where the verb does not know the number
--         grants   seq, place, token of each waiter of the caller that this call promoted
--
-- Order of writes: a deadline comes before what it guards and goes after it, nobody is in owner and
-- queue at once, and "extra" errs on the high side until it is counted again. So a script that is
-- stopped half-way, because a right is missing, lets nobody in whom it should not, and what it leaves
-- behind lapses. Every key is read before the first write to it or to what belongs to it, so one of
-- the wrong type fails with nothing changed.
--
-- What meta counts, granted and lapsed, is for people: no grant depends on it, so the right to HINCRBY may
-- be missing. The other four say how many were granted at two moments since calls wait, for the pace of the queue.
--
-- Most calls are of one id and meet no line, so what they do not need is behind a condition: a
-- function or a table that is not made, a key that is not read. Numbers go to Redis as text(), which
-- is exact, and faster than what becomes of a Lua number on its own.
local owner, queue, timeout, counter, weight, meta = unpack(KEYS)
local caller, wake, lease = ARGV[1], ARGV[2], tonumber(ARGV[5])
local late = lease < 0 -- only of a release
if late then lease = -1 - lease end

local LAYOUT = 1     -- of the keys above; a script never writes to a layout from its future
local BOUND = 150    -- most ids that one call reaps and takes out of the line, together
local LINGER = 10000 -- ms that keys outlive the last deadline in them
local DAY = 86400000 -- ms: the longest lease and grace
local MONTH = 31 * DAY -- ms: the longest window of a rate

-- States, as replies tell them; scripts.go has the same list.
local GONE, HELD, WAITING, REFUSED, FULL, TOO_BIG, EARLY, EVICTED = 0, 1, 2, 3, 4, 5, 6, 7

local function text(number) return string.format("%d", number) end

-- whole returns a number that is stored. Anybody who may write to the keys may have stored anything there: what is not
-- whole, below 0, or above most, counts as missing, so that it can neither stop the name for ever nor reach a client.
local TOP = 2 ^ 53 - 1
local function whole(stored, most)
  local number = tonumber(stored)
  if number and number >= 0 and number <= (most or TOP) and number % 1 == 0 then return number end
end

-- weighs returns a weight that is stored, as it is if it is not 1.
local function weighs(stored)
  local units = whole(stored)
  return units and units > 0 and units or 1
end

local known = redis.call("HMGET", meta, "layout", "pinned", "declared", "since", "until", "epoch", "quiet", "server", "ahead", "marked_at")
local holders = redis.call("ZCARD", owner)
local waiting = redis.call("ZCARD", queue)
local weights = redis.call("HLEN", weight) -- 0: everybody weighs 1
local reply, size = { 0, -1, 0, 0, 0, 0 }, 6 -- since, next, more, epoch, room, server; the verb appends its results

if (whole(known[1]) or LAYOUT) > LAYOUT then
  return redis.error_reply("FAIRSEMLAYOUT the keys have layout " .. known[1] .. ", this client knows " .. LAYOUT)
end

-- distinct reports whether so many ids in ARGV, from the first-th on, are as many different ones. What is counted as it
-- is written must not be counted twice.
local function distinct(first, count)
  if count < 2 then return true end
  local seen = {}
  for i = first, first + count - 1 do
    if seen[ARGV[i]] then return false end
    seen[ARGV[i]] = true
  end
  return true
end

-- identity returns what this server calls itself, which is another name after every start and every promotion, so
-- a failover and the failover back are three servers. Without the right to INFO all servers are alike.
local function identity()
  local info = redis.pcall("INFO", "replication")
  local at = type(info) == "string" and string.find(info, "master_replid:", 1, true)
  if at then return string.sub(info, at + 14, at + 25), info end
  return string.match(known[8] or "", "^%x?%x?%x?%x?%x?%x?%x?%x?%x?%x?%x?%x?$") or "", ""
end

