"""Writes gradients.txt: TensorFlow's own gradients of the cases in gradient_cases*.cc.

    mkdir cases && build/bin/write_gradient_cases cases
    python tests/builder/make_gradients.py cases tests/builder/gradients.txt

A line per input of a case: "CASE INDEX VALUE...", or "CASE INDEX none" where TensorFlow gives no gradient or has none
for the op. Needs TensorFlow from PyPI (made with 2.21).
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf


# TensorFlow's gradient is not the derivative: of BlockLSTMV2 it takes the gates in BlockLSTM's order, of
# QuantizeAndDequantizeV4Grad the gradients for the values; of some complex products and of determinants it leaves conjugates out,
# of the latter's logarithms the sign, too; those of slices that are left out fail at what they left out.
NOT_THE_DERIVATIVE = {"BlockLSTMV2", "QuantizeAndDequantizeV4Grad", "Cumprod_complex", "MulNoNan_complex", "MatrixDeterminant_complex",
                      "LogMatrixDeterminant_complex_0", "LogMatrixDeterminant_complex_1",
                      "GatherNd_ignore", "ScatterNd_ignore", "TensorScatterAdd_ignore"}
# TensorFlow has kernels of it on GPUs only.
ON_GPUS = "CudnnRNN"


def dense(gradient):
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def lines_of(path):
    graph_def = tf.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        names = {node.name for node in graph_def.node}
        count = next(i for i in range(len(names) + 1) if f"x{i}" not in names)
        inputs = [graph.get_tensor_by_name(f"x{i}:0") for i in range(count)]
        try:
            if path.stem in NOT_THE_DERIVATIVE or path.stem.startswith(ON_GPUS):
                raise LookupError
            gradients = [dense(g) for g in tf.gradients(graph.get_tensor_by_name("loss:0"), inputs)]
        except (LookupError, NotImplementedError, ValueError) as error:
            print(f"{path.stem}: none: {str(error).splitlines()[0] if str(error) else 'not asked'}")
            gradients = [None] * count
        with tf.Session() as session:
            for i, gradient in enumerate(gradients):
                if gradient is None:
                    yield f"{path.stem} {i} none"
                    continue
                values = np.ravel(session.run(gradient))
                yield " ".join([path.stem, str(i), *(f"{value:.7g}" for value in values)])


def main():
    folder, out = map(pathlib.Path, sys.argv[1:])
    lines = []
    for path in sorted(folder.glob("*.pb")):
        try:
            lines += lines_of(path)
        except (LookupError, tf.errors.OpError, ValueError) as error:
            print(f"{path.stem}: left out: {str(error).splitlines()[0]}")
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
