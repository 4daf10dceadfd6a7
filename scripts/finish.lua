-- finish.lua: what every script ends with: who goes next now, the expiry of the keys, and the reply.

-- mark notes how many were granted until now, and keeps the mark before if calls have waited since then. Status has the
-- pace of the queue from the older one, so that is never over less than a second.
local SECOND = 1000000 -- us
local function mark()
  local noted = redis.call("HMGET", meta, "marked", "granted")
  if had_queue and whole(known[10], steady) then
    redis.pcall("HSET", meta, "before_at", known[10], "before", noted[1] or "0")
  else
    redis.call("HDEL", meta, "before_at", "before")
  end
  redis.pcall("HSET", meta, "marked_at", text(steady), "marked", noted[2] or "0")
end

if promote then promote() end

if declares then redis.call("HSET", meta, "layout", LAYOUT, "declared", stands, "since", text(since)) end
if lost then redis.call("HSET", meta, "server", server, "epoch", text(epoch), "quiet", text(quiet)) end
if permits > 0 then redis.pcall("HINCRBY", meta, "granted", permits) end -- whoever holds or asks has keys that expire,
if overdue > 0 then redis.pcall("HINCRBY", meta, "lapsed", overdue) end  -- so if meta was lost, it is renewed below
if waiting > 0 and steady - (whole(known[10], steady) or 0) >= SECOND and (permits > 0 or not had_queue) then mark() end
if waiting > 0 and alert and (lost or window > 0 and VERB == "resize") then alert() end -- what they were told is over
if holders + waiting == 0 and horizon > now + 4 * LINGER and redis.call("EXISTS", timeout) == 0 then
  horizon, renew = now + 2 * LINGER, true -- idle again: a long lease is over
end
if holders == 0 then extra = 0 end
if renew and extra > 0 and holders <= BOUND then -- count again, should a script have been stopped half-way
  extra = 0
  for _, units in ipairs(redis.call("HMGET", weight, unpack(redis.call("ZRANGE", owner, 0, -1)))) do
    extra = extra + weighs(units) - 1
  end
end
if extra ~= stored then store_extra() end
if renew then
  for i = 1, 5 do redis.call("PEXPIREAT", KEYS[i], text(horizon)) end
  redis.call("HSET", meta, "until", text(horizon))
  if stepped then redis.call("HSET", meta, "ahead", text(ahead)) end
  if not pinned then redis.call("PEXPIREAT", meta, text(horizon)) end
end

if waiting > 0 and forecast and now >= quiet then reply[2] = forecast() end
if waiting > 0 and now < quiet then -- whoever waits looks again when the grace is over
  reply[2] = math.min(reply[2] < 0 and lease or reply[2], quiet - now)
end
for client, notes in pairs(messages) do
  redis.pcall("PUBLISH", wake .. client, table.concat(notes, ",") .. " " .. text(epoch or 0) .. " " .. owner)
end

if window > 0 then
  local free = limit - holders - extra
  if left > 0 and weights + waiting == 0 and redis.call("ZCARD", timeout) == holders then free = free + left end
  reply[5] = math.max(0, free)
end
for i, number in ipairs(grants) do reply[size + i] = number end
return reply
