#!/usr/bin/env python3
"""Writes a graph of NODES tiny kernels one after the other: what a node costs to launch. As `millrace machine --measure` has it,
reversals of 16 floats, which no rewrite puts together.

Usage: chain_graph.py NODES FILE.pbtxt   (fetch result:0, feed x)
"""
import argparse

import checked


def node(name, op, inputs=(), attributes=""):
    return f'node {{ name: "{name}" op: "{op}" ' + "".join(f'input: "{i}" ' for i in inputs) + attributes + "}\n"


def kind(name, dtype):
    return f'attr {{ key: "{name}" value {{ type: {dtype} }} }} '


def chain(nodes):
    yield node("x", "Placeholder", attributes=kind("dtype", "DT_FLOAT") + 'attr { key: "shape" value { shape { dim { size: 16 } } } } ')
    yield node("axis", "Const", attributes=kind("dtype", "DT_INT32") +
               'attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 0 } } } ')
    names = ["x"] + [f"r{i}" for i in range(1, nodes)] + ["result"]
    for before, name in zip(names, names[1:]):
        yield node(name, "ReverseV2", [before, "axis"], kind("T", "DT_FLOAT") + kind("Tidx", "DT_INT32"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=checked.number(int, 1))
    parser.add_argument("file", type=checked.written)
    options = parser.parse_args()
    with open(options.file, "w") as file:
        file.writelines(chain(options.nodes))
