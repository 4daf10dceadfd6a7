-- plain_leave.lua: what the plain scripts that release have in common: it declines, before anything is written, unless the name is plain and
-- all ids are holders. If it is one, that is left to its ZREM.
--
-- needs:    limit_form, meta, owner, timeout
-- include constants.lua
local layout, plain = unpack(redis.call("HMGET", meta, "layout", "plain"), 1, 2)
if tonumber(layout) ~= LAYOUT or not plain or not string.find(plain, limit_form) then return { 0 } end
redis.call("ZCARD", timeout) -- a key of another type must fail the call before it writes
if #ARGV > 1 then
  for _, token in ipairs(redis.call("ZMSCORE", owner, unpack(ARGV))) do
    if not token then return { 0 } end
  end
end
