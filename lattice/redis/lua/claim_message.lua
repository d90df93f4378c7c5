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

-- include: clock

local now = clock()

-- include: lease

local found = redis.call('HMGET', prefix .. 'message:' .. id, 'status', 'member', 'entry', 'claim', 'claimable')
if found[1] == 'processing' and found[4] == nonce then
  return describe(id, now + lease_ms)
end
if found[1] ~= 'pending' or found[5] ~= '1' or not found[3] then
  return {}
end
return lease(id, found[2], owner, lease_ms, nonce)
