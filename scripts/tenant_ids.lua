-- tenant_ids.lua: how ids, members of lanes and fields of tenants are written: see accounts.lua.
--
-- provides: AT_LIMIT, REMEMBERED, STEP, declared_as, lane_of, place, read_plain, read_record, tenant_of, tenant_of_turn, to_position, write_plain, write_record
local STEP = 50 -- most ids at once that may each be another tenant's
local REMEMBERED = 128 -- a tenant that has nothing any more is stored only while no more are stored in all
local AT_LIMIT = 2 ^ 53 -- the score of tenants whose first waiter may not be granted what it wants: above all units per share

local function tenant_of(id) return string.match(id, ":[^:]*:(.*)$") or "" end -- what comes after the second colon

-- lane_of is what the members of lanes that are waiters of a tenant begin with. No tenant's is the beginning of another's.
local function lane_of(tenant) return string.format("%d:", #tenant) .. tenant end

-- place writes a position or a token so that texts are ordered as numbers are, and to_position reads the position in a member of lanes.
local function place(number) return string.format("%014x", number) end
local function to_position(member, lane) return tonumber(string.sub(member, #lane + 1, #lane + 14), 16) end

-- read_record takes what is stored of a tenant apart: generation, units, permits, share, limit, time of the declaration, since when it has
-- been granted nothing. It returns nothing if it is not that.
local function read_record(record)
  local generation, units, permits, share, limit, since, last = string.match(record or "", "^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$")
  local granted = last and string.byte(last, 15) -- "0" or "1"
  if (granted == 48 or granted == 49) and tonumber(string.sub(last, 1, 14), 16) then
    return generation, units, permits, share, limit, since, last
  end
end

-- write_record puts it together again, of numbers and, for what is long, text.
local function write_record(generation, units, permits, share, limit, since, last)
  return generation .. string.format(" %d %d %d %d ", units, permits, share, limit) .. since .. " " .. last
end

-- read_plain and write_plain are for names on which all permits weigh 1, so there are as many units as permits, which are not returned. What
-- the plain scripts only compare or store again stays text.
local function read_plain(record)
  return string.match(record, "^(%d+) (%d+) %2 (%d+) (%d+) (%d+) (%x%x%x%x%x%x%x%x%x%x%x%x%x%x[01].*)$")
end
local function write_plain(generation, units, share, limit, since, last)
  units = string.format("%d", units)
  return generation .. " " .. units .. " " .. units .. " " .. share .. " " .. limit .. " " .. since .. " " .. last
end

-- declared_as returns a declared share and limit as write_plain stores them, or nothing if they are none.
local function declared_as(share, limit)
  share, limit = tonumber(share), tonumber(limit)
  if share and limit and share >= 1 and limit >= 0 and math.max(share, limit) < 2 ^ 53 then
    return string.format("%d", share), string.format("%d", limit)
  end
end

-- tenant_of_turn takes a member of turns apart: what the tenant was granted last has 15 characters, and 14 more follow if it is nothing yet.
local function tenant_of_turn(turn) return string.sub(turn, string.sub(turn, 15, 15) == "0" and 30 or 16) end
