-- Ends a work item: step, state, report, countdown of its batch, the conversation's next message, perhaps a next claim.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] message id, ARGV[3] owner, ARGV[4] token, ARGV[5] status, ARGV[6] '1' if it is reported,
-- ARGV[7] report id, ARGV[8] report, ARGV[9] its metadata as JSON or '', ARGV[10] retention in ms,
-- ARGV[11] member to claim from or '', ARGV[12] lease of that claim in ms, ARGV[13] nonce of this call,
-- ARGV[14] the step
-- Reply: {'settled'} | {'settled', {record, conversation has entries, reports delivered, deadline, id}} | {'stale'}
--        | {'missing'}. A repeat by the holder that settled it answers the same, with the same claim.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local status = ARGV[5]
local reported = ARGV[6]
local report_id = ARGV[7]
local content = ARGV[8]
local metadata = ARGV[9]
local retention = tonumber(ARGV[10])
local next_member = ARGV[11]
local next_lease = tonumber(ARGV[12])
local nonce = ARGV[13]
local step_at = 14

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
-- shared: close
local function signal(process, text)
  redis.call('RPUSH', prefix .. 'signals:' .. process, text)
  redis.call('PEXPIRE', prefix .. 'signals:' .. process, 600000)
end

local function free_conversation(conversation, message)
  if redis.call('GET', conversation .. ':busy') ~= message then
    redis.call('LREM', conversation .. ':waiting', 0, message)
    return
  end
  redis.call('DEL', conversation .. ':busy')
  local next
  repeat
    next = redis.call('LPOP', conversation .. ':waiting')
  until not next or redis.call('HGET', prefix .. 'message:' .. next, 'status') == 'pending'
  if next then
    deliver(next)
  end
end

local function count_down(batch)
  local key = prefix .. 'batch:' .. batch
  local left = redis.call('HINCRBY', key, 'waiting', -1)
  local next
  repeat
    next = redis.call('LPOP', key .. ':held')
  until not next or redis.call('HGET', prefix .. 'message:' .. next, 'status') == 'pending'
  if next then
    deliver(next)
  end
  if left == 0 then
    local parent = redis.call('HGET', key, 'parent')
    local waiter = redis.call('HGET', prefix .. parent, 'owner')
    if waiter and waiter ~= '' then
      signal(waiter, 'batch:' .. batch)
    end
  end
end

local function close(message, status)
  local key = prefix .. 'message:' .. message
  local found = redis.call('HMGET', key, 'status', 'member', 'claimable', 'entry', 'conversation', 'shared', 'batch',
    'runId')
  redis.call('HSET', key, 'status', status)
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], found[1], -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], status, 1)
  if not found[8] or redis.call('EXISTS', prefix .. 'run:' .. found[8]) == 0 then
    redis.call('ZADD', prefix .. 'retention', now + retention, 'message:' .. message)
  end
  if found[3] ~= '1' then
    return
  end
  redis.call('ZREM', prefix .. 'leases', 'message:' .. message)
  if found[4] then
    redis.call('XDEL', prefix .. 'mailbox:' .. found[2], found[4])
  end
  redis.call('HINCRBY', prefix .. 'depths', found[2], -1)
  if found[6] == '1' then
    free_conversation(prefix .. 'conversation:' .. found[5], message)
  end
  if found[7] then
    count_down(found[7])
  end
end
-- end shared
-- shared: report
local function report(message, report_id, content, metadata)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'from', 'to', 'threadId', 'workItemId',
    'upstreamMessageId', 'parentWorkItemId', 'runId')
  redis.call('HSET', prefix .. 'message:' .. message, 'report', report_id)
  if redis.call('EXISTS', prefix .. 'message:' .. report_id) == 1 then
    return
  end
  local member = string.match(found[1], '^.*::(.+)$') or found[1]
  local fields = {'id', report_id, 'from', found[2], 'to', found[1], 'content', content, 'threadId', found[3],
    'parentMessageId', message, 'workItemId', found[4], 'workItemRole', 'upstream_report', 'upstreamMessageId',
    found[5] or message, 'member', member}
  local optional = {parentWorkItemId = found[6], runId = found[7], metadata = metadata ~= '' and metadata}
  for name, value in pairs(optional) do
    if value then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  local run = found[7] and redis.call('EXISTS', prefix .. 'run:' .. found[7]) == 1 and found[7]
  create(report_id, member, run, fields)
  if not run then
    redis.call('ZADD', prefix .. 'retention', now + retention, 'message:' .. report_id)
  end
end
-- end shared
-- shared: lease
local function describe(message, deadline)
  local key = prefix .. 'message:' .. message
  local record = redis.call('HGETALL', key)
  local found = redis.call('HMGET', key, 'conversation', 'pausedOn')
  local conversation = prefix .. 'conversation:' .. found[1]
  local delivered = not found[2] or redis.call('SISMEMBER', conversation .. ':entered', found[2]) == 1
  return {record, redis.call('EXISTS', conversation), delivered and 1 or 0, deadline, message}
end

local function lease(message, member, owner, lease_ms, nonce)
  local key = prefix .. 'message:' .. message
  redis.call('HINCRBY', key, 'attempt', 1)
  redis.call('HSET', key, 'status', 'processing', 'owner', owner, 'claim', nonce, 'claimedAt', now)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'processing', 1)
  local deadline = now + lease_ms
  if lease_ms > 0 then
    redis.call('ZADD', prefix .. 'leases', deadline, 'message:' .. message)
  end
  return describe(message, deadline)
end
-- end shared
-- shared: next
local function read_entry(mailbox)
  local read = {'XREADGROUP', 'GROUP', 'workers', 'worker', 'COUNT', 1, 'NOACK', 'STREAMS', mailbox, '>'}
  local reply = redis.pcall(unpack(read))
  if reply and reply.err and redis.call('EXISTS', mailbox) == 0 then
    return nil
  end
  if reply and reply.err and string.find(tostring(reply.err), 'NOGROUP', 1, true) then
    redis.call('XGROUP', 'CREATE', mailbox, 'workers', '0')
    reply = redis.call(unpack(read))
  end
  if reply and reply.err then
    error(tostring(reply.err))
  end
  return reply and reply[1] and reply[1][2][1]
end

local function next_message(member, owner, lease_ms, nonce)
  local mailbox = prefix .. 'mailbox:' .. member
  for _ = 1, 1000 do
    local message = redis.call('LPOP', mailbox .. ':returned')
    if not message then
      local entry = read_entry(mailbox)
      if not entry then
        redis.call('DEL', mailbox .. ':doorbell')
        return nil
      end
      message = entry[2][2]
    end
    if redis.call('HGET', prefix .. 'message:' .. message, 'status') == 'pending' then
      return lease(message, member, owner, lease_ms, nonce)
    end
  end
  return nil
end
-- end shared

local key = prefix .. 'message:' .. id

local function settled_before()
  local found = redis.call('HMGET', key, 'settledBy', 'handed', 'status')
  if not found[3] then
    return {'missing'}
  end
  if found[1] ~= owner .. ':' .. token then
    return {'stale'}
  end
  local handed = found[2] and redis.call('HMGET', prefix .. 'message:' .. found[2], 'status', 'claim')
  if handed and handed[1] == 'processing' and handed[2] == nonce then
    return {'settled', describe(found[2], now + next_lease)}
  end
  return {'settled'}
end

local current, run = fence()
if not current then
  return settled_before()
end
write_step(step_at, run)
redis.call('DEL', prefix .. 'journal:' .. redis.call('HGET', key, 'conversation'))
if reported == '1' then
  report(id, report_id, content, metadata)
end
close(id, status)
redis.call('HSET', key, 'settledBy', owner .. ':' .. token, 'settledAt', now)
local claim = next_member ~= '' and next_message(next_member, owner, next_lease, nonce)
if not claim then
  return {'settled'}
end
redis.call('HSET', key, 'handed', claim[5])
return {'settled', claim}
