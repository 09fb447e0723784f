#!/usr/bin/env python3
"""Writes cells.txt: per op what its definition in TensorFlow makes a case cover. coverage_test.cc holds the cases to it.

  coverage.py            needs TensorFlow; reads which ops the committed cases have

A line is OP|inputs|type attributes|axis attributes|cells. Inputs, in the definition's order: d data of the op's type, f data
of a fixed type, a axes, r a variable, - another; *N a list as long as attribute N, *T one of as many as the list of types T.
Type attributes are NAME:DEFAULT; the first one is the type of the data.
"""
import argparse
import pathlib

from coverage_cells import AXES, all_cases, cells_of, data_arguments, name_of, type_attributes

import tensorflow as tf
from tensorflow.python.framework import op_def_registry


def line(op):
    op_def = op_def_registry.get(op)
    data = data_arguments(op_def)
    inputs = []
    for i, arg in enumerate(op_def.input_arg):
        kind = "a" if arg.name in AXES else "r" if arg.type == tf.resource.as_datatype_enum or arg.is_ref else "-"
        if i in data:
            kind = ("r" if arg.is_ref else "") + ("d" if arg.type_attr else "f")
        length = arg.number_attr or arg.type_list_attr
        inputs.append(kind + (f"*{length}" if length else ""))
    defaults = {a.name: a.default_value for a in op_def.attr}
    types = [f"{a}:{name_of(defaults[a].type) if defaults[a].type else ''}" for a in type_attributes(op_def)]
    axes = [a.name for a in op_def.attr if a.name in AXES]
    data_format = defaults["data_format"].s.decode() if "data_format" in defaults else ""
    return "|".join([op, ",".join(inputs), ",".join(types), ",".join(axes), data_format, ",".join(cells_of(op))])


def main():
    ops = sorted({case.op for case in all_cases()})
    path = pathlib.Path(__file__).resolve().parent / "cells.txt"
    path.write_text("".join(line(op) + "\n" for op in ops))
    print(f"{len(ops)} ops")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
