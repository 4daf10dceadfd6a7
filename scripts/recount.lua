-- recount.lua: how what is counted of tenants is counted again, some at each call: see accounts.lua.
--
-- needs:    STEP, expire_at, keep, tenancy
-- changes:  stored_tenants
if tenancy then
  -- count_permits counts some of the permits that are not counted yet.
  local function count_permits()
    local before = tenancy.counted_to
    local found = redis.call("ZRANGEBYSCORE", owner, "(" .. text(before), "+inf", "WITHSCORES", "LIMIT", 0, BOUND)
    local ids = {}
    for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
    local weights = #ids > 0 and weight_count > 0 and redis.call("HMGET", weight, unpack(ids)) or {}
    for i, id in ipairs(ids) do
      tenancy.counted_to = whole(found[2 * i]) or tenancy.counted_to
      tenancy.granted(tenancy.of(id), parse_weight(weights[i]), tenancy.counted_to)
    end
    if #ids < BOUND or tenancy.counted_to == before then tenancy.counted_to = nil end -- the latter, if no token is one of ours
  end

  local function remove_lanes()
    redis.call("DEL", lanes, turns)
    tenancy.turn_count = 0
  end

  -- add_waiters adds some of the waiters that are not in lanes: those at the end of the queue, as no other call joins it meanwhile. What else
  -- is missing there shows when none is added.
  local function add_waiters()
    if tenancy.anew or redis.call("ZCARD", lanes) > waiters then remove_lanes() end
    tenancy.anew = false
    local length = redis.call("ZCARD", lanes)
    local found, list = redis.call("ZRANGE", queue, length, length + STEP - 1, "WITHSCORES"), {}
    for i = 1, #found, 2 do
      tenancy.add_member(list, found[i], whole(found[i + 1]) or 0)
      tenancy.forget_heads(tenancy.touch(tenancy.of(found[i])))
    end
    local added = #list > 0 and redis.call("ZADD", lanes, unpack(list)) or 0
    redis.call("PEXPIREAT", lanes, text(expire_at))
    if #list > 0 and added == 0 then remove_lanes() end
    tenancy.missing = length + added < waiters
  end

  function tenancy.count_again()
    if not stored_tenants then -- before anything of tenants is written
      keep("tenants", "1")
      stored_tenants = "1"
      end_plain()
    end
    if tenancy.counted_to then count_permits() end
    if tenancy.missing then add_waiters() end
    tenancy.caught_up = not tenancy.counted_to and not tenancy.missing
    if not tenancy.caught_up then reply[MORE] = 1 end
  end
end
