#!/usr/bin/python3
"""What NumPy and SciPy give, for tests/api/numpy_*_test.cpp: `generate.py` writes an .npz beside itself for
each subject. `NAME.in0`, `NAME.in1`, ... are a case's inputs, `NAME.out0`, ... its results.
"""
import itertools
import pathlib

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.special

HERE = pathlib.Path(__file__).parent
NAN, INF = np.nan, np.inf


class Subject:
    def __init__(self, name, seed):
        self.name, self.arrays, self.random = name, {}, np.random.default_rng(seed)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        np.savez(HERE / f"{self.name}.npz", **self.arrays)

    def case(self, name, inputs, f):
        assert f"{name}.in0" not in self.arrays and f"{name}.out0" not in self.arrays, name
        with np.errstate(all="ignore"):
            results = f(*inputs)
        results = results if isinstance(results, (tuple, list)) else [results]
        for kind, arrays in (("in", inputs), ("out", results)):
            for i, array in enumerate(arrays):
                array = np.asarray(array)
                self.arrays[f"{name}.{kind}{i}"] = array.astype(np.int32) if kind == "out" and array.dtype == np.int64 else array

    def normal(self, *dims):
        return self.random.standard_normal(dims)

    def complex(self, *dims):
        return self.normal(*dims) + 1j * self.normal(*dims)

    def integers(self, low, high, *dims):
        return self.random.integers(low, high, dims, dtype=np.int32)


SPECIAL = np.array([-INF, -2.5, -1.5, -1, -0.5, -0.0, 0.0, 0.3, 0.5, 1, 1.5, 2.5, INF, NAN])

with Subject("elementwise", 1) as s:
    real = {"acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
            "atanh": np.arctanh, "cosh": np.cosh, "sinh": np.sinh, "tan": np.tan, "cbrt": np.cbrt, "log2": np.log2,
            "log10": np.log10, "reciprocal": np.reciprocal, "erf": scipy.special.erf, "round": np.round,
            "trunc": np.trunc, "isnan": np.isnan, "isinf": np.isinf,
            "round_away_from_zero": lambda x: np.trunc(x + np.copysign(0.5, x))}
    for name, f in real.items():
        s.case(name, [SPECIAL], f)
    for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "tan", "log2", "log10", "reciprocal"):
        s.case(f"{name}_complex", [s.complex(5, 4)], real[name])
    s.case("erf_inv", [np.array([-1, -0.99, -0.9, -0.2, 0, 1e-8, 0.5, 0.9, 1, 2, NAN])], scipy.special.erfinv)
    s.case("erf_inv_f32", [np.linspace(-1, 1, 23, dtype=np.float32)], scipy.special.erfinv)
    pairs = [np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))]
    s.case("atan2", pairs, np.arctan2)
    s.case("logaddexp", pairs, np.logaddexp)
    s.case("nextafter", pairs, np.nextafter)
    s.case("nextafter_f32", [p.astype(np.float32) for p in pairs], np.nextafter)
    s.case("floor_divide", pairs, np.floor_divide)
    s.case("mod", [s.normal(7, 5) * 3, s.normal(5)], np.mod)
    numbers = s.integers(-9, 10, 7, 5)
    divisors = np.array([-3, -1, 1, 2, 5], np.int32)
    s.case("floor_divide_s32", [numbers, divisors], np.floor_divide)
    s.case("mod_s32", [numbers, divisors], np.mod)
    s.case("floor_divide_u8", [np.arange(20, dtype=np.uint8), np.full(20, 7, np.uint8)], np.floor_divide)
    other = s.integers(-9, 10, 7, 5)
    s.case("and", [numbers, other], np.bitwise_and)
    s.case("or", [numbers, other], np.bitwise_or)
    s.case("xor", [numbers, other], np.bitwise_xor)
    s.case("not", [numbers], np.bitwise_not)
    shifts = s.integers(0, 31, 7, 5)
    s.case("shift_left", [numbers, shifts], np.left_shift)
    s.case("shift_right", [numbers, shifts], np.right_shift)
    s.case("shift_right_u32", [numbers.astype(np.uint32), shifts.astype(np.uint32)], np.right_shift)
    s.case("shift_right_logical", [numbers, shifts],
           lambda a, b: (a.astype(np.uint32) >> b.astype(np.uint32)).astype(np.int32))
    s.case("popcount", [numbers], lambda a: np.vectorize(lambda x: bin(x & 0xFFFFFFFF).count("1"))(a))
    s.case("clz", [numbers], lambda a: np.vectorize(lambda x: 32 - int(x & 0xFFFFFFFF).bit_length())(a))
    z = s.complex(5, 4)
    s.case("complex", [s.normal(5, 4), s.normal(4)], lambda a, b: a + 1j * b)
    for name, f in {"real": np.real, "imag": np.imag, "conj": np.conj, "angle": np.angle, "abs": np.abs}.items():
        s.case(name, [z], f)
        s.case(f"{name}_real", [s.normal(5, 4)], f)
    s.case("clip", [s.normal(7, 5), s.normal(5)], lambda x, low: np.minimum(np.maximum(x, low), 0.5))
    s.case("bitcast", [np.array([[0, 1.5, -0.0], [NAN, INF, 1e-40]], np.float32)], lambda x: x.view(np.int32))
    s.case("bitcast_to_narrow", [numbers], lambda x: x.view(np.uint16).reshape(7, 5, 2))
    s.case("bitcast_to_wide", [s.integers(0, 99, 3, 2)], lambda x: x.view(np.uint64).reshape(3))
    s.case("reduce_precision", [np.float32(s.normal(7, 5))], lambda x: (
        lambda b: ((b + 0x7FFF + ((b >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32))(x.view(np.uint32)))

with Subject("reductions", 2) as s:
    x = s.normal(7, 5, 3)
    flags = s.random.random((7, 5)) < 0.2
    s.case("prod", [x], lambda x: x.prod(axis=(0, -1)))
    s.case("prod_keep", [x], lambda x: x.prod(axis=1, keepdims=True))
    s.case("prod_empty", [np.zeros((0, 4))], lambda x: x.prod(axis=0))
    s.case("any", [flags], lambda x: x.any(axis=1))
    s.case("all", [~flags], lambda x: x.all(axis=0))
    s.case("all_empty", [np.zeros((0, 4), bool)], lambda x: x.all(axis=0))
    s.case("var", [x], lambda x: x.var(axis=-1))
    s.case("var_sample", [x], lambda x: x.var(axis=(0, 1), ddof=1, keepdims=True))
    s.case("stddev", [x], lambda x: x.std())
    for name, order in {"0": 0, "1": 1, "2": None, "3": 3, "inf": INF, "minus_inf": -INF}.items():
        s.case(f"norm_{name}", [x], lambda x, order=order: np.linalg.norm(x, order, axis=1))
    s.case("norm_all", [x], lambda x: np.linalg.norm(x.ravel()))
    s.case("norm_complex", [s.complex(5, 4)], lambda x: np.linalg.norm(x, axis=0))
    ties = s.integers(0, 4, 7, 5)
    gaps = x[:, :, 0].copy()
    gaps[2, 1] = gaps[4, 1] = gaps[0, 3] = NAN
    for f in (np.argmax, np.argmin):
        s.case(f.__name__, [x], lambda x: f(x, axis=1))
        s.case(f"{f.__name__}_all", [x], f)
        s.case(f"{f.__name__}_ties", [ties], lambda x: f(x, axis=0))
        s.case(f"{f.__name__}_nan", [gaps], lambda x: f(x, axis=0))
        s.case(f"{f.__name__}_infinite", [np.full((5,), INF if f is np.argmin else -INF)], f)
    s.case("reduce", [x], lambda x: np.sqrt((x * x).sum(axis=1) + 4))
    positive = x[:, :, 0]
    for name, f in {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate,
                    "cummin": np.minimum.accumulate, "cumlogsumexp": np.logaddexp.accumulate}.items():
        s.case(name, [positive], lambda x: f(x, axis=1))
        s.case(f"{name}_reverse", [positive], lambda x: f(x[::-1], axis=0)[::-1])
        s.case(f"{name}_flat", [positive], lambda x: f(x.ravel()))
        s.case(f"{name}_empty", [np.zeros((0, 3))], lambda x: f(x, axis=0))
    s.case("cumsum_s32", [ties], lambda x: np.cumsum(x, axis=0))


# --- Windows by their definition: every position, every element of the window.
def windows(x, size, stride, pads, base, dilation, f, fill):
    wide = np.full([(n - 1) * b + 1 if n else 0 for n, b in zip(x.shape, base)], fill, x.dtype)
    wide[tuple(slice(None, None, b) for b in base)] = x
    wide = np.pad(wide, pads, constant_values=fill)
    counts = [max(0, (n - ((k - 1) * d + 1)) // s + 1) for n, k, s, d in zip(wide.shape, size, stride, dilation)]
    out = np.zeros(counts, x.dtype)
    for at in np.ndindex(*counts):
        out[at] = f(wide[tuple(slice(i * t, i * t + (k - 1) * d + 1, d) for i, t, k, d in zip(at, stride, size, dilation))])
    return out


def same(n, k, stride, dilation=1):
    total = max((-(-n // stride) - 1) * stride + (k - 1) * dilation + 1 - n, 0)
    return (total // 2, total - total // 2)


# x: N, spatial dims, C; kernel: spatial dims, I, O.
def convolve(x, kernel, stride, pads, base, dilation, groups=1):
    rank = x.ndim - 2
    parts = []
    per_in, per_out = x.shape[-1] // groups, kernel.shape[-1] // groups
    for n, o in itertools.product(range(x.shape[0]), range(kernel.shape[-1])):
        group = o // per_out
        image = x[n, ..., group * per_in:(group + 1) * per_in]
        weights = kernel[..., o]
        planes = [windows(image[..., c], kernel.shape[:rank], stride, pads, base, dilation,
                          lambda w, c=c: (w * weights[..., c]).sum(), 0) for c in range(per_in)]
        parts.append(sum(planes))
    out = np.array(parts).reshape(x.shape[0], kernel.shape[-1], *parts[0].shape)
    return np.moveaxis(out, 1, -1)


with Subject("convolution", 3) as s:
    image, kernel = s.normal(5, 7, 6, 4), s.normal(3, 2, 4, 3)
    s.case("valid", [image, kernel], lambda x, k: convolve(x, k, (1, 1), [(0, 0)] * 2, (1, 1), (1, 1)))
    s.case("same", [image, kernel], lambda x, k: convolve(x, k, (2, 1), [same(7, 3, 2), same(6, 2, 1)], (1, 1), (1, 1)))
    s.case("dilated", [image, kernel], lambda x, k: convolve(x, k, (1, 2), [(2, 1), (0, 3)], (2, 1), (2, 3)))
    s.case("channels_first", [np.moveaxis(image, -1, 1), kernel.transpose(3, 2, 0, 1)],
           lambda x, k: np.moveaxis(convolve(image, kernel, (1, 1), [(1, 1)] * 2, (1, 1), (1, 1)), -1, 1))
    grouped = s.normal(3, 2, 2, 6)
    s.case("grouped", [image, grouped], lambda x, k: convolve(x, k, (1, 1), [(0, 0)] * 2, (1, 1), (1, 1), 2))
    depthwise = s.normal(3, 2, 1, 8)
    s.case("depthwise", [image, depthwise], lambda x, k: convolve(x, k, (1, 1), [(0, 0)] * 2, (1, 1), (1, 1), 4))
    line, taps = s.normal(5, 9, 2), s.normal(3, 2, 4)
    s.case("one_dim", [line, taps], lambda x, k: convolve(x, k, (2,), [(1, 0)], (1,), (1,)))
    s.case("no_dim", [s.normal(5, 4), s.normal(4, 3)], lambda x, k: x @ k)
    s.case("three_dims", [s.normal(2, 4, 3, 5, 2), s.normal(2, 2, 3, 2, 2)],
           lambda x, k: convolve(x, k, (1, 1, 1), [(0, 0)] * 3, (1, 1, 1), (1, 1, 1)))
    s.case("empty_batch", [np.zeros((0, 7, 6, 4)), kernel], lambda x, k: np.zeros((0, 5, 5, 3)))

    def transposed(x, k, strides, rule):  # as jax.lax.conv_transpose defines it
        pads = []
        for size, stride in zip(k.shape, strides):
            total = size + stride - 2 + (max(size - stride, 0) if rule == "VALID" else 0)
            low = size - 1 if rule == "VALID" or stride > size - 1 else -(-total // 2)
            pads.append((low, total - low))
        return convolve(x, k, (1, 1), pads, strides, (1, 1))

    s.case("transpose_same", [image, kernel], lambda x, k: transposed(x, k, (2, 3), "SAME"))
    s.case("transpose_valid", [image, kernel], lambda x, k: transposed(x, k, (1, 2), "VALID"))
    s.case("transpose_kernel", [image, s.normal(3, 2, 3, 4)],
           lambda x, k: transposed(x, k[::-1, ::-1].swapaxes(2, 3), (2, 2), "SAME"))
    gaps = image.copy()
    gaps[1, 2, 3, 0] = NAN
    for name, x in {"max_pool": image, "max_pool_nan": gaps}.items():
        s.case(name, [x], lambda x: windows(x, (1, 2, 3, 1), (1, 2, 1, 1), [(0, 0), same(7, 2, 2), same(6, 3, 1), (0, 0)],
                                            (1,) * 4, (1,) * 4, np.max, -INF))
    s.case("avg_pool", [image], lambda x: windows(x, (1, 3, 2, 1), (1, 1, 2, 1), [(0, 0), (1, 1), (0, 0), (0, 0)],
                                                  (1,) * 4, (1,) * 4, np.mean, 0))
    s.case("avg_pool_inside", [image], lambda x: windows(x, (1, 3, 2, 1), (1,) * 4, [(0, 0), (1, 1), (0, 0), (0, 0)],
                                                         (1,) * 4, (1,) * 4, np.nansum, 0) /
           windows(np.ones_like(x), (1, 3, 2, 1), (1,) * 4, [(0, 0), (1, 1), (0, 0), (0, 0)], (1,) * 4, (1,) * 4, np.sum, 0))
    s.case("reduce_window", [image[..., 0]], lambda x: windows(
        x, (2, 3, 1), (1, 2, 1), [(1, 0), (0, 2), (0, 0)], (1, 2, 1), (2, 1, 1), lambda w: np.maximum(w.max(), 0.25), -9))

with Subject("sorting", 4) as s:
    x = s.normal(7, 5)
    messy = np.array([[1, NAN, -0.0, INF, 0.0, -INF, -NAN], [0.0, -0.0, 3, NAN, 3, -1, 2]])
    ties = s.integers(0, 4, 7, 5)
    s.case("sort", [x], np.sort)
    s.case("sort_axis", [x], lambda x: np.sort(x, axis=0))
    s.case("sort_messy", [messy], np.sort)
    s.case("sort_descending", [ties], lambda x: -np.sort(-x, axis=0))
    s.case("sort_empty", [np.zeros((3, 0))], np.sort)
    s.case("argsort", [ties], lambda x: np.argsort(x, axis=0, kind="stable"))
    s.case("argsort_descending", [ties], lambda x: np.argsort(-x, axis=1, kind="stable"))
    s.case("argsort_messy", [messy], lambda x: np.argsort(x, kind="stable"))
    keys = [s.integers(0, 3, 13), s.integers(0, 3, 13), s.normal(13)]
    s.case("lexicographic", keys, lambda a, b, c: [v[np.lexsort((b, a))] for v in (a, b, c)])
    s.case("top_k", [x], lambda x: (np.sort(x)[:, :-4:-1], np.argsort(x)[:, :-4:-1]))
    s.case("top_k_axis", [ties], lambda x: (-np.sort(-x, axis=0)[:3], np.argsort(-x, axis=0, kind="stable")[:3]))
    s.case("least_k", [x], lambda x: (np.sort(x)[:, :2], np.argsort(x)[:, :2]))

with Subject("indexing", 5) as s:
    x = s.normal(7, 5, 4)
    rows, columns = np.array([6, -1, 0, 2], np.int32), np.array([4, 0, -5, 3], np.int32)
    grid = np.array([[1], [-2]], np.int32)
    s.case("number", [x], lambda x: x[2])
    s.case("numbers", [x], lambda x: x[-1, ..., 3])
    s.case("ranges", [x], lambda x: x[1:5:2, ::-1, -3:])
    s.case("outside", [x], lambda x: x[-99:3, 4:99, 3:1])
    s.case("backwards", [x], lambda x: x[5:0:-2, :, 2::-1])
    s.case("newaxis", [x], lambda x: x[np.newaxis, 1, ..., np.newaxis])
    s.case("rows", [x, rows], lambda x, i: x[i])
    s.case("middle", [x, columns], lambda x, j: x[:, j])
    s.case("together", [x, rows, columns], lambda x, i, j: x[i, j])
    s.case("apart", [x, rows, np.array([3, 0, 1, -1], np.int32)], lambda x, i, j: x[i, :, j])
    s.case("broadcast", [x, grid, columns], lambda x, i, j: x[1:5, j, i])
    s.case("number_beside", [x, rows], lambda x, i: x[i, :, 2])
    s.case("range_beside", [x, rows], lambda x, i: x[i, 4:0:-2, None])
    s.case("small_type", [s.normal(200), np.array([-1, -128, 5], np.int8)], lambda x, i: x[i])

    def put(f, *where):
        def run(x, value, *places):
            x = x.copy()
            f(x, where[0](*places) if callable(where[0]) else where[0], value)
            return x
        return run

    def assign(x, at, value):
        x[at] = value

    s.case("set", [x, s.normal(5, 4)], put(assign, 2))
    s.case("set_ranges", [x, s.normal(4)], put(assign, np.s_[1:6:2, ::-1]))
    s.case("set_backwards", [x, s.normal(2, 5, 3)], put(assign, np.s_[5:0:-3, :, 2::-1]))
    s.case("set_nothing", [x, s.normal(4)], put(assign, np.s_[3:1]))
    s.case("set_rows", [x, s.normal(5, 4), rows[1:]], put(assign, lambda i: i))
    s.case("set_together", [x, s.normal(4, 4), rows, columns], put(assign, lambda i, j: (i, j)))
    s.case("set_mixed", [x, s.normal(2), columns], put(assign, lambda j: np.s_[0:2, j, 1:3]))
    s.case("set_apart", [x, s.normal(4, 5), rows, np.array([3, 0, 1, -1], np.int32)], put(assign, lambda i, j: np.s_[i, :, j]))
    for name, f in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
                    "min": np.minimum, "max": np.maximum}.items():
        s.case(name, [x, s.normal(4, 5, 4), np.array([6, 1, 6, -1], np.int32)], put(f.at, lambda i: i))
        s.case(f"{name}_range", [x, s.normal(3, 4)], put(f.at, np.s_[2, ::2]))
    s.case("take", [x, grid % 4], lambda x, i: np.take(x, i, axis=-2))
    places = s.integers(-7, 7, 3, 5, 4)
    s.case("take_along_axis", [x, places], lambda x, i: np.take_along_axis(x, i, 0))
    s.case("take_along_axis_broadcast", [x, s.integers(0, 4, 7, 1, 2)], lambda x, i: np.take_along_axis(x, i, 2))
    s.case("dynamic_slice", [x, np.int32(5), np.int32(-3)], lambda x, i, j: x[4:7, 0:2, 1:3])
    s.case("dynamic_update_slice", [x, s.normal(3, 2, 4), np.int32(5)],
           lambda x, u, i: np.concatenate([x[:4], np.concatenate([x[4:, :1], u, x[4:, 3:]], 1)]))

with Subject("arranging", 6) as s:
    x = s.normal(7, 5, 3)
    s.case("arange", [], lambda: np.arange(2, 11, 3))
    s.case("arange_down", [], lambda: np.arange(3, -3, -0.75))
    s.case("arange_none", [], lambda: np.arange(3, 1))
    s.case("linspace", [], lambda: np.linspace(-1, 2, 7))
    s.case("linspace_open", [], lambda: np.linspace(-1, 2, 6, endpoint=False))
    s.case("linspace_one", [], lambda: np.linspace(-1, 2, 1))
    s.case("roll", [x], lambda x: np.roll(x, -9, (0, -1)))
    s.case("roll_flat", [x], lambda x: np.roll(x, 4))
    s.case("roll_empty", [np.zeros((0, 3))], lambda x: np.roll(x, 4, 0))
    s.case("flip", [x], lambda x: np.flip(x, (0, -1)))
    s.case("flip_all", [x], np.flip)
    s.case("tile", [x], lambda x: np.tile(x, (2, 1, 1, 3)))
    s.case("tile_short", [x], lambda x: np.tile(x, (2,)))
    s.case("repeat", [x], lambda x: np.repeat(x, 3, -2))
    s.case("repeat_flat", [x], lambda x: np.repeat(x, 2))
    s.case("stack", [x, x + 1], lambda a, b: np.stack([a, b], -1))
    s.case("split", [x], lambda x: np.split(x, 5, 1))
    s.case("split_places", [x], lambda x: np.split(x, [2, -3, 99]))
    for k in (-1, 0, 2):
        s.case(f"tril_{k + 1}", [x], lambda x: np.tril(x, k))
        s.case(f"triu_{k + 1}", [x], lambda x: np.triu(x, k))
        s.case(f"eye_{k + 1}", [], lambda: np.eye(4, 5, k))
        s.case(f"tri_{k + 1}", [], lambda: np.tri(4, 5, k))
        s.case(f"diagonal_{k + 1}", [x], lambda x: np.diagonal(x, k, -1, 0))
        s.case(f"diag_{k + 1}", [x[:, :, 0]], lambda x: np.diag(x, k))
        s.case(f"diag_of_vector_{k + 1}", [x[:, 0, 0]], lambda x: np.diag(x, k))
        s.case(f"trace_{k + 1}", [x], lambda x: np.trace(x, k))
    s.case("diagonal_outside", [x], lambda x: np.diagonal(x, 9))

with Subject("linalg", 7) as s:
    for name, a, b in [("matrices", (7, 5), (5, 3)), ("vectors", (5,), (5,)), ("row", (5,), (5, 3)), ("column", (7, 5), (5,)),
                       ("batches", (3, 7, 5), (3, 5, 2)), ("broadcast", (2, 1, 7, 5), (3, 5, 2)), ("one_batch", (7, 5), (3, 5, 2)),
                       ("batched_column", (3, 7, 5), (5,)), ("batched_row", (5,), (3, 5, 2)), ("ones", (1, 7, 5), (1, 5, 2)),
                       ("empty", (7, 0), (0, 3))]:
        s.case(f"matmul_{name}", [s.normal(*a), s.normal(*b)], np.matmul)
    a, b = s.normal(3, 7, 5), s.normal(7, 5, 2)
    s.case("dot_general", [a, s.normal(5, 3, 2)], lambda a, b: np.einsum("xyz,zxw->xyw", a, b))
    s.case("tensordot", [a, b], np.tensordot)
    s.case("tensordot_pairs", [a, s.normal(5, 2, 3)], lambda a, b: np.tensordot(a, b, ((-1, 0), (0, 2))))
    s.case("tensordot_none", [a, s.normal(2)], lambda a, b: np.tensordot(a, b, 0))
    s.case("outer", [s.normal(7), s.normal(2, 3)], np.outer)
    s.case("kron", [s.normal(7, 2), s.normal(2, 3)], np.kron)
    s.case("kron_ranks", [s.normal(5), s.normal(2, 3)], np.kron)
    groups = np.array([3, 0, 2], np.int32)
    s.case("ragged_dot", [s.normal(7, 5), s.normal(3, 5, 2), groups], lambda a, b, g: np.concatenate(
        [a[:3] @ b[0], a[3:5] @ b[2], np.zeros((2, 2))]))
    m = s.normal(3, 5, 5)
    definite = m @ m.swapaxes(1, 2) + 5 * np.eye(5)
    s.case("cholesky", [definite], np.linalg.cholesky)
    z = s.complex(4, 4)
    hermitian = z @ z.conj().T + 4 * np.eye(4)
    s.case("cholesky_complex", [hermitian], np.linalg.cholesky)
    system = m[0] + 4 * np.eye(5)
    s.case("triangular_solve", [system, s.normal(7, 5)],
           lambda a, b: scipy.linalg.solve_triangular(a.T, b.T, lower=True).T)
    s.case("triangular_solve_left", [system, s.normal(5, 7)], lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True))
    s.case("triangular_solve_transposed", [system, s.normal(5, 7)],
           lambda a, b: scipy.linalg.solve_triangular(a, b, trans=1, unit_diagonal=True))
    s.case("triangular_solve_adjoint", [z + 4 * np.eye(4), s.complex(4, 2)],
           lambda a, b: scipy.linalg.solve_triangular(a, b, trans=2, lower=True))
    s.case("solve_cholesky", [np.linalg.cholesky(definite), s.normal(3, 5, 2)], lambda l, b: np.linalg.solve(l @ l.swapaxes(1, 2), b))
    s.case("solve_cholesky_vector", [np.linalg.cholesky(hermitian), s.complex(4)],
           lambda l, b: scipy.linalg.cho_solve((l, True), b))
    f, g, h, v = s.normal(7, 5), s.normal(5, 3), s.normal(3, 4), s.normal(4)
    for name, spec, operands in [("chain", "ab,bc,cd,d->a", [f, g, h, v]), ("three", "ab,bc,cd->ad", [f, g, h]),
                                 ("dots", "...ab,bc->...ac", [a, s.normal(5, 2)]),
                                 ("dots_broadcast", "...a,...a->...", [s.normal(3, 1, 5), s.normal(7, 5)]),
                                 ("dots_diagonal", "...ii->...", [m]), ("dots_inside", "a...b,b->b...a", [a, s.normal(5)]),
                                 ("hyperedge", "ab,ac,ad->bcd", [f, s.normal(7, 2), s.normal(7, 3)]),
                                 ("lonely", "ab,cd,e->ae", [f, g, v]), ("outer", "a,b,c->cab", [v, s.normal(2), s.normal(3)])]:
        s.case(f"einsum_{name}", operands, lambda *o, spec=spec: np.einsum(spec, *o))

with Subject("fft", 8) as s:
    z, x = s.complex(7, 5, 6), s.normal(7, 5, 6)
    for f in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft):
        y = x if f is np.fft.rfft else z
        s.case(f.__name__, [y], f)
        s.case(f"{f.__name__}_axis", [y], lambda x: f(x, axis=0))
        s.case(f"{f.__name__}_short", [y], lambda x: f(x, n=3, axis=1))
        s.case(f"{f.__name__}_long", [y], lambda x: f(x, n=9))
        s.case(f"{f.__name__}_ortho", [y], lambda x: f(x, norm="ortho"))
        s.case(f"{f.__name__}_forward", [y], lambda x: f(x, norm="forward"))
    for f in (np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn):
        y = x if f is np.fft.rfftn else z
        s.case(f.__name__, [y], f)
        s.case(f"{f.__name__}_axes", [y], lambda x: f(x, axes=(2, 0), norm="ortho"))
        s.case(f"{f.__name__}_sizes", [y], lambda x: f(x, s=(4, 8)))
    for f in (np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2):
        s.case(f.__name__, [x if f is np.fft.rfft2 else z], f)
    s.case("fft_of_real", [x], np.fft.fft)
    s.case("fftn_four", [s.complex(2, 3, 2, 3)], np.fft.fftn)
