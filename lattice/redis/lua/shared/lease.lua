-- lease(message, member, owner, lease in ms, nonce): gives a pending message to an owner; answers as describe does.
-- describe(message, deadline): what a worker needs of a message. Uses: prefix, now.
local function describe(message, deadline)
  local key = prefix .. 'message:' .. message
  local record = redis.call('HGETALL', key)
  local found = redis.call('HMGET', key, 'conversation', 'pausedOn')
  local conversation = prefix .. 'conversation:' .. found[1]
  local delivered = not found[2] or redis.call('SISMEMBER', conversation .. ':entered', found[2]) == 1
  return {record, redis.call('EXISTS', conversation), delivered and 1 or 0, deadline, message}
end

local function lease(message, member, owner, lease_ms, nonce)
  local key = prefix .. 'message:' .. message
  redis.call('HINCRBY', key, 'attempt', 1)
  redis.call('HSET', key, 'status', 'processing', 'owner', owner, 'claim', nonce, 'claimedAt', now)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'processing', 1)
  local deadline = now + lease_ms
  if lease_ms > 0 then
    redis.call('ZADD', prefix .. 'leases', deadline, 'message:' .. message)
  end
  return describe(message, deadline)
end
