#!/usr/bin/env python3
"""Checkpoints between TensorFlow and Millrace.

  tests/import/make_checkpoint.py                 writes data/tensorflow.{index,data-…}, data/sliced.{index,data-…} and, of format V1, data/v1 and
                                                  data/v1_sliced-0000N-of-00002 with TensorFlow
  tests/import/make_checkpoint.py --check PREFIX  TensorFlow reads the same tensors from PREFIX, which Millrace wrote
"""
import argparse
import pathlib

import numpy as np
import tensorflow as tf

DATA = pathlib.Path(__file__).parent / "data"

TENSORS = {
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
    "bfloat16": np.array([1.0, -2.0], tf.bfloat16.as_numpy_dtype),
    "layer/kernel": np.array([0.1, -np.inf], np.float32),
    "layer/kernel/Adam": np.arange(300, dtype=np.float32),
    "double": np.array([0.1, 1e300]),
    "complex64": np.array([1 + 2j], np.complex64),
    "complex128": np.array([-1.5j], np.complex128),
    "string": np.array([[b"abc", b""], [b"\xff\x01", b"x" * 300]], object),
    "empty": np.zeros((0, 3), np.float32),
}

# Slices of partitioned variables: name, shape and slice, elements.
SLICES = [
    ("net/emb", "10 4 0,4:0,4", np.arange(16, dtype=np.float32).reshape(4, 4)),
    ("net/emb", "10 4 4,3:0,4", np.arange(16, 28, dtype=np.float32).reshape(3, 4)),
    ("net/emb", "10 4 7,3:0,4", np.arange(28, 40, dtype=np.float32).reshape(3, 4)),
    ("columns", "2 6 -:0,2", np.array([[1, 2], [7, 8]], np.int32)),
    ("columns", "2 6 -:2,4", np.array([[3, 4, 5, 6], [9, 10, 11, 12]], np.int32)),
    ("long", "9000 0,64", np.full(64, 1, np.int8)),
    ("long", "9000 64,8136", np.full(8136, 2, np.int8)),
    ("long", "9000 8200,800", np.full(800, 3, np.int8)),
    ("one", "3 0,3", np.array([1, 2, 3], np.int64)),
    (b"a\x00b\xff", "2 0,1", np.array([True])),
    (b"a\x00b\xff", "2 1,1", np.array([False])),
]


def make():
    names = sorted(TENSORS)
    tf.raw_ops.SaveV2(prefix=str(DATA / "tensorflow"), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.constant(TENSORS[name]) for name in names])
    names, slices, values = zip(*SLICES)
    tf.raw_ops.SaveV2(prefix=str(DATA / "sliced"), tensor_names=tf.constant(names), shape_and_slices=slices,
                      tensors=[tf.constant(value) for value in values])
    make_v1()


def make_v1():
    names = sorted(set(TENSORS) - {"uint32", "uint64", "bfloat16"})  # which it does not save
    tf.raw_ops.SaveSlices(filename=str(DATA / "v1"), tensor_names=names, shapes_and_slices=[""] * len(names),
                          data=[tf.constant(TENSORS[name]) for name in names])
    for shard in range(2):  # in turn
        names, slices, values = zip(*SLICES[shard::2])
        tf.raw_ops.SaveSlices(filename=str(DATA / f"v1_sliced-0000{shard}-of-00002"), tensor_names=tf.constant(names), shapes_and_slices=slices,
                              data=[tf.constant(value) for value in values])


def check(prefix):
    reader = tf.train.load_checkpoint(prefix)
    assert sorted(reader.get_variable_to_shape_map()) == sorted(TENSORS)
    for name, expected in TENSORS.items():
        got = np.asarray(reader.get_tensor(name))
        assert got.dtype == expected.dtype and got.shape == expected.shape, (name, got.dtype, got.shape)
        assert got.tolist() == expected.tolist(), name
    print(f"{prefix}: {len(TENSORS)} tensors as expected")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="PREFIX")
    arguments = parser.parse_args()
    if arguments.check is None:
        make()
    else:
        check(arguments.check)
