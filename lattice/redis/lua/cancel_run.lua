-- Cancels a run: its open messages end, whoever holds a lease on it or on them is told and fenced off.
-- KEYS[1] prefix of the team
-- ARGV[1] run id, ARGV[2] error as JSON, ARGV[3] retention in ms, ARGV[4] nonce of this call
-- Reply: 'cancelled' | 'ended' | 'missing'. A repeat is known by its nonce and answers 'cancelled' again.
local prefix = KEYS[1]
local run = ARGV[1]
local failure = ARGV[2]
local retention = tonumber(ARGV[3])
local nonce = ARGV[4]

-- include: clock

local now = clock()

-- include: deliver
-- include: close
-- include: tell
-- include: end_run

local key = prefix .. 'run:' .. run
local found = redis.call('HMGET', key, 'status', 'owner', 'cancel')
if not found[1] then
  return 'missing'
end
if found[1] == 'succeeded' or found[1] == 'failed' or found[1] == 'cancelled' then
  return found[1] == 'cancelled' and found[3] == nonce and 'cancelled' or 'ended'
end
redis.call('HSET', key, 'status', 'cancelled', 'error', failure, 'finishedAt', now, 'cancel', nonce)
end_run(run, 'cancelled')
if found[2] and found[2] ~= '' then
  signal(found[2], 'cancel:run:' .. run)
end
return 'cancelled'
