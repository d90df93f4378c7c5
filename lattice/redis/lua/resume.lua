-- Takes the reports of a batch, in the order of its items; a paused run is running afterwards.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] lease id, ARGV[3] owner, ARGV[4] token, ARGV[5] batch id
-- Reply: {'complete', record of the report (or of the item that has none), ...} | {'waiting'} | {'stale'}
-- A repeat gets the same reports.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local batch = ARGV[5]

-- include: fence

local found = redis.call('HMGET', prefix .. 'batch:' .. batch, 'waiting', 'pauses', 'items', 'parent')
if not fence() or found[4] ~= kind .. ':' .. id then
  return {'stale'}
end
if tonumber(found[1]) > 0 then
  return {'waiting'}
end
if found[2] == '1' and kind == 'run' then
  redis.call('HSET', prefix .. 'run:' .. id, 'status', 'running')
end
local reply = {'complete'}
for _, message in ipairs(cjson.decode(found[3])) do
  local report = redis.call('HGET', prefix .. 'message:' .. message, 'report') or message
  reply[#reply + 1] = redis.call('HGETALL', prefix .. 'message:' .. report)
end
return reply
