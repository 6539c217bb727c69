# Whole layers.
def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)


x, w1, b1, w2 = f32(8, 6), f32(6, 12), f32(12), f32(12, 4)
module('mlp', 'two layers with bias and relu; batch and hidden dims split', """
HloModule mlp, num_partitions=4
ENTRY main {
  x = f32[8,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w1 = f32[6,12] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  b1 = f32[12] parameter(2)
  w2 = f32[12,4] parameter(3), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  h = f32[8,12] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="layer1" source_file="mlp.py" source_line=3}
  bb = f32[8,12] broadcast(b1), dimensions={1}
  s = f32[8,12] add(h, bb)
  z = f32[] constant(0)
  zb = f32[8,12] broadcast(z), dimensions={}
  r = f32[8,12] maximum(s, zb)
  ROOT y = f32[8,4] dot(r, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""", {'0': x, '1': w1, '2': b1, '3': w2}, [(np.maximum(x.astype(float) @ w1 + b1, 0) @ w2).astype(np.float32)])

B, S, M, H, D, F = 2, 4, 8, 2, 4, 16
p = [f32(B, S, M)] + [f32(M, H, D) * 0.4 for _ in range(3)] + [f32(H, D, M) * 0.4, np.abs(f32(M)) + 0.5, f32(M, F) * 0.3, f32(F, M) * 0.3]
p = [v.astype(np.float32) for v in p]
X, WQ, WK, WV, WO, G, WI, WU = [v.astype(float) for v in p]
def rms(v): return v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-6) * G
h = rms(X); q, k, v = (np.einsum('bsm,mhd->bshd', h, w) for w in (WQ, WK, WV))
sc = np.einsum('bshd,bthd->bhst', q, k) / 2; sc = np.where(np.tril(np.ones((S, S), bool)), sc, -1e9)
y = X + np.einsum('bhst,bthd,hdm->bsm', soft(sc), v, WO)
def gelu(v): return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3)))
y = y + gelu(rms(y) @ WI) @ WU
NORM = """%(n)ssq = f32[2,4,8] multiply(%(x)s, %(x)s)
  %(n)ssum = f32[2,4] reduce(%(n)ssq, zero), dimensions={2}, to_apply=add
  %(n)smean = f32[2,4] multiply(%(n)ssum, eighth)
  %(n)sme = f32[2,4] add(%(n)smean, eps)
  %(n)sr = f32[2,4] rsqrt(%(n)sme)
  %(n)srb = f32[2,4,8] broadcast(%(n)sr), dimensions={0,1}
  %(n)sx = f32[2,4,8] multiply(%(x)s, %(n)srb)
  %(n)s = f32[2,4,8] multiply(%(n)sx, gb)
"""
module('transformer_layer', 'norm, causal attention, norm, feed-forward, with residuals; data and model parallel', """
HloModule transformer_layer, num_partitions=4
""" + ADD + MAX + """ENTRY main {
  x = f32[2,4,8] parameter(0), sharding={devices=[2,1,1,2]<=[4] last_tile_dim_replicate}
  wq = f32[8,2,4] parameter(1), sharding={devices=[1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  wk = f32[8,2,4] parameter(2), sharding={devices=[1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  wv = f32[8,2,4] parameter(3), sharding={devices=[1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  wo = f32[2,4,8] parameter(4), sharding={devices=[2,1,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  g = f32[8] parameter(5)
  wi = f32[8,16] parameter(6), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  wu = f32[16,8] parameter(7), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  zero = f32[] constant(0)
  e8 = f32[] constant(0.125)
  eighth = f32[2,4] broadcast(e8), dimensions={}
  ee = f32[] constant(1e-6)
  eps = f32[2,4] broadcast(ee), dimensions={}
  gb = f32[2,4,8] broadcast(g), dimensions={2}
  """ + NORM % dict(n='n', x='x') + """  q = f32[2,4,2,4] dot(n, wq), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  k = f32[2,4,2,4] dot(n, wk), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  v = f32[2,4,2,4] dot(n, wv), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  s = f32[2,2,4,4] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  hf = f32[] constant(0.5)
  hb = f32[2,2,4,4] broadcast(hf), dimensions={}
  sc = f32[2,2,4,4] multiply(s, hb)
  i = s32[4,4] iota(), iota_dimension=0
  j = s32[4,4] iota(), iota_dimension=1
  c = pred[4,4] compare(i, j), direction=GE
  cb = pred[2,2,4,4] broadcast(c), dimensions={2,3}
  ng = f32[] constant(-1e9)
  nb = f32[2,2,4,4] broadcast(ng), dimensions={}
  ms = f32[2,2,4,4] select(cb, sc, nb)
  low = f32[] constant(-inf)
  mx = f32[2,2,4] reduce(ms, low), dimensions={3}, to_apply=max
  mb = f32[2,2,4,4] broadcast(mx), dimensions={0,1,2}
  sh = f32[2,2,4,4] subtract(ms, mb)
  ex = f32[2,2,4,4] exponential(sh)
  sm = f32[2,2,4] reduce(ex, zero), dimensions={3}, to_apply=add
  sb = f32[2,2,4,4] broadcast(sm), dimensions={0,1,2}
  pr = f32[2,2,4,4] divide(ex, sb)
  o = f32[2,2,4,4] dot(pr, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  ao = f32[2,4,8] dot(o, wo), lhs_contracting_dims={1,3}, rhs_contracting_dims={0,1}
  y = f32[2,4,8] add(x, ao)
  """ + NORM % dict(n='post', x='y') + """  u = f32[2,4,16] dot(post, wi), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  u2 = f32[2,4,16] multiply(u, u)
  u3 = f32[2,4,16] multiply(u2, u)
  k1 = f32[] constant(0.044715)
  k1b = f32[2,4,16] broadcast(k1), dimensions={}
  u4 = f32[2,4,16] multiply(u3, k1b)
  u5 = f32[2,4,16] add(u, u4)
  k2 = f32[] constant(0.7978845608)
  k2b = f32[2,4,16] broadcast(k2), dimensions={}
  u6 = f32[2,4,16] multiply(u5, k2b)
  th = f32[2,4,16] tanh(u6)
  k3 = f32[] constant(1)
  k3b = f32[2,4,16] broadcast(k3), dimensions={}
  t1 = f32[2,4,16] add(th, k3b)
  hh = f32[2,4,16] broadcast(hf), dimensions={}
  uh = f32[2,4,16] multiply(u, hh)
  ge = f32[2,4,16] multiply(uh, t1)
  f = f32[2,4,8] dot(ge, wu), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT r = f32[2,4,8] add(y, f)
}""", {str(i): a for i, a in enumerate(p)}, [y.astype(np.float32)])

x, k1, k2, kp = f32(2, 3, 6, 6), f32(4, 3, 3, 3) * 0.3, f32(4, 4, 3, 3) * 0.3, f32(4, 3, 1, 1)
k1, k2 = k1.astype(np.float32), k2.astype(np.float32)
g1, b1, m1, v1 = (np.abs(f32(4)) + 0.5).astype(np.float32), f32(4), f32(4), (np.abs(f32(4)) + 0.5).astype(np.float32)
def bn(t): return (t - m1.astype(float)) / np.sqrt(v1.astype(float) + 1e-5) * g1 + b1
t = np.maximum(bn(nhwc(conv(x, k1, [2, 2], [(1, 1), (1, 1)]))), 0)
t = bn(nhwc(conv(np.moveaxis(t, -1, 1), k2, [1, 1], [(1, 1), (1, 1)]))) + nhwc(conv(x, kp, [2, 2]))
t = np.maximum(t, 0)
module('resnet_block', 'convolution, batch norm, relu, twice, and a projected shortcut; average pooling at the end', """
HloModule resnet_block, num_partitions=2
""" + ADD + """ENTRY main {
  x = f32[2,6,6,3] parameter(0), sharding={devices=[2,1,1,1]<=[2]}
  k1 = f32[3,3,3,4] parameter(1)
  k2 = f32[3,3,4,4] parameter(2)
  kp = f32[1,1,3,4] parameter(3)
  g = f32[4] parameter(4)
  b = f32[4] parameter(5)
  m = f32[4] parameter(6)
  v = f32[4] parameter(7)
  z = f32[] constant(0)
  zb = f32[2,3,3,4] broadcast(z), dimensions={}
  c1 = f32[2,3,3,4] convolution(x, k1), window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  n1 = f32[2,3,3,4] batch-norm-inference(c1, g, b, m, v), epsilon=1e-05, feature_index=3
  r1 = f32[2,3,3,4] maximum(n1, zb)
  c2 = f32[2,3,3,4] convolution(r1, k2), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  n2 = f32[2,3,3,4] batch-norm-inference(c2, g, b, m, v), epsilon=1e-05, feature_index=3
  sc = f32[2,3,3,4] convolution(x, kp), window={size=1x1 stride=2x2}, dim_labels=b01f_01io->b01f
  s = f32[2,3,3,4] add(n2, sc)
  r2 = f32[2,3,3,4] maximum(s, zb)
  p = f32[2,1,1,4] reduce-window(r2, z), window={size=1x3x3x1}, to_apply=add
  n = f32[] constant(9)
  nb = f32[2,1,1,4] broadcast(n), dimensions={}
  a = f32[2,1,1,4] divide(p, nb)
  ROOT o = (f32[2,3,3,4], f32[2,1,1,4]) tuple(r2, a)
}""", {'0': nhwc(x), '1': hwio(k1), '2': hwio(k2), '3': hwio(kp), '4': g1, '5': b1, '6': m1, '7': v1}, [t.astype(np.float32), t.mean((1, 2), keepdims=True).astype(np.float32)])

T, B, I, H = 5, 3, 4, 6
x, w, u, b = f32(T, B, I), f32(I, 4 * H) * 0.5, f32(H, 4 * H) * 0.5, f32(4 * H)
w, u = w.astype(np.float32), u.astype(np.float32)
sig = scipy.special.expit
h = c = np.zeros((B, H)); hs = []
for step in x.astype(float):
    gates = step @ w + h @ u + b
    i, f, g, o = (gates[:, n * H:(n + 1) * H] for n in range(4))
    c = sig(f) * c + sig(i) * np.tanh(g); h = sig(o) * np.tanh(c); hs.append(h)
module('lstm', 'an LSTM over a sequence, a while loop that reads a step and writes one; the batch split', """
HloModule lstm, num_partitions=3
cond {
  s = (s32[], f32[3,6], f32[3,6], f32[5,3,6], f32[5,3,4], f32[4,24], f32[6,24], f32[24]) parameter(0)
  t = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT p = pred[] compare(t, n), direction=LT
}
body {
  s = (s32[], f32[3,6], f32[3,6], f32[5,3,6], f32[5,3,4], f32[4,24], f32[6,24], f32[24]) parameter(0)
  t = s32[] get-tuple-element(s), index=0
  h = f32[3,6] get-tuple-element(s), index=1
  c = f32[3,6] get-tuple-element(s), index=2
  ys = f32[5,3,6] get-tuple-element(s), index=3
  xs = f32[5,3,4] get-tuple-element(s), index=4
  w = f32[4,24] get-tuple-element(s), index=5
  u = f32[6,24] get-tuple-element(s), index=6
  b = f32[24] get-tuple-element(s), index=7
  z = s32[] constant(0)
  x1 = f32[1,3,4] dynamic-slice(xs, t, z, z), dynamic_slice_sizes={1,3,4}
  x = f32[3,4] reshape(x1)
  xw = f32[3,24] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  hu = f32[3,24] dot(h, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[3,24] broadcast(b), dimensions={1}
  g0 = f32[3,24] add(xw, hu)
  g = f32[3,24] add(g0, bb)
  gi = f32[3,6] slice(g), slice={[0:3], [0:6]}
  gf = f32[3,6] slice(g), slice={[0:3], [6:12]}
  gg = f32[3,6] slice(g), slice={[0:3], [12:18]}
  go = f32[3,6] slice(g), slice={[0:3], [18:24]}
  i = f32[3,6] logistic(gi)
  f = f32[3,6] logistic(gf)
  q = f32[3,6] tanh(gg)
  o = f32[3,6] logistic(go)
  fc = f32[3,6] multiply(f, c)
  iq = f32[3,6] multiply(i, q)
  c2 = f32[3,6] add(fc, iq)
  tc = f32[3,6] tanh(c2)
  h2 = f32[3,6] multiply(o, tc)
  h3 = f32[1,3,6] reshape(h2)
  ys2 = f32[5,3,6] dynamic-update-slice(ys, h3, t, z, z)
  one = s32[] constant(1)
  t2 = s32[] add(t, one)
  ROOT r = (s32[], f32[3,6], f32[3,6], f32[5,3,6], f32[5,3,4], f32[4,24], f32[6,24], f32[24]) tuple(t2, h2, c2, ys2, xs, w, u, b)
}
ENTRY main {
  xs = f32[5,3,4] parameter(0), sharding={devices=[1,3,1]<=[3]}
  w = f32[4,24] parameter(1)
  u = f32[6,24] parameter(2)
  b = f32[24] parameter(3)
  t = s32[] constant(0)
  z = f32[] constant(0)
  h = f32[3,6] broadcast(z), dimensions={}
  ys = f32[5,3,6] broadcast(z), dimensions={}
  s = (s32[], f32[3,6], f32[3,6], f32[5,3,6], f32[5,3,4], f32[4,24], f32[6,24], f32[24]) tuple(t, h, h, ys, xs, w, u, b)
  l = (s32[], f32[3,6], f32[3,6], f32[5,3,6], f32[5,3,4], f32[4,24], f32[6,24], f32[24]) while(s), condition=cond, body=body
  y = f32[5,3,6] get-tuple-element(l), index=3
  c = f32[3,6] get-tuple-element(l), index=2
  ROOT r = (f32[5,3,6], f32[3,6]) tuple(y, c)
}""", {'0': x, '1': w, '2': u, '3': b}, [np.stack(hs).astype(np.float32), c.astype(np.float32)])

x = f32(6, 9); order = np.argsort(-x, 1, kind='stable')[:, :4]
module('sort_top_k', 'the four largest of each row by a descending sort of values and positions, then a gather of them', """
HloModule sort_top_k, num_partitions=3
gt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
ENTRY main {
  x = f32[6,9] parameter(0), sharding={devices=[3,1]<=[3]}
  i = s32[6,9] iota(), iota_dimension=1
  s = (f32[6,9], s32[6,9]) sort(x, i), dimensions={1}, is_stable=true, to_apply=gt
  v = f32[6,9] get-tuple-element(s), index=0
  j = s32[6,9] get-tuple-element(s), index=1
  tv = f32[6,4] slice(v), slice={[0:6], [0:4]}
  tj = s32[6,4] slice(j), slice={[0:6], [0:4]}
  g = f32[6,4] gather(x, tj), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
  ROOT t = (f32[6,4], s32[6,4], f32[6,4]) tuple(tv, tj, g)
}""", {'0': x}, [np.take_along_axis(x, order, 1), order.astype(np.int32), np.take_along_axis(x, order, 1)])
