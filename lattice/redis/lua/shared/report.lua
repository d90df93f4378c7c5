-- report(message, report id, content, metadata): the answer to a message, once. Uses: prefix, now, retention, create.
local function report(message, report_id, content, metadata)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'from', 'to', 'threadId', 'workItemId',
    'upstreamMessageId', 'parentWorkItemId', 'runId')
  redis.call('HSET', prefix .. 'message:' .. message, 'report', report_id)
  if redis.call('EXISTS', prefix .. 'message:' .. report_id) == 1 then
    return
  end
  local member = string.match(found[1], '^.*::(.+)$') or found[1]
  local fields = {'id', report_id, 'from', found[2], 'to', found[1], 'content', content, 'threadId', found[3],
    'parentMessageId', message, 'workItemId', found[4], 'workItemRole', 'upstream_report', 'upstreamMessageId',
    found[5] or message, 'member', member}
  local optional = {parentWorkItemId = found[6], runId = found[7], metadata = metadata ~= '' and metadata}
  for name, value in pairs(optional) do
    if value then
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
  end
  local run = found[7] and redis.call('EXISTS', prefix .. 'run:' .. found[7]) == 1 and found[7]
  create(report_id, member, run, fields)
  if not run then
    redis.call('ZADD', prefix .. 'retention', now + retention, 'message:' .. report_id)
  end
end
