# Opcodes that move elements: shapes, slices, gathers, scatters.
module('iota_broadcast', 'iota of several types along each dim; broadcast into named dims; broadcast of scalars', """
HloModule iota_broadcast
ENTRY main {
  a = s32[2,3] iota(), iota_dimension=1
  b = f32[3,2] iota(), iota_dimension=0
  c = c64[3] iota(), iota_dimension=0
  d = u8[4] iota(), iota_dimension=0
  p = f32[3] parameter(0)
  e = f32[2,3,2] broadcast(p), dimensions={1}
  s = f32[] constant(2.5)
  f = f32[2,0,3] broadcast(s), dimensions={}
  g = bf16[3] iota(), iota_dimension=0
  ROOT t = (s32[2,3], f32[3,2], c64[3], u8[4], f32[2,3,2], f32[2,0,3], bf16[3]) tuple(a, b, c, d, e, f, g)
}""", {'0': (p := f32(3))}, [np.tile(np.arange(3, dtype=np.int32), (2, 1)), np.repeat(np.arange(3, dtype=np.float32)[:, None], 2, 1), np.arange(3).astype(np.complex64),
                             np.arange(4, dtype=np.uint8), np.broadcast_to(p[None, :, None], (2, 3, 2)), np.zeros((2, 0, 3), np.float32), bf16([0, 1, 2])])
x = f32(4, 3, 2)
module('rearrange', 'reshape, transpose, reverse, copy, bitcast, concatenate of three, over split dims', """
HloModule rearrange, num_partitions=4
ENTRY main {
  x = f32[4,3,2] parameter(0), sharding={devices=[2,1,2]<=[4]}
  a = f32[2,12] reshape(x)
  b = f32[2,4,3] transpose(x), dimensions={2,0,1}
  c = f32[4,3,2] reverse(x), dimensions={0,2}
  d = f32[4,3,2] copy(x)
  e = f32[24] bitcast(x)
  y = f32[4,1,2] slice(x), slice={[0:4], [1:2], [0:2]}
  f = f32[4,7,2] concatenate(x, y, x), dimensions={1}
  g = f32[12,3,2] concatenate(x, c, x), dimensions={0}
  ROOT t = (f32[2,12], f32[2,4,3], f32[4,3,2], f32[4,3,2], f32[24], f32[4,7,2], f32[12,3,2]) tuple(a, b, c, d, e, f, g)
}""", {'0': x}, [x.reshape(2, 12), x.transpose(2, 0, 1), x[::-1, :, ::-1], x, x.ravel(), np.concatenate([x, x[:, 1:2], x], 1), np.concatenate([x, x[::-1, :, ::-1], x], 0)])


def pad(x, value, spec):
    for axis, (low, high, interior) in enumerate(spec):
        n = x.shape[axis]
        shape = list(x.shape); shape[axis] = max(0, n + max(0, n - 1) * interior)
        wide = np.full(shape, value, x.dtype)
        index = [slice(None)] * x.ndim; index[axis] = slice(0, None, interior + 1)
        if n: wide[tuple(index)] = x
        shape[axis] = max(0, wide.shape[axis] + low + high)
        out = np.full(shape, value, x.dtype)
        for k in range(shape[axis]):
            if 0 <= k - low < wide.shape[axis]:
                to = [slice(None)] * x.ndim; to[axis] = k
                at = [slice(None)] * x.ndim; at[axis] = k - low
                out[tuple(to)] = wide[tuple(at)]
        x = out
    return x


x = f32(4, 5)
module('pad', 'padding of all kinds: low, high, interior, negative, and of nothing', """
HloModule pad, num_partitions=4
ENTRY main {
  x = f32[4,5] parameter(0), sharding={devices=[4,1]<=[4]}
  v = f32[] parameter(1)
  a = f32[7,9] pad(x, v), padding=1_2x0_0_1
  b = f32[2,4] pad(x, v), padding=-1_-1x-2_1
  c = f32[9,3] pad(x, v), padding=-1_3_1x-1_-1
  e = f32[0,5] slice(x), slice={[2:2], [0:5]}
  d = f32[3,5] pad(e, v), padding=2_1x0_0
  ROOT t = (f32[7,9], f32[2,4], f32[9,3], f32[3,5]) tuple(a, b, c, d)
}""", {'0': x, '1': np.float32(9.5)}, [pad(x, 9.5, [(1, 2, 0), (0, 0, 1)]), pad(x, 9.5, [(-1, -1, 0), (-2, 1, 0)]), pad(x, 9.5, [(-1, 3, 1), (-1, -1, 0)]), np.full((3, 5), 9.5, np.float32)])
x = ints(8, 6, low=-99, high=99)
module('slice', 'slices with starts, limits and strides, of split dims too', """
HloModule slice, num_partitions=4
ENTRY main {
  x = s32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
  a = s32[3,2] slice(x), slice={[1:7:2], [0:6:3]}
  b = s32[8,1] slice(x), slice={[0:8], [5:6]}
  c = s32[0,6] slice(x), slice={[3:3], [0:6]}
  d = s32[5,6] slice(x), slice={[3:8], [0:6]}
  ROOT t = (s32[3,2], s32[8,1], s32[0,6], s32[5,6]) tuple(a, b, c, d)
}""", {'0': x}, [x[1:7:2, 0:6:3], x[:, 5:6], x[3:3], x[3:]])
x = ints(8, 6); u = ints(3, 2, low=50, high=60)
def clamped(i, n, size): return min(max(int(i), 0), n - size)
i0, i1 = 6, -3
r0, r1 = clamped(i0, 8, 3), clamped(i1, 6, 2)
up = x.copy(); up[r0:r0 + 3, r1:r1 + 2] = u
module('dynamic_slices', 'dynamic-slice and dynamic-update-slice clamp their starts; unsigned and 64-bit starts', """
HloModule dynamic_slices, num_partitions=4
ENTRY main {
  x = s32[8,6] parameter(0), sharding={devices=[4,1]<=[4]}
  u = s32[3,2] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  a = s32[3,2] dynamic-slice(x, i, j), dynamic_slice_sizes={3,2}
  b = s32[8,6] dynamic-update-slice(x, u, i, j)
  k = u32[] constant(4294967295)
  l = u32[] constant(1)
  c = s32[3,2] dynamic-slice(x, k, l), dynamic_slice_sizes={3,2}
  m = s64[] constant(-9000000000)
  n = s64[] constant(2)
  d = s32[2,2] dynamic-slice(x, m, n), dynamic_slice_sizes={2,2}
  ROOT t = (s32[3,2], s32[8,6], s32[3,2], s32[2,2]) tuple(a, b, c, d)
}""", {'0': x, '1': u, '2': np.int32(i0), '3': np.int32(i1)}, [x[r0:r0 + 3, r1:r1 + 2], up, x[5:8, 1:3], x[0:2, 2:4]])
x = f32(10, 4); ind = np.array([3, 0, 9, 12, -1], np.int32)
module('gather_rows', 'rows by index, out of range ones clamped; the table split by rows', """
HloModule gather_rows, num_partitions=4
ENTRY main {
  x = f32[10,4] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[5] parameter(1)
  ROOT g = f32[5,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
}""", {'0': x, '1': ind}, [x[np.clip(ind, 0, 9)]])
x = f32(5, 6); ind = np.array([[0, 1], [4, 5], [2, 2]], np.int32)
module('gather_windows', 'windows at two-dimensional starts, one dim of the window kept out, in another order', """
HloModule gather_windows, num_partitions=2
ENTRY main {
  x = f32[5,6] parameter(0)
  i = s32[3,2] parameter(1), sharding={devices=[2,1]<=[2]}
  a = f32[2,3,3] gather(x, i), offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,3}
  b = f32[3] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
  it = s32[2,3] transpose(i), dimensions={1,0}
  c = f32[3] gather(x, it), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,1}
  ROOT t = (f32[2,3,3], f32[3], f32[3]) tuple(a, b, c)
}""", {'0': x, '1': ind}, [np.stack([x[min(r, 3):min(r, 3) + 2, min(c, 3):min(c, 3) + 3] for r, c in ind], 1), x[ind[:, 0], ind[:, 1]], x[ind[:, 0], ind[:, 1]]])
x = f32(3, 5, 2); ind = np.array([[1, 4], [0, 0], [9, 2]], np.int32)
module('gather_batching', 'a batch dim shared by operand and indices', """
HloModule gather_batching, num_partitions=3
ENTRY main {
  x = f32[3,5,2] parameter(0), sharding={devices=[3,1,1]<=[3]}
  i = s32[3,2] parameter(1)
  ROOT g = f32[3,2,2] gather(x, i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,2}
}""", {'0': x, '1': ind}, [np.stack([x[b][np.clip(ind[b], 0, 4)] for b in range(3)])])
x = f32(6, 3); ind = np.array([1, 4, 1, 7, -1], np.int32); u = f32(5, 3)
out = x.astype(np.float64).copy()
for k, i in enumerate(ind):
    if 0 <= i < 6: out[i] += u[k]
module('scatter_add', 'sums into rows; repeated rows add up, rows out of range are dropped', """
HloModule scatter_add, num_partitions=2
""" + ADD + """ENTRY main {
  x = f32[6,3] parameter(0), sharding={devices=[2,1]<=[2]}
  i = s32[5] parameter(1)
  u = f32[5,3] parameter(2)
  ROOT s = f32[6,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}""", {'0': x, '1': ind, '2': u}, [out.astype(np.float32)])
x = ints(4, 4); y = f32(4, 4); ind = np.array([[0, 0], [3, 2], [2, 3], [4, 0]], np.int32); u = ints(4, low=20, high=30); v = f32(4)
ox, oy = x.copy(), y.copy()
for k, (i, j) in enumerate(ind):
    if i < 4: ox[i, j] = u[k]; oy[i, j] = max(oy[i, j], v[k])
module('scatter_variadic', 'two operands at once: one overwritten, the other the maximum', """
HloModule scatter_variadic, num_partitions=2
f {
  a = s32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = f32[] parameter(3)
  m = f32[] maximum(b, d)
  ROOT t = (s32[], f32[]) tuple(c, m)
}
ENTRY main {
  x = s32[4,4] parameter(0)
  y = f32[4,4] parameter(1)
  i = s32[4,2] parameter(2)
  u = s32[4] parameter(3)
  v = f32[4] parameter(4)
  ROOT s = (s32[4,4], f32[4,4]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=f
}""", {'0': x, '1': y, '2': ind, '3': u, '4': v}, [ox, oy])
x = f32(2, 4); ind = np.array([[3], [0]], np.int32); u = f32(2)
out = x.copy(); out[0, 3] = u[0]; out[1, 0] = u[1]
module('scatter_batching', 'a batch dim shared by operand and indices', """
HloModule scatter_batching, num_partitions=2
f {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
ENTRY main {
  x = f32[2,4] parameter(0), sharding={devices=[2,1]<=[2]}
  i = s32[2,1] parameter(1)
  u = f32[2] parameter(2)
  ROOT s = f32[2,4] scatter(x, i, u), update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1, to_apply=f
}""", {'0': x, '1': ind, '2': u}, [out])
a, b, c = f32(3), ints(2, 2), f32()
module('nested_tuples', 'tuples of tuples in and out, leaves named 0.0, 0.1.0, ...; layouts with tiles', """
HloModule nested_tuples, num_partitions=2, entry_computation_layout={((f32[3]{0}, (s32[2,2]{1,0:T(2,128)}, f32[])))->((s32[2,2]{1,0}, f32[3]{0}), f32[])}
ENTRY main {
  p = (f32[3]{0}, (s32[2,2]{1,0:T(2,128)}, f32[])) parameter(0)
  a = f32[3]{0} get-tuple-element(p), index=0
  q = (s32[2,2]{1,0:T(2,128)}, f32[]) get-tuple-element(p), index=1
  b = s32[2,2]{1,0:T(2,128)} get-tuple-element(q), index=0
  c = f32[] get-tuple-element(q), index=1
  n = f32[3]{0} negate(a)
  i = (s32[2,2]{1,0}, f32[3]{0}) tuple(b, n)
  ROOT t = ((s32[2,2]{1,0}, f32[3]{0}), f32[]) tuple(i, c)
}""", {'0.0': a, '0.1.0': b, '0.1.1': np.float32(c)}, [b, -a, np.float32(c)])
x = f32(0, 3); y = f32(3, 0)
module('empty_arrays', 'arrays without elements: sums, products and slices of nothing', """
HloModule empty_arrays, num_partitions=2
""" + ADD + """ENTRY main {
  x = f32[0,3] parameter(0), sharding={devices=[2,1]<=[2]}
  y = f32[3,0] parameter(1)
  z = f32[] constant(7)
  a = f32[3,3] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[3] reduce(x, z), dimensions={0}, to_apply=add
  c = f32[0,3] exponential(x)
  d = f32[2,3] pad(x, z), padding=1_1x0_0
  ROOT t = (f32[3,3], f32[3], f32[0,3], f32[2,3]) tuple(a, b, c, d)
}""", {'0': x, '1': y}, [np.zeros((3, 3), np.float32), np.full(3, 7, np.float32), x, np.full((2, 3), 7, np.float32)])
x = f32(3, 4)
module('dimension_size', 'get-dimension-size, copy-start and copy-done, after-all, add-dependency, domain, opt-barrier', """
HloModule dimension_size, num_partitions=2
ENTRY main {
  x = f32[3,4] parameter(0)
  n = s32[] get-dimension-size(x), dimensions={1}
  k = token[] after-all()
  d = f32[3,4] add-dependency(x, k)
  b = (f32[3,4], s32[]) tuple(d, n)
  o = (f32[3,4], s32[]) opt-barrier(b)
  e = f32[3,4] get-tuple-element(o), index=0
  m = s32[] get-tuple-element(o), index=1
  ROOT t = (f32[3,4], s32[]) tuple(e, m), control-predecessors={x}
}""", {'0': x}, [x, np.int32(4)])
x = (np.arange(24) * 7 % 9 - 4).reshape(6, 4).astype(np.float32); u = (np.arange(24) * 5 % 7 - 3).reshape(6, 4).astype(np.float32); i = np.array([2, 0, 2, 5, 1, 2], np.int32)
scattered = x.copy(); np.add.at(scattered, i, u)
module('combiner_precision', 'combiners in f32 of values in bf16: the same combiners', """
HloModule combiner_precision, num_partitions=3
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(b, a)
}
ENTRY main {
  x = bf16[6,4] parameter(0), sharding={devices=[3,1]<=[3]}
  u = bf16[6,4] parameter(1), sharding={devices=[3,1]<=[3]}
  i = s32[6] parameter(2)
  zero = bf16[] constant(0)
  low = bf16[] constant(-inf)
  s = bf16[4] reduce(x, zero), dimensions={0}, to_apply=add
  m = bf16[6] reduce(x, low), dimensions={1}, to_apply=most
  w = bf16[5,4] reduce-window(x, zero), window={size=2x1}, to_apply=add
  a = bf16[6,4] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT t = (bf16[4], bf16[6], bf16[5,4], bf16[6,4]) tuple(s, m, w, a)
}""", {'0': bf16(x), '1': bf16(u), '2': i}, [bf16(x.sum(0)), bf16(x.max(1)), bf16(x[:-1] + x[1:]), bf16(scattered)])
