-- Records a queued run.
-- KEYS[1] prefix of the team
-- ARGV[1] run id, ARGV[2..] field, value, ... of its record
-- Reply: 'started' | 'exists' (nothing is changed; so a repeat is harmless)
local prefix = KEYS[1]
local run = ARGV[1]
local fields = {unpack(ARGV, 2)}

-- include: clock

local key = prefix .. 'run:' .. run
if redis.call('EXISTS', key) == 1 then
  return 'exists'
end
local now = clock()
redis.call('HSET', key, 'status', 'queued', 'epoch', 0, 'round', 0, 'createdAt', now, unpack(fields))
redis.call('ZADD', prefix .. 'runs', redis.call('INCR', prefix .. 'sequence'), run)
local outer = redis.call('HGET', key, 'outerItem')
if outer then
  redis.call('HSET', prefix .. 'nested', run, outer)
end
return 'started'
