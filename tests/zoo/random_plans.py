#!/usr/bin/env python3
"""The zoo's graphs under random plans: the same bits as without partitions and without a budget.

  random_plans.py BINARY [NAME|FAMILY ...] [--plans=N] [--seed=S] [--devices=D,D] [--out=FOLDER] [--seconds=S]

Every case runs with `--strategy=baseline`, then N times with a strategy, partition size, budget, recomputation, parts of updates, and threads, on a
device drawn from the seed and its name; losses, fetches and variables must have the same bits, or the budget is refused before anything runs
(exit status 3). Rewrites that change rounding are drawn once for all runs of a case. TensorFlow only builds the graphs. A run of more than S
seconds is told and not counted.
"""
import argparse
import collections
import random
import subprocess
import sys

import numpy as np
import zoo

REFUSED = 3


def drawn_rewrites(draw, devices):
    return [f"--device={draw.choice(devices)}", f"--fuse={draw.choice(('off', 'on'))}",
            f"--pack_rows={draw.choice(('off', 'on'))}", f"--channels_first={draw.choice(('off', 'on'))}",
            draw.choice(("--accumulate_products", "--noaccumulate_products"))]


def drawn_plan(draw, folder):
    flags = [f"--strategy={draw.choice(('planned', 'planned', 'planned', 'tensorflowmem', 'lru', 'reactive', 'tflms'))}",
             f"--partition_size={draw.choice((0, 0, 1, 3, 10, 50, 200))}", f"--recompute={draw.choice(('off', 'on', 'auto'))}",
             f"--threads={draw.choice((1, 2, 3))}", f"--replan={draw.choice(('off', 'wait', 'auto'))}",
             f"--cuda_graph={draw.choice(('auto', 'off'))}"]
    if draw.random() < 0.85:
        flags.append(f"--device_memory={draw.randrange(25, 105)}%")
    if draw.random() < 0.4:
        flags.append(f"--update_parts={draw.choice(('64B', '256B', '1KiB', '16KiB'))}")
    if draw.random() < 0.3:
        flags += [f"--disk={folder}", f"--host_memory={draw.choice((1200, 1500, 2500, 5000, 20000))}KiB"]
    return flags


def run(binary, folder, net, flags, seconds):
    """The exit status, what was said, and the arrays by name."""
    outputs = [folder / "variables.npz", folder / "fetches.npz"]
    for path in outputs:
        path.unlink(missing_ok=True)
    done = subprocess.run([*zoo.command_of(binary, folder, net), *flags], capture_output=True, text=True, check=False, timeout=seconds)
    arrays = {}
    if done.returncode == 0:
        for path in outputs:
            with np.load(path) as file:
                arrays.update({f"{path.stem} {name}": file[name] for name in file})
    return done.returncode, done.stderr.strip(), arrays


def different(found, expected):
    """Names of arrays that have other bits."""
    return [name for name, value in expected.items()
            if name not in found or found[name].dtype != value.dtype or found[name].shape != value.shape
            or found[name].tobytes() != value.tobytes()]


def check(arguments, name, case, folder, counts):
    """Lines that say what is wrong."""
    _, net = zoo.build(case, folder)
    draw = random.Random(f"{arguments.seed} {name}")
    rewrites = drawn_rewrites(draw, arguments.devices.split(","))
    status, said, expected = run(arguments.binary, folder, net, ["--strategy=baseline", "--replan=off", "--threads=1", *rewrites], arguments.seconds)
    if status != 0:
        yield f"{' '.join(rewrites)}: exit status {status}: {said[-600:]}"
        return
    for _ in range(arguments.plans):
        flags = rewrites + drawn_plan(draw, folder)
        try:
            status, said, found = run(arguments.binary, folder, net, flags, arguments.seconds)
        except subprocess.TimeoutExpired:
            counts["too slow"] += 1
            print(f"slow {name} {' '.join(flags)}", flush=True)
            continue
        if status == REFUSED:
            counts["refused"] += 1
        elif status != 0:
            yield f"{' '.join(flags)}: exit status {status}: {said[-600:]}"
        elif wrong := different(found, expected):
            yield f"{' '.join(flags)}: other bits of {', '.join(wrong[:4])}"
        else:
            counts["equal"] += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--plans", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--devices", default="cpu,cuda_emulated")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    counts = collections.Counter()
    results = zoo.check_all(zoo.cases_of(arguments.names), arguments.out, lambda name, case, folder: check(arguments, name, case, folder, counts))
    print(f"{results[True]} cases passed, {results[False]} failed; {counts['equal']} plans have the same bits, {counts['refused']} refused, "
          f"{counts['too slow']} too slow")
    return 1 if results[False] else 0


if __name__ == "__main__":
    sys.exit(main())
