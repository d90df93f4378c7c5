-- Keeps a pending message outside any batch.
-- KEYS[1] prefix of the team
-- ARGV[1] message id, ARGV[2] mailbox key, ARGV[3] '1' if it can be claimed, ARGV[4] run id or '',
-- ARGV[5] mailbox depth limit, ARGV[6] retention in ms, ARGV[7] '1' if it is a note, ARGV[8..] field, value, ...
-- Reply: {'sent' | 'exists', record} | {'full'}. A repeat answers 'exists'.
local prefix = KEYS[1]
local id = ARGV[1]
local member = ARGV[2]
local claimable = ARGV[3]
local run = ARGV[4] ~= '' and ARGV[4]
local max_depth = tonumber(ARGV[5])
local retention = tonumber(ARGV[6])
local note = ARGV[7] == '1'
local fields = {unpack(ARGV, 8)}

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

local key = prefix .. 'message:' .. id
if redis.call('EXISTS', key) == 1 then
  return {'exists', redis.call('HGETALL', key)}
end
if claimable == '1' and tonumber(redis.call('HGET', prefix .. 'depths', member) or '0') >= max_depth then
  return {'full'}
end
local status = run and redis.call('HGET', prefix .. 'run:' .. run, 'status')
local live = status and status ~= 'succeeded' and status ~= 'failed' and status ~= 'cancelled'
create(id, member, live and run, fields)
if note then
  -- Bounded: of more notes than this, the oldest are read as mail only.
  local notes = prefix .. 'notes:' .. member
  redis.call('ZADD', notes, redis.call('HGET', key, 'sequence'), id)
  redis.call('ZREMRANGEBYRANK', notes, 0, -1001)
  redis.call('PEXPIRE', notes, retention)
end
if claimable == '1' then
  redis.call('HINCRBY', prefix .. 'depths', member, 1)
  deliver(id)
elseif not live then
  redis.call('ZADD', prefix .. 'retention', now + retention, 'message:' .. id)
end
return {'sent', redis.call('HGETALL', key)}
