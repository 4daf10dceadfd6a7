-- constants.lua: what the scripts of the library have in common that does not depend on what is stored.
--
-- provides: DAY, LAYOUT, LINGER, MONTH, NOT_REPORTED
local LAYOUT = 2     -- of the keys; a script uses the keys of no other
local LINGER = 10000 -- ms that keys outlive the last deadline in them
local DAY = 86400000 -- ms: the longest lease and grace period
local MONTH = 31 * DAY -- ms: the longest window of a rate
local NOT_REPORTED = -1 -- in a reply, instead of the ms until waiters poll
