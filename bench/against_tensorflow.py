#!/usr/bin/env python3
"""Step times of TensorFlow and Millrace on the same graph, in one run, as ratios.

  against_tensorflow.py BINARY GRAPH.pb[:FEEDS.npz] ... [--steps=N] [--rounds=N] [--threads=N]
                        [--fetches=loss:0] [--targets=train] [--init_targets=init] [--cpu_time]

Needs tensorflow and numpy. Each round runs TensorFlow, then Millrace (baseline), on the same feeds: FEEDS.npz, or
random values for every placeholder of known shape. Prints a markdown table of median step times over all rounds,
the first step of a round left out. --cpu_time: what the processes used of the cores per step instead, which says
something on a machine that is shared; use it with --threads=1.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import tempfile
import time

import checked

try:
    import numpy as np
    import tensorflow as tf
except ImportError as error:
    checked.end_without(error, __doc__)


def load_graph(path):
    graph_def = tf.compat.v1.GraphDef()
    graph_def.ParseFromString(pathlib.Path(path).read_bytes())
    return graph_def


def make_feeds(graph_def, rng):
    """A random value for every placeholder: integers small, so that they may be labels."""
    feeds = {}
    for node in graph_def.node:
        if node.op != "Placeholder":
            continue
        shape = [d.size for d in node.attr["shape"].shape.dim]
        dtype = tf.as_dtype(node.attr["dtype"].type).as_numpy_dtype
        integral = np.issubdtype(dtype, np.integer)
        feeds[node.name] = (rng.integers(0, 2, shape) if integral else rng.standard_normal(shape)).astype(dtype)
    return feeds


def tensorflow_steps(graph_def, feeds, options):
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=options.threads,
                                      inter_op_parallelism_threads=options.threads)
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(config=config) as session:
            session.run(options.init_targets.split(","))
            feed = {name + ":0": value for name, value in feeds.items()}
            run = session.make_callable(options.fetches.split(",") + options.targets.split(","), list(feed))
            seconds = []
            clock = time.process_time if options.cpu_time else time.perf_counter
            for _ in range(options.steps + 1):
                start = clock()
                run(*feed.values())
                seconds.append(clock() - start)
    return seconds[1:]


def millrace_cpu_steps(binary, graph, feeds_path, options):
    """CPU seconds of a step: the difference between a long and a short run."""
    used = []
    for steps in (2, options.steps + 2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_millrace(binary, graph, feeds_path, options, steps, os.devnull)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return [(used[1] - used[0]) / options.steps]


def run_millrace(binary, graph, feeds_path, options, steps, report):
    # Plans made beside the steps would count as CPU time.
    replan = ["--replan=off"] if options.cpu_time else []
    checked.run([binary, "run", f"--graph={graph}", f"--feeds={feeds_path}", f"--fetches={options.fetches}",
                f"--targets={options.targets}", f"--init_targets={options.init_targets}", "--strategy=baseline",
                f"--steps={steps}", f"--threads={options.threads}", f"--report_out={report}", *replan])


def millrace_steps(binary, graph, feeds_path, options):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        run_millrace(binary, graph, feeds_path, options, options.steps + 1, report)
        return json.loads(pathlib.Path(report).read_text())["runs"][0]["step_seconds"][1:]


def graph_and_feeds(text):
    for path in filter(None, text.split(":", 1)):
        checked.readable(path)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=checked.program)
    parser.add_argument("graphs", nargs="+", type=graph_and_feeds)
    parser.add_argument("--steps", type=checked.number(int, 1), default=5)
    parser.add_argument("--rounds", type=checked.number(int, 1), default=3)
    parser.add_argument("--threads", type=checked.number(int, 0), default=os.cpu_count())
    parser.add_argument("--fetches", default="loss:0")
    parser.add_argument("--targets", default="train")
    parser.add_argument("--init_targets", default="init")
    parser.add_argument("--cpu_time", action="store_true")
    options = parser.parse_args()
    print("| graph | TensorFlow ms | Millrace ms | Millrace / TensorFlow |\n|---|---|---|---|", flush=True)
    for entry in options.graphs:
        graph, _, feeds_path = entry.partition(":")
        graph_def = load_graph(graph)
        with tempfile.TemporaryDirectory() as folder:
            if feeds_path:
                with np.load(feeds_path) as arrays:
                    feeds = dict(arrays)
            else:
                feeds = make_feeds(graph_def, np.random.default_rng(0))
                feeds_path = os.path.join(folder, "feeds.npz")
                np.savez(feeds_path, **feeds)
            theirs, ours = [], []
            for _ in range(options.rounds):
                theirs += tensorflow_steps(graph_def, feeds, options)
                measure = millrace_cpu_steps if options.cpu_time else millrace_steps
                ours += measure(options.binary, graph, feeds_path, options)
        their_ms, our_ms = 1e3 * statistics.median(theirs), 1e3 * statistics.median(ours)
        name = pathlib.Path(graph).parent.name if pathlib.Path(graph).name == "graph.pb" else pathlib.Path(graph).stem
        print(f"| {name} | {their_ms:.1f} | {our_ms:.1f} | {our_ms / their_ms:.2f} |", flush=True)


if __name__ == "__main__":
    main()
