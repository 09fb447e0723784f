#!/usr/bin/env python3
"""CPU time of single ops, and of gradients of small expressions, in TensorFlow and Millrace, as ratios.

  ops_against_tensorflow.py BINARY [PREFIX ...] [--seconds=S]

Needs tensorflow and numpy. Each case is a graph of its own: variables of about a million elements in, a sum out, one
thread. Prints a markdown table of milliseconds a step, what reading the inputs and the sum take included; those whose
names begin with a PREFIX, or all. --seconds: how long TensorFlow runs per case.
"""
import argparse
import os
import pathlib
import resource
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import checked  # noqa: E402

try:
    import numpy as np  # noqa: E402
    import tensorflow as tf  # noqa: E402
except ImportError as error:
    checked.end_without(error, __doc__)

tf1 = tf.compat.v1
RNG = np.random.default_rng(0)


def normal(*shape):
    return variable(RNG.uniform(-2, 2, shape).astype(np.float32))


def positive(*shape):
    return variable(RNG.uniform(0.1, 2, shape).astype(np.float32))


def ints(*shape, below=100):
    return variable(RNG.integers(0, below, shape).astype(np.int32))


def variable(value):
    return tf1.get_variable(f"v{RNG.integers(1 << 60)}", initializer=value, use_resource=True)


def gradient(function, *inputs):
    """The sums of the gradients of function(*inputs), for upstream gradients that are not constant."""
    result = function(*inputs)
    upstream = tf.cast(tf.stop_gradient(tf.cast(result, tf.float32) * 0.5 + 1.0), result.dtype)
    gradients = tf.gradients(result, inputs, grad_ys=upstream)
    return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(g)) for g in gradients if g is not None])


def matrix():
    return normal(1024, 1024)


def image():
    return normal(8, 56, 56, 64)


def normalised(x, axes):
    centred = x - tf.reduce_mean(x, axes, keepdims=True)
    return centred * tf.math.rsqrt(tf.math.reduce_variance(x, axes, keepdims=True) + 1e-5)


def attention(q, k, v):
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 8.0), v)


# By name: a function of one tensor.
OF_MATRIX = {
    "gelu_exact": lambda x: tf.nn.gelu(x, False),
    "gelu_tanh": lambda x: tf.nn.gelu(x, True),
    "swish": lambda x: x * tf.sigmoid(x),
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3.0) / 6.0,
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "leaky_relu": tf.nn.leaky_relu,
    "softplus": tf.nn.softplus,
    "tanh": tf.tanh,
    "erf": tf.math.erf,
    "exp": tf.exp,
    "sin": tf.sin,
    "power_2": lambda x: tf.pow(x, 2.0),
    "power_3": lambda x: tf.pow(x, 3.0),
    "clip": lambda x: tf.clip_by_value(x, -1.0, 1.0),
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "layer_norm": lambda x: normalised(x, [-1]),
    "l2_normalize": lambda x: tf.nn.l2_normalize(x, 1),
    "max_of_rows": lambda x: tf.reduce_max(x, 1),
    "max_of_columns": lambda x: tf.reduce_max(x, 0),
    "logsumexp": lambda x: tf.reduce_logsumexp(x, 1),
    "transpose": tf.transpose,
    "cumsum": lambda x: tf.cumsum(x, 1),
    "top_10": lambda x: tf.math.top_k(x, 10)[0],
    "dropout": lambda x: tf.nn.dropout(x, 0.3),
    "roll": lambda x: tf.roll(x, 3, 1),
}
OF_IMAGE = {
    "max_pool_3_2": lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"),
    "max_pool_2_2": lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"),
    "avg_pool_3_2": lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"),
    "lrn": tf.nn.lrn,
    "mean_of_images": lambda x: tf.reduce_mean(x, [1, 2]),
    "instance_norm": lambda x: normalised(x, [1, 2]),
    "pad": lambda x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]),
    "slice": lambda x: x[:, 1:-1, 1:-1, :],
    "strided_slice": lambda x: x[:, ::2, ::2, :],
    "depth_to_space": lambda x: tf.nn.depth_to_space(x, 2),
    "to_channels_first": lambda x: tf.transpose(x, [0, 3, 1, 2]),
    "resize_bilinear": lambda x: tf.image.resize(x, [112, 112]),
    "resize_nearest": lambda x: tf.image.resize(x, [112, 112], "nearest"),
}
OTHERS = {
    "argmax_rows": lambda: tf.cast(tf.argmax(matrix(), 1), tf.float32),
    "argmax_columns": lambda: tf.cast(tf.argmax(matrix(), 0), tf.float32),
    "power": lambda: tf.pow(positive(1024, 1024), positive(1024, 1024)),
    "matmul": lambda: gradient(tf.matmul, normal(512, 512), normal(512, 512)),
    "attention": lambda: gradient(attention, *[normal(8, 8, 128, 64) for _ in range(3)]),
    "einsum": lambda: gradient(lambda x, w: tf.einsum("abc,cde->abde", x, w), normal(8, 128, 256), normal(256, 8, 32)),
    "conv_1x1": lambda: gradient(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
        normal(8, 28, 28, 128), normal(1, 1, 128, 128)),
    "conv_3x3": lambda: gradient(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"),
        normal(8, 28, 28, 64), normal(3, 3, 64, 64)),
    "conv_3x3_2": lambda: gradient(lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"), image(), normal(3, 3, 64, 128)),
    "conv_7x7_2": lambda: gradient(lambda x, w: tf.nn.conv2d(x, w, 2, "SAME"),
        normal(8, 112, 112, 3), normal(7, 7, 3, 64)),
    "conv_3d": lambda: gradient(lambda x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"),
        normal(1, 24, 24, 24, 16), normal(3, 3, 3, 16, 32)),
    "depthwise_3x3": lambda: gradient(lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME"),
        image(), normal(3, 3, 64, 1)),
    "batch_norm": lambda: gradient(lambda x, s, o: tf1.nn.fused_batch_norm(x, s, o)[0],
        image(), positive(64), normal(64)),
    "embedding": lambda: gradient(lambda t: tf.gather(t + 0.0, ints(4096, below=10000)), normal(10000, 128)),
    "concat": lambda: gradient(lambda x, y: tf.concat([x, y], -1), image(), image()),
    "add_channels": lambda: gradient(lambda x, y: x + y, image(), normal(8, 1, 1, 64)),
    "cross_entropy": lambda: gradient(lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=ints(1024, below=1000), logits=x), matrix()),
    "atan2": lambda: tf.atan2(matrix(), matrix()),
    "atan2_gradient": lambda: gradient(tf.atan2, matrix(), matrix()),
    "fft": lambda: tf.abs(tf.signal.fft(tf.complex(matrix(), matrix()))),
    "fft_1000": lambda: tf.abs(tf.signal.fft(tf.complex(normal(1000, 1000), normal(1000, 1000)))),
    "fft_long": lambda: tf.abs(tf.signal.fft(tf.complex(normal(4, 1 << 18), normal(4, 1 << 18)))),
    "fft_2d": lambda: tf.abs(tf.signal.fft2d(tf.complex(normal(16, 256, 256), normal(16, 256, 256)))),
    "rfft": lambda: tf.abs(tf.signal.rfft(matrix())),
    "rfft_gradient": lambda: gradient(lambda x: tf.abs(tf.signal.rfft(x)), matrix()),
    "irfft": lambda: tf.signal.irfft(tf.complex(normal(2048, 513), normal(2048, 513))),
    "dilation": lambda: tf.nn.dilation2d(image(), normal(3, 3, 64), [1] * 4, "SAME", "NHWC", [1] * 4),
    "dilation_gradient": lambda: gradient(
        lambda x, w: tf.nn.dilation2d(x, w, [1] * 4, "SAME", "NHWC", [1] * 4), image(), normal(3, 3, 64)),
    "dilation_of_3": lambda: tf.nn.dilation2d(normal(8, 200, 200, 3), normal(3, 3, 3), [1] * 4, "SAME", "NHWC", [1] * 4),
    "roll_rows": lambda: tf.roll(matrix(), 3, 0),
    "roll_image": lambda: tf.roll(image(), [3, 2], [1, 2]),
    "roll_of_3": lambda: tf.roll(normal(8, 200, 200, 3), [3, 2], [1, 2]),
    "to_half": lambda: tf.cast(tf.cast(matrix(), tf.half), tf.float32),
    "to_bfloat16": lambda: tf.cast(tf.cast(matrix(), tf.bfloat16), tf.float32),
    "matmul_bfloat16": lambda: tf.cast(tf.matmul(tf.cast(matrix(), tf.bfloat16), tf.cast(matrix(), tf.bfloat16)), tf.float32),
    "matmul_half": lambda: tf.cast(tf.matmul(tf.cast(matrix(), tf.half), tf.cast(matrix(), tf.half)), tf.float32),
    "to_channels_last": lambda: tf.transpose(normal(8, 64, 56, 56), [0, 2, 3, 1]),
    "to_channels_first_3": lambda: tf.transpose(normal(8, 200, 200, 3), [0, 3, 1, 2]),
    "swap_heads": lambda: tf.transpose(normal(8, 128, 16, 64), [0, 2, 1, 3]),
    "swap_last": lambda: tf.transpose(normal(64, 128, 128), [0, 2, 1]),
    "inverse": lambda: tf.linalg.inv(tf.eye(128) * 50.0 + normal(128, 128)),
}


def all_cases():
    for functions, make in ((OF_MATRIX, matrix), (OF_IMAGE, image)):
        for name, function in functions.items():
            yield name, lambda function=function, make=make: function(make())
            yield name + "_gradient", lambda function=function, make=make: gradient(function, make())
    yield from OTHERS.items()


def millrace_seconds(binary, graph, steps):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    checked.run([binary, "run", f"--graph={graph}", "--fetches=loss:0", "--init_targets=init", "--strategy=baseline",
                "--replan=off", "--threads=1", f"--steps={steps}"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(binary, case, seconds):
    """CPU seconds a step of TensorFlow and Millrace."""
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf.Graph().as_default() as graph, tempfile.TemporaryDirectory() as folder:
        tf1.set_random_seed(1)
        tf.identity(tf.reduce_sum(case()), name="loss")
        tf.group(tf1.global_variables_initializer(), name="init")
        path = pathlib.Path(folder) / "graph.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        with tf1.Session(config=config) as session:
            session.run("init")
            run = session.make_callable(["loss:0"])
            run()
            steps, start = 0, time.process_time()
            while steps < 3 or time.process_time() - start < seconds:
                run()
                steps += 1
            theirs = (time.process_time() - start) / steps
        ours = (millrace_seconds(binary, path, steps + 2) - millrace_seconds(binary, path, 2)) / steps
    return theirs, ours


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=checked.program)
    parser.add_argument("prefixes", nargs="*")
    parser.add_argument("--seconds", type=checked.number(float, 0), default=0.3)
    options = parser.parse_args()
    names = [name for name, _ in all_cases()]
    for prefix in options.prefixes:
        if not any(name.startswith(prefix) for name in names):
            parser.error(f"no case begins with '{prefix}', there are {' '.join(names)}")
    tf1.disable_eager_execution()
    print("| case | TensorFlow ms | Millrace ms | Millrace / TensorFlow |\n|---|---|---|---|", flush=True)
    for name, case in all_cases():
        if options.prefixes and not any(name.startswith(prefix) for prefix in options.prefixes):
            continue
        theirs, ours = measure(options.binary, case, options.seconds)
        print(f"| {name} | {1e3 * theirs:.2f} | {1e3 * ours:.2f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
