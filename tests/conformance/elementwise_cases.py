"""Ops on elements: values, infinities, nan, signed zeros, the ends of integer types."""

import mpmath
import numpy as np

from element_types import (ALL, BF16, C64, C128, COMPLEX, F16, F32, F64, FLOATS, I1, I4, INTS, NARROW, SHORT, U4,
                           UINTS, part_of)
from module_text import Case, Value, tensor

mpmath.mp.prec = 120
L = np.longdouble
INF, NAN = np.inf, np.nan


def seeded(name):
    return np.random.default_rng([ord(c) for c in name])


def real_values(type_, rng, scale=4.0):
    info = {"f64": (2.0 ** -1022, 1.79e308), "f32": (2.0 ** -126, 3.4e38), "bf16": (2.0 ** -126, 3.38e38),
            "f16": (2.0 ** -14, 65504.0)}.get(type_.name, (0.0625, 16.0))
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, INF, -INF, NAN, info[0], -info[0], info[1], -info[1],
               1e-3, -1e-3, 20.0, -20.0, 100.0, 0.99, 1.01]
    if type_.table is not None and type_.width == 8 and not np.isinf(type_.table).any():
        special = [v for v in special if not np.isinf(v)]
    if type_ in SHORT:
        special = [v for v in special if np.isnan(v) or abs(v) <= 16]
    more = rng.normal(size=64 - len(special)) * scale
    return np.array(special + list(more))


def int_values(type_, rng, count=64):
    low = -(1 << (type_.width - 1)) if type_.kind == "int" else 0
    high = low + (1 << type_.width) - 1
    special = [v for v in (0, 1, 2, 3, 7, -1, -2, -3, low, low + 1, high, high - 1) if low <= v <= high]
    count = max(count, len(special))
    random = [int(v) % (high - low + 1) + low for v in rng.integers(0, 1 << 62, count - len(special))]
    return np.array(special + random, dtype=object)


def complex_values(rng):
    z = list(rng.normal(size=40) * 3 + 1j * rng.normal(size=40) * 3)
    z += list((rng.normal(size=8) + 1j * rng.normal(size=8)) * 1e-3)
    z += [1 + 0j, -1 + 0j, 1j, -1j, 2 + 0j, 0.5 + 0.5j, 10 - 3j, -4 + 7j]
    return np.array(z)


def sample(type_, rng, scale=4.0):
    if type_.kind == "bool":
        return Value(type_, rng.integers(0, 2, 64))
    if type_.kind in ("int", "uint"):
        return Value(type_, type_.encode(int_values(type_, rng)))
    if type_.kind == "complex":
        return Value(type_, complex_values(rng))
    return Value(type_, type_.encode(real_values(type_, rng, scale)))


# --- Real functions, of long doubles

def high(f):
    """From mpmath: of one finite long double, else of NumPy's own function of the name."""
    return lambda x: np.array([L(mpmath.nstr(f(mpmath.mpf(repr(float(v)))), 30)) for v in x.ravel()])


def sign_of(x):
    return np.where(np.isnan(x), x, np.where(x == 0, x, np.sign(x)))


def logistic(x):
    return 1 / (1 + np.exp(-x))


REAL = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "negate": lambda x: -x, "sign": sign_of,
    "round_nearest_even": np.rint,
    "round_nearest_afz": lambda x: np.copysign(np.floor(np.abs(x)) + (np.abs(x) - np.floor(np.abs(x)) >= 0.5), x),
    "cbrt": np.cbrt, "cosine": np.cos, "sine": np.sin, "tan": np.tan, "tanh": np.tanh, "exponential": np.exp,
    "exponential_minus_one": np.expm1, "log": np.log, "log_plus_one": np.log1p, "logistic": logistic,
    "sqrt": np.sqrt, "rsqrt": lambda x: np.where(x == 0, np.copysign(INF, x), 1 / np.sqrt(x)),
}
EXACT = {"abs", "ceil", "floor", "negate", "sign", "round_nearest_even", "round_nearest_afz"}
CHLO_REAL = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cosh": np.cosh, "sinh": np.sinh, "tan": np.tan, "square": lambda x: x * x,
    "conj": lambda x: x,
}


def unary_text(dialect, op, a, result):
    if a == result:
        return f"%r = {dialect}.{op} $0 : {a}" if dialect == "stablehlo" else f"%r = {dialect}.{op} $0 : {a} -> {a}"
    arrow = f"({a}) -> {result}" if dialect == "stablehlo" else f"{a} -> {result}"
    return f"%r = {dialect}.{op} $0 : {arrow}"


def real_functions():
    with np.errstate(all="ignore"):
        for dialect, table in (("stablehlo", REAL), ("chlo", CHLO_REAL)):
            for op, f in table.items():
                for t in FLOATS:
                    name = f"{op}_{t.name}_{dialect}"
                    x = sample(t, seeded(name))
                    wanted = f(x.type.values(x.array).astype(L))
                    result = Value(t, t.encode(wanted if t is F64 else wanted.astype(np.float64)))
                    yield Case(name, [x], unary_text(dialect, op, x.text_type, x.text_type), result,
                               None if op in EXACT else 1)


def short_floats():
    with np.errstate(all="ignore"):
        for t in SHORT:
            codes = Value(t, np.arange(len(t.table)))
            for op in ("abs", "negate", "sign", "ceil", "floor", "cosine", "exponential", "sqrt"):
                if op == "negate" and t.negative_zero is None:
                    continue
                wanted = t.encode(REAL[op](t.values(codes.array)))
                yield Case(f"{op}_{t.name}", [codes], unary_text("stablehlo", op, codes.text_type, codes.text_type),
                           Value(t, wanted), 1)


# --- Complex functions, of mpmath

def expm1_of(z):
    return mpmath.expm1(z)


COMPLEX_FUNCTIONS = {
    "cosine": mpmath.cos, "sine": mpmath.sin, "tan": mpmath.tan, "tanh": mpmath.tanh, "exponential": mpmath.exp,
    "exponential_minus_one": expm1_of, "log": mpmath.log, "log_plus_one": lambda z: mpmath.log(1 + z),
    "logistic": lambda z: 1 / (1 + mpmath.exp(-z)), "sqrt": mpmath.sqrt, "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "negate": lambda z: -z, "sign": lambda z: z / abs(z) if z else z,
    "cbrt": lambda z: mpmath.power(z, mpmath.mpf(1) / 3),
}
COMPLEX_CHLO = {
    "acos": mpmath.acos, "acosh": mpmath.acosh, "asin": mpmath.asin, "asinh": mpmath.asinh, "atan": mpmath.atan,
    "atanh": mpmath.atanh, "cosh": mpmath.cosh, "sinh": mpmath.sinh, "tan": mpmath.tan, "conj": lambda z: z.conjugate(),
    "square": lambda z: z * z,
}
CUTS = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "log", "log_plus_one", "sqrt", "rsqrt", "cbrt"}


def as_mpc(z):
    return mpmath.mpc(mpmath.mpf(float(z.real)), mpmath.mpf(float(z.imag)))


def as_complex(type_, z):
    part = np.float32 if type_ is C64 else L
    z = mpmath.mpmathify(z)
    re, im = (np.array(L(mpmath.nstr(p, 30)), dtype=L) for p in (mpmath.re(z), mpmath.im(z)))
    if part is L:
        return complex(float(re), float(im))
    return complex(np.float32(re), np.float32(im))


def complex_functions():
    for dialect, table in (("stablehlo", COMPLEX_FUNCTIONS), ("chlo", COMPLEX_CHLO)):
        for op, f in table.items():
            for t in COMPLEX:
                name = f"{op}_c{t.width}_{dialect}"
                z = complex_values(seeded(name)).astype(t.bits)
                if op in CUTS:
                    z = z[(z.imag != 0) & (z.real != 0)]
                x = Value(t, z)
                wanted = np.array([as_complex(t, f(as_mpc(v))) for v in z], dtype=t.bits)
                yield Case(name, [x], unary_text(dialect, op, x.text_type, x.text_type), Value(t, wanted), 3,
                           atol=1e-7 if t is C64 else 4e-16)
    for t in COMPLEX:
        yield from complex_parts(t)


def complex_parts(t):
    part = part_of(t)
    z = complex_values(seeded("parts")).astype(t.bits)
    x = Value(t, z)
    n = (len(z),)
    yield Case(f"real_{t.width}", [x], unary_text("stablehlo", "real", x.text_type, tensor(part, n)), Value(part, z.real))
    yield Case(f"imag_{t.width}", [x], unary_text("stablehlo", "imag", x.text_type, tensor(part, n)), Value(part, z.imag))
    size = np.array([np.hypot(L(v.real), L(v.imag)) for v in z]).astype(part.bits)
    yield Case(f"abs_c{t.width}", [x], unary_text("stablehlo", "abs", x.text_type, tensor(part, n)), Value(part, size), 1)
    a, b = Value(part, z.real), Value(part, z.imag)
    yield Case(f"complex_{t.width}", [a, b], f"%r = stablehlo.complex $0, $1 : {x.text_type}", x)
    special = np.array([complex(a, b) for a in (INF, -INF, NAN, 0.0, -0.0, 1.0) for b in (INF, -INF, NAN, 0.0, -0.0, 2.0)],
                       dtype=t.bits)
    s = Value(t, special)
    for op, f in (("exponential", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh), ("cosine", np.cos),
                  ("sine", np.sin)):
        with np.errstate(all="ignore"):
            yield Case(f"{op}_c{t.width}_special", [s], unary_text("stablehlo", op, s.text_type, s.text_type),
                       Value(t, f(special.astype(np.complex128)).astype(t.bits)), 1)
    with np.errstate(all="ignore"):
        yield Case(f"abs_c{t.width}_special", [s], unary_text("stablehlo", "abs", s.text_type, tensor(part, (36,))),
                   Value(part, np.hypot(special.real, special.imag)))
        for op, f in (("acos", np.arccos), ("asin", np.arcsin), ("atan", np.arctan), ("acosh", np.arccosh),
                      ("asinh", np.arcsinh), ("atanh", np.arctanh), ("cosh", np.cosh), ("sinh", np.sinh)):
            yield Case(f"{op}_c{t.width}_special", [s], unary_text("chlo", op, s.text_type, s.text_type),
                       Value(t, f(special.astype(np.complex128)).astype(t.bits)), 1)


# --- Integers and predicates

def count_leading_zeros(type_):
    mask = (1 << type_.width) - 1
    return lambda v: type_.width - (int(v) & mask).bit_length()


def integer_functions():
    for t in INTS + UINTS:
        mask = (1 << t.width) - 1
        table = {"not": lambda v: ~v, "negate": lambda v: -v,
                 "popcnt": lambda v, m=mask: bin(int(v) & m).count("1"), "count_leading_zeros": count_leading_zeros(t),
                 "sign": lambda v: (v > 0) - (v < 0)}
        if t.kind == "int":
            table["abs"] = abs
        for op, f in table.items():
            x = sample(t, seeded(op + t.name))
            wanted = t.encode(np.array([f(int(v)) for v in x.array], dtype=object))
            yield Case(f"{op}_{t.name}", [x], unary_text("stablehlo", op, x.text_type, x.text_type), Value(t, wanted))
    x = sample(I1, seeded("not"))
    yield Case("not_i1", [x], unary_text("stablehlo", "not", x.text_type, x.text_type), Value(I1, ~x.array))


def truncated(a, b, t):
    if b == 0:
        return -1
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def remainder(a, b, t):
    return a if b == 0 else a - b * truncated(a, b, t)


def int_power(a, b, t):
    if b >= 0:
        return pow(a, b, 1 << t.width)
    return a ** -b if a in (1, -1) else 0


def shift(kind):
    def f(a, b, t):
        amount = b & ((1 << t.width) - 1)
        bits = a & ((1 << t.width) - 1)
        if kind == "left":
            return bits << amount if amount < t.width else 0
        if kind == "logical":
            return bits >> amount if amount < t.width else 0
        return (a if a < (1 << (t.width - 1)) else a - (1 << t.width)) >> min(amount, t.width - 1)
    return f


INT_BINARY = {
    "add": lambda a, b, t: a + b, "subtract": lambda a, b, t: a - b, "multiply": lambda a, b, t: a * b,
    "divide": truncated, "remainder": remainder, "power": int_power, "maximum": lambda a, b, t: max(a, b),
    "minimum": lambda a, b, t: min(a, b), "and": lambda a, b, t: a & b, "or": lambda a, b, t: a | b,
    "xor": lambda a, b, t: a ^ b, "shift_left": shift("left"), "shift_right_logical": shift("logical"),
    "shift_right_arithmetic": shift("arithmetic"),
}


def integer_pairs():
    for t in INTS + UINTS:
        for op, f in INT_BINARY.items():
            rng = seeded(op + t.name)
            a = int_values(t, rng)
            low = -(1 << (t.width - 1)) if t.kind == "int" else 0
            few = [v for v in (0, 1, 2, 5, t.width - 1, t.width, t.width + 1, -1, -2, low) if low <= v]
            b = np.concatenate([int_values(t, rng), np.array(few * 6, dtype=object)[:60]])
            if op == "power":
                b = np.array([v if -70 < v < 70 else v % 9 for v in b], dtype=object)
            a = np.concatenate([a[::-1], int_values(t, rng, 60)])
            if op in ("divide", "remainder") and t.kind == "int":
                a = np.append(a, low)
                b = np.append(b, -1)
            n = min(len(a), len(b))
            a, b = Value(t, t.encode(a[:n])), Value(t, t.encode(b[:n]))
            wanted = t.encode(np.array([f(int(x), int(y), t) for x, y in zip(a.array, b.array)], dtype=object))
            yield Case(f"{op}_{t.name}", [a, b], f"%r = stablehlo.{op} $0, $1 : {a.text_type}", Value(t, wanted))
    for op, f in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor), ("add", np.logical_or),
                  ("multiply", np.logical_and), ("maximum", np.logical_or), ("minimum", np.logical_and)):
        a, b = Value(I1, [0, 0, 1, 1]), Value(I1, [0, 1, 0, 1])
        yield Case(f"{op}_i1", [a, b], f"%r = stablehlo.{op} $0, $1 : {a.text_type}", Value(I1, f(a.array, b.array)))


# --- Pairs of real and complex numbers

def ieee_remainder(a, b):
    return np.fmod(a, b)


def nan_or(f):
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), L(NAN), f(a, b))


REAL_BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": nan_or(np.maximum), "minimum": nan_or(np.minimum), "power": np.power, "remainder": ieee_remainder,
    "atan2": np.arctan2,
}


def pairs(rng, type_):
    x = real_values(type_, rng)
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.0, INF, -INF, NAN, 0.5, 3.0])
    a = np.concatenate([x, np.repeat(special, 10)])
    b = np.concatenate([rng.normal(size=64) * 3, np.tile(special, 10)])
    return a, b


def real_pairs():
    with np.errstate(all="ignore"):
        for t in FLOATS:
            for op, f in REAL_BINARY.items():
                a, b = (Value(t, t.encode(v)) for v in pairs(seeded(op + t.name), t))
                x, y = t.values(a.array), t.values(b.array)
                wide = op in ("power", "atan2") or t is not F64
                wanted = f(x.astype(L), y.astype(L)) if wide else f(x, y)
                if op != "power" and t is not F64:
                    wanted = wanted.astype(np.float64) if op not in ("add", "subtract", "multiply", "divide") else wanted
                value = Value(t, t.encode(wanted))
                yield Case(f"{op}_{t.name}", [a, b], f"%r = stablehlo.{op} $0, $1 : {a.text_type}", value,
                           1 if op in ("power", "atan2") else 0)
            yield from next_after(t)


def next_after(t):
    a, b = (Value(t, t.encode(v)) for v in pairs(seeded("next_after" + t.name), t))
    x, y = t.values(a.array), t.values(b.array)
    unsigned = f"u{t.bits.itemsize}"
    bits = np.ascontiguousarray(a.array).view(unsigned)
    top = 1 << (t.width - 1)
    result = []
    for code, p, q in zip(bits.astype(object), x, y):
        if np.isnan(p) or np.isnan(q):
            result.append(int(np.ascontiguousarray(t.encode(np.array([NAN]))).view(unsigned)[0]))
        elif p == q:
            result.append(int(np.ascontiguousarray(t.encode(np.array([q]))).view(unsigned)[0]))
        elif p == 0:
            result.append(1 | (top if q < 0 else 0))
        else:
            result.append(code + (1 if (p < q) == (p > 0) else -1))
    wanted = np.array(result, dtype=unsigned).view(t.bits)
    yield Case(f"next_after_{t.name}", [a, b], f"%r = chlo.next_after $0, $1 : {a.text_type}, {a.text_type} -> {a.text_type}",
               Value(t, wanted), 0)


def complex_pairs():
    table = {"add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
             "divide": lambda a, b: a / b, "power": mpmath.power,
             "atan2": lambda a, b: -1j * mpmath.log((b + 1j * a) / mpmath.sqrt(a * a + b * b))}
    for t in COMPLEX:
        for op, f in table.items():
            rng = seeded(op)
            a = complex_values(rng).astype(t.bits)
            b = complex_values(rng).astype(t.bits) * np.float32(0.5)
            b = np.roll(b, 7)
            if op in ("power", "atan2"):
                keep = (a.imag != 0) & (b.imag != 0) & (a.real != 0)
                a, b = a[keep], b[keep]
            x, y = Value(t, a), Value(t, b)
            wanted = np.array([as_complex(t, f(as_mpc(p), as_mpc(q))) for p, q in zip(x.array, y.array)], dtype=t.bits)
            yield Case(f"{op}_c{t.width}", [x, y], f"%r = stablehlo.{op} $0, $1 : {x.text_type}", Value(t, wanted), 3,
                       atol=2.5e-7 if t is C64 else 4e-15)


# --- Comparisons, conversions, selections

COMPARE = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}


def total_key(t, array):
    bits = np.ascontiguousarray(array).view(f"i{t.bits.itemsize}").astype(object)
    top = 1 << (t.width - 1)
    return np.array([v if v >= 0 else -(v + top) - 1 for v in bits], dtype=object)


def comparisons():
    for t in ALL:
        rng = seeded("compare" + t.name)
        if t.kind == "float":
            a, b = (Value(t, t.encode(v)) for v in pairs(rng, t))
        else:
            a, b = sample(t, rng), sample(t, rng)
            b = Value(t, np.where(rng.integers(0, 3, b.array.shape) == 0, a.array, b.array))
        own = {"float": "FLOAT", "complex": "FLOAT", "int": "SIGNED"}.get(t.kind, "UNSIGNED")
        result = tensor(I1, a.array.shape)
        for direction, f in COMPARE.items():
            if t.kind == "complex" and direction not in ("EQ", "NE"):
                continue
            wanted = f(t.values(a.array), t.values(b.array))
            yield Case(f"compare_{direction}_{t.name}", [a, b],
                       f"%r = stablehlo.compare  {direction}, $0, $1,  {own} : ({a.text_type}, {b.text_type}) -> {result}",
                       Value(I1, wanted))
            if t.kind == "float":
                wanted = f(total_key(t, a.array), total_key(t, b.array)).astype(bool)
                yield Case(f"compare_total_{direction}_{t.name}", [a, b],
                           f"%r = stablehlo.compare  {direction}, $0, $1,  TOTALORDER : "
                           f"({a.text_type}, {b.text_type}) -> {result}", Value(I1, wanted))


def converted(source, target, array):
    x = source.values(array)
    if target.kind == "complex":
        return x.astype(np.complex128).astype(target.bits) if source.kind != "complex" else x.astype(target.bits)
    if source.kind == "complex":
        x = x.real
    if target.width < 8 and target.kind in ("int", "uint") and source.kind in ("int", "uint"):
        return wrapped(target, array)
    if target.kind == "bool":
        return source.values(array) != 0
    if target.kind == "float":
        if source.kind in ("int", "uint"):
            if target is F64 or target is F32 or target.width <= 16:
                return target.encode(array.astype(L)) if target in (F64, F32, F16) else target.encode(exact_short(array, target))
        return target.encode(x.astype(np.float64))
    if source.kind in ("float", "complex"):
        low = -(1 << (target.width - 1)) if target.kind == "int" else 0
        top = low + (1 << target.width) - 1
        numbers = [0 if np.isnan(v) else top if v == INF else low if v == -INF else min(max(int(v), low), top) for v in x]
        return np.array(numbers, dtype=object).astype(target.bits)
    return target.encode(array.astype(object) if source.kind != "bool" else array)


def wrapped(target, array):
    codes = [int(v) & ((1 << target.width) - 1) for v in array]
    half = 1 << (target.width - 1)
    return np.array([v - 2 * half if target.kind == "int" and v >= half else v for v in codes], dtype=target.bits)


def exact_short(array, target):
    return array.astype(np.float64)


def conversions():
    types = ALL + SHORT + NARROW
    for source in types:
        for target in types:
            if source is target:
                continue
            rng = seeded(source.name + target.name)
            x = sample(source, rng, 60.0) if source not in SHORT else Value(source, np.arange(len(source.table)))
            if source.kind in ("float", "complex") and target in SHORT:
                x = Value(source, source.encode(rng.normal(size=200) * np.exp2(rng.integers(-12, 12, 200))))
            if source.kind in ("int", "uint") and source.width > 7 and target in SHORT:
                x = Value(source, source.encode(rng.integers(0, 100, 64)))
            with np.errstate(all="ignore"):
                wanted = converted(source, target, x.array)
            result = tensor(target, x.array.shape)
            yield Case(f"convert_{source.name}_{target.name}".replace("<", "_").replace(">", ""), [x],
                       f"%r = stablehlo.convert $0 : ({x.text_type}) -> {result}", Value(target, wanted),
                       0 if target.kind == "float" else None)


def selections():
    for t in ALL:
        rng = seeded("select" + t.name)
        a, b, p = sample(t, rng), sample(t, rng), Value(I1, rng.integers(0, 2, 64))
        n = len(a.array)
        p = Value(I1, p.array[:n])
        yield Case(f"select_{t.name}", [p, a, b], f"%r = stablehlo.select $0, $1, $2 : {p.text_type}, {a.text_type}",
                   Value(t, np.where(p.array, a.array, b.array)), 0)
        if t.kind == "complex" or t.kind == "bool":
            continue
        low, high_ = Value(t, np.asarray(a.array[30])), Value(t, np.asarray(b.array[33]))
        if t.kind == "float":
            low, high_ = Value(t, t.encode(np.array(-1.5))), Value(t, t.encode(np.array(2.25)))
        x = t.values(b.array)
        wanted = np.minimum(np.maximum(x, t.values(low.array)), t.values(high_.array))
        wanted = t.encode(wanted) if t.kind == "float" else wanted.astype(t.bits)
        yield Case(f"clamp_{t.name}", [low, b, high_],
                   f"%r = stablehlo.clamp $0, $1, $2 : ({low.text_type}, {b.text_type}, {high_.text_type}) -> {b.text_type}",
                   Value(t, wanted), 0)
    for t in FLOATS:
        x = sample(t, seeded("finite" + t.name))
        yield Case(f"is_finite_{t.name}", [x], f"%r = stablehlo.is_finite $0 : ({x.text_type}) -> {tensor(I1, x.array.shape)}",
                   Value(I1, np.isfinite(t.values(x.array))))
        for op, f in (("is_inf", np.isinf), ("is_pos_inf", np.isposinf), ("is_neg_inf", np.isneginf)):
            yield Case(f"{op}_{t.name}", [x], f"%r = chlo.{op} $0 : {x.text_type} -> {tensor(I1, x.array.shape)}",
                       Value(I1, f(t.values(x.array))))


def reduced(x, exponent, mantissa):
    """To a format with infinities; what is too small is zero."""
    bias = (1 << (exponent - 1)) - 1
    out = np.array(x, dtype=np.float64)
    for i, v in enumerate(out):
        if np.isnan(v) and mantissa == 0:
            out[i] = INF  # there is no nan without a mantissa
        if v == 0 or not np.isfinite(v):
            continue
        _, e = np.frexp(v)
        step = np.ldexp(1.0, int(e) - 1 - mantissa)
        rounded = np.rint(v / step) * step
        largest = np.ldexp(2.0 - np.ldexp(1.0, -mantissa), bias)
        if abs(rounded) > largest:
            rounded = np.copysign(INF, v)
        elif abs(rounded) < np.ldexp(1.0, 1 - bias):
            rounded = np.copysign(0.0, v)
        out[i] = rounded
    return out


def precisions():
    for t in FLOATS:
        for e, m in ((5, 10), (8, 7), (8, 23), (4, 3), (5, 2), (3, 0), (2, 1), (11, 52), (6, 9)):
            x = sample(t, seeded(f"precision{e}{m}"))
            with np.errstate(all="ignore"):
                values = t.values(x.array)
                wanted = t.encode(reduced(values, e, m) if (e, m) != (11, 52) else values)
            if t is F64 or e <= 5:
                yield Case(f"reduce_precision_{t.name}_e{e}m{m}", [x],
                           f"%r = stablehlo.reduce_precision $0, format = e{e}m{m} : {x.text_type}", Value(t, wanted), 0)


def narrow_integers():
    for t in (I4, U4):
        low = -8 if t.kind == "int" else 0
        a = Value(t, np.arange(low, low + 16))
        b = Value(t, np.roll(a.array, 5))
        for op in ("add", "multiply", "maximum", "and", "shift_left"):
            wanted = [INT_BINARY[op](int(x), int(y), t) & 15 for x, y in zip(a.array, b.array)]
            wanted = [v - 16 if t.kind == "int" and v > 7 else v for v in wanted]
            yield Case(f"{op}_{t.name}", [a, b], f"%r = stablehlo.{op} $0, $1 : {a.text_type}", Value(t, wanted))


def mulhi():
    for t in INTS + UINTS:
        rng = seeded("mulhi" + t.name)
        a, b = sample(t, rng), Value(t, t.encode(int_values(t, rng)[::-1]))
        wanted = np.array([(int(x) * int(y)) >> t.width for x, y in zip(a.array, b.array)], dtype=object)
        yield Case(f"mulhi_{t.name}", [a, b], f"%r = chlo.mulhi $0, $1 : {a.text_type}, {a.text_type} -> {a.text_type}",
                   Value(t, t.encode(wanted)))


def all_cases():
    for group in (real_functions, short_floats, complex_functions, integer_functions, integer_pairs, real_pairs,
                  complex_pairs, comparisons, conversions, selections, precisions, narrow_integers, mulhi):
        yield from group()
