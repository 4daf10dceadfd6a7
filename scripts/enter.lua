-- enter.lua: how ids are stored that hold or wait from now on: for ZADD and HSET, score, id, ... and id,
-- weight, ...; any but due may be empty.
local function enter(due, granted, queued, units)
  local alone, lined = 2 * (holders + waiting) == #granted + #queued, 2 * waiting > #queued
  redis.call("ZADD", timeout, unpack(due))
  if alone then redis.call("PEXPIREAT", timeout, text(horizon)) end
  if #units > 0 then
    weights = weights + redis.call("HSET", weight, unpack(units))
    redis.call("PEXPIREAT", weight, text(horizon))
  end
  if #granted > 0 then hold(granted) end
  if #queued > 0 then
    redis.call("ZADD", queue, unpack(queued))
    if not lined then redis.call("PEXPIREAT", queue, text(horizon)) end
  end
end

