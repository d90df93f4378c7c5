-- event_of(subtype, source, mailbox, message, failure or nil), source_of(message): events in their wire form, which a
-- script must write itself as no process is there to. Uses: prefix.
local WIRE = {'id', 'from', 'to', 'content', 'status', 'createdAt', 'threadId', 'parentMessageId', 'workItemId',
  'workItemRole', 'upstreamMessageId', 'parentWorkItemId', 'runId', 'metadata'}
local IS_JSON = {createdAt = true, metadata = true}

local function wire_form(message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, unpack(WIRE))
  local parts = {}
  for n, name in ipairs(WIRE) do
    if found[n] then
      parts[#parts + 1] = '"' .. name .. '":' .. (IS_JSON[name] and found[n] or cjson.encode(found[n]))
    end
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

local function source_of(message)
  local found = redis.call('HMGET', prefix .. 'message:' .. message, 'member', 'to')
  local name = found[1]
  if string.sub(name, 1, 9) == 'delegate.' then
    name = string.match(found[2], '^.*::(.+)$') or found[2]
  end
  return cjson.encode({kind = 'team_member', name = name, team = string.match(prefix, '{(.*)}'), member = name,
    mailbox = found[2]})
end

local function event_of(subtype, source, mailbox, message, failure)
  local event = '{"type":"team_message","subtype":"' .. subtype .. '","source":' .. source .. ',"mailbox":' ..
    cjson.encode(mailbox) .. ',"message":' .. wire_form(message)
  return event .. (failure and ',"error":' .. cjson.encode(failure) or '') .. '}'
end
