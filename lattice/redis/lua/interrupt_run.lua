-- Interrupts a run: its lead is not called again, work that nobody has begun is cancelled, what is under way goes on.
-- KEYS[1] prefix of the team
-- ARGV[1] run id, ARGV[2] retention in ms
-- Reply: 'interrupted' (a repeat too; it cancels what was queued since) | 'ended' | 'missing'
local prefix = KEYS[1]
local run = ARGV[1]
local retention = tonumber(ARGV[2])

-- include: clock

local now = clock()

-- include: deliver
-- include: close
-- include: tell

local key = prefix .. 'run:' .. run
local found = redis.call('HMGET', key, 'status', 'owner')
if not found[1] then
  return 'missing'
end
if found[1] == 'succeeded' or found[1] == 'failed' or found[1] == 'cancelled' then
  return 'ended'
end
for _, message in ipairs(redis.call('LRANGE', key .. ':messages', 0, -1)) do
  local work = redis.call('HMGET', prefix .. 'message:' .. message, 'status', 'attempt', 'batch', 'to')
  if work[1] == 'pending' and work[3] and not work[2] then
    close(message, 'cancelled')
    redis.call('XADD', key .. ':events', '*', 'event', event_of('cancelled', source_of(message), work[4], message))
  end
end
local is_new = redis.call('HSET', key, 'interrupted', '1') == 1
if is_new and found[2] and found[2] ~= '' then
  signal(found[2], 'interrupt:' .. run)
end
return 'interrupted'
