#!/usr/bin/env python3
"""What the committed cases cover: per op the element types of its first input, and edges. Needs the protos of TensorFlow.

  coverage.py            a line per op that lacks something
  coverage.py --all      a line per op
"""
import collections
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.framework import graph_pb2  # noqa: E402

FLOATS = ("float32", "float64", "float16", "bfloat16")


def cases():
    """(op node, input values where they are stored)."""
    for path in sorted((pathlib.Path(__file__).parent / "data").glob("*.pb")):
        graph = graph_pb2.GraphDef.FromString(path.read_bytes())
        nodes = {node.name: node for node in graph.node}
        for node in graph.node:
            if node.name.endswith("/op"):
                yield node, [nodes[name.split(":")[0]] for name in node.input if name.split(":")[0] in nodes]


def describe(inputs):
    edges, types = set(), []
    for node in inputs:
        if "value" not in node.attr:
            types.append(tf.as_dtype(node.attr["dtype"].type).name if node.attr["dtype"].type else "?")
            shape = [dim.size for dim in node.attr["shape"].shape.dim]
        else:
            tensor = node.attr["value"].tensor
            types.append(tf.as_dtype(tensor.dtype).name)
            shape = [dim.size for dim in tensor.tensor_shape.dim]
            if types[-1] in FLOATS and len(types) == 1 and not np.isfinite(tf.make_ndarray(tensor).astype(np.float64)).all():
                edges.add("special")
        edges.update(["empty"] if 0 in shape else [], ["scalar"] if not shape else [], ["rank8"] if len(shape) >= 8 else [])
    return types[0] if types else "?", edges


def main():
    table = collections.defaultdict(lambda: (set(), set(), [0]))
    for node, inputs in cases():
        dtype, edges = describe(inputs)
        for name in ("T", "dtype", "Tparams", "SrcT", "Tin", "Dtype"):
            if node.attr[name].type:
                dtype = tf.as_dtype(node.attr[name].type).name
                break
        row = table[node.op]
        row[0].add(dtype)
        row[1].update(edges)
        row[2][0] += 1
    for op, (types, edges, count) in sorted(table.items()):
        lacks = [] if "empty" in edges else ["empty"]
        if len(types) < 2:
            lacks.append("second type")
        if lacks or "--all" in sys.argv:
            print(f"{op}: {count[0]} cases, {' '.join(sorted(types))}; {' '.join(sorted(edges))}; lacks {', '.join(lacks) or 'nothing'}")
    print(f"{len(table)} ops, {sum(row[2][0] for row in table.values())} cases")


if __name__ == "__main__":
    main()
