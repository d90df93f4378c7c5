-- clock(): Redis's own time in ms; no process's clock decides about a lease.
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
