-- Takes the pending notes of a mailbox for one run: they are read, and nobody claims them as tasks.
-- KEYS[1] prefix of the team
-- ARGV[1] mailbox key, ARGV[2] run id or '', ARGV[3] how many at most, ARGV[4] retention in ms
-- Reply: {record, ...} in send order. A repeat after a lost reply does not find what the lost call took.
local prefix = KEYS[1]
local member = ARGV[1]
local run = ARGV[2]
local count = tonumber(ARGV[3])
local retention = tonumber(ARGV[4])

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

local notes = prefix .. 'notes:' .. member
local taken = {}
for _, id in ipairs(redis.call('ZRANGE', notes, 0, 999)) do
  local key = prefix .. 'message:' .. id
  local found = redis.call('HMGET', key, 'status', 'runId')
  if found[1] ~= 'pending' then
    redis.call('ZREM', notes, id)
  elseif (not found[2] or found[2] == run) and #taken < count then
    redis.call('ZREM', notes, id)
    close(id, 'read')
    taken[#taken + 1] = redis.call('HGETALL', key)
  end
end
return taken
