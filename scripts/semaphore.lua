-- semaphore.lua: what every full script begins with: the keys, the arguments that all verbs have, and what is stored. The file
-- of a verb includes this one and then others that it shares: scripts.go puts each in the place of the line that names
-- it. So they are one piece of code and see each other's locals. At its top each says what it needs of those before it,
-- besides what is declared here and in the first two files below, what it provides for those after it, and which variables of others it changes.
--
-- KEYS    1 owner    zset    id -> token: the holders
--         2 queue    zset    id -> position: the waiters
--         3 timeout  zset    id -> deadline, server ms: holders, waiters and tombstones
--         4 counter  string  the ticket counter
--         5 weight   hash    id -> weight where it is not 1; "extra": units held beyond one per holder
--         6 meta     hash    layout, declared, since, pinned, until, epoch, first, quiet, server, plain, tenants, numbered,
--                            granted, earlier, granted_in, all_in, highest, restored, lapsed, ahead, pinned_at, marked_at,
--                            marked, before_at, before
--         7 lanes    zset    the waiters, tenant by tenant; this and the two that follow: see accounts.lua
--         8 turns    zset    which tenant is next
--         9 tenants  hash    what each tenant has
--        10 numbers  zset    the numbers that units have: see numbers.lua
-- ARGV    caller   client id of the calling process: grants to its waiters are in the reply
--         wake     channel prefix: grants to any other client are published on wake .. its client id
--         spec     what the caller declares: a limit, or limit/ms for a rate. A grant of a rate is never released:
--                  it expires that many ms after the grant
--         since    server us of the caller's first declaration of that limit, or "ago" and the us since then, if the
--                  caller does not know the server's time; empty: the call declares nothing
--         lease    ms for which what this call grants, queues or renews lasts; 0: it does none of these
--         grace    ms for which a server that may have lost state grants nothing new
--         knows    what the caller knows of the name: "*" if it has used it before, else the servers that it has
--                  met, each followed by "!" if it has known it for longer than the grace period, by "?" if not
-- Returns one list of numbers, unless the verb says otherwise:
--         since    server us of the caller's first declaration of its limit; 0: it declared nothing
--         next     ms until the nearest deadline, when waiters poll; -1: not reported, because there are no
--                  waiters or they know it already
--         more     1: work remains at the bound, call again
--         epoch    server us at which the current epoch of the name began; if it differs from the one before, state
--                  may have been lost. 0: it was not compared, or there is none
--         room     for a rate, the units available after the call; for any other, where it released a permit that is missing and
--                  something was granted in this epoch, the limit in force; else 0
--         server   which server this is; 0: unknown, as without the right to INFO
--         plain    1: the next call may be plain_acquire or plain_release; 2: plain_queue; 3: plain_numbers_acquire or
--                  plain_numbers_release; 4: plain_tenants_acquire or plain_tenants_release; 5: plain_tenants; 0: none
--         waiters  how many wait in the queue after the call
--         results  state, number of each id: HELD and its token, WAITING and its position, else 0; 0 also
--                  where the verb does not know the number. In a release, GONE and 0 if nothing was granted in this epoch,
--                  else one more than how many of the lowest numbers may have been, which is the most there is once one permit
--                  has had all of several units
--         grants   seq, position, token of each waiter of the caller that this call promoted; and token, -1, number for each number
--                  of a permit whose token the reply has, unless the caller knows it
--
-- Order of writes: a deadline is written before the entry that it guards and removed after it, no id is in owner and
-- queue at once, and "extra" errs on the high side until it is recounted. So a script that is stopped half-way,
-- because a right is missing, never grants too much, and what it leaves behind expires. Every key is
-- read before the first write to it or to what belongs to it, so a key of the wrong type fails the call with nothing
-- changed.
--
-- The counters in meta, granted and lapsed, are statistics, so the right to HINCRBY may be missing: what epoch.lua takes from
-- granted it then takes from the ticket counter. marked_at, marked, before_at and before are the number of grants at two moments since the queue
-- is not empty, for its pace.
--
-- Most calls carry one id and find no queue, so what they do not need is behind a condition: a function or
-- table that is not created, a key that is not read. Numbers go to Redis as text(), which is exact, and faster than
-- Redis' own conversion of a Lua number.
local owner, queue, timeout, counter, weight, meta, lanes, turns, tenants, numbers = unpack(KEYS)
local caller, wake, spec, since, lease, grace, knows = unpack(ARGV, 1, 7)
local OWN = 8 -- the first of the arguments that only this verb has
local tenant_args, first_tenant_arg = 0, 0 -- how many tenants the call declares, and the first of four arguments for each
local adds_numbers = false -- whether any permit of the call has numbers
local restores = false -- whether the call restores permits: it has the most to do for each
lease = tonumber(lease)

-- include constants.lua
-- include states.lua
local BOUND = 150    -- most ids that one call reaps and removes from the queue, together

-- The numbers with which a reply begins. internal/protocol has the same list.
local SINCE, NEXT, MORE, EPOCH, ROOM, SERVER, PLAIN, WAITERS = 1, 2, 3, 4, 5, 6, 7, 8

local function text(number) return string.format("%d", number) end

-- whole returns a stored number. Any program with write access to the keys may have stored anything there, so a
-- value that is not whole, below 0, or above most counts as missing: it can neither block the name for ever nor
-- reach a client.
local TOP = 2 ^ 53 - 1
local MOST_EXTRA = 2 ^ 62 -- in a grace period several holders may have all units of the largest limit
local function whole(stored, most)
  local number = tonumber(stored)
  if number and number >= 0 and number <= (most or TOP) and number % 1 == 0 then return number end
end

-- parse_weight returns a stored weight, which is missing if it is 1.
local function parse_weight(stored)
  local units = whole(stored)
  return units and units > 0 and units or 1
end

local stored_layout, stored_pin, stored_spec, stored_since, stored_until, stored_epoch, stored_grace_until, stored_server,
  stored_ahead, stored_marked_at, stored_plain, stored_tenants, stored_numbered = unpack(redis.call("HMGET", meta, "layout", "pinned", "declared", "since",
    "until", "epoch", "quiet", "server", "ahead", "marked_at", "plain", "tenants", "numbered"), 1, 13)

-- Keys of another layout are not even read: their types and numbers may mean something else. Keys without a layout are
-- of this one, as meta may be lost.
if (whole(stored_layout) or LAYOUT) ~= LAYOUT then
  local version = whole(stored_layout) < LAYOUT and "an older" or "a newer"
  return redis.error_reply("FAIRSEMLAYOUT " .. version .. " version of fairsem wrote these keys: they have layout "
    .. text(whole(stored_layout)) .. ", this version knows layout " .. LAYOUT)
end

local holders = redis.call("ZCARD", owner)
local waiters = redis.call("ZCARD", queue)
local weight_count = redis.call("HLEN", weight) -- 0: every weight is 1

-- include plain_kind.lua
local reply, size = { 0, NOT_REPORTED, 0, 0, 0, 0, plain_kind(stored_plain), waiters }, WAITERS -- the verb appends its results

-- end_plain removes "plain" before a write that would make it untrue.
local function end_plain()
  if not stored_plain then return end
  redis.call("HDEL", meta, "plain")
  stored_plain = false
end

-- distinct reports whether the count ids in ARGV from index first on all differ. An id that is counted as it is
-- written must not be counted twice.
local function distinct(first, count)
  if count < 2 then return true end
  local seen = {}
  for i = first, first + count - 1 do
    if seen[ARGV[i]] then return false end
    seen[ARGV[i]] = true
  end
  return true
end

-- identity returns the replication id of this server, which changes at every start and every promotion, so
-- a failover and the failover back are three servers. Without the right to INFO all servers are alike.
local function identity()
  local info = redis.pcall("INFO", "replication")
  local at = type(info) == "string" and string.find(info, "master_replid:", 1, true)
  if at then return string.sub(info, at + 14, at + 25), info end
  return string.match(stored_server or "", "^%x?%x?%x?%x?%x?%x?%x?%x?%x?%x?%x?%x?$") or "", ""
end
