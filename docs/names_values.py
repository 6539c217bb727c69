"""What the first column of a page of names gives in Python: `names.py values PAGE`.

PyTorch is PyTorch itself; NumPy and SciPy stand in the place of JAX, whose functions have their names, with the few
of jax.lax and jax.nn below.
"""
import types

import numpy as np


def jax_names():
    import scipy.linalg
    import scipy.special

    def pad_between(x, value, config):
        for axis, (low, high, between) in enumerate(config):
            size = low + x.shape[axis] + between * (x.shape[axis] - 1) + high
            out = np.full(x.shape[:axis] + (size,) + x.shape[axis + 1 :], value)
            np.moveaxis(out, axis, 0)[low : size - high : between + 1] = np.moveaxis(x, axis, 0)
            x = out
        return x

    class At:
        def __init__(self, x, index):
            self.x, self.index = x, index

        def get(self):
            return self.x[self.index]

        def __getattr__(self, op):
            def apply(value):
                out = self.x.copy()
                if op == "set":
                    out[self.index] = value
                else:
                    ufunc = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[op]
                    ufunc.at(out, self.index, value)
                return out

            return apply

    class Array(np.ndarray):
        @property
        def at(self):
            outer = self

            class Indexed:
                def __getitem__(self, index):
                    return At(np.asarray(outer), index)

            return Indexed()

    def array(values):
        made = np.array(values)
        kinds = {"f": np.float32, "i": np.int32, "c": np.complex64}
        return made.astype(kinds.get(made.dtype.kind, made.dtype)).view(Array)

    def softmax(x, axis=-1):
        return scipy.special.softmax(x, axis=axis)

    def dynamic_slice(x, starts, sizes):
        return x[tuple(slice(start, start + size) for start, size in zip(starts, sizes))]

    def updated(x, update, starts):
        out = x.copy()
        out[tuple(slice(start, start + size) for start, size in zip(starts, update.shape))] = update
        return out

    bits = lambda n: n.astype(np.int64) & 0xFFFFFFFF
    each = lambda fn: lambda n: np.array([fn(int(k)) for k in bits(n)])
    lax = types.SimpleNamespace(
        iota=lambda dtype, size: np.arange(size, dtype=dtype),
        broadcasted_iota=lambda dtype, shape, dim: np.indices(shape)[dim],
        bitcast_convert_type=lambda x, dtype: np.asarray(x).view(dtype),
        rev=np.flip, pad=pad_between, slice=lambda x, lo, hi: x[tuple(map(slice, lo, hi))],
        slice_in_dim=lambda x, lo, hi, axis: x[tuple([slice(None)] * axis + [slice(lo, hi)])],
        dynamic_slice=dynamic_slice, dynamic_update_slice=updated, select=np.where,
        div=lambda a, b: np.trunc(a / b), shift_right_logical=lambda x, k: bits(x) >> k,
        population_count=each(lambda k: bin(k).count("1")), clz=each(lambda k: 32 - k.bit_length()),
        rsqrt=lambda x: 1 / np.sqrt(x), clamp=lambda lo, x, hi: np.clip(x, lo, hi), erf=scipy.special.erf,
        erf_inv=scipy.special.erfinv, complex=lambda a, b: a + 1j * b, cummax=np.maximum.accumulate)
    nn = types.SimpleNamespace(
        one_hot=lambda k, depth: np.eye(depth)[k], relu=lambda x: np.maximum(x, 0),
        gelu=lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        silu=lambda x: x / (1 + np.exp(-x)), sigmoid=scipy.special.expit, softmax=softmax,
        log_softmax=scipy.special.log_softmax, logsumexp=scipy.special.logsumexp)
    jnp = types.SimpleNamespace(**{k: getattr(np, k) for k in dir(np) if not k.startswith("_")})
    jnp.array = array
    jnp.arange = lambda *args: np.arange(*args).view(Array)
    return {"np": np, "jnp": jnp, "lax": lax,
            "jax": types.SimpleNamespace(nn=nn, lax=lax, scipy=types.SimpleNamespace(
                special=scipy.special, linalg=scipy.linalg))}


def torch_names():
    import torch

    return {"torch": torch, "F": torch.nn.functional, "math": __import__("math")}


def leaves(value):
    if isinstance(value, (list, tuple)) and any(hasattr(part, "shape") for part in value):
        return [leaf for part in value for leaf in leaves(part)]
    if hasattr(value, "detach"):
        value = value.detach().resolve_conj().cpu().numpy()
    return [np.array(value)]


def evaluated(expression, names):
    """Its leaves; None where it is not an expression that runs here."""
    try:
        found = leaves(eval(expression, dict(names)))
        return found if all(leaf.dtype.kind in "biufc" for leaf in found) else None
    except Exception:  # a row of the real JAX, a statement, a name that stands for something
        return None


def names_of(page, given):
    names = torch_names() if "torch" in page else jax_names()
    exec(given, names)
    return names


def compare(page, given, rows, parse_gives):
    """0, or a message that lists the rows that differ."""
    names, wrong, skipped = names_of(page, given), [], 0
    for _, _, line, (theirs, _, gives) in rows:
        wanted = parse_gives(gives)
        seen = evaluated(theirs.split("`, `")[0], names)
        if seen is None or isinstance(wanted, str) or not wanted or any(v is None for _, _, v in wanted):
            skipped += 1
            continue
        same = len(seen) == len(wanted) and all(
            list(s.shape) == dims and np.allclose(np.ravel(s), np.array(v), atol=6e-5, rtol=1e-5)
            for s, (_, dims, v) in zip(seen, wanted))
        if not same:
            wrong.append("line %d: %s gives %s" % (line, theirs, " and ".join(str(s.tolist()) for s in seen)))
    print("%s: %d rows, %d not run" % (page, len(rows), skipped))
    return "\n".join(wrong) or 0
