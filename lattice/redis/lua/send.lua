-- Keeps a pending message outside any batch.
-- KEYS[1] prefix of the team
-- ARGV[1] message id, ARGV[2] mailbox key, ARGV[3] '1' if it can be claimed, ARGV[4] run id or '',
-- ARGV[5] mailbox depth limit, ARGV[6] retention in ms, ARGV[7] urgency of a note or '', ARGV[8..] field, value, ...
-- Reply: {'sent' | 'exists', record} | {'full'}. A repeat answers 'exists'.
local prefix = KEYS[1]
local id = ARGV[1]
local member = ARGV[2]
local claimable = ARGV[3]
local run = ARGV[4] ~= '' and ARGV[4]
local max_depth = tonumber(ARGV[5])
local retention = tonumber(ARGV[6])
local urgency = ARGV[7]
local fields = {unpack(ARGV, 8)}

-- include: clock

local now = clock()

-- include: deliver
-- include: create

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
local notes = prefix .. 'notes:' .. member
-- Bounded: of more notes than this, the newest are plain mail.
if urgency ~= '' and redis.call('ZCARD', notes) < 1000 then
  redis.call('HSET', key, 'note', urgency)
  redis.call('ZADD', notes, redis.call('HGET', key, 'sequence'), id)
  redis.call('PEXPIRE', notes, retention)
end
if claimable == '1' then
  redis.call('HINCRBY', prefix .. 'depths', member, 1)
  deliver(id)
elseif not live then
  redis.call('ZADD', prefix .. 'retention', now + retention, 'message:' .. id)
elseif urgency == 'interrupt' then
  local lead = redis.call('HGET', prefix .. 'run:' .. run, 'owner')
  if lead and lead ~= '' then
    signal(lead, 'note:run:' .. run .. ':' .. id)
  end
end
return {'sent', redis.call('HGETALL', key)}
