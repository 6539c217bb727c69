"""Special functions, random bits, control flow, composites."""

import mpmath
import numpy as np

from element_types import BF16, F16, F32, F64, FLOATS, I1, I32, I64, U32, U64
from elementwise_cases import L, seeded
from module_text import Case, Value, tensor
from structure_cases import exact, random

INF, NAN = np.inf, np.nan


def wide(f):
    """A function of mpmath on numbers; what it has no value for is nan."""
    def value(*arguments):
        try:
            result = f(*(mpmath.mpf(float(a)) for a in arguments))
        except (ValueError, ZeroDivisionError, mpmath.libmp.NoConvergence):
            return L(NAN)
        if isinstance(result, mpmath.mpc):
            if result.imag != 0:
                return L(NAN)
            result = result.real
        return L(mpmath.nstr(result, 30))
    return lambda *arrays: np.array([value(*v) for v in zip(*arrays)], dtype=L)


def log_gamma(x):
    return mpmath.log(abs(mpmath.gamma(x)))


def bessel_i1e(x):
    return mpmath.besseli(1, x) * mpmath.exp(-abs(x))


# Arguments of each kind; relative error allowed per type; limits at infinities, zeros and poles.
UNARY = {
    "erf": (mpmath.erf, lambda r: r.normal(size=40) * 2, {INF: 1, -INF: -1, 0.0: 0, NAN: NAN}),
    "erfc": (mpmath.erfc, lambda r: r.normal(size=40) * 3, {INF: 0, -INF: 2, 0.0: 1, NAN: NAN}),
    "erf_inv": (mpmath.erfinv, lambda r: r.uniform(-1, 1, 40), {1.0: INF, -1.0: -INF, 0.0: 0, 1.5: NAN, NAN: NAN}),
    "lgamma": (log_gamma, lambda r: np.concatenate([r.normal(size=30) * 5, r.uniform(0, 100, 10)]),
               {INF: INF, -INF: INF, 0.0: INF, -1.0: INF, -3.0: INF, 1.0: 0, 2.0: 0, NAN: NAN}),
    "digamma": (mpmath.digamma, lambda r: np.concatenate([r.normal(size=30) * 5, r.uniform(0, 100, 10)]),
                {INF: INF, 0.0: NAN, -1.0: NAN, -3.0: NAN, NAN: NAN}),
    "bessel_i1e": (bessel_i1e, lambda r: np.concatenate([r.normal(size=30) * 10, r.uniform(0, 500, 10)]), {0.0: 0, NAN: NAN}),
}
TOLERANCE = {"f64": 1e-12, "f32": 4e-6, "f16": 1e-3, "bf16": 8e-3}


def special_functions():
    for op, (f, arguments, limits) in UNARY.items():
        for t in FLOATS:
            rng = seeded(op + t.name)
            x = t.encode(np.concatenate([arguments(rng), list(limits)]))
            values = t.values(x)
            n = len(values) - len(limits)
            wanted = np.concatenate([wide(f)(values[:n]).astype(L), np.array(list(limits.values()), dtype=L)])
            v = Value(t, x)
            result = Value(t, t.encode(wanted if t is F64 else wanted.astype(np.float64)))
            tolerance = TOLERANCE[t.name]  # near a zero of the result it is absolute
            yield Case(f"{op}_{t.name}_special_function", [v], f"%r = chlo.{op} $0 : {v.text_type} -> {v.text_type}", result,
                       rtol=tolerance, atol=tolerance)


def special_pairs():
    for t in FLOATS:
        rng = seeded("zeta" + t.name)
        x, q = t.encode(rng.uniform(1.1, 8, 30)), t.encode(rng.uniform(0.3, 12, 30))
        wanted = wide(mpmath.zeta)(t.values(x), t.values(q)).astype(np.float64)
        a, b = Value(t, x), Value(t, q)
        tolerance = TOLERANCE[t.name] * 4
        yield Case(f"zeta_{t.name}", [a, b], f"%r = chlo.zeta $0, $1 : {a.text_type}, {b.text_type} -> {a.text_type}",
                   Value(t, t.encode(wanted)), rtol=tolerance, atol=0)
        n, x = t.encode(rng.integers(0, 5, 30).astype(float)), t.encode(rng.uniform(0.4, 15, 30))
        wanted = wide(lambda k, v: mpmath.polygamma(int(k), v))(t.values(n), t.values(x)).astype(np.float64)
        a, b = Value(t, n), Value(t, x)
        yield Case(f"polygamma_{t.name}", [a, b], f"%r = chlo.polygamma $0, $1 : {a.text_type}, {b.text_type} -> {a.text_type}",
                   Value(t, t.encode(wanted)), rtol=tolerance * 2, atol=tolerance)


# --- Random bits: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def threefry(key, counter):
    k = [key[0], key[1], 0x1BD11BDA ^ key[0] ^ key[1]]
    x, y = (counter[0] + k[0]) & M32, (counter[1] + k[1]) & M32
    rotations = ((13, 15, 26, 6), (17, 29, 16, 24))
    for i in range(5):
        for r in rotations[i % 2]:
            x = (x + y) & M32
            y = ((y << r) | (y >> (32 - r))) & M32
            y ^= x
        x = (x + k[(i + 1) % 3]) & M32
        y = (y + k[(i + 2) % 3] + i + 1) & M32
    return x, y


def philox(key, counter):
    k, c = list(key), list(counter)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & M32, (p >> 32) ^ c[3] ^ k[1], p & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def halves(v):
    return v & M32, v >> 32


def random_bits():
    """Counters rise by one a block; the order of words is that of the blocks."""
    key, low, high = 0x123456789ABCDEF0, M64 - 1, 7
    state = Value(U64, np.array([key, low, high], dtype=np.uint64))
    for algorithm in ("PHILOX", "DEFAULT"):
        for n in (4, 12, 7):
            counters = [(high << 64) + low + i for i in range((n + 3) // 4)]
            words = [w for c in counters for w in philox(halves(key), halves(c & M64) + halves(c >> 64))]
            yield Case(f"philox_{algorithm}_{n}", [state],
                       f"%s, %r = stablehlo.rng_bit_generator $0, algorithm = {algorithm} : (tensor<3xui64>) -> (tensor<3xui64>, tensor<{n}xui32>)",
                       Value(U32, np.array(words[:n], dtype=np.uint32)))


def threefry_hash():
    """The function as JAX writes it out, in a loop over its rounds."""
    keys = np.array([0x13198A2E, 0x03707344], dtype=np.uint32)
    counters = np.array([[0x243F6A88, 0x85A308D3], [0, 0], [M32, M32]], dtype=np.uint32)
    wanted = np.array([threefry([int(k) for k in keys], [int(v) for v in c]) for c in counters], dtype=np.uint32)
    text = """%k0s = stablehlo.slice $0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
%k0 = stablehlo.reshape %k0s : (tensor<1xui32>) -> tensor<ui32>
%k1s = stablehlo.slice $0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
%k1 = stablehlo.reshape %k1s : (tensor<1xui32>) -> tensor<ui32>
%x = stablehlo.slice $1 [0:3, 0:1] : (tensor<3x2xui32>) -> tensor<3x1xui32>
%x0 = stablehlo.reshape %x : (tensor<3x1xui32>) -> tensor<3xui32>
%y = stablehlo.slice $1 [0:3, 1:2] : (tensor<3x2xui32>) -> tensor<3x1xui32>
%y0 = stablehlo.reshape %y : (tensor<3x1xui32>) -> tensor<3xui32>
%z:2 = call @threefry2x32(%k0, %k1, %x0, %y0) : (tensor<ui32>, tensor<ui32>, tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>)
%p = stablehlo.broadcast_in_dim %z#0, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
%q = stablehlo.broadcast_in_dim %z#1, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
%r = stablehlo.concatenate %p, %q, dim = 1 : (tensor<3x1xui32>, tensor<3x1xui32>) -> tensor<3x2xui32>"""
    yield Case("threefry_hash", [Value(U32, keys), Value(U32, counters)], text, Value(U32, wanted), functions=THREEFRY)


THREEFRY = """  func.func private @threefry2x32(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<3xui32>, %arg3: tensor<3xui32>) -> (tensor<3xui32>, tensor<3xui32>) {
    %c = stablehlo.constant dense<466688986> : tensor<ui32>
    %c_0 = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_1 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %1 = stablehlo.xor %0, %c : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<3xui32>
    %6:9 = stablehlo.while(%iterArg = %c_2, %iterArg_3 = %c_2, %iterArg_4 = %3, %iterArg_5 = %5, %iterArg_6 = %arg1, %iterArg_7 = %1, %iterArg_8 = %arg0, %iterArg_9 = %c_0, %iterArg_10 = %c_1) : tensor<i64>, tensor<i64>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
     cond {
      %c_11 = stablehlo.constant dense<5> : tensor<i64>
      %7 = stablehlo.compare  LT, %iterArg, %c_11,  SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @round(%iterArg_3, %iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10) : (tensor<i64>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i64>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_11 = stablehlo.constant dense<1> : tensor<i64>
      %8 = stablehlo.add %iterArg, %c_11 : tensor<i64>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i64>, tensor<i64>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<3xui32>, tensor<3xui32>
  }
  func.func private @round(%arg0: tensor<i64>, %arg1: tensor<3xui32>, %arg2: tensor<3xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i64>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %c_0 = stablehlo.constant dense<1> : tensor<i64>
    %0 = stablehlo.add %arg0, %c_0 : tensor<i64>
    %1:3 = stablehlo.while(%iterArg = %c, %iterArg_1 = %arg1, %iterArg_2 = %arg2) : tensor<i64>, tensor<3xui32>, tensor<3xui32>
     cond {
      %c_3 = stablehlo.constant dense<4> : tensor<i64>
      %7 = stablehlo.compare  LT, %iterArg, %c_3,  SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7 = stablehlo.dynamic_slice %arg6, %iterArg, sizes = [1] : (tensor<4xui32>, tensor<i64>) -> tensor<1xui32>
      %8 = stablehlo.reshape %7 : (tensor<1xui32>) -> tensor<ui32>
      %9 = stablehlo.add %iterArg_1, %iterArg_2 : tensor<3xui32>
      %10 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<ui32>) -> tensor<3xui32>
      %11 = stablehlo.shift_left %iterArg_2, %10 : tensor<3xui32>
      %c_3 = stablehlo.constant dense<32> : tensor<ui32>
      %12 = stablehlo.subtract %c_3, %8 : tensor<ui32>
      %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<3xui32>
      %14 = stablehlo.shift_right_logical %iterArg_2, %13 : tensor<3xui32>
      %15 = stablehlo.or %11, %14 : tensor<3xui32>
      %16 = stablehlo.xor %9, %15 : tensor<3xui32>
      %17 = stablehlo.add %iterArg, %c_0 : tensor<i64>
      stablehlo.return %17, %9, %16 : tensor<i64>, tensor<3xui32>, tensor<3xui32>
    }
    %2 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %3 = stablehlo.add %1#1, %2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %5 = stablehlo.add %1#2, %4 : tensor<3xui32>
    %6 = stablehlo.convert %0 : (tensor<i64>) -> tensor<ui32>
    %8 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %9 = stablehlo.add %5, %8 : tensor<3xui32>
    return %0, %3, %9, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i64>, tensor<3xui32>, tensor<3xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
"""


# --- Control flow and calls

def control():
    x = random(F32, (3,), seeded("control"))
    for index in (-1, 0, 1, 2, 7):
        branches = ["%n = stablehlo.negate $1 : tensor<3xf32>\n stablehlo.return %n : tensor<3xf32>",
                    "%n = stablehlo.add $1, $1 : tensor<3xf32>\n stablehlo.return %n : tensor<3xf32>",
                    "stablehlo.return $1 : tensor<3xf32>"]
        wanted = [-x.array, x.array * 2, x.array][index if 0 <= index <= 2 else 2]
        text = '%r = "stablehlo.case"($0) ({\n' + "\n}, {\n".join(branches) + "\n}) : (tensor<i32>) -> tensor<3xf32>"
        yield Case(f"case_{index}".replace("-", "m"), [Value(I32, np.array(index)), x], text, Value(F32, wanted))
    for truth in (True, False):
        text = ('%r = "stablehlo.if"($0) ({\n%n = stablehlo.negate $1 : tensor<3xf32>\nstablehlo.return %n : tensor<3xf32>\n}, {\n'
                "stablehlo.return $1 : tensor<3xf32>\n}) : (tensor<i1>) -> tensor<3xf32>")
        yield Case(f"if_{truth}", [Value(I1, np.array(truth)), x], text, Value(F32, -x.array if truth else x.array))
    text = """%z = stablehlo.constant dense<0> : tensor<i64>
%l:2 = stablehlo.while(%i = %z, %s = $0) : tensor<i64>, tensor<3xf32> attributes {mhlo.frontend_attributes = {a = "b"}}
 cond {
  %n = stablehlo.constant dense<3> : tensor<i64>
  %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
} do {
  %o = stablehlo.constant dense<1> : tensor<i64>
  %j = stablehlo.add %i, %o : tensor<i64>
  %t = stablehlo.add %s, $0 : tensor<3xf32>
  stablehlo.return %j, %t : tensor<i64>, tensor<3xf32>
}
%r = stablehlo.optimization_barrier %l#1 : tensor<3xf32>"""
    yield Case("while_captures", [x], text, Value(F32, x.array * np.float32(1) + x.array + x.array + x.array))
    square = """  func.func private @square(%a: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.multiply %a, %a : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
"""
    yield Case("composite", [x], '%r = stablehlo.composite "my.square" $0 {composite_attributes = {k = 3 : i64}, decomposition = @square, '
               "version = 1 : i32} : (tensor<3xf32>) -> tensor<3xf32>", Value(F32, x.array * x.array), functions=square)
    yield Case("old_forms", [x], '%r = "stablehlo.broadcast_in_dim"($0) {broadcast_dimensions = dense<1> : tensor<1xi64>} : (tensor<3xf32>) -> tensor<2x3xf32>',
               Value(F32, np.broadcast_to(x.array, (2, 3))))
    yield Case("map", [x, x], '%r = "stablehlo.map"($0, $1) <{dimensions = array<i64: 0>}> ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
               "%c = stablehlo.multiply %a, %b : tensor<f32>\nstablehlo.return %c : tensor<f32>\n}) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>",
               Value(F32, x.array * x.array))
    yield Case("tuples", [x], "%t = stablehlo.tuple $0, $0 : tuple<tensor<3xf32>, tensor<3xf32>>\n"
               "%r = stablehlo.get_tuple_element %t[1] : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>", x)


def batch_norms():
    rng = seeded("norm")
    a = rng.normal(size=(4, 3, 5)).astype(np.float32)
    scale, offset = rng.normal(size=3).astype(np.float32), rng.normal(size=3).astype(np.float32)
    x, s, o = Value(F32, a), Value(F32, scale), Value(F32, offset)
    mean, var = a.astype(np.float64).mean((0, 2)), a.astype(np.float64).var((0, 2))
    shape = (1, 3, 1)
    wanted = (a - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-3) * scale.reshape(shape) + offset.reshape(shape)
    attributes = "<{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}>"
    yield Case("batch_norm_training", [x, s, o], f'%r:3 = "stablehlo.batch_norm_training"($0, $1, $2) {attributes} : '
               "(tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>)",
               [Value(F32, wanted), Value(F32, mean), Value(F32, var)], rtol=1e-5, atol=1e-6)
    yield Case("batch_norm_inference", [x, s, o, Value(F32, mean), Value(F32, var)],
               f'%r = "stablehlo.batch_norm_inference"($0, $1, $2, $3, $4) {attributes} : '
               "(tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3x5xf32>",
               Value(F32, wanted), rtol=1e-5, atol=1e-6)


def ragged_dots():
    rng = seeded("ragged")
    a, b = rng.integers(0, 4, (7, 3)).astype(float), rng.integers(0, 4, (4, 3, 5)).astype(float)
    sizes = np.array([2, 0, 4, 1])
    wanted = np.concatenate([a[s:e] @ b[g] for g, (s, e) in enumerate(zip(np.cumsum(sizes) - sizes, np.cumsum(sizes)))])
    for t in (F32, BF16):
        x, y, s = Value(t, t.encode(a)), Value(t, t.encode(b)), Value(I32, sizes)
        yield exact(f"ragged_dot_{t.name}", [x, y, s], '"chlo.ragged_dot"($0, $1, $2) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], '
                    "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
                    "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}>",
                    Value(t, t.encode(wanted)))


def all_cases():
    for group in (special_functions, special_pairs, random_bits, threefry_hash, control, batch_norms, ragged_dots):
        yield from group()
