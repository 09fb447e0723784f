#!/usr/bin/env python3
"""Writes small graphs with every kind of attribute and tensor, functions, and a MetaGraphDef, with TensorFlow.

  tests/import/make_graphs.py    writes data/every_attr.{pb,pbtxt}, functions.{pb,pbtxt}, small.meta
"""
import pathlib

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import attr_value_pb2, graph_pb2, tensor_pb2, types_pb2

DATA = pathlib.Path(__file__).parent / "data"


def write(name, graph_def):
    for function in graph_def.library.function:
        for node in function.node_def:
            node.ClearField("experimental_debug_info")
    graph_def.ClearField("debug_info")
    (DATA / f"{name}.pb").write_bytes(graph_def.SerializeToString(deterministic=True))
    (DATA / f"{name}.pbtxt").write_text(text_format.MessageToString(graph_def))


def every_attr():
    graph = graph_pb2.GraphDef()
    graph.versions.producer = tf.version.GRAPH_DEF_VERSION
    node = graph.node.add(name="attrs", op="Everything", device="/job:worker/task:1/device:GPU:0")
    attr = node.attr
    attr["s"].s = b"text\n\xff"
    attr["i"].i = -7
    attr["f"].f = 0.1
    attr["b"].b = True
    attr["type"].type = types_pb2.DT_FLOAT_REF
    attr["shape"].shape.dim.add(size=2)
    attr["shape"].shape.dim.add(size=-1, name="batch")
    attr["unknown_shape"].shape.unknown_rank = True
    attr["func"].func.name = "f"
    attr["func"].func.attr["T"].type = types_pb2.DT_INT32
    attr["empty"].list.SetInParent()
    attr["ss"].list.s.extend([b"a", b""])
    attr["is"].list.i.extend([1, -(2**63)])
    attr["fs"].list.f.extend([0.5, float("inf")])
    attr["bs"].list.b.extend([True, False])
    attr["types"].list.type.extend([types_pb2.DT_FLOAT, types_pb2.DT_STRING])
    attr["shapes"].list.shape.add().dim.add(size=3)
    attr["tensors"].list.tensor.add().CopyFrom(tf.make_tensor_proto([1, 2]))
    attr["funcs"].list.func.add(name="g")
    numbers = {
        "float": np.array([[0.5, -1], [3, 4]], np.float32), "double": np.array(0.1), "half": np.array([1.5], np.float16),
        "int8": np.array([-1], np.int8), "int16": np.array([-1], np.int16), "int32": np.array([7, 8], np.int32),
        "int64": np.array([-1], np.int64), "uint8": np.array([1], np.uint8), "uint16": np.array([1], np.uint16),
        "uint32": np.array([1], np.uint32), "uint64": np.array([2**64 - 1], np.uint64),
        "bool": np.array([True, False]), "complex64": np.array([1 + 2j], np.complex64),
        "complex128": np.array([1 - 2j]), "string": np.array([b"ab", b""], object),
    }
    for name, array in numbers.items():
        const = graph.node.add(name=name, op="Const", input=["^attrs"])
        const.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array))
        const.attr["dtype"].type = const.attr["value"].tensor.dtype
    values = graph.node.add(name="values", op="Pack", input=["float", "splat", "int32:0", "^bool"])
    values.attr["N"].i = 3
    values.attr["T"].type = types_pb2.DT_FLOAT
    node = graph.node.add(name="splat", op="Const")
    node.attr["dtype"].type = types_pb2.DT_BFLOAT16
    splat = node.attr["value"].tensor
    splat.dtype = types_pb2.DT_BFLOAT16
    splat.tensor_shape.dim.add(size=100)
    splat.half_val.append(0x3F80)
    node = graph.node.add(name="short", op="Const")
    node.attr["dtype"].type = types_pb2.DT_INT32
    short = node.attr["value"].tensor
    short.dtype = types_pb2.DT_INT32
    short.tensor_shape.dim.add(size=5)
    short.int_val.extend([1, 2, 3])
    write("every_attr", graph)


def functions():
    @tf.function
    def inner(x, v):
        v.assign_add(tf.reduce_sum(x))
        values, indices = tf.math.top_k(x, k=2)
        a, b, c = tf.split(x, 3)
        return values + 1.0, indices, b * c + a

    with tf.Graph().as_default() as graph:
        v = tf.Variable(1.0, name="v")
        x = tf.compat.v1.placeholder(tf.float32, [6], name="x")
        values, indices, _ = inner(x, v)
        tf.identity(values, name="values")
        tf.identity(indices, name="indices")
        write("functions", graph.as_graph_def())
        tf.compat.v1.train.export_meta_graph(str(DATA / "small.meta"), graph=graph, clear_devices=True,
                                             strip_default_attrs=True)
        meta = tf.compat.v1.MetaGraphDef()
        meta.ParseFromString((DATA / "small.meta").read_bytes())
        for function in meta.graph_def.library.function:
            for node in function.node_def:
                node.ClearField("experimental_debug_info")
        meta.graph_def.ClearField("debug_info")
        (DATA / "small.meta").write_bytes(meta.SerializeToString(deterministic=True))


every_attr()
functions()
