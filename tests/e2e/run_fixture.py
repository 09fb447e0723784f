#!/usr/bin/env python3
"""Runs a fixture through the program and checks what comes out.

  run_fixture.py agree BINARY FOLDER [FLAG ...]      results agree with TensorFlow's, to the fixture's tolerance; where a node alone
                                                     does not fit --device_memory (libraries' scratch), within the least that fits
  run_fixture.py same_bits BINARY FOLDER CASE ...    every case gives the bits of `baseline` without a budget
  run_fixture.py little_memory BINARY FOLDER CASE ...  the same within 1.05 times the largest working set

A CASE is a list of flags in one argument. --in_all=FLAGS before the cases are flags of every run, baseline's included. A case that does not fit its budget is an error, as is one whose measured
peak is not the predicted one or exceeds the budget. Needs numpy.
"""
import gzip
import json
import math
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np


class Failed(SystemExit):
    def __init__(self, command, done):
        self.stderr = done.stderr
        super().__init__(f"{shlex.join(command)}\nexit status {done.returncode}: {done.stderr.strip()[-1000:]}")


class Fixture:
    def __init__(self, folder, scratch):
        self.folder = pathlib.Path(folder)
        self.scratch = pathlib.Path(scratch)
        self.about = json.loads(gzip.decompress((self.folder / "fixture.json.gz").read_bytes()))
        self.graph = self.scratch / "graph.pb"
        self.graph.write_bytes(gzip.decompress((self.folder / "graph.pb.gz").read_bytes()))

    def report(self, binary, command, flags):
        report = self.scratch / "report.json"
        command = [binary, command, f"--graph={self.graph}", f"--feeds={self.folder / 'feeds.npz'}",
                   f"--fetches={','.join(self.about['fetches'])}", f"--targets={','.join(self.about['targets'])}",
                   f"--init_targets={','.join(self.about['init_targets'])}", f"--report_out={report}", *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(command, done)
        return json.loads(report.read_text())

    def run(self, binary, flags):
        """The report's run, after `binary run` with `flags`; variables.npz and fetches.npz are in scratch."""
        return self.report(binary, "run", [f"--steps={self.about['steps']}",
                                           f"--variables_out={self.scratch / 'variables.npz'}",
                                           f"--fetches_out={self.scratch / 'fetches.npz'}", *flags])["runs"][0]

    def run_where_nodes_fit(self, binary, flags):
        """As run; with the budget that the program says would fit where a single node needs more than that of `flags`."""
        try:
            return self.run(binary, flags)
        except Failed as failed:
            fits = re.search(r"alone needs .*\nhint: --device_memory=(\d+)\b.* would fit", failed.stderr)
            if not fits:
                raise
            others = [flag for flag in flags if not flag.startswith("--device_memory=")]
            return self.run(binary, [*others, f"--device_memory={fits.group(1)}"])

    def largest_working_set(self, binary):
        return int(self.report(binary, "plan", ["--strategy=baseline"])["graph"]["largest_node_bytes"])


def close(got, want, tolerance):
    return abs(got - want) <= tolerance * max(abs(want), 1e-12)


def tensor_differences(name, got, want, tolerance):
    if list(got.shape) != want["shape"]:
        yield f"{name}: shape {list(got.shape)}, TensorFlow has {want['shape']}"
        return
    flat = got.astype(np.float64).ravel()
    norm = math.sqrt(float((flat * flat).sum()))
    if not close(norm, want["l2"], tolerance):
        yield f"{name}: norm {norm!r}, TensorFlow has {want['l2']!r}"
    typical = want["l2"] / math.sqrt(max(flat.size, 1))
    for i, value in enumerate(want["head"]):
        if not abs(flat[i] - value) <= 20 * tolerance * max(abs(value), typical, 1e-12):
            yield f"{name}[{i}]: {flat[i]!r}, TensorFlow has {value!r}"


def disagreements(fixture, run):
    expected, tolerance = fixture.about["expected"], fixture.about["tolerance"]
    if len(run["losses"]) != len(expected["losses"]):
        yield f"{len(run['losses'])} losses, expected {len(expected['losses'])}"
    for step, (got, want) in enumerate(zip(run["losses"], expected["losses"])):
        if not close(float(got), want, tolerance["loss"]):
            yield f"loss of step {step}: {got!r}, TensorFlow has {want!r}"
    for kind in ("fetches", "variables"):
        with np.load(fixture.scratch / f"{kind}.npz") as arrays:
            for key, want in expected.get(kind, {}).items():
                name = want.get("shared_name", key)
                if name in arrays:
                    yield from tensor_differences(name, arrays[name], want, tolerance["variables"])
                else:
                    yield f"{kind}: {name} is missing"


def differences(reference, run):
    for figure in ("losses", "fetch_digest", "variables_digest"):
        if run[figure] != reference[figure]:
            yield f"{figure}: {run[figure]}, baseline has {reference[figure]}"
    if run["peak_device_bytes"] != run["predicted_peak_device_bytes"]:
        yield f"peak of {run['peak_device_bytes']} bytes, predicted were {run['predicted_peak_device_bytes']}"
    if 0 < run["device_memory_budget_bytes"] < run["peak_device_bytes"]:
        yield f"peak of {run['peak_device_bytes']} bytes in a budget of {run['device_memory_budget_bytes']}"


def main(mode, binary, folder, *arguments):
    with tempfile.TemporaryDirectory() as scratch:
        fixture = Fixture(folder, scratch)
        if mode == "agree":
            found = list(disagreements(fixture, fixture.run_where_nodes_fit(binary, arguments)))
        else:
            common = []
            if arguments and arguments[0].startswith("--in_all="):
                common, arguments = shlex.split(arguments[0].removeprefix("--in_all=")), arguments[1:]
            reference = fixture.run(binary, ["--strategy=baseline"] + common)
            budget = []
            if mode == "little_memory":
                budget = [f"--device_memory={math.ceil(1.05 * fixture.largest_working_set(binary))}"]
            found = [f"{case}: {difference}" for case in arguments
                     for difference in differences(reference, fixture.run(binary, shlex.split(case) + budget + common))]
    print("\n".join(found[:20]) if found else "good")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("agree", "same_bits", "little_memory"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
