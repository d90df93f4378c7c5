-- Takes a message off the dead letters.
-- KEYS[1] prefix of the team
-- ARGV[1] message id
-- Reply: 'dropped' (also if it was dropped before: so a repeat is harmless) | 'missing'
local prefix = KEYS[1]
local id = ARGV[1]

local key = prefix .. 'message:' .. id
local letter = redis.call('HGET', key, 'dead')
if not letter then
  return 'missing'
end
redis.call('XDEL', prefix .. 'dead', letter)
return 'dropped'
