-- plain_renew.lua: what a plain script ends with: when the keys that it knows expire. The others do not exist.
--
-- needs:    expire_at, meta, renew_keys
if renew_keys then
  local pinned = redis.call("HGET", meta, "pinned")
  for _, key in ipairs(KEYS) do
    if key ~= meta or not pinned then redis.call("PEXPIREAT", key, string.format("%d", expire_at)) end
  end
  redis.call("HSET", meta, "until", string.format("%d", expire_at))
end
