"""Reductions, windows, products, convolutions, transforms and linear algebra."""

import itertools

import numpy as np

from element_types import (ALL, BF16, C64, C128, COMPLEX, F16, F32, F64, FLOATS, I1, I8, I16, I32, I64, INTS, U8, U32, UINTS, part_of)
from elementwise_cases import seeded
from module_text import Case, Value, tensor
from structure_cases import body, exact, ft, random

L = np.longdouble
SUMS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and,
        "or": np.bitwise_or, "xor": np.bitwise_xor}


def start_of(op, t):
    """The neutral element."""
    if op in ("add", "or", "xor"):
        return 0
    if op == "multiply":
        return 1
    if t.kind == "bool":
        return op in ("and", "minimum")
    if op == "and":
        return -1 if t.kind == "int" else (1 << t.width) - 1
    if t.kind == "float":
        return -np.inf if op == "maximum" else np.inf
    low = -(1 << (t.width - 1)) if t.kind == "int" else 0
    return low if op == "maximum" else low + (1 << t.width) - 1


def fits(op, t):
    if t.kind == "complex":
        return op in ("add", "multiply")
    if t.kind == "float":
        return op in ("add", "multiply", "maximum", "minimum")
    return True


def initial(op, t):
    v = start_of(op, t)
    return Value(t, t.encode(np.array(v, dtype=object if t.kind in ("int", "uint") else None)))


def numbers(t, shape, rng):
    """Whose sums and products are exact in every order."""
    return Value(t, t.encode(rng.integers(0, 2 if t.kind == "bool" else 3, shape)))


def folded(op, t, arrays_axis, axis):
    x = t.values(arrays_axis)
    if t.kind == "bool":
        f = {"add": np.logical_or, "multiply": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and,
             "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[op]
        return t.encode(f.reduce(x, axis=axis))
    first = start_of(op, t)
    if t.kind in ("int", "uint"):
        with np.errstate(all="ignore"):
            return SUMS[op].reduce(x, axis=axis, dtype=t.bits)
    return t.encode(SUMS[op].reduce(x, axis=axis, initial=first))


def reductions():
    for t in ALL:
        for op in SUMS:
            if not fits(op, t):
                continue
            n = f"{op}_{t.name}"
            rng = seeded("reduce" + n)
            for shape, axes in (((4, 5, 6), (1,)), ((4, 5, 6), (0, 2)), ((7,), (0,)), ((3, 0), (1,)), ((2, 3), ())):
                x, i = numbers(t, shape, rng), initial(op, t)
                if op == "multiply" and t.kind == "float":
                    x = Value(t, t.encode(rng.integers(1, 3, shape)))
                wanted = x.array
                for axis in sorted(axes, reverse=True):
                    wanted = folded(op, t, wanted, axis) if wanted.shape[axis] else np.full(
                        [s for d, s in enumerate(wanted.shape) if d != axis], i.array)
                text = f"stablehlo.reduce($0 init: $1) applies stablehlo.{op} across dimensions = {list(axes)}"
                yield exact(f"reduce_{n}_{len(shape)}_{axes}".replace(" ", ""), [x, i], text, Value(t, wanted))
    yield from arg_extrema()


def arg_extrema():
    for t in (F32, BF16, I32, U8, F64, F16, I8):
        for direction in ("GT", "LT"):
            rng = seeded("arg" + t.name + direction)
            a = t.encode(rng.integers(0, 5, (4, 9)))
            values = t.values(a)
            if t.kind == "float":
                a = a.copy()
                a[1, 4] = t.encode(np.array([np.nan]))[0]
                a[2, 7] = t.encode(np.array([np.nan]))[0]
                values = t.values(a)
            places = np.argmax(values, 1) if direction == "GT" else np.argmin(values, 1)
            s = tensor(t, ())
            x, i = Value(t, a), initial("maximum" if direction == "GT" else "minimum", t)
            wanted = Value(I32, places)
            text = f"""%i = stablehlo.iota dim = 1 : tensor<4x9xi32>
%c = stablehlo.constant dense<0> : tensor<i32>
%both:2 = stablehlo.reduce($0 init: $1), (%i init: %c) across dimensions = [1] : ({x.text_type}, tensor<4x9xi32>, {s}, tensor<i32>) -> ({tensor(t, (4,))}, tensor<4xi32>)
 reducer(%a: {s}, %b: {s}) (%p: tensor<i32>, %q: tensor<i32>)  {{
  %0 = stablehlo.compare  {direction}, %a, %b : ({s}, {s}) -> tensor<i1>
  %1 = stablehlo.compare  NE, %a, %a : ({s}, {s}) -> tensor<i1>
  %2 = stablehlo.or %0, %1 : tensor<i1>
  %3 = stablehlo.compare  EQ, %a, %b : ({s}, {s}) -> tensor<i1>
  %4 = stablehlo.compare  LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %5 = stablehlo.and %3, %4 : tensor<i1>
  %6 = stablehlo.or %2, %5 : tensor<i1>
  %7 = stablehlo.select %2, %a, %b : tensor<i1>, {s}
  %8 = stablehlo.select %6, %p, %q : tensor<i1>, tensor<i32>
  stablehlo.return %7, %8 : {s}, tensor<i32>
}}
%r = stablehlo.add %both#1, %both#1 : tensor<4xi32>"""
            yield Case(f"arg_{direction}_{t.name}", [x, i], text, Value(I32, wanted.array * 2))


# --- Windows

def padded(a, low, high, inner, fill):
    shape = [max(0, s + (s - 1) * i) if s else 0 for s, i in zip(a.shape, inner)]
    full = np.full([max(0, s + l + h) for s, l, h in zip(shape, low, high)], fill, dtype=a.dtype)
    for at in np.ndindex(*a.shape):
        place = tuple(p * (i + 1) + l for p, i, l in zip(at, inner, low))
        if all(0 <= p < s for p, s in zip(place, full.shape)):
            full[place] = a[at]
    return full


def window_places(size, window, stride, dilation):
    reach = (window - 1) * dilation + 1
    return max(0, (size - reach) // stride + 1) if size >= reach else 0


WINDOWS = [
    ((4, 6), (1, 2), (1, 2), (1, 1), (1, 1), ((0, 0), (0, 0))),
    ((4, 6), (2, 3), (1, 1), (1, 1), (1, 1), ((1, 0), (1, 1))),
    ((4, 6), (2, 2), (2, 1), (2, 1), (1, 2), ((0, 0), (2, 1))),
    ((5, 7), (3, 2), (2, 3), (1, 2), (2, 1), ((1, 1), (0, 3))),
    ((3, 5), (2, 2), (1, 1), (1, 1), (1, 1), ((-1, 0), (1, -1))),
    ((8,), (8,), (1,), (1,), (1,), ((7, 0),)),
    ((3, 4, 5, 2), (1, 2, 2, 1), (1, 1, 2, 1), (1, 1, 1, 1), (1, 1, 1, 1), ((0, 0), (0, 1), (1, 0), (0, 0))),
    ((2, 3), (4, 1), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
]


def window_text(window, stride, base, dilation, pad):
    array = lambda name, v: f"{name} = array<i64: {', '.join(map(str, v))}>"
    rows = "[" + ", ".join(f"[{a}, {b}]" for a, b in pad) + "]"
    return (f"{array('base_dilations', base)}, padding = dense<{rows}> : tensor<{len(pad)}x2xi64>, "
            f"{array('window_dilations', dilation)}, {array('window_dimensions', window)}, {array('window_strides', stride)}")


def reduce_windows():
    for number, (shape, window, stride, base, dilation, pad) in enumerate(WINDOWS):
        for t, op in itertools.product((F32, I32, BF16, U8, F16, F64, C64, I64), ("add", "maximum", "minimum", "multiply")):
            if not fits(op, t):
                continue
            rng = seeded(f"window{number}{op}{t.name}")
            x, i = numbers(t, shape, rng), initial(op, t)
            full = padded(x.array, [p[0] for p in pad], [p[1] for p in pad], [b - 1 for b in base], i.array)
            size = [window_places(*v) for v in zip(full.shape, window, stride, dilation)]
            wanted = np.zeros(size, dtype=t.bits)
            for at in np.ndindex(*size):
                part = full[tuple(slice(p * s, p * s + (w - 1) * d + 1, d) for p, s, w, d in zip(at, stride, window, dilation))]
                wanted[at] = folded(op, t, part.reshape(-1), 0)
            text = f'"stablehlo.reduce_window"($0, $1) <{{{window_text(window, stride, base, dilation, pad)}}}> {body(op, t)}'
            yield exact(f"reduce_window_{number}_{op}_{t.name}", [x, i], text, Value(t, wanted))
    yield from cumulative()
    yield from select_and_scatter()


def cumulative():
    for t, op, reverse in itertools.product((F32, I32, F16, U8), ("add", "multiply", "maximum", "minimum"), (False, True)):
        rng = seeded(f"cumulative{t.name}{op}")
        a = t.encode(rng.integers(1, 3, (3, 7)))
        x, i = Value(t, a), initial(op, t)
        order = a[:, ::-1] if reverse else a
        with np.errstate(all="ignore"):
            wanted = np.stack([folded(op, t, order[:, :k + 1], 1) for k in range(7)], 1)
        wanted = wanted[:, ::-1] if reverse else wanted
        pad = ((0, 0), (0, 6) if reverse else (6, 0))
        text = f'"stablehlo.reduce_window"($0, $1) <{{{window_text((1, 7), (1, 1), (1, 1), (1, 1), pad)}}}> {body(op, t)}'
        yield exact(f"cumulative_{op}_{t.name}_{reverse}", [x, i], text, Value(t, wanted))


def select_and_scatter():
    for number, (window, stride, pad) in enumerate((((2, 2), (2, 2), ((0, 0), (0, 0))), ((2, 3), (1, 2), ((0, 0), (1, 1))),
                                                     ((1, 2), (1, 1), ((0, 0), (0, 0))), ((3, 3), (2, 2), ((1, 0), (0, 1))))):
        for t, direction in itertools.product((F32, BF16, I32, F64), ("GE", "LE")):
            rng = seeded(f"scatter_window{number}{t.name}")
            shape = (4, 6)
            x = Value(t, t.encode(rng.permutation(24).reshape(shape)))
            sizes = [window_places(s + p[0] + p[1], w, k, 1) for s, p, w, k in zip(shape, pad, window, stride)]
            source = Value(t, t.encode(rng.integers(0, 4, sizes)))
            zero = Value(t, t.encode(np.array(0)))
            wanted = np.zeros(shape)
            values, sources = t.values(x.array), t.values(source.array)
            for at in np.ndindex(*sizes):
                places = [tuple(p * k + o - q[0] for p, k, o, q in zip(at, stride, offset, pad)) for offset in np.ndindex(*window)]
                inside = [p for p in places if all(0 <= v < s for v, s in zip(p, shape))]
                best = inside[0]
                for p in inside[1:]:
                    if not (values[best] >= values[p] if direction == "GE" else values[best] <= values[p]):
                        best = p
                wanted[best] += sources[at]
            s = tensor(t, ())
            rows = "[" + ", ".join(f"[{a}, {b}]" for a, b in pad) + "]"
            text = (f'"stablehlo.select_and_scatter"($0, $1, $2) <{{padding = dense<{rows}> : tensor<2x2xi64>, '
                    f"window_dimensions = array<i64: {window[0]}, {window[1]}>, window_strides = array<i64: {stride[0]}, {stride[1]}>}}> "
                    f"({{\n^bb0(%x: {s}, %y: {s}):\n  %z = stablehlo.compare {direction}, %x, %y : ({s}, {s}) -> tensor<i1>\n"
                    f"  stablehlo.return %z : tensor<i1>\n}}, {body('add', t)[1:]}")
            yield exact(f"select_and_scatter_{number}_{t.name}_{direction}", [x, source, zero], text, Value(t, t.encode(wanted)))


# --- Products

DOTS = [
    ((3, 4), (4, 5), [], [], [1], [0]), ((4,), (4,), [], [], [0], [0]), ((2, 3, 4), (2, 4, 5), [0], [0], [2], [1]),
    ((4, 3, 2), (5, 4, 2), [2], [2], [0], [1]), ((2, 3), (4, 5), [], [], [], []), ((2, 3, 4, 5), (5, 3, 2, 6), [0], [2], [3, 1], [0, 1]),
    ((3, 0), (0, 2), [], [], [1], [0]), ((2, 3), (2, 3), [0, 1], [0, 1], [], []),
]


def dots():
    pairs = [(t, t, t) for t in ALL if t is not I1] + [(BF16, BF16, F32), (F16, F16, F32), (I8, I8, I32), (U8, U8, U32),
                                                       (I16, I16, I32), (F32, F32, F64), (I8, I8, I64), (U8, U8, I32), (F16, F16, F64)]
    for number, (ls, rs, lb, rb, lc, rc) in enumerate(DOTS):
        for a, b, result in pairs:
            rng = seeded(f"dot{number}{a.name}{result.name}")
            x, y = numbers(a, ls, rng), numbers(b, rs, rng)
            letters = "abcdefgh"
            left = list(letters[:len(ls)])
            right = [None] * len(rs)
            for i, j in zip(lb + lc, rb + rc):
                right[j] = left[i]
            fresh = iter("mnopq")
            right = [c or next(fresh) for c in right]
            out = [left[i] for i in lb] + [c for i, c in enumerate(left) if i not in lb + lc] + [
                c for i, c in enumerate(right) if i not in rb + rc]
            whole = a.kind in ("int", "uint")
            values = [a.values(x.array).astype(np.int64) if whole else a.values(x.array), b.values(y.array).astype(np.int64) if whole else b.values(y.array)]
            wanted = np.einsum("".join(left) + "," + "".join(right) + "->" + "".join(out), *values)
            batching = f"batching_dims = {lb} x {rb}, " if lb else ""
            text = f"stablehlo.dot_general $0, $1, {batching}contracting_dims = {lc} x {rc}, precision = [HIGHEST, DEFAULT]"
            yield exact(f"dot_{number}_{a.name}_{result.name}".replace("<", "").replace(">", ""), [x, y], text, Value(result, result.encode(wanted)))


CONVOLUTIONS = [
    # lhs spec, rhs spec, out spec, lhs shape, rhs shape, stride, pad, lhs dilation, rhs dilation, reversal, groups, batch groups
    ("bf01", "oi01", "bf01", (2, 3, 6, 5), (4, 3, 2, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), (0, 0), 1, 1),
    ("b01f", "01io", "b01f", (2, 6, 5, 3), (2, 3, 3, 4), (2, 1), ((1, 0), (1, 1)), (1, 1), (1, 1), (0, 0), 1, 1),
    ("bf01", "oi01", "bf01", (2, 3, 5, 5), (4, 3, 2, 2), (1, 1), ((1, 1), (0, 2)), (2, 1), (1, 2), (0, 0), 1, 1),
    ("bf01", "oi01", "bf01", (2, 6, 5, 5), (4, 3, 3, 3), (1, 2), ((0, 0), (1, 1)), (1, 1), (1, 1), (0, 0), 2, 1),
    ("bf01", "oi01", "bf01", (4, 3, 5, 5), (4, 3, 2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), (0, 0), 1, 2),
    ("0fb1", "1oi0", "f1b0", (5, 3, 2, 6), (2, 4, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), (1, 0), 1, 1),
    ("b0f", "0io", "b0f", (3, 9, 4), (3, 1, 8), (2,), ((1, 1),), (1,), (2,), (0,), 4, 1),
    ("bf012", "oi012", "bf012", (1, 2, 4, 3, 4), (3, 2, 2, 2, 1), (1, 1, 2), ((0, 0), (1, 0), (0, 0)), (1, 1, 2), (1, 1, 1), (0, 1, 0), 1, 1),
    ("bf", "io", "bf", (3, 4), (4, 5), (), (), (), (), (), 1, 1),
    ("bf0", "oi0", "bf0", (2, 3, 6), (4, 3, 2), (1,), ((-1, 2),), (2,), (1,), (0,), 1, 1),
    ("bf0", "oi0", "bf0", (2, 3, 4), (4, 3, 3), (3,), ((0, -2),), (1,), (1,), (1,), 1, 1),
]


def convolved(c, x, k):
    ls, rs, os, _, _, stride, pad, ld, rd, reverse, groups, batch_groups = c
    n = len(stride)
    a = np.transpose(x, [ls.index(d) for d in "bf" + "0123"[:n]])
    w = np.transpose(k, [rs.index(d) for d in "oi" + "0123"[:n]])
    a = padded(a, [0, 0] + [p[0] for p in pad], [0, 0] + [p[1] for p in pad], [0, 0] + [d - 1 for d in ld], 0)
    w = w[(slice(None), slice(None)) + tuple(slice(None, None, -1) if r else slice(None) for r in reverse)]
    sizes = [window_places(a.shape[i + 2], w.shape[i + 2], stride[i], rd[i]) for i in range(n)]
    batch, outs = a.shape[0] // batch_groups, w.shape[0]
    result = np.zeros([batch, outs] + sizes, dtype=x.dtype)
    per_group = a.shape[1] // groups
    for at in np.ndindex(*sizes):
        part = a[(slice(None), slice(None)) + tuple(slice(p * s, p * s + (w.shape[i + 2] - 1) * d + 1, d)
                                                    for i, (p, s, d) in enumerate(zip(at, stride, rd)))]
        for o in range(outs):
            group = o // (outs // groups)
            features = slice(group * per_group, (group + 1) * per_group)
            first = (o // (outs // batch_groups)) * batch
            product = part[first:first + batch, features] * w[o]
            result[(slice(None), o) + at] = product.reshape(batch, -1).sum(1)
    order = "bf" + "0123"[:n]
    return np.transpose(result, [order.index(d) for d in os])


def spec_text(spec):
    return "[" + ", ".join(spec) + "]"


def convolutions():
    pairs = [(t, t) for t in (F32, F64, BF16, F16, I8, I32, U8, I64, C64, C128)] + [(BF16, F32), (F16, F32), (I8, I32), (F32, F64), (U8, I32)]
    for number, c in enumerate(CONVOLUTIONS):
        ls, rs, os, lshape, rshape, stride, pad, ld, rd, reverse, groups, batch_groups = c
        for t, result in pairs:
            rng = seeded(f"conv{number}{t.name}{result.name}")
            x, k = numbers(t, lshape, rng), numbers(t, rshape, rng)
            as_values = (lambda v: v.astype(np.int64)) if t.kind in ("int", "uint") else t.values
            wanted = Value(result, result.encode(convolved(c, as_values(x.array), as_values(k.array))))
            lists = lambda v: "[" + ", ".join(map(str, v)) + "]"
            window = (f"stride = {lists(stride)}, pad = [{', '.join(lists(p) for p in pad)}], lhs_dilate = {lists(ld)}, "
                      f"rhs_dilate = {lists(rd)}, reverse = {lists(bool(r) for r in reverse).lower()}")
            text = (f"stablehlo.convolution($0, $1) dim_numbers = {spec_text(ls)}x{spec_text(rs)}->{spec_text(os)}, "
                    f"window = {{{window}}} {{batch_group_count = {batch_groups} : i64, feature_group_count = {groups} : i64, "
                    "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}")
            yield exact(f"conv_{number}_{t.name}_{result.name}".replace("<", "").replace(">", ""), [x, k], text, wanted)


# --- Linear algebra and transforms

def ffts():
    for real, cplx in ((F32, C64), (F64, C128)):
        tolerance = 2e-6 if real is F32 else 1e-14
        for shape, length in (((2, 8), (8,)), ((3, 4, 6), (4, 6)), ((5,), (5,)), ((2, 3, 4, 5), (3, 4, 5)), ((3, 7), (7,)), ((1, 1), (1,))):
            axes = tuple(range(len(shape) - len(length), len(shape)))
            rng = seeded(f"fft{shape}")
            z = Value(cplx, rng.normal(size=shape) + 1j * rng.normal(size=shape))
            r = Value(real, rng.normal(size=shape))
            for kind, f, x, out in (("FFT", np.fft.fftn, z, cplx), ("IFFT", np.fft.ifftn, z, cplx), ("RFFT", np.fft.rfftn, r, cplx)):
                wanted = Value(out, f(x.array, axes=axes))
                yield Case(f"fft_{kind}_{real.name}_{len(shape)}_{shape[-1]}", [x],
                           f"%r = stablehlo.fft $0, type = {kind}, length = {list(length)} : {ft([x], [wanted])}", wanted,
                           rtol=tolerance, atol=tolerance * 10)
            half = Value(cplx, z.array[..., :shape[-1] // 2 + 1])
            wanted = Value(real, np.fft.irfftn(half.array, s=length, axes=axes))
            yield Case(f"fft_IRFFT_{real.name}_{len(shape)}_{shape[-1]}", [half],
                       f"%r = stablehlo.fft $0, type = IRFFT, length = {list(length)} : {ft([half], [wanted])}", wanted,
                       rtol=tolerance, atol=tolerance * 10)


def matrices(t, shape, rng):
    a = rng.normal(size=shape)
    return a + 1j * rng.normal(size=shape) if t.kind == "complex" else a


def factorizations():
    for t in (F32, F64, C64, C128):
        tolerance = 1e-4 if t in (F32, C64) else 1e-11
        for batch, n in (((), 4), ((2, 3), 5), ((), 1)):
            rng = seeded(f"cholesky{t.name}{n}")
            a = matrices(t, batch + (n, n), rng)
            a = a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n)
            low = np.linalg.cholesky(a)
            for lower in (True, False):
                x = Value(t, a)
                factor = low if lower else np.conj(np.swapaxes(low, -1, -2))
                mask = (np.tril if lower else np.triu)(np.ones((n, n)))
                # The other triangle of the result is unspecified.
                text = (f"%f = stablehlo.cholesky $0, lower = {str(lower).lower()} : {x.text_type}\n"
                        f"%r = stablehlo.multiply %f, $1 : {x.text_type}")
                yield Case(f"cholesky_{t.width}_{t.kind}_{n}_{lower}", [x, Value(t, np.broadcast_to(mask, a.shape))], text,
                           Value(t, factor), rtol=tolerance, atol=tolerance)
            yield from triangular(t, batch, n, low, tolerance)


def triangular(t, batch, n, low, tolerance):
    rng = seeded("triangular")
    for left, lower, unit, transpose in itertools.product((True, False), (True, False), (True, False), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")):
        a = low if lower else np.conj(np.swapaxes(low, -1, -2))
        noise = a + np.swapaxes(a, -1, -2) * 3  # what is not read
        matrix = (np.tril if lower else np.triu)(a)
        given = np.where((np.tril if lower else np.triu)(np.ones((n, n))) > 0, a, noise)
        if unit:
            matrix = matrix - matrix * np.eye(n) + np.eye(n)
        used = {"NO_TRANSPOSE": matrix, "TRANSPOSE": np.swapaxes(matrix, -1, -2), "ADJOINT": np.conj(np.swapaxes(matrix, -1, -2))}[transpose]
        b = matrices(t, batch + ((n, 3) if left else (3, n)), rng)
        wanted = np.linalg.solve(used, b) if left else np.swapaxes(np.linalg.solve(np.swapaxes(used, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
        x, y = Value(t, given), Value(t, b)
        text = (f'"stablehlo.triangular_solve"($0, $1) <{{left_side = {str(left).lower()}, lower = {str(lower).lower()}, '
                f"transpose_a = #stablehlo<transpose {transpose}>, unit_diagonal = {str(unit).lower()}}}>")
        case = exact(f"triangular_solve_{t.width}_{t.kind}_{n}_{left}_{lower}_{unit}_{transpose}", [x, y], text, Value(t, wanted))
        case.rtol = case.atol = tolerance * 10
        yield case


def all_cases():
    for group in (reductions, reduce_windows, dots, convolutions, ffts, factorizations):
        yield from group()
