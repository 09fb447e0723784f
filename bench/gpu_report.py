"""Verdicts of bench/gpu_check.sh: results.json and summary.md from the reports and logs in a folder.

Usage: gpu_report.py FOLDER [--no-device | --build-failed | --dry-run]. Exit status 1 when a goal was missed. After a dry run a
goal that could be judged is 'tried': small models on an emulated device meet or miss nothing.
"""
import json
import pathlib
import re
import sys

MODELS = ["resnet50", "lstm", "unet3d", "moe_transformer"]
SIZES = {"resnet_504_b16": 12, "resnet_1001_b16": 12, "resnet_1001_b32": 12, "resnet_1916_b16": 12, "moe_12": 12, "moe_48": 12,
         "deepspeech_400": 12, "deepspeech_800": 12, "googlenet_2240_b11": 12, "googlenet_2240_b15": 16,
         "resnet50_7500": 16, "deeplab_2048": 16, "unet3d_192": 16}  # budgets in GB


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def step_of(folder, label):
    """Median seconds of the last five steps of a run, or None."""
    report = read_json(folder / f"{label}.json")
    if not report or not report.get("runs") or report["runs"][0].get("status") not in ("OK", None):
        return None
    steps = sorted(float(s) for s in report["runs"][0].get("step_seconds", [])[-5:])
    return steps[len(steps) // 2] if steps else None


def field_of(folder, label, name):
    report = read_json(folder / f"{label}.json")
    return report["runs"][0].get(name) if report and report.get("runs") else None


def digest_of(folder, label, steps=25):
    """Of the variables after all steps; a run that was cut short by its time limit has none."""
    return field_of(folder, label, "variables_digest") if len(field_of(folder, label, "step_seconds") or []) == steps else None


def status_of(folder, name):
    """Exit status; None where it did not run or ran out of time."""
    try:
        status = int((folder / f"{name}.status").read_text())
    except (OSError, ValueError):
        return None
    return None if status == 124 else status


def copy_rates(folder):
    """{lane: bytes a second} over the large copies of the traced run, or {}."""
    trace = read_json(folder / "copies.trace.json")
    moved, seconds = {}, {}
    processes = {e["pid"]: e["args"]["name"] for e in (trace or {}).get("traceEvents", []) if e.get("name") == "process_name"}
    for event in (trace or {}).get("traceEvents", []):
        size = event.get("args", {}).get("bytes", 0) if event.get("ph") == "X" else 0
        if size < 8 << 20 or "measured" not in processes.get(event["pid"], ""):
            continue
        lane = event.get("cat", "")
        moved[lane] = moved.get(lane, 0) + size
        seconds[lane] = seconds.get(lane, 0.0) + event["dur"] * 1e-6
    return {lane: moved[lane] / seconds[lane] for lane in moved if seconds[lane] > 0}


def conformance_goals(folder):
    """A goal per family of cases, each of which ran in a process of its own."""
    for path in sorted((folder / "conformance").glob("*.log")):
        status = status_of(folder / "conformance", path.stem)
        text = path.read_text(errors="replace")
        found = re.search(r"(\d+) cases passed on ", text)
        ok = None if status is None or "SKIPPED" in text else status == 0 and found is not None
        yield f"conformance on the device: {path.stem}", found and int(found.group(1)), "all", ok


def fixture_goals(folder):
    """A goal per training graph of TensorFlow's."""
    for path in sorted((folder / "fixtures").glob("*.status")):
        status = status_of(folder / "fixtures", path.stem)
        yield f"TensorFlow's results, planned at 60 %: {path.stem}", status, "agrees", None if status is None else status == 0


def goals(folder):
    """Yields (goal, measured or None, limit, met or None)."""
    seconds = folder / "build.seconds"
    yield "build from source, seconds", int(seconds.read_text()) if seconds.exists() else None, "< 300", \
        int(seconds.read_text()) < 300 and status_of(folder, "build") == 0 if seconds.exists() else None
    families = list(conformance_goals(folder))
    yield from families or [("conformance cases on the device", None, "all", None)]
    yield from list(fixture_goals(folder)) or [("TensorFlow's results on the device", None, "agrees", None)]
    status = status_of(folder, "stream_test")
    yield "stream engine, emulated", status, "0 failures", None if status is None else status == 0
    for tool in ("memcheck", "racecheck", "synccheck"):
        status, log = status_of(folder, tool), folder / f"{tool}.log"
        # Some machines lend a device that the tool cannot watch: it ends before it has seen a kernel.
        refused = log.exists() and "Device not supported" in log.read_text(errors="replace")
        yield f"compute-sanitizer {tool}", status, "clean", None if status is None or refused else status == 0
    peers = {(row["model"], row.get("variant")): row for row in read_json(folder / "peers.json") or []}
    for model in MODELS:
        base = step_of(folder, f"{model}.baseline.auto.0")
        yield f"{model}: seconds of a baseline step", base, "stated", None if base is None else True
        peer = peers.get((model, "eager"), {}).get("step_seconds")
        measured = step_of(folder, f"{model}.measured.auto.0")
        best = min((s for s in (base, measured) if s), default=None)
        ratio = best / peer if best and peer else None
        yield f"{model}: baseline step over PyTorch eager's", ratio, "<= 1.0", None if ratio is None else ratio <= 1.0
        ratio = measured / base if base and measured else None
        yield f"{model}: step with measured convolutions over without", ratio, "stated", None if ratio is None else True
    base = step_of(folder, "resnet50.baseline.auto.0")
    last = step_of(folder, "resnet50.last.auto.0")
    ratio = base / last if base and last else None
    yield "resnet50: step with channels first over channels last", ratio, "stated", None if ratio is None else True
    for budget, limit in (("80", 1.01), ("60", 1.03), ("45", 1.10)):
        step = step_of(folder, f"resnet50.planned.auto.{budget}")
        ratio = step / base if step and base else None
        yield f"resnet50: step at {budget} % over baseline's", ratio, f"<= {limit}", None if ratio is None else ratio <= limit
    for model in MODELS:
        step = step_of(folder, f"{model}.planned.auto.60")
        bound = field_of(folder, f"{model}.planned.auto.60", "lower_bound_seconds")
        ratio = step / float(bound) if step and bound else None
        yield f"{model}: step at 60 % over its lower bound", ratio, "<= 1.10", None if ratio is None else ratio <= 1.10
        digests = [digest_of(folder, f"{model}.{run}")
                   for run in ("baseline.auto.0", "baseline.off.0", "planned.auto.80", "planned.auto.60", "planned.auto.45")]
        known = [d for d in digests if d]
        yield f"{model}: same bits as graph, as streams, at 80, 60 and 45 %", len(set(known)) or None, "1 digest", \
            None if len(known) < 2 else len(set(known)) == 1
        graph, streams = step_of(folder, f"{model}.baseline.auto.0"), step_of(folder, f"{model}.baseline.off.0")
        yield f"{model}: step as graph over step as streams", graph / streams if graph and streams else None, "stated", \
            None if not (graph and streams) else True
        log = folder / f"{model}.baseline.auto.0.log"
        left = len(re.findall(r"runs on the host", log.read_text(errors="replace"))) if log.exists() else None
        yield f"{model}: nodes that are left to the host", left, "0", None if left is None else left == 0
    plain, rates = peers.get(("copy", "pinned"), {}), copy_rates(folder)
    for lane, name in (("to-host", "to_host"), ("to-device", "to_device")):
        rate, best = rates.get(lane), plain.get(f"{name}_bytes_per_second")
        ratio = rate / best if rate and best else None
        yield f"copies {lane} beside compute over a plain pinned copy", ratio, ">= 0.9", None if ratio is None else ratio >= 0.9
    for (model, variant), row in sorted(peers.items(), key=str):
        ours, theirs = row.get("millrace_seconds"), row.get("step_seconds")
        if variant in ("compile", "offload", "checkpoint"):
            yield f"{model}: step over PyTorch {variant}'s, in its peak memory", ours / theirs if ours and theirs else None, \
                "stated", True if ours and theirs else None
    for name, budget in SIZES.items():
        report = read_json(folder / f"{name}.json")
        run = report["runs"][0] if report and report.get("runs") else None
        fits = run is not None and run.get("status") in ("OK", None)
        step = min((float(s) for s in run.get("step_seconds", [])), default=None) if fits else None
        yield f"{name} trains in {budget} GB: seconds of a step", step, "trains", fits if run is not None else None


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = list(goals(folder))
    if "--no-device" in sys.argv or "--build-failed" in sys.argv:
        rows = [(goal, None, limit, None) for goal, _, limit, _ in rows]
    log = folder / "peers.log"
    no_torch = log.exists() and "PyTorch is not installed" in log.read_text(errors="replace")
    missing = "no device" if "--no-device" in sys.argv else "not built" if "--build-failed" in sys.argv else "not run"
    words = {None: missing, True: "met", False: "MISSED"}
    if "--dry-run" in sys.argv:
        words = {None: missing, True: "tried", False: "tried"}
    table = [{"goal": g, "measured": m, "limit": l,
              "verdict": "no PyTorch" if ok is None and no_torch and "PyTorch" in g else words[ok]} for g, m, l, ok in rows]
    (folder / "results.json").write_text(json.dumps(table, indent=1) + "\n")
    lines = ["| goal | measured | limit | verdict |", "|---|---|---|---|"]
    for row in table:
        value = row["measured"]
        text = "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
        lines.append(f"| {row['goal']} | {text} | {row['limit']} | {row['verdict']} |")
        print(f"{row['verdict']:10} {row['goal']} {text}")
    (folder / "summary.md").write_text("\n".join(lines) + "\n")
    sys.exit(1 if any(row["verdict"] == "MISSED" for row in table) or "--build-failed" in sys.argv else 0)


if __name__ == "__main__":
    main()
