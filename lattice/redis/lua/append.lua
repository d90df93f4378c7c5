-- Writes a step of whoever holds a lease.
-- KEYS[1] prefix of the team
-- ARGV[1] lease kind, ARGV[2] lease id, ARGV[3] owner, ARGV[4] token, ARGV[5] nonce of this call, ARGV[6] the step
-- Reply: 'written' | 'stale'. A repeat is known by its nonce (the last ones are kept) and writes nothing again.
local prefix = KEYS[1]
local kind = ARGV[1]
local id = ARGV[2]
local owner = ARGV[3]
local token = ARGV[4]
local nonce = ARGV[5]
local step_at = 6

-- include: fence
-- include: step

local current, run = fence()
if not current then
  return 'stale'
end
local key = prefix .. kind .. ':' .. id
local written = redis.call('HGET', key, 'written') or ''
if string.find(written, nonce, 1, true) then
  return 'written'
end
redis.call('HSET', key, 'written', string.sub(nonce .. ' ' .. written, 1, 200))
write_step(step_at, run)
return 'written'
