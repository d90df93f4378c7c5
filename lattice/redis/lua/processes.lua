-- Names the live processes.
-- KEYS[1] prefix of the team
-- Reply: {what a process is, as JSON, when it was last seen, ...}. Reads only.
local prefix = KEYS[1]

-- include: clock

local reply = {}
for _, process in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'processes', clock(), '+inf')) do
  local found = redis.call('HMGET', prefix .. 'processes:info', process, process .. ':seenAt')
  if found[1] then
    reply[#reply + 1] = found[1]
    reply[#reply + 1] = found[2]
  end
end
return reply
