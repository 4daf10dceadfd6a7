-- epoch.lua: whether the state may have been lost. A server that does not know the name, or that the
-- name does not know, because it was restarted or took the place of another, may lack what was
-- granted last. The name then has a new epoch, by which clients see that they have to put back what
-- they have; and for the time of grace, so that they can, nothing new is granted.
local epoch, quiet = tonumber(known[6]), tonumber(known[7]) or 0 -- server us; server ms: until then, nothing new
local grace, met, lost, server = tonumber(ARGV[6])
if epoch and micros < epoch then quiet = 0 end -- the clock was stepped back: it could last for long

-- LASTSAVE moves with every start, and costs a tenth of the INFO that tells for certain. Whoever comes
-- for the first time, or saw a connection break, asks for certain: two servers can start in one second. Both
-- need a right that may be missing; then no server differs from another.
local saved = redis.pcall("LASTSAVE")
if type(saved) ~= "number" then saved = 0 end

if since and (grace > 0 or tonumber(ARGV[4]) <= 0 or not epoch or saved ~= tonumber(known[8])) then
  local info = redis.pcall("INFO", "server")
  if type(info) ~= "string" then info = "" end
  local knew = redis.call("HGET", meta, "server") or ""
  server = string.match(info, "run_id:(%x+)") or knew
  lost = not epoch or knew ~= "" and knew ~= server
  met = lost or saved ~= tonumber(known[8]) or knew ~= server
  if lost then
    epoch, quiet = micros, now + math.abs(grace)
    if knew == "" and grace <= 0 and not (VERB == "refresh" or VERB == "reduce" or VERB == "restore") then -- new, or a young server lost it all
      local age = string.match(info, "uptime_in_seconds:(%d+)") -- s, whole ones
      local started = age and clock[1] - age + 1 or 0
      if string.match(info, "_mode:cluster") then started = started + 2 end -- until a restarted node takes part
      quiet = math.min(quiet, 1000 * started - grace)
    end
  end
end
reply[4] = epoch or 0

