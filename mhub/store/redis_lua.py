"""The scripts that a Redis server runs for `mhub.store.redis`.

Each call of the store is one script: the server runs it as a whole, with no other client's command
in between, and hands it to its append-only file and its replicas as one transaction.  Arguments
and answers are packed by `mhub.store.redis_records`, since a command with thousands of arguments,
or an answer with thousands of parts, costs txredisapi far more than the server.

A script does not roll back.  So whatever may refuse (another owner, no memory, a replica) is asked
before the first change, and the mark that the batch was applied is the last one.

The mark is the broker's that opened last: whatever changes anything asks first whether that is
still the one which wants the change.
"""

from typing import Final

_COMMON: Final = """
local call, read, pack = redis.call, struct.unpack, struct.pack
local P, META = ARGV[1], KEYS[1]

-- A command with many arguments, in portions that Lua's stack has room for.
local function many(command, key, args)
  local sum = 0
  for from = 1, #args, 4000 do
    sum = sum + call(command, key, unpack(args, from, math.min(from + 3999, #args)))
  end
  return sum
end

-- A number in the name of a key; Lua itself would write a large one with an exponent.
local function name_of(number)
  return string.format('%.0f', number)
end

-- As HINCRBY, but what the server writes down is the sum.  Redis 7.0 that is killed within a
-- transaction may keep the first part of it, and run that and its repetition at the next start.
local function add(key, field, by)
  local sum = tonumber(call('HGET', key, field) or 0) + by
  call('HSET', key, field, name_of(sum))
  return sum
end

local function keys_of(sid)
  return P..'s:'..sid, P..'q:'..sid, P..'i:'..sid, P..'b:'..sid, P..'p:'..sid
end

-- Why a broker is to change nothing: another one took its place, or the contents are gone.
local function refusal(token)
  local holder = call('HGET', META, 'applied_by')
  if not holder then return -2 end
  if holder ~= token then return -1 end
end

-- The fields of a delivery that scripts need: see HEAD in redis_records.
local function mid_of(head)
  return (read('<I8', head, 9))
end

local function size_of(head)
  return (read('<I4', head, 17))
end

local function head_size_of(head)
  local ids, share = read('<I4I2', head, 25)
  return 30 + ids + share
end

-- Changes of refs: a list of mid, by how much, ...
local function recount(changes)
  local gone = {}
  for n = 1, #changes, 2 do
    if add(P..'r', changes[n], changes[n + 1]) <= 0 then
      gone[#gone + 1] = changes[n]
    end
  end
  many('HDEL', P..'r', gone)
  many('HDEL', P..'m', gone)
end
"""

_ENDING: Final = """
-- The session is gone at once, what it was sent goes in portions: sweep().
local function finish(sid)
  local s, q, i, b, p = keys_of(sid)
  if call('SREM', P..'sessions', sid) == 1 and call('HEXISTS', s, 'client_id') == 0 then
    -- It expired here before its broker ended it, and with it what it counted in refs.
    call('HSET', META, 'recount', 1)
  end
  call('UNLINK', s, p)
  if call('EXISTS', q, i, b) > 0 then
    for _, key in ipairs({q, i, b}) do call('PERSIST', key) end
    call('SADD', P..'ending', sid)
  end
end

-- Removes about `room` deliveries of ended sessions.  Returns how many sessions have more.
local function sweep(room)
  while room > 0 do
    local sid = call('SRANDMEMBER', P..'ending')
    if not sid then return 0 end
    local _, q, i, b = keys_of(sid)
    local heads = call('ZRANGE', q, 0, room - 1)
    if #heads > 0 then
      call('ZREMRANGEBYRANK', q, 0, #heads - 1)
    end
    if #heads < room then -- the queue is empty now
      -- These come with their messages: so many at a time as there is memory for.
      local found, seqs = call('HRANDFIELD', i, math.min(room - #heads, 100), 'WITHVALUES'), {}
      for n = 1, #found, 2 do
        seqs[#seqs + 1], heads[#heads + 1] = found[n], found[n + 1]
      end
      many('HDEL', i, seqs)
      if call('EXISTS', i) == 0 then
        call('UNLINK', b)
        call('SREM', P..'ending', sid)
      end
    end
    local changes = {}
    for _, head in ipairs(heads) do
      local mid = mid_of(head)
      if mid > 0 then
        changes[#changes + 1] = mid
        changes[#changes + 1] = -1
      end
    end
    recount(changes)
    room = room - math.max(#heads, 1)
  end
  return call('SCARD', P..'ending')
end
"""

OPEN: Final = (
    _COMMON
    + """
-- prefix, token, name of this broker, lease in ms, schema, does it take over from the owner?
local _, token, name, lease, schema, fails_over = unpack(ARGV)
local found = tonumber(call('HGET', META, 'schema') or 0)
if found > tonumber(schema) then return pack('<I4I8', 1, found) end
local owner = call('GET', P..'owner')
if owner and owner ~= name then return pack('<I4I4c0', 2, #owner, owner) end
if fails_over == '0' then
  call('HSET', META, 'schema', schema)
elseif call('EXISTS', P..'sessions', P..'ending') == 0 then
  return pack('<I4', 3)
elseif found < tonumber(schema) then
  return pack('<I4I8', 4, found)
end
if refusal(token) then call('HSET', META, 'applied_by', token, 'applied', 0) end
call('SET', P..'owner', name, 'PX', lease)
return pack('<I4I4I8', 0, call('HGET', META, 'recount') or 0, call('TIME')[1])
"""
)

SHARED: Final = (
    _COMMON
    + """
-- prefix, a key that the nodes of a cluster share, what it becomes if it is not there
call('SET', ARGV[2], ARGV[3], 'NX')
return call('GET', ARGV[2])
"""
)

LIST: Final = (
    _COMMON
    + """
-- prefix.  The highest numbers, and all sids.
local state = call('HMGET', META, 'last_sid', 'last_mid')
local out = {pack('<I8I8', state[1] or 0, state[2] or 0)}
for n, sid in ipairs(call('SMEMBERS', P..'sessions')) do out[n + 1] = pack('<I8', sid) end
return table.concat(out)
"""
)

RENEW: Final = (
    _COMMON
    + """
-- prefix, token, name of this broker, lease in ms; 0: give it up
local _, token, name, lease = unpack(ARGV)
local owner = call('GET', P..'owner')
if lease == '0' then return owner == name and call('DEL', P..'owner') or 0 end
local refused = refusal(token)
if refused then return refused end
-- If it lapsed and nobody took it meanwhile, it is still ours.
if not owner then
  call('SET', P..'owner', name, 'PX', lease)
elseif owner == name then
  call('PEXPIRE', P..'owner', lease)
end
return 0
"""
)

COMMIT: Final = (
    _COMMON
    + _ENDING
    + """
-- prefix, token, name, lease in ms, number, grows?, highest sid and mid, slack in s, and sections
local _, token, name, lease, number, grows, last_sid, last_mid, slack = unpack(ARGV, 1, 9)
local state = call('HMGET', META, 'applied_by', 'applied', 'last_sid', 'last_mid')
if not state[1] then return -2 end
if state[1] ~= token then return -1 end
-- A connection may have broken after this batch was applied, or another one brings it twice.
if tonumber(state[2]) >= tonumber(number) then return call('SCARD', P..'ending') end

-- The first change is the one that a server without memory refuses, if the batch needs any; a
-- batch that only removes has to get through.
if grows == '1' or call('PEXPIRE', P..'owner', lease) == 0 then
  call('SET', P..'owner', name, 'PX', lease)
end

local data, pos
local function section(n)
  data, pos = ARGV[9 + n], 1
end
local function more() return pos <= #data end
local function take(format)
  local a, b, c
  a, b, c, pos = read(format, data, pos)
  return a, b, c
end
local function text()
  local found
  found, pos = read('<I4c0', data, pos)
  return found
end

-- Sids with a queue that may be new and then has to expire with the session; true: the session is
-- in this batch.  What is in flight needs no such care: its session is there, and when it goes its
-- record comes.
local touched = {}

section(1) -- messages: mid, refs, body
local bodies, refs = {}, {}
while more() do
  local mid, count, body = take('<I8I4I4c0')
  bodies[#bodies + 1], refs[#refs + 1] = mid, mid
  bodies[#bodies + 1], refs[#refs + 1] = body, count
end
many('HSET', P..'m', bodies)
many('HSET', P..'r', refs)

section(2) -- deliveries that wait: sid, count, bytes; each: head, message of its own or nothing
while more() do
  local sid, count, size = take('<I8I4I8')
  sid = name_of(sid)
  local heads, own = {}, {}
  for _ = 1, count do
    local head, body, seq
    head, body, pos = read('<I4c0I4c0', data, pos)
    seq = read('<I8', head)
    heads[#heads + 1], heads[#heads + 2] = seq, head
    if #body > 0 then
      own[#own + 1], own[#own + 2] = seq, body
    end
  end
  many('ZADD', P..'q:'..sid, heads)
  many('HSET', P..'b:'..sid, own)
  add(P..'s:'..sid, 'queued_bytes', size)
  touched[sid] = false
end

section(3) -- deliveries in flight: sid, count; each: head with its message
while more() do
  local sid, count
  sid, count, pos = read('<I8I4', data, pos)
  local values = {}
  for _ = 1, count do
    local value = text()
    values[#values + 1], values[#values + 2] = read('<I8', value), value
  end
  many('HSET', P..'i:'..name_of(sid), values)
end

section(4) -- changes: sid, seq, pid and released
while more() do
  local sid, seq, mark = take('<I8I8c3')
  local s, q, i, b = keys_of(name_of(sid))
  local waits = read('<I2', mark) == 0
  local value = call('HGET', i, seq)
  if value then
    value = string.sub(value, 1, 20)..mark..string.sub(value, 24)
    if waits then -- it goes back into the queue
      local size, head_size = size_of(value), head_size_of(value)
      call('HDEL', i, seq)
      call('ZADD', q, seq, string.sub(value, 1, head_size))
      add(s, 'queued_bytes', size)
      if #value > head_size then call('HSET', b, seq, string.sub(value, head_size + 1)) end
      touched[name_of(sid)] = false
    else
      call('HSET', i, seq, value)
    end
  else
    local head = call('ZRANGEBYSCORE', q, seq, seq)[1]
    if head then
      local changed = string.sub(head, 1, 20)..mark..string.sub(head, 24)
      call('ZREM', q, head)
      if waits then
        call('ZADD', q, seq, changed)
      else
        call('HSET', i, seq, changed..(call('HGET', b, seq) or ''))
        call('HDEL', b, seq)
        add(s, 'queued_bytes', -size_of(head))
      end
    end
  end
end

section(5) -- removals: sid, count, seqs
while more() do
  local sid, count
  sid, count, pos = read('<I8I4', data, pos)
  sid = name_of(sid)
  local seqs = {}
  for n = 1, count do
    seqs[n], pos = read('<I8', data, pos)
  end
  -- Most of them were in flight; whatever was not has to be looked for in the queue.
  if many('HDEL', P..'i:'..sid, seqs) < count then
    local s, q, _, b = keys_of(sid)
    local heads, size = {}, 0
    for _, seq in ipairs(seqs) do
      local head = call('ZRANGEBYSCORE', q, seq, seq)[1]
      if head then
        heads[#heads + 1], size = head, size + size_of(head)
      end
    end
    if #heads > 0 then
      many('ZREM', q, heads)
      many('HDEL', b, seqs)
      add(s, 'queued_bytes', -size)
    end
  end
end

section(6) -- refs: mid, by how much
local changes = {}
while more() do
  changes[#changes + 1], changes[#changes + 2], pos = read('<I8i4', data, pos)
end
recount(changes)

section(7) -- incoming: sid, packet id, whether it waits
while more() do
  local sid, pid, waits = take('<I8I2B')
  call(waits == 1 and 'SADD' or 'SREM', P..'p:'..name_of(sid), pid)
end

section(8) -- sessions: sid, count, texts: field, value, ...
while more() do
  local sid, count
  sid, count, pos = read('<I8I4', data, pos)
  sid = name_of(sid)
  local fields = {}
  for n = 1, count do fields[n] = text() end
  many('HSET', P..'s:'..sid, fields)
  call('SADD', P..'sessions', sid)
  touched[sid] = true
end

section(9) -- subscriptions: sid, name, options; without options it is removed
while more() do
  local sid, name, options = take('<I8I4c0I4c0')
  local s = P..'s:'..name_of(sid)
  if #options > 0 then
    call('HSET', s, 'sub '..name, options)
  else
    call('HDEL', s, 'sub '..name)
  end
end

-- Name and value, ...; one without a value is removed.
local function put(key)
  while more() do
    local name, value
    name, value, pos = read('<I4c0I4c0', data, pos)
    if #value > 0 then
      call('HSET', key, name, value)
    else
      call('HDEL', key, name)
    end
  end
end

section(10) -- retained: topic, message
put(P..'retained')

section(11) -- notes: name, text
put(P..'notes')

for sid, changed in pairs(touched) do
  local s, q, i, b, p = keys_of(sid)
  local at = tonumber(call('HGET', s, 'ends_at') or 0)
  -- One with a will stays until a broker has published it.
  if at > 0 and call('HSTRLEN', s, 'will') == 0 then
    at = math.ceil(at + slack)
    for _, key in ipairs({s, q, i, b, p}) do call('EXPIREAT', key, at) end
  elseif changed then
    for _, key in ipairs({s, q, i, b, p}) do call('PERSIST', key) end
  end
end

section(12) -- ended: sids
while more() do
  local sid
  sid, pos = read('<I8', data, pos)
  finish(name_of(sid))
end
local left = sweep(2000)

if tonumber(last_sid) > tonumber(state[3] or 0) then call('HSET', META, 'last_sid', last_sid) end
if tonumber(last_mid) > tonumber(state[4] or 0) then call('HSET', META, 'last_mid', last_mid) end
call('HSET', META, 'applied', number)
return left
"""
)

FINISH: Final = (
    _COMMON
    + _ENDING
    + """
-- prefix, token, packed sids that have ended
local refused = refusal(ARGV[2])
if refused then return refused end
local pos = 1
while pos <= #ARGV[3] do
  local sid
  sid, pos = read('<I8', ARGV[3], pos)
  finish(name_of(sid))
end
return sweep(2000)
"""
)

READ: Final = (
    _COMMON
    + """
-- prefix, packed sids, bytes after which to stop, most in flight that come with a session
local out, size, pos = {}, 0, 1
local function put(format, ...)
  local piece = pack(format, ...)
  out[#out + 1], size = piece, size + #piece
end
while pos <= #ARGV[2] and size < tonumber(ARGV[3]) do
  local sid
  sid, pos = read('<I8', ARGV[2], pos)
  local s, q, i, b, p = keys_of(name_of(sid))
  local fields, pids, flying = call('HGETALL', s), call('SMEMBERS', p), call('HLEN', i)
  local values = flying <= tonumber(ARGV[4]) and call('HVALS', i) or {}
  local last = call('ZREVRANGE', q, 0, 0)[1]
  put('<I8I8I8', sid, call('ZCARD', q), last and read('<I8', last) or 0)
  put('<I4', #fields)
  for _, field in ipairs(fields) do put('<I4c0', #field, field) end
  put('<I4', #pids)
  for _, pid in ipairs(pids) do put('<I2', pid) end
  put('<I4I4', flying, #values)
  for _, value in ipairs(values) do
    local mid = mid_of(value)
    local shared = mid > 0 and call('HGET', P..'m', mid) or ''
    put('<I4c0', #value, value)
    put('<I4c0', #shared, shared)
  end
end
return table.concat(out)
"""
)

FLYING: Final = (
    _COMMON
    + """
-- prefix, sid.  The seqs of what is in flight.
local _, _, i = keys_of(ARGV[2])
local out = {}
for n, seq in ipairs(call('HKEYS', i)) do out[n] = pack('<I8', seq) end
return table.concat(out)
"""
)

FLIGHT: Final = (
    _COMMON
    + """
-- prefix, sid, packed seqs, bytes after which to stop.  What is in flight, of a session with much.
local _, _, i = keys_of(ARGV[2])
local out, size, pos = {''}, 0, 1
while pos <= #ARGV[3] and size < tonumber(ARGV[4]) do
  local seq
  seq, pos = read('<I8', ARGV[3], pos)
  local value = call('HGET', i, seq)
  if value then
    local mid = mid_of(value)
    local shared = mid > 0 and call('HGET', P..'m', mid) or ''
    out[#out + 1] = pack('<I4c0I4c0', #value, value, #shared, shared)
    size = size + #value + #shared
  end
end
out[1] = pack('<I4', (pos - 1) / 8)
return table.concat(out)
"""
)

QUEUE: Final = (
    _COMMON
    + """
-- prefix, sid, after which seq, how many, bytes of messages after which to stop, with bodies?
local _, sid, after, most, most_bytes, bodies = unpack(ARGV)
local _, q, _, b = keys_of(sid)
local out, size = {}, 0
most, most_bytes = tonumber(most), tonumber(most_bytes)
while most > 0 do
  local heads = call('ZRANGEBYSCORE', q, '('..after, '+inf', 'LIMIT', 0, math.min(most, 500))
  if #heads == 0 then break end
  for _, head in ipairs(heads) do
    local seq, mid = read('<I8I8', head)
    local body = ''
    if bodies == '1' then
      body = (mid > 0 and call('HGET', P..'m', mid) or call('HGET', b, seq)) or ''
    end
    out[#out + 1] = pack('<I4c0I4c0', #head, head, #body, body)
    after, size = name_of(seq), size + size_of(head)
    if size >= most_bytes then return table.concat(out) end
  end
  most = most - #heads
end
return table.concat(out)
"""
)

FIELDS: Final = (
    _COMMON
    + """
-- prefix, name of a hash, fields.  Those that are there, with their values.
local out = {}
for n = 3, #ARGV do
  local field = ARGV[n]
  local value = call('HGET', P..ARGV[2], field)
  if value then out[#out + 1] = pack('<I4c0I4c0', #field, field, #value, value) end
end
return table.concat(out)
"""
)

SCAN: Final = (
    _COMMON
    + """
-- prefix, name of a hash, cursor, about how many, with values?
local _, name, cursor, count, values = unpack(ARGV)
local found = call('HSCAN', P..name, cursor, 'COUNT', count)
local next, pairs_ = found[1], found[2]
local out = {pack('<I4c0', #next, next)}
for n = 1, #pairs_, 2 do
  local value = values == '1' and pairs_[n + 1] or ''
  out[#out + 1] = pack('<I4c0I4c0', #pairs_[n], pairs_[n], #value, value)
end
return table.concat(out)
"""
)

DELETE: Final = (
    _COMMON
    + """
-- prefix, token, name of a hash, fields
local refused = refusal(ARGV[2])
if refused then return refused end
return call('HDEL', P..ARGV[3], unpack(ARGV, 4))
"""
)

KEYS: Final = """
-- prefix, pattern, cursor.  Keys, as SCAN brings them.
local found = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2], 'COUNT', 1000)
local out = {struct.pack('<I4c0', #found[1], found[1])}
for n, key in ipairs(found[2]) do out[n + 1] = struct.pack('<I4c0', #key, key) end
return table.concat(out)
"""

REFS: Final = (
    _COMMON
    + """
-- prefix, token, packed mid and refs as they shall be; 0: the message goes.  The last call says
-- "done".
local refused = refusal(ARGV[2])
if refused then return refused end
local pos = 1
while pos <= #ARGV[3] do
  local mid, refs
  mid, refs, pos = read('<I8I4', ARGV[3], pos)
  if refs > 0 then
    call('HSET', P..'r', mid, refs)
  else
    call('HDEL', P..'r', mid)
    call('HDEL', P..'m', mid)
  end
end
if ARGV[4] == 'done' then call('HDEL', META, 'recount') end
return 0
"""
)
