-- undated.lua: gives deadlines to holders and waiters that have none. No script leaves such behind, but another program may have deleted the
-- deadlines, and without one an entry would stay for as long as the name is used. Live ones get theirs with the next refresh.
--
-- needs:    expire_at, micros, renew_keys
local function date_some() -- of its own, because Lua allows a function 200 locals
  local ids, due, SAMPLE = {}, {}, 75
  for key, count in pairs({ [owner] = holders, [queue] = waiters }) do
    local first = micros % math.max(1, count - SAMPLE + 1) -- others the next time
    for _, id in ipairs(redis.call("ZRANGE", key, first, first + SAMPLE - 1)) do ids[#ids + 1] = id end
  end
  for i, deadline in ipairs(#ids > 0 and redis.call("ZMSCORE", timeout, unpack(ids)) or {}) do
    if not deadline then due[#due + 1], due[#due + 2] = text(expire_at - LINGER), ids[i] end
  end
  if #due > 0 then redis.call("ZADD", timeout, unpack(due)) end
end
if renew_keys and redis.call("ZCARD", timeout) < holders + waiters then date_some() end
