#!/usr/bin/env python3
"""Compares an ONNX model's outputs and parameter gradients with those that its author measured.

  check_fixture.py BINARY FOLDER ... [-- EXTRA MILLRACE FLAGS]

FOLDER holds fixture.json: the model, feeds, a cotangent for each output, and for outputs and gradients their shape, norm, sum
and first values. Outputs come from `millrace run`, gradients from --train with the loss sum(output * cotangent). Needs numpy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def run(binary, folder, fixture, scratch, flags):
    command = [binary, "run", f"--onnx={folder / fixture['model']}", f"--fetches_out={scratch}/fetches.npz",
               f"--report_out={scratch}/report.json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()[-600:]}")
    with np.load(f"{scratch}/fetches.npz") as fetches:
        return {name.removesuffix(":0"): fetches[name] for name in fetches}


def problem(name, got, want, tolerance):
    if list(got.shape) != want["shape"]:
        return f"{name}: shape {list(got.shape)}, expected {want['shape']}"
    flat = got.astype(np.float64).ravel()
    norm = float(np.sqrt((flat * flat).sum()))
    if not abs(norm - want["l2"]) <= tolerance * max(want["l2"], 1e-6):
        return f"{name}: norm {norm!r}, expected {want['l2']!r}"
    typical = max(want["l2"] / max(flat.size, 1) ** 0.5, 1e-6)
    for i, value in enumerate(want["head"]):
        if not abs(flat[i] - value) <= 20 * tolerance * max(abs(value), typical):
            return f"{name}[{i}]: {flat[i]!r}, expected {value!r}"
    return None


def check(binary, folder, extra):
    fixture = json.loads((folder / "fixture.json").read_text())
    expected, tolerance = fixture["expected"], fixture["tolerance"]
    with tempfile.TemporaryDirectory() as scratch:
        outputs = run(binary, folder, fixture, scratch, [f"--feeds={folder / fixture['feeds']}", *extra])
        yield from filter(None, (problem(n, outputs[n], w, tolerance["output"]) for n, w in expected["outputs"].items()))
        feeds = dict(np.load(folder / fixture["feeds"]))
        for name, cotangent in np.load(folder / fixture["cotangents"]).items():
            feeds[f"cotangent.{name}"] = cotangent
        np.savez(f"{scratch}/feeds.npz", **feeds)
        loss = ",".join(f"weighted_sum:{name}:cotangent.{name}" for name in expected["outputs"])
        wanted = [f"gradient/{name}" for name in expected["gradients"]]
        fetched = run(binary, folder, fixture, scratch, [f"--feeds={scratch}/feeds.npz", "--train", f"--loss={loss}",
                                                         f"--fetches=loss,{','.join(wanted)}", *extra])
        if not abs(float(fetched["loss"]) - expected["objective"]) <= tolerance["output"] * max(abs(expected["objective"]), 1):
            yield f"objective {fetched['loss']!r}, expected {expected['objective']!r}"
        for name, want in expected["gradients"].items():
            found = problem(f"gradient of {name}", fetched[f"gradient/{name}"], want, tolerance["gradient"])
            if found:
                yield found


def main(arguments):
    extra = []
    if "--" in arguments:
        extra = arguments[arguments.index("--") + 1:]
        arguments = arguments[:arguments.index("--")]
    if len(arguments) < 2:
        sys.exit(__doc__)
    failures = 0
    for folder in map(pathlib.Path, arguments[1:]):
        try:
            found = list(check(arguments[0], folder, extra))
        except RuntimeError as error:
            found = [str(error)]
        failures += bool(found)
        print("\n     ".join([f"{'FAIL' if found else 'ok  '} {folder.name}", *found[:5]]), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
