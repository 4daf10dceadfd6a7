-- plain_kind.lua: the number "plain" in a reply for what meta stores as "plain".
--
-- provides: plain_kind
local function plain_kind(plain)
  local kinds = { [""] = 1, ["+"] = 2, ["#"] = 3, ["@"] = 4, ["@+"] = 5 } -- by what follows the limit
  return plain and kinds[string.match(plain, "%D*$")] or 0
end
