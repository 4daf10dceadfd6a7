-- restore: stores again what is missing since the state was lost: holders with their tokens, waiters with their
-- positions. Holders must fit, also in the limit of their tenant, except during the grace period: what does not fit then is what an
-- old file has too much, and blocks no grant. An id that was released stays removed, and one that is stored is only renewed.
--
-- The units of a holder that was away in an earlier epoch, or in this one's grace period, may have been granted to another. One that had all
-- units is not restored once anything was granted, nor is one with a number that may have been, nor any with a token below that of a permit
-- which had all of several units meanwhile. Where holders of this epoch were away, none is restored above the limit any more; but where one
-- of two has all units, the one with the higher token replaces the other.
--
-- ARGV    holder_count  how many of the ids are holders; the others, which come after them, are waiters
--         missed_in  the epoch in which the caller missed them: a late copy from another epoch reverts no grant
--         confirmed_in  the last epoch in which the caller knows them to have been stored. If it is the present one, what is missing
--                       has expired or was removed, and is not restored
--         granted_in  the last epoch in which one of the holders was granted, as far as the caller knows; 0: it does not
--         tenants_declared  as in acquire.lua
--         with_numbers  as in acquire.lua
--         .. ids, then the token or position of each, then the weight of each, then, if any has numbers, those of each, with commas
-- Results: HELD, WAITING, EVICTED (or released), GONE (it no longer fits, or another has or may have had its units or its number), or EARLY (it
--         does not fit, but expired ids are left over at the bound: it asks again)
-- First write: SET, so that it is refused under OOM.

-- include semaphore.lua

local holder_count, missed_in, confirmed_in, granted_in, tenants_declared, with_numbers = unpack(ARGV, OWN, OWN + 5)
holder_count, missed_in, tenant_args, first_tenant_arg = tonumber(holder_count), tonumber(missed_in), tonumber(tenants_declared), OWN + 6
adds_numbers, restores = with_numbers == "1", true

-- include limit.lua
-- include epoch.lua
-- include remove.lua
-- include queue.lua
-- include enter.lua

local first_id = first_tenant_arg + 4 * tenant_args
local count = (#ARGV - first_id + 1) / (adds_numbers and 4 or 3)
local first_number, first_weight = first_id + count, first_id + 2 * count
counts_expired = false -- this very call may restore them
first_token = first_token or whole(redis.call("HGET", meta, "first")) or epoch or 0
if not distinct(first_id, count) then return redis.error_reply("FAIRSEMIDS an id comes twice") end
local ids, deadline = { unpack(ARGV, first_id, first_number - 1) }, text(now + lease)
local grant_deadline = window > 0 and text(now + window) or deadline
local due, granted, queued, new_weights, stale = {}, {}, {}, {}, {}
local nothing_lost, requeued = tonumber(confirmed_in) == epoch, {}

local dropped = {} -- ids that it removes for others
local compare_epochs, readmit, note_restored
do -- a script can have 200 locals at once

  -- The epochs of the holders that were restored in this one: the earliest in which one was confirmed last, and the latest in which one was
  -- granted; and the token of the last of them that has all of several units. If the limit was lowered, others may have some beside it.
  local at, earliest, latest, with_all = string.match(redis.call("HGET", meta, "restored") or "", "^(%d+) (%d+) (%d+) ?(%d*)$")
  if tonumber(at) ~= epoch then earliest, latest, with_all = nil, nil, nil end
  with_all = tonumber(with_all) or 0
  local granted_meanwhile, were_away, must_fit = granted_since(), false, now >= grace_until
  local all_in = whole(redis.call("HGET", meta, "all_in")) or 0

  -- compare_epochs finds out whether the holders of this call were away, or others of this epoch. What was not lost with the state need not be
  -- restored, so the latest grant may be one of which only meta knows.
  function compare_epochs(confirmed, last_grant)
    local before, up_to = last_granted()
    local lowest = math.huge
    for i = 1, holder_count do lowest = math.min(lowest, tonumber(ARGV[first_number + i - 1])) end
    if confirmed < before and lowest <= up_to then last_grant = math.max(last_grant, before) end
    earliest, latest = math.min(tonumber(earliest) or confirmed, confirmed), math.max(tonumber(latest) or 0, last_grant)
    were_away, must_fit = confirmed < latest, must_fit or earliest < latest
  end

  -- drop removes holders for others, and has their clients poll. A holder of several numbers may be in the list several times.
  local function drop(losers)
    if #losers == 0 then return end
    local tokens = redis.call("ZMSCORE", owner, unpack(losers))
    for i, id in ipairs(losers) do
      if not dropped[id] then notify(id, tonumber(tokens[i]) or 0, 0) end
      dropped[id] = true
    end
    remove(losers, 1)
  end

  -- may_be_granted reports whether one of the numbers in a list, as text, may have been granted since the holder was stored.
  local function may_be_granted(list)
    if list == "" then return false end
    local granted = were_away and math.huge or granted_meanwhile and numbers_granted() or 0
    for number in string.gmatch(list, "%d+") do
      if tonumber(number) < granted then return true end
    end
    return false
  end

  -- one_with_all returns the stored holder that has all units, if there is one, and its token. An old file may have others that are older.
  -- It looks once: a call may restore many.
  local searched, found, token_of_found = false, nil, nil
  local function one_with_all()
    if not searched and holders > 0 and extra_weight + 1 >= limit then
      local all, ids = redis.call("ZRANGE", owner, 0, BOUND - 1, "WITHSCORES"), {}
      for i = 1, #all, 2 do ids[#ids + 1] = all[i] end
      for i, units in ipairs(redis.call("HMGET", weight, unpack(ids))) do
        if parse_weight(units) == limit then found, token_of_found = ids[i], tonumber(all[2 * i]) end
      end
    end
    searched = true
    return found, token_of_found
  end

  -- readmit reports whether a holder can be restored, and removes those that have its units, or its numbers, wrongly.
  function readmit(id, units, number, list)
    local has_all, known = units == limit, must_fit and tenancy and tenancy.of(id)
    local most = known and known.limit > 0 and known.limit or math.huge -- of its tenant
    if units > most then return false end
    if number < all_in or were_away and number < with_all then return false end
    if has_all and (granted_meanwhile or were_away) or may_be_granted(list) then return false end
    if earliest < latest and has_all then
      drop(redis.call("ZRANGEBYSCORE", owner, "-inf", "(" .. text(number), "LIMIT", 0, BOUND))
    elseif earliest < latest and holders + extra_weight - limit + units <= limit then
      local other, token = one_with_all()
      if other and not dropped[other] and token < number then drop({ other }) end
    end
    if must_fit and (holders + extra_weight + units > limit or known and known.units + units > most) then return false end
    if has_all and units > 1 then with_all = math.max(with_all, number) end
    if list == "" then return true end
    local losers = numbering.claim(id, list, number, first_token)
    if losers then drop(losers) end
    return losers
  end

  -- note_restored stores what later calls of this epoch need to know.
  function note_restored()
    keep("restored", text(epoch or 0) .. " " .. text(earliest) .. " " .. text(latest) .. (with_all > 0 and " " .. text(with_all) or ""))
  end

end

if count > 0 then
  for i = 1, count do last_number = math.max(last_number, tonumber(ARGV[first_number + i - 1])) end
  redis.call("SET", counter, text(last_number), "PXAT", text(expire_at))
  if expired_entries > 0 then reap() end
  if holder_count > 0 then compare_epochs(tonumber(confirmed_in), tonumber(granted_in)) end
  local old_deadlines = redis.call("ZMSCORE", timeout, unpack(ids))
  local tokens, positions = redis.call("ZMSCORE", owner, unpack(ids)), redis.call("ZMSCORE", queue, unpack(ids))
  for i, id in ipairs(ids) do -- stale, so stored anew: expired ids, waiters here that are holders there, or the reverse
    local mixed = i <= holder_count and not tokens[i]
    if i > holder_count and tokens[i] then mixed = missed_in == epoch and tonumber(tokens[i]) < first_token end
    if (tokens[i] or positions[i]) and ((tonumber(old_deadlines[i]) or 0) <= now or mixed) then
      stale[#stale + 1] = id
      requeued[i] = mixed and i > holder_count
      old_deadlines[i], tokens[i], positions[i] = nil, nil, nil
    end
  end
  if #stale > 0 then remove(stale, 1) end
  if tenancy then tenancy.count_again() end
  for i, id in ipairs(ids) do
    local number, units = tonumber(ARGV[first_number + i - 1]), tonumber(ARGV[first_weight + i - 1])
    if dropped[id] then tokens[i], positions[i], old_deadlines[i] = nil, nil, nil end
    local state = tokens[i] and HELD or positions[i] and WAITING or GONE
    if state ~= GONE then
      number = whole(tokens[i] or positions[i]) or 0
    elseif old_deadlines[i] then
      state, number = EVICTED, 0 -- a tombstone
    elseif nothing_lost and not requeued[i] then
      number = 0
    elseif i > holder_count then
      state, waiters = WAITING, waiters + 1
      queued[#queued + 1], queued[#queued + 2] = text(number), id
      if tenancy then tenancy.join(tenancy.of(id), id, number, units) end
    elseif readmit(id, units, number, adds_numbers and ARGV[first_weight + count + i - 1] or "") then
      state, holders, extra_weight = HELD, holders + 1, extra_weight + units - 1
      granted[#granted + 1], granted[#granted + 2] = text(number), id
      if tenancy then tenancy.granted(tenancy.of(id), units, number) end
    else
      state, number = reply[MORE] == 1 and EARLY or GONE, 0
    end
    if state == HELD or state == WAITING then
      due[#due + 1], due[#due + 2] = state == HELD and (window > 0 and old_deadlines[i] or grant_deadline) or deadline, id
      if units > 1 and not old_deadlines[i] then
        new_weights[#new_weights + 1], new_weights[#new_weights + 2] = id, text(units)
      end
    end
    reply[size + 1], reply[size + 2] = state, number
    size = size + 2
  end
  if #due > 0 then enter(due, granted, queued, new_weights) end
  if #granted > 0 then note_restored() end
  redis.call("PEXPIREAT", timeout, text(expire_at))
  if waiters > 0 then reply[NEXT], reply[MORE] = lease, now < grace_until and 0 or 1 end -- the next call promotes
end

-- include finish.lua
