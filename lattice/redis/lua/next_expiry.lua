-- Says when the next lease runs out that has not yet, so that somebody looks at that very moment.
-- KEYS[1] prefix of the team
-- Reply: ms until then, -1 if there is none. Reads only.
local prefix = KEYS[1]

-- include: clock

local now = clock()
local grace = redis.call('PTTL', prefix .. 'grace')
if grace >= 0 then
  return grace
end
local next = redis.call('ZRANGEBYSCORE', prefix .. 'leases', '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES',
  'LIMIT', 0, 1)
if not next[2] then
  return -1
end
return math.ceil(tonumber(next[2])) - now
