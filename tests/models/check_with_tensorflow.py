"""Runs generated graphs in TensorFlow and in Millrace and compares their losses.

    python tests/models/check_with_tensorflow.py build/bin/millrace [MODEL ...]

Each model is generated small; both programs run its `init`, then `train` for a few steps on the same feeds. TensorFlow
runs three times, with its own kernels, with oneDNN's and with initial variables that differ by one rounding: how far its
results are apart says what rounding does to this training. Beside the losses, every op of the step is compared alone:
all its inputs are the values that Millrace had in the first step, so that nothing accumulates.

Prints a table; the exit status is 1 when a loss is further from TensorFlow's own kernels than TOLERANCE and than
NOISE_FACTOR times TensorFlow's own distance, or an op's results than OP_TOLERANCE times their largest element.
check_with_tensorflow.md holds the table made with TensorFlow 2.21 from PyPI.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 4
TOLERANCE = 1e-5
NOISE_FACTOR = 3
OP_TOLERANCE = 1e-5

MODELS = {
    "mlp": "--batch=16 --hidden=16 --channels=8 --classes=3",
    "resnet": "--depth=50 --batch=4 --image_size=64 --classes=10",
    "resnet_preact": "--depth=29 --batch=4 --image_size=64 --classes=10 --variant=preact",
    "resnet_cifar": "--depth=20 --batch=8 --image_size=32 --classes=10 --variant=cifar",
    "vgg": "--depth=11 --batch=4 --image_size=32 --channels=8 --hidden=32 --classes=10",
    "googlenet": "--batch=4 --image_size=64 --classes=10",
    "densenet": "--depth=21 --batch=4 --image_size=64 --channels=8 --classes=10",
    "deeplab": "--batch=2 --image_size=64 --variant=resnet50 --classes=5",
    "deeplab_xception": "--batch=2 --image_size=64 --variant=xception --classes=5",
    "unet3d": "--batch=1 --image_size=16 --channels=4 --levels=3",
    "unet3d_batch": "--batch=1 --image_size=16 --channels=4 --levels=3 --variant=batch --seed=8",
    "lstm": "--batch=8 --hidden=32 --layers=2 --steps_unrolled=10 --vocab=50",
    "deepspeech": "--batch=2 --hidden=32 --layers=2 --steps_unrolled=24 --channels=4",
    "deepspeech_rnn": "--batch=2 --hidden=32 --layers=2 --steps_unrolled=24 --channels=4 --variant=rnn",
    "bert": "--batch=4 --layers=2 --hidden=32 --heads=4 --steps_unrolled=16 --vocab=100",
    "gpt": "--batch=4 --layers=2 --hidden=32 --heads=4 --steps_unrolled=16 --vocab=100",
    "moe_transformer": "--batch=4 --layers=2 --hidden=32 --heads=4 --steps_unrolled=16 --vocab=100 --experts=4",
}


def feeds_of(graph_def):
    rng = np.random.default_rng(1)
    feeds = {}
    for node in graph_def.node:
        if node.op != "Placeholder":
            continue
        shape = [dim.size for dim in node.attr["shape"].shape.dim]
        if node.attr["dtype"].type == tf.float32.as_datatype_enum:
            feeds[node.name] = rng.uniform(-1, 1, shape).astype(np.float32)
        else:
            feeds[node.name] = rng.integers(0, 2, shape).astype(np.int32)
    return feeds


def session_config():
    # A graph is run as it is: no rewriting, so that random ops keep their streams.
    config = tf.ConfigProto(allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def move_by_one_rounding(session, graph):
    """The next float32 above every element of every variable that is trained."""
    handles = [op.outputs[0] for op in graph.get_operations()
               if op.type == "VarHandleOp" and op.get_attr("dtype") == tf.float32]
    values = session.run([tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in handles])
    session.run([tf.raw_ops.AssignVariableOp(resource=handle, value=np.nextafter(value, np.float32(np.inf)))
                 for handle, value in zip(handles, values, strict=True)])


def run_in_tensorflow(graph_file, feeds_file, moved):
    """The body of the fresh process that tensorflow_losses starts."""
    graph_def = tf.GraphDef.FromString(pathlib.Path(graph_file).read_bytes())
    with np.load(feeds_file) as saved:
        by_tensor = {f"{name}:0": value for name, value in saved.items()}
    with tf.Graph().as_default() as graph, tf.Session(config=session_config()) as session:
        tf.import_graph_def(graph_def, name="")
        session.run("init")
        if moved == "moved":
            move_by_one_rounding(session, graph)
        print(json.dumps([float(session.run(["loss:0", "train"], by_tensor)[0]) for _ in range(STEPS)]))


def tensorflow_losses(graph, feeds, onednn, moved=False):
    command = [sys.executable, __file__, "--tensorflow", str(graph), str(feeds), "moved" if moved else "as_is"]
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": str(int(onednn))}
    process = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(process.stdout.splitlines()[-1])


def computed_ops(graph):
    """The ops that a step runs, without those that hold, read or write state, or are given."""
    ops, waiting = set(), [graph.get_operation_by_name("loss"), graph.get_operation_by_name("train")]
    while waiting:
        op = waiting.pop()
        if op not in ops:
            ops.add(op)
            waiting += op.control_inputs + [tensor.op for tensor in op.inputs]
    return [op for op in sorted(ops, key=lambda op: op.name)
            if op.outputs and op.type not in ("Const", "Placeholder", "VarHandleOp")
            and all(tensor.dtype != tf.resource for tensor in op.inputs)]


def apart(graph_def, ops):
    """The ops, each with inputs of its own: `in/NAME_INDEX` stands for tensor NAME:INDEX."""
    alone, given = tf.GraphDef(), {}
    alone.versions.CopyFrom(graph_def.versions)
    constants = {node.name for node in graph_def.node if node.op == "Const"}
    alone.node.extend(node for node in graph_def.node if node.op == "Const")
    for op in ops:
        node = alone.node.add()
        node.CopyFrom(op.node_def)
        del node.input[:]
        for tensor in op.inputs:
            if tensor.op.name in constants:
                node.input.append(tensor.op.name)
                continue
            name = "in/" + tensor.name.replace(":", "_")
            if name not in given:
                given[name] = tensor.name
                placeholder = alone.node.add(name=name, op="Placeholder")
                placeholder.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.input.append(name)
    return alone, given


def largest_op_difference(binary, graph_file, feeds, folder):
    """The largest difference of an op's results relative to their largest element, and the op. Of all its results: one
    alone, the gradient of a scale that a later normalisation undoes, may be a sum that cancels. Sums and means themselves,
    the gradient of a bias before a normalisation, are measured by what they add up."""
    graph_def = tf.GraphDef.FromString(graph_file.read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    ops = computed_ops(graph)
    alone, given = apart(graph_def, ops)
    # What the third to fifth results of a batch norm hold is each program's own affair.
    compared = [tensor.name for op in ops for tensor in op.outputs
                if tensor.dtype == tf.float32 and not (op.type == "FusedBatchNormV3" and tensor.value_index > 2)]
    fetched, flags = folder / "fetched.npz", folder / "flags"
    flags.write_text(f"--fetches={','.join(sorted({*given.values(), *compared} - {f'{name}:0' for name in feeds}))}\n")
    subprocess.run([binary, "run", f"--graph={graph_file}", f"--feeds={folder / 'feeds.npz'}", f"--flagfile={flags}",
                    "--init_targets=init", "--steps=1", "--strategy=baseline", f"--fetches_out={fetched}"],
                   check=True, stdout=subprocess.DEVNULL)
    with np.load(fetched) as saved:
        ours = dict(saved) | {f"{name}:0": value for name, value in feeds.items()}
    with tf.Graph().as_default():
        tf.import_graph_def(alone, name="")
        with tf.Session(config=session_config()) as session:
            theirs = session.run(compared, {f"{name}:0": ours[tensor] for name, tensor in given.items()})
    differences, largest = collections.defaultdict(float), collections.defaultdict(float)
    for name, value in zip(compared, theirs, strict=True):
        op = graph.get_tensor_by_name(name).op
        differences[op] = max(differences[op], float(np.max(np.abs(ours[name] - value), initial=0.0)))
        largest[op] = max(largest[op], float(np.max(np.abs(value), initial=0.0)))
        if op.type in ("BiasAddGrad", "Mean", "Sum"):
            added = np.abs(ours[op.inputs[0].name])
            largest[op] = max(largest[op], float(np.mean(added) if op.type == "Mean" else np.sum(added) / value.size))
    return max((difference / largest[op], op.type) for op, difference in differences.items() if largest[op] > 0)


def distance(losses, wanted):
    """Relative to the first loss: the last ones may be next to nothing."""
    return max(abs(a - b) for a, b in zip(losses, wanted, strict=True)) / abs(wanted[0])


def millrace_losses(binary, graph, feeds, report):
    command = [binary, "run", f"--graph={graph}", f"--feeds={feeds}", "--fetches=loss:0", "--targets=train",
               "--init_targets=init", f"--steps={STEPS}", "--strategy=baseline", f"--report_out={report}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path(report).read_text())["runs"][0]["losses"]


def check(binary, name, folder):
    graph = folder / f"{name}.pb"
    model = name if name == "moe_transformer" else name.partition("_")[0]
    subprocess.run([binary, "model", model, "--seed=7", *MODELS[name].split(), f"--out={graph}"], check=True,
                   stdout=subprocess.DEVNULL)
    feeds, arrays = folder / "feeds.npz", feeds_of(tf.GraphDef.FromString(graph.read_bytes()))
    np.savez(feeds, **arrays)
    with_onednn = tensorflow_losses(graph, feeds, onednn=True)
    own_kernels = True
    try:
        want = tensorflow_losses(graph, feeds, onednn=False)
    except subprocess.CalledProcessError:  # its own kernels have no gradient of dilated convolutions
        want, own_kernels = with_onednn, False
    moved = tensorflow_losses(graph, feeds, onednn=not own_kernels, moved=True)
    noise = max(distance(with_onednn, want), distance(moved, want))
    got = millrace_losses(binary, graph, feeds, folder / "report.json")
    difference = distance(got, want)
    op_difference, op = largest_op_difference(binary, graph, arrays, folder)
    good = difference <= max(TOLERANCE, NOISE_FACTOR * noise) and op_difference <= OP_TOLERANCE
    print(f"| {name} | {want[0]:.6f} | {want[-1]:.6f} | {got[-1]:.6f} | {difference:.1e} | {noise:.1e} "
          f"| {op_difference:.1e} ({op}) | {'equal' if good else 'DIFFERENT'} |", flush=True)
    return good


def main():
    if sys.argv[1] == "--tensorflow":
        return run_in_tensorflow(*sys.argv[2:])
    binary, *names = sys.argv[1:]
    print("| model | first loss | last loss, TensorFlow | last loss, Millrace | largest difference / first loss "
          "| TensorFlow's own, oneDNN or one rounding apart | largest difference of an op alone | |")
    print("|---|---|---|---|---|---|---|---|")
    good = True
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                good = check(binary, name, pathlib.Path(folder)) and good
            except (subprocess.CalledProcessError, ValueError) as error:
                print(f"| {name} | | | | | | | failed: {error} |", flush=True)
                good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
