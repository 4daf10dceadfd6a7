-- constants.lua: what all scripts have in common that does not depend on what is stored. internal/protocol has the same.
--
-- provides: DAY, EARLY, EVICTED, FULL, GONE, HELD, LAYOUT, LINGER, MONTH, REFUSED, TOO_BIG, WAITING
local LAYOUT = 2     -- of the keys; a script uses the keys of no other
local LINGER = 10000 -- ms that keys outlive the last deadline in them
local DAY = 86400000 -- ms: the longest lease and grace period
local MONTH = 31 * DAY -- ms: the longest window of a rate
local GONE, HELD, WAITING, REFUSED, FULL, TOO_BIG, EARLY, EVICTED = 0, 1, 2, 3, 4, 5, 6, 7 -- the states in a reply
