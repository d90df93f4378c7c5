-- Says how many tasks and how much mail wait in a mailbox, and for how long the first in line has waited.
-- KEYS[1] prefix of the team
-- ARGV[1] member
-- Reply: {how many wait, ms since the first in line was sent}
local prefix = KEYS[1]
local member = ARGV[1]

-- include: clock

local function sent_at(message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'status', 'createdAt')
  return found[1] == 'pending' and tonumber(found[2]) or nil
end

local function first_in_line()
  local mailbox = prefix .. 'mailbox:' .. member
  local returned = redis.call('LINDEX', mailbox .. ':returned', 0)
  if returned then
    return sent_at(returned)
  end
  -- Entries leave the stream when they are settled: before the first that waits stand only those that are worked on.
  for _, entry in ipairs(redis.call('XRANGE', mailbox, '-', '+', 'COUNT', 1000)) do
    local at = sent_at(entry[2][2])
    if at then
      return at
    end
  end
end

local unfinished = tonumber(redis.call('HGET', prefix .. 'depths', member) or 0)
local at_work = tonumber(redis.call('HGET', prefix .. 'counts:' .. member, 'processing') or 0)
local waiting = math.max(unfinished - at_work, 0)
local since = waiting > 0 and first_in_line()
return {waiting, since and math.max(clock() - since, 0) or 0}
