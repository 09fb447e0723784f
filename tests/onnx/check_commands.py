#!/usr/bin/env python3
"""Every command that takes a graph takes an ONNX model: check_commands.py BINARY FIXTURE_FOLDER"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def main(binary, folder):
    model, feeds = f"--onnx={pathlib.Path(folder) / 'model.onnx'}", f"--feeds={pathlib.Path(folder) / 'feeds.npz'}"
    train = ["--train", "--loss=cross_entropy:logits:labels", "--optimizer=adam", "--synthetic_feeds"]
    with tempfile.TemporaryDirectory() as scratch:
        cases = [
            ["run", model, feeds, *train, "--steps=2", "--device_memory=70%", f"--variables_out={scratch}/v.npz"],
            ["run", model, feeds, *train, "--steps=1", f"--checkpoint_out={scratch}/c"],
            ["run", model, feeds, *train, "--steps=1", f"--checkpoint_in={scratch}/c"],
            ["compare", model, feeds, *train, "--strategies=baseline,tensorflowmem,planned", "--device_memory=70%"],
            ["plan", model, feeds, *train],
            ["plan", model, feeds],
            ["inspect", model, feeds],
            ["inspect", model, feeds, *train],
            ["export", model, feeds, *train, f"--out={scratch}/g.pbtxt"],
            ["sweep", model, feeds, *train, "--strategies=tensorflowmem", "--partition_sizes=10,50", "--budgets=80%",
              "--steps=1"],
        ]
        failures = 0
        for arguments in cases:
            done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)
            good = done.returncode == 0
            failures += not good
            print("ok  " if good else "FAIL", arguments[0], arguments[3:], "" if good else done.stderr[-600:])
        refused = [
            (["run", "--graph=x.pb", "--train", "--fetches=y"], 2, "--train is for --onnx"),
            (["run", model, feeds, "--train"], 2, "--train needs a loss"),
            (["run", model, feeds, "--graph=x.pb"], 2, "which graph"),
            (["run", model, "--synthetic_feeds", "--fetches=gone"], 1, "gone"),
            (["run", model, feeds, "--train", "--loss=logits"], 1, "expected one number"),
            (["run", model, feeds, "--loss=logits"], 2, "are for --train"),
            (["run", model, feeds, *train, "--learning_rate=-1"], 2, "--learning_rate is -1"),
            (["run", model, feeds, *train, "--learning_rate=nan"], 2, "--learning_rate is nan"),
            (["run", model, feeds, *train, "--weight_decay=-5"], 2, "--weight_decay is -5"),
        ]
        for arguments, status, word in refused:
            done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)
            good = done.returncode == status and word in done.stderr and done.stderr.count("\n") == 1
            failures += not good
            print("ok  " if good else "FAIL", arguments, "" if good else f"{done.returncode} {done.stderr}")
        failures += colons(binary, folder, scratch)
        failures += external_data(binary, scratch)
    return 1 if failures else 0


def colons(binary, folder, scratch):
    """Inputs that are called NAME:0 in the model, as converters from TensorFlow name them, are fed by either name."""
    model = (pathlib.Path(folder) / "model.onnx").read_bytes()
    pathlib.Path(f"{scratch}/colon.onnx").write_bytes(model.replace(b"tokens", b"toke:0"))
    failures = 0
    with np.load(pathlib.Path(folder) / "feeds.npz") as feeds:
        tokens = feeds["tokens"]
    for name in ("toke:0", "toke"):
        np.savez(f"{scratch}/colon.npz", **{name: tokens})
        done = subprocess.run([binary, "run", f"--onnx={scratch}/colon.onnx", f"--feeds={scratch}/colon.npz"], capture_output=True, text=True, check=False)
        failures += done.returncode != 0
        print("FAIL" if done.returncode else "ok  ", "fed as", name, done.stderr)
    return failures


def message(*fields):
    """A protobuf of small fields by number: integers, texts, messages."""
    encoded = b""
    for number, value in fields:
        data = value.encode() if isinstance(value, str) else value
        encoded += bytes([number << 3, data]) if isinstance(data, int) else bytes([number << 3 | 2, len(data)]) + data
    return encoded


def external_data(binary, scratch):
    """Outputs never replace the files that hold a model's weights."""
    weights, content = pathlib.Path(f"{scratch}/w.bin"), np.float32(3).tobytes()
    weights.write_bytes(content)
    w = message((1, 1), (2, 1), (8, "w"), (13, message((1, "location"), (2, "w.bin"))), (14, 1))
    graph = message((1, message((1, "w"), (2, "y"), (4, "Relu"))), (5, w), (12, message((1, "y"))))
    pathlib.Path(f"{scratch}/external.onnx").write_bytes(message((1, 8), (7, graph), (8, message((2, 17)))))
    failures = 0
    for output, status in ((f"--variables_out={weights}", 2), (f"--variables_out={scratch}/v.npz", 0)):
        done = subprocess.run([binary, "run", f"--onnx={scratch}/external.onnx", output], capture_output=True, text=True, check=False)
        good = done.returncode == status and (status == 0 or "would overwrite the file of --onnx" in done.stderr) and weights.read_bytes() == content
        failures += not good
        print("ok  " if good else "FAIL", output, "" if good else done.stderr)
    return failures


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
