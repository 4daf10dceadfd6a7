-- quick_acquire.lua: without waiters, an acquire of new ids that all fit needs no queue, and neither do the ids that
-- it releases if all of them are holders. It does not reap: expired holders occupy units that are not
-- needed, until the keys have to be renewed or an id does not fit.
local count, released = tonumber(ARGV[10]), tonumber(ARGV[11])
local has_weights = #ARGV == 11 + 2 * count + released and count > 0
if not has_weights and #ARGV ~= 11 + count + released or not distinct(12, count) then
  return redis.error_reply("FAIRSEMIDS the ids are not as many as the call says, or one comes twice")
end
local old_deadlines = redis.call("ZMSCORE", timeout, unpack(ARGV, 12, 11 + count))
local fast = waiters + weight_count == 0 and holders - released + count <= limit
  and not (has_weights or renew_keys or declares or state_lost or now < grace_until)
for i = 1, count do fast = fast and not old_deadlines[i] end

local unreaped = 0 -- of a rate: how many holders have expired; they block no grant and do not count
if fast and window > 0 then
  unreaped = redis.call("ZCOUNT", timeout, "-inf", text(now))
  fast = released == 0 and unreaped < BOUND and (unreaped == 0 or redis.call("ZCARD", timeout) == holders)
end

if fast and released > 0 then
  local held = redis.call("ZMSCORE", owner, unpack(ARGV, 12 + count))
  for i = 1, released do
    fast = fast and held[i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, 0
  end
end

if fast then
  size = size + 2 * released
  local due, granted, deadline = {}, {}, text(now + (window > 0 and window or lease))
  for i = 1, count do
    last_number = last_number < steady and steady or last_number + 1
    due[2 * i - 1], due[2 * i] = deadline, ARGV[11 + i]
    granted[2 * i - 1], granted[2 * i] = text(last_number), ARGV[11 + i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, last_number
  end
  redis.call("SET", counter, text(last_number), "PXAT", text(expire_at))
  redis.pcall("HINCRBY", meta, "granted", count)
  if released > 0 then
    redis.call("ZREM", owner, unpack(ARGV, 12 + count))
    redis.call("ZREM", timeout, unpack(ARGV, 12 + count))
  end
  redis.call("ZADD", timeout, unpack(due))
  redis.call("ZADD", owner, unpack(granted))
  if holders == released then -- both keys are new
    redis.call("PEXPIREAT", timeout, text(expire_at))
    redis.call("PEXPIREAT", owner, text(expire_at))
  end
  if window > 0 then reply[5] = limit - holders + unreaped - count end
  return reply
end
