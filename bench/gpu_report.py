"""Verdicts of bench/gpu_check.sh: results.json and summary.md from the reports and logs in a folder.

Usage: gpu_report.py FOLDER [--no-device | --build-failed | --dry-run]. Exit status 1 when a goal was missed or is suspect.

A goal is `met`; `MISSED`, also where the program that should give the figure failed; `suspect` where a figure cannot be right;
`cut short` where a time limit ended that program or some of its like; or `not run`. Each but the first says why. After a dry
run what could be judged is 'tried': small models on an emulated device meet or miss nothing.
"""
import json
import math
import pathlib
import re
import sys
from typing import NamedTuple

MODELS = ["resnet50", "lstm", "unet3d", "moe_transformer"]
SIZES = {"resnet_504_b16": 12, "resnet_1001_b16": 12, "resnet_1001_b32": 12, "resnet_1916_b16": 12, "moe_12": 12, "moe_48": 12,
         "deepspeech_400": 12, "deepspeech_800": 12, "googlenet_2240_b11": 12, "googlenet_2240_b15": 16,
         "resnet50_7500": 16, "deeplab_2048": 16, "unet3d_192": 16}  # budgets in GB
LOWEST = {"unet3d": 50}  # budget in %, 45 of the others: below 46 % a single node of it has no room
STEPS = 40            # of a run of a model
NETS = {"Recurrent": "random_nets_test", "Images": "random_nets_test", "Sequences": "random_nets_test",
        "FailingSteps": "failing_steps_test"}  # tests/random: the program of each kind
SESSIONS = range(8)  # shares of tests/session
CHAIN_NODES = 2000    # of bench/chain_graph.py
LARGE_COPY = 8 << 20  # bytes: smaller copies say more of latency than of the link
PRINTED_LOGS = 3000   # characters of the ends of failing logs
TIME_LIMIT = 124      # exit status of what a time limit ended
ABOUT = ["device", "driver", "CUDA", "cuDNN", "commit", "machine", "date"]


class Goal(NamedTuple):
    name: str
    measured: object
    limit: str
    verdict: str
    why: str = ""


class Outcome(NamedTuple):
    """How a program ended: 'met' (as it should), 'MISSED' (it failed), 'cut short' or 'not run', and why."""
    verdict: str
    why: str = ""
    run: dict = {}  # of its report

    def step(self):
        """Median seconds of the last five steps."""
        return sorted(self.last_steps())[len(self.last_steps()) // 2]

    def last_steps(self):
        return [float(s) for s in self.run["step_seconds"][-5:]]


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def read_text(path):
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def last_lines(path, count=3):
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    return " / ".join(lines[-count:])[-400:] or "its log is empty"


def ended(folder, name):
    """The outcome by NAME.status (exit status, what is to be said of it) and NAME.log."""
    fields = read_text(folder / f"{name}.status").split(maxsplit=1)
    if not fields or not fields[0].isdigit():
        return Outcome("not run", f"{name} was not reached")
    if int(fields[0]) == TIME_LIMIT:
        return Outcome("cut short", f"{name}: {fields[1].strip() if len(fields) > 1 else 'ended by its time limit'}")
    if int(fields[0]) != 0:
        return Outcome("MISSED", f"{name}: exit status {fields[0]}: {last_lines(folder / (name + '.log'))}")
    return Outcome("met")


def ended_after(folder, name, *before):
    """The outcome of NAME; where it was not reached, the worst of what is done before it."""
    outcome = ended(folder, name)
    return first_that_failed(folder, before) or outcome if outcome.verdict == "not run" else outcome


def first_that_failed(folder, names):
    """Of programs that were begun, the worst that did not end as it should, or None."""
    return first_that_is_not_met([outcome for outcome in (ended(folder, name) for name in names) if outcome.verdict != "not run"])


def run_of(folder, label):
    """The outcome of `millrace run` with its report."""
    outcome = ended(folder, label)
    report = read_json(folder / f"{label}.json")
    run = report["runs"][0] if report and report.get("runs") else None
    # A run that is told to end ends its step and writes its report.
    if outcome.verdict == "cut short":
        return outcome
    if run and run.get("status", "OK") != "OK":
        return Outcome("MISSED", f"{label}: {run['status']}: {run.get('error', '')}"[:400])
    if outcome.verdict == "not run" and not run:
        model = ended(folder, f"{label.split('.')[0]}.model")
        return model if model.verdict not in ("met", "not run") else outcome
    if outcome.verdict == "MISSED":
        return outcome
    if not run or not run.get("step_seconds"):
        return Outcome("MISSED", f"{label}: no step in its report")
    budget, peak = int(run.get("device_memory_budget_bytes", 0)), int(run.get("peak_device_bytes", 0))
    if 0 < budget < peak:
        return Outcome("MISSED", f"{label}: peak of {peak} bytes in a budget of {budget}")
    if not all(math.isfinite(float(loss)) for loss in run.get("losses", [])):
        return Outcome("MISSED", f"{label}: a loss is not finite")
    return Outcome("met", run=run)


def first_that_is_not_met(outcomes):
    """What keeps a figure of several programs from being there: the worst, or None."""
    for verdict in ("MISSED", "cut short", "not run"):
        for outcome in outcomes:
            if outcome.verdict == verdict:
                return outcome
    return None


def figure(name, limit, outcomes, measure, is_met=lambda value: True):
    """A goal that takes a figure, `measure()`, of programs that ended so."""
    blocked = first_that_is_not_met(outcomes)
    if blocked:
        return Goal(name, None, limit, blocked.verdict, blocked.why)
    value = measure()
    return Goal(name, value, limit, "met" if is_met(value) else "MISSED")


class Peers:
    """Rows of bench/peers_gpu.py."""

    def __init__(self, folder, name):
        self.rows = {(row["model"], row.get("variant")): row for row in read_json(folder / f"{name}.json") or []}
        self.no_torch = any("PyTorch is not installed" in read_text(path) for path in folder.glob(f"{name}*.log"))

    def outcome(self, model, variant):
        """A peer that cannot run is no miss of ours."""
        row = self.rows.get((model, variant), {})
        if "step_seconds" in row or "to_host_bytes_per_second" in row:
            return Outcome("met", run={"step_seconds": [row.get("step_seconds", 0)]})
        if self.no_torch and model != "copy":
            return Outcome("not run", "no PyTorch")
        return Outcome("not run", f"{model} by the peer, {variant}: {row.get('error', 'not reached')}")

    def beside(self, model, variant):
        """Millrace in the memory that a variant took."""
        row = self.rows.get((model, variant), {})
        error = row.get("millrace_error")
        if error:
            return Outcome("cut short" if error.startswith("took longer") else "MISSED", error)
        if "millrace_seconds" in row:
            return Outcome("met", run={"step_seconds": [row["millrace_seconds"]]})
        return Outcome("not run", f"{model} beside {variant} was not reached")


def build_goal(folder):
    seconds = read_text(folder / "build.seconds").strip()
    if not seconds:
        return Goal("build from source, seconds", None, "< 300", "not run")
    built = ended(folder, "build")
    verdict = "MISSED" if int(seconds) >= 300 else built.verdict
    return Goal("build from source, seconds", int(seconds), "< 300", verdict, built.why)


def device_goals(folder):
    """That the device opens, and that it is refused in the right words."""
    opens = ended(folder, "opens")
    yield Goal("the device opens", read_json(folder / "about.json") and read_json(folder / "about.json").get("device"), "it does",
               opens.verdict, opens.why)
    cases = (("a budget above the device's memory is refused", "too_large", ("cannot allocate", "lower --device_memory")),
             ("no visible device is refused", "hidden", ("no CUDA device",)))
    for name, label, words in cases:
        outcome, log = ended(folder, label), read_text(folder / f"{label}.log")
        status = read_text(folder / f"{label}.status").split()[:1]
        if outcome.verdict in ("met", "MISSED"):
            right = status[0] in ("1", "3") and all(word in log for word in words)
            outcome = Outcome("met") if right else Outcome(
                "MISSED", f"exit status {status[0]}, wanted 1 or 3 and '{' ... '.join(words)}': {last_lines(folder / (label + '.log'))}")
        yield Goal(name, int(status[0]) if status else None, "exit status 1 or 3, and why", outcome.verdict, outcome.why)


def conformance_outcome(folder, name):
    """(outcome, cases that passed on the device) of a process of cuda_test, which skips, and ends with 0, where none opens."""
    outcome, text = ended(folder, name), read_text(folder / f"{name}.log")
    found = re.search(r"(\d+) cases passed on ", text)
    if outcome.verdict != "met" or found:
        return outcome, int(found.group(1)) if found else 0
    skipped = re.search(r": Skipped\s*\n(.*)", text)
    return Outcome("MISSED", f"{name}: skipped: {skipped.group(1)}" if skipped else
                   f"{name}: no case passed: {last_lines(folder / (name + '.log'))}"), 0


def conformance_goals(folder):
    """A goal per family of cases, each of which ran in a process of its own."""
    names = {path.stem for path in (folder / "conformance").glob("*.status")}
    names |= {line.split("/")[-1] for line in read_text(folder / "conformance/tests.txt").split()}
    for name in sorted(names):
        outcome, cases = conformance_outcome(folder / "conformance", name)
        yield Goal(f"conformance on the device: {name}", cases or None, "all", outcome.verdict, outcome.why)
    failed = first_that_failed(folder, ("cuda_test.build", "cuda_test.list"))
    if failed or not names:
        outcome = failed or Outcome("not run")
        yield Goal("conformance cases on the device", None, "all", outcome.verdict, outcome.why)


def names_in(folder):
    """(names of what ran, names of all that should: those that the part wrote down before it began)."""
    ran = {path.stem for path in folder.glob("*.status")}
    return ran, sorted({name for name in ran if "." not in name} | set(read_text(folder / "names").split()))


def fixture_goals(folder):
    """Training graphs of TensorFlow's: its results, and the same bits under strategies and partition sizes."""
    ran, names = names_in(folder / "fixtures")
    for name in names:
        outcome, others = ended(folder / "fixtures", name), []
        if outcome.verdict == "MISSED":
            for label, how in (("baseline", "without a budget"), ("plain", "nor rewrites")):
                if f"{name}.{label}" in ran:
                    other = ended(folder / "fixtures", f"{name}.{label}")
                    others.append(f"{how}: {'agrees' if other.verdict == 'met' else other.verdict}")
        yield Goal(f"TensorFlow's results, planned at 60 %: {name}", None, "agrees", outcome.verdict,
                   "; ".join([*others, outcome.why]))
    if not names:
        yield Goal("TensorFlow's results on the device", None, "agrees", "not run")
    _, names = names_in(folder / "bits")
    for name in names:
        outcome = ended(folder / "bits", name)
        yield Goal(f"same bits on the device under partition sizes and strategies: {name}", None, "baseline's", outcome.verdict,
                   outcome.why)
    if not names:
        yield Goal("same bits on the device under partition sizes and strategies", None, "baseline's", "not run")


def sanitizer_goal(folder, tool):
    """Met when every family of cases has passed under the tool; the families that have are named."""
    folder, name = folder / "sanitizer", f"compute-sanitizer {tool}"
    absent = read_text(folder / "absent").strip()
    if absent:
        return Goal(name, None, "clean", "not run", absent)
    families = read_text(folder / "families").split()
    outcomes = {family: conformance_outcome(folder, f"{tool}.{family}") for family in families}
    for family, (outcome, cases) in outcomes.items():
        found = re.search(r"^.* SUMMARY: [1-9].*$", read_text(folder / f"{tool}.{family}.log"), re.MULTILINE)
        if outcome.verdict == "met" and (cases == 0 or found):
            why = found.group(0) if found else "no case passed on the device"
            outcomes[family] = Outcome("MISSED", f"{tool}.{family}: {why}"), 0
    # Some machines lend a device that the tool cannot watch: it ends before it has seen a kernel.
    if any("Device not supported" in read_text(folder / f"{tool}.{family}.log") for family in families):
        return Goal(name, None, "clean", "not run", "Device not supported")
    finished = [f"{family} ({cases})" for family, (outcome, cases) in outcomes.items() if outcome.verdict == "met"]
    worst = first_that_is_not_met([outcome for outcome, _ in outcomes.values()]) if families else Outcome("not run")
    verdict = "met" if not worst else "cut short" if worst.verdict == "not run" and finished else worst.verdict
    return Goal(name, f"cases of {', '.join(finished)}" if finished else None, f"clean, {len(families)} families", verdict,
                worst.why if worst else "")


def digest_goal(folder, name, labels):
    """Variables after all steps of several runs: one digest."""
    outcomes = [run_of(folder, label) for label in labels]
    short = [label for label, o in zip(labels, outcomes) if o.verdict == "met" and len(o.run["step_seconds"]) != STEPS]
    digests = [o.run.get("variables_digest") for label, o in zip(labels, outcomes) if o.verdict == "met" and label not in short]
    measured = f"{len(set(digests))} in {len(digests)} of {len(labels)} runs" if digests else None
    blocked = first_that_is_not_met(outcomes)
    if len(set(digests)) > 1 or None in digests:
        return Goal(name, measured, "1 digest", "MISSED", ", ".join(f"{label} {o.run.get('variables_digest')}" for label, o in
                                                                   zip(labels, outcomes) if o.verdict == "met"))
    if blocked:
        verdict = "cut short" if blocked.verdict == "not run" and digests else blocked.verdict
        return Goal(name, measured, "1 digest", verdict, blocked.why)
    if short:
        return Goal(name, measured, "1 digest", "MISSED", f"{short[0]} has fewer than {STEPS} steps")
    return Goal(name, measured, "1 digest", "met")


def compared(model):
    """Runs of equal bits."""
    return ["baseline.auto.0", "baseline.off.0", *(f"planned.auto.{budget}" for budget in (80, 60, LOWEST.get(model, 45)))]


def model_goals(folder, peers):
    """Steps of the models without a budget, against PyTorch's; bits; what is left to the host."""
    for model in MODELS:
        base, measured = run_of(folder, f"{model}.baseline.auto.0"), run_of(folder, f"{model}.measured.auto.0")
        eager = peers.outcome(model, "eager")
        yield figure(f"{model}: seconds of a baseline step", "stated", [base], base.step)
        best = [o for o in (base, measured) if o.verdict == "met"]
        ours = base if base.verdict == "MISSED" or not best else best[0]
        yield figure(f"{model}: baseline step over PyTorch eager's", "<= 1.0", [ours, eager],
                     lambda: min(o.step() for o in best) / eager.step(), lambda ratio: ratio <= 1.0)
        yield figure(f"{model}: step with measured convolutions over without", "stated", [base, measured],
                     lambda: measured.step() / base.step())
        unfused = run_of(folder, f"{model}.unfused.auto.0")
        yield figure(f"{model}: step with --fuse=off over with groups", "stated", [base, unfused], lambda: unfused.step() / base.step())
        for label, at in (("baseline.auto.0", "without a budget"), ("planned.auto.60", "at 60 %")):
            planned = run_of(folder, f"{model}.{label}")
            if "plan_seconds" in planned.run:
                yield figure(f"{model}: seconds of planning {at}, kernels compiled beside it", "stated", [planned],
                             lambda planned=planned: float(planned.run["plan_seconds"]))
        streams = run_of(folder, f"{model}.baseline.off.0")
        yield figure(f"{model}: step as graph over step as streams", "stated", [base, streams], lambda: base.step() / streams.step())
        yield digest_goal(folder, f"{model}: same bits as graph, as streams, at 80, 60 and {LOWEST.get(model, 45)} %",
                          [f"{model}.{run}" for run in compared(model)])
        log = read_text(folder / f"{model}.baseline.auto.0.log")
        yield figure(f"{model}: nodes that are left to the host", "0", [base], lambda: len(re.findall(r"runs on the host", log)),
                     lambda left: left == 0)
        yield bound_goal(folder, model)
    yield digest_goal(folder, "lstm with dropout: same bits as graph and as streams",
                      [f"lstm_dropout.{run}" for run in ("baseline.auto.0", "baseline.off.0")])


def bound_goal(folder, model):
    """The step at 60 % over the bound of its order.

    The report's bound is the sum of the nodes' times and what copies add to it. These times are taken with events around every
    node, on streams, where nodes take longer than in the graph that a step is. Baseline's step is a graph of the same nodes
    without swapping: its fastest is the most that they need. So where the sum is above that step, that step takes its place;
    what copies add stays. Nodes that are computed again are in the sum and not in the bound: it is baseline's step at least.
    """
    name, limit, label = f"{model}: step at 60 % over its lower bound", "<= 1.10", f"{model}.planned.auto.60"
    base, planned = run_of(folder, f"{model}.baseline.auto.0"), run_of(folder, label)
    blocked = first_that_is_not_met([base, planned])
    if blocked:
        return Goal(name, None, limit, blocked.verdict, blocked.why)
    nodes = re.search(r"^seconds .*\bcompute (\S+)", read_text(folder / f"{label}.plan.txt"), re.MULTILINE)
    if not planned.run.get("measured_times") or not nodes:
        return Goal(name, None, limit, "not run", "the bound rests on cost rules, not on measured times" if nodes else "no plan")
    reported, fastest = float(planned.run["lower_bound_seconds"]), min(base.last_steps())
    bound = max(reported - max(0.0, float(nodes.group(1)) - fastest), min(reported, fastest))
    ratio = planned.step() / bound
    why = f"bound of {bound:.6f} s, reported {reported:.6f} s by nodes on streams"
    if ratio < 1:
        return Goal(name, ratio, limit, "suspect", "bound above the step: " + why)
    return Goal(name, ratio, limit, "met" if ratio <= 1.10 else "MISSED", why)


def resnet_goals(folder):
    base, last = run_of(folder, "resnet50.baseline.auto.0"), run_of(folder, "resnet50.last.auto.0")
    yield figure("resnet50: step with channels first over channels last", "stated", [base, last], lambda: base.step() / last.step())
    planned, queues = run_of(folder, "resnet50.planned.auto.60"), run_of(folder, "resnet50.queues.auto.60")
    yield figure("resnet50: step at 60 % with 32 of the device's queues over 8", "stated", [planned, queues],
                 lambda: queues.step() / planned.step())
    for budget, most in (("80", 1.01), ("60", 1.03), ("45", 1.10)):
        planned = run_of(folder, f"resnet50.planned.auto.{budget}")
        yield figure(f"resnet50: step at {budget} % over baseline's", f"<= {most}", [base, planned],
                     lambda: planned.step() / base.step(), lambda ratio: ratio <= most)
    tf32, eager = run_of(folder, "resnet50.tf32.auto.0"), Peers(folder, "peers_tf32").outcome("resnet50", "eager")
    yield figure("resnet50 with TF32: baseline step over PyTorch eager's", "<= 1.0", [tf32, eager], lambda: tf32.step() / eager.step(),
                 lambda ratio: ratio <= 1.0)


def launch_goals(folder):
    """What a node costs: a chain of tiny ones, as streams and as a graph."""
    for graph, name in (("off", "streams"), ("on", "graph")):
        outcome = run_of(folder, f"chain.baseline.{graph}.0")
        nodes = sum(int(device.get("nodes", 0)) for device in outcome.run.get("devices", []))
        if outcome.verdict == "met" and nodes < CHAIN_NODES:
            outcome = Outcome("MISSED", f"{nodes} nodes ran, the chain has {CHAIN_NODES}")
        yield figure(f"launch overhead as {name}: microseconds a node", "stated", [outcome],
                     lambda: outcome.step() / nodes * 1e6)


def covered(start, end, spans):
    """Seconds of [start, end) in which one of `spans`, sorted and apart, runs."""
    return sum(max(0.0, min(end, last) - max(start, first)) for first, last in spans)


def copies_beside_compute(trace):
    """{lane: (large copies, those that ran beside compute for half of their time or more, their bytes, their seconds)}."""
    events = [e for e in (trace or {}).get("traceEvents", []) if isinstance(e, dict)]
    measured = {e["pid"] for e in events if e.get("name") == "process_name" and "measured" in e["args"]["name"]}
    spans = [e for e in events if e.get("ph") == "X" and e["pid"] in measured]
    compute = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e.get("cat") == "compute")
    lanes = {}
    for event in spans:
        size, lane = event.get("args", {}).get("bytes", 0), event.get("cat", "")
        if size < LARGE_COPY or lane not in ("to-host", "to-device"):
            continue
        large, beside, moved, micros = lanes.get(lane, (0, 0, 0, 0.0))
        if event["dur"] > 0 and covered(event["ts"], event["ts"] + event["dur"], compute) >= event["dur"] / 2:
            beside, moved, micros = beside + 1, moved + size, micros + event["dur"]
        lanes[lane] = (large + 1, beside, moved, micros)
    return {lane: (large, beside, moved, micros * 1e-6) for lane, (large, beside, moved, micros) in lanes.items()}


def copy_goals(folder, peers):
    """Rate of the copies that ran while kernels did; a feed's copy before the first kernel is none of them."""
    traced, plain = ended(folder, "copies"), peers.outcome("copy", "pinned")
    trace = read_json(folder / "copies.trace.json")
    if traced.verdict == "not run" and trace:
        traced = Outcome("met")
    lanes = copies_beside_compute(trace)
    for lane, field in (("to-host", "to_host"), ("to-device", "to_device")):
        name, limit = f"copies {lane} beside compute over a plain pinned copy", ">= 0.9"
        large, beside, moved, seconds = lanes.get(lane, (0, 0, 0, 0.0))
        blocked = first_that_is_not_met([traced, plain])
        count = f"{beside} of {large} copies of 8 MiB or more ran beside compute"
        if blocked:
            yield Goal(name, None, limit, blocked.verdict, blocked.why)
        elif beside == 0:
            yield Goal(name, None, limit, "MISSED" if large else "not run", count)
        else:
            ratio = moved / seconds / peers.rows[("copy", "pinned")][f"{field}_bytes_per_second"]
            yield Goal(name, ratio, limit, "met" if ratio >= 0.9 else "MISSED", count)


def beside_goals(peers):
    for model, variant in sorted(key for key in peers.rows if key[0] in MODELS):
        ours, theirs = peers.beside(model, variant), peers.outcome(model, variant)
        yield figure(f"{model}: step over PyTorch {variant}'s, in its peak memory", "stated",
                     [theirs] if theirs.verdict != "met" else [ours], lambda: ours.step() / theirs.step())


def size_goals(folder):
    for name, budget in SIZES.items():
        outcome = run_of(folder, name)
        yield figure(f"{name} trains in {budget} GB: seconds of a step", "trains", [outcome], lambda: min(outcome.last_steps()))


def goals(folder):
    """Yields every goal."""
    peers = Peers(folder, "peers")
    yield build_goal(folder)
    yield from device_goals(folder)
    yield from conformance_goals(folder)
    yield from fixture_goals(folder)
    stream = ended_after(folder, "stream_test", "stream_test.build")
    yield Goal("stream engine, emulated", None, "0 failures", stream.verdict, stream.why)
    for kind, program in NETS.items():
        nets = ended_after(folder, f"nets/{kind}", f"{program}.build")
        yield Goal(f"random networks on the device: {kind}", None, "0 failures", nets.verdict, nets.why)
    for share in SESSIONS:
        sessions = ended_after(folder, f"sessions/{share}", "session_test.build")
        yield Goal(f"what sessions promise, on the device: share {share}", None, "0 failures", sessions.verdict, sessions.why)
    for tool in ("memcheck", "racecheck", "synccheck"):
        yield sanitizer_goal(folder, tool)
    yield from model_goals(folder, peers)
    yield from resnet_goals(folder)
    yield from launch_goals(folder)
    yield from copy_goals(folder, peers)
    yield from beside_goals(peers)
    yield from size_goals(folder)


def spoken(goal, options):
    """The verdict as it is written."""
    for option, verdict in (("--no-device", "no device"), ("--build-failed", "not built")):
        if option in options:
            return goal._replace(measured=None, verdict=verdict, why="")
    if "--dry-run" in options and goal.verdict in ("met", "MISSED", "suspect"):
        return goal._replace(verdict="tried")
    return goal._replace(verdict="no PyTorch", why="") if goal.why == "no PyTorch" else goal


def failing_logs(folder):
    """Lines that say of each program that failed how it ended, the first ones first. Two are expected to fail."""
    said = set()
    paths = [path for path in folder.rglob("*.status") if path.stem not in ("too_large", "hidden")]
    for path in sorted(paths, key=lambda path: (path.stat().st_mtime, path)):
        status = read_text(path).split()[:1]
        if status in ([], ["0"], [str(TIME_LIMIT)]):
            continue
        base = path.with_suffix("")
        lines = [line for name in ("log", "cuda.txt", "cublaslt.txt", "cudnn.txt")
                 for line in [text.strip()[:200] for text in read_text(pathlib.Path(f"{base}.{name}")).splitlines() if text.strip()][-3:]]
        new = [line for line in lines if line not in said]
        said.update(lines)
        yield f"failed: {base.relative_to(folder)}, exit status {status[0]}", new


def print_table(table, folder):
    """What matters most comes last and is short: who runs this may see only the end of what it prints."""
    order = ["tried", "no device", "not built", "met", "no PyTorch", "not run", "cut short", "suspect", "MISSED"]
    for goal in sorted(table, key=lambda goal: order.index(goal.verdict)):
        print(f"{goal.verdict:10} {goal.name} {as_cell(goal.measured)}{'; ' + goal.why[:100] if goal.why else ''}")
    printed, more = 0, 0
    for name, lines in failing_logs(folder):
        text = "\n  ".join([name, *lines])
        printed += len(text)
        if printed <= PRINTED_LOGS:
            print(text)
        else:
            more += 1
    if more:
        print(f"and {more} more that failed")


def as_cell(value):
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "/").replace("\n", " ")


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.strip())
        sys.exit(0)
    folder, options = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if len(sys.argv) < 2 or not folder.is_dir() or not set(options) <= {"--no-device", "--build-failed", "--dry-run"}:
        print("usage: gpu_report.py FOLDER [--no-device | --build-failed | --dry-run]", file=sys.stderr)
        sys.exit(2)
    table = [spoken(goal, options) for goal in goals(folder)]
    known = read_json(folder / "about.json") or {}
    about = {key: known.get(key) or "not known" for key in ABOUT}
    rows = [{"goal": g.name, "measured": g.measured, "limit": g.limit, "verdict": g.verdict, "why": g.why} for g in table]
    (folder / "results.json").write_text(json.dumps({"about": about, "goals": rows}, indent=1) + "\n")
    lines = [f"- {key}: {value}" for key, value in about.items()]
    lines += ["", "| goal | measured | limit | verdict | why |", "|---|---|---|---|---|"]
    for goal in table:
        lines.append(f"| {goal.name} | {as_cell(goal.measured)} | {goal.limit} | {goal.verdict} | {as_cell(goal.why)} |")
    print_table(table, folder)
    (folder / "summary.md").write_text("\n".join(lines) + "\n")
    sys.exit(1 if any(goal.verdict in ("MISSED", "suspect") for goal in table) or "--build-failed" in options else 0)


if __name__ == "__main__":
    main()
