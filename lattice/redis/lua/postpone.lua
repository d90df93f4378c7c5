-- Puts a message off: it is pending, but nobody can claim it until it is due. Its conversation stays its own.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] message id, ARGV[3] owner, ARGV[4] token, ARGV[5] ms until it is due, ARGV[6] why,
-- ARGV[7] the step
-- Reply: 'postponed' | 'stale'. A repeat by the holder that put it off answers 'postponed'.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local delay = tonumber(ARGV[5])
local reason = ARGV[6]
local step_at = 7

-- include: clock

local now = clock()

-- include: fence
-- include: step

local key = prefix .. 'message:' .. id
local current, run = fence()
if not current then
  return redis.call('HGET', key, 'returnedBy') == owner .. ':' .. token and 'postponed' or 'stale'
end
write_step(step_at, run)
local member = redis.call('HGET', key, 'member')
redis.call('HSET', key, 'returnedBy', owner .. ':' .. token, 'owner', '', 'status', 'pending', 'retryReason', reason)
redis.call('HINCRBY', key, 'handedBack', 1)
redis.call('HINCRBY', key, 'retries', 1)
redis.call('ZREM', prefix .. 'leases', 'message:' .. id)
redis.call('HINCRBY', prefix .. 'counts:' .. member, 'processing', -1)
redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', 1)
redis.call('ZADD', prefix .. 'delayed', now + delay, id)
return 'postponed'
