-- Cancels a run: its open messages end, whoever holds a lease on it or on them is told and fenced off.
-- KEYS[1] prefix of the team
-- ARGV[1] run id, ARGV[2] error as JSON, ARGV[3] retention in ms
-- Reply: 'cancelled' | 'ended' (a repeat gets this) | 'missing'
local prefix = KEYS[1]
local run = ARGV[1]
local failure = ARGV[2]
local retention = tonumber(ARGV[3])

-- shared: clock
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- end shared

local now = clock()

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
-- shared: tell
local WIRE = {'id', 'from', 'to', 'content', 'status', 'createdAt', 'threadId', 'parentMessageId', 'workItemId',
  'workItemRole', 'upstreamMessageId', 'parentWorkItemId', 'runId', 'metadata'}
local IS_JSON = {createdAt = true, metadata = true}

local function wire_form(message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, unpack(WIRE))
  local parts = {}
  for n, name in ipairs(WIRE) do
    if found[n] then
      parts[#parts + 1] = '"' .. name .. '":' .. (IS_JSON[name] and found[n] or cjson.encode(found[n]))
    end
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

local function source_of(message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'member', 'to')
  local name = found[1]
  if string.sub(name, 1, 9) == 'delegate.' then
    name = string.match(found[2], '^.*::(.+)$') or found[2]
  end
  return cjson.encode({kind = 'team_member', name = name, team = string.match(prefix, '{(.*)}'), member = name,
    mailbox = found[2]})
end

local function event_of(subtype, source, mailbox, message, failure)
  local event = '{"type":"team_message","subtype":"' .. subtype .. '","source":' .. source .. ',"mailbox":' ..
    cjson.encode(mailbox) .. ',"message":' .. wire_form(message)
  return event .. (failure and ',"error":' .. cjson.encode(failure) or '') .. '}'
end
-- end shared
-- shared: end_run
local function forget_later(key)
  redis.call('PEXPIRE', prefix .. key, retention + 3600000)
end

local function forget_message_later(message, conversation, batch)
  forget_later('message:' .. message)
  if conversation and string.sub(conversation, 1, 7) ~= 'member/' then
    for _, part in ipairs({'', ':entered', ':waiting', ':busy'}) do
      forget_later('conversation:' .. conversation .. part)
    end
    forget_later('journal:' .. conversation)
  end
  if batch then
    forget_later('batch:' .. batch)
    forget_later('batch:' .. batch .. ':held')
  end
end

local function end_run(run, status)
  local key = 'run:' .. run
  local messages = redis.call('LRANGE', prefix .. key .. ':messages', 0, -1)
  for _, message in ipairs(messages) do
    local found = redis.call('HMGET', prefix .. 'message:' .. message, 'status', 'owner', 'claimable', 'conversation',
      'batch')
    if found[3] == '1' and (found[1] == 'pending' or found[1] == 'processing') then
      close(message, 'cancelled')
      if found[5] then
        local mailbox = redis.call('HGET', prefix .. 'message:' .. message, 'to')
        redis.call('XADD', prefix .. key .. ':events', '*', 'event',
          event_of('cancelled', source_of(message), mailbox, message))
      end
      if found[1] == 'processing' and found[2] then
        signal(found[2], 'cancel:' .. message)
      end
    end
    forget_message_later(message, found[4], found[5])
  end
  redis.call('XADD', prefix .. key .. ':events', '*', 'event', cjson.encode({type = 'run_ended', status = status}))
  redis.call('ZREM', prefix .. 'leases', key)
  redis.call('ZADD', prefix .. 'retention', now + retention, key)
  forget_message_later('', redis.call('HGET', prefix .. key, 'conversation'), nil)
  for _, part in ipairs({'', ':messages', ':events', ':deltas', ':followers'}) do
    forget_later(key .. part)
  end
end
-- end shared

local key = prefix .. 'run:' .. run
local found = redis.call('HMGET', key, 'status', 'owner')
if not found[1] then
  return 'missing'
end
if found[1] == 'succeeded' or found[1] == 'failed' or found[1] == 'cancelled' then
  return 'ended'
end
redis.call('HSET', key, 'status', 'cancelled', 'error', failure, 'finishedAt', now)
end_run(run, 'cancelled')
if found[2] and found[2] ~= '' then
  signal(found[2], 'cancel:run:' .. run)
end
return 'cancelled'
