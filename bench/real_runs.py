#!/usr/bin/env python3
"""Measured steps on the CPU device against what the simulator says of them, once times have been measured.

    bench/real_runs.py build/bin/millrace --out bench/results/real_runs.md     # all rows, about 10 minutes, an idle machine
    bench/real_runs.py build/bin/millrace --quick                             # a slice, half a minute

Each row is one run: the first steps on cost rules, then planned with measured times (--replan=wait, so that the
planner does not disturb what is measured) until the plan stays. `measured` is the median of the steps in which the last
plan's nodes and copies were timed, `simulated` what the simulator makes of those times: the machine, which may change
its speed from minute to minute, is the same in both. `later` is the median of the steps after them over the same simulated
time, so it holds what the machine's speed moved by, too. `bound` is the lower bound of the plan's order under the budget, or
its compute time without one. The verdict is on the timed steps, whose own times the simulator has; how many rows' later steps
are within 10 %, too, is told beside it. A budget is a part of what baseline's plan holds at its peak. Models are small, 0.1 to 0.3 s a
step on one core, so that the whole table stays within minutes. Fetches and variables after the last step are compared
with those of a run of baseline. The table is written after every row. Exit status 1 when a row was refused, failed or has
other bits."""
import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import checked

MODELS = {  # name: flags of `millrace model`
    "resnet50": ["resnet", "--depth=50", "--batch=4", "--image_size=64"],
    "lstm": ["lstm", "--layers=2", "--hidden=256", "--steps_unrolled=40", "--batch=32", "--vocab=2000"],
    "unet3d": ["unet3d", "--image_size=32", "--batch=1", "--channels=8"],
    "moe_transformer": ["moe_transformer", "--layers=4", "--hidden=128", "--heads=4", "--steps_unrolled=64", "--batch=16",
                        "--experts=8", "--vocab=2000"],
    "deepspeech": ["deepspeech", "--steps_unrolled=50", "--batch=4", "--hidden=128", "--layers=3"],
}
PERCENT = "100,80,60,45,35"
GBPS = "2,4,8"
# ReplanOptions: of a plan's first MEASURED steps all but the first SKIPPED are timed; how many plans there are at most.
SKIPPED, MEASURED, PLANS = 3, 8, 3
WITHIN, ABOVE_BOUND = 0.10, 1.15


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else float("nan")


def run(program, arguments, report, timeout):
    """(run of the report, or None; what went wrong, or None)"""
    if os.path.exists(report):
        os.remove(report)
    try:
        done = subprocess.run([program, *arguments, f"--report_out={report}"], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, f"no end within {timeout} s"
    try:
        with open(report) as file:
            result = json.load(file)["runs"][0]
    except (OSError, ValueError, KeyError, IndexError):
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return None, lines[-1]
    return (result, None) if done.returncode == 0 else (None, result["status"])


def train(options, graph, strategy, folder, *flags):
    return run(options.program,
               ["run", f"--graph={graph}", "--fetches=loss:0", "--targets=train", "--init_targets=init",
                "--synthetic_feeds", f"--strategy={strategy}", f"--threads={options.threads}",
                f"--steps={PLANS * MEASURED + options.steps}", *flags],
               os.path.join(folder, "report.json"), options.timeout)


def digest(result):
    return result["variables_digest"], result["fetch_digest"], tuple(result["losses"])


def reference(options, model, graph, folder):
    """Digest of baseline's results."""
    result, wrong = train(options, graph, "baseline", folder, "--replan=off")
    if wrong:
        sys.exit(f"{model}: baseline, the reference of its rows: {wrong}")
    return digest(result)


def measure(options, graph, strategy, percent, gbps, folder):
    flags = ["--replan=wait", f"--link_gbps={gbps}"]
    if percent < 100:
        flags.append(f"--device_memory={percent}%")
    result, wrong = train(options, graph, strategy, folder, *flags)
    if wrong:
        return {"error": wrong}
    own = result["step_seconds"][result["switched_after"]:]  # the steps of the last plan
    return {"measured": statistics.median(own[SKIPPED:MEASURED]), "later": statistics.median(own[MEASURED:]),
            "simulated": result["predicted_step_seconds"],
            "bound": result["lower_bound_seconds"], "switched": result["switched_after"],
            "digest": digest(result), "swaps": result["swap_ins"], "recomputed": result["recomputed_nodes"]}


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


class Table:
    """Rows so far, and what they come to."""

    def __init__(self, options):
        self.options, self.rows, self.started = options, [], time.time()
        self.load_before = os.getloadavg()[0]
        self.commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()

    def add(self, model, gbps, percent, strategy, found, expected):
        if "error" not in found:
            found["equal"] = found["digest"] == expected
        self.rows.append((model, gbps, percent, strategy, found))

    def line(self, row):
        model, gbps, percent, strategy, found = row
        head = f"| {model} | {gbps} | {percent} % | {strategy} |"
        if "error" in found:
            return f"{head} {found['error']} | | | | | | | | | |"
        return (f"{head} {1e3 * found['measured']:.1f} | {1e3 * found['simulated']:.1f} | "
                f"{found['measured'] / found['simulated']:.3f} | {1e3 * found['bound']:.1f} | "
                f"{found['measured'] / found['bound']:.3f} | {found['later'] / found['simulated']:.3f} | {found['swaps']} | {found['recomputed']} | "
                f"{found['switched'] or '-'} | {'equal' if found['equal'] else 'DIFFERENT'} |")

    def failed(self):
        return sum("error" in row[4] or not row[4]["equal"] for row in self.rows)

    def verdicts(self):
        lines = ["| strategy | rows | ran, bits equal | timed steps within 10 % of simulated | measured / simulated: mean, worst | "
                 "later steps within 10 %: rows, mean | at most 1.15 times the bound | measured / bound: mean, worst |", "|---" * 8 + "|"]
        for strategy in dict.fromkeys(row[3] for row in self.rows):
            rows = [row[4] for row in self.rows if row[3] == strategy]
            ran = [found for found in rows if "error" not in found]
            ratios = [found["measured"] / found["simulated"] for found in ran]
            later = [found["later"] / found["simulated"] for found in ran]
            above = [found["measured"] / found["bound"] for found in ran]
            verdict = lambda good: f"{good} of {len(rows)}: {'reached' if good == len(rows) else 'NOT reached'}"
            lines.append(
                f"| {strategy} | {len(rows)} | {verdict(sum(found['equal'] for found in ran))} | "
                f"{verdict(sum(abs(ratio - 1) <= WITHIN for ratio in ratios))} | {geometric_mean(ratios):.3f}, "
                f"{max(ratios, key=lambda r: abs(math.log(r)), default=float('nan')):.3f} | "
                f"{sum(abs(ratio - 1) <= WITHIN for ratio in later)} of {len(rows)}, {geometric_mean(later):.3f} | "
                f"{verdict(sum(ratio <= ABOVE_BOUND for ratio in above))} | {geometric_mean(above):.3f}, "
                f"{max(above, default=float('nan')):.3f} |")
        return lines

    def text(self):
        machine = (f"{processor()}, {os.cpu_count()} cores, {self.options.threads} of them for kernels; load "
                   f"{self.load_before:.1f} before, {os.getloadavg()[0]:.1f} after {time.time() - self.started:.0f} s; "
                   f"commit {self.commit or 'unknown'}.")
        models = [f"    millrace model {' '.join(MODELS[model])}" for model in self.options.models.split(",")]
        head = ["| model | link GB/s | budget | strategy | measured ms | simulated ms | / simulated | bound ms | / bound | "
                "later / simulated | copies in | recomputed | plan of step | bits |", "|---" * 14 + "|"]
        return "\n".join(["# Real runs: measured against simulated", "",
                          "Written by `bench/real_runs.py`, which says what the columns are.", "", machine, "",
                          "    " + " ".join(["bench/real_runs.py", *self.options.command]), *models, "",
                          *self.verdicts(), "", *head, *map(self.line, self.rows), ""])

    def write(self):
        if self.options.out:
            with open(self.options.out, "w") as file:
                file.write(self.text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=checked.program)
    parser.add_argument("--out", type=checked.written, help="markdown; stdout when not given")
    parser.add_argument("--quick", action="store_true", help="two models, two budgets, one link")
    parser.add_argument("--models", type=checked.several(checked.one_of(MODELS)), default=",".join(MODELS))
    parser.add_argument("--percent", type=checked.several(checked.number(int, 1)), default=PERCENT)
    parser.add_argument("--gbps", type=checked.several(checked.number(float, 0)), default=GBPS)
    parser.add_argument("--strategies", default="planned", help="planned,tensorflowmem,lru,...")
    parser.add_argument("--threads", type=checked.number(int, 0), default=1, help="of kernels; 1 leaves a core to the copies on two")
    parser.add_argument("--steps", type=checked.number(int, 1), default=9, help="steps that count, at least")
    parser.add_argument("--timeout", type=checked.number(float, 0), default=600, help="seconds after which a run is given up")
    options = parser.parse_args()
    options.command = sys.argv[1:]
    if options.quick:
        options.models, options.percent, options.gbps = "resnet50,lstm", "60,45", "4"

    table = Table(options)
    combinations = [(model, gbps, int(percent), strategy) for model in options.models.split(",")
                    for gbps in options.gbps.split(",") for percent in options.percent.split(",")
                    for strategy in options.strategies.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        graphs, expected = {}, {}
        for number, (model, gbps, percent, strategy) in enumerate(combinations, 1):
            if model not in graphs:
                graphs[model] = os.path.join(folder, model + ".pb")
                checked.run([options.program, "model", *MODELS[model], f"--out={graphs[model]}"])
                expected[model] = reference(options, model, graphs[model], folder)
            table.add(model, gbps, percent, strategy,
                      measure(options, graphs[model], strategy, percent, gbps, folder), expected[model])
            print(f"{number}/{len(combinations)} {time.time() - table.started:4.0f} s {table.line(table.rows[-1])}",
                  file=sys.stderr, flush=True)
            table.write()
    print("\n".join(table.verdicts()) if options.out else table.text())
    if table.failed():
        sys.exit(f"{table.failed()} of {len(table.rows)} rows refused, failed or with other bits")


if __name__ == "__main__":
    main()
