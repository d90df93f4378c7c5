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
-- shared: next
local function read_entry(mailbox)
  local read = {'XREADGROUP', 'GROUP', 'workers', 'worker', 'COUNT', 1, 'NOACK', 'STREAMS', mailbox, '>'}
  local reply = redis.pcall(unpack(read))
  if reply and reply.err and redis.call('EXISTS', mailbox) == 0 then
    return nil
  end
  if reply and reply.err and string.find(tostring(reply.err), 'NOGROUP', 1, true) then
    redis.call('XGROUP', 'CREATE', mailbox, 'workers', '0')
    reply = redis.call(unpack(read))
  end
  if reply and reply.err then
    error(tostring(reply.err))
  end
  return reply and reply[1] and reply[1][2][1]
end

local function next_message(member, owner, lease_ms, nonce)
  local mailbox = prefix .. 'mailbox:' .. member
  for _ = 1, 1000 do
    local message = redis.call('LPOP', mailbox .. ':returned')
    if not message then
      local entry = read_entry(mailbox)
      if not entry then
        redis.call('DEL', mailbox .. ':doorbell')
        return nil
      end
      message = entry[2][2]
    end
    if redis.call('HGET', prefix .. 'message:' .. message, 'status') == 'pending' then
      return lease(message, member, owner, lease_ms, nonce)
    end
  end
  return nil
end
-- end shared

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
