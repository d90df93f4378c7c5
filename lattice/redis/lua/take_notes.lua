-- Takes the pending notes of a mailbox for one run: they are read, and nobody claims them as tasks.
-- KEYS[1] prefix of the team
-- ARGV[1] mailbox key, ARGV[2] run id or '', ARGV[3] how many at most, ARGV[4] retention in ms
-- Reply: {record, ...} in send order. A repeat after a lost reply does not find what the lost call took.
local prefix = KEYS[1]
local member = ARGV[1]
local run = ARGV[2]
local count = tonumber(ARGV[3])
local retention = tonumber(ARGV[4])

-- include: clock

local now = clock()

-- include: deliver
-- include: close

local notes = prefix .. 'notes:' .. member
local taken = {}
for _, id in ipairs(redis.call('ZRANGE', notes, 0, 999)) do
  local key = prefix .. 'message:' .. id
  local found = redis.call('HMGET', key, 'status', 'runId')
  if found[1] ~= 'pending' then
    redis.call('ZREM', notes, id)
  elseif (not found[2] or found[2] == run) and #taken < count then
    redis.call('ZREM', notes, id)
    close(id, 'read')
    taken[#taken + 1] = redis.call('HGETALL', key)
  end
end
return taken
