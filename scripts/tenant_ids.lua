-- tenant_ids.lua: how ids, members of lanes and fields of tenants are written: see accounts.lua.
--
-- provides: AT_LIMIT, STEP, lane_of, place, tenant_of, tenant_of_turn, tenant_record, to_position
local STEP = 50 -- most ids at once that may each be another tenant's
local AT_LIMIT = 2 ^ 53 -- the score of tenants whose first waiter may not be granted what it wants: above all units per share
local tenant_record = "^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%x%x%x%x%x%x%x%x%x%x%x%x%x%x[01]%x*)$"

local function tenant_of(id) return string.match(id, "^[^:]*:%d+#?:(.*)$") or "" end

-- lane_of is what the members of lanes that are waiters of a tenant begin with. No tenant's is the beginning of another's.
local function lane_of(tenant) return string.format("%d:", #tenant) .. tenant end

-- place writes a position or a token so that texts are ordered as numbers are, and to_position reads the position in a member of lanes.
local function place(number) return string.format("%014x", number) end
local function to_position(member, lane) return tonumber(string.sub(member, #lane + 1, #lane + 14), 16) end

-- tenant_of_turn takes a member of turns apart: what the tenant was granted last has 15 characters, and 14 more follow if it is nothing yet.
local function tenant_of_turn(turn) return string.sub(turn, string.sub(turn, 15, 15) == "0" and 30 or 16) end
