-- plain_holders.lua: the plain scripts that release ids and acquire others decline unless each id to release is a holder, and is there
-- once. If a call releases one id and acquires none, its ZREM says whether that is a holder.
--
-- needs:    count, first_released, owner, released
-- provides: leaves
local leaves = {}
if released == 1 and count == 0 then
  leaves[ARGV[first_released]] = true
elseif released > 0 then
  for i, token in ipairs(redis.call("ZMSCORE", owner, unpack(ARGV, first_released))) do
    local id = ARGV[first_released + i - 1]
    if not token or leaves[id] then return { 0 } end
    leaves[id] = true
  end
end
