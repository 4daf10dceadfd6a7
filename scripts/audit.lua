-- audit: what is stored of a name, at one moment, for fairsem doctor, which says what is wrong with it. It only reads, and no more than some
-- ids a call. It uses keys of any layout and type, and believes nothing that one key says of another.
--
-- KEYS    owner, queue, timeout, counter, weight, meta, lanes, turns, tenants, numbers
-- ARGV    from   rank of the first of the holders and of the waiters to read
--         count  of how many of each
--         late   ms after which a deadline that passed should have been found
--         far    ms within which every deadline has to be
--         .. fields of meta
-- Returns now   server ms
--         wrong    which of the keys are of another type; then nothing follows
--         ttls     of the keys, ms; -1: no end, -2: no such key
--         meta     its fields
--         sizes    of owner, queue and weight
--         counter
--         extra    of weight
--         units    of the holders that were read, expired ones too
--         weighed  how many of those that were read have a weight
--         newest   the last token
--         last     the last deadline
--         none     ids that were read and have no deadline
--         twice    ids that hold and wait
--         late     how many deadlines passed so long ago, and the id of the first
--         far      how many deadlines are too far away, and the id of the first
--         expired  how many holders of those that were read have expired, their units, and how many waiters
local owner, queue, timeout, counter, weight, meta, lanes, turns, tenants, numbers = unpack(KEYS)
local from, count, late, far = unpack(ARGV, 1, 4)
local first_field = 5

local clock = redis.call("TIME")
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function text(number) return string.format("%.0f", number) end

local wrong, sizes = {}, {}
for i, read in ipairs({
  { "ZCARD", owner }, { "ZCARD", queue }, { "ZCARD", timeout }, { "GET", counter }, { "HLEN", weight }, { "HLEN", meta },
  { "ZCARD", lanes }, { "ZCARD", turns }, { "HLEN", tenants }, { "ZCARD", numbers },
}) do
  sizes[i] = redis.pcall(read[1], read[2])
  if type(sizes[i]) == "table" then
    if string.sub(sizes[i].err, 1, 9) ~= "WRONGTYPE" then return sizes[i] end
    wrong[#wrong + 1] = i
  end
end
if #wrong > 0 then return { text(now), wrong } end

local ttls = {}
for i, key in ipairs(KEYS) do ttls[i] = redis.call("PTTL", key) end

local units, weighed, none, twice = 0, 0, {}, {}
local expired_holders, expired_units, expired_waiters = 0, 0, 0

local function read(key, other, held)
  local ids = redis.call("ZRANGE", key, from, from + count - 1)
  if #ids == 0 then return end
  local deadlines, elsewhere = redis.call("ZMSCORE", timeout, unpack(ids)), redis.call("ZMSCORE", other, unpack(ids))
  local weights = redis.call("HMGET", weight, unpack(ids))
  for i, id in ipairs(ids) do
    if not deadlines[i] then none[#none + 1] = id end
    if elsewhere[i] and held then twice[#twice + 1] = id end
    if weights[i] then weighed = weighed + 1 end
    local weight_of, expired = tonumber(weights[i]) or 1, deadlines[i] and tonumber(deadlines[i]) <= now
    if held then units = units + weight_of end
    if expired and held then
      expired_holders, expired_units = expired_holders + 1, expired_units + weight_of
    elseif expired then
      expired_waiters = expired_waiters + 1
    end
  end
end
read(owner, queue, true)
read(queue, owner, false)

local passed = redis.call("ZRANGEBYSCORE", timeout, "-inf", "(" .. text(now - late), "LIMIT", 0, 1)
local beyond = redis.call("ZRANGEBYSCORE", timeout, "(" .. text(now + far), "+inf", "LIMIT", 0, 1)
return {
  text(now),
  wrong,
  ttls,
  redis.call("HMGET", meta, unpack(ARGV, first_field)),
  { sizes[1], sizes[2], sizes[5] },
  sizes[4],
  redis.call("HGET", weight, "extra"),
  text(units),
  weighed,
  redis.call("ZRANGE", owner, -1, -1, "WITHSCORES")[2] or false,
  redis.call("ZRANGE", timeout, -1, -1, "WITHSCORES")[2] or false,
  none,
  twice,
  { redis.call("ZCOUNT", timeout, "-inf", "(" .. text(now - late)), passed[1] or false },
  { redis.call("ZCOUNT", timeout, "(" .. text(now + far), "+inf"), beyond[1] or false },
  { expired_holders, text(expired_units), expired_waiters },
}
