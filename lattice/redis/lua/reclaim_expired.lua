-- Frees messages whose lease ran out: pending again at the head, or (out of attempts) failed, reported, told
-- in the events of its run, a dead letter.
-- Runs whose lease ran out are reserved for whoever asks, for a third of a lease. Nothing is freed in a time of grace.
-- KEYS[1] prefix of the team
-- ARGV[1] who asks, ARGV[2] lease in ms, ARGV[3] how many at most, ARGV[4] '1' to look at runs too,
-- ARGV[5] attempts, ARGV[6] retention in ms, ARGV[7] dead letters kept, ARGV[8] events kept of a run,
-- ARGV[9] '1' if it repeats a call whose reply was lost
-- Reply: {{kind, id, 'returned' | 'dead' | 'run', attempt}, ...}. A repeat finds what is left, and names the runs again
-- that are reserved for whoever asks.
local prefix = KEYS[1]
local asker = ARGV[1]
local lease_ms = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local with_runs = ARGV[4] == '1'
local max_attempts = tonumber(ARGV[5])
local retention = tonumber(ARGV[6])
local max_dead = tonumber(ARGV[7])
local max_events = tonumber(ARGV[8])
local repeated = ARGV[9] == '1'

-- include: clock

local now = clock()

-- include: grace
-- include: deliver
-- include: create
-- include: close
-- include: report
-- include: tell

local function give_back(id, member)
  local key = prefix .. 'message:' .. id
  local mailbox = prefix .. 'mailbox:' .. member
  redis.call('HSET', key, 'status', 'pending', 'owner', '')
  redis.call('ZREM', prefix .. 'leases', 'message:' .. id)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'processing', -1)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', 1)
  redis.call('RPUSH', mailbox .. ':returned', id)
  if redis.call('LLEN', mailbox .. ':doorbell') < 64 then
    redis.call('RPUSH', mailbox .. ':doorbell', '1')
  end
end

local function tell_failure(id, failure)
  local found = redis.call('HMGET', prefix .. 'message:' .. id, 'runId', 'from', 'to')
  local key = prefix .. 'run:' .. (found[1] or '')
  local status = redis.call('HGET', key, 'status')
  if status ~= 'running' and status ~= 'waiting' and status ~= 'queued' then
    return
  end
  local source = source_of(id)
  for _, event in ipairs({event_of('failed', source, found[3], id, failure),
    event_of('replied', source, found[2], id .. '-report', failure)}) do
    local kept = redis.call('XLEN', key .. ':events') + 1
    redis.call('XADD', key .. ':events', 'MAXLEN', '~', max_events, '*', 'event', event)
    redis.call('HINCRBY', key, 'eventsDropped', kept - redis.call('XLEN', key .. ':events'))
  end
end

local function bury(id, member, attempt, owner)
  local reason = 'its worker was lost ' .. attempt .. ' times; the last one was ' .. (owner or 'unknown')
  local failure = {code = 'worker_lost', message = reason, name = 'WorkerLostError'}
  report(id, id .. '-report', reason, cjson.encode({status = 'failed', error = failure}))
  redis.call('HSET', prefix .. 'message:' .. id, 'error', cjson.encode(failure))
  close(id, 'failed')
  tell_failure(id, failure)
  local letter = redis.call('XADD', prefix .. 'dead', 'MAXLEN', '~', max_dead, '*', 'id', id, 'member', member,
    'attempt', attempt, 'reason', reason)
  redis.call('HSET', prefix .. 'message:' .. id, 'dead', letter)
end

local function reclaim_message(id)
  local found = redis.call('HMGET', prefix .. 'message:' .. id, 'status', 'member', 'attempt', 'handedBack', 'owner')
  if found[1] ~= 'processing' then
    redis.call('ZREM', prefix .. 'leases', 'message:' .. id)
    return nil
  end
  if tonumber(found[3]) - tonumber(found[4] or '0') < max_attempts then
    give_back(id, found[2])
    return {'message', id, 'returned', tonumber(found[3])}
  end
  bury(id, found[2], found[3], found[5])
  return {'message', id, 'dead', tonumber(found[3])}
end

local function reclaim_run(id)
  local status = redis.call('HGET', prefix .. 'run:' .. id, 'status')
  if status ~= 'running' and status ~= 'waiting' then
    redis.call('ZREM', prefix .. 'leases', 'run:' .. id)
    return nil
  end
  redis.call('HSET', prefix .. 'run:' .. id, 'owner', '', 'reservedFor', asker)
  redis.call('ZADD', prefix .. 'leases', now + math.ceil(lease_ms / 3), 'run:' .. id)
  return {'run', id, 'run', 0}
end

local function reclaim(name)
  local kind, id = string.match(name, '^(%a+):(.*)$')
  if kind == 'message' then
    return reclaim_message(id)
  end
  return reclaim_run(id)
end

local function reserved_before()
  local found = {}
  for _, name in ipairs(redis.call('ZRANGE', prefix .. 'leases', 0, -1)) do
    local run = string.sub(name, 1, 4) == 'run:' and redis.call('HMGET', prefix .. name, 'owner', 'reservedFor')
    if run and run[1] == '' and run[2] == asker then
      found[#found + 1] = {'run', string.sub(name, 5), 'run', 0}
    end
  end
  return found
end

if in_grace(lease_ms) then
  return {}
end
local reply = repeated and with_runs and reserved_before() or {}
local passed_over = 0
while #reply < limit do
  local names = redis.call('ZRANGEBYSCORE', prefix .. 'leases', '-inf', now, 'LIMIT', passed_over, limit - #reply)
  if #names == 0 then
    break
  end
  for _, name in ipairs(names) do
    if with_runs or string.sub(name, 1, 4) ~= 'run:' then
      reply[#reply + 1] = reclaim(name)
    else
      passed_over = passed_over + 1
    end
  end
end
return reply
