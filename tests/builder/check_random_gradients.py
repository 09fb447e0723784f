"""Compares our gradient graphs of random cases with TensorFlow's own gradients, both run by TensorFlow.

    mkdir cases && build/bin/write_gradient_cases cases SEED COUNT
    python tests/builder/check_random_gradients.py cases

Every graph has inputs x0 …, a scalar loss, and the nodes gradient0 … that our rules emitted. Prints a line for each that
differs or that TensorFlow refuses; the exit status is 1 when there is one. Needs TensorFlow from PyPI (used with 2.21).
"""

import collections
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def dense(gradient):
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def differences(path):
    """Yields a message for everything that does not agree; 'none: …' where TensorFlow has nothing to compare with."""
    graph_def = tf.GraphDef.FromString(path.read_bytes())
    names = {node.name for node in graph_def.node}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        count = next(i for i in range(len(names) + 1) if f"x{i}" not in names)
        inputs = [graph.get_tensor_by_name(f"x{i}:0") for i in range(count)]
        try:
            theirs = [dense(g) for g in tf.gradients(graph.get_tensor_by_name("loss:0"), inputs)]
        except (LookupError, NotImplementedError, ValueError) as error:
            yield f"none: {str(error).splitlines()[0]}"
            return
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            for i, gradient in enumerate(theirs):
                if gradient is None:
                    continue
                try:
                    want = session.run(gradient)
                except (tf.errors.OpError, ValueError) as error:
                    yield f"none: x{i}: TensorFlow fails: {str(error).splitlines()[0]}"
                    continue
                if f"gradient{i}" not in names:
                    if np.any(want != 0):
                        yield f"x{i}: no gradient, TensorFlow's is {np.ravel(want)[:4]}"
                    continue
                got = session.run(graph.get_tensor_by_name(f"gradient{i}:0"))
                tolerance = TOLERANCE[want.dtype]
                if got.shape != want.shape or not np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True):
                    yield f"x{i} {want.shape}: {np.ravel(got)[:6]}, TensorFlow's is {np.ravel(want)[:6]}"


def main():
    counts = collections.Counter()
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.pb")):
        try:
            messages = list(differences(path))
        except (tf.errors.OpError, ValueError) as error:
            messages = [f"refused: {str(error).splitlines()[0]}"]
        for message in messages:
            print(f"{path.stem}: {message}", flush=True)
        bad = [m for m in messages if not m.startswith("none:")]
        counts["differ" if bad else "not compared" if messages else "equal"] += 1
    print(", ".join(f"{counts[kind]} {kind}" for kind in ("equal", "not compared", "differ")))
    sys.exit(1 if counts["differ"] else 0)


if __name__ == "__main__":
    main()
