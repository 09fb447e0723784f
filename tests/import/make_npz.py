#!/usr/bin/env python3
"""Writes the arrays of tests/import/data/*.npz with NumPy, and checks the file that Millrace writes.

  tests/import/make_npz.py            writes data/numpy_stored.npz, numpy_deflated.npz, odd.npz
  tests/import/make_npz.py --check F  F (data/millrace.npz is one) holds what npy_test.cc put into it
"""
import argparse
import io
import pathlib
import zipfile

import numpy as np

DATA = pathlib.Path(__file__).parent / "data"

ARRAYS = {
    "bool": np.array([True, False, True]),
    "int8": np.array([-128, 127], np.int8),
    "int16": np.array([-32768, 32767], np.int16),
    "int32": np.array([[1, 2, 3], [4, 5, 6]], np.int32),
    "int64": np.array(-(2**63), np.int64),
    "uint8": np.array([0, 255], np.uint8),
    "uint16": np.array([0, 65535], np.uint16),
    "uint32": np.array([2**32 - 1], np.uint32),
    "uint64": np.array([2**64 - 1], np.uint64),
    "half": np.array([0.5, -65504], np.float16),
    "float": np.array([0.1, -np.inf], np.float32),
    "double": np.array([0.1, 1e300]),
    "complex64": np.array([1 + 2j], np.complex64),
    "complex128": np.array([-1.5j], np.complex128),
    "bfloat16": np.array([0x3F80, 0xC000], np.uint16).view("V2"),
    "bytes": np.array([b"abc", b"", b"\xff\x01"]),
    "unicode": np.array(["h\u00e9llo", "\U0001f600", ""]),
    "empty": np.zeros((0, 3), np.float32),
    "layer/kernel": np.arange(4, dtype=np.float32),
}


def odd_arrays():
    base = np.arange(24).reshape(2, 3, 4)
    yield "fortran", np.asfortranarray(base.astype(np.int32)), (1, 0)
    yield "fortran_text", np.asfortranarray(np.array([["a", "bc"], ["d", ""]])), (1, 0)
    yield "big_endian", base.astype(">i2"), (1, 0)
    yield "big_endian_complex", np.array([1 + 2j], ">c8"), (1, 0)
    yield "big_endian_text", np.array(["xyz"], ">U3"), (1, 0)
    yield "version2", base.astype(np.uint8), (2, 0)
    yield "version3", base.astype(np.float64), (3, 0)


def npy_bytes(array, version):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def make():
    DATA.mkdir(exist_ok=True)
    np.savez(DATA / "numpy_stored.npz", **ARRAYS)
    np.savez_compressed(DATA / "numpy_deflated.npz", **ARRAYS)
    with zipfile.ZipFile(DATA / "odd.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array, version in odd_arrays():
            archive.writestr(name + ".npy", npy_bytes(array, version))


def check(path):
    arrays = np.load(path, allow_pickle=False)
    expected = dict(ARRAYS, unicode=np.array([s.encode() for s in ARRAYS["unicode"]]))
    assert sorted(arrays.files) == sorted(expected), arrays.files
    for name, array in expected.items():
        got = arrays[name]
        assert got.dtype == array.dtype and got.shape == array.shape, (name, got.dtype, got.shape)
        assert got.tobytes() == array.tobytes(), name
    print(f"{path}: {len(expected)} arrays as expected")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="F")
    arguments = parser.parse_args()
    if arguments.check is None:
        make()
    else:
        check(arguments.check)
