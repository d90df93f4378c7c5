-- Makes messages claimable whose time has come; those that ended meanwhile are only taken off the list.
-- KEYS[1] prefix of the team
-- ARGV[1] how many at most
-- Reply: ms until the next one is due, -1 if there is none. A repeat finds what is left.
local prefix = KEYS[1]
local limit = tonumber(ARGV[1])

-- include: clock

local now = clock()
local delayed = prefix .. 'delayed'
for _, message in ipairs(redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, limit)) do
  redis.call('ZREM', delayed, message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'status', 'member')
  if found[1] == 'pending' then
    local mailbox = prefix .. 'mailbox:' .. found[2]
    redis.call('RPUSH', mailbox .. ':returned', message)
    if redis.call('LLEN', mailbox .. ':doorbell') < 64 then
      redis.call('RPUSH', mailbox .. ':doorbell', '1')
    end
  end
end
local next = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
if not next[2] then
  return -1
end
return math.max(0, tonumber(next[2]) - now)
