-- states.lua: the states of an id in a reply. internal/protocol has the same list.
--
-- provides: EARLY, EVICTED, FULL, GONE, HELD, REFUSED, TOO_BIG, WAITING
local GONE, HELD, WAITING, REFUSED, FULL, TOO_BIG, EARLY, EVICTED = 0, 1, 2, 3, 4, 5, 6, 7
