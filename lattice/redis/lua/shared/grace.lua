-- in_grace(lease_ms): whether nobody's lease may be taken away yet. When nobody has looked for expired leases for long
-- (the server was away, say), those who could not renew theirs meanwhile get one lease to do so. Uses: prefix.
local function in_grace(lease_ms)
  local looking = math.max(math.ceil(lease_ms / 2), 1000)
  if redis.call('EXISTS', prefix .. 'looking') == 0 then
    redis.call('SET', prefix .. 'grace', '1', 'PX', lease_ms)
    looking = looking + lease_ms
  end
  redis.call('SET', prefix .. 'looking', '1', 'PX', looking)
  return redis.call('EXISTS', prefix .. 'grace') == 1
end
