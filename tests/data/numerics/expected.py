"""Writes the modules of this folder with their inputs and expected results, computed by NumPy and SciPy.

A development aid: the tests read the files that it wrote. Run it in this folder.
"""
import itertools
import numpy as np
import scipy.linalg
import scipy.signal
import scipy.special

MODULES = {}
rng = np.random.default_rng(7)


def bf16(x):
    """float32 -> bf16 bits as |V2, to nearest even."""
    u = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16).view('V2')


def from_bf16(x):
    return (np.asarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def module(name, about, text, inputs, expected):
    """inputs: {"0": array}; expected: list of result leaves, or None for a module that is not run."""
    assert name not in MODULES, name
    MODULES[name] = True
    header, body = text.strip().split('\n', 1)
    with open(name + '.hlo', 'w') as file:
        file.write('// ' + about + '\n' + header + '\n' + body + '\n')
    if expected is None:
        return
    np.savez(name + '.in.npz', **inputs)
    np.savez(name + '.out.npz', **{str(i): np.asarray(a) for i, a in enumerate(expected)})


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*shape, low=-4, high=5, dtype=np.int32):
    return rng.integers(low, high, shape).astype(dtype)


ADD = """add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
"""
MAX = """max {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y)
}
"""

exec(open('elementwise.py').read())
exec(open('structure.py').read())
exec(open('contraction.py').read())
exec(open('control.py').read())
exec(open('models.py').read())
exec(open('forms.py').read())
exec(open('devices.py').read())
print(len(MODULES), 'modules')
