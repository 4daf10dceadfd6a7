-- epoch.lua: whether this server may have lost state. One that the name does not know, or that does not know the
-- name, because it was restarted or took the place of another, may lack what was granted last. The name then has
-- a new epoch, by which clients see that they have to put back what they have; and for the time of grace, so that
-- they can, nothing new is granted to anybody.
local server, replication = identity()
local epoch, quiet = whole(known[6]), whole(known[7], now + DAY) or 0 -- server us; server ms: until then, nothing new

-- A caller that declares nothing may be the first to ask. Where the name is not in use there is nothing to lose. A clock
-- that was stepped back behind the epoch ends neither it nor its grace: both begin anew.
local lost = (not epoch or server ~= (known[8] or "") or micros < epoch) and (since or holders + waiting > 0)
if lost then
  local grace, knows = string.match(ARGV[6], "^(%d+) ?(.*)$")
  quiet = now + grace
  if not epoch and string.find(knows, server .. "!", 1, true) then
    quiet = 0 -- a new name: the server has lost nothing since the caller met it
  elseif not epoch and knows ~= "*" then -- as far as the caller knows it is new, unless the server is
    local info = redis.pcall("INFO", "server")
    if type(info) ~= "string" then info = "" end
    local clustered = string.match(info, "_mode:cluster")
    local others = string.gsub(knows, server .. "[!?],?", "") ~= ""
    local successor = string.find(replication, "master_replid2:%x*[^0%s]")
    if not others or clustered and not successor then -- the caller knew no server in the place of this one
      local age = string.match(info, "uptime_in_seconds:(%d+)") -- s, whole ones
      local started = age and clock[1] - age + 1 or 0
      if clustered then started = started + 2 end -- until a restarted node takes part
      quiet = math.min(quiet, 1000 * started + grace)
    end
  end
  epoch = micros
end
reply[4], reply[6] = epoch or 0, tonumber(server, 16) or 0

