-- epoch.lua: whether this server may have lost state. One that the name does not know, or that does not know the
-- name, because it was restarted or took the place of another, may lack what was granted last. The name then has
-- a new epoch, by which clients see that they have to put back what they have; and for the time of grace, so that
-- they can, nothing new is granted to anybody.
local server, replication = identity()
local epoch, quiet = tonumber(known[6]), tonumber(known[7]) or 0 -- server us; server ms: until then, nothing new
if epoch and micros < epoch then quiet = 0 end -- the clock was stepped back: it could last for long

-- A caller that declares nothing may be the first to ask. Where the name is not in use there is nothing to lose.
local lost = (not epoch or server ~= (known[8] or "")) and (since or holders + waiting > 0)
if lost then
  local grace, knows = string.match(ARGV[6], "^(%d+) ?(.*)$")
  quiet = now + grace
  if not epoch and knows ~= "*" then -- as far as the caller knows the name is new, unless the server is
    local others = string.gsub(knows, server .. "[!?],?", "") ~= ""
    local successor = string.find(replication, "master_replid2:%x*[^0%s]")
    if string.find(knows, server .. "!", 1, true) then
      quiet = 0
    elseif not (others and successor) then
      local info = redis.pcall("INFO", "server")
      if type(info) ~= "string" then info = "" end
      local age = string.match(info, "uptime_in_seconds:(%d+)") -- s, whole ones
      local started = age and clock[1] - age + 1 or 0
      if string.match(info, "_mode:cluster") then started = started + 2 end -- until a restarted node takes part
      quiet = math.min(quiet, 1000 * started + grace)
    end
  end
  epoch = micros
end
reply[4], reply[6] = epoch or 0, tonumber(server, 16) or 0

