-- Leases a run to a process and raises its epoch. In a time of grace an expired lease still stands.
-- KEYS[1] prefix of the team
-- ARGV[1] run id, ARGV[2] owner, ARGV[3] lease in ms, ARGV[4] nonce of this call
-- Reply: {'taken', record, conversation has entries, reports of its batch are delivered, deadline}
--        | {'missing'} | {'held'} | {'ended'}. A repeat is known by its nonce and gets the same lease.
local prefix = KEYS[1]
local run = ARGV[1]
local owner = ARGV[2]
local lease_ms = tonumber(ARGV[3])
local nonce = ARGV[4]

-- include: clock

local now = clock()

-- include: grace

local key = prefix .. 'run:' .. run
local found = redis.call('HMGET', key, 'status', 'owner', 'reservedFor', 'take', 'conversation', 'batch', 'startedAt')
local status = found[1]
if not status then
  return {'missing'}
end
if status == 'succeeded' or status == 'failed' or status == 'cancelled' then
  return {'ended'}
end
local repeated = found[4] == nonce
local deadline = tonumber(redis.call('ZSCORE', prefix .. 'leases', 'run:' .. run) or '0')
local taken = found[2] and found[2] ~= ''
local reserved = found[3] and found[3] ~= '' and found[3] ~= owner
if not repeated and (taken or reserved) and (deadline > now or taken and in_grace(lease_ms)) then
  return {'held'}
end
if not repeated then
  redis.call('HINCRBY', key, 'epoch', 1)
  redis.call('HSET', key, 'owner', owner, 'reservedFor', '', 'take', nonce, 'status',
    status == 'queued' and 'running' or status)
  if not found[7] then
    redis.call('HSET', key, 'startedAt', now)
  end
end
redis.call('ZADD', prefix .. 'leases', now + lease_ms, 'run:' .. run)
local conversation = prefix .. 'conversation:' .. found[5]
local delivered = not found[6] or redis.call('SISMEMBER', conversation .. ':entered', found[6]) == 1
return {'taken', redis.call('HGETALL', key), redis.call('EXISTS', conversation), delivered and 1 or 0, now + lease_ms}
