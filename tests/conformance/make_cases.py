#!/usr/bin/env python3
"""Writes tests/conformance/data/FAMILY.pb.gz from cases/FAMILY.py with TensorFlow's answers.

    make_cases.py [FAMILY ...]      (all families by default; needs TensorFlow, which the tests do not)
"""
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import data_files  # noqa: E402
from case_builder import nodes_of  # noqa: E402
from tensorflow.core.framework import graph_pb2  # noqa: E402


def make_family(family):
    cases = list(importlib.import_module(f"cases.{family}").cases())
    names = [case.name for case in cases]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SystemExit(f"{family}: case names repeat: {repeated}")
    graph, failed = graph_pb2.GraphDef(), False
    for case in cases:
        try:
            graph.node.extend(nodes_of(case))
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip() and "  File" not in line]
            print(f"{family}/{case.name}: {type(error).__name__}: {' | '.join(lines[:4])}", file=sys.stderr)
            failed = True
    if failed:
        raise SystemExit(f"{family}: not written")
    size = data_files.write(family, graph.SerializeToString(deterministic=True))
    print(f"{family}: {len(cases)} cases, {size} bytes")


def main():
    families = sys.argv[1:] or sorted(p.stem for p in (HERE / "cases").glob("*.py") if p.stem != "__init__")
    for family in families:
        make_family(family)


if __name__ == "__main__":
    main()
