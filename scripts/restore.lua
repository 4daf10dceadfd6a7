-- restore: puts back who is missing since the state was lost: holders with their tokens, waiters with
-- their places. Holders have to fit, but for the time of grace: what does not fit then is in the way
-- of nobody, and is what an old file has too much. Who was given up stays out, and who is there is
-- only renewed.
--
-- ARGV    7 holders  how many of the ids hold; the others, which come after them, wait
--         8 epoch    in which the caller missed them: a late copy from another one takes no grant back
--         9.. ids, then the token or place of each, then the weight of each
-- Results: HELD, WAITING, EVICTED (or given up), GONE (it fits no more), or EARLY (it does not fit, but expired ids
--         are left over at the bound: it asks again)
-- First write: SET, so that it is refused under OOM.
local claimed, missed, count = tonumber(ARGV[7]), tonumber(ARGV[8]), (#ARGV - 8) / 3
if not distinct(9, count) then return redis.error_reply("FAIRSEMIDS an id comes twice") end
local ids, deadline = { unpack(ARGV, 9, 8 + count) }, text(now + lease)
local lapse = window > 0 and text(now + window) or deadline -- of who holds
local due, granted, queued, units, stale = {}, {}, {}, {}, {}
if count > 0 then
  for i = 1, count do last = math.max(last, tonumber(ARGV[8 + count + i])) end
  redis.call("SET", counter, text(last), "PXAT", text(horizon))
  if lapsed > 0 then reap() end
  local seen = redis.call("ZMSCORE", timeout, unpack(ids))
  local tokens, places = redis.call("ZMSCORE", owner, unpack(ids)), redis.call("ZMSCORE", queue, unpack(ids))
  for i, id in ipairs(ids) do -- comes in anew: who lapsed, is in line here and was granted since, or the other way
    local mixed = i <= claimed and not tokens[i]
    if i > claimed and tokens[i] then mixed = missed == epoch and tonumber(tokens[i]) < epoch end
    if (tokens[i] or places[i]) and ((tonumber(seen[i]) or 0) <= now or mixed) then
      stale[#stale + 1] = id
      seen[i], tokens[i], places[i] = nil, nil, nil
    end
  end
  if #stale > 0 then remove(stale, 1) end
  for i, id in ipairs(ids) do
    local number, mine = tonumber(ARGV[8 + count + i]), tonumber(ARGV[8 + 2 * count + i])
    local state = tokens[i] and HELD or places[i] and WAITING or GONE
    if state ~= GONE then
      number = whole(tokens[i] or places[i]) or 0
    elseif seen[i] then
      state, number = EVICTED, 0 -- a tombstone
    elseif i > claimed then
      state, waiting = WAITING, waiting + 1
      queued[#queued + 1], queued[#queued + 2] = text(number), id
    elseif now < quiet or holders + extra + mine <= limit then
      state, holders, extra = HELD, holders + 1, extra + mine - 1
      granted[#granted + 1], granted[#granted + 2] = text(number), id
    else
      state, number = reply[3] == 1 and EARLY or GONE, 0
    end
    if state == HELD or state == WAITING then
      due[#due + 1], due[#due + 2] = state == HELD and (window > 0 and seen[i] or lapse) or deadline, id
      if mine > 1 and not seen[i] then units[#units + 1], units[#units + 2] = id, text(mine) end
    end
    reply[size + 1], reply[size + 2] = state, number
    size = size + 2
  end
  if #due > 0 then enter(due, granted, queued, units) end
  redis.call("PEXPIREAT", timeout, text(horizon))
  if waiting > 0 then reply[2], reply[3] = lease, now < quiet and 0 or 1 end -- the next call looks who goes next
end

