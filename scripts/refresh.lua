-- refresh: renews the leases of holders and waiters, and says what each of them is now. It revives
-- nobody: who lapsed is gone. With no ids it only reaps and promotes.
--
-- ARGV    5.. id, ttl, id, ttl, ...   ttl in ms
-- Returns finish(): HELD, WAITING or GONE
-- First write: PEXPIREAT or ZREM, so that it works under OOM.
local ids, longest = {}, 0
for i = 5, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  longest = math.max(longest, tonumber(ARGV[i + 1]))
end

keep(longest)
redis.call("PEXPIREAT", timeout, horizon)
reap()

local results, due = {}, {}
if #ids > 0 then
  local deadlines = redis.call("ZMSCORE", timeout, unpack(ids))
  local tokens = redis.call("ZMSCORE", owner, unpack(ids))
  local places = waiting > 0 and redis.call("ZMSCORE", queue, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    local state, number = GONE, 0
    if (tonumber(deadlines[i]) or 0) > now then -- reap() may have stopped at its bound
      if tokens[i] then
        state, number = HELD, tonumber(tokens[i])
      elseif places[i] then
        state, number = WAITING, tonumber(places[i])
      end
    end
    if state ~= GONE then due[#due + 1], due[#due + 2] = now + ARGV[4 + 2 * i], id end
    results[#results + 1], results[#results + 2] = state, number
  end
end
if #due > 0 then redis.call("ZADD", timeout, unpack(due)) end
return finish(results)
