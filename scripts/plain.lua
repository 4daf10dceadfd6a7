-- plain.lua: what a plain script that grants reads first. It declines, before anything is written, unless the server has
-- lost nothing and the limit is in effect as the caller knows it.
--
-- A name is plain while every weight is 1, its limit is not that of a rate, no grace period is in effect and no clock was
-- stepped back. "plain" in meta is then the limit, with "@" behind it where tenants share the name and all that they have is counted, and "+" at
-- the end once there may be waiters. Where permits have numbers it is the limit and "#", and no call waits. finish.lua stores it, and
-- plain_store.lua adds and removes the "+". Whatever ends that it is true removes it first.
--
-- A plain script follows the same rules as the full one in fewer steps, and leaves to it whatever is not usual. What is stored may be any text,
-- so whatever is not certainly right is not usual: NaN is neither more nor less.
--
-- needs:    counter, known_epoch, lease, limit_form, meta, owner, since, timeout
-- provides: epoch, expire_at, format, holders, last_number, limit, marked_at, micros, now,
--           plain_flag, renew_keys, server
-- include constants.lua
local layout, plain_flag, expire_at, epoch, server, declared_at, marked_at =
  unpack(redis.call("HMGET", meta, "layout", "plain", "until", "epoch", "server", "since", "marked_at"), 1, 7)
local limit = plain_flag and tonumber(string.match(plain_flag, limit_form))
if tonumber(layout) ~= LAYOUT or not limit or epoch ~= known_epoch then return { 0 } end

local format = string.format
local holders, clock, last_number = redis.call("ZCARD", owner), redis.call("TIME"), tonumber(redis.call("GET", counter))
local micros = clock[1] * 1000000 + clock[2]
local now = math.floor(micros / 1000)
expire_at, declared_at = tonumber(expire_at), tonumber(declared_at)
local sound = expire_at and declared_at and last_number and tonumber(since) <= declared_at
  and limit < 2 ^ 53 and micros >= tonumber(epoch) and last_number <= micros + 1000000
  and expire_at <= now + MONTH + DAY
if not sound then return { 0 } end
local renew_keys = expire_at < now + lease + LINGER
if renew_keys then
  if redis.call("ZCOUNT", timeout, "-inf", now) > 0 then return { 0 } end -- in time, the full script removes what has expired
  expire_at = now + lease + 2 * LINGER
end

-- The server is the one that meta names: else it may have lost state.
local info = redis.pcall("INFO", "replication")
if type(info) ~= "string" or not server or #server ~= 12 or not string.find(info, "master_replid:" .. server, 1, true) then return { 0 } end
