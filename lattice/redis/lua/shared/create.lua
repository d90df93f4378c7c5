-- create(message, member, run or nil, fields): writes a pending message and its place in the lists. Uses: prefix, now.
local function create(message, member, run, fields)
  local sequence = redis.call('INCR', prefix .. 'sequence')
  redis.call('HSET', prefix .. 'message:' .. message, 'status', 'pending', 'createdAt', now, 'sequence', sequence,
    unpack(fields))
  redis.call('ZADD', prefix .. 'index:' .. member, sequence, message)
  redis.call('HINCRBY', prefix .. 'counts:' .. member, 'pending', 1)
  if run then
    redis.call('RPUSH', prefix .. 'run:' .. run .. ':messages', message)
  end
end
