-- write_step(position in ARGV, run): what an agent recorded: messages of a conversation, journal, reads, events, usage.
-- Uses: prefix, id.
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
  local kept = step.events > 0 and redis.call('XLEN', key .. ':events') + step.events
  for n = 1, step.events do
    redis.call('XADD', key .. ':events', 'MAXLEN', '~', step.max_events, '*', 'event', ARGV[at + n])
  end
  local dropped = kept and kept - redis.call('XLEN', key .. ':events')
  if dropped and dropped > 0 then
    redis.call('HINCRBY', key, 'eventsDropped', dropped)
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
  local found = redis.call('HMGET', key, 'status', 'member', 'claimable', 'note', 'keptFor')
  local is_task = found[3] == '1'
  if found[1] ~= 'pending' or (is_task and found[5] ~= id) then
    return
  end
  redis.call('HSET', key, 'status', 'read')
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'pending', -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'read', 1)
  if found[4] then
    redis.call('ZREM', prefix .. 'notes:' .. found[2], message)
  end
  if is_task then
    redis.call('HINCRBY', prefix .. 'depths', found[2], -1)
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
