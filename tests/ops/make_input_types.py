#!/usr/bin/env python3
"""Writes src/ops/input_types_table.cc: the inputs of an op by its definition and its shape function in TensorFlow.

Needs TensorFlow (2.21 was used):  make_input_types.py MILLRACE > src/ops/input_types_table.cc
What ranks an input may have is asked of the shape functions, with the attributes of the conformance cases.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import textwrap

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.python.framework import op_def_registry

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import data_files

NAMES = {"DT_FLOAT": "float", "DT_DOUBLE": "double", "DT_HALF": "half", "DT_BFLOAT16": "bfloat16"}
WIDTH = 140
MOST_RANK = 8
# Ranks that kernels ask for and shape functions do not: op -> input -> lowest and highest.
IN_KERNELS = {
    "BatchToSpaceND": {1: (1, 1), 2: (2, 2)}, "ConcatOffset": {0: (0, 0), 1: (1, 1)}, "ConjugateTranspose": {1: (1, 1)}, "Cumprod": {1: (0, 0)},
    "Cumsum": {1: (0, 0)}, "CumulativeLogsumexp": {1: (0, 0)}, "DataFormatVecPermute": {0: (1, 2)}, "DecodePaddedRaw": {1: (0, 0)},
    "FractionalAvgPoolGrad": {0: (1, 1)}, "FractionalMaxPoolGrad": {1: (4, 4)}, "HistogramSummary": {0: (0, 0)}, "MatrixBandPart": {1: (0, 0), 2: (0, 0)},
    "OneHot": {1: (0, 0)}, "RaggedBincount": {2: (0, 0)}, "RaggedCountSparseOutput": {1: (1, 1)}, "RaggedTensorToSparse": {1: (1, MOST_RANK)},
    "RaggedTensorToTensor": {0: (0, 1)},  # [] where it is not known
    "ResourceStridedSliceAssign": {1: (1, 1), 2: (1, 1), 3: (1, 1)}, "SpaceToBatchND": {1: (1, 1), 2: (2, 2)}, "SparseAddGrad": {0: (1, 1)},
    "SparseBincount": {1: (1, 1), 2: (1, 1), 3: (0, 0)}, "SparseCountSparseOutput": {1: (1, 1)}, "SparseReduceMax": {3: (0, 1)},
    "SparseReduceMaxSparse": {3: (0, 1)}, "SparseReduceSum": {3: (0, 1)}, "SparseReduceSumSparse": {3: (0, 1)}, "Split": {0: (0, 0)},
    "StridedSliceAssign": {1: (1, 1), 2: (1, 1), 3: (1, 1)}, "StridedSliceGrad": {1: (1, 1), 2: (1, 1), 3: (1, 1)},
    "TensorStridedSliceUpdate": {1: (1, 1), 2: (1, 1), 3: (1, 1)}, "TopKV2": {1: (0, 0)}, "Transpose": {1: (1, 1)},
    "UniqueV2": {1: (1, 1)}, "UniqueWithCountsV2": {1: (1, 1)},
}
# Ranks follow from attributes, of which cases have some only.
FROM_ATTRS = {"Einsum", "EnsureShape", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4", "RaggedGather"}


def cases_by_op():
    """op -> per set of attributes that a case has its node and the shapes of its inputs."""
    cases = collections.defaultdict(dict)
    for path in data_files.paths():
        graph = graph_pb2.GraphDef()
        graph.ParseFromString(data_files.read(path))
        shapes = {node.name: node.attr["_shape" if "_shape" in node.attr else "value"] for node in graph.node}
        for node in graph.node:
            if node.name.endswith("/op") and "_error" not in node.attr:
                node.name = "op"
                for name in [name for name in node.attr if name.startswith("_")]:
                    del node.attr[name]
                inputs = [shapes[name].shape if shapes[name].HasField("shape") else shapes[name].tensor.tensor_shape for name in node.input]
                cases[node.op][str(sorted((k, v.SerializeToString()) for k, v in node.attr.items()))] = (node, inputs)
    assert cases, f"no cases in {data_files.DATA}"
    return {op: list(found.values()) for op, found in cases.items()}


def inputs_of(op_def, node):
    """Per input of the node its argument's number and its type."""
    def value(name):
        return node.attr[name] if name in node.attr else next(a.default_value for a in op_def.attr if a.name == name)

    inputs = []
    for i, arg in enumerate(op_def.input_arg):
        types = value(arg.type_list_attr).list.type if arg.type_list_attr else [arg.type or value(arg.type_attr).type]
        inputs += [(i, dtype) for dtype in list(types) * (value(arg.number_attr).i if arg.number_attr else 1)]
    return inputs


def takes(op_def, node, inputs, shapes):
    """Whether the shape function takes inputs of these shapes."""
    graph = graph_pb2.GraphDef()
    graph.versions.producer = 8 if node.op.startswith("BatchMatrix") else 1882  # removed since
    op = graph.node.add()
    op.CopyFrom(node)
    del op.input[:]
    for i, (argument, dtype) in enumerate(inputs):
        source = graph.node.add(name=f"in{i}", op="VariableV2" if op_def.input_arg[argument].is_ref else "Placeholder")
        source.attr["dtype"].type = dtype
        source.attr["shape"].shape.CopyFrom(shapes[i])
        op.input.append(source.name)
    with tf.Graph().as_default():
        try:
            tf.import_graph_def(graph, name="")
            return True
        except (tf.errors.OpError, ValueError):
            return False


def ranks_of(op_def, cases):
    """Argument -> lowest and highest rank, of those that not every rank is taken for: where nothing is known of the other inputs, or they
    are as in a case."""
    taken = collections.defaultdict(set)
    for node, shapes in cases:
        inputs = inputs_of(op_def, node)
        unknown = [tf.TensorShape(None).as_proto()] * len(inputs)
        if op_def.name in FROM_ATTRS or not takes(op_def, node, inputs, unknown):
            return {}
        for argument in dict.fromkeys(argument for argument, _ in inputs):
            at = [i for i, (of, _) in enumerate(inputs) if of == argument][0]
            for rank in set(range(MOST_RANK + 1)) - taken[argument]:
                ranked = [tf.TensorShape([None] * rank).as_proto()]
                if any(takes(op_def, node, inputs, known[:at] + ranked + known[at + 1:]) for known in (unknown, shapes)):
                    taken[argument].add(rank)
    ranks = {argument: (min(found), max(found)) for argument, found in taken.items() if found and len(found) <= MOST_RANK}
    return {**ranks, **IN_KERNELS.get(op_def.name, {})}


def ranks_apart(op_def, cases):
    """ranks_of in a process of its own, as some shape functions crash where nothing is known: then nothing is said."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, json.dumps(list(ranks_of(op_def, cases).items())).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    if os.waitpid(child, 0)[1] != 0:
        print(f"{op_def.name}: its shape function crashed", file=sys.stderr)
        return {}
    return dict(json.loads(text))


def pattern(op_def, ranks):
    """Per input its type's attribute, =TYPE, or - for what is not looked at; /LOW-HIGH behind it: of such a rank; *N: as many as attribute
    N says. [TYPES]: one for each type of the attribute TYPES."""
    words = []
    for i, arg in enumerate(op_def.input_arg):
        if arg.type_list_attr:
            words.append(f"[{arg.type_list_attr}]")
            continue
        if arg.type == types_pb2.DT_RESOURCE or arg.type == types_pb2.DT_VARIANT:
            word = "-"
        else:
            name = types_pb2.DataType.Name(arg.type)
            word = "=" + NAMES.get(name, name[3:].lower()) if arg.type else arg.type_attr
            if i in ranks:
                word += f"/{ranks[i][0]}-{ranks[i][1]}"
        words.append(word + (f"*{arg.number_attr}" if arg.number_attr else ""))
    return " ".join(words)


def main():
    printed = subprocess.run([sys.argv[1], "inspect", "--ops"], capture_output=True, text=True, check=True).stdout
    cases = cases_by_op()
    ops_of = collections.defaultdict(list)
    for op in sorted(line.split("|")[1].strip(" `") for line in printed.splitlines() if line.startswith("|")):
        op_def = op_def_registry.get(op)
        if op_def is not None and not op.startswith("_"):
            ops_of[pattern(op_def, ranks_apart(op_def, cases.get(op, [])))].append(op)
    print("// Written by tests/ops/make_input_types.py from TensorFlow 2.21's op registry and shape functions; do not edit.")
    print('#include "ops/input_types.h"\n\nnamespace millrace {\n\nconst char* const kInputTypes[] = {')
    for words, names in ops_of.items():
        lines = textwrap.wrap(f"{words} | {' '.join(names)}", WIDTH, break_long_words=False, break_on_hyphens=False, drop_whitespace=False)
        print("\n".join("    " + ("    " if i else "") + f'"{line}"' for i, line in enumerate(lines)) + ",")
    print("    nullptr};\n\n}  // namespace millrace")


if __name__ == "__main__":
    main()
