-- Moves a message along the allowed moves: pending to anything, processing to a terminal state.
-- KEYS[1] prefix of the team
-- ARGV[1] message id, ARGV[2] status, ARGV[3] retention in ms
-- Reply: 'moved' | 'missing' | 'refused'. A repeat of a move that was made is refused.
local prefix = KEYS[1]
local id = ARGV[1]
local status = ARGV[2]
local retention = tonumber(ARGV[3])

-- include: clock

local now = clock()

-- include: deliver
-- include: close

local key = prefix .. 'message:' .. id
local found = redis.call('HMGET', key, 'status', 'member', 'owner')
if not found[1] then
  return 'missing'
end
local open = found[1] == 'pending' or found[1] == 'processing'
if not open or status == 'pending' or status == found[1] then
  return 'refused'
end
if status == 'processing' then
  redis.call('HSET', key, 'status', status)
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'pending', -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'processing', 1)
  return 'moved'
end
close(id, status)
if found[1] == 'processing' and found[3] and found[3] ~= '' then
  signal(found[3], 'cancel:' .. id)
end
return 'moved'
