-- release: takes ids out, whether they hold or wait.
--
-- ARGV    5 tombstone  ms for which a late acquire of these ids must find them gone; 0: none can come
--         6.. ids
-- Returns finish(): what each id was, HELD, WAITING or GONE
-- First write: ZREM, so that it works under OOM.
local tombstone = tonumber(ARGV[5])
local ids = { unpack(ARGV, 6) }
local tokens = redis.call("ZMSCORE", owner, unpack(ids))
local places = waiting > 0 and redis.call("ZMSCORE", queue, unpack(ids)) or {}

keep(tombstone)
reap()
remove(ids)
if tombstone > 0 then
  local due = {}
  for i, id in ipairs(ids) do due[2 * i - 1], due[2 * i] = now + tombstone, id end
  redis.call("ZADD", timeout, unpack(due))
  if not nearest then fresh[timeout] = true end -- there may have been none
end

local results = {}
for i = 1, #ids do
  local state, number = GONE, 0
  if tokens[i] then
    state, number = HELD, tonumber(tokens[i])
  elseif places[i] then
    state, number = WAITING, tonumber(places[i])
  end
  results[#results + 1], results[#results + 2] = state, number
end
return finish(results)
