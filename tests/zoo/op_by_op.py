#!/usr/bin/env python3
"""Every op of a training step alone: the program's results against TensorFlow's on the same inputs.

  op_by_op.py BINARY GRAPH.pb FEEDS.npz [--targets=loss,train] [--init=init_all] [--worst=20]

Whole steps of ill-conditioned nets drift apart from one rounding on. Here the program runs one step and shows every floating
tensor of it; then TensorFlow runs each node by itself, fed with what the program had before that node. What differs by more
than rounding is an op that is wrong, however badly the net is conditioned. Exit status 1 when one does by more than --limit.
Nodes that draw random numbers, those whose inputs are resources, and outputs of batch normalisation that mean nothing on a
CPU, are left out. Needs TensorFlow 2.21.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1

SHOWN = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64, tf.bool)
RESERVES = (("FusedBatchNormV3", 5), ("FusedBatchNormGradV3", 3), ("FusedBatchNormGradV3", 4))
CHUNK = 400  # tensors that one run shows


def ancestors(graph, targets):
    found, open_ = set(), [graph.get_operation_by_name(name) for name in targets]
    while open_:
        op = open_.pop()
        if op in found:
            continue
        found.add(op)
        open_.extend(tensor.op for tensor in op.inputs)
        open_.extend(op.control_inputs)
    return [op for op in graph.get_operations() if op in found]


def show(arguments, names, folder):
    """Values of the tensors after one step of the program."""
    values = {}
    for start in range(0, len(names), CHUNK):
        flags = folder / "flags"
        flags.write_text("--fetches=loss:0," + ",".join(names[start:start + CHUNK]) + "\n")
        out = folder / "fetches.npz"
        command = [arguments.binary, "run", f"--flagfile={flags}", f"--graph={arguments.graph}", f"--feeds={arguments.feeds}",
                   "--steps=1", "--targets=train", f"--init_targets={arguments.init}", "--strategy=baseline",
                   "--noaccumulate_products", f"--fetches_out={out}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"exit status {done.returncode}: {done.stderr[-800:]}")
        with np.load(out) as arrays:
            values.update({name: arrays[name] for name in arrays.files})
        print(f"shown {min(start + CHUNK, len(names))} of {len(names)} tensors", file=sys.stderr, flush=True)
    return values


def distance(got, want):
    """Largest difference over the largest magnitude; infinite where only one of the two is finite."""
    got, want = (np.asarray(v).astype(np.float64) for v in (got, want))
    if got.shape != want.shape:
        return np.inf
    if got.size == 0:
        return 0.0
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return np.inf
    both = np.isfinite(want)
    scale = np.max(np.abs(want[both]), initial=0.0)
    off = np.max(np.abs(got[both] - want[both]), initial=0.0)
    return 0.0 if off == 0 else off / max(scale, 1e-30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("graph")
    parser.add_argument("feeds")
    parser.add_argument("--targets", default="loss,train")
    parser.add_argument("--init", default="init_all")
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1e-4)
    arguments = parser.parse_args()
    definition = tf1.GraphDef.FromString(pathlib.Path(arguments.graph).read_bytes())
    graph = tf.Graph()
    with graph.as_default():
        tf1.import_graph_def(definition, name="")
    names = [op.name for op in ancestors(graph, arguments.targets.split(",")) if op.type != "Placeholder"]
    for node in definition.node:  # fed with all of its inputs, a node needs to wait for no other
        data = [name for name in node.input if not name.startswith("^")]
        del node.input[:]
        node.input.extend(data)
    graph = tf.Graph()
    with graph.as_default():
        tf1.import_graph_def(definition, name="")
    ops = [graph.get_operation_by_name(name) for name in names]
    shown = [f"{op.name}:{tensor.value_index}" for op in ops for tensor in op.outputs if tensor.dtype in SHOWN]
    with tempfile.TemporaryDirectory() as temporary:
        values = show(arguments, shown, pathlib.Path(temporary))
    with np.load(arguments.feeds) as arrays:
        values.update({f"{name}:0": arrays[name] for name in arrays.files})
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    rows, left_out = [], 0
    with tf1.Session(graph=graph, config=config) as session:
        for op in ops:
            wanted = [tensor for tensor in op.outputs
                      if tensor.name in values and (op.type, tensor.value_index) not in RESERVES]
            if not wanted or not op.inputs:
                continue
            if "Random" in op.type or any(tensor.name not in values for tensor in op.inputs):
                left_out += 1
                continue
            results = session.run(wanted, {tensor: values[tensor.name] for tensor in op.inputs})
            for tensor, result in zip(wanted, results, strict=True):
                rows.append((distance(values[tensor.name], result), op.type, tensor.name, str(tensor.shape)))
    rows.sort(key=lambda row: -row[0])
    print(f"{len(rows)} tensors compared, {left_out} nodes left out")
    for off, op_type, name, shape in rows[:arguments.worst]:
        print(f"{off:9.2e}  {op_type:28} {name}  {shape}")
    return 1 if rows and rows[0][0] > arguments.limit else 0


if __name__ == "__main__":
    sys.exit(main())
