# Elementwise opcodes, conversions, comparisons.
ERR = dict(all='ignore')


def unary_module(name, about, ops, x, hlo_type, shape, results, sharding=''):
    lines = ['HloModule %s, num_partitions=4' % name, 'ENTRY main {',
             '  x = %s[%s] parameter(0)%s' % (hlo_type, shape, sharding)]
    for i, op in enumerate(ops):
        lines.append('  r%d = %s[%s] %s(x)' % (i, hlo_type, shape, op))
    types = ', '.join(['%s[%s]' % (hlo_type, shape)] * len(ops))
    names = ', '.join('r%d' % i for i in range(len(ops)))
    lines += ['  ROOT t = (%s) tuple(%s)' % (types, names), '}']
    module(name, about, '\n'.join(lines), {'0': x}, results)


SPLIT4 = ', sharding={devices=[4]<=[4]}'
with np.errstate(**ERR):
    x = np.array([-2.5, -1, -0.75, -1e-5, -0.0, 0.0, 1e-5, 0.3, 0.75, 1, 2, 3.5, 10, np.inf, -np.inf, np.nan], np.float32)
    d = x.astype(np.float64)
    table = [('exponential', np.exp(d)), ('exponential-minus-one', np.expm1(d)), ('sine', np.sin(d)), ('cosine', np.cos(d)),
             ('tan', np.tan(d)), ('tanh', np.tanh(d)), ('logistic', scipy.special.expit(d)), ('erf', scipy.special.erf(d)),
             ('cbrt', np.cbrt(d)), ('abs', np.abs(d)), ('negate', -d), ('sign', np.where(d == 0, d, np.sign(d))), ('floor', np.floor(d)), ('ceil', np.ceil(d)),
             ('round-nearest-even', np.round(d)), ('round-nearest-afz', np.copysign(np.floor(np.abs(d) + 0.5), d))]
    unary_module('unary_f32', 'functions of one f32, at zeros of both signs, infinities and NaN', [t[0] for t in table], x, 'f32', '16',
                 [t[1].astype(np.float32) for t in table], SPLIT4)
    p = np.array([0.0, 1e-7, 0.1, 0.5, 1, 2, 7.25, 1e10, np.inf, -1, np.nan, -0.0], np.float32)
    d = p.astype(np.float64)
    table = [('log', np.log(d)), ('log-plus-one', np.log1p(d)), ('sqrt', np.sqrt(d)), ('rsqrt', 1 / np.sqrt(d))]
    unary_module('unary_positive_f32', 'log, sqrt and their kin, at zero, below zero, at infinity', [t[0] for t in table], p, 'f32', '12',
                 [t[1].astype(np.float32) for t in table], SPLIT4)
    x = np.linspace(-3, 3, 13)
    table = [('exponential', np.exp(x)), ('tanh', np.tanh(x)), ('erf', scipy.special.erf(x)), ('sine', np.sin(x)), ('logistic', scipy.special.expit(x)), ('cbrt', np.cbrt(x))]
    unary_module('unary_f64', 'functions of one f64', [t[0] for t in table], x, 'f64', '13', [t[1] for t in table], SPLIT4)
    x = np.array([-2, -0.5, 0.25, 1.5, 3], np.float32)
    ops = [('exponential', np.exp), ('tanh', np.tanh), ('logistic', scipy.special.expit), ('negate', np.negative)]
    unary_module('unary_bf16', 'functions of one bf16, rounded to nearest even', [o for o, _ in ops], bf16(x), 'bf16', '5',
                 [bf16(f(x.astype(np.float64)).astype(np.float32)) for _, f in ops])
    h = x.astype(np.float16)
    unary_module('unary_f16', 'functions of one f16', [o for o, _ in ops], h, 'f16', '5',
                 [f(h.astype(np.float64)).astype(np.float16) for _, f in ops])

    i = np.array([0, 1, -1, 5, -7, 2**31 - 1, -2**31, 1 << 20], np.int32)
    u = i.view(np.uint32)
    unary_module('unary_s32', 'functions of one s32: absolute value and sign wrap at the least number', ['abs', 'negate', 'sign', 'not', 'popcnt', 'count-leading-zeros'],
                 i, 's32', '8', [np.abs(i), -i, np.sign(i), ~i, np.array([bin(v).count('1') for v in u], np.int32),
                                 np.array([32 - int(v).bit_length() for v in u], np.int32)], SPLIT4)


def binary_module(name, about, ops, x, y, hlo_type, n, results, result_type=None, attributes='', sharding=''):
    result_type = result_type or hlo_type
    lines = ['HloModule %s, num_partitions=4' % name, 'ENTRY main {', '  x = %s[%d] parameter(0)%s' % (hlo_type, n, sharding),
             '  y = %s[%d] parameter(1)' % (hlo_type, n)]
    for k, op in enumerate(ops):
        op, _, attrs = op.partition(',')
        lines.append('  r%d = %s[%d] %s(x, y)%s' % (k, result_type, n, op, (', ' + attrs) if attrs else ''))
    lines += ['  ROOT t = (%s) tuple(%s)' % (', '.join(['%s[%d]' % (result_type, n)] * len(ops)), ', '.join('r%d' % k for k in range(len(ops)))), '}']
    module(name, about, '\n'.join(lines), {'0': x, '1': y}, results)


def truncated(a, b, low):
    """HLO integer division and remainder: x/0 is -1 and x%0 is x; the least number / -1 wraps."""
    q, r = [], []
    for s, t in zip(a.astype(object), b.astype(object)):
        if t == 0:
            q.append(-1); r.append(s)
        elif s == low and t == -1:
            q.append(s); r.append(0)
        else:
            v = abs(s) // abs(t) * (1 if (s < 0) == (t < 0) else -1)
            q.append(v); r.append(s - v * t)
    return q, r


with np.errstate(**ERR):
    a = np.array([7, -7, 7, -7, 5, -2**31, -2**31, 2**31 - 1, 0, 12], np.int32)
    b = np.array([2, 2, -2, -2, 0, -1, 0, 1, 3, 5], np.int32)
    q, r = truncated(a, b, -2**31)
    binary_module('binary_s32', 'wrap-around, division by zero, the least number by -1', ['add', 'subtract', 'multiply', 'divide', 'remainder', 'maximum', 'minimum', 'and', 'or', 'xor'],
                  a, b, 's32', 10, [a + b, a - b, a * b, np.array(q, np.int32), np.array(r, np.int32), np.maximum(a, b), np.minimum(a, b), a & b, a | b, a ^ b], sharding=SPLIT4)
    a = np.array([7, 0xFFFFFFFF, 5, 0x80000000], np.uint32)
    b = np.array([2, 2, 0, 0xFFFFFFFF], np.uint32)
    binary_module('binary_u32', 'unsigned arithmetic; division by zero gives all ones, remainder the dividend', ['add', 'subtract', 'multiply', 'divide', 'remainder'], a, b, 'u32', 4,
                  [a + b, a - b, a * b, np.array([3, 0x7FFFFFFF, 0xFFFFFFFF, 0], np.uint32), np.array([1, 1, 5, 0x80000000], np.uint32)])
    a = np.array([1, -1, -8, 0x40000000, -5], np.int32)
    s = np.array([31, 32, 1, 40, -1], np.int32)
    binary_module('shifts_s32', 'shifts by the width and more, and by negative amounts', ['shift-left', 'shift-right-arithmetic', 'shift-right-logical'], a, s, 's32', 5,
                  [np.array([-2**31, 0, -16, 0, 0], np.int32), np.array([0, -1, -4, 0, -1], np.int32), np.array([0, 0, 0x7FFFFFFC, 0, 0], np.int32)])
    x = np.array([1, -2, 0.0, -0.0, np.nan, 3, np.inf, 5.5, -5.5, 2], np.float32)
    y = np.array([2, -2, 0.0, -0.0, 1, np.nan, np.inf, 2, 2, -np.inf], np.float32)
    binary_module('binary_f32', 'NaN wins over numbers in maximum and minimum; atan2, power and remainder at the corners',
                  ['add', 'subtract', 'multiply', 'divide', 'maximum', 'minimum', 'atan2', 'power', 'remainder'], x, y, 'f32', 10,
                  [x + y, x - y, x * y, x / y, np.maximum(x, y), np.minimum(x, y), np.arctan2(x, y), np.power(x, y), np.fmod(x, y)], sharding=SPLIT4)
    x = np.array([1, np.nan, -0.0, 2, -np.inf], np.float32)
    y = np.array([1, np.nan, 0.0, 3, -1], np.float32)
    ops = ['EQ', 'NE', 'LT', 'LE', 'GT', 'GE']
    fs = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
    binary_module('compare_f32', 'comparisons with NaN are false but for NE', ['compare,direction=' + o for o in ops], x, y, 'f32', 5, [f(x, y) for f in fs], 'pred')

    def total(v):
        u = v.view(np.int32).astype(np.int64)
        return np.where(u < 0, -(u & 0x7FFFFFFF) - 1, u)
    binary_module('compare_total_order', 'the total order: -NaN < -inf < -0 < 0 < inf < NaN', ['compare,direction=%s,type=TOTALORDER' % o for o in ops], x, y, 'f32', 5,
                  [f(total(x), total(y)) for f in fs], 'pred')
    x = ints(6, high=9); y = ints(6, high=9)
    binary_module('compare_s32', 'comparisons of integers', ['compare,direction=' + o for o in ops], x, y, 's32', 6, [f(x, y) for f in fs], 'pred', sharding=SPLIT4)
    x = np.array([1, -3, 2, 0, 7], np.int32); y = np.array([5, 3, 0, 0, 10], np.int32)
    binary_module('power_s32', 'integer power by repeated multiplication', ['power'], x, y, 's32', 5, [np.array([1, -27, 1, 1, 282475249], np.int32)])

module('convert', 'between element types: rounding to nearest even, truncation, wrapping of integers', """
HloModule convert, num_partitions=2
ENTRY main {
  f = f32[6] parameter(0), sharding={devices=[2]<=[2]}
  i = s32[5] parameter(1)
  a = s32[6] convert(f)
  b = bf16[6] convert(f)
  c = f16[6] convert(f)
  d = pred[6] convert(f)
  e = f64[6] convert(f)
  g = u8[5] convert(i)
  h = s8[5] convert(i)
  j = f32[5] convert(i)
  k = s64[5] convert(i)
  l = pred[5] convert(i)
  ROOT t = (s32[6], bf16[6], f16[6], pred[6], f64[6], u8[5], s8[5], f32[5], s64[5], pred[5]) tuple(a, b, c, d, e, g, h, j, k, l)
}""", {'0': (x := np.array([1.5, -2.7, 0, 3.14159, 1e4, -0.001], np.float32)), '1': (y := np.array([300, -1, 0, 127, 16777217], np.int32))},
       [x.astype(np.int32), bf16(x), x.astype(np.float16), x != 0, x.astype(np.float64), y.astype(np.uint8), y.astype(np.int8), y.astype(np.float32), y.astype(np.int64), y != 0])
module('bitcast_convert', 'the bits of one type as another, with more and with fewer dims', """
HloModule bitcast_convert
ENTRY main {
  f = f32[3] parameter(0)
  u = u32[3] bitcast-convert(f)
  h = u16[3,2] bitcast-convert(f)
  b = u32[3] bitcast-convert(h)
  d = f64[] constant(1)
  w = u32[2] bitcast-convert(d)
  ROOT t = (u32[3], u16[3,2], u32[3], u32[2]) tuple(u, h, b, w)
}""", {'0': (x := np.array([1, -2.5, 1e-20], np.float32))}, [x.view(np.uint32), x.view(np.uint16).reshape(3, 2), x.view(np.uint32), np.array([1.0]).view(np.uint32)])
module('reduce_precision', 'fewer bits of exponent and mantissa, in the same type', """
HloModule reduce_precision
ENTRY main {
  f = f32[6] parameter(0)
  a = f32[6] reduce-precision(f), exponent_bits=8, mantissa_bits=7
  b = f32[6] reduce-precision(f), exponent_bits=5, mantissa_bits=10
  ROOT t = (f32[6], f32[6]) tuple(a, b)
}""", {'0': (x := np.array([1.00390625, 3.14159265, -1e6, 65519, 2.0 ** -14, 0], np.float32))}, [from_bf16(bf16(x)), np.array([float(np.float16(v)) if abs(v) < 65520 else np.copysign(np.inf, v) for v in x], np.float32)])
z = np.array([1 + 2j, -3.5 + 0.25j, 2j, -1 - 1j], np.complex64); w = np.array([2 - 1j, 1j, -1.5, 3 + 4j], np.complex64)
Z = z.astype(np.complex128); W = w.astype(np.complex128)
binary_module('binary_c64', 'complex arithmetic', ['add', 'subtract', 'multiply', 'divide', 'power'], z, w, 'c64', 4, [(Z + W).astype(np.complex64), (Z - W).astype(np.complex64), (Z * W).astype(np.complex64), (Z / W).astype(np.complex64), (Z ** W).astype(np.complex64)], sharding=SPLIT4)
ops = [('exponential', np.exp), ('log', np.log), ('sqrt', np.sqrt), ('tanh', np.tanh), ('sine', np.sin), ('cosine', np.cos), ('negate', np.negative)]
unary_module('unary_c64', 'functions of one complex number', [o for o, _ in ops], z, 'c64', '4', [f(Z).astype(np.complex64) for _, f in ops])
unary_module('unary_c128', 'functions of one complex number in double precision', [o for o, _ in ops], Z, 'c128', '4', [f(Z) for _, f in ops])
module('complex_parts', 'complex from parts, parts and magnitude of complex', """
HloModule complex_parts, num_partitions=2
ENTRY main {
  a = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  b = f32[4] parameter(1)
  z = c64[4] complex(a, b)
  r = f32[4] real(z)
  i = f32[4] imag(z)
  m = f32[4] abs(z)
  ROOT t = (c64[4], f32[4], f32[4], f32[4]) tuple(z, r, i, m)
}""", {'0': z.real.copy(), '1': z.imag.copy()}, [z, z.real, z.imag, np.abs(Z).astype(np.float32)])
nan = np.nan
a = np.array([1 + 2j, 1 - 2j, -3 + 9j, complex(nan, 1), 2 + 1j, complex(-0.0, 2), 4j, complex(5, nan)], np.complex64)
b = np.array([1 + 3j, 1 - 3j, -2 - 9j, 7 + 1j, complex(2, nan), complex(0.0, 1), 3j, complex(nan, 6)], np.complex64)
low = np.complex64(-1 + 1j); high = np.complex64(1 + 1j)
grid = np.array([[1 + 2j, -4 - 1j, 0], [1 - 5j, -4 + 3j, -1j], [-1 + 9j, -4 + 2j, -2j]], np.complex128)
module('complex_order', 'extrema of complex numbers: lexicographic by real and imaginary part; NaN where a part of either is', """
HloModule complex_order, num_partitions=3
most {
  x = c128[] parameter(0)
  y = c128[] parameter(1)
  ROOT z = c128[] maximum(x, y)
}
least {
  x = c128[] parameter(0)
  y = c128[] parameter(1)
  ROOT z = c128[] minimum(x, y)
}
ENTRY main {
  a = c64[8] parameter(0), sharding={devices=[3]<=[3]}
  b = c64[8] parameter(1)
  g = c128[3,3] parameter(2), sharding={devices=[3,1]<=[3]}
  up = c64[8] maximum(a, b)
  down = c64[8] minimum(a, b)
  low = c64[] constant((-1, 1))
  high = c64[] constant((1, 1))
  within = c64[8] clamp(low, a, high)
  first = c128[] constant((-inf, -inf))
  last = c128[] constant((inf, inf))
  m = c128[3] reduce(g, first), dimensions={0}, to_apply=most
  n = c128[3] reduce(g, last), dimensions={0}, to_apply=least
  o = c128[3,3] reduce-window(g, first), window={size=2x1 pad=1_0x0_0}, to_apply=most
  ROOT t = (c64[8], c64[8], c64[8], c128[3], c128[3], c128[3,3]) tuple(up, down, within, m, n, o)
}""", {'0': a, '1': b, '2': grid},
       [np.maximum(a, b), np.minimum(a, b), np.minimum(np.maximum(low, a), high), np.maximum.reduce(grid), np.minimum.reduce(grid), np.maximum(grid, np.concatenate([np.full((1, 3), complex(-np.inf, -np.inf)), grid[:-1]]))])
z = np.array([0, 2j, 1, complex(0.0, nan), complex(nan, 0), -0.0, -3 + 1j], np.complex64)
module('convert_complex', 'a complex number by its real part alone, to pred too', """
HloModule convert_complex, num_partitions=2
ENTRY main {
  z = c64[7] parameter(0), sharding={devices=[2]<=[2]}
  w = c128[7] convert(z)
  a = pred[7] convert(z)
  b = pred[7] convert(w)
  c = f32[7] convert(z)
  d = s32[7] convert(w)
  e = bf16[7] convert(z)
  ROOT t = (pred[7], pred[7], f32[7], s32[7], bf16[7]) tuple(a, b, c, d, e)
}""", {'0': z}, [z.real != 0, z.real != 0, z.real, np.array([0, 0, 1, 0, 0, 0, -3], np.int32), bf16(z.real)])
x = np.array([0x0123456789ABCDEF, 1, 1 << 63], np.uint64); c = np.array([1.5 - 2j, 1e300 + 0.25j], np.complex128); d = np.array([-2.5, 1e-300])
bits = lambda v: np.unpackbits(v.view(np.uint8), bitorder='little').astype(bool).reshape(v.shape + (-1,))
module('bitcast_convert_bits', 'an element of pred is one bit, lowest first; complex numbers hold complex parts', """
HloModule bitcast_convert_bits, num_partitions=3
ENTRY main {
  x = u64[3] parameter(0), sharding={devices=[3]<=[3]}
  c = c128[2] parameter(1)
  d = f64[2] parameter(2), sharding={devices=[2]0,1}
  s = u8[3] parameter(3)
  xb = pred[3,64] bitcast-convert(x)
  db = pred[2,64] bitcast-convert(d)
  sb = pred[3,8] bitcast-convert(s)
  x2 = s64[3] bitcast-convert(xb)
  d2 = f64[2] bitcast-convert(db)
  s2 = s8[3] bitcast-convert(sb)
  halves = c64[2,2] bitcast-convert(c)
  c2 = c128[2] bitcast-convert(halves)
  same = pred[3,8] bitcast-convert(sb)
  ROOT t = (pred[3,64], pred[2,64], pred[3,8], s64[3], f64[2], s8[3], c64[2,2], c128[2], pred[3,8]) tuple(xb, db, sb, x2, d2, s2, halves, c2, same)
}""", {'0': x, '1': c, '2': d, '3': (s := np.array([5, 200, 255], np.uint8))},
       [bits(x), bits(d), bits(s), x.view(np.int64), d, s.view(np.int8), c.view(np.complex64).reshape(2, 2), c, bits(s)])
module('is_finite', 'numbers apart from infinities and NaN', """
HloModule is_finite
ENTRY main {
  x = f32[5] parameter(0)
  ROOT r = pred[5] is-finite(x)
}""", {'0': (x := np.array([1, np.inf, -np.inf, np.nan, 3e38], np.float32))}, [np.isfinite(x)])
module('select_clamp', 'select by element and by one pred; clamp with bounds of both kinds, NaN stays', """
HloModule select_clamp, num_partitions=3
ENTRY main {
  p = pred[5] parameter(0)
  q = pred[] parameter(1)
  a = f32[5] parameter(2), sharding={devices=[3]<=[3]}
  b = f32[5] parameter(3)
  lo = f32[] constant(-1)
  hi = f32[] constant(1)
  s = f32[5] select(p, a, b)
  q5 = pred[5] broadcast(q), dimensions={}
  u = f32[5] select(q5, a, b)
  c = f32[5] clamp(lo, a, hi)
  m = f32[5] negate(b)
  d = f32[5] clamp(m, a, b)
  ROOT t = (f32[5], f32[5], f32[5], f32[5]) tuple(s, u, c, d)
}""", {'0': (p := np.array([1, 0, 1, 0, 1], bool)), '1': np.array(False), '2': (a := np.array([-3, 0.5, 2, np.nan, 1], np.float32)), '3': (b := np.array([1, 2, 0.5, 4, 3], np.float32))},
       [np.where(p, a, b), b, np.clip(a, -1, 1), np.minimum(np.maximum(a, -b), b)])
module('map', 'any computation of scalars, element by element', """
HloModule map, num_partitions=2
f {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  p = pred[] compare(x, y), direction=LT
  s = f32[] multiply(x, x)
  ROOT r = f32[] select(p, s, y)
}
ENTRY main {
  a = f32[2,3] parameter(0), sharding={devices=[2,1]<=[2]}
  b = f32[2,3] parameter(1)
  ROOT m = f32[2,3] map(a, b), dimensions={0,1}, to_apply=f
}""", {'0': (a := f32(2, 3)), '1': (b := f32(2, 3))}, [np.where(a < b, a * a, b)])
module('constants', 'all forms of constants: nested braces, hex, nan and inf, pairs, pred, negative zero, all types', """
HloModule constants
ENTRY main {
  a = f32[2,3] constant({ { 1, -2.5, 3e2 }, { nan, inf, -inf } })
  b = s32[] constant(-7)
  c = c64[2] constant({(1, 2), (-0.5, 0)})
  d = pred[3] constant({true, 0, 1})
  e = u64[2] constant({18446744073709551615, 0})
  f = s64[] constant(-9223372036854775808)
  g = f64[2] constant({-0, 0x1.8p1})
  h = bf16[2] constant({1, 0.1})
  i = f32[1,2,2] constant({{{1, 2}, /*i0=0,i1=1*/ {3, 4}}})
  j = s8[0] constant({})
  ROOT t = (f32[2,3], s32[], c64[2], pred[3], u64[2], s64[], f64[2], bf16[2], f32[1,2,2], s8[0]) tuple(a, b, c, d, e, f, g, h, i, j)
}""", {}, [np.array([[1, -2.5, 300], [np.nan, np.inf, -np.inf]], np.float32), np.int32(-7), np.array([1 + 2j, -0.5], np.complex64), np.array([True, False, True]), np.array([2**64 - 1, 0], np.uint64),
           np.int64(-2**63), np.array([-0.0, 3.0]), bf16([1, 0.1]), np.array([[[1, 2], [3, 4]]], np.float32), np.zeros(0, np.int8)])
