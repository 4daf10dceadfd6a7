-- crowd.lua: when tenants that have nothing are forgotten.
--
-- provides: SOME, crowded
local FEW, SOME = 128, 32 -- how many tenants are remembered although they may have nothing, and how many are forgotten at once

-- crowded reports whether tenants are to be forgotten after some were added, and there are count now.
local function crowded(count, added) return count > FEW and count % SOME < added end
