-- next_message(member, owner, lease in ms, nonce): leases the first claimable message, or nil. Notes to
-- somebody who is at work are kept for him. Uses: prefix, lease, keep_for_work.
local function read_entry(mailbox)
  local read = {'XREADGROUP', 'GROUP', 'workers', 'worker', 'COUNT', 1, 'NOACK', 'STREAMS', mailbox, '>'}
  local reply = redis.pcall(unpack(read))
  if reply and reply.err and redis.call('EXISTS', mailbox) == 0 then
    return nil
  end
  if reply and reply.err and string.find(tostring(reply.err), 'NOGROUP', 1, true) then
    redis.call('XGROUP', 'CREATE', mailbox, 'workers', '0')
    reply = redis.call(unpack(read))
  end
  if reply and reply.err then
    error(tostring(reply.err))
  end
  return reply and reply[1] and reply[1][2][1]
end

local function next_message(member, owner, lease_ms, nonce)
  local mailbox = prefix .. 'mailbox:' .. member
  for _ = 1, 1000 do
    local message = redis.call('LPOP', mailbox .. ':returned')
    if not message then
      local entry = read_entry(mailbox)
      if not entry then
        redis.call('DEL', mailbox .. ':doorbell')
        return nil
      end
      message = entry[2][2]
    end
    local found = redis.call('HMGET', prefix .. 'message:' .. message, 'status', 'note')
    if found[1] == 'pending' and not (found[2] and keep_for_work(message)) then
      if found[2] then
        redis.call('ZREM', prefix .. 'notes:' .. member, message)
      end
      return lease(message, member, owner, lease_ms, nonce)
    end
  end
  return nil
end
