-- bytes.lua: the order in which Redis has the members of a sorted set that have one score. Lua's own < compares text as the locale of the
-- server says, in which "aa" may come after "z".
--
-- provides: sorts_before

-- sorts_before compares no more bytes than our ids and turns have.
local function sorts_before(one, other)
  for i = 1, math.min(#one, #other, 1024) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end
