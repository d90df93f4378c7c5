-- Says that a process lives, and forgets those that have been silent for too long.
-- KEYS[1] prefix of the team
-- ARGV[1] process id, ARGV[2] what it is, as JSON, ARGV[3] ms until it counts as dead
-- Reply: 'alive'. A repeat says it again.
local prefix = KEYS[1]
local process = ARGV[1]
local info = ARGV[2]
local ttl = tonumber(ARGV[3])

-- include: clock

local now = clock()
local by_deadline = prefix .. 'processes'
local about = prefix .. 'processes:info'
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', by_deadline, '-inf', now)) do
  redis.call('ZREM', by_deadline, silent)
  redis.call('HDEL', about, silent, silent .. ':seenAt')
end
redis.call('ZADD', by_deadline, now + ttl, process)
redis.call('HSET', about, process, info, process .. ':seenAt', now)
for _, key in ipairs({by_deadline, about}) do
  if redis.call('PTTL', key) < ttl * 2 then
    redis.call('PEXPIRE', key, ttl * 2)
  end
end
return 'alive'
