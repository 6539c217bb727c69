"""Arrays between NumPy and the library, by DLPack, without copying: check.py BRIDGE.so"""
import ctypes
import gc
import sys
import weakref

try:
    import numpy as np
    np.from_dlpack
except (ImportError, AttributeError):
    sys.exit(77)  # nothing to check with

bridge = ctypes.CDLL(sys.argv[1])
bridge.make.restype = ctypes.c_void_p
bridge.make.argtypes = [ctypes.c_char_p, ctypes.c_int64]
bridge.take.restype = ctypes.c_void_p
bridge.take.argtypes = [ctypes.c_void_p]
bridge.element.restype = ctypes.c_double
bridge.element.argtypes = [ctypes.c_int64]
python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor"


class Ours:
    def __init__(self, dtype, count):
        self.tensor = bridge.make(dtype.encode(), count)

    def __dlpack__(self, stream=None):
        return python.PyCapsule_New(self.tensor, b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)


for ours, theirs in (("f32", "f4"), ("f64", "f8"), ("f16", "f2"), ("s8", "i1"), ("s64", "i8"),
                     ("u16", "u2"), ("c64", "c8"), ("c128", "c16")):
    array = np.from_dlpack(Ours(ours, 6))
    assert array.dtype == np.dtype(theirs), (ours, array.dtype)
    assert np.array_equal(array, np.arange(6).reshape(2, 3).astype(theirs)), array
    del array
    gc.collect()

array = np.arange(12, dtype=np.float32).reshape(3, 4)
alive = weakref.ref(array)
for given, shared in ((array, True), (array.T, False), (array[:, ::2], False)):
    capsule = given.__dlpack__()
    address = bridge.take(python.PyCapsule_GetPointer(capsule, b"dltensor"))
    python.PyCapsule_SetName(capsule, USED)
    assert (address == given.ctypes.data) == shared, given.strides
    assert [bridge.element(i) for i in range(given.size)] == list(given.ravel()), given
capsule = array.__dlpack__()
bridge.take(python.PyCapsule_GetPointer(capsule, b"dltensor"))
python.PyCapsule_SetName(capsule, USED)
array[0, 1] = 77
assert bridge.element(1) == 77
del array, given, capsule
gc.collect()
assert alive() is not None and bridge.element(11) == 11  # the library has it still
bridge.release()
gc.collect()
assert alive() is None  # and gave it back
