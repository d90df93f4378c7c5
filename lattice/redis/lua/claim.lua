-- Leases the next claimable messages of a mailbox: those given back first, then the stream. O(1) in its length.
-- KEYS[1] prefix of the team
-- ARGV[1] member, ARGV[2] owner, ARGV[3] lease in ms (0: no lease), ARGV[4] how many at most, ARGV[5] nonce of this
-- call, ARGV[6] '1' if it repeats a call whose reply was lost
-- Reply: {{record, conversation has entries, reports of its batch are delivered, deadline, id}, ...}
-- A repeat gets what the lost call had leased. A lost group is made again; entries that are not pending are skipped.
local prefix = KEYS[1]
local member = ARGV[1]
local owner = ARGV[2]
local lease_ms = tonumber(ARGV[3])
local count = tonumber(ARGV[4])
local nonce = ARGV[5]
local repeated = ARGV[6] == '1'

-- include: clock

local now = clock()

-- include: deliver
-- include: lease
-- include: next

local function leased_before()
  local claims = {}
  for _, name in ipairs(redis.call('ZRANGE', prefix .. 'leases', 0, -1)) do
    local found = string.sub(name, 1, 8) == 'message:' and redis.call('HMGET', prefix .. name, 'claim', 'status')
    if found and found[1] == nonce and found[2] == 'processing' then
      claims[#claims + 1] = describe(string.sub(name, 9), tonumber(redis.call('ZSCORE', prefix .. 'leases', name)))
    end
  end
  return claims
end

local claims = repeated and leased_before() or {}
while #claims < count do
  local claim = next_message(member, owner, lease_ms, nonce)
  if not claim then
    break
  end
  claims[#claims + 1] = claim
end
return claims
