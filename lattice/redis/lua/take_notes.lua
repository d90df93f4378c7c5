-- Takes the pending notes of a mailbox for whoever holds a lease: they are kept for that work until it writes them into
-- its conversation (then they are read), or ends without (then somebody else gets them).
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] lease id, ARGV[3] owner, ARGV[4] token, ARGV[5] mailbox key, ARGV[6] how many at most,
-- ARGV[7] retention in ms
-- Reply: {record, ...} in send order; nothing if the lease is lost. A repeat gets the same notes.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local member = ARGV[5]
local count = tonumber(ARGV[6])
local retention = tonumber(ARGV[7])

-- include: clock

local now = clock()

-- include: fence
-- include: deliver

local current, run = fence()
if not current then
  return {}
end
local notes = prefix .. 'notes:' .. member
local taken = {}
for _, note in ipairs(redis.call('ZRANGE', notes, 0, 999)) do
  local key = prefix .. 'message:' .. note
  local found = redis.call('HMGET', key, 'status', 'runId', 'keptFor', 'attempt', 'claimable')
  if found[1] ~= 'pending' or found[4] then
    redis.call('ZREM', notes, note)
  elseif (not found[2] or found[2] == run) and (not found[3] or found[3] == id) and #taken < count then
    if found[5] == '1' then
      keep_for(note, id)
    end
    if not found[2] then
      redis.call('ZADD', prefix .. 'retention', now + retention, 'message:' .. note)
    end
    taken[#taken + 1] = redis.call('HGETALL', key)
  end
end
return taken
