-- enter.lua: stores new holders and waiters. The lists are for ZADD and HSET: score, id, ... and id, weight, ...; all
-- but due may be empty.
--
-- needs:    expire_at, keep, store_holders, tenancy
-- provides: enter
-- changes:  stored_numbered, weight_count
local function enter(due, granted, queued, new_weights)
  local may_wait = stored_plain and string.sub(stored_plain, -1) == "+"
  if #new_weights > 0 or #queued > 0 and not may_wait or adds_numbers and not stored_numbered then end_plain() end
  if adds_numbers and not stored_numbered then
    keep("numbered", "1")
    stored_numbered = "1"
  end
  local all_new, had_waiters = 2 * (holders + waiters) == #granted + #queued, 2 * waiters > #queued
  redis.call("ZADD", timeout, unpack(due))
  if all_new then redis.call("PEXPIREAT", timeout, text(expire_at)) end
  if #new_weights > 0 then
    weight_count = weight_count + redis.call("HSET", weight, unpack(new_weights))
    redis.call("PEXPIREAT", weight, text(expire_at))
  end
  if #granted > 0 then store_holders(granted) end
  if #queued > 0 then
    if tenancy then tenancy.settle() end -- first, so that a script that is stopped half-way leaves turns too many, and not too few
    redis.call("ZADD", queue, unpack(queued))
    if not had_waiters then redis.call("PEXPIREAT", queue, text(expire_at)) end
    if tenancy then
      local members = {}
      for i = 1, #queued, 2 do tenancy.add_member(members, queued[i + 1], tonumber(queued[i])) end
      redis.call("ZADD", lanes, unpack(members))
      if not had_waiters or not tenancy.caught_up then redis.call("PEXPIREAT", lanes, text(expire_at)) end
    end
  end
end
