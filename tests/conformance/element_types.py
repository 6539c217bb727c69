"""Element types of StableHLO: their bits, values and rounding."""

import numpy as np


class Type:
    """name as in the text; kind is bool, int, uint, float or complex.

    Arrays of a type have the dtype `bits`. NumPy knows the values of most; of the short floats they are a
    table over all bit patterns.
    """

    def __init__(self, name, kind, bits, width=None, table=None):
        self.name, self.kind, self.bits = name, kind, np.dtype(bits)
        self.width = width or 8 * self.bits.itemsize
        self.table = table
        if table is not None:
            codes = np.arange(len(table))
            finite = codes[np.isfinite(table)]
            self.order = finite[np.argsort(table[finite], kind="stable")]
            self.sorted = table[self.order]

    def values(self, array):
        """As float64, complex128, or integers of their own type."""
        if self.table is not None:
            return self.table[array]
        if self.kind == "float":
            return array.astype(np.float64)
        if self.kind == "complex":
            return array.astype(np.complex128)
        return array

    def encode(self, values):
        """Rounds to the nearest, ties to even; integers wrap."""
        values = np.asarray(values)
        with np.errstate(all="ignore"):
            if self.kind == "bool":
                return values.astype(np.bool_)
            if self.kind in ("int", "uint"):
                return wrap(values, self)
            if self.table is None:
                return values.astype(self.bits)
            return self._nearest(values.astype(np.float64))

    def _nearest(self, x):
        flat = x.ravel()
        above = np.clip(np.searchsorted(self.sorted, flat), 1, len(self.sorted) - 1)
        low, high = self.order[above - 1], self.order[above]
        to_low, to_high = flat - self.table[low], self.table[high] - flat
        even_low = (low & 1) == 0
        code = np.where((to_low < to_high) | ((to_low == to_high) & even_low), low, high)
        same = self.table[high] == flat
        code = np.where(same, high, code)
        zero = (self.table[code] == 0)
        if self.negative_zero is not None:
            code = np.where(zero & np.signbit(flat), self.negative_zero, code)
            code = np.where(zero & ~np.signbit(flat), 0, code)
        elif zero.any():
            code = np.where(zero, 0, code)
        largest = self.table[self.order[-1]]
        step = largest - self.table[self.order[-2]]
        overflow = np.abs(flat) >= largest + step / 2
        for sign in (1, -1):
            special = self.infinity[sign] if self.infinity else self.nan
            code = np.where(overflow & (np.sign(flat) == sign), special, code)
        code = np.where(np.isnan(flat), self.nan, code)
        return code.reshape(x.shape).astype(self.bits)


def wrap(values, type_):
    if values.dtype == object:
        mask = (1 << type_.width) - 1
        flat = [int(v) & mask for v in values.ravel()]
        if type_.kind == "int":
            flat = [v - (1 << type_.width) if v >> (type_.width - 1) else v for v in flat]
        return np.array(flat, dtype=type_.bits).reshape(values.shape)
    return values.astype(type_.bits)


def float_table(exponent, mantissa, bias, flavor):
    """The values of all bit patterns. flavor: ieee, fn (largest pattern is nan), fnuz (minus zero is nan)
    or finite (every pattern is a number)."""
    width = 1 + exponent + mantissa
    table = np.zeros(1 << width)
    for code in range(1 << width):
        sign = -1.0 if code >> (width - 1) else 1.0
        e = (code >> mantissa) & ((1 << exponent) - 1)
        m = code & ((1 << mantissa) - 1)
        if flavor == "ieee" and e == (1 << exponent) - 1:
            table[code] = sign * np.inf if m == 0 else np.nan
        elif flavor == "fn" and e == (1 << exponent) - 1 and m == (1 << mantissa) - 1:
            table[code] = np.nan
        elif flavor == "fnuz" and code == 1 << (width - 1):
            table[code] = np.nan
        elif e == 0:
            table[code] = sign * np.ldexp(m, 1 - bias - mantissa)
        else:
            table[code] = sign * np.ldexp((1 << mantissa) + m, e - bias - mantissa)
    return table


def short_float(name, exponent, mantissa, bias, flavor, bits):
    width = 1 + exponent + mantissa
    t = Type(name, "float", bits, width, float_table(exponent, mantissa, bias, flavor))
    top = 1 << (width - 1)
    t.negative_zero = None if flavor == "fnuz" else top
    t.infinity = None
    if flavor == "ieee":
        pattern = ((1 << exponent) - 1) << mantissa
        t.infinity = {1: pattern, -1: pattern | top}
        t.nan = pattern | (1 << (mantissa - 1))
    elif flavor == "finite":  # what is too large is the largest; a NaN is minus zero
        t.infinity = {1: top - 1, -1: 2 * top - 1}
        t.nan = top
    else:
        t.nan = top if flavor == "fnuz" else top - 1
    return t


F64 = Type("f64", "float", np.float64)
F32 = Type("f32", "float", np.float32)
F16 = Type("f16", "float", np.float16)
BF16 = short_float("bf16", 8, 7, 127, "ieee", np.uint16)
F8E5M2 = short_float("f8E5M2", 5, 2, 15, "ieee", np.uint8)
F8E4M3FN = short_float("f8E4M3FN", 4, 3, 7, "fn", np.uint8)
F8E4M3FNUZ = short_float("f8E4M3FNUZ", 4, 3, 8, "fnuz", np.uint8)
F8E5M2FNUZ = short_float("f8E5M2FNUZ", 5, 2, 16, "fnuz", np.uint8)
F8E4M3B11FNUZ = short_float("f8E4M3B11FNUZ", 4, 3, 11, "fnuz", np.uint8)
F8E4M3 = short_float("f8E4M3", 4, 3, 7, "ieee", np.uint8)
F8E3M4 = short_float("f8E3M4", 3, 4, 3, "ieee", np.uint8)
F6E2M3FN = short_float("f6E2M3FN", 2, 3, 1, "finite", np.uint8)
F6E3M2FN = short_float("f6E3M2FN", 3, 2, 3, "finite", np.uint8)
F4E2M1FN = short_float("f4E2M1FN", 2, 1, 1, "finite", np.uint8)
C64 = Type("complex<f32>", "complex", np.complex64)
C128 = Type("complex<f64>", "complex", np.complex128)
I1 = Type("i1", "bool", np.bool_, 1)
INTS = [Type(f"i{w}", "int", f"i{w // 8}") for w in (8, 16, 32, 64)]
UINTS = [Type(f"ui{w}", "uint", f"u{w // 8}") for w in (8, 16, 32, 64)]
I8, I16, I32, I64 = INTS
U8, U16, U32, U64 = UINTS
I4 = Type("i4", "int", np.int8, 4)
U4 = Type("ui4", "uint", np.uint8, 4)
I2 = Type("i2", "int", np.int8, 2)
U2 = Type("ui2", "uint", np.uint8, 2)
NARROW = [I2, U2, I4, U4]
FLOATS = [BF16, F16, F32, F64]
SHORT = [F8E5M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2FNUZ, F8E4M3B11FNUZ, F8E4M3, F8E3M4, F6E2M3FN, F6E3M2FN, F4E2M1FN]
COMPLEX = [C64, C128]
ALL = [I1] + INTS + UINTS + FLOATS + COMPLEX


def part_of(type_):
    return F32 if type_ is C64 else F64


def steps_apart(type_, a, b):
    """How many numbers of the float type lie between; equal and both nan are 0, one nan is infinite."""
    a, b = np.asarray(a), np.asarray(b)
    x, y = type_.values(a), type_.values(b)
    unsigned = f"u{type_.bits.itemsize}"

    def place(bits):
        bits = np.ascontiguousarray(bits).view(unsigned).astype(object)
        top = 1 << (8 * type_.bits.itemsize - 1)
        return np.where(bits >= top, top - bits, bits)

    if a.size == 0:
        return np.zeros(a.shape)
    distance = np.abs(place(a) - place(b)).astype(np.float64)
    distance = np.where(np.isnan(x) | np.isnan(y), np.inf, distance)
    return np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, distance)
