-- Says that a process has ended.
-- KEYS[1] prefix of the team
-- ARGV[1] process id
-- Reply: 'forgotten'. A repeat changes nothing.
local prefix = KEYS[1]
local process = ARGV[1]

redis.call('ZREM', prefix .. 'processes', process)
redis.call('HDEL', prefix .. 'processes:info', process, process .. ':seenAt')
redis.call('DEL', prefix .. 'signals:' .. process)
return 'forgotten'
