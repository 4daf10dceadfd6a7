-- plain_queue: what release and then acquire do on a plain name, as in plain.lua, that may have waiters: it releases ids, grants
-- from the head of the queue, and then grants new ids that weigh 1 what is left, or adds them to the queue.
--
-- KEYS    owner, queue, timeout, counter, meta
-- ARGV    caller       client id of the calling process: grants to its waiters are in the reply
--         wake         channel prefix: grants to any other client are published on wake .. its client id
--         known_epoch  the epoch of the name, as the caller knows it
--         since        server us of the caller's first declaration of its limit
--         lease        ms; 0: it acquires nothing
--         head_start   us by which to queue ahead of now
--         count        how many ids it acquires
--         .. ids, then the ids to release before that, all of which must be holders
-- Returns 0: release and acquire must answer; or one list of numbers:
--         next, waiters, plain  as in semaphore.lua
--         held     how many of the new ids hold; the others wait
--         first    the token of the first that holds. The numbers of all follow each other, and the position of a
--                  waiter is its number minus the head start
--         grants   as in semaphore.lua
-- First write: ZADD, so that it is refused under OOM; ZREM, which works then, if it acquires nothing.
local owner, queue, timeout, counter, meta = unpack(KEYS)
local caller, wake, known_epoch, since, lease, head_start, count = unpack(ARGV, 1, 7)
local first_id = 8
local limit_form = "^(%d+)%+?$"

-- include plain.lua
-- include plain_ids.lua

-- The fairness rule: units go to the head of the queue, and to new ids when no waiter is left in it.
local available = math.max(0, limit - holders + released)
local promoted = math.min(available, waiters)
local remaining = waiters - promoted
local held = math.min(available - promoted, count) -- 0 if any waiter remains
local waits = {}
for i = held + 1, count do waits[i] = true end

local reply, size = { -1, 0, 0, held, 0 }, 5
local heads = promoted > 0 and redis.call("ZRANGE", queue, 0, promoted - 1, "WITHSCORES") or {}
local crowds = { queue }

-- include plain_store.lua
reply[2], reply[3], reply[5] = remaining + queued, may_wait and 2 or 1, first_new

-- include plain_index.lua
-- include plain_renew.lua
return reply
