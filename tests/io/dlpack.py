#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""NumPy and PyTorch exchange arrays with reel through DLPack. PyTorch is optional. Skipped without NumPy."""
import ast
import ctypes
import gc
import pathlib
import re
import sys

try:
    import numpy as np
except ImportError as missing:
    print(f"Python has no {missing.name}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

DTYPES = {"bool": 0, "uint8": 1, "int32": 2, "int64": 3, "float32": 4, "float64": 5, "float16": 6, "int8": 8, "int16": 9}  # no bfloat16
NUMBERS = np.arange(6).reshape(2, 3)
LAYOUTS = {"plain": NUMBERS, "transposed": NUMBERS.T, "reversed": NUMBERS[:, ::-1], "part": NUMBERS[1:2, ::2],
           "repeated": np.broadcast_to(NUMBERS[0], (2, 3)), "scalar": NUMBERS[1, 2], "empty": NUMBERS[:0]}
NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}

python = ctypes.pythonapi
python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype, python.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Reel:
    """The library that is built from exchange.cpp."""

    def __init__(self, path):
        self.shared = ctypes.CDLL(str(path))
        self.shared.give.restype, self.shared.give.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_char_p, ctypes.c_bool]
        self.shared.take.restype, self.shared.take.argtypes = ctypes.c_bool, [ctypes.c_void_p, ctypes.c_bool, ctypes.c_char_p, ctypes.c_size_t]
        self.shared.address.restype = ctypes.c_void_p
        self.shared.live_tensors.restype = ctypes.c_long

    def live(self):
        gc.collect()
        return self.shared.live_tensors()

    def give(self, dtype, layout, versions=(False, True)):
        return Given(self, dtype, layout, versions)

    def take(self, array):
        """The text of a tensor that holds the array, or of the error."""
        capsule = array.__dlpack__()
        versioned = bool(python.PyCapsule_IsValid(capsule, NAMES[True]))
        text = ctypes.create_string_buffer(2000)
        taken = self.shared.take(python.PyCapsule_GetPointer(capsule, NAMES[versioned]), versioned, text, len(text))
        if taken:
            python.PyCapsule_SetName(capsule, USED[versioned])
        return text.value.decode()


class Given:
    """A tensor of reel as other libraries see it."""

    def __init__(self, reel, dtype, layout, versions):
        self.reel, self.dtype, self.layout, self.versions = reel, DTYPES[dtype], layout, versions

    def __dlpack__(self, stream=None, max_version=None, **_):
        versioned = True in self.versions and max_version is not None and max_version[0] >= 1
        return python.PyCapsule_New(self.reel.shared.give(self.dtype, self.layout.encode(), versioned), NAMES[versioned], None)

    def __dlpack_device__(self):
        return 1, 0


def shows(text, x):
    """Whether the text has the array's dtype, shape and values."""
    match = re.match(r"(\w+) (\(.*?\)) (.*)$", text, re.DOTALL)
    if not match or match[1] != str(x.dtype) or ast.literal_eval(match[2]) != x.shape:
        return False
    values = ast.literal_eval(match[3].replace("true", "True").replace("false", "False"))
    return not x.size or np.array_equal(values, x.astype("float64") if x.dtype == "float16" else x)


def check_out(reel):
    """NumPy reads arrays of reel."""
    checked = 0
    for dtype in DTYPES:
        for layout, wanted in LAYOUTS.items():
            before = reel.live()
            try:
                got = np.from_dlpack(reel.give(dtype, layout))
            except (RuntimeError, BufferError):
                assert dtype == "bool" and np.lib.NumpyVersion(np.__version__) < "1.25.0", f"{dtype} {layout}"
                continue
            assert got.dtype == np.dtype(dtype) and np.array_equal(got, wanted.astype(dtype)), f"{dtype} {layout}: {got}"
            assert not got.flags.writeable or np.lib.NumpyVersion(np.__version__) >= "2.1.0", f"{dtype} {layout}"
            assert reel.live() > before
            del got
            assert reel.live() == before, f"{dtype} {layout}: {reel.live() - before} tensors are left"
            checked += 1
    return checked


def check_in(reel):
    """reel reads arrays of NumPy in place."""
    checked = 0
    for dtype in DTYPES:
        for layout, numbers in LAYOUTS.items():
            array = np.array(numbers.astype(dtype)) if layout != "transposed" else numbers.T.astype(dtype).T
            view = {"reversed": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1]}.get(layout, lambda x: x)(array)
            try:
                text = reel.take(view)
            except (TypeError, BufferError):
                assert dtype == "bool" and np.lib.NumpyVersion(np.__version__) < "1.25.0", f"{dtype} {layout}"
                continue
            assert shows(text, view), f"{dtype} {layout}: {text}"
            same = reel.shared.address() == view.__array_interface__["data"][0]
            assert same or layout in ("reversed", "empty"), f"{dtype} {layout}: a copy"
            reel.shared.drop()
            checked += 1
    for array in (np.zeros(3, "uint16"), np.zeros(3, "complex64")):
        assert "from_dlpack: dtype: expected" in reel.take(array)
    return checked


def check_lifetime(reel):
    """A tensor keeps the memory of NumPy's array, and releases it at its end."""
    array = np.ones(1000)
    references = sys.getrefcount(array)
    reel.take(array)
    assert sys.getrefcount(array) == references + 1
    reel.shared.drop()
    assert sys.getrefcount(array) == references


def check_torch(reel):
    for dtype in DTYPES:
        for layout, wanted in LAYOUTS.items():
            try:
                got = torch.from_dlpack(reel.give(dtype, layout))
            except RuntimeError as error:
                if "Unsupported code 6" in str(error):  # bool came to DLPack after PyTorch 1.13
                    continue
                raise
            assert np.array_equal(got.numpy(), wanted.astype(dtype)), f"torch: {dtype} {layout}: {got}"
            assert shows(reel.take(got), got.numpy()), f"torch: {dtype} {layout}"
            reel.shared.drop()


def main(build):
    reel = Reel(build / "tests/libexchange.so")
    out, taken = check_out(reel), check_in(reel)
    check_lifetime(reel)
    if torch:
        check_torch(reel)
    print(f"NumPy {np.__version__}: {out} arrays out, {taken} in; {f'PyTorch {torch.__version__}' if torch else 'no PyTorch'}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
