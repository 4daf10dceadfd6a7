-- epoch.lua: whether this server may have lost state. A server that the name does not know, or that does not know the
-- name, because it was restarted or replaced another, may lack the latest grants. The name then gets a new epoch,
-- which tells clients to restore what they have. So that they can, the server grants nothing new during the grace
-- period.
--
-- needs:    last_number, micros, now, steady
-- provides: counted, epoch, first_token, grace_until, granted_since, last_granted, numbers_granted, replication,
--           server, state_lost
-- changes:  grace
local server, replication = identity()
local epoch, grace_until = whole(stored_epoch), whole(stored_grace_until, now + DAY) or 0 -- server us; server ms

-- A caller that declares nothing may be the first to call. A name that is not in use has nothing to lose. A clock that
-- was stepped back behind the epoch would end neither the epoch nor its grace period, so both begin anew.
local state_lost = (not epoch or server ~= (stored_server or "") or micros < epoch) and (since or holders + waiters > 0)
if state_lost then
  grace = tonumber(grace)
  grace_until = now + grace
  if not epoch and string.find(knows, server .. "!", 1, true) then
    grace_until = 0 -- a new name: the server has lost nothing since the caller met it
  elseif not epoch and knows ~= "*" then -- as far as the caller knows the name is new, unless the server is
    local info = redis.pcall("INFO", "server")
    if type(info) ~= "string" then info = "" end
    local clustered = string.match(info, "_mode:cluster")
    local others = string.gsub(knows, server .. "[!?],?", "") ~= ""
    local successor = string.find(replication, "master_replid2:%x*[^0%s]")
    if not others or clustered and not successor then -- the caller knew no server that this one replaced
      local age = string.match(info, "uptime_in_seconds:(%d+)") -- s, whole ones
      local started = age and math.floor(now / 1000) - age + 1 or 0
      if clustered then started = started + 2 end -- until a restarted node takes part
      grace_until = math.min(grace_until, 1000 * started + grace)
    end
  end
  epoch = micros
end
-- No token of the epoch is below this one. Tokens may be ahead of the clock by which the epoch began.
local first_token = state_lost and math.max(last_number + 1, steady) or nil
reply[EPOCH], reply[SERVER] = epoch or 0, replication ~= "" and tonumber(server, 16) or 0

local last_known = last_number -- a restore changes last_number

-- counted reports whether anything was granted in the epoch that is stored. Without the right to HINCRBY no grants are counted: then a
-- number of that epoch is taken for a grant, though it may be a position.
local function counted(granted, earlier, first)
  if not granted then return last_known >= (whole(first) or TOP) end
  return (whole(granted) or 0) > (whole(earlier) or 0)
end

-- granted_since reports whether anything was granted in this epoch. Nothing is in its grace period.
local function granted_since()
  return not state_lost and now >= grace_until and counted(unpack(redis.call("HMGET", meta, "granted", "earlier", "first"), 1, 3))
end

-- last_granted is the latest epoch before this one in which something was granted, as far as this server knows, and the last number that
-- it had then: it may have lost grants, but not one that is stored, and a holder with a higher token was granted after all of these. 0: none
-- is known. An epoch by a clock that was ahead cannot be compared.
local function last_granted()
  local granted, earlier, first, before, restored = unpack(redis.call("HMGET", meta, "granted", "earlier", "first", "granted_in", "restored"), 1, 5)
  local most, latest, up_to = (epoch or 0) - 1, string.match(before or "", "^(%d+) (%d+)$")
  latest, up_to = whole(latest, most), whole(up_to)
  if not latest or not up_to then latest, up_to = 0, 0 end
  local at, last_grant = string.match(restored or "", "^(%d+) %d+ (%d+)")
  local found = state_lost and at == stored_epoch and whole(last_grant, most) or 0
  if state_lost and counted(granted, earlier, first) then found = math.max(found, whole(stored_epoch, most) or 0) end
  if found > latest then return found, last_known end
  return latest, up_to
end

-- numbers_granted is how many of the lowest numbers may have been granted in this epoch: all up to the highest that was. Once one permit
-- has had all of several units, with numbers or without, it is TOP - 1.
local function numbers_granted()
  local stored, all_in, first = unpack(redis.call("HMGET", meta, "highest", "all_in", "first"), 1, 3)
  if (whole(all_in) or 0) >= (first_token or whole(first) or TOP) then return TOP - 1 end
  local of, highest = string.match(stored or "", "^(%d+) (%d+)$")
  return tonumber(of) == epoch and highest + 1 or 0
end
