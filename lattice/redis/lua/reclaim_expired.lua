-- Frees messages whose lease ran out: pending again at the head, or (out of attempts) failed, reported, told
-- in the events of its run, a dead letter.
-- Runs whose lease ran out are reserved for whoever asks.
-- KEYS[1] prefix of the team
-- ARGV[1] who asks, ARGV[2] ms that a run is reserved, ARGV[3] how many at most, ARGV[4] '1' to look at runs too,
-- ARGV[5] attempts, ARGV[6] retention in ms, ARGV[7] dead letters kept, ARGV[8] events kept of a run
-- Reply: {{kind, id, 'returned' | 'dead' | 'run', attempt}, ...}. A repeat finds what is left; a run named in a lost
-- reply is named again when its reservation runs out.
local prefix = KEYS[1]
local asker = ARGV[1]
local reserve_ms = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local with_runs = ARGV[4] == '1'
local max_attempts = tonumber(ARGV[5])
local retention = tonumber(ARGV[6])
local max_dead = tonumber(ARGV[7])
local max_events = tonumber(ARGV[8])

-- include: clock

local now = clock()

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
    redis.call('XADD', key .. ':events', 'MAXLEN', '~', max_events, '*', 'event', event)
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
  redis.call('ZADD', prefix .. 'leases', now + reserve_ms, 'run:' .. id)
  return {'run', id, 'run', 0}
end

local function reclaim(name)
  local kind, id = string.match(name, '^(%a+):(.*)$')
  if kind == 'message' then
    return reclaim_message(id)
  end
  return reclaim_run(id)
end

local reply = {}
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
