-- Ends a work item: step, state, report, countdown of its batch, the conversation's next message, perhaps a next claim.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] message id, ARGV[3] owner, ARGV[4] token, ARGV[5] status (processing: it is left open,
-- for a later reply to end it), ARGV[6] '1' if it is reported, ARGV[7] report id,
-- ARGV[8] report, ARGV[9] its metadata as JSON or '', ARGV[10] retention in ms,
-- ARGV[11] member to claim from or '', ARGV[12] lease of that claim in ms, ARGV[13] nonce of this call,
-- ARGV[14] the step
-- Reply: {'settled'} | {'settled', {record, conversation has entries, reports delivered, deadline, id}} | {'stale'}
--        | {'missing'}. A repeat by the holder that settled it answers the same, with the same claim.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local status = ARGV[5]
local reported = ARGV[6]
local report_id = ARGV[7]
local content = ARGV[8]
local metadata = ARGV[9]
local retention = tonumber(ARGV[10])
local next_member = ARGV[11]
local next_lease = tonumber(ARGV[12])
local nonce = ARGV[13]
local step_at = 14

-- include: clock

local now = clock()

-- include: fence
-- include: step
-- include: deliver
-- include: create
-- include: close
-- include: report
-- include: lease
-- include: next

local key = prefix .. 'message:' .. id

local function settled_before()
  local found = redis.call('HMGET', key, 'settledBy', 'handed', 'status')
  if not found[3] then
    return {'missing'}
  end
  if found[1] ~= owner .. ':' .. token then
    return {'stale'}
  end
  local handed = found[2] and redis.call('HMGET', prefix .. 'message:' .. found[2], 'status', 'claim')
  if handed and handed[1] == 'processing' and handed[2] == nonce then
    return {'settled', describe(found[2], now + next_lease)}
  end
  return {'settled'}
end

local function leave_open(message)
  local found = redis.call('HMGET', key, 'member', 'entry', 'conversation', 'shared', 'runId', 'hasNotes')
  redis.call('HSET', key, 'owner', '', 'leftOpen', '1')
  redis.call('ZREM', prefix .. 'leases', 'message:' .. message)
  if found[2] then
    redis.call('XDEL', prefix .. 'mailbox:' .. found[1], found[2])
  end
  if found[4] == '1' then
    free_conversation(prefix .. 'conversation:' .. found[3], message)
  end
  if found[6] then
    release_notes(found[1], message)
  end
  if not found[5] then
    redis.call('ZADD', prefix .. 'retention', now + retention, 'message:' .. message)
  end
end

local current, run = fence()
if not current then
  return settled_before()
end
write_step(step_at, run)
redis.call('DEL', prefix .. 'journal:' .. redis.call('HGET', key, 'conversation'))
if reported == '1' then
  report(id, report_id, content, metadata)
end
if status == 'processing' then
  leave_open(id)
else
  close(id, status)
end
redis.call('HSET', key, 'settledBy', owner .. ':' .. token, 'settledAt', now)
local claim = next_member ~= '' and next_message(next_member, owner, next_lease, nonce)
if not claim then
  return {'settled'}
end
redis.call('HSET', key, 'handed', claim[5])
return {'settled', claim}
