#!/usr/bin/python3
"""What the formulas of layers, losses and optimizers give in NumPy, in f64, for tests/api/layers_test.cpp and its
neighbours: as generate.py, whose other subjects it writes again.
"""
import numpy as np
import scipy.special

from generate import Subject


def sigmoid(x):
    return scipy.special.expit(x)


def softmax(x):
    return scipy.special.softmax(x, axis=-1)


# --- losses

def cross_entropy(logits, labels, smoothing=0, z=0):
    total = scipy.special.logsumexp(logits, axis=-1)
    log_p = logits - total[..., None]
    wanted = np.take_along_axis(log_p, labels[..., None], -1)[..., 0]
    return -(1 - smoothing) * wanted - smoothing * log_p.mean(-1) + z * total ** 2


with Subject("losses", 21) as s:
    x, y = s.normal(7, 5) * 2, s.normal(7, 5)
    s.case("mse", [x, y], lambda x, y: np.mean((x - y) ** 2))
    s.case("mse_rows", [x, y[0]], lambda x, y: (x - y) ** 2)
    s.case("mse_sum", [x, y], lambda x, y: np.sum((x - y) ** 2))
    s.case("huber", [x, y], lambda x, y: np.mean(scipy.special.huber(0.7, x - y)))
    big = np.array([-800.0, -1.0, 0.0, 1e-3, 2.0, 800.0])
    targets = np.array([0.0, 1.0, 0.3, 1.0, 0.0, 1.0])
    def binary(x, t, weight=1.0):
        return -(weight * t * scipy.special.log_expit(x) + (1 - t) * scipy.special.log_expit(-x))
    s.case("binary", [big, targets], binary)
    s.case("binary_weighted", [x, s.random.random((7, 5))], lambda x, t: binary(x, t, 3).mean())
    s.case("binary_smoothed", [x, np.round(s.random.random((7, 5)))], lambda x, t: binary(x, 0.8 * t + 0.1).mean())
    logits, labels = s.normal(4, 3, 7) * 3, s.integers(0, 7, 4, 3)
    s.case("cross_entropy", [logits, labels], lambda x, l: cross_entropy(x, l).mean())
    s.case("cross_entropy_none", [logits, labels], cross_entropy)
    s.case("cross_entropy_smoothed", [logits, labels], lambda x, l: cross_entropy(x, l, 0.1).mean())
    s.case("cross_entropy_z", [logits, labels], lambda x, l: cross_entropy(x, l, 0.1, 1e-2).sum())
    padded = labels.copy()
    padded[1, 2] = padded[3, 0] = -1
    s.case("cross_entropy_padded", [logits, padded],
           lambda x, l: cross_entropy(x[l >= 0], l[l >= 0], z=1e-3).mean())
    s.case("cross_entropy_nothing", [logits, np.full_like(labels, -1)], lambda x, l: np.float64(0))

# --- optimizers: a matrix and a vector, four gradients of each

def moments(g, state, b1, b2):
    state["m"] = b1 * state.get("m", 0) + (1 - b1) * g
    state["v"] = b2 * state.get("v", 0) + (1 - b2) * g ** 2
    return state["m"], state["v"]


def sgd(p, g, state, t, lr=0.1, mu=0.9, wd=0.01, nesterov=False):
    g = g + wd * p
    state["v"] = mu * state.get("v", 0) + g
    return p - lr * (g + mu * state["v"] if nesterov else state["v"])


def adam(p, g, state, t, lr=0.1, b1=0.8, b2=0.95, eps=1e-6, wd=0.1, decoupled=False):
    m, v = moments(g if decoupled else g + wd * p, state, b1, b2)
    m, v = m / (1 - b1 ** t), v / (1 - b2 ** t)
    return p - lr * (m / (np.sqrt(v) + eps) + (wd * p if decoupled else 0))


def lamb(p, g, state, t, lr=0.1, b1=0.8, b2=0.95, eps=1e-6, wd=0.1):
    m, v = moments(g, state, b1, b2)
    r = m / (1 - b1 ** t) / (np.sqrt(v / (1 - b2 ** t)) + eps)
    if p.ndim < 2:
        return p - lr * r
    r = r + wd * p
    return p - lr * np.linalg.norm(p) / np.linalg.norm(r) * r


def lars(p, g, state, t, lr=0.5, mu=0.9, wd=0.01, trust=0.02, scaled=False, nesterov=False, min_rank=0):
    if p.ndim >= min_rank:
        lr = lr * trust * np.linalg.norm(p) / (np.linalg.norm(g) + wd * np.linalg.norm(p))
        g = g + wd * p
    part = g if scaled else lr * g
    state["v"] = mu * state.get("v", 0) + part
    step = part + mu * state["v"] if nesterov else state["v"]
    return p - (lr * step if scaled else step)


def rmsprop(p, g, state, t, lr=0.05, decay=0.9, mu=0.5, eps=1e-6, wd=0.1):
    g = g + wd * p
    state["v"] = decay * state.get("v", 0) + (1 - decay) * g ** 2
    state["b"] = mu * state.get("b", 0) + g / (np.sqrt(state["v"]) + eps)
    return p - lr * state["b"]


def lion(p, g, state, t, lr=0.05, b1=0.8, b2=0.9, wd=0.1):
    m = state.get("m", 0)
    state["m"] = b2 * m + (1 - b2) * g
    return p - lr * (np.sign(b1 * m + (1 - b1) * g) + wd * p)


def rms(x):
    return np.sqrt(np.mean(x ** 2))


def adafactor(p, g, state, t, lr=0.3, rate=0.7, clip=0.9, eps=1e-8, least=1e-3, wd=0.1, factored=True):
    decay = 1 - t ** -rate
    squares = g ** 2 + eps
    if p.ndim >= 2 and factored:
        large, small = np.argsort(p.shape, kind="stable")[::-1][:2]
        row = state["row"] = decay * state.get("row", 0) + (1 - decay) * squares.mean(large, keepdims=True)
        column = state["column"] = decay * state.get("column", 0) + (1 - decay) * squares.mean(small, keepdims=True)
        v = row * column / row.mean(small, keepdims=True)
    else:
        v = state["v"] = decay * state.get("v", 0) + (1 - decay) * squares
    u = g / np.sqrt(v)
    u = u / max(1, rms(u) / clip)
    return p - lr * max(least, rms(p)) * u - lr * wd * p


def steps_of(update, **options):
    def run(*leaves):
        params, grads = leaves[: len(leaves) // 2], leaves[len(leaves) // 2:]
        results = []
        for p, all_g in zip(params, grads):
            state = {}
            for t, g in enumerate(all_g, 1):
                p = update(p, g, state, t, **options)
            results.append(p)
        return results
    return run


with Subject("optimizers", 22) as s:
    leaves = [s.normal(7, 5), s.normal(5), s.normal(4, 7, 5), s.normal(4, 5)]
    for name, update, options in [
            ("sgd", sgd, {}), ("sgd_nesterov", sgd, {"nesterov": True}), ("adam", adam, {}),
            ("adamw", adam, {"decoupled": True}), ("lamb", lamb, {}), ("lars", lars, {}),
            ("lars_scaled", lars, {"scaled": True}), ("lars_nesterov", lars, {"nesterov": True}),
            ("lars_vectors", lars, {"scaled": True, "nesterov": True, "min_rank": 2}), ("rmsprop", rmsprop, {}),
            ("lion", lion, {}), ("adafactor", adafactor, {}), ("adafactor_full", adafactor, {"factored": False})]:
        s.case(name, leaves, steps_of(update, **options))
    s.case("adafactor_stack", [s.normal(2, 3, 6), s.normal(3, 2, 3, 6)], steps_of(adafactor))
    def average(x, d=0.9):
        weights = d ** np.arange(len(x))[::-1]
        return np.tensordot(weights / weights.sum(), x, 1)
    s.case("average", [s.normal(5, 7, 3)], average)

# --- layers

def convolution(x, kernel, bias, stride):
    size = (np.array(x.shape[1:3]) - kernel.shape[:2]) // stride + 1
    y = np.zeros((len(x), *size, kernel.shape[3]))
    for i, j in np.ndindex(*size):
        part = x[:, i * stride:i * stride + kernel.shape[0], j * stride:j * stride + kernel.shape[1]]
        y[:, i, j] = np.tensordot(part, kernel, 3)
    return y + bias


def normalised(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def group_norm(x, scale, bias, groups, eps=1e-6):
    parts = x.reshape(len(x), -1, groups, x.shape[-1] // groups)
    return normalised(parts, (1, 3), eps).reshape(x.shape) * scale + bias


def batch_norm(x, scale, bias, state, groups=1, eps=1e-5, momentum=0.9):
    axes = tuple(range(x.ndim - 1))
    parts = np.split(x, groups)
    y = np.concatenate([normalised(part, axes, eps) for part in parts]) * scale + bias
    now = [np.mean([f(part, axis=axes) for part in parts], 0) for f in (np.mean, np.var)]
    return [y] + [momentum * old + (1 - momentum) * new for old, new in zip(state, now)]


def rotated(x, positions, base=10000.0, interleaved=False):
    d = x.shape[-1]
    z = x[..., 0::2] + 1j * x[..., 1::2] if interleaved else x[..., : d // 2] + 1j * x[..., d // 2:]
    angles = np.asarray(positions)[..., None] * base ** (-np.arange(d // 2) / (d / 2))
    z = z * np.exp(1j * angles)[..., None, :]
    if not interleaved:
        return np.concatenate([z.real, z.imag], -1)
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def attention(q, k, v, sees=lambda b, t, s: True, scale=None):
    """One query of one head of one element at a time."""
    y = np.zeros(q.shape)
    for b, t, n in np.ndindex(q.shape[:3]):
        head = n // (q.shape[2] // k.shape[2])
        seen = [s for s in range(k.shape[1]) if sees(b, t, s)]
        scores = k[b, seen, head] @ q[b, t, n] * (scale or q.shape[3] ** -0.5)
        y[b, t, n] = softmax(scores) @ v[b, seen, head]
    return y


def lstm(x, w, u, bias, h=None, c=None):
    h = np.zeros((len(x), len(u))) if h is None else h
    c = np.zeros_like(h) if c is None else c
    outputs = []
    for t in range(x.shape[1]):
        i, f, g, o = np.moveaxis(np.tensordot(x[:, t], w, 1) + np.tensordot(h, u, 1) + bias, 1, 0)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return [np.stack(outputs, 1), h, c]


def gru(x, w, u, biases):
    h = np.zeros((len(x), len(u)))
    outputs = []
    for t in range(x.shape[1]):
        a, b = np.tensordot(x[:, t], w, 1) + biases[0], np.tensordot(h, u, 1) + biases[1]
        r, z = sigmoid(a[:, 0] + b[:, 0]), sigmoid(a[:, 1] + b[:, 1])
        h = (1 - z) * np.tanh(a[:, 2] + r * b[:, 2]) + z * h
        outputs.append(h)
    return [np.stack(outputs, 1), h]


with Subject("layers", 23) as s:
    s.case("linear", [s.normal(3, 7, 5), s.normal(5, 4), s.normal(4)], lambda x, w, b: x @ w + b)
    s.case("embedding", [s.integers(0, 7, 5, 3), s.normal(7, 4)], lambda i, t: t[i])
    s.case("attend", [s.normal(5, 3, 4), s.normal(7, 4)], lambda x, t: x @ t.T)
    s.case("conv", [s.normal(2, 7, 5, 3), s.normal(3, 2, 3, 4), s.normal(4)], lambda *a: convolution(*a, 2))
    image, scale, bias = s.normal(3, 5, 2, 6), s.normal(6), s.normal(6)
    s.case("group_norm", [image, scale, bias], lambda *a: group_norm(*a, 3))
    s.case("instance_norm", [image, scale, bias], lambda *a: group_norm(*a, 6))
    state = np.stack([s.normal(6), s.random.random(6)])
    s.case("batch_norm", [s.normal(6, 4, 6) * 2 + 1, scale, bias, state], batch_norm)
    s.case("batch_norm_groups", [s.normal(6, 4, 6) * 2 + 1, scale, bias, state], lambda *a: batch_norm(*a, groups=3))
    s.case("batch_norm_infer", [s.normal(6, 4, 6), scale, bias, state],
           lambda x, g, b, r: (x - r[0]) / np.sqrt(r[1] + 1e-5) * g + b)

with Subject("attention", 24) as s:
    x = s.normal(2, 5, 3, 6)
    s.case("rotary", [x, np.arange(5, dtype=np.int32) + 3], rotated)
    s.case("rotary_interleaved", [x, s.integers(0, 99, 2, 5)], lambda x, p: rotated(x, p, 500.0, True))
    heads = [s.normal(3, 5, 4, 6), s.normal(3, 7, 2, 6), s.normal(3, 7, 2, 6)]
    s.case("plain", heads, attention)
    s.case("scaled", heads, lambda *a: attention(*a, scale=0.7))
    s.case("causal", heads, lambda *a: attention(*a, sees=lambda b, t, s: s <= t + 2))
    s.case("window", heads, lambda *a: attention(*a, sees=lambda b, t, s: abs(s - t - 2) < 3))
    s.case("causal_window", heads, lambda *a: attention(*a, sees=lambda b, t, s: t + 2 - 3 < s <= t + 2))
    lengths = np.array([7, 1, 4], np.int32)
    s.case("lengths", heads + [lengths], lambda q, k, v, l: attention(q, k, v, lambda b, t, s: s < l[b]))
    mask = s.random.random((3, 1, 5, 7)) < 0.5
    mask[..., 0] = True
    s.case("masked", heads + [mask], lambda q, k, v, m: attention(q, k, v, lambda b, t, s: m[b, 0, t, s]))
    places = s.integers(0, 7, 3, 5)
    s.case("places", heads + [places], lambda q, k, v, p: attention(q, k, v, lambda b, t, s: s <= p[b, t]))
    def layer(x, wq, wkv, wo):
        q, (k, v) = np.tensordot(x, wq, 1), (np.tensordot(x, w, 1) for w in wkv)
        q, k = rotated(q, np.arange(7)), rotated(k, np.arange(7))
        return np.tensordot(attention(q, k, v, lambda b, t, s: s <= t), wo, 2)
    s.case("layer", [s.normal(3, 7, 8), s.normal(8, 4, 6), s.normal(2, 8, 2, 6), s.normal(4, 6, 8)], layer)

with Subject("recurrent", 25) as s:
    x, w, u = s.normal(3, 5, 4), s.normal(4, 4, 6), s.normal(6, 4, 6)
    s.case("lstm", [x, w, u, s.normal(4, 6)], lstm)
    s.case("lstm_reverse", [x, w, u, s.normal(4, 6)],
           lambda x, *a: [y[:, ::-1] if y.ndim == 3 else y for y in lstm(x[:, ::-1], *a)])
    s.case("gru", [x, s.normal(4, 3, 6), s.normal(6, 3, 6), s.normal(2, 3, 6)], gru)
