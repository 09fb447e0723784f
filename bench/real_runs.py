#!/usr/bin/env python3
"""Measured steps on the CPU device against what the simulator says of them, once times have been measured.

    bench/real_runs.py build/bin/millrace --out bench/results/real_runs.md          # the whole table, an idle machine
    bench/real_runs.py build/bin/millrace --quick                                  # a slice, about a minute

Each line is one run: the first steps on cost rules, then planned with measured times (--replan=wait, so that the
planner does not disturb what is measured), then the steps that count. `simulated` is what the plan in use was
predicted to take from times measured before; `bound` is the lower bound of its order under the budget."""
import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile

MODELS = {  # name: flags of `millrace model`, at most a second or two a step on two cores
    "resnet50": ["resnet", "--depth=50", "--batch=8", "--image_size=160"],
    "lstm": ["lstm", "--layers=2", "--hidden=512", "--steps_unrolled=40", "--batch=32", "--vocab=2000"],
    "unet3d": ["unet3d", "--image_size=48", "--batch=1", "--channels=16"],
    "moe_transformer": ["moe_transformer", "--layers=4", "--hidden=256", "--heads=4", "--steps_unrolled=64", "--batch=4",
                        "--experts=8", "--vocab=2000"],
    "deepspeech": ["deepspeech", "--steps_unrolled=200", "--batch=4", "--hidden=256", "--layers=3"],
}
PERCENT = (100, 80, 60, 45, 35)
GBPS = (2, 4, 8)
STRATEGIES = ("planned", "tensorflowmem", "lru")


def run(program, arguments, timeout=1800):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stderr.strip().splitlines()[-1:] or [""]


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else float("nan")


def measure(options, graph, strategy, percent, gbps, folder):
    report = os.path.join(folder, "report.json")
    flags = [f"--graph={graph}", "--fetches=loss:0", "--targets=train", "--init_targets=init", "--synthetic_feeds",
             f"--strategy={strategy}", f"--steps={options.steps}", f"--threads={options.threads}",
             "--replan=wait", f"--link_gbps={gbps}", f"--report_out={report}"]
    if percent < 100:
        flags.append(f"--device_memory={percent}%")
    status, message = run(options.program, ["run", *flags])
    with open(report) as file:
        result = json.load(file)["runs"][0]
    if status != 0:
        return {"error": message[0], "status": result["status"]}
    # The last plan took over after `switched_after` steps, or was found to be the best there is before the last round.
    steps = result["step_seconds"][max(result["switched_after"] + options.settle, options.settle + 9):]
    measured = statistics.median(steps)
    return {"measured": measured, "simulated": result["predicted_step_seconds"], "bound": result["lower_bound_seconds"],
            "compute": result["compute_seconds"], "switched": result["switched_after"], "replans": result["replans"],
            "digest": result["variables_digest"],
            "spread": (max(steps) - min(steps)) / measured}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", help="markdown; stdout when not given")
    parser.add_argument("--quick", action="store_true", help="two models, two budgets, one link, planned only")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--percent", default=",".join(map(str, PERCENT)))
    parser.add_argument("--gbps", default=",".join(map(str, GBPS)))
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--threads", type=int, default=1, help="of kernels; 1 leaves a core to the copies on two")
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--settle", type=int, default=2, help="steps of a plan that are not counted")
    options = parser.parse_args()
    if options.quick:
        options.models, options.percent, options.gbps, options.strategies = "resnet50,lstm", "60,45", "4", "planned"

    lines = ["| model | link GB/s | budget | strategy | measured | simulated | measured / simulated | lower bound | "
             "measured / bound | switched after | bits |", "|---" * 11 + "|"]
    ratios, to_bound = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            graph = os.path.join(folder, model + ".pb")
            status, message = run(options.program, ["model", *MODELS[model], f"--out={graph}"])
            if status != 0:
                sys.exit(f"{model}: {message[0]}")
            digest = None
            for gbps in options.gbps.split(","):
                for percent in map(int, options.percent.split(",")):
                    for strategy in options.strategies.split(","):
                        found = measure(options, graph, strategy, percent, gbps, folder)
                        head = f"| {model} | {gbps} | {percent} % | {strategy} |"
                        if "error" in found:
                            lines.append(f"{head} {found['status']} | | | | | | |")
                        else:
                            digest = digest or found["digest"]
                            ratio = found["measured"] / found["simulated"]
                            above = found["measured"] / found["bound"]
                            ratios.setdefault(strategy, []).append(ratio)
                            to_bound.setdefault(strategy, []).append(above)
                            lines.append(
                                f"{head} {1e3 * found['measured']:.1f} ms | {1e3 * found['simulated']:.1f} ms | {ratio:.3f} | "
                                f"{1e3 * found['bound']:.1f} ms | {above:.3f} | {found['switched'] or '-'} | "
                                f"{'equal' if digest == found['digest'] else 'DIFFERENT'} |")
                        print(lines[-1], file=sys.stderr, flush=True)
    summary = ["| strategy | runs | measured / simulated: mean | worst | within 10 % | measured / bound: mean | worst |",
               "|---" * 7 + "|"]
    for strategy, values in ratios.items():
        within = sum(abs(value - 1) <= 0.1 for value in values)
        summary.append(f"| {strategy} | {len(values)} | {geometric_mean(values):.3f} | "
                       f"{max(values, key=lambda v: abs(math.log(v))):.3f} | {within} | "
                       f"{geometric_mean(to_bound[strategy]):.3f} | {max(to_bound[strategy]):.3f} |")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    load = os.getloadavg()[0]
    text = "\n".join([f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the end, "
                      f"{options.threads} kernel thread(s), commit {commit or 'unknown'}", "", *summary, "", *lines, ""])
    if options.out:
        with open(options.out, "w") as file:
            file.write("# Real runs: measured against simulated\n\nWritten by `bench/real_runs.py`, which says what the "
                       "columns are.\n\n" + text)
    else:
        print(text)
    if "DIFFERENT" in text:
        sys.exit("bits differ")


if __name__ == "__main__":
    main()
