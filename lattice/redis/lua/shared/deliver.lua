-- deliver(message): into its mailbox, or behind the one that is at work in its conversation. Uses: prefix.
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
