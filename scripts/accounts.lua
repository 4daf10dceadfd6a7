-- accounts.lua: what each tenant has, where calls name tenants. The id of a permit ends with its tenant, so what is stored here
-- follows from owner, queue and weight, and can be counted again.
--
--   lanes    zset  the waiters, tenant by tenant. All scores are 0, so Redis orders by member: tenant, position, rest of the id
--   turns    zset  since when a tenant has been granted nothing, and the tenant -> the units that it holds per unit of its
--                  share, or AT_LIMIT if its first waiter may not be granted what it wants: the tenants that have waiters
--   tenants  hash  ":" and a tenant -> generation, units held, permits, share, limit, time of the declaration, and since when it has been
--                  granted nothing; "all" -> generation, units held by all, the newest token of a tenant, and, while they are being
--                  counted again, the token up to which the permits are
--
-- Since when a tenant has been granted nothing is its last token and "1". One that was never granted anything, as far as is known, comes
-- right before the tenant that was granted something last when the first of its calls joined the queue: it is that token, "0", and the
-- position of that call. If it came before all others, enough new tenants, one after the other, would keep one that is known
-- from ever being granted anything.
--
-- Counts of another generation than the one in "all" are none. A tenant that has nothing any more is remembered if few are stored:
-- of tenants that hold equally little the next is the one that has been granted nothing for longest. When the keys are renewed some are forgotten.
--
-- lanes.lua has what concerns the waiters, turns.lua the fairness rule, and recount.lua counts again.
--
-- needs:    REMEMBERED, STEP, expire_at, extra_weight, forget, lane_of, last_number, micros, place, read_record, renew_keys, sorts_before, steady, tenant_of, write_record
-- provides: tenancy

-- include bytes.lua
-- include tenant_ids.lua
-- include forget.lua
local tenancy = nil -- what there is to know and to do about tenants; nil: no call has named one

if stored_tenants or tenant_args > 0 then
  tenancy = {
    lowered = {}, -- those whose limit the call changes
    touched = {}, -- those whose turns may have changed
    turn_count = redis.call("ZCARD", turns),
    newest = 0, -- the newest token that a tenant was granted
    counted_to = nil, -- the token up to which permits are counted; nil: all are
    missing = redis.call("ZCARD", lanes) ~= waiters, -- whether anything is in queue or in lanes only
    anew = false, -- whether lanes and turns are made anew, too
    caught_up = true, -- false: not all is counted, so nothing is granted or added to the queue
  }
  local accounts = {}
  local stored_all = redis.call("HGET", tenants, "all")
  local parts = { string.match(stored_all or "", "^(%d+) (%d+) (%d+) ?(%d*)$") }
  local generation = whole(parts[1]) or 0
  tenancy.newest, tenancy.counted_to = math.min(last_number, whole(parts[3]) or 0), whole(parts[4])
  -- While permits are counted again nothing is granted, so the more there are, the more seldom they are counted, and beyond some not at all.
  -- What is stored beside a name that was not shared is not to be trusted: other calls did not maintain it.
  local due = renew_keys and not restores and holders < 100 * BOUND and micros % math.ceil((holders + 1) / BOUND) == 0
  local starts = not stored_tenants or not tenancy.counted_to and (whole(parts[2]) ~= holders + extra_weight or due)
  if starts then generation, tenancy.counted_to = micros, 0 end
  generation = text(generation)

  -- since_last returns since when a tenant has been granted nothing, if the first of its calls joined the queue at this position.
  function tenancy.since_last(known, position) return known.last or place(tenancy.newest) .. "0" .. place(position) end

  -- account returns what a tenant has, and of what the tenant of an id has.
  function tenancy.of(id) return tenancy.account(tenant_of(id)) end
  function tenancy.account(tenant)
    local known = accounts[tenant]
    if known then return known end
    local of, units, permits, share, most, since, last = read_record(redis.call("HGET", tenants, ":" .. tenant))
    share = whole(share)
    known = {
      tenant = tenant, lane = lane_of(tenant), suffix = tenant == "" and "" or ":" .. tenant,
      units = 0, permits = 0, taken = 0, chunk = 1, share = share and share > 0 and share or 1, limit = whole(most) or 0, since = whole(since) or 0, last = last,
    }
    if of == generation then known.units, known.permits = whole(units) or 0, whole(permits) or 0 end
    known.granted = last and string.sub(last, 15) == "1"
    known.turn = last and last .. tenant -- how it is in turns, if it is
    accounts[tenant] = known
    return known
  end

  -- touch has a tenant stored, and its turn compared with what it has.
  function tenancy.touch(known)
    if not known.touched then tenancy.touched[#tenancy.touched + 1] = known end
    known.touched, known.unstored = true, true
    return known
  end

  -- granted counts a grant.
  function tenancy.granted(known, units, token)
    if not (tenancy.counted_to and token > tenancy.counted_to) then known.units, known.permits = known.units + units, known.permits + 1 end
    local last = place(token) .. "1"
    tenancy.newest = math.max(tenancy.newest, token)
    if not known.granted or sorts_before(known.last, last) then known.last, known.granted = last, true end
    tenancy.touch(known)
  end

  -- released counts units that a permit no longer has, all of them or some.
  function tenancy.released(id, units, token, permits)
    local known = tenancy.touch(tenancy.of(id)) -- its turn is that of what it had, even if it is not counted yet
    if tenancy.counted_to and (tonumber(token) or 0) > tenancy.counted_to then return end
    known.units, known.permits = math.max(0, known.units - units), math.max(0, known.permits - permits)
  end

  -- store stores the tenants that have changed. Before holders are stored, those with units are enough.
  function tenancy.store(with_units_only)
    local fields, gone, crowded = {}, {}, nil
    for _, known in pairs(accounts) do
      if known.unstored and (known.units > 0 or not with_units_only) then
        known.unstored = false
        local has_nothing = known.units == 0 and not tenancy.head(known)
        if has_nothing and known.granted and crowded == nil then crowded = redis.call("HLEN", tenants) > REMEMBERED end
        if has_nothing and (crowded or not known.granted) then
          gone[#gone + 1] = ":" .. known.tenant
        else
          fields[#fields + 1] = ":" .. known.tenant
          fields[#fields + 1] = write_record(generation, known.units, known.permits, known.share, known.limit, text(known.since),
            known.last or tenancy.since_last(known, 0))
        end
      end
    end
    local sum = string.format("%s %d %s", generation, holders + extra_weight, text(tenancy.newest)) .. (tenancy.counted_to and " " .. text(tenancy.counted_to) or "")
    if sum ~= stored_all and (#fields > 0 or holders > 0) then fields[#fields + 1], fields[#fields + 2] = "all", sum end
    if #gone > 0 then redis.call("HDEL", tenants, unpack(gone)) end
    if renew_keys and not with_units_only and not tenancy.counted_to then forget(accounts, generation) end
    if #fields == 0 then return end
    redis.call("HSET", tenants, unpack(fields))
    if not stored_all then redis.call("PEXPIREAT", tenants, text(expire_at)) end
    stored_all = sum
  end

  -- The tenant of the first waiter has a turn. If it has none, all are made anew: another program has deleted them.
  local lacks_turns = waiters > 0 and tenancy.turn_count == 0
  if waiters > 0 and renew_keys and not lacks_turns then
    local first = tenancy.of(redis.call("ZRANGE", queue, 0, 0)[1])
    lacks_turns = not (first.turn and redis.call("ZSCORE", turns, first.turn))
  end
  tenancy.anew = lacks_turns or starts and (waiters < STEP or not stored_tenants)
  tenancy.missing = tenancy.missing or tenancy.anew
  tenancy.caught_up = not tenancy.counted_to and not tenancy.missing

  -- What the call declares of tenants. The newest declaration is in effect.
  for i = first_tenant_arg, first_tenant_arg + 4 * tenant_args - 1, 4 do
    local name, share, most, after = unpack(ARGV, i, i + 3)
    local known, declared_since = tenancy.account(name), (since or steady) + tonumber(after)
    if declared_since > known.since or known.since > steady then
      share, most = tonumber(share), tonumber(most)
      if share ~= known.share or most ~= known.limit then tenancy.touch(known) end
      if most > 0 and most ~= known.limit then tenancy.lowered[#tenancy.lowered + 1] = known end
      known.share, known.limit, known.since, known.unstored = share, most, declared_since, true
    end
  end
end
