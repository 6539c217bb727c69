# Opcodes that sum: dot, convolution, reduce, windows; linear algebra; sort; FFT.
a, b = f32(6, 5), f32(5, 4)
module('dot_plain', 'a matrix product whose contracted dim is split unevenly', """
HloModule dot_plain, num_partitions=4
ENTRY main {
  a = f32[6,5] parameter(0), sharding={devices=[2,2]<=[4]}
  b = f32[5,4] parameter(1), sharding={devices=[2,2]<=[4]}
  ROOT c = f32[6,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""", {'0': a, '1': b}, [(a.astype(float) @ b).astype(np.float32)])
a, b = f32(2, 3, 4, 5), f32(4, 2, 5, 6)
module('dot_batch', 'two batch dims in different orders, one contracted dim; results batch, left, right', """
HloModule dot_batch, num_partitions=4
ENTRY main {
  a = f32[2,3,4,5] parameter(0), sharding={devices=[2,1,2,1]<=[4]}
  b = f32[4,2,5,6] parameter(1)
  c = f32[2,4,3,6] dot(a, b), lhs_batch_dims={0,2}, rhs_batch_dims={1,0}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  v = f32[3] constant({1, 2, 3})
  d = f32[2,4,5] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[] dot(v, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  f = f32[3,3] dot(v, v), lhs_contracting_dims={}, rhs_contracting_dims={}
  ROOT t = (f32[2,4,3,6], f32[2,4,5], f32[], f32[3,3]) tuple(c, d, e, f)
}""", {'0': a, '1': b}, [np.einsum('bikc,kbcj->bkij', a.astype(float), b).astype(np.float32), np.einsum('bikc,i->bkc', a.astype(float), [1, 2, 3]).astype(np.float32), np.float32(14),
                         np.outer([1, 2, 3], [1, 2, 3]).astype(np.float32)])
a, b = from_bf16(bf16(f32(3, 8))), from_bf16(bf16(f32(8, 2)))
i, j = ints(3, 8, dtype=np.int8, low=-128, high=128), ints(8, 2, dtype=np.int8, low=-128, high=128)
module('dot_preferred', 'results wider than the operands: bf16 to f32, s8 to s32', """
HloModule dot_preferred, num_partitions=2
ENTRY main {
  a = bf16[3,8] parameter(0), sharding={devices=[1,2]<=[2]}
  b = bf16[8,2] parameter(1)
  i = s8[3,8] parameter(2)
  j = s8[8,2] parameter(3)
  c = f32[3,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  k = s32[3,2] dot(i, j), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[3,2], s32[3,2]) tuple(c, k)
}""", {'0': bf16(a), '1': bf16(b), '2': i, '3': j}, [(a.astype(float) @ b).astype(np.float32), i.astype(np.int32) @ j.astype(np.int32)])
a, b = f32(7, 3), f32(3, 3, 4); sizes = np.array([2, 4, 1], np.int32)
out = np.zeros((7, 4)); at = 0
for g, n in enumerate(sizes): out[at:at + n] = a[at:at + n].astype(float) @ b[g]; at += n
module('ragged_dot', 'rows in groups of given sizes, a matrix for each group', """
HloModule ragged_dot
ENTRY main {
  a = f32[7,3] parameter(0)
  b = f32[3,3,4] parameter(1)
  g = s32[3] parameter(2)
  ROOT c = f32[7,4] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
}""", {'0': a, '1': b, '2': sizes}, [out.astype(np.float32)])


def conv(x, k, stride=None, pad=None, lhs=None, rhs=None, groups=1, batch_groups=1, reverse=None):
    """x: batch, feature, spatial...; k: out, in, spatial...; plain loops from the definition."""
    n = x.ndim - 2
    stride, lhs, rhs = (v or [1] * n for v in (stride, lhs, rhs)); pad = pad or [(0, 0)] * n; reverse = reverse or [0] * n
    base = [(d - 1) * l + 1 if d else 0 for d, l in zip(x.shape[2:], lhs)]
    win = [(d - 1) * r + 1 for d, r in zip(k.shape[2:], rhs)]
    out = [max(0, (b + p[0] + p[1] - w) // s + 1) if b + p[0] + p[1] >= w else 0 for b, p, w, s in zip(base, pad, win, stride)]
    B, O, I = x.shape[0] // batch_groups, k.shape[0], k.shape[1]
    y = np.zeros([B, O] + out, np.result_type(x, k, np.float64) if x.dtype.kind != 'i' else np.int64)
    for b, o, at in itertools.product(range(B), range(O), np.ndindex(*out)):
        total = 0
        feature = o // (O // groups) * I
        batch = b + o // (O // batch_groups) * B
        for tap in np.ndindex(*k.shape[2:]):
            pos = [a * s - p[0] + t * r for a, s, p, t, r in zip(at, stride, pad, tap, rhs)]
            if any(q < 0 or q >= w or q % l for q, w, l in zip(pos, base, lhs)): continue
            q = tuple(p // l for p, l in zip(pos, lhs))
            kk = tuple(d - 1 - t if v else t for d, t, v in zip(k.shape[2:], tap, reverse))
            for i in range(I): total += y.dtype.type(x[(batch, feature + i) + q]) * y.dtype.type(k[(o, i) + kk])
        y[(b, o) + at] = total
    return y


def nhwc(x): return np.moveaxis(x, 1, -1)
def hwio(k): return np.moveaxis(np.moveaxis(k, 0, -1), 0, -2)


x, k = f32(2, 3, 6, 5), f32(4, 3, 3, 2)
module('conv_2d', 'two spatial dims, features last; strides and padding; the batch split', """
HloModule conv_2d, num_partitions=2
ENTRY main {
  x = f32[2,6,5,3] parameter(0), sharding={devices=[2,1,1,1]<=[2]}
  k = f32[3,2,3,4] parameter(1)
  ROOT y = f32[2,3,4,4] convolution(x, k), window={size=3x2 stride=2x1 pad=1_1x0_0}, dim_labels=b01f_01io->b01f
}""", {'0': nhwc(x), '1': hwio(k)}, [nhwc(conv(x, k, [2, 1], [(1, 1), (0, 0)])).astype(np.float32)])
x, k = f32(1, 2, 8, 6), f32(2, 2, 3, 3)
module('conv_spatial', 'a spatial dim split over the devices: neighbours exchange their edges', """
HloModule conv_spatial, num_partitions=4
ENTRY main {
  x = f32[1,2,8,6] parameter(0), sharding={devices=[1,1,4,1]<=[4]}
  k = f32[2,2,3,3] parameter(1)
  ROOT y = f32[1,2,8,6] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01
}""", {'0': x, '1': k}, [conv(x, k, pad=[(1, 1), (1, 1)]).astype(np.float32)])
x, k = f32(2, 2, 7), f32(3, 2, 3)
module('conv_1d_dilated', 'dilation of base and of window, negative padding, reversal', """
HloModule conv_1d_dilated
ENTRY main {
  x = f32[2,2,7] parameter(0)
  k = f32[3,2,3] parameter(1)
  a = f32[2,3,3] convolution(x, k), window={size=3 rhs_dilate=2}, dim_labels=bf0_oi0->bf0
  b = f32[2,3,13] convolution(x, k), window={size=3 pad=1_1 lhs_dilate=2}, dim_labels=bf0_oi0->bf0
  c = f32[2,3,4] convolution(x, k), window={size=3 pad=-1_0}, dim_labels=bf0_oi0->bf0
  d = f32[2,3,5] convolution(x, k), window={size=3 rhs_reversal=1}, dim_labels=bf0_oi0->bf0
  ROOT t = (f32[2,3,3], f32[2,3,13], f32[2,3,4], f32[2,3,5]) tuple(a, b, c, d)
}""", {'0': x, '1': k}, [v.astype(np.float32) for v in (conv(x, k, rhs=[2]), conv(x, k, pad=[(1, 1)], lhs=[2]), conv(x, k, pad=[(-1, 0)]), conv(x, k, reverse=[1]))])
x, k, kd, kb = f32(2, 4, 5, 5), f32(6, 2, 3, 3), f32(4, 1, 3, 3), f32(6, 4, 2, 2)
module('conv_groups', 'groups of features, one feature a group (depthwise), groups of the batch', """
HloModule conv_groups, num_partitions=2
ENTRY main {
  x = f32[2,4,5,5] parameter(0)
  k = f32[6,2,3,3] parameter(1), sharding={devices=[2,1,1,1]<=[2]}
  d = f32[4,1,3,3] parameter(2)
  e = f32[6,4,2,2] parameter(3)
  a = f32[2,6,3,3] convolution(x, k), window={size=3x3}, dim_labels=bf01_oi01->bf01, feature_group_count=2
  b = f32[2,4,5,5] convolution(x, d), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01, feature_group_count=4
  c = f32[1,6,4,4] convolution(x, e), window={size=2x2}, dim_labels=bf01_oi01->bf01, batch_group_count=2
  ROOT t = (f32[2,6,3,3], f32[2,4,5,5], f32[1,6,4,4]) tuple(a, b, c)
}""", {'0': x, '1': k, '2': kd, '3': kb}, [v.astype(np.float32) for v in (conv(x, k, groups=2), conv(x, kd, pad=[(1, 1), (1, 1)], groups=4), conv(x, kb, batch_groups=2))])
x, k, m, w = ints(1, 2, 3, 3, 3), ints(2, 2, 2, 2, 2), f32(3, 4), f32(4, 5)
module('conv_3d', 'three spatial dims on integers; none at all is a product of matrices', """
HloModule conv_3d
ENTRY main {
  x = s32[1,2,3,3,3] parameter(0)
  k = s32[2,2,2,2,2] parameter(1)
  m = f32[3,4] parameter(2)
  w = f32[4,5] parameter(3)
  a = s32[1,2,2,2,2] convolution(x, k), window={size=2x2x2}, dim_labels=bf012_oi012->bf012
  b = f32[3,5] convolution(m, w), dim_labels=bf_io->bf
  ROOT t = (s32[1,2,2,2,2], f32[3,5]) tuple(a, b)
}""", {'0': x, '1': k, '2': m, '3': w}, [conv(x, k).astype(np.int32), (m.astype(float) @ w).astype(np.float32)])

x = f32(4, 6, 3)
module('reduce', 'sums, maxima, products and a computation of our own, over split and whole dims', """
HloModule reduce, num_partitions=4
""" + ADD + MAX + """mul {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] multiply(x, y)
}
square_sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  a = f32[] abs(x)
  b = f32[] abs(y)
  ROOT z = f32[] maximum(a, b)
}
ENTRY main {
  x = f32[4,6,3] parameter(0), sharding={devices=[2,2,1]<=[4]}
  zero = f32[] constant(0)
  one = f32[] constant(1)
  low = f32[] constant(-inf)
  a = f32[4,3] reduce(x, zero), dimensions={1}, to_apply=add
  b = f32[6] reduce(x, low), dimensions={0,2}, to_apply=max
  c = f32[4,6] reduce(x, one), dimensions={2}, to_apply=mul
  d = f32[] reduce(x, zero), dimensions={0,1,2}, to_apply=square_sum
  e = f32[4,6,3] reduce(x, zero), dimensions={}, to_apply=add
  ROOT t = (f32[4,3], f32[6], f32[4,6], f32[], f32[4,6,3]) tuple(a, b, c, d, e)
}""", {'0': x}, [x.astype(float).sum(1).astype(np.float32), x.max((0, 2)), x.astype(float).prod(2).astype(np.float32), np.abs(x).max(), x])
x = ints(5, 4, low=-3, high=4).astype(np.float32)
module('argmax', 'a variadic reduce: the first index of the largest, and the largest', """
HloModule argmax, num_partitions=2
f {
  av = f32[] parameter(0)
  ai = s32[] parameter(1)
  bv = f32[] parameter(2)
  bi = s32[] parameter(3)
  gt = pred[] compare(av, bv), direction=GT
  eq = pred[] compare(av, bv), direction=EQ
  lt = pred[] compare(ai, bi), direction=LT
  tie = pred[] and(eq, lt)
  keep = pred[] or(gt, tie)
  v = f32[] select(keep, av, bv)
  i = s32[] select(keep, ai, bi)
  ROOT t = (f32[], s32[]) tuple(v, i)
}
ENTRY main {
  x = f32[5,4] parameter(0), sharding={devices=[2,1]<=[2]}
  i = s32[5,4] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  none = s32[] constant(2147483647)
  ROOT r = (f32[4], s32[4]) reduce(x, i, low, none), dimensions={0}, to_apply=f
}""", {'0': x}, [x.max(0), x.argmax(0).astype(np.int32)])
p = rng.integers(0, 2, (3, 5)).astype(bool); u = ints(3, 5, low=0, high=255, dtype=np.uint8)
module('reduce_integers', 'and, or, xor, unsigned maximum, wrapping sums', """
HloModule reduce_integers, num_partitions=3
all {
  x = pred[] parameter(0)
  y = pred[] parameter(1)
  ROOT z = pred[] and(x, y)
}
any {
  x = pred[] parameter(0)
  y = pred[] parameter(1)
  ROOT z = pred[] or(x, y)
}
parity {
  x = u8[] parameter(0)
  y = u8[] parameter(1)
  ROOT z = u8[] xor(x, y)
}
plus {
  x = u8[] parameter(0)
  y = u8[] parameter(1)
  ROOT z = u8[] add(x, y)
}
ENTRY main {
  p = pred[3,5] parameter(0), sharding={devices=[3,1]<=[3]}
  u = u8[3,5] parameter(1), sharding={devices=[1,3]<=[3]}
  yes = pred[] constant(true)
  no = pred[] constant(false)
  zero = u8[] constant(0)
  a = pred[5] reduce(p, yes), dimensions={0}, to_apply=all
  b = pred[5] reduce(p, no), dimensions={0}, to_apply=any
  c = u8[3] reduce(u, zero), dimensions={1}, to_apply=parity
  d = u8[3] reduce(u, zero), dimensions={1}, to_apply=plus
  ROOT t = (pred[5], pred[5], u8[3], u8[3]) tuple(a, b, c, d)
}""", {'0': p, '1': u}, [p.all(0), p.any(0), np.bitwise_xor.reduce(u, 1), u.sum(1, dtype=np.uint8)])


def windows(x, size, stride=None, pad=None, lhs=None, rhs=None, f=None, init=0):
    n = x.ndim
    stride, lhs, rhs = (v or [1] * n for v in (stride, lhs, rhs)); pad = pad or [(0, 0)] * n
    base = [(d - 1) * l + 1 if d else 0 for d, l in zip(x.shape, lhs)]
    out = [max(0, (b + p[0] + p[1] - ((s - 1) * r + 1)) // t + 1) for b, p, s, r, t in zip(base, pad, size, rhs, stride)]
    y = np.zeros(out, x.dtype)
    for at in np.ndindex(*out):
        v = init
        for tap in np.ndindex(*size):
            pos = [a * t - p[0] + k * r for a, t, p, k, r in zip(at, stride, pad, tap, rhs)]
            if all(0 <= q < w and q % l == 0 for q, w, l in zip(pos, base, lhs)): v = f(v, x[tuple(q // l for q, l in zip(pos, lhs))])
        y[at] = v
    return y


x = f32(6, 5)
plus, big = (lambda a, b: a + b), max
module('reduce_window', 'pooling: maximum with strides, sums with padding, dilations of both kinds, cumulative sums', """
HloModule reduce_window, num_partitions=2
""" + ADD + MAX + """ENTRY main {
  x = f32[6,5] parameter(0), sharding={devices=[2,1]<=[2]}
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  a = f32[3,2] reduce-window(x, low), window={size=2x3 stride=2x2}, to_apply=max
  b = f32[6,5] reduce-window(x, zero), window={size=3x3 pad=1_1x1_1}, to_apply=add
  c = f32[4,5] reduce-window(x, zero), window={size=2x1 rhs_dilate=2x1}, to_apply=add
  d = f32[10,5] reduce-window(x, zero), window={size=2x1 lhs_dilate=2x1}, to_apply=add
  e = f32[6,5] reduce-window(x, zero), window={size=6x1 pad=5_0x0_0}, to_apply=add
  ROOT t = (f32[3,2], f32[6,5], f32[4,5], f32[10,5], f32[6,5]) tuple(a, b, c, d, e)
}""", {'0': x}, [windows(x, [2, 3], [2, 2], f=big, init=-np.inf), windows(x, [3, 3], pad=[(1, 1), (1, 1)], f=plus), windows(x, [2, 1], rhs=[2, 1], f=plus),
                 windows(x, [2, 1], lhs=[2, 1], f=plus), x.astype(float).cumsum(0).astype(np.float32)])
x = f32(4, 6); s = f32(2, 3)
out = np.zeros((4, 6))
for i, j in np.ndindex(2, 3):
    w = x[2 * i:2 * i + 2, 2 * j:2 * j + 2]; m = np.unravel_index(w.argmax(), w.shape)
    out[2 * i + m[0], 2 * j + m[1]] += s[i, j]
module('select_and_scatter', 'the gradient of a maximum pooling: each source value goes to its window\'s largest', """
HloModule select_and_scatter, num_partitions=2
ge {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = pred[] compare(x, y), direction=GE
}
""" + ADD + """ENTRY main {
  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  s = f32[2,3] parameter(1)
  zero = f32[] constant(0)
  ROOT r = f32[4,6] select-and-scatter(x, s, zero), window={size=2x2 stride=2x2}, select=ge, scatter=add
}""", {'0': x, '1': s}, [out.astype(np.float32)])

k = ints(3, 8, low=0, high=4); v = f32(3, 8)
order = np.argsort(k, 1, kind='stable')
module('sort_pairs', 'a stable sort of values by integer keys, along a whole dim with rows split', """
HloModule sort_pairs, num_partitions=3
lt {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY main {
  k = s32[3,8] parameter(0), sharding={devices=[3,1]<=[3]}
  v = f32[3,8] parameter(1)
  ROOT s = (s32[3,8], f32[3,8]) sort(k, v), dimensions={1}, is_stable=true, to_apply=lt
}""", {'0': k, '1': v}, [np.take_along_axis(k, order, 1), np.take_along_axis(v, order, 1)])
x = np.array([3, np.nan, -1, np.inf, -0.0, 0.0, -np.inf, 2], np.float32)
module('sort_total_order', 'a descending sort with NaN and both zeros, in total order; an ascending one along dim 0', """
HloModule sort_total_order, num_partitions=2
gt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER
}
lt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[8] parameter(0)
  y = f32[6,2] parameter(1), sharding={devices=[2,1]<=[2]}
  a = f32[8] sort(x), dimensions={0}, to_apply=gt
  b = f32[6,2] sort(y), dimensions={0}, to_apply=lt
  ROOT t = (f32[8], f32[6,2]) tuple(a, b)
}""", {'0': x, '1': (y := f32(6, 2))}, [np.array([np.nan, np.inf, 3, 2, 0.0, -0.0, -1, -np.inf], np.float32), np.sort(y, 0)])
x = f32(4, 10)
order = np.argsort(-x, 1, kind='stable')[:, :3]
module('topk', 'the k largest of each row with their indices, as opcode and as custom call; the k smallest', """
HloModule topk, num_partitions=2
gt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
ENTRY main {
  x = f32[4,10] parameter(0), sharding={devices=[2,1]<=[2]}
  a = (f32[4,3], s32[4,3]) topk(x), k=3, largest=true
  b = (f32[4,3], s32[4,3]) custom-call(x), custom_call_target="TopK", called_computations={gt}
  av = f32[4,3] get-tuple-element(a), index=0
  ai = s32[4,3] get-tuple-element(a), index=1
  bv = f32[4,3] get-tuple-element(b), index=0
  bi = s32[4,3] get-tuple-element(b), index=1
  ROOT t = (f32[4,3], s32[4,3], f32[4,3], s32[4,3]) tuple(av, ai, bv, bi)
}""", {'0': x}, [np.take_along_axis(x, order, 1), order.astype(np.int32)] * 2)

m = f32(2, 4, 4).astype(float); spd = (m @ m.transpose(0, 2, 1) + 4 * np.eye(4)).astype(np.float32); rhs = f32(2, 4, 3)
L = np.linalg.cholesky(spd.astype(float))
module('cholesky_solve', 'a Cholesky factor, and triangular systems from both sides', """
HloModule cholesky_solve, num_partitions=2
ENTRY main {
  a = f32[2,4,4] parameter(0), sharding={devices=[2,1,1]<=[2]}
  b = f32[2,4,3] parameter(1)
  l = f32[2,4,4] cholesky(a), lower=true
  n = s32[4,4] iota(), iota_dimension=0
  o = s32[4,4] iota(), iota_dimension=1
  p = pred[4,4] compare(n, o), direction=GE
  q = pred[2,4,4] broadcast(p), dimensions={1,2}
  z = f32[] constant(0)
  z3 = f32[2,4,4] broadcast(z), dimensions={}
  low = f32[2,4,4] select(q, l, z3)
  y = f32[2,4,3] triangular-solve(low, b), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE
  x = f32[2,4,3] triangular-solve(low, y), left_side=true, lower=true, unit_diagonal=false, transpose_a=TRANSPOSE
  bt = f32[2,3,4] transpose(b), dimensions={0,2,1}
  w = f32[2,3,4] triangular-solve(low, bt), left_side=false, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE
  ROOT t = (f32[2,4,4], f32[2,4,3], f32[2,4,3], f32[2,3,4]) tuple(low, y, x, w)
}""", {'0': spd, '1': rhs}, [L.astype(np.float32), np.linalg.solve(L, rhs).astype(np.float32), np.linalg.solve(spd.astype(float), rhs).astype(np.float32),
                             np.stack([np.linalg.solve((np.tril(L[i], -1) + np.eye(4)).T, rhs[i].astype(float)).T for i in range(2)]).astype(np.float32)])
x = (f32(3, 10) + 1j * f32(3, 10)).astype(np.complex64); r = f32(2, 7, 6)
R = np.fft.rfftn(r.astype(float), axes=(1, 2))
module('fft', 'the four types; lengths that are no powers of two; two dims at once', """
HloModule fft, num_partitions=3
ENTRY main {
  x = c64[3,10] parameter(0), sharding={devices=[3,1]<=[3]}
  r = f32[2,7,6] parameter(1)
  a = c64[3,10] fft(x), fft_type=FFT, fft_length={10}
  b = c64[3,10] fft(x), fft_type=IFFT, fft_length={10}
  c = c64[2,7,4] fft(r), fft_type=RFFT, fft_length={7,6}
  d = f32[2,7,6] fft(c), fft_type=IRFFT, fft_length={7,6}
  ROOT t = (c64[3,10], c64[3,10], c64[2,7,4], f32[2,7,6]) tuple(a, b, c, d)
}""", {'0': x, '1': r}, [np.fft.fft(x).astype(np.complex64), np.fft.ifft(x).astype(np.complex64), R.astype(np.complex64), r])
x, g, b = f32(4, 3, 5), np.abs(f32(3)) + 0.5, f32(3)
X = x.astype(float); mean, var = X.mean((0, 2)), X.var((0, 2)); eps = 0.001
def col(v): return np.asarray(v, float)[None, :, None]
norm = (X - col(mean)) / np.sqrt(col(var) + eps); train = norm * col(g) + col(b)
im, iv = f32(3), np.abs(f32(3)) + 0.1
inference = (X - col(im)) / np.sqrt(col(iv) + eps) * col(g) + col(b)
dy = f32(4, 3, 5); D = dy.astype(float); N = 20
dg, db = (D * norm).sum((0, 2)), D.sum((0, 2))
dx = col(g) / np.sqrt(col(var) + eps) * (D - col(db) / N - norm * col(dg) / N)
module('batch_norm', 'training, inference and gradient, features in the middle', """
HloModule batch_norm, num_partitions=2
ENTRY main {
  x = f32[4,3,5] parameter(0), sharding={devices=[2,1,1]<=[2]}
  g = f32[3] parameter(1)
  b = f32[3] parameter(2)
  m = f32[3] parameter(3)
  v = f32[3] parameter(4)
  d = f32[4,3,5] parameter(5)
  a = (f32[4,3,5], f32[3], f32[3]) batch-norm-training(x, g, b), epsilon=0.001, feature_index=1
  a0 = f32[4,3,5] get-tuple-element(a), index=0
  a1 = f32[3] get-tuple-element(a), index=1
  a2 = f32[3] get-tuple-element(a), index=2
  i = f32[4,3,5] batch-norm-inference(x, g, b, m, v), epsilon=0.001, feature_index=1
  c = (f32[4,3,5], f32[3], f32[3]) batch-norm-grad(x, g, a1, a2, d), epsilon=0.001, feature_index=1
  c0 = f32[4,3,5] get-tuple-element(c), index=0
  c1 = f32[3] get-tuple-element(c), index=1
  c2 = f32[3] get-tuple-element(c), index=2
  ROOT t = (f32[4,3,5], f32[3], f32[3], f32[4,3,5], f32[4,3,5], f32[3], f32[3]) tuple(a0, a1, a2, i, c0, c1, c2)
}""", {'0': x, '1': g.astype(np.float32), '2': b, '3': im, '4': iv.astype(np.float32), '5': dy}, [v.astype(np.float32) for v in (train, mean, var, inference, dx, dg, db)])
