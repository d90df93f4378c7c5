-- end_run(run, status): closes what is open of a run, ends its event stream and sets the expiry of its keys.
-- Uses: prefix, now, retention, close, signal, source_of, event_of.
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
      if found[1] == 'processing' and found[2] and found[2] ~= '' then
        signal(found[2], 'cancel:' .. message)
      end
    end
    forget_message_later(message, found[4], found[5])
  end
  redis.call('XADD', prefix .. key .. ':events', '*', 'event', cjson.encode({type = 'run_ended', status = status}))
  redis.call('ZREM', prefix .. 'leases', key)
  redis.call('HDEL', prefix .. 'nested', run)
  redis.call('ZADD', prefix .. 'retention', now + retention, key)
  forget_message_later('', redis.call('HGET', prefix .. key, 'conversation'), nil)
  for _, part in ipairs({'', ':messages', ':events', ':deltas', ':followers'}) do
    forget_later(key .. part)
  end
end
