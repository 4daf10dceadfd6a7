-- epoch.lua: whether the state may have been lost. A server that does not know the name, or that the
-- name does not know, because it was restarted or took the place of another, may lack what was
-- granted last. The name then has a new epoch, by which clients see that they have to put back what
-- they have; and for the time of grace, so that they can, nothing new is granted.
local epoch, quiet = tonumber(known[6]), tonumber(known[7]) or 0 -- server us; server ms: until then, nothing new
local grace, server, lost = tonumber(ARGV[6])
if epoch and micros < epoch then quiet = 0 end -- the clock was stepped back: it could last for long

if since and (grace >= 0 or not epoch) then
  local info = redis.pcall("INFO", "server") -- a right that may be missing: then no server differs from another
  if type(info) ~= "string" then info = "" end
  local knew = redis.call("HGET", meta, "server")
  server = string.match(info, "run_id:(%x+)") or "unknown"
  lost = not epoch or knew ~= server
  if lost then
    local age = string.match(info, "uptime_in_seconds:(%d+)") -- s, whole ones
    epoch, quiet = micros, now + math.abs(grace)
    if not knew and VERB ~= "refresh" and VERB ~= "restore" then -- a new name, or a server as young as that lost it all
      local started = age and clock[1] - age + 1 or 0
      if string.match(info, "redis_mode:cluster") then started = started + 2 end -- until a restarted node takes part
      quiet = math.min(quiet, 1000 * started + math.abs(grace))
    end
  end
end
reply[4] = epoch or 0

