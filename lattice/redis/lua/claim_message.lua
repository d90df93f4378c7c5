-- Leases one message by its id, if it is pending and neither its conversation nor its batch holds it back.
-- KEYS[1] prefix of the team
-- ARGV[1] message id, ARGV[2] owner, ARGV[3] lease in ms (0: no lease), ARGV[4] nonce of this call
-- Reply: {record, conversation has entries, reports of its batch are delivered, deadline, id} | {}
-- A repeat is known by its nonce and gets the same lease.
local prefix = KEYS[1]
local id = ARGV[1]
local owner = ARGV[2]
local lease_ms = tonumber(ARGV[3])
local nonce = ARGV[4]

-- shared: clock
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- end shared

local now = clock()

-- shared: lease
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
-- end shared

local found = redis.call('HMGET', prefix .. 'message:' .. id, 'status', 'member', 'entry', 'claim', 'claimable')
if found[1] == 'processing' and found[4] == nonce then
  return describe(id, now + lease_ms)
end
if found[1] ~= 'pending' or found[5] ~= '1' or not found[3] then
  return {}
end
return lease(id, found[2], owner, lease_ms, nonce)
