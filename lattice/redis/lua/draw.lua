-- Counts what was used for a run, and grants it more model calls if its budget allows them.
-- KEYS[1] prefix of the team
-- ARGV[1] run id, ARGV[2] nonce of this call, ARGV[3] model calls, ARGV[4] tokens used, ARGV[5] most model calls or '',
-- ARGV[6] most tokens or '', ARGV[7] ms that it may take from its first start or ''
-- Reply: {'granted' | 'budget_exceeded' | 'deadline_exceeded' | 'missing', model calls, tokens, ms since its start}
-- A repeat is known by its nonce (the last ones are kept) and counts nothing again.
local prefix = KEYS[1]
local run = ARGV[1]
local nonce = ARGV[2]
local calls = tonumber(ARGV[3])
local tokens = tonumber(ARGV[4])
local max_calls = tonumber(ARGV[5])
local max_tokens = tonumber(ARGV[6])
local max_ms = tonumber(ARGV[7])

-- include: clock

local now = clock()
local key = prefix .. 'run:' .. run
local found = redis.call('HMGET', key, 'startedAt', 'modelCalls', 'tokens', 'drawn', 'status')
if not found[5] then
  return {'missing', 0, 0, 0}
end
local drawn = found[4] or ''
local repeated = string.find(drawn, nonce, 1, true)
local used_calls = tonumber(found[2] or '0')
local used_tokens = tonumber(found[3] or '0')
if repeated then
  calls = 0
else
  redis.call('HSET', key, 'drawn', string.sub(nonce .. ' ' .. drawn, 1, 200))
  if tokens > 0 then
    used_tokens = redis.call('HINCRBY', key, 'tokens', tokens)
  end
end
local elapsed = now - tonumber(found[1] or now)
local word = 'granted'
if max_ms and elapsed >= max_ms then
  word = 'deadline_exceeded'
elseif (max_tokens and used_tokens >= max_tokens) or (max_calls and used_calls + calls > max_calls) then
  word = 'budget_exceeded'
elseif calls > 0 then
  used_calls = redis.call('HINCRBY', key, 'modelCalls', calls)
end
return {word, used_calls, used_tokens, elapsed}
