# Programs that every device runs as they are, with control flow inside of calls, fusions, branches and loops.
# Inputs and results are stacked by device.
BRANCHES = """minus {
  x = f32[4] parameter(0)
  ROOT r = f32[4] negate(x)
}
twice {
  x = f32[4] parameter(0)
  ROOT r = f32[4] add(x, x)
}
choose {
  i = s32[] parameter(0)
  x = f32[4] parameter(1)
  ROOT c = f32[4] conditional(i, x, x), branch_computations={minus, twice}
}
"""
LOOP = """below {
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  ROOT p = pred[] compare(i, n), direction=LT
}
next {
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  bit = s32[] and(i, one)
  y = f32[4] call(bit, x), to_apply=choose
  j = s32[] add(i, one)
  ROOT t = (s32[], s32[], f32[4]) tuple(j, n, y)
}
repeat {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], s32[], f32[4]) tuple(zero, n, x)
  w = (s32[], s32[], f32[4]) while(t), condition=below, body=next
  ROOT y = f32[4] get-tuple-element(w), index=2
}
"""


def chosen(i, v): return -v if i == 0 else v + v


def repeated(n, v):
    for i in range(n): v = chosen(i & 1, v)
    return v


x = f32(2, 4); i = np.array([0, 1], np.int32)
module('devices_call', 'a conditional in a computation that is called three times; each device takes its own branch', """
HloModule devices_call, num_partitions=2
""" + BRANCHES + """ENTRY main {
  i = s32[] parameter(0)
  x = f32[4] parameter(1)
  p = u32[] partition-id()
  k = s32[] convert(p)
  one = s32[] constant(1)
  other = s32[] subtract(one, k)
  a = f32[4] call(i, x), to_apply=choose
  b = f32[4] call(k, a), to_apply=choose
  c = f32[4] call(other, x), to_apply=choose
  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, c)
}""", {'0': i, '1': x}, [np.stack([chosen(i[d], x[d]) for d in range(2)]), np.stack([chosen(d, chosen(i[d], x[d])) for d in range(2)]), np.stack([chosen(1 - d, x[d]) for d in range(2)])])
x = f32(4); i = np.int32(0)
module('devices_call_alone', 'a conditional in the one call of a program for one device that asks which it is', """
HloModule devices_call_alone
""" + BRANCHES + """ENTRY main {
  i = s32[] parameter(0)
  x = f32[4] parameter(1)
  p = u32[] partition-id()
  ROOT a = f32[4] call(i, x), to_apply=choose
}""", {'0': np.array([i]), '1': x[None]}, [-x[None]])
x = f32(2, 4); n = np.array([3, 4], np.int32)
module('devices_call_loop', 'a loop with a conditional in a call in its body, called from main, from a branch and from the body of a loop', """
HloModule devices_call_loop, num_partitions=2
""" + BRANCHES + LOOP + """many {
  a = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(a), index=0
  x = f32[4] get-tuple-element(a), index=1
  ROOT y = f32[4] call(n, x), to_apply=repeat
}
few {
  x = f32[4] parameter(0)
  one = s32[] constant(1)
  ROOT y = f32[4] call(one, x), to_apply=repeat
}
outer_below {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT p = pred[] compare(i, three), direction=LT
}
outer_next {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  y = f32[4] call(i, x), to_apply=repeat
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[4]) tuple(j, y)
}
ENTRY main {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  a = f32[4] call(n, x), to_apply=repeat
  p = u32[] partition-id()
  k = s32[] convert(p)
  nx = (s32[], f32[4]) tuple(n, x)
  b = f32[4] conditional(k, nx, x), branch_computations={many, few}
  zero = s32[] constant(0)
  s = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(s), condition=outer_below, body=outer_next
  c = f32[4] get-tuple-element(w), index=1
  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, c)
}""", {'0': n, '1': x}, [np.stack([repeated(n[d], x[d]) for d in range(2)]), np.stack([repeated(n[0], x[0]), repeated(1, x[1])]), np.stack([repeated(2, repeated(1, v)) for v in x])])
x = f32(2, 4); n = np.array([2, 5], np.int32)
module('devices_wrapped', 'control flow, the device\'s number and a permute inside of fusions and of calls begun and ended apart', """
HloModule devices_wrapped, num_partitions=2
""" + BRANCHES + LOOP + """where {
  x = f32[4] parameter(0)
  p = u32[] partition-id()
  k = s32[] convert(p)
  y = f32[4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  ROOT z = f32[4] call(k, y), to_apply=choose
}
both {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  y = f32[4] fusion(x), kind=kCustom, calls=where
  ROOT z = f32[4] call(n, y), to_apply=repeat
}
ENTRY main {
  n = s32[] parameter(0)
  x = f32[4] parameter(1)
  a = f32[4] fusion(n, x), kind=kLoop, calls=repeat
  b = f32[4] fusion(x), kind=kOutput, calls=where
  s = ((s32[], f32[4]), f32[4], u32[]) async-start(n, x), calls=both
  u = ((s32[], f32[4]), f32[4], u32[]) async-update(s)
  c = f32[4] async-done(u)
  ROOT t = (f32[4], f32[4], f32[4]) tuple(a, b, c)
}""", {'0': n, '1': x}, [np.stack([repeated(n[d], x[d]) for d in range(2)]), np.stack([chosen(d, x[1 - d]) for d in range(2)]), np.stack([repeated(n[d], chosen(d, x[1 - d])) for d in range(2)])])

# Windows over the edges of split dims, where every value is as good as the padding.
inf, nan = np.inf, np.nan


def select_and_scatter(keeps, v, s, size, stride, low):
    out = np.zeros_like(v)
    for n in range(len(s)):
        inside = [i for i in range(n * stride - low, n * stride - low + size) if 0 <= i < len(v)]
        for i in inside[1:]:
            if not keeps(v[inside[0]], v[i]): inside[0] = i
        if inside: out[inside[0]] += s[n]
    return out


hostile = np.array([[-inf] * 6, [inf] * 6, [nan] * 6, [-inf, nan, inf, nan, -inf, -inf]], np.float32)
powers = np.array([1, 2, 4, 8, 16, 32, 64, 128], np.float32)
leaves, text = [], ''
for k, (direction, keeps) in enumerate([('GE', lambda a, b: a >= b), ('GT', lambda a, b: a > b), ('LE', lambda a, b: a <= b), ('LT', lambda a, b: a < b)]):
    leaves.append(np.stack([select_and_scatter(keeps, v, powers, 3, 1, 2) for v in hostile]))
    text += """  r%d = f32[4,6] select-and-scatter(x, s, zero), window={size=1x3 pad=0_0x2_2}, select=keeps%d, scatter=add, sharding={devices=[1,2]<=[2]}
""" % (k, k)
module('select_and_scatter_edges', 'padding is never chosen, also where no element is better than another', """
HloModule select_and_scatter_edges, num_partitions=2
""" + ADD + ''.join("""keeps%d {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT p = pred[] compare(a, b), direction=%s
}
""" % (k, d) for k, d in enumerate(('GE', 'GT', 'LE', 'LT'))) + """ENTRY main {
  x = f32[4,6] parameter(0), sharding={devices=[1,2]<=[2]}
  s = f32[4,8] parameter(1), sharding={devices=[1,2]<=[2]}
  zero = f32[] constant(0)
""" + text + """  ROOT t = (f32[4,6], f32[4,6], f32[4,6], f32[4,6]) tuple(r0, r1, r2, r3)
}""", {'0': hostile, '1': np.tile(powers, (4, 1))}, leaves)
x = np.array([[nan] * 7, [inf] * 7, [inf, nan, inf, nan, nan, inf, nan]], np.float32)
order = np.argsort(np.isnan(x), axis=1, kind='stable')[:, :2].astype(np.int32)
module('topk_edges', 'the least elements of a dim that is split unevenly are none of its padding', """
HloModule topk_edges, num_partitions=2
ENTRY main {
  x = f32[3,7] parameter(0), sharding={devices=[1,2]<=[2]}
  ROOT t = (f32[3,2], s32[3,2]) topk(x), k=2, largest=false
}""", {'0': x}, [np.take_along_axis(x, order, 1), order])
x = np.array([np.arange(19) % 7, [-inf] * 19], np.float16)
order = np.argsort(-x, axis=1, kind='stable')[:, :3].astype(np.int32)
module('topk_edges_f16', 'the largest elements of a dim of f16 that is split unevenly are none of its padding', """
HloModule topk_edges_f16, num_partitions=2
ENTRY main {
  x = f16[2,19] parameter(0), sharding={devices=[1,2]<=[2]}
  ROOT t = (f16[2,3], s32[2,3]) topk(x), k=3, largest=true
}""", {'0': x}, [np.take_along_axis(x, order, 1), order])
