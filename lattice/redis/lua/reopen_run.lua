-- Queues a failed run again: it goes on from its last recorded step.
-- KEYS[1] prefix of the team
-- ARGV[1] run id, ARGV[2] limits of its budget that replace those it had, as JSON, or ''
-- Reply: 'reopened' (also for a run that is queued: so a repeat is harmless) | 'missing' | 'refused'
local prefix = KEYS[1]
local run = ARGV[1]
local budget = ARGV[2]

local key = prefix .. 'run:' .. run
local status = redis.call('HGET', key, 'status')
if not status then
  return 'missing'
end
if status ~= 'queued' and status ~= 'failed' then
  return 'refused'
end
if budget ~= '' then
  redis.call('HSET', key, 'budget', budget)
end
if status == 'queued' then
  return 'reopened'
end

local function keep(name)
  redis.call('PERSIST', prefix .. name)
end

local function keep_conversation(conversation)
  for _, part in ipairs({'', ':entered', ':waiting', ':busy'}) do
    keep('conversation:' .. conversation .. part)
  end
  keep('journal:' .. conversation)
end

redis.call('HSET', key, 'status', 'queued', 'owner', '')
redis.call('HDEL', key, 'result', 'error', 'finishedAt', 'interrupted')
redis.call('ZREM', prefix .. 'retention', 'run:' .. run)
local outer = redis.call('HGET', key, 'outerItem')
if outer then
  redis.call('HSET', prefix .. 'nested', run, outer)
end
for _, part in ipairs({'', ':messages', ':events'}) do
  keep('run:' .. run .. part)
end
keep_conversation(redis.call('HGET', key, 'conversation'))
for _, message in ipairs(redis.call('LRANGE', key .. ':messages', 0, -1)) do
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'conversation', 'batch')
  keep('message:' .. message)
  if found[1] then
    keep_conversation(found[1])
  end
  if found[2] then
    keep('batch:' .. found[2])
  end
end
return 'reopened'
