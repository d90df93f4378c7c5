-- Moves a message along the allowed moves: pending to anything, processing to a terminal state. With work that is
-- cancelled goes what was asked or handed off for it; each is told of in the events of the run.
-- KEYS[1] prefix of the team
-- ARGV[1] message id, ARGV[2] status, ARGV[3] retention in ms
-- Reply: 'moved' | 'missing' | 'refused'. A repeat of a move that was made is refused.
local prefix = KEYS[1]
local id = ARGV[1]
local status = ARGV[2]
local retention = tonumber(ARGV[3])

-- include: clock

local now = clock()

-- include: deliver
-- include: close
-- include: tell

local function tell_cancelled(message, run)
  local status = redis.call('HGET', prefix .. 'run:' .. run, 'status')
  if status == 'running' or status == 'waiting' or status == 'queued' then
    local mailbox = redis.call('HGET', prefix .. 'message:' .. message, 'to')
    redis.call('XADD', prefix .. 'run:' .. run .. ':events', '*', 'event',
      event_of('cancelled', source_of(message), mailbox, message))
  end
end

local function work_for(parent, run)
  local found = {}
  for _, message in ipairs(redis.call('LRANGE', prefix .. 'run:' .. run .. ':messages', 0, -1)) do
    local fields = redis.call('HMGET', prefix .. 'message:' .. message, 'status', 'batch')
    local open = fields[1] == 'pending' or fields[1] == 'processing'
    if open and fields[2] and redis.call('HGET', prefix .. 'batch:' .. fields[2], 'parent') == 'message:' .. parent then
      found[#found + 1] = message
    end
  end
  return found
end

local function finish(message, new_status)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'status', 'owner', 'batch', 'runId')
  close(message, new_status)
  if found[1] == 'processing' and found[2] and found[2] ~= '' then
    signal(found[2], 'cancel:' .. message)
  end
  if new_status ~= 'cancelled' or not found[3] or not found[4] then
    return
  end
  tell_cancelled(message, found[4])
  for _, child in ipairs(work_for(message, found[4])) do
    finish(child, new_status)
  end
end

local key = prefix .. 'message:' .. id
local found = redis.call('HMGET', key, 'status', 'member')
if not found[1] then
  return 'missing'
end
local open = found[1] == 'pending' or found[1] == 'processing'
if not open or status == 'pending' or status == found[1] then
  return 'refused'
end
if status == 'processing' then
  redis.call('HSET', key, 'status', status)
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'pending', -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. found[2], 'processing', 1)
  return 'moved'
end
finish(id, status)
return 'moved'
