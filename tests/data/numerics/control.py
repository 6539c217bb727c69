# Control flow, calls, collectives, random bits.
x = f32(4)
module('while_counted', 'a counted loop: x <- x * 1.5 + i, ten times', """
HloModule while_counted, num_partitions=4
cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT p = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  f = f32[] constant(1.5)
  fb = f32[4] broadcast(f), dimensions={}
  y = f32[4] multiply(x, fb)
  c = f32[] convert(i)
  cb = f32[4] broadcast(c), dimensions={}
  z = f32[4] add(y, cb)
  ROOT t = (s32[], f32[4]) tuple(j, z)
}
ENTRY main {
  x = f32[4] parameter(0), sharding={devices=[4]<=[4]}
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=cond, body=body, backend_config={"known_trip_count":{"n":"10"}}
  ROOT r = f32[4] get-tuple-element(w), index=1
}""", {'0': x}, [(lambda v: [v := v * 1.5 + i for i in range(10)][-1])(x.astype(float)).astype(np.float32)])
n = np.uint32(27)
module('while_collatz', 'a loop whose number of iterations depends on data, with a conditional inside', """
HloModule while_collatz
cond {
  s = (u32[], s32[]) parameter(0)
  n = u32[] get-tuple-element(s), index=0
  one = u32[] constant(1)
  ROOT p = pred[] compare(n, one), direction=NE
}
odd {
  n = u32[] parameter(0)
  three = u32[] constant(3)
  one = u32[] constant(1)
  a = u32[] multiply(n, three)
  ROOT b = u32[] add(a, one)
}
even {
  n = u32[] parameter(0)
  one = u32[] constant(1)
  ROOT h = u32[] shift-right-logical(n, one)
}
body {
  s = (u32[], s32[]) parameter(0)
  n = u32[] get-tuple-element(s), index=0
  k = s32[] get-tuple-element(s), index=1
  one = u32[] constant(1)
  bit = u32[] and(n, one)
  p = pred[] compare(bit, one), direction=EQ
  m = u32[] conditional(p, n, n), true_computation=odd, false_computation=even
  i = s32[] constant(1)
  l = s32[] add(k, i)
  ROOT t = (u32[], s32[]) tuple(m, l)
}
ENTRY main {
  n = u32[] parameter(0)
  zero = s32[] constant(0)
  t = (u32[], s32[]) tuple(n, zero)
  ROOT w = (u32[], s32[]) while(t), condition=cond, body=body
}""", {'0': n}, [np.uint32(1), np.int32(111)])
x = f32(3); branches = [x + 1, x * 2, -x]
for name, index, which in (('conditional_first', 0, 0), ('conditional_last', 2, 2), ('conditional_outside', -5, 2)):
    module(name, 'a branch by index; one outside of the range takes the last', """
HloModule %s, num_partitions=3
add1 {
  x = f32[3] parameter(0)
  c = f32[] constant(1)
  b = f32[3] broadcast(c), dimensions={}
  ROOT r = f32[3] add(x, b)
}
twice {
  x = f32[3] parameter(0)
  ROOT r = f32[3] add(x, x)
}
minus {
  x = f32[3] parameter(0)
  ROOT r = f32[3] negate(x)
}
ENTRY main {
  i = s32[] parameter(0)
  x = f32[3] parameter(1), sharding={devices=[3]<=[3]}
  ROOT r = f32[3] conditional(i, x, x, x), branch_computations={add1, twice, minus}
}""" % name, {'0': np.int32(index), '1': x}, [branches[which]])
x = f32(2, 3)
module('calls', 'calls and fusions that call each other; a computation used twice', """
HloModule calls, num_partitions=2
square {
  x = f32[2,3] parameter(0)
  ROOT r = f32[2,3] multiply(x, x)
}
fused {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  s = f32[2,3] call(y), to_apply=square
  ROOT r = f32[2,3] subtract(s, x)
}
ENTRY main {
  x = f32[2,3] parameter(0), sharding={devices=[2,1]<=[2]}
  a = f32[2,3] call(x), to_apply=square
  b = f32[2,3] fusion(x, a), kind=kLoop, calls=fused
  ROOT t = (f32[2,3], f32[2,3]) tuple(a, b)
}""", {'0': x}, [x * x, (x * x) ** 2 - x])
x = f32(3, 4); c0 = f32(4)
out, c = np.zeros((3, 4)), c0.astype(float)
for i in range(3): c = c * 0.5 + x[i]; out[i] = c
module('scan', 'a recurrence along dim 0: outputs of all steps, and the last carry', """
HloModule scan, num_partitions=2
step {
  x = f32[4] parameter(0)
  c = f32[4] parameter(1)
  h = f32[] constant(0.5)
  hb = f32[4] broadcast(h), dimensions={}
  d = f32[4] multiply(c, hb)
  n = f32[4] add(d, x)
  ROOT t = (f32[4], f32[4]) tuple(n, n)
}
ENTRY main {
  x = f32[3,4] parameter(0), sharding={devices=[1,2]<=[2]}
  c = f32[4] parameter(1)
  ROOT s = (f32[3,4], f32[4]) scan(x, c), dimensions={0}, num_carries=1, is_reverse=false, to_apply=step
}""", {'0': x, '1': c0}, [out.astype(np.float32), c.astype(np.float32)])

# Programs that every device runs as they are; inputs and results are stacked by device.
x = ints(4, 3)
total = x.sum(0).astype(np.int32)
module('all_reduce', 'sums over all devices and over pairs of them, and of two arrays at once; each device its own value', """
HloModule all_reduce, num_partitions=4
add {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT z = s32[] add(x, y)
}
ENTRY main {
  x = s32[3] parameter(0)
  p = u32[] partition-id()
  q = s32[] convert(p)
  a = s32[3] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  b = s32[3] all-reduce(x), channel_id=2, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=add
  c = (s32[3], s32[]) all-reduce(x, q), channel_id=3, replica_groups=[2,2]<=[4], use_global_device_ids=true, to_apply=add
  c0 = s32[3] get-tuple-element(c), index=0
  c1 = s32[] get-tuple-element(c), index=1
  ROOT t = (s32[3], s32[3], s32[3], s32[], s32[]) tuple(a, b, c0, c1, q)
}""", {'0': x}, [np.tile(total, (4, 1)), np.stack([x[[0, 2]].sum(0), x[[1, 3]].sum(0)] * 2).astype(np.int32), np.repeat(np.stack([x[:2].sum(0), x[2:].sum(0)]), 2, 0).astype(np.int32), np.array([1, 1, 5, 5], np.int32), np.arange(4, dtype=np.int32)])
x = f32(4, 2, 4)
perm = [1, 2, 3, 0]
a2a = np.stack([np.concatenate([x[s][:, d:d + 1] for s in range(4)], 1) for d in range(4)])
module('collectives', 'all-gather, reduce-scatter, all-to-all, collective-permute with a device left out, broadcast', """
HloModule collectives, num_partitions=4
""" + ADD + """ENTRY main {
  x = f32[2,4] parameter(0)
  a = f32[2,8] all-gather(x), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), dimensions={1}, use_global_device_ids=true
  b = f32[2,1] reduce-scatter(x), channel_id=2, replica_groups={{0,1,2,3}}, dimensions={1}, use_global_device_ids=true, to_apply=add
  c = f32[2,4] all-to-all(x), channel_id=3, replica_groups={{0,1,2,3}}, dimensions={1}
  d = f32[2,4] collective-permute(x), channel_id=4, source_target_pairs={{0,1},{1,2},{2,3}}
  e = f32[2,4] collective-broadcast(x), channel_id=5, replica_groups={{2,0},{3,1}}
  ROOT t = (f32[2,8], f32[2,1], f32[2,4], f32[2,4], f32[2,4]) tuple(a, b, c, d, e)
}""", {'0': x}, [np.stack([np.concatenate([x[d % 2], x[d % 2 + 2]], 1) for d in range(4)]), np.stack([x.astype(float).sum(0)[:, d:d + 1] for d in range(4)]).astype(np.float32), a2a,
                 np.stack([np.zeros((2, 4), np.float32), x[0], x[1], x[2]]), np.stack([x[2], x[3], x[2], x[3]])])
x = f32(2, 3)
module('async_collectives', 'collectives begun and ended apart', """
HloModule async_collectives, num_partitions=2
""" + ADD + """ENTRY main {
  x = f32[3] parameter(0)
  s = f32[3] all-reduce-start(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  g = (f32[3], f32[6]) all-gather-start(x), channel_id=2, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  p = (f32[3], f32[3]) collective-permute-start(x), channel_id=3, source_target_pairs={{0,1},{1,0}}
  a = f32[3] all-reduce-done(s)
  b = f32[6] all-gather-done(g)
  c = f32[3] collective-permute-done(p)
  ROOT t = (f32[3], f32[6], f32[3]) tuple(a, b, c)
}""", {'0': x}, [np.tile((x[0].astype(float) + x[1]).astype(np.float32), (2, 1)), np.tile(x.ravel(), (2, 1)), x[::-1]])
x = ints(4)
module('loop_of_collectives', 'a ring: each device hands its value on until it has seen all of them', """
HloModule loop_of_collectives, num_partitions=4
cond {
  s = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT p = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = s32[] get-tuple-element(s), index=1
  sum = s32[] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  new = s32[] add(sum, v)
  next = s32[] collective-permute(v), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  ROOT t = (s32[], s32[], s32[]) tuple(j, next, new)
}
ENTRY main {
  x = s32[] parameter(0)
  z = s32[] constant(0)
  t = (s32[], s32[], s32[]) tuple(z, x, z)
  w = (s32[], s32[], s32[]) while(t), condition=cond, body=body
  ROOT r = s32[] get-tuple-element(w), index=2
}""", {'0': x}, [np.full(4, x.sum(), np.int32)])
x = f32(3)
module('async_call', 'a call begun, updated and ended apart', """
HloModule async_call
wrapped {
  x = f32[3] parameter(0)
  ROOT r = f32[3] negate(x)
}
ENTRY main {
  x = f32[3] parameter(0)
  s = ((f32[3]), f32[3], u32[]) async-start(x), calls=wrapped
  u = ((f32[3]), f32[3], u32[]) async-update(s)
  ROOT d = f32[3] async-done(u)
}""", {'0': x}, [-x])


def threefry(k0, k1, x0, x1):
    """Threefry-2x32, 20 rounds (Salmon et al., 2011)."""
    k0, k1, x0, x1 = (np.asarray(v, np.uint32).astype(np.uint64) for v in (k0, k1, x0, x1)); m = np.uint64(0xFFFFFFFF)
    ks = [k0, k1, k0 ^ k1 ^ np.uint64(0x1BD11BDA)]
    x0, x1 = (x0 + ks[0]) & m, (x1 + ks[1]) & m
    for i in range(5):
        for r in ([13, 15, 26, 6], [17, 29, 16, 24])[i % 2]:
            x0 = (x0 + x1) & m
            x1 = ((x1 << np.uint64(r)) | (x1 >> np.uint64(32 - r))) & m
            x1 ^= x0
        x0 = (x0 + ks[(i + 1) % 3]) & m
        x1 = (x1 + ks[(i + 2) % 3] + np.uint64(i + 1)) & m
    return x0.astype(np.uint32), x1.astype(np.uint32)


assert [int(v) for v in threefry(0, 0, 0, 0)] == [0x6B200159, 0x99BA4EFE]  # the authors' first test vector
state = np.array([0x123456789ABCDEF0, 42], np.uint64)
count = np.arange(4, dtype=np.uint64) + state[1]
lo, hi = threefry(state[0] & np.uint64(0xFFFFFFFF), state[0] >> np.uint64(32), count & np.uint64(0xFFFFFFFF), count >> np.uint64(32))
module('rng_bits', 'eight random words by Threefry, two of each counter, and the state after them', """
HloModule rng_bits
ENTRY main {
  s = u64[2] parameter(0)
  ROOT r = (u64[2], u32[8]) rng-bit-generator(s), algorithm=rng_three_fry
}""", {'0': state}, [state + np.array([0, 4], np.uint64), np.stack([lo, hi], 1).ravel()])
module('outside_world', 'infeed, outfeed, send and recv: read and printed, refused by a run', """
HloModule outside_world
ENTRY main {
  k = token[] after-all()
  i = ((f32[3], s32[]), token[]) infeed(k), infeed_config="queue"
  d = (f32[3], s32[]) get-tuple-element(i), index=0
  x = f32[3] get-tuple-element(d), index=0
  o = token[] outfeed(x, k), outfeed_shape=f32[3]{0}, outfeed_config="log"
  s = (f32[3], u32[], token[]) send(x, k), channel_id=7, is_host_transfer=true
  sd = token[] send-done(s), channel_id=7, is_host_transfer=true
  r = (f32[3], u32[], token[]) recv(k), channel_id=8
  ROOT rd = (f32[3], token[]) recv-done(r), channel_id=8
}""", {}, None)
