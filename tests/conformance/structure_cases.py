"""Ops that move elements: shapes, slices, gather, scatter, sort."""

import itertools

import numpy as np

from element_types import (ALL, BF16, C64, F16, F32, F64, FLOATS, I1, I8, I16, I32, I64, INTS, U8, U16, U32, U64, UINTS)
from elementwise_cases import sample, seeded, total_key
from module_text import Case, Value, tensor


def random(t, shape, rng):
    if t.kind == "bool":
        return Value(t, rng.integers(0, 2, shape))
    if t.kind in ("int", "uint"):
        return Value(t, rng.integers(-50 if t.kind == "int" else 0, 50, shape))
    if t.kind == "complex":
        return Value(t, rng.normal(size=shape) + 1j * rng.normal(size=shape))
    return Value(t, t.encode(np.round(rng.normal(size=shape) * 4, 2)))


def integers(values, t=I32):
    return Value(t, np.asarray(values))


def ft(operands, results):
    a = ", ".join(v if isinstance(v, str) else v.text_type for v in operands)
    b = [v if isinstance(v, str) else v.text_type for v in results]
    return f"({a}) -> " + (b[0] if len(b) == 1 else "(" + ", ".join(b) + ")")


def exact(name, inputs, text, wanted):
    """text without the type."""
    return Case(name, inputs, f"%r = {text} : {ft(inputs, [wanted])}", wanted)


def shapes():
    for t in ALL:
        rng = seeded("shape" + t.name)
        x = random(t, (2, 3, 4), rng)
        a = x.array
        n = t.name.replace("<", "_").replace(">", "")
        yield exact(f"transpose_{n}", [x], "stablehlo.transpose $0, dims = [2, 0, 1]", Value(t, a.transpose(2, 0, 1)))
        yield exact(f"reshape_{n}", [x], "stablehlo.reshape $0", Value(t, a.reshape(4, 6)))
        yield Case(f"reverse_{n}", [x], f"%r = stablehlo.reverse $0, dims = [0, 2] : {x.text_type}", Value(t, a[::-1, :, ::-1]))
        yield exact(f"slice_{n}", [x], "stablehlo.slice $0 [0:2, 1:3, 0:4:3]", Value(t, a[0:2, 1:3, 0:4:3]))
        yield exact(f"slice_empty_{n}", [x], "stablehlo.slice $0 [0:2, 3:3, 0:4]", Value(t, a[0:2, 3:3, 0:4]))
        yield exact(f"broadcast_in_dim_{n}", [x], "stablehlo.broadcast_in_dim $0, dims = [1, 2, 3]",
                    Value(t, np.broadcast_to(a, (5, 2, 3, 4))))
        one = random(t, (1, 3), rng)
        yield exact(f"broadcast_grow_{n}", [one], "stablehlo.broadcast_in_dim $0, dims = [2, 0]",
                    Value(t, np.broadcast_to(one.array.T.reshape(3, 1, 1), (3, 2, 4))))
        y = random(t, (2, 1, 4), rng)
        yield exact(f"concatenate_{n}", [x, y, x], "stablehlo.concatenate $0, $1, $2, dim = 1",
                    Value(t, np.concatenate([a, y.array, a], 1)))
        yield from pads(t, n, rng)
        starts = [integers(v) for v in (1, -3, 9)]
        yield exact(f"dynamic_slice_{n}", [x] + starts, "stablehlo.dynamic_slice $0, $1, $2, $3, sizes = [1, 2, 3]",
                    Value(t, a[1:2, 0:2, 1:4]))
        update = random(t, (1, 2, 3), rng)
        b = a.copy()
        b[1:2, 0:2, 1:4] = update.array
        yield exact(f"dynamic_update_slice_{n}", [x, update] + starts,
                    "stablehlo.dynamic_update_slice $0, $1, $2, $3, $4", Value(t, b))
        if t.kind != "bool":
            for shape, dim in (((5,), 0), ((2, 3, 4), 1), ((3, 130), 1)):
                indices = np.arange(shape[dim]).reshape([-1 if i == dim else 1 for i in range(len(shape))])
                encoded = t.encode(np.broadcast_to(indices, shape).astype(np.float64 if t.kind == "float" else np.int64))
                wanted = Value(t, encoded)
                yield Case(f"iota_{n}_{len(shape)}_{dim}", [], f"%r = stablehlo.iota dim = {dim} : {wanted.text_type}", wanted)
    for t in (U8, U16, U32, U64, I8, I64):
        x = random(F32, (3, 4), seeded("starts"))
        yield exact(f"dynamic_slice_by_{t.name}", [x, integers(2, t), integers(100, t)],
                    "stablehlo.dynamic_slice $0, $1, $2, sizes = [2, 2]", Value(F32, x.array[1:3, 2:4]))


def pads(t, n, rng):
    x = random(t, (2, 3), rng)
    fill = random(t, (), rng)
    for low, high, inner in (([0, 0], [0, 0], [0, 0]), ([1, 2], [3, 0], [0, 0]), ([0, 0], [0, 0], [2, 1]),
                             ([-1, 1], [0, -2], [0, 0]), ([-2, 0], [1, -1], [1, 2]), ([-2, 0], [0, 0], [0, 0]), ([5, -1], [-3, 0], [3, 0])):
        a = x.array
        shape = [a.shape[d] + (a.shape[d] - 1) * inner[d] for d in range(2)]
        spread = np.full(shape, fill.array, dtype=a.dtype)
        spread[tuple(slice(None, None, inner[d] + 1) for d in range(2))] = a
        grown = np.full([max(s, 0) + max(l, 0) + max(h, 0) for s, l, h in zip(shape, low, high)], fill.array, dtype=a.dtype)
        grown[tuple(slice(max(l, 0), max(l, 0) + s) for l, s in zip(low, shape))] = spread
        cut = grown[tuple(slice(max(-l, 0), size - max(-h, 0)) for l, h, size in zip(low, high, grown.shape))]
        yield exact(f"pad_{n}_{low}_{high}_{inner}".replace(" ", ""), [x, fill],
                    f"stablehlo.pad $0, $1, low = {low}, high = {high}, interior = {inner}", Value(t, cut))


def bitcasts():
    types = [t for t in ALL if t.kind not in ("bool", "complex")]
    for source, target in itertools.product(types, types):
        rng = seeded("bits" + source.name + target.name)
        shape = (3, 4)
        if target.width > source.width:
            shape = (3, target.width // source.width)
        raw = rng.integers(0, 256, np.prod(shape) * source.bits.itemsize).astype(np.uint8)
        if source.kind == "float" or target.kind == "float":
            raw &= 0x3f  # no nan
        x = Value(source, raw.view(source.bits).reshape(shape))
        y = np.ascontiguousarray(x.array).view(target.bits)
        if target.width > source.width:
            y = y.reshape(3)
        elif target.width < source.width:
            y = y.reshape(3, 4, -1)
        yield exact(f"bitcast_{source.name}_{target.name}", [x], "stablehlo.bitcast_convert $0", Value(target, y))


# --- Gather and scatter, by StableHLO's formulas

def gather(operand, indices, d, sizes):
    batch_dims = [i for i in range(d["rank"]) if i not in d["offset_dims"]]
    result = np.zeros(d["shape"], dtype=operand.dtype)
    for at in np.ndindex(*d["shape"]):
        start = index_of(operand.shape, indices, d, [at[i] for i in batch_dims], d["start_index_map"],
                         d.get("operand_batching_dims", []), d.get("start_indices_batching_dims", []))
        hidden = d["collapsed_slice_dims"] + d.get("operand_batching_dims", [])
        offsets = iter(at[i] for i in d["offset_dims"])
        offset = [0 if i in hidden else next(offsets) for i in range(operand.ndim)]
        batching = d.get("operand_batching_dims", [])
        full = [start[i] + offset[i] if i in batching else
                min(max(start[i], 0), operand.shape[i] - sizes[i]) + offset[i] for i in range(operand.ndim)]
        result[at] = operand[tuple(full)]
    return result


def index_of(shape, indices, d, batch, index_map, operand_batching, indices_batching):
    v = d["index_vector_dim"]
    if v == indices.ndim:
        vector = [int(indices[tuple(batch)])]
    else:
        position = list(batch[:v]) + [slice(None)] + list(batch[v:])
        vector = [int(i) for i in indices[tuple(position)]]
    start = [0] * len(shape)
    for dim, value in zip(index_map, vector):
        start[dim] = value
    for dim, where in zip(operand_batching, indices_batching):
        start[dim] = batch[where if where < v else where - 1]
    return start


def dim_text(d, keys):
    parts = [f"{k} = {d[k]}" for k in keys if d.get(k)]
    return ", ".join(parts + [f"index_vector_dim = {d['index_vector_dim']}"])


GATHERS = [
    ((10, 8), (5, 1), dict(offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1), [1, 8]),
    ((10,), (3, 4), dict(offset_dims=[], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=2), [1]),
    ((10, 6), (2, 2), dict(offset_dims=[1, 2], collapsed_slice_dims=[], start_index_map=[1, 0], index_vector_dim=0), [3, 2]),
    ((10, 5), (2, 3, 2), dict(offset_dims=[0], collapsed_slice_dims=[1], start_index_map=[0, 1], index_vector_dim=2), [4, 1]),
    ((3, 7, 4), (3, 2, 1), dict(offset_dims=[2], collapsed_slice_dims=[1], operand_batching_dims=[0],
                                start_indices_batching_dims=[0], start_index_map=[1], index_vector_dim=2), [1, 1, 4]),
    ((3, 7, 2), (2, 5, 3), dict(offset_dims=[], collapsed_slice_dims=[1], operand_batching_dims=[0, 2],
                               start_indices_batching_dims=[2, 0], start_index_map=[1], index_vector_dim=3), [1, 1, 1]),
    ((4, 6, 5), (1,), dict(offset_dims=[0, 1], collapsed_slice_dims=[2], start_index_map=[2], index_vector_dim=0), [4, 6, 1]),
    ((4, 6), (0, 1), dict(offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1), [1, 6]),
    ((4, 3, 6, 5), (2, 4, 2), dict(offset_dims=[0, 2], collapsed_slice_dims=[0, 2], start_index_map=[2, 0],
                                   index_vector_dim=2), [1, 2, 1, 3]),
]


def gathers():
    for number, (shape, ishape, d, sizes) in enumerate(GATHERS):
        for t, it in ((F32, I32), (BF16, I64), (I8, U32), (C64, I32), (I1, U8), (I64, I16), (F32, U64)):
            rng = seeded(f"gather{number}{t.name}{it.name}")
            x = random(t, shape, rng)
            indices = integers(rng.integers(-3 if it.kind == "int" else 0, 12, ishape), it)
            d = dict(d)
            v = d["index_vector_dim"]
            batch = list(ishape[:v]) + list(ishape[v + 1:])
            hidden = d["collapsed_slice_dims"] + d.get("operand_batching_dims", [])
            kept = [s for i, s in enumerate(sizes) if i not in hidden]
            d["rank"] = len(batch) + len(kept)
            sizes_of = iter(kept)
            batches = iter(batch)
            d["shape"] = tuple(next(sizes_of) if i in d["offset_dims"] else next(batches) for i in range(d["rank"]))
            wanted = Value(t, gather(x.array, indices.array, d, sizes))
            keys = ["offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", "start_index_map"]
            text = (f'"stablehlo.gather"($0, $1) <{{dimension_numbers = #stablehlo.gather<{dim_text(d, keys)}>, '
                    f"indices_are_sorted = false, slice_sizes = array<i64: {', '.join(map(str, sizes))}>}}>")
            yield exact(f"gather_{number}_{t.name}_{it.name}", [x, indices], text, wanted)


def scatter(operand, indices, updates, d, combine):
    result = operand.copy()
    window = d["update_window_dims"]
    batch_dims = [i for i in range(updates.ndim) if i not in window]
    hidden = d["inserted_window_dims"] + d.get("input_batching_dims", [])
    for at in np.ndindex(*updates.shape):
        start = index_of(operand.shape, indices, d, [at[i] for i in batch_dims], d["scatter_dims_to_operand_dims"],
                         d.get("input_batching_dims", []), d.get("scatter_indices_batching_dims", []))
        offsets = iter(at[i] for i in window)
        full = [start[i] + (0 if i in hidden else next(offsets)) for i in range(operand.ndim)]
        # A window that reaches out of the operand is skipped whole.
        sizes = iter(updates.shape[i] for i in window)
        whole = [1 if i in hidden else next(sizes) for i in range(operand.ndim)]
        if all(0 <= v and v + w <= s for v, w, s in zip(start, whole, operand.shape)):
            result[tuple(full)] = combine(result[tuple(full)], updates[at])
    return result


SCATTERS = [
    ((10, 8), (5, 1), (5, 8), dict(update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1)),
    ((10,), (3, 4), (3, 4), dict(update_window_dims=[], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=2)),
    ((10, 6), (2, 2), (2, 3, 2), dict(update_window_dims=[1, 2], inserted_window_dims=[], scatter_dims_to_operand_dims=[1, 0], index_vector_dim=0)),
    ((3, 7, 4), (3, 2, 1), (3, 2, 4), dict(update_window_dims=[2], inserted_window_dims=[1], input_batching_dims=[0],
                                           scatter_indices_batching_dims=[0], scatter_dims_to_operand_dims=[1], index_vector_dim=2)),
    ((4, 6, 5), (1,), (4, 6), dict(update_window_dims=[0, 1], inserted_window_dims=[2], scatter_dims_to_operand_dims=[2], index_vector_dim=0)),
    ((4, 6), (0, 1), (0, 6), dict(update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1)),
]
COMBINE = {"add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "maximum": max, "minimum": min, "set": lambda a, b: b}


def body(op, t):
    s = tensor(t, ())
    if op == "set":
        return f"({{\n^bb0(%x: {s}, %y: {s}):\n  stablehlo.return %y : {s}\n}})"
    return f"({{\n^bb0(%x: {s}, %y: {s}):\n  %z = stablehlo.{op} %x, %y : {s}\n  stablehlo.return %z : {s}\n}})"


def scatters():
    for number, (shape, ishape, ushape, d) in enumerate(SCATTERS):
        for (op, f), (t, it) in itertools.product(COMBINE.items(), ((F32, I32), (I32, U32), (F64, I64), (U8, I8), (BF16, I32), (C64, I32))):
            if t is C64 and op in ("maximum", "minimum"):
                continue
            rng = seeded(f"scatter{number}{op}{t.name}")
            x, u = (Value(t, t.encode(rng.integers(0, 3, s))) for s in (shape, ushape))
            indices = integers(rng.integers(-2 if it.kind == "int" else 0, 9, ishape), it)
            if op == "set":
                indices = integers(np.sort(rng.permutation(30)[:int(np.prod(ishape))]).reshape(ishape) - (3 if it.kind == "int" else 0), it)
            if t is BF16:
                done = BF16.encode(scatter(t.values(x.array), indices.array, t.values(u.array), d, f))
            else:
                done = scatter(x.array, indices.array, u.array, d, f)
            keys = ["update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
                    "scatter_dims_to_operand_dims"]
            text = (f'"stablehlo.scatter"($0, $1, $2) <{{indices_are_sorted = false, scatter_dimension_numbers = '
                    f"#stablehlo.scatter<{dim_text(d, keys)}>, unique_indices = {'true' if op == 'set' else 'false'}}}> {body(op, t)}")
            yield exact(f"scatter_{number}_{op}_{t.name}", [x, indices, u], text, Value(t, done))


# --- Sort and top-k

def sorts():
    for t in ALL:
        if t.kind in ("complex", "bool"):
            continue
        n = t.name
        x = sample(t, seeded("sort" + n))
        x = Value(t, x.array[:60].reshape(3, 20))
        s = tensor(t, ())
        order = "TOTALORDER" if t.kind == "float" else "SIGNED" if t.kind == "int" else "UNSIGNED"
        key = total_key(t, x.array.ravel()).reshape(x.array.shape) if t.kind == "float" else x.array
        for direction, dim in (("LT", 1), ("GT", 0)):
            places = np.argsort(key, axis=dim, kind="stable") if direction == "LT" else np.argsort(-key.astype(object), axis=dim, kind="stable")
            wanted = [Value(t, np.take_along_axis(x.array, places, dim)), Value(I32, places)]
            compare = (f"({{\n^bb0(%x: {s}, %y: {s}, %p: tensor<i32>, %q: tensor<i32>):\n  %z = stablehlo.compare {direction}, %x, %y, {order} : "
                       f"({s}, {s}) -> tensor<i1>\n  stablehlo.return %z : tensor<i1>\n}})")
            itype = tensor(I32, x.array.shape)
            text = (f"%i = stablehlo.iota dim = {dim} : {itype}\n"
                    f'%r:2 = "stablehlo.sort"($0, %i) <{{dimension = {dim} : i64, is_stable = true}}> {compare} : '
                    f"({x.text_type}, {itype}) -> ({x.text_type}, {itype})")
            yield Case(f"sort_{n}_{direction}_{dim}", [x], text, wanted)
        yield from lexicographic(t, n)
        flat = Value(t, x.array)
        places = np.argsort(-key.astype(object), axis=1, kind="stable")[:, :5]
        wanted = [Value(t, np.take_along_axis(x.array, places, 1)), Value(I32, places)]
        yield Case(f"top_k_{n}", [flat], f"%r:2 = chlo.top_k($0, k = 5) : {x.text_type} -> ({wanted[0].text_type}, {wanted[1].text_type})", wanted)


def approximate():
    """Calls of ApproxTopK: of what may miss some of the first, none is missed."""
    for t in (F32, I32, BF16):
        for dim, k, target in ((1, 3, "ApproxTopK"), (0, 5, "ApproxTopK"), (1, 8, "PartialReduce")):
            name = f"{target}_{t.name}_{dim}"
            x = Value(t, t.encode(seeded(name).permutation(120).reshape(6, 20)))
            keys = t.values(x.array)
            places = np.take(np.argsort(-keys.astype(np.float64), axis=dim, kind="stable"), np.arange(k), dim)
            wanted = [Value(t, np.take_along_axis(x.array, places, dim)), Value(I32, places)]
            s, itype = tensor(t, ()), tensor(I32, x.array.shape)
            order = "SIGNED" if t is I32 else "FLOAT"
            compare = (f"  func.func private @larger(%x: {s}, %y: {s}, %p: tensor<i32>, %q: tensor<i32>) -> tensor<i1> {{\n"
                       f"    %z = stablehlo.compare GT, %x, %y, {order} : ({s}, {s}) -> tensor<i1>\n    return %z : tensor<i1>\n  }}\n")
            text = (f"%i = stablehlo.iota dim = {dim} : {itype}\n%l = stablehlo.constant dense<-1> : tensor<i32>\n"
                    f"%m = stablehlo.convert %l : (tensor<i32>) -> {s}\n"
                    f"%r:2 = stablehlo.custom_call @{target}($0, %i, %m, %l) {{called_computations = [@larger], mhlo.backend_config = "
                    f"{{aggregate_to_topk = true, recall_target = 0.95 : f32, reduction_dim = {dim} : i64, top_k = {k} : i64}}}} : "
                    f"({x.text_type}, {itype}, {s}, tensor<i32>) -> ({wanted[0].text_type}, {wanted[1].text_type})")
            yield Case(name, [x], text, wanted, functions=compare)


def lexicographic(t, n):
    """By two keys, the second descending, as JAX's sort with num_keys=2 compares."""
    rng = seeded("two" + n)
    a, b, c = Value(t, t.encode(rng.integers(0, 4, 40))), Value(I32, rng.integers(0, 5, 40)), Value(F32, rng.normal(size=40))
    places = np.lexsort((np.arange(40), -b.array, t.values(a.array)))
    wanted = [Value(v.type, v.array[places]) for v in (a, b, c)]
    s = tensor(t, ())
    order = "FLOAT" if t.kind == "float" else "SIGNED" if t.kind == "int" else "UNSIGNED"
    compare = f"""({{
^bb0(%a: {s}, %b: {s}, %c: tensor<i32>, %d: tensor<i32>, %e: tensor<f32>, %f: tensor<f32>):
  %0 = stablehlo.compare LT, %a, %b, {order} : ({s}, {s}) -> tensor<i1>
  %1 = stablehlo.compare EQ, %a, %b, {order} : ({s}, {s}) -> tensor<i1>
  %2 = stablehlo.compare GT, %c, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %3 = stablehlo.and %1, %2 : tensor<i1>
  %4 = stablehlo.or %0, %3 : tensor<i1>
  stablehlo.return %4 : tensor<i1>
}})"""
    types = ", ".join(v.text_type for v in (a, b, c))
    yield Case(f"sort_two_keys_{n}", [a, b, c], f'%r:3 = "stablehlo.sort"($0, $1, $2) <{{dimension = 0 : i64, is_stable = true}}> '
               f"{compare} : ({types}) -> ({types})", wanted)


# --- Sizes as operands, where they are constant

def dynamics():
    x = random(F32, (2, 6), seeded("dynamic"))
    a = x.array
    shape = "%s = stablehlo.constant dense<[3, 4]> : tensor<2xi32>\n"
    yield Case("dynamic_reshape", [x], shape + "%r = stablehlo.dynamic_reshape $0, %s : (tensor<2x6xf32>, tensor<2xi32>) -> tensor<3x4xf32>",
               Value(F32, a.reshape(3, 4)))
    yield Case("dynamic_iota", [], shape + "%r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<3x4xi32>",
               Value(I32, np.broadcast_to(np.arange(4), (3, 4))))
    yield Case("dynamic_broadcast_in_dim", [x], "%s = stablehlo.constant dense<[4, 2, 6]> : tensor<3xi64>\n"
               "%r = stablehlo.dynamic_broadcast_in_dim $0, %s, dims = [1, 2] : (tensor<2x6xf32>, tensor<3xi64>) -> tensor<4x2x6xf32>",
               Value(F32, np.broadcast_to(a, (4, 2, 6))))
    yield Case("dynamic_pad", [x, random(F32, (), seeded("fill"))],
               "%l = stablehlo.constant dense<[1, 0]> : tensor<2xi32>\n%h = stablehlo.constant dense<[0, -1]> : tensor<2xi32>\n"
               "%n = stablehlo.constant dense<0> : tensor<2xi32>\n"
               "%r = stablehlo.dynamic_pad $0, $1, %l, %h, %n : (tensor<2x6xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<3x5xf32>",
               Value(F32, np.pad(a, ((1, 0), (0, 0)), constant_values=random(F32, (), seeded("fill")).array)[:, :5]))
    yield Case("real_dynamic_slice", [x],
               "%l = stablehlo.constant dense<[0, 1]> : tensor<2xi32>\n%h = stablehlo.constant dense<[2, 6]> : tensor<2xi32>\n"
               "%n = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n"
               "%r = stablehlo.real_dynamic_slice $0, %l, %h, %n : (tensor<2x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>",
               Value(F32, a[:, 1:6:2]))
    yield Case("dynamic_gather", [x, integers([[1], [0], [1]])],
               "%s = stablehlo.constant dense<[1, 6]> : tensor<2xi32>\n"
               '%r = "stablehlo.dynamic_gather"($0, $1, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], '
               "start_index_map = [0], index_vector_dim = 1>}> : (tensor<2x6xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x6xf32>",
               Value(F32, a[[1, 0, 1]]))
    yield Case("get_dimension_size", [x], "%r = stablehlo.get_dimension_size $0, dim = 1 : (tensor<2x6xf32>) -> tensor<i32>", integers(6))
    yield Case("select_by_scalar", [Value(I1, np.array(True)), x, x],
               "%r = stablehlo.select $0, $1, $2 : tensor<i1>, tensor<2x6xf32>", x)
    yield Case("torch_index_select", [x, integers([1, 0, 0])],
               '%r = "stablehlo.torch_index_select"($0, $1) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<2x6xf32>, tensor<3xi32>) -> tensor<3x6xf32>',
               Value(F32, a[[1, 0, 0]]))


def all_cases():
    for group in (shapes, bitcasts, gathers, scatters, sorts, approximate, dynamics):
        yield from group()
