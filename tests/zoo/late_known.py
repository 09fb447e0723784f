"""What is known late: words that follow from variables and from sides that a step's values choose, variables that are declared without a
shape, loops over rows of a step's own size in conditionals; complex rows scattered into variables."""
import numpy as np
import tensorflow as tf

from world_nets import numbers
from zoo import Net, eager, function_net

tf1 = tf.compat.v1


def _words(make):
    """make(count, w) -> strings; count is 0, 1, 2 in the steps."""
    def build():
        w = tf.Variable(numbers(3, 2, seed=3), name="w")
        count = tf.Variable(0, name="count", trainable=False)

        def step(x):
            with tf.GradientTape() as tape:
                words = make(count.read_value(), w.read_value())
                scale = tf.reduce_sum(tf.strings.length(words)) + tf.cast(tf.reduce_sum(tf.strings.to_hash_bucket_fast(words, 7)), tf.int32)
                loss = tf.reduce_mean((x @ w) ** 2) * tf.cast(scale, tf.float32)
            w.assign_sub(0.01 * tape.gradient(loss, w))
            count.assign_add(1)
            return loss
        return function_net(step, {"x": numbers(4, 3)})
    return eager(build)


def _appended(count, w):
    return tf.while_loop(lambda i, text: i < count + 1, lambda i, text: (i + 1, text + tf.strings.as_string(i)), (0, tf.constant("q")))[1]


WORDS = {
    "sum": lambda count, w: tf.constant("q") + "x",
    "appended": _appended,
    "cond": lambda count, w: tf.cond(count % 2 < 1, lambda: tf.constant(["a", "bb"]), lambda: tf.constant(["ccc", "a"])),
    "nested": lambda count, w: tf.cond(count < 1, lambda: tf.cond(tf.reduce_sum(w) > 0, lambda: tf.constant(["a"]), lambda: tf.constant(["bb", "c"])),
                                       lambda: tf.constant(["ccc", "d"])),
    "case": lambda count, w: tf.switch_case(count, [lambda: tf.constant("u"), lambda: tf.constant("vv"), lambda: tf.constant("www")]),
    "where": lambda count, w: tf.where(count > 1, tf.constant(["a", "bb"]), tf.constant(["ccc", "d"])),
    "gather": lambda count, w: tf.gather(tf.constant(["a", "bb", "ccc"]), count),
    "format": lambda count, w: tf.strings.format("a{}", count * 10),
    "join": lambda count, w: tf.strings.join([tf.strings.as_string(tf.argmax(tf.reduce_sum(w, 1))), "x"]),
}


def _undeclared(shape, resource, optimizer):
    def build():
        x = tf1.placeholder(tf.float32, [4, 3], "x")
        w = tf1.Variable(tf1.random_normal([3, 2], seed=4), validate_shape=shape is not None, shape=shape, use_resource=resource, name="w")
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
        update = optimizer(0.01).minimize(loss)
        with tf.control_dependencies([update]):
            train = tf1.train.ExponentialMovingAverage(0.9).apply([w]) if resource else tf.no_op()
        return Net(loss, train, {"x": numbers(4, 3)})
    return build


def _rows(forward):
    """forward(h, holds): rows of h are as many as a variable says."""
    def build():
        w = tf.Variable(numbers(4, 4, seed=3) * np.float32(0.5), name="w")

        def step(x):
            with tf.GradientTape() as tape:
                h = (x @ w)[:tf.cast(tf.abs(tf.reduce_mean(w)) * 8, tf.int32) + 2]
                loss = tf.reduce_sum(forward(h, tf.reduce_mean(w) > -99.0) ** 2)
            w.assign_sub(0.02 * tape.gradient(loss, w))
            return loss
        return function_net(step, {"x": numbers(5, 4)})
    return eager(build)


ROWS = {
    "map": lambda h, holds: tf.cond(holds, lambda: tf.map_fn(tf.sin, h), lambda: h),
    "map_both": lambda h, holds: tf.cond(holds, lambda: tf.map_fn(tf.sin, h), lambda: tf.map_fn(tf.cos, h)),
    "map_not_taken": lambda h, holds: tf.cond(holds, lambda: h, lambda: tf.map_fn(tf.sin, h)),
    "while": lambda h, holds: tf.cond(holds, lambda: tf.while_loop(lambda i, a: i < tf.shape(h)[0], lambda i, a: (i + 1, a + tf.sin(h[i])),
                                                                   (0, tf.zeros(4)))[1], lambda: tf.reduce_sum(h, 0)),
}


def _complex_rows():
    x = tf1.placeholder(tf.float32, [3, 2], "x")
    ids = tf.constant([4, 1, 4])
    w = tf1.get_variable("w", initializer=tf.complex(numbers(5, 2), numbers(5, 2, seed=1)))
    v = tf1.get_variable("v", initializer=tf.complex(numbers(5, 2), numbers(5, 2, seed=1)), use_resource=False)
    rows = tf.complex(x, x * 0.5)
    loss = tf.reduce_sum(tf.abs(w) + tf.abs(v))
    with tf.control_dependencies([loss]):
        added = tf.raw_ops.ResourceScatterNdAdd(ref=w.handle, indices=ids[:, None], updates=rows)
        other = tf1.scatter_nd_add(v, ids[:, None], rows)
    with tf.control_dependencies([added]):
        taken = tf.raw_ops.ResourceScatterNdSub(ref=w.handle, indices=tf.constant([[0], [1], [3]]), updates=rows)
    with tf.control_dependencies([other]):
        replaced = tf1.scatter_nd_update(v, tf.constant([[2]]), rows[:1])
    return Net(loss, tf.group(taken, replaced), {"x": numbers(3, 2, seed=4)})


def cases():
    for name, make in WORDS.items():
        yield f"words_{name}", _words(make)
    yield "undeclared_reference", _undeclared(None, False, tf1.train.GradientDescentOptimizer)
    yield "undeclared", _undeclared(tf.TensorShape(None), True, lambda rate: tf1.train.MomentumOptimizer(rate, 0.9))
    yield "undeclared_rows", _undeclared(tf.TensorShape([None, 2]), True, tf1.train.GradientDescentOptimizer)
    for name, forward in ROWS.items():
        yield f"rows_{name}", _rows(forward)
    yield "complex_rows", _complex_rows
