-- Accepts a batch: sends its messages, keeps their order and the count to wait for, writes the step.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] lease id, ARGV[3] owner, ARGV[4] token, ARGV[5] batch id, ARGV[6] '1' if it pauses,
-- ARGV[7] items at once or '', ARGV[8] mailbox depth limit, ARGV[9] number of items n,
-- then n times: message id, member, run id or '', number of fields, field, value, ...; then the step
-- Reply: {'accepted' | 'exists', record, ...} | {'stale'} | {'full', member}. A repeat answers 'exists'.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local batch = ARGV[5]
local pauses = ARGV[6]
local at_once = tonumber(ARGV[7])
local max_depth = tonumber(ARGV[8])
local count = tonumber(ARGV[9])

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
-- shared: deliver
local function enqueue(message, member)
  local mailbox = prefix .. 'mailbox:' .. member
  local entry = redis.call('XADD', mailbox, '*', 'id', message)
  redis.call('HSET', prefix .. 'message:' .. message, 'entry', entry)
  if redis.call('LLEN', mailbox .. ':doorbell') < 64 then
    redis.call('RPUSH', mailbox .. ':doorbell', '1')
  end
end

local function deliver(message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'member', 'conversation', 'shared')
  local conversation = prefix .. 'conversation:' .. found[2]
  if found[3] == '1' and not redis.call('SET', conversation .. ':busy', message, 'NX') then
    redis.call('RPUSH', conversation .. ':waiting', message)
  else
    enqueue(message, found[1])
  end
end
-- end shared
-- shared: create
local function create(message, member, run, fields)
  local sequence = redis.call('INCR', prefix .. 'sequence')
  redis.call('HSET', prefix .. 'message:' .. message, 'status', 'pending', 'createdAt', now, 'sequence', sequence,
    unpack(fields))
  redis.call('ZADD', prefix .. 'index:' .. member, sequence, message)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', 1)
  if run then
    redis.call('RPUSH', prefix .. 'run:' .. run .. ':messages', message)
  end
end
-- end shared

local function read_items(at)
  local items = {}
  for n = 1, count do
    local length = tonumber(ARGV[at + 3])
    items[n] = {id = ARGV[at], member = ARGV[at + 1], run = ARGV[at + 2] ~= '' and ARGV[at + 2],
      fields = {unpack(ARGV, at + 4, at + 3 + length)}}
    at = at + 4 + length
  end
  return items, at
end

local function full_mailbox(items)
  local more = {}
  for _, item in ipairs(items) do
    more[item.member] = (more[item.member] or 0) + 1
  end
  for member, added in pairs(more) do
    if tonumber(redis.call('HGET', prefix .. 'depths', member) or '0') + added > max_depth then
      return member
    end
  end
end

local function records(word, ids)
  local reply = {word}
  for _, message in ipairs(ids) do
    reply[#reply + 1] = redis.call('HGETALL', prefix .. 'message:' .. message)
  end
  return reply
end

local current, run = fence()
if not current then
  return {'stale'}
end
local key = prefix .. 'batch:' .. batch
local known = redis.call('HGET', key, 'items')
if known then
  return records('exists', cjson.decode(known))
end
local items, step_at = read_items(10)
local full = full_mailbox(items)
if full then
  return {'full', full}
end
local ids = {}
for n, item in ipairs(items) do
  ids[n] = item.id
  create(item.id, item.member, item.run, item.fields)
  redis.call('HINCRBY', prefix .. 'depths', item.member, 1)
  if at_once and n > at_once then
    redis.call('RPUSH', key .. ':held', item.id)
  else
    deliver(item.id)
  end
end
redis.call('HSET', key, 'parent', kind .. ':' .. id, 'waiting', count, 'pauses', pauses, 'items', cjson.encode(ids))
if pauses == '1' and kind == 'run' then
  redis.call('HSET', prefix .. 'run:' .. id, 'status', 'waiting', 'batch', batch)
  redis.call('HINCRBY', prefix .. 'run:' .. id, 'round', 1)
elseif pauses == '1' then
  redis.call('HSET', prefix .. 'message:' .. id, 'pausedOn', batch)
end
write_step(step_at, run)
return records('accepted', ids)
