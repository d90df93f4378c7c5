-- close(message, status): the end of a message: counts, lease, the next of its conversation, its batch's countdown.
-- Notes that were kept for it and not shown go to somebody else. Uses: prefix, now, retention, deliver, signal.
local function release_notes(member, item)
  for _, note in ipairs(redis.call('ZRANGE', prefix .. 'notes:' .. member, 0, -1)) do
    local key = prefix .. 'message:' .. note
    local found = redis.call('HMGET', key, 'status', 'keptFor')
    if found[2] == item and found[1] == 'pending' then
      redis.call('HDEL', key, 'keptFor')
      deliver(note)
    end
  end
end

local function deliver_next(list)
  local next
  repeat
    next = redis.call('LPOP', list)
  until not next or redis.call('HGET', prefix .. 'message:' .. next, 'status') == 'pending'
  if next then
    deliver(next)
  end
end

local function free_conversation(conversation, message)
  if redis.call('GET', conversation .. ':busy') ~= message then
    redis.call('LREM', conversation .. ':waiting', 0, message)
    return
  end
  redis.call('DEL', conversation .. ':busy')
  deliver_next(conversation .. ':waiting')
end

local function count_down(batch)
  local key = prefix .. 'batch:' .. batch
  local left = redis.call('HINCRBY', key, 'waiting', -1)
  deliver_next(key .. ':held')
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
    'runId', 'hasNotes', 'note')
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
  if found[9] then
    release_notes(found[2], message)
  end
  if found[10] then
    redis.call('ZREM', prefix .. 'notes:' .. found[2], message)
  end
end
