#!/usr/bin/env python3
"""Writes src/import/op_outputs_table.cc: the names of the outputs of TensorFlow's ops, from its registry.

Needs TensorFlow (2.21 was used):  tests/import/make_op_outputs.py > src/import/op_outputs_table.cc
"""
import collections
import re
import textwrap

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

# Ops that no training graph as TensorFlow exports it holds.
SKIP = re.compile(r"^_|^(Foo|Xla|TPU|Quantize|Requant|Rpc|BoostedTrees|Retrieve|Load.*TPU|Sdca|Cudnn|.*Minibatch|"
                  r".*SparseCore|.*CooTensor|.*Dataset|Dataset|.*Iterator|Anonymous|Experimental|Test|Stub|.*Struct$|"
                  r".*Output$|Namespace|Riscv|Tpu|Collective|.*TPUEmbedding|NInts|NPoly|NIn|OpWith|Out[TA]|Ref(Out|In)|"
                  r"Two(Float|Int)|FiveFloat|CopyOp$|Unary$|Fact$|Dummy|Dtype|DevicePlacement|WindowOp|[A-Z]$|Polymorphic|Simple|Binary|IntAttr|KernelLabel|Risc)")
# But such as training graphs do hold.
NOT_SKIPPED = re.compile(r"^(CudnnRNN|Quantize(V2|AndDequantize)|(Dense|Sparse|Ragged)Count|"
                         r"Xla(BroadcastHelper|KeyValueSort|RngBit|SelfAdjointEig|Svd|Variadic))")


def main():
    ops = op_def_pb2.OpList()
    ops.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    several, one = [], collections.defaultdict(list)
    for op in sorted(ops.op, key=lambda op: op.name):
        if SKIP.match(op.name) and not NOT_SKIPPED.match(op.name):
            continue
        names = [a.name + ("*" + (a.number_attr or a.type_list_attr) if a.number_attr or a.type_list_attr else "")
                 for a in op.output_arg]
        if len(names) > 1:
            several.append(" ".join([op.name] + names))
        elif len(names) == 1:
            name = op.output_arg[0].name
            if name != "output":
                one[name].append(op.name)
    print("// Written by tests/import/make_op_outputs.py from TensorFlow 2.21's op registry; do not edit.")
    print('#include "import/op_outputs.h"\n\nnamespace millrace {\n')
    print("const char* const kOpsWithSeveralOutputs[] = {")
    for line in several:
        print(f'    "{line}",')
    print("    nullptr};\n\nconst char* const kOpsByOutputName[] = {")
    for name in sorted(one):
        lines = textwrap.wrap(" ".join([name] + one[name]), 108, break_long_words=False, break_on_hyphens=False)
        for i, line in enumerate(lines):
            end = "," if i + 1 == len(lines) else ""
            space = "" if i + 1 == len(lines) else " "
            print(f'    {"" if i == 0 else "    "}"{line}{space}"{end}')
    print("    nullptr};\n\n}  // namespace millrace")


main()
