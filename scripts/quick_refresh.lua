-- quick_refresh.lua: of a refresh by who knows the tokens, all there is to do if nobody waits, nobody
-- has lapsed and no tombstone stands: then whoever has a deadline holds. Not of a rate, whose grants
-- are not renewed.
local count = #ARGV - 7
if ARGV[7] == "1" and lease > 0 and window + waiting == 0 and count > 0 and redis.call("ZCARD", timeout) == holders
    and redis.call("ZCOUNT", timeout, "-inf", text(now)) == 0 and not declares and not lost and not renew then
  local due, deadline = {}, text(now + lease)
  for i = 1, count do
    due[2 * i - 1], due[2 * i] = deadline, ARGV[7 + i]
    reply[size + 2 * i - 1], reply[size + 2 * i] = HELD, 0
  end
  redis.call("PEXPIREAT", timeout, text(horizon)) -- survives a full server, and so does what follows it
  if redis.call("ZADD", timeout, "XX", "CH", unpack(due)) == count then return reply end
  reply = { since or 0, -1, 0, epoch, 0, reply[6] } -- somebody is gone, or was renewed in this very millisecond
end

