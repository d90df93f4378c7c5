-- Removes runs and messages whose retention is over, with all that belongs to them; a large run over several calls.
-- KEYS[1] prefix of the team
-- ARGV[1] how many runs or messages at most, ARGV[2] how many messages of runs at most
-- Reply: number removed. A repeat removes what is left.
local prefix = KEYS[1]
local limit = tonumber(ARGV[1])
local budget = tonumber(ARGV[2])

-- include: clock

local function forget_conversation(conversation, message)
  local key = prefix .. 'conversation:' .. conversation
  if string.sub(conversation, 1, 7) == 'member/' then
    redis.call('SREM', key .. ':entered', message)
    return
  end
  redis.call('DEL', key, key .. ':entered', key .. ':waiting', key .. ':busy', prefix .. 'journal:' .. conversation)
end

local function forget_message(message)
  local key = prefix .. 'message:' .. message
  local found = redis.call('HMGET', key, 'member', 'status', 'conversation', 'batch', 'entry', 'dead', 'leftOpen')
  if found[1] then
    if found[7] and found[2] == 'processing' then
      redis.call('HINCRBY', prefix .. 'depths', found[1], -1)
    end
    redis.call('ZREM', prefix .. 'index:' .. found[1], message)
    redis.call('HINCRBY', prefix .. 'counts:' .. found[1], found[2], -1)
    if found[5] then
      redis.call('XDEL', prefix .. 'mailbox:' .. found[1], found[5])
    end
    if found[3] then
      forget_conversation(found[3], message)
    end
    if found[4] then
      redis.call('DEL', prefix .. 'batch:' .. found[4], prefix .. 'batch:' .. found[4] .. ':held')
    end
    if found[6] then
      redis.call('XDEL', prefix .. 'dead', found[6])
    end
  end
  redis.call('ZREM', prefix .. 'retention', 'message:' .. message)
  redis.call('DEL', key)
end

local function forget_run(run)
  local key = prefix .. 'run:' .. run
  while budget > 0 do
    local message = redis.call('LPOP', key .. ':messages')
    if not message then
      break
    end
    forget_message(message)
    budget = budget - 1
  end
  if redis.call('EXISTS', key .. ':messages') == 1 then
    return false
  end
  local conversation = redis.call('HGET', key, 'conversation')
  if conversation then
    forget_conversation(conversation, run)
  end
  redis.call('DEL', key, key .. ':events', key .. ':deltas', key .. ':followers')
  redis.call('ZREM', prefix .. 'runs', run)
  redis.call('ZREM', prefix .. 'retention', 'run:' .. run)
  return true
end

local forgotten = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'retention', '-inf', clock(), 'LIMIT', 0, limit)) do
  local kind, id = string.match(name, '^(%a+):(.*)$')
  if kind == 'message' then
    forget_message(id)
  elseif not forget_run(id) then
    break
  end
  forgotten = forgotten + 1
end
return forgotten
