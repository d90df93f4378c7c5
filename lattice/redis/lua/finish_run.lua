-- Ends a run with its result: step, end of what is still open, close of the event stream, start of the retention.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] run id, ARGV[3] owner, ARGV[4] token, ARGV[5] status, ARGV[6] result as JSON,
-- ARGV[7] error as JSON or '', ARGV[8] retention in ms, ARGV[9] the step
-- Reply: 'finished' | 'stale'. A repeat by the holder that finished it answers 'finished'.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local status = ARGV[5]
local result = ARGV[6]
local failure = ARGV[7]
local retention = tonumber(ARGV[8])
local step_at = 9

-- include: clock

local now = clock()

-- include: fence
-- include: step
-- include: deliver
-- include: close
-- include: tell
-- include: end_run

local key = prefix .. 'run:' .. id
if not fence() then
  local found = redis.call('HMGET', key, 'status', 'owner', 'epoch')
  local mine = found[1] == status and found[2] == owner and found[3] == token
  return mine and 'finished' or 'stale'
end
write_step(step_at, id)
redis.call('HSET', key, 'status', status, 'result', result, 'finishedAt', now)
if failure ~= '' then
  redis.call('HSET', key, 'error', failure)
end
end_run(id, status)
return 'finished'
