-- finish.lua: what every full script ends with that can grant or remove something: the grants that are possible now, the expiry of the
-- keys, and the reply.
--
-- needs:    SECOND, clock_ahead, declared_spec, declares, departed, epoch, expire_at, expired_count, extra_weight, first_token, forecast,
--           grace_until, granted_count, grants, had_queue, keep, last_granted, last_number, limit, messages, notify_heads, now, numbering, pinned,
--           plain_kind, promote, record_pace, remaining, renew_keys, replication, resizing, server, state_lost, steady, stepped_back, store_extra,
--           stored_extra, tenancy, window
-- provides: recorded_at
-- changes:  expire_at, extra_weight, renew_keys, stored_numbered

local recorded_at = whole(stored_marked_at, steady)
-- include pace.lua

if promote then promote() end
if tenancy then
  tenancy.settle()
  tenancy.store(false)
end
-- include undated.lua

if numbering and numbering.count > 0 and not stored_numbered then -- meta was lost
  keep("numbered", "1")
  stored_numbered = "1"
end

-- The name is plain: see plain.lua. It does not lose its "+" in the call that empties the queue: where waiters come and go,
-- that would be two more writes for each.
local plain = weight_count + window + clock_ahead == 0 and limit > 0 and now >= grace_until and replication ~= ""
  and not stepped_back and (stored_spec or declares) and text(limit)
if plain and tenancy then
  plain = tenancy.caught_up and not stored_numbered and plain .. "@"
elseif plain and stored_numbered then
  plain = not had_queue and waiters == 0 and plain .. "#"
end
if plain and not stored_numbered and (had_queue or waiters > 0) then plain = plain .. "+" end
if stored_plain ~= plain then end_plain() end

if declares then keep("layout", LAYOUT, "declared", declared_spec, "since", text(since)) end
if state_lost then
  local granted, latest, up_to = redis.call("HGET", meta, "granted"), last_granted() -- of the epoch that is over
  keep("server", server, "epoch", text(epoch), "first", text(first_token), "quiet", text(grace_until))
  if latest > 0 then redis.call("HSET", meta, "granted_in", text(latest) .. " " .. text(up_to)) end
  if granted then redis.call("HSET", meta, "earlier", granted) end
end
-- Once one permit has all of several units, a holder that had some of them before and is not there has been replaced.
if granted_count > 0 and window == 0 and holders == 1 and extra_weight > 0 and extra_weight + 1 == limit then
  redis.call("HSET", meta, "all_in", redis.call("ZRANGE", owner, 0, 0, "WITHSCORES")[2])
end
-- If meta was lost, these create it without an expiry. It gets one below: any holder or waiter has keys that expire.
if granted_count > 0 then redis.pcall("HINCRBY", meta, "granted", granted_count) end
if expired_count > 0 then redis.pcall("HINCRBY", meta, "lapsed", expired_count) end
local pace_due = steady - (recorded_at or 0) >= SECOND
if waiters > 0 and pace_due and (granted_count > 0 or not had_queue) then record_pace() end
-- What was reported to waiters is no longer true; of a rate, their turns may come earlier.
if waiters > 0 and notify_heads and (state_lost or window > 0 and (resizing or declares and not pinned and stored_spec ~= declared_spec)) then
  notify_heads()
elseif waiters > 0 and departed.report and departed.count > 0 then
  departed.report()
end
do -- The counter is there until the server's clock has passed the last number, or numbers would decrease after a step of that clock back; and
  -- meta until the grace period is over, or another would begin.
  local needed = math.max(now, grace_until, math.min(math.floor(last_number / 1000), now + MONTH))
  if (last_number > 0 or now < grace_until) and expire_at < needed + LINGER then expire_at, renew_keys = needed + 2 * LINGER, true end
end
if holders == 0 then extra_weight = 0 end
if numbering and numbering.count > 0 and holders == 0 then redis.call("DEL", numbers) end -- a script was stopped half-way
if renew_keys and extra_weight > 0 and holders <= BOUND then -- recount, in case a script was stopped half-way
  extra_weight = 0
  for _, units in ipairs(redis.call("HMGET", weight, unpack(redis.call("ZRANGE", owner, 0, -1)))) do
    extra_weight = extra_weight + parse_weight(units) - 1
  end
end
if extra_weight ~= stored_extra then store_extra() end
if renew_keys then
  for i, key in ipairs(KEYS) do
    if i < 6 or i > 6 and i < 10 and tenancy or i == 10 and numbering then redis.call("PEXPIREAT", key, text(expire_at)) end
  end
  redis.call("HSET", meta, "until", text(expire_at))
  if stepped_back then redis.call("HSET", meta, "ahead", text(clock_ahead)) end
  if not pinned then redis.call("PEXPIREAT", meta, text(expire_at)) end
end

if plain and not stored_plain and type(redis.pcall("HSET", meta, "plain", plain)) ~= "number" then
  plain = nil -- a full server refuses it, but not a call that writes nothing else
end
reply[PLAIN], reply[WAITERS] = plain_kind(plain), waiters

if waiters > 0 and forecast and now >= grace_until then reply[NEXT] = forecast() end
if waiters > 0 and now < grace_until then -- waiters poll when the grace period is over
  reply[NEXT] = math.min(reply[NEXT] == NOT_REPORTED and lease or reply[NEXT], grace_until - now)
end
for client, entries in pairs(messages) do
  redis.pcall("PUBLISH", wake .. client, table.concat(entries, ",") .. " " .. text(epoch or 0) .. " " .. owner)
end

if window > 0 then
  local available = limit - holders - extra_weight
  if remaining > 0 and weight_count + waiters == 0 and redis.call("ZCARD", timeout) == holders then
    available = available + remaining
  end
  reply[ROOM] = math.max(0, available)
end
for i, number in ipairs(grants) do reply[size + i] = number end
return reply
