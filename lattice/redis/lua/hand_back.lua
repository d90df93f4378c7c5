-- Gives work back unfinished: a message is pending again at the head of its mailbox, a run may be taken by anybody.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] lease id, ARGV[3] owner, ARGV[4] token, ARGV[5] ms until a run that nobody takes is
-- looked for, ARGV[6] the step
-- Reply: 'returned' | 'stale'. A repeat by the holder that gave it back answers 'returned'.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local grace = tonumber(ARGV[5])
local step_at = 6

-- include: clock

local now = clock()

-- include: fence
-- include: step

local key = prefix .. kind .. ':' .. id
local current, run = fence()
if not current then
  return redis.call('HGET', key, 'returnedBy') == owner .. ':' .. token and 'returned' or 'stale'
end
write_step(step_at, run)
redis.call('HSET', key, 'returnedBy', owner .. ':' .. token, 'owner', '')
if kind == 'run' then
  redis.call('ZADD', prefix .. 'leases', now + grace, 'run:' .. id)
  return 'returned'
end
local member = redis.call('HGET', key, 'member')
local mailbox = prefix .. 'mailbox:' .. member
redis.call('HSET', key, 'status', 'pending')
redis.call('HINCRBY', key, 'handedBack', 1)
redis.call('ZREM', prefix .. 'leases', 'message:' .. id)
redis.call('HINCRBY', prefix .. 'counts:' .. member, 'processing', -1)
redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', 1)
redis.call('LPUSH', mailbox .. ':returned', id)
if redis.call('LLEN', mailbox .. ':doorbell') < 64 then
  redis.call('RPUSH', mailbox .. ':doorbell', '1')
end
return 'returned'
