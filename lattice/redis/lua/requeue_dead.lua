-- Sends the work of a dead letter again as a new message that belongs to no run, and drops the letter.
-- KEYS[1] prefix of the team
-- ARGV[1] message id, ARGV[2] id of the new message, ARGV[3] mailbox depth limit
-- Reply: {'requeued', record} | {'missing'} | {'full', member}. A repeat answers 'requeued'.
local prefix = KEYS[1]
local dead = ARGV[1]
local id = ARGV[2]
local max_depth = tonumber(ARGV[3])

-- include: clock

local now = clock()

-- include: deliver
-- include: create

local function fields_of(found)
  local lasting = string.sub(found.conversation, 1, 7) == 'member/'
  local fields = {'id', id, 'from', 'manager', 'workItemId', id, 'upstreamMessageId', id, 'parentMessageId', dead,
    'conversation', lasting and found.conversation or id, 'claimable', '1', 'depth', '1'}
  if lasting then
    fields[#fields + 1] = 'shared'
    fields[#fields + 1] = '1'
  end
  for _, name in ipairs({'to', 'content', 'threadId', 'workItemRole', 'metadata', 'member', 'mode', 'description'}) do
    if found[name] then
      fields[#fields + 1] = name
      fields[#fields + 1] = found[name]
    end
  end
  return fields
end

if redis.call('EXISTS', prefix .. 'message:' .. id) == 1 then
  return {'requeued', redis.call('HGETALL', prefix .. 'message:' .. id)}
end
local flat = redis.call('HGETALL', prefix .. 'message:' .. dead)
local found = {}
for n = 1, #flat, 2 do
  found[flat[n]] = flat[n + 1]
end
if not found.dead or #redis.call('XRANGE', prefix .. 'dead', found.dead, found.dead) == 0 then
  return {'missing'}
end
if tonumber(redis.call('HGET', prefix .. 'depths', found.member) or '0') >= max_depth then
  return {'full', found.member}
end
redis.call('XDEL', prefix .. 'dead', found.dead)
redis.call('HDEL', prefix .. 'message:' .. dead, 'dead')
create(id, found.member, nil, fields_of(found))
redis.call('HINCRBY', prefix .. 'depths', found.member, 1)
deliver(id)
return {'requeued', redis.call('HGETALL', prefix .. 'message:' .. id)}
