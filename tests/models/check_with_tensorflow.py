"""Runs generated graphs in TensorFlow and in Millrace and compares their losses.

    python tests/models/check_with_tensorflow.py build/bin/millrace [MODEL ...]

Each model is generated small; both programs run its `init`, then `train` for a few steps on the same feeds. TensorFlow
runs twice, with its own kernels and with oneDNN's: how far its two results are apart says what rounding does to this
training. Prints a table; the exit status is 1 when a loss is further from TensorFlow's own kernels than TOLERANCE and
than NOISE_FACTOR times that distance. check_with_tensorflow.md holds the table made with TensorFlow 2.21 from PyPI.
"""

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
TOLERANCE = 1e-5  # relative
NOISE_FACTOR = 3

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


def run_in_tensorflow(graph, feeds_file):
    """The body of the fresh process that tensorflow_losses starts."""
    graph_def = tf.GraphDef.FromString(pathlib.Path(graph).read_bytes())
    with np.load(feeds_file) as saved:
        feeds = dict(saved)
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        # A graph is run as it is: no rewriting, so that random ops keep their streams.
        config = tf.ConfigProto(allow_soft_placement=True)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            session.run("init")
            by_tensor = {f"{name}:0": value for name, value in feeds.items()}
            print(json.dumps([float(session.run(["loss:0", "train"], by_tensor)[0]) for _ in range(STEPS)]))


def tensorflow_losses(graph, feeds, onednn):
    command = [sys.executable, __file__, "--tensorflow", str(graph), str(feeds)]
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": str(int(onednn))}
    process = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(process.stdout.splitlines()[-1])


def distance(losses, wanted):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True))


def millrace_losses(binary, graph, feeds, report):
    command = [binary, "run", f"--graph={graph}", f"--feeds={feeds}", "--fetches=loss:0", "--targets=train",
               "--init_targets=init", f"--steps={STEPS}", "--strategy=baseline", f"--report_out={report}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path(report).read_text())["runs"][0]["losses"]


def check(binary, name, folder):
    graph = folder / f"{name}.pb"
    model = name if name == "moe_transformer" else name.partition("_")[0]
    subprocess.run([binary, "model", model, *MODELS[name].split(), "--seed=7", f"--out={graph}"], check=True,
                   stdout=subprocess.DEVNULL)
    feeds = folder / "feeds.npz"
    np.savez(feeds, **feeds_of(tf.GraphDef.FromString(graph.read_bytes())))
    with_onednn = tensorflow_losses(graph, feeds, onednn=True)
    try:
        want = tensorflow_losses(graph, feeds, onednn=False)
    except subprocess.CalledProcessError:  # its own kernels have no gradient of dilated convolutions
        want = with_onednn
    noise = distance(with_onednn, want)
    got = millrace_losses(binary, graph, feeds, folder / "report.json")
    difference = distance(got, want)
    good = difference <= max(TOLERANCE, NOISE_FACTOR * noise)
    print(f"| {name} | {want[0]:.6f} | {want[-1]:.6f} | {got[-1]:.6f} | {difference:.1e} | {noise:.1e} "
          f"| {'equal' if good else 'DIFFERENT'} |", flush=True)
    return good


def main():
    if sys.argv[1] == "--tensorflow":
        return run_in_tensorflow(*sys.argv[2:])
    binary, *names = sys.argv[1:]
    print("| model | first loss | last loss, TensorFlow | last loss, Millrace | largest relative difference "
          "| TensorFlow's own, without and with oneDNN | |")
    print("|---|---|---|---|---|---|---|")
    good = True
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                good = check(binary, name, pathlib.Path(folder)) and good
            except (subprocess.CalledProcessError, ValueError) as error:
                print(f"| {name} | | | | | | failed: {error} |", flush=True)
                good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
