#!/usr/bin/env python3
"""Writes src/ops/op_attrs_table.cc: the attributes of TensorFlow's ops and the values they may have, from its registry.

Needs TensorFlow (2.21 was used):  tests/ops/make_op_attrs.py build/bin/millrace > src/ops/op_attrs_table.cc
"""
import collections
import re
import subprocess
import sys
import textwrap

from tensorflow.core.framework import op_def_pb2, types_pb2
from tensorflow.python.client import pywrap_tf_session

# Ops that passes take away, beside those that `millrace inspect --ops` prints.
LOWERED = re.compile(r"^((Stateful|Stateless)?(PartitionedCall|If|Case|While)|(Ref)?(Switch|Merge|Enter|Exit|NextIteration)|LoopCond|SymbolicGradient|"
                     r"BatchFunction|RemoteCall|For|MapDefun|RefSelect|SobolSample|"
                     r"Optional(None|FromValue|GetValue|HasValue)|Tensor(List|Map).*|EmptyTensor(List|Map)|TensorArray.*V3|Stack(Push|Pop|Close)?V2|"
                     r"(Collective|Nccl)(Bcast|Broadcast|Reduce|AllReduce|Gather).*|(Des|S)erialize(Many)?Sparse|.*SparseMatrix.*|"
                     r"(Mutable)?(Dense)?HashTable(OfTensors)?(V2)?|(Initialize|Lookup)Table.*|(Sparse)?(Conditional)?Accumulator.*|"
                     r"SparseConditionalAccumulator|((Padding)?FIFO|RandomShuffle|Priority)Queue(V2)?|Queue(Enqueue|Dequeue|Close|Size|IsClosed).*|"
                     r"Stage(Peek|Size|Clear)?|Unstage|Fused(ResizeAnd)?PadConv2D|SparseMatMul|"
                     r"Batch(Cholesky|Matrix|SelfAdjointEig|Svd|NormWithGlobal).*|Conv[23]DBackprop(Input|Filter)(V2)?|Segment(Min|Max|Sum|Prod)V2|"
                     r"SelfAdjointEig|PlaceholderV2|SaveV2|RestoreV2|IteratorGetNext(Sync|AsOptional)?|Ragged.*|RandomPoisson|ApproxTopK)$")
# Words that kernels know, where the definition allows every one.
IN_KERNELS = {"bad_indices_policy": ["", "DEFAULT", "ERROR", "IGNORE"]}
NAMES = {"DT_FLOAT": "float", "DT_DOUBLE": "double", "DT_HALF": "half", "DT_BFLOAT16": "bfloat16"}
WIDTH = 150


def type_name(number):
    name = types_pb2.DataType.Name(number)
    return NAMES.get(name, name[3:].lower())


def spec(attr, type_sets):
    """NAME:KIND, then >=MINIMUM, then #SET (a set of types) or {WORD,WORD}, then ? where there is a default."""
    text = f"{attr.name}:{attr.type}"
    if attr.has_minimum:
        text += f">={attr.minimum}"
    if attr.allowed_values.list.type:
        types = " ".join(sorted({type_name(number) for number in attr.allowed_values.list.type}))
        text += f"#{type_sets.setdefault(types, len(type_sets))}"
    words = [word.decode() for word in attr.allowed_values.list.s] or IN_KERNELS.get(attr.name)
    if words:
        text += "{" + ",".join(words) + "}"
    return text + ("?" if attr.HasField("default_value") else "")


def print_table(name, lines):
    print(f"\nconst char* const {name}[] = {{")
    for line in lines:
        pieces = textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        for i, piece in enumerate(pieces):
            print("    " + ("    " if i else "") + f'"{piece}' + ('",' if i + 1 == len(pieces) else ' "'))
    print("    nullptr};")


def main():
    registry = op_def_pb2.OpList()
    registry.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    printed = subprocess.run([sys.argv[1], "inspect", "--ops"], capture_output=True, text=True, check=True).stdout
    known = {line.split("|")[1].strip(" `") for line in printed.splitlines() if line.startswith("|")}
    type_sets, ops_of = {}, collections.defaultdict(list)
    for op in sorted(registry.op, key=lambda op: op.name):
        if (op.name in known or LOWERED.match(op.name)) and not op.name.startswith("_") and op.attr:
            ops_of[" ".join(spec(attr, type_sets) for attr in sorted(op.attr, key=lambda attr: attr.name))].append(op.name)
    print("// Written by tests/ops/make_op_attrs.py from TensorFlow 2.21's op registry; do not edit.")
    print('#include "ops/op_attrs.h"\n\nnamespace millrace {')
    print_table("kTypeSets", type_sets)
    print_table("kOpAttrs", (f"{specs} | {' '.join(ops)}" for specs, ops in ops_of.items()))
    print("\n}  // namespace millrace")


if __name__ == "__main__":
    main()
