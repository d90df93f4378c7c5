-- Frees messages whose lease ran out: pending again at the head, or (out of attempts) failed, reported, told
-- in the events of its run, a dead letter.
-- Runs whose lease ran out are reserved for whoever asks.
-- KEYS[1] prefix of the team
-- ARGV[1] who asks, ARGV[2] ms that a run is reserved, ARGV[3] how many at most, ARGV[4] '1' to look at runs too,
-- ARGV[5] attempts, ARGV[6] retention in ms, ARGV[7] dead letters kept, ARGV[8] events kept of a run
-- Reply: {{kind, id, 'returned' | 'dead' | 'run', attempt}, ...}. A repeat finds what is left; a run named in a lost
-- reply is named again when its reservation runs out.
local prefix = KEYS[1]
local asker = ARGV[1]
local reserve_ms = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local with_runs = ARGV[4] == '1'
local max_attempts = tonumber(ARGV[5])
local retention = tonumber(ARGV[6])
local max_dead = tonumber(ARGV[7])
local max_events = tonumber(ARGV[8])

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

local function give_back(id, member)
  local key = prefix .. 'message:' .. id
  local mailbox = prefix .. 'mailbox:' .. member
  redis.call('HSET', key, 'status', 'pending', 'owner', '')
  redis.call('ZREM', prefix .. 'leases', 'message:' .. id)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'processing', -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', 1)
  redis.call('RPUSH', mailbox .. ':returned', id)
  if redis.call('LLEN', mailbox .. ':doorbell') < 64 then
    redis.call('RPUSH', mailbox .. ':doorbell', '1')
  end
end

local function tell_failure(id, failure)
  local found = redis.call('HMGET', prefix .. 'message:' .. id, 'runId', 'from', 'to')
  local key = prefix .. 'run:' .. (found[1] or '')
  local status = redis.call('HGET', key, 'status')
  if status ~= 'running' and status ~= 'waiting' and status ~= 'queued' then
    return
  end
  local source = source_of(id)
  for _, event in ipairs({event_of('failed', source, found[3], id, failure),
    event_of('replied', source, found[2], id .. '-report', failure)}) do
    redis.call('XADD', key .. ':events', 'MAXLEN', '~', max_events, '*', 'event', event)
  end
end

local function bury(id, member, attempt, owner)
  local reason = 'its worker was lost ' .. attempt .. ' times; the last one was ' .. (owner or 'unknown')
  local failure = {code = 'worker_lost', message = reason, name = 'WorkerLostError'}
  report(id, id .. '-report', reason, cjson.encode({status = 'failed', error = failure}))
  redis.call('HSET', prefix .. 'message:' .. id, 'error', cjson.encode(failure))
  close(id, 'failed')
  tell_failure(id, failure)
  local letter = redis.call('XADD', prefix .. 'dead', 'MAXLEN', '~', max_dead, '*', 'id', id, 'member', member,
    'attempt', attempt, 'reason', reason)
  redis.call('HSET', prefix .. 'message:' .. id, 'dead', letter)
end

local function reclaim_message(id)
  local found = redis.call('HMGET', prefix .. 'message:' .. id, 'status', 'member', 'attempt', 'handedBack', 'owner')
  if found[1] ~= 'processing' then
    redis.call('ZREM', prefix .. 'leases', 'message:' .. id)
    return nil
  end
  if tonumber(found[3]) - tonumber(found[4] or '0') < max_attempts then
    give_back(id, found[2])
    return {'message', id, 'returned', tonumber(found[3])}
  end
  bury(id, found[2], found[3], found[5])
  return {'message', id, 'dead', tonumber(found[3])}
end

local function reclaim_run(id)
  local status = redis.call('HGET', prefix .. 'run:' .. id, 'status')
  if status ~= 'running' and status ~= 'waiting' then
    redis.call('ZREM', prefix .. 'leases', 'run:' .. id)
    return nil
  end
  redis.call('HSET', prefix .. 'run:' .. id, 'owner', '', 'reservedFor', asker)
  redis.call('ZADD', prefix .. 'leases', now + reserve_ms, 'run:' .. id)
  return {'run', id, 'run', 0}
end

local function reclaim(name)
  local kind, id = string.match(name, '^(%a+):(.*)$')
  if kind == 'message' then
    return reclaim_message(id)
  end
  return reclaim_run(id)
end

local reply = {}
local passed_over = 0
while #reply < limit do
  local names = redis.call('ZRANGEBYSCORE', prefix .. 'leases', '-inf', now, 'LIMIT', passed_over, limit - #reply)
  if #names == 0 then
    break
  end
  for _, name in ipairs(names) do
    if with_runs or string.sub(name, 1, 4) ~= 'run:' then
      reply[#reply + 1] = reclaim(name)
    else
      passed_over = passed_over + 1
    end
  end
end
return reply
