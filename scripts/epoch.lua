-- epoch.lua: whether this server may have lost state. A server that the name does not know, or that does not know the
-- name, because it was restarted or replaced another, may lack the latest grants. The name then gets a new epoch,
-- which tells clients to restore what they have. So that they can, the server grants nothing new during the grace
-- period.
--
-- needs:    last_number, micros, now, steady
-- provides: epoch, first_token, grace_until, granted_since, numbers_granted, replication,
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
reply[EPOCH], reply[SERVER] = epoch or 0, tonumber(server, 16) or 0

-- granted_since reports whether anything was granted in this epoch. Nothing is in its grace period.
local function granted_since()
  if state_lost or now < grace_until then return false end
  local counts = redis.call("HMGET", meta, "granted", "earlier")
  return (whole(counts[1]) or 0) > (whole(counts[2]) or 0)
end

-- numbers_granted is how many of the lowest numbers may have been granted in this epoch: all up to the highest that was.
local function numbers_granted()
  local of, highest = string.match(redis.call("HGET", meta, "highest") or "", "^(%d+) (%d+)$")
  return tonumber(of) == epoch and highest + 1 or 0
end
