-- Accepts a batch: sends its messages, keeps their order and the count to wait for, writes the step.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] lease id, ARGV[3] owner, ARGV[4] token, ARGV[5] batch id, ARGV[6] '1' if it pauses,
-- ARGV[7] items at once or '', ARGV[8] mailbox depth limit, ARGV[9] number of items n,
-- then n times: message id, member, run id or '', number of fields, field, value, ...; then the step
-- Reply: {'accepted' | 'exists', record, ...} | {'stale'} | {'full', member} | {'circle', member}: the work would wait
-- in line for a conversation that waits, through however many others, for the work itself. A repeat answers 'exists'.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local batch = ARGV[5]
local pauses = ARGV[6]
local at_once = tonumber(ARGV[7])
local max_depth = tonumber(ARGV[8])
local count = tonumber(ARGV[9])

-- include: clock

local now = clock()

-- include: fence
-- include: step
-- include: deliver
-- include: create

local function read_items(at)
  local items = {}
  for n = 1, count do
    local length = tonumber(ARGV[at + 3])
    items[n] = {id = ARGV[at], member = ARGV[at + 1], run = ARGV[at + 2] ~= '' and ARGV[at + 2],
      fields = {unpack(ARGV, at + 4, at + 3 + length)}}
    at = at + 4 + length
  end
  return items, at
end

local function full_mailbox(items)
  local more = {}
  for _, item in ipairs(items) do
    more[item.member] = (more[item.member] or 0) + 1
  end
  for member, added in pairs(more) do
    if tonumber(redis.call('HGET', prefix .. 'depths', member) or '0') + added > max_depth then
      return member
    end
  end
end

local function field(item, name)
  for n = 1, #item.fields, 2 do
    if item.fields[n] == name then
      return item.fields[n + 1]
    end
  end
end

local function waits_for_itself(item)
  local conversation = prefix .. 'conversation:'
  local wanted = field(item, 'conversation')
  if field(item, 'shared') ~= '1' or redis.call('EXISTS', conversation .. wanted .. ':busy') == 0 then
    return false
  end
  local blocked = cjson.decode(field(item, 'chain') or '[]')
  local seen = {}
  local at = 1
  while at <= #blocked and at <= 10000 do
    local name = blocked[at]
    if name == wanted then
      return true
    end
    local line = seen[name] and {} or redis.call('LRANGE', conversation .. name .. ':waiting', 0, -1)
    seen[name] = true
    for _, waiting in ipairs(line) do
      for _, other in ipairs(cjson.decode(redis.call('HGET', prefix .. 'message:' .. waiting, 'chain') or '[]')) do
        blocked[#blocked + 1] = other
      end
    end
    at = at + 1
  end
  return false
end

local function records(word, ids)
  local reply = {word}
  for _, message in ipairs(ids) do
    reply[#reply + 1] = redis.call('HGETALL', prefix .. 'message:' .. message)
  end
  return reply
end

local current, run = fence()
if not current then
  return {'stale'}
end
local key = prefix .. 'batch:' .. batch
local known = redis.call('HGET', key, 'items')
if known then
  return records('exists', cjson.decode(known))
end
local items, step_at = read_items(10)
local full = full_mailbox(items)
if full then
  return {'full', full}
end
for _, item in ipairs(items) do
  if waits_for_itself(item) then
    return {'circle', item.member}
  end
end
if kind == 'run' and pauses == '1' and redis.call('HGET', prefix .. 'run:' .. id, 'interrupted') == '1' then
  at_once = 0  -- nobody may begin what is cancelled as soon as it was accepted
end
local ids = {}
for n, item in ipairs(items) do
  ids[n] = item.id
  create(item.id, item.member, item.run, item.fields)
  redis.call('HINCRBY', prefix .. 'depths', item.member, 1)
  if at_once and n > at_once then
    redis.call('RPUSH', key .. ':held', item.id)
  else
    deliver(item.id)
  end
end
redis.call('HSET', key, 'parent', kind .. ':' .. id, 'waiting', count, 'pauses', pauses, 'items', cjson.encode(ids))
if pauses == '1' and kind == 'run' then
  redis.call('HSET', prefix .. 'run:' .. id, 'status', 'waiting', 'batch', batch)
  redis.call('HINCRBY', prefix .. 'run:' .. id, 'round', 1)
elseif pauses == '1' then
  redis.call('HSET', prefix .. 'message:' .. id, 'pausedOn', batch)
end
write_step(step_at, run)
return records('accepted', ids)
