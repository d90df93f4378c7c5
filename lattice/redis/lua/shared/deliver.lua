-- deliver(message): into its mailbox, or behind the one that is at work in its conversation; a note to somebody who is
-- at work is kept for him (keep_for_work). signal(process, text): tells a process. Uses: prefix.
local function signal(process, text)
  redis.call('RPUSH', prefix .. 'signals:' .. process, text)
  redis.call('PEXPIRE', prefix .. 'signals:' .. process, 600000)
end

local function at_work(run, member)
  for _, message in ipairs(redis.call('LRANGE', prefix .. 'run:' .. run .. ':messages', 0, -1)) do
    local found = redis.call('HMGET', prefix .. 'message:' .. message, 'member', 'status', 'attempt', 'leftOpen',
      'owner')
    local open = found[2] == 'processing' or found[2] == 'pending'
    if found[1] == member and open and found[3] and not found[4] then
      return message, found[5]
    end
  end
end

local function keep_for(note, item)
  local key = prefix .. 'message:' .. note
  local found = redis.call('HMGET', key, 'member', 'conversation', 'shared', 'entry')
  if found[4] then
    redis.call('XDEL', prefix .. 'mailbox:' .. found[1], found[4])
    redis.call('HDEL', key, 'entry')
  end
  if found[3] == '1' then
    redis.call('LREM', prefix .. 'conversation:' .. found[2] .. ':waiting', 0, note)
  end
  redis.call('HSET', key, 'keptFor', item)
  redis.call('HSET', prefix .. 'message:' .. item, 'hasNotes', '1')
end

local function keep_for_work(note)
  local found = redis.call('HMGET', prefix .. 'message:' .. note, 'runId', 'member', 'attempt', 'note')
  if not found[1] or found[3] then
    return false
  end
  local item, owner = at_work(found[1], found[2])
  if not item then
    return false
  end
  keep_for(note, item)
  if found[4] == 'interrupt' and owner and owner ~= '' then
    signal(owner, 'note:message:' .. item .. ':' .. note)
  end
  return true
end

local function enqueue(message, member)
  local mailbox = prefix .. 'mailbox:' .. member
  local entry = redis.call('XADD', mailbox, '*', 'id', message)
  redis.call('HSET', prefix .. 'message:' .. message, 'entry', entry)
  if redis.call('LLEN', mailbox .. ':doorbell') < 64 then
    redis.call('RPUSH', mailbox .. ':doorbell', '1')
  end
end

local function deliver(message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'member', 'conversation', 'shared', 'note')
  if found[4] and keep_for_work(message) then
    return
  end
  local conversation = prefix .. 'conversation:' .. found[2]
  if found[3] == '1' and not redis.call('SET', conversation .. ':busy', message, 'NX') then
    redis.call('RPUSH', conversation .. ':waiting', message)
  else
    enqueue(message, found[1])
  end
end
