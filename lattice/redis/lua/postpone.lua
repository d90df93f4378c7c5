-- Puts a message off: it is pending, but nobody can claim it until it is due. Its conversation stays its own.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] message id, ARGV[3] owner, ARGV[4] token, ARGV[5] ms until it is due, ARGV[6] why,
-- ARGV[7] the step
-- Reply: 'postponed' | 'stale'. A repeat by the holder that put it off answers 'postponed'.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local delay = tonumber(ARGV[5])
local reason = ARGV[6]
local step_at = 7

-- shared: clock
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- end shared

local now = clock()

-- shared: fence
local function fence()
  local record = redis.call('HMGET', prefix .. kind .. ':' .. id, 'status', 'owner', 'epoch', 'attempt', 'runId')
  local live = record[1] == 'processing' or record[1] == 'running' or record[1] == 'waiting'
  local current = record[kind == 'run' and 3 or 4]
  return live and record[2] == owner and current == token, kind == 'run' and id or record[5]
end
-- end shared
-- shared: step
local function write_events(step, at, run)
  local key = prefix .. 'run:' .. run
  local status = redis.call('HGET', key, 'status')
  if not status or status == 'succeeded' or status == 'failed' or status == 'cancelled' then
    return
  end
  if step.deltas > 0 and redis.call('EXISTS', key .. ':followers') == 1 then
    for n = 1, step.deltas do
      redis.call('XADD', key .. ':deltas', 'MAXLEN', '~', step.max_deltas, '*', 'event', ARGV[at + n])
    end
    redis.call('PEXPIRE', key .. ':deltas', 600000)
  end
  at = at + step.deltas
  for n = 1, step.events do
    redis.call('XADD', key .. ':events', 'MAXLEN', '~', step.max_events, '*', 'event', ARGV[at + n])
  end
  for name, amount in pairs(step.usage) do
    redis.call('HINCRBY', key, 'usage:' .. name, amount)
  end
end

local function write_journal(step, at)
  local journal = prefix .. 'journal:' .. step.conversation
  if step.clear then
    redis.call('DEL', journal)
  end
  for _, call in ipairs(step.started) do
    redis.call('HSET', journal, call, '')
  end
  for _ = 1, step.finished do
    redis.call('HSET', journal, ARGV[at + 1], ARGV[at + 2])
    at = at + 2
  end
  return at
end

local function mark_read(message)
  local key = prefix .. 'message:' .. message
  local found = redis.call('HMGET', key, 'status', 'member', 'claimable')
  if found[1] == 'pending' and found[3] ~= '1' then
    redis.call('HSET', key, 'status', 'read')
    redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'pending', -1)
    redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'read', 1)
  end
end

local function write_step(at, run)
  if ARGV[at] == '' then
    return
  end
  local step = cjson.decode(ARGV[at])
  local conversation = prefix .. 'conversation:' .. step.conversation
  local seen = step.once and redis.call('SADD', conversation .. ':entered', step.once) == 0
  if step.replace then
    redis.call('DEL', conversation)
  end
  for n = 1, step.messages do
    at = at + 1
    if n > 1 or not seen then
      redis.call('RPUSH', conversation, ARGV[at])
    end
  end
  at = write_journal(step, at)
  for _, message in ipairs(step.reads) do
    mark_read(message)
  end
  if run then
    write_events(step, at, run)
  end
end
-- end shared

local key = prefix .. 'message:' .. id
local current, run = fence()
if not current then
  return redis.call('HGET', key, 'returnedBy') == owner .. ':' .. token and 'postponed' or 'stale'
end
write_step(step_at, run)
local member = redis.call('HGET', key, 'member')
redis.call('HSET', key, 'returnedBy', owner .. ':' .. token, 'owner', '', 'status', 'pending', 'retryReason', reason)
redis.call('HINCRBY', key, 'handedBack', 1)
redis.call('HINCRBY', key, 'retries', 1)
redis.call('ZREM', prefix .. 'leases', 'message:' .. id)
redis.call('HINCRBY', prefix .. 'counts:' .. member, 'processing', -1)
redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', 1)
redis.call('ZADD', prefix .. 'delayed', now + delay, id)
return 'postponed'
