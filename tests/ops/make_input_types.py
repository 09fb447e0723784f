#!/usr/bin/env python3
"""Writes src/ops/input_types_table.cc: which inputs of an op have one type by its definition in TensorFlow.

Needs TensorFlow (2.21 was used):  make_input_types.py MILLRACE > src/ops/input_types_table.cc
"""
import collections
import subprocess
import sys

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

NAMES = {"DT_FLOAT": "float", "DT_DOUBLE": "double", "DT_HALF": "half", "DT_BFLOAT16": "bfloat16"}


def pattern(op_def):
    """Per input its type's attribute, =TYPE, or - for what is not looked at; *N behind it: as many as attribute N says."""
    words = []
    for arg in op_def.input_arg:
        if arg.type == types_pb2.DT_RESOURCE or arg.type == types_pb2.DT_VARIANT:
            word = "-"
        elif arg.type:
            name = types_pb2.DataType.Name(arg.type)
            word = "=" + NAMES.get(name, name[3:].lower())
        else:
            word = arg.type_attr or "-"
        if arg.type_list_attr:
            word = "..."  # of several types: what follows is not looked at
        words.append(word + (f"*{arg.number_attr}" if arg.number_attr else ""))
        if arg.type_list_attr:
            break
    return words


def says_something(words):
    counts = collections.Counter(word.split("*")[0] for word in words)
    return any(w[0] == "=" or "*" in w or counts[w] > 1 for w in words if w not in ("-", "..."))


def main():
    printed = subprocess.run([sys.argv[1], "inspect", "--ops"], capture_output=True, text=True, check=True).stdout
    ops = [line.split("|")[1].strip(" `") for line in printed.splitlines() if line.startswith("|")]
    print("// Written by tests/ops/make_input_types.py from TensorFlow 2.21's op registry; do not edit.")
    print('#include "ops/input_types.h"\n\nnamespace millrace {\n\nconst char* const kInputTypes[] = {')
    for op in sorted(ops):
        op_def = op_def_registry.get(op)
        words = pattern(op_def) if op_def is not None else []
        if words and says_something(words):
            print(f'    "{op} {" ".join(words)}",')
    print("    nullptr};\n\n}  // namespace millrace")


if __name__ == "__main__":
    main()
