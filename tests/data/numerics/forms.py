# Forms that other readers take: mixed products, bitcasts between layouts, operands bound late, collectives
# over one replica, scaled products, splats.
forms = np.random.default_rng(14)


def small(*shape, dtype=np.float32, low=-4, high=5):
    return forms.integers(low, high, shape).astype(dtype)


# Floats are truncated before a product of integers; the numbers are exact in every type.
a8, b8, bu = small(4, 6, dtype=np.int8), small(6, 5, dtype=np.int8), small(6, 5, dtype=np.uint8, low=0)
af, bf = (small(4, 6) + np.float32(0.75)), (small(6, 5) - np.float32(0.25))
image, kernel = small(1, 6, 6, 2, dtype=np.int8), small(3, 3, 2, 3)


def conv_valid(x, k):
    out = np.zeros((1, 4, 4, 3), x.dtype)
    for i in range(3):
        for j in range(3):
            out += np.einsum('bhwc,co->bhwo', x[:, i:i + 4, j:j + 4], k[i, j]).astype(x.dtype)
    return out


module('mixed_products', 'dots and convolutions of two element types; the declared result says what they are computed in', """
HloModule mixed_products, num_partitions=2
ENTRY main {
  a = s8[4,6] parameter(0), sharding={devices=[1,2]<=[2]}
  b = s8[6,5] parameter(1)
  u = u8[6,5] parameter(2)
  f = f32[4,6] parameter(3), sharding={devices=[1,2]<=[2]}
  g = f32[6,5] parameter(4), sharding={devices=[2,1]<=[2]}
  x = s8[1,6,6,2] parameter(5), sharding={devices=[1,2,1,1]<=[2]}
  k = f32[3,3,2,3] parameter(6)
  r0 = f32[4,5] dot(a, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r1 = s32[4,5] dot(a, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r2 = s32[4,5] dot(f, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r3 = s32[4,5] dot(f, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r4 = f32[1,4,4,3] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f
  r5 = s32[1,4,4,3] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f
  ROOT t = (f32[4,5], s32[4,5], s32[4,5], s32[4,5], f32[1,4,4,3], s32[1,4,4,3]) tuple(r0, r1, r2, r3, r4, r5)
}
""", {'0': a8, '1': b8, '2': bu, '3': af, '4': bf, '5': image, '6': kernel},
       [a8.astype(np.float32) @ bf, a8.astype(np.int32) @ bu.astype(np.int32),
        np.trunc(af).astype(np.int32) @ np.trunc(bf).astype(np.int32),
        np.trunc(af).astype(np.int32) @ b8.astype(np.int32),
        conv_valid(image.astype(np.float32), kernel), conv_valid(image.astype(np.int32), kernel.astype(np.int32))])


def lies(x, minor_to_major):
    """The elements in the order in which they lie."""
    return x.transpose(minor_to_major[::-1]).reshape(-1)


def laid(flat, dims, minor_to_major):
    order = minor_to_major[::-1]
    return np.ascontiguousarray(flat.reshape([dims[d] for d in order]).transpose(np.argsort(order)))


x = small(4, 6)
y = small(4, 3, 2)
module('bitcast_layouts', 'a bitcast keeps the elements in the order in which they lie', """
HloModule bitcast_layouts, num_partitions=2
ENTRY main {
  x = f32[4,6]{0,1} parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[4,3,2]{1,2,0:T(8,128)} parameter(1), sharding={devices=[1,1,2]<=[2]}
  a = f32[6,4]{1,0} bitcast(x)
  b = f32[6,4]{0,1} bitcast(x)
  c = f32[24]{0} bitcast(x)
  d = f32[4,6]{1,0} bitcast(y)
  e = f32[2,4,3] {0,1,2} bitcast(y)
  f = s32[2,12]{0,1} bitcast(y)
  ROOT t = (f32[6,4], f32[6,4], f32[24], f32[4,6], f32[2,4,3], s32[2,12]) tuple(a, b, c, d, e, f)
}
""", {'0': x, '1': y},
       [laid(lies(x, [0, 1]), [6, 4], [1, 0]), laid(lies(x, [0, 1]), [6, 4], [0, 1]), lies(x, [0, 1]),
        laid(lies(y, [1, 2, 0]), [4, 6], [1, 0]), laid(lies(y, [1, 2, 0]), [2, 4, 3], [0, 1, 2]),
        laid(lies(y, [1, 2, 0]), [2, 12], [0, 1]).view(np.int32)])

p, q, r = small(4), small(4), small(4)
module('async_bound_later', 'updates bind the last operands of an asynchronous call', """
HloModule async_bound_later, num_partitions=2
fused {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  r = f32[4] parameter(2)
  m = f32[4] multiply(p, q)
  ROOT s = f32[4] subtract(m, r)
}
ENTRY main {
  p = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  q = f32[4] parameter(1)
  r = f32[4] parameter(2)
  s = ((f32[4]), f32[4], s32[]) async-start(p), calls=fused
  u = ((f32[4], f32[4]), f32[4], s32[]) async-update(s, q)
  v = ((f32[4], f32[4], f32[4]), f32[4], s32[]) async-update(u, r)
  w = ((f32[4], f32[4], f32[4]), f32[4], s32[]) async-update(v)
  d = f32[4] async-done(w)
  a = ((f32[4], f32[4], f32[4]), f32[4], s32[]) async-start(), calls=fused
  b = ((f32[4], f32[4], f32[4]), f32[4], s32[]) async-update(a, q, r)
  c = ((f32[4], f32[4], f32[4]), f32[4], s32[]) async-update(b, p)
  e = f32[4] async-done(c)
  ROOT t = (f32[4], f32[4]) tuple(d, e)
}
""", {'0': p, '1': q, '2': r}, [p * q - r, q * r - p])

x = small(8, 4)
module('one_replica', 'collectives without a channel are over replicas, of which there is one', """
HloModule one_replica, num_partitions=2
""" + ADD + """ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  a = f32[8,4] all-reduce(x), replica_groups={}, to_apply=add
  b = f32[8,4] all-gather(a), replica_groups={}, dimensions={0}
  c = f32[8,4] reduce-scatter(b), replica_groups={{0}}, dimensions={1}, to_apply=add
  d = f32[8,4] all-to-all(c), replica_groups={{0}}, dimensions={0}
  e = (f32[8,4]) all-to-all(d), replica_groups={{0}}
  f = f32[8,4] get-tuple-element(e), index=0
  g = f32[8,4] collective-permute(f), source_target_pairs={{0,0}}
  h = f32[8,4] collective-permute(f), source_target_pairs={}
  i = f32[8,4] collective-broadcast(g), replica_groups={{0}}
  j = u32[] replica-id()
  k = (f32[8,4], f32[8,4]) all-reduce(i, x), replica_groups=[1,1]<=[1], to_apply=add
  l = f32[8,4] get-tuple-element(k), index=1
  m = f32[8,4] add(i, l)
  n = (f32[8,4], f32[8,4]) all-gather-start(m), replica_groups={{0}}, dimensions={1}
  n1 = f32[8,4] all-gather-done(n)
  n2 = (f32[8,4], f32[8,4], u32[]) collective-permute-start(n1), source_target_pairs={{0,0}}
  o = f32[8,4] collective-permute-done(n2)
  ROOT t = (f32[8,4], f32[8,4], u32[]) tuple(o, h, j)
}
""", {'0': x}, [x + x, np.zeros_like(x), np.uint32(0)])

a, b = small(4, 8), small(6, 8)
sa, sb = np.exp2(small(4, 2)), np.exp2(small(6, 4))
module('scaled_dot', 'a product of stored values with a scale for each block of them', """
HloModule scaled_dot, num_partitions=2
ENTRY main {
  a = f32[4,8] parameter(0), sharding={devices=[2,1]<=[2]}
  b = f32[6,8] parameter(1)
  sa = f32[4,2] parameter(2)
  sb = f32[6,4] parameter(3)
  a8 = f8e4m3fn[4,8] convert(a)
  b8 = f8e4m3fn[6,8] convert(b)
  sa8 = f8e8m0fnu[4,2] convert(sa)
  sb8 = f8e8m0fnu[6,4] convert(sb)
  ROOT r = f32[4,6] scaled-dot(a8, b8, sa8, sb8), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
""", {'0': a, '1': b, '2': sa, '3': sb}, [(a * np.repeat(sa, 4, 1)) @ (b * np.repeat(sb, 2, 1)).T])

x = small(6, 4)
module('dynamic_reshape', 'a reshape to sizes that are values, here the full ones; a splat', """
HloModule dynamic_reshape, num_partitions=2
ENTRY main {
  x = f32[6,4] parameter(0), sharding={devices=[2,1]<=[2]}
  h = s32[] constant(8)
  w = s32[] constant(3)
  r = f32[<=8,3] dynamic-reshape(x, h, w)
  s = f32[8,3] constant(0.5)
  ROOT m = f32[8,3] multiply(r, s)
}
""", {'0': x}, [x.reshape(8, 3) * np.float32(0.5)])
