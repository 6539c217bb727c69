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
