-- quick_refresh.lua: a refresh by a caller that knows the tokens, if there are no waiters, no expired entries and no
-- tombstones: then every id with a deadline is a holder. Not for a rate, whose grants are not renewed.
local count = #ARGV - 7
if ARGV[7] == "1" and lease > 0 and window + waiters == 0 and count > 0 and redis.call("ZCARD", timeout) == holders
    and redis.call("ZCOUNT", timeout, "-inf", text(now)) == 0 and not declares and not state_lost and not renew_keys then
  local due, deadline = {}, text(now + lease)
  for i = 1, count do
    due[2 * i - 1], due[2 * i] = deadline, ARGV[7 + i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, 0
  end
  redis.call("PEXPIREAT", timeout, text(expire_at)) -- works under OOM, and so does what follows it
  if redis.call("ZADD", timeout, "XX", "CH", unpack(due)) == count then return reply end
  reply = { since or 0, -1, 0, epoch, 0, reply[6] } -- an id is missing, or was renewed in this very millisecond
end

