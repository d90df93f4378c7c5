-- fence(): whether the caller still holds what it writes for, and the run it belongs to.
-- Uses: prefix, kind, id, owner, token.
local function fence()
  local record = redis.call('HMGET', prefix .. kind .. ':' .. id, 'status', 'owner', 'epoch', 'attempt', 'runId')
  local live = record[1] == 'processing' or record[1] == 'running' or record[1] == 'waiting'
  local current = record[kind == 'run' and 3 or 4]
  return live and record[2] == owner and current == token, kind == 'run' and id or record[5]
end
