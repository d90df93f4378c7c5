-- Extends leases.
-- KEYS[1] prefix of the team
-- ARGV[1] lease in ms, ARGV[2..] kind, id, owner, token of each
-- Reply: {position (from 0) of each lease that is lost, ...}. A repeat extends them again.
local prefix = KEYS[1]
local lease_ms = tonumber(ARGV[1])
local first = 2

-- include: clock

local deadline = clock() + lease_ms
local lost = {}
for at = first, #ARGV, 4 do
  local kind, id, owner, token = unpack(ARGV, at, at + 3)
  local record = redis.call('HMGET', prefix .. kind .. ':' .. id, 'status', 'owner', 'epoch', 'attempt')
  local live = record[1] == 'processing' or record[1] == 'running' or record[1] == 'waiting'
  if live and record[2] == owner and record[kind == 'run' and 3 or 4] == token then
    redis.call('ZADD', prefix .. 'leases', deadline, kind .. ':' .. id)
  else
    lost[#lost + 1] = (at - first) / 4
  end
end
return lost
