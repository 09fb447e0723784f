#!/usr/bin/env python3
"""Runs ONNX's own backend node tests through millrace and says how many pass.

  run_backend_tests.py BINARY [--data=FOLDER] [--only=SUBSTRING] [--table=F.md] [--pack=F.npz]

Needs the onnx package of PyPI (1.23.2 for opsets up to 28) and numpy. The wheels hold no data of these tests since 1.16: they are
generated into FOLDER, or a temporary one, unless they are there. Every test is one `millrace run` of its model with its inputs as feeds; outputs must have the expected type and shape, and values to ONNX's own tolerance
(rtol 1e-3, atol 1e-7). --pack writes models, inputs and expected outputs of a slice of what passes into one archive, which
backend_test.cc runs without Python.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import cmd_tools
from onnx.backend.test.loader import load_node_model_tests

# Tests that cannot agree, with the reason.
RANDOM = "the expected values are draws of NumPy's generator"
CANNOT_AGREE = {
    **{f"test_bernoulli{form}{expanded}": RANDOM for form in ("", "_double", "_seed") for expanded in ("", "_expanded")},
    **{f"test_training_dropout{form}": RANDOM for form in ("", "_default", "_default_mask", "_mask")},
    **{f"test_cast{form}": "onnx 1.15 cuts digits off; the reference of onnx 1.23 rounds to even, as we do"
       for form in ("_FLOAT_to_BFLOAT16", "like_FLOAT_to_BFLOAT16", "like_FLOAT_to_BFLOAT16_expanded")},
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True":
        "onnx 1.15 divides by elements beyond the padding; the reference of onnx 1.23 gives our values",
    "test_adam_multiple": "the expected values are those of an epsilon of 0.01, which the model does not have",
}
MOST_PACKED_BYTES = 2500
MOST_PACKED_PER_OP = 2


def read(path, type_proto):
    """The array in a .pb file, or None when it is no tensor of a type that NumPy has."""
    if not type_proto.HasField("tensor_type"):
        return None
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    if tensor.data_type == onnx.TensorProto.STRING:
        return None
    if onnx.TensorProto.BFLOAT16 in (tensor.data_type, type_proto.tensor_type.elem_type):
        raw = tensor.raw_data or np.array(tensor.int32_data, "<u2").tobytes()
        return np.frombuffer(raw, "<u2").view("V2").reshape(tuple(tensor.dims))
    if max(tensor.data_type, type_proto.tensor_type.elem_type) > onnx.TensorProto.BFLOAT16:
        return None
    return numpy_helper.to_array(tensor)


class Test:
    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name
        self.model = onnx.load(str(folder / "model.onnx"))
        self.ops = sorted({f"{n.domain}.{n.op_type}" if n.domain else n.op_type for n in self.model.graph.node})
        # test_OP_… and the forms that ONNX's function bodies expand to.
        self.op = self.ops[0] if len(self.ops) == 1 and "_expanded" not in self.name else "(composed)"

    def data_set(self, number):
        data = self.folder / f"test_data_set_{number}"
        graph = self.model.graph
        inputs = {i.name: read(data / f"input_{k}.pb", i.type) for k, i in enumerate(graph.input)
                  if (data / f"input_{k}.pb").exists()}
        outputs = {o.name: read(data / f"output_{k}.pb", o.type) for k, o in enumerate(graph.output)}
        return inputs, outputs

    def run(self, binary):
        """None when it passes, else ('unsupported', 'cannot agree' or 'failed', why)."""
        if self.name in CANNOT_AGREE:
            return "cannot agree", CANNOT_AGREE[self.name]
        sets = len(list(self.folder.glob("test_data_set_*")))
        for number in range(sets):
            inputs, expected = self.data_set(number)
            if any(a is None for a in (*inputs.values(), *expected.values())):
                return "unsupported", "strings, sequences, optionals or element types that NumPy lacks"
            problem = self.run_set(binary, inputs, expected)
            if problem:
                return problem
        return None

    def run_set(self, binary, inputs, expected):
        with tempfile.TemporaryDirectory() as scratch:
            np.savez(f"{scratch}/feeds.npz", **inputs)
            command = [binary, "run", f"--onnx={self.folder / 'model.onnx'}", "--threads=1", "--strategy=baseline",
                       f"--feeds={scratch}/feeds.npz", f"--fetches_out={scratch}/fetches.npz"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            if done.returncode != 0:
                message = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
                return ("unsupported" if "not supported" in message else "failed"), message
            with np.load(f"{scratch}/fetches.npz") as fetches:
                for name, want in expected.items():
                    problem = difference(fetches.get(f"{name}:0"), want)
                    if problem:
                        return "failed", f"{name}: {problem}"
        return None


def as_numbers(array):
    if array.dtype.kind != "V":
        return array
    return (np.frombuffer(array.tobytes(), "<u2").astype("<u4") << 16).view("<f4").reshape(array.shape)


def difference(got, want):
    if got is None:
        return "missing"
    if got.dtype != want.dtype:
        return f"type {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    got, want = as_numbers(got), as_numbers(want)
    if not np.allclose(got, want, rtol=1e-3, atol=1e-7, equal_nan=True):
        worst = np.nanmax(np.abs(got.astype(np.float64) - want.astype(np.float64)))
        return f"off by {worst:.3g}: {got.ravel()[:4]}, expected {want.ravel()[:4]}"
    return None


def pack(tests, results, path):
    """A few small tests of every operator: model bytes, inputs and outputs as members of one archive."""
    taken, members = collections.Counter(), {}
    for test in tests:
        if results[test.name] is not None:
            continue
        inputs, outputs = test.data_set(0)
        model = (test.folder / "model.onnx").read_bytes()
        size = len(model) + sum(a.nbytes for a in (*inputs.values(), *outputs.values()))
        key = test.op if test.op != "(composed)" else test.name.split("_")[1] + " composed"
        most = 1 if test.op == "(composed)" else MOST_PACKED_PER_OP
        if size > MOST_PACKED_BYTES or taken[key] >= most or any(a.dtype.kind == "V" for a in (*inputs.values(), *outputs.values())):
            continue
        taken[key] += 1
        members[f"{test.name}/model"] = np.frombuffer(model, np.uint8)
        for name, array in inputs.items():
            members[f"{test.name}/in/{name}"] = array
        for name, array in outputs.items():
            members[f"{test.name}/out/{name}"] = array
    np.savez_compressed(path, **members)
    print(f"{sum(taken.values())} tests packed into {path}, {os.path.getsize(path)} bytes")


def table(tests, results, path):
    rows = collections.defaultdict(collections.Counter)
    others = []
    for test in tests:
        result = results[test.name]
        kind = "passed" if result is None else result[0]
        rows[test.op][kind] += 1
        if kind in ("failed", "cannot agree"):
            others.append((test.name, result[1]))
    total = collections.Counter()
    for row in rows.values():
        total.update(row)
    lines = ["# ONNX's backend node tests", "",
             f"onnx {onnx.__version__}, made by `tests/onnx/run_backend_tests.py`: **{total['passed']} of {len(tests)} pass**, "
             f"{total['unsupported']} need what is not supported (and say so: operators that are not in the list of the importer, "
             "and strings, sequences, optionals and 8-bit floats), "
             f"{total['cannot agree']} cannot agree, {total['failed']} fail.", "",
             "A test counts for its operator when that is the model's only one; the others, most of them bodies that ONNX expands "
             "functions to, are \"(composed)\".", "", "| operator | pass | of | not supported | cannot agree | fail |", "|---|---|---|---|---|---|"]
    for op in sorted(rows):
        row = rows[op]
        lines.append(f"| {op} | {row['passed']} | {sum(row.values())} | {row['unsupported'] or ''} | "
                     f"{row['cannot agree'] or ''} | {row['failed'] or ''} |")
    if others:
        lines += [""] + [f"- `{name}`: {why}" for name, why in others]
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def generate(folder):
    """Writes the package's node tests into folder/node."""
    cmd_tools.model_test.collect_testcases = load_node_model_tests
    cmd_tools.generate_data(argparse.Namespace(output=folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--data")
    parser.add_argument("--only", default="")
    parser.add_argument("--table")
    parser.add_argument("--pack")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run_all(arguments, pathlib.Path(arguments.data or temporary) / "node")


def run_all(arguments, folder):
    if not folder.exists():
        generate(str(folder.parent))
    tests = [Test(f) for f in sorted(folder.iterdir()) if arguments.only in f.name]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = dict(zip((t.name for t in tests), pool.map(lambda t: t.run(arguments.binary), tests)))
    counts = collections.Counter("passed" if r is None else r[0] for r in results.values())
    for test in tests:
        if results[test.name] is not None:
            print(f"{results[test.name][0]:12s}{test.name} [{', '.join(test.ops)}]: {results[test.name][1][:300]}")
    print(f"{counts['passed']} of {len(tests)} pass, {counts['unsupported']} not supported, "
          f"{counts['cannot agree']} cannot agree, {counts['failed']} fail")
    if arguments.table:
        table(tests, results, arguments.table)
    if arguments.pack:
        pack(tests, results, arguments.pack)


if __name__ == "__main__":
    main()
