"""Conditionals whose sides differ in size, one behind the other, with gradients through them; lists that grow on one side, axes, strings
and shapes that are those of a side; sizes that follow from values, before loops that end by their results; random programs of these.
Which sides are taken changes from step to step."""
import random

import numpy as np
import tensorflow as tf

from world_nets import numbers
from zoo import eager, function_net

RANDOM = 40

SECOND = {
    "concat": lambda a: tf.concat([a, a[:1]], 0),
    "slice": lambda a: a[1:],
    "tile": lambda a: tf.tile(a, [2, 1]),
    "sum": lambda a: tf.reduce_sum(a, 0, keepdims=True),
    "gather": lambda a: tf.gather(a, [0, 2]),
    "reshape": lambda a: tf.reshape(tf.reshape(a, [-1]), [-1, 3]),
    "pad": lambda a: tf.pad(a, [[1, 0], [0, 0]]),
    "max": lambda a: tf.reduce_max(a, 0, keepdims=True),
    "cumsum": tf.cumsum,
    "first": lambda a: a + a[:1],
}


def _case(forward, rate=0.01, clip=None):
    """forward(w, x, even, third): the step's number is even, a multiple of three."""
    def build():
        w = tf.Variable(numbers(3, 3, seed=3) * np.float32(0.5), name="w")
        count = tf.Variable(np.int64(0), name="count", trainable=False)

        def step(x):
            with tf.GradientTape() as tape:
                now = count.read_value()
                loss = forward(w.read_value(), x, tf.equal(now % 2, 0), tf.equal(now % 3, 0))
            gradient = tape.gradient(loss, w)
            w.assign_sub(rate * (gradient if clip is None else tf.clip_by_value(gradient, -clip, clip)))
            count.assign_add(1)
            return loss
        return function_net(step, {"x": numbers(5, 3)}, steps=6)
    return eager(build)


def _chain(second):
    def forward(w, x, even, third):
        h = x @ w
        a = tf.cond(even, lambda: tf.concat([h, h], 0), lambda: h)
        return tf.reduce_sum(tf.cond(third, lambda: second(a), lambda: a) ** 2)
    return forward


def _grown(w, x, even, third):
    rows = x[:1] @ w
    for i in range(3):
        rows = tf.cond(even if i % 2 else third, lambda: tf.concat([rows, tf.tanh(x[i:i + 1] @ w)], 0), lambda: rows)
    return tf.reduce_mean(rows ** 2)


def _listed(w, x, even, third):
    rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[3])
    rows = rows.write(0, tf.linalg.matvec(w, x[0]))
    if even:
        rows = rows.write(1, tf.tanh(tf.linalg.matvec(w, x[1])))
    for row in x:
        h = tf.linalg.matvec(w, row)
        if tf.reduce_sum(h) < 0.0 and third:
            continue
        rows = rows.write(rows.size(), h)
    return tf.reduce_mean(rows.stack() ** 2)


def _axis(w, x, even, third):
    sums = tf.reduce_sum(x @ w, axis=tf.cond(even, lambda: 0, lambda: 1))
    return tf.reduce_mean(sums ** 2) + tf.reduce_mean(tf.cast(tf.shape(sums)[0], tf.float32))


def _words(w, x, even, third):
    """Of strings no more is known than constants and feeds, so predicates are of these."""
    words = tf.cond(x[0, 0] > 0, lambda: tf.constant(["1", "22"]), lambda: tf.constant(["xxxxx", "yyyyyyy"]))
    which = tf.switch_case(tf.cast(x[0, 1] > 0, tf.int32), [lambda: tf.constant(["abc"]), lambda: tf.constant(["a"])])
    lengths = tf.cast(tf.strings.length(words), tf.float32)
    return tf.reduce_mean(lengths * (x[:2, :2] @ w[:2, :2])) * tf.cast(tf.strings.length(which)[0], tf.float32)


def _until(w, x, even, third):
    turns = tf.cast(tf.reduce_sum(tf.cast(x @ w > 0, tf.int32)), tf.int32) % 3 + 1
    rows = tf.tile(x @ w, [turns, 1])
    _, rows = tf.while_loop(lambda i, a: tf.logical_and(i < 6, tf.reduce_max(tf.abs(a)) > 0.3), lambda i, a: (i + 1, 0.7 * tf.tanh(a)), (0, rows))
    return tf.reduce_mean(tf.cond(even, lambda: rows[1:], lambda: rows) ** 2)


def _program(seed):
    """Python runs the random choices once, when the graph is traced."""
    rng = random.Random(seed)
    plan = [(rng.randrange(13), rng.gauss(0, 0.3), rng.randrange(2)) for _ in range(rng.randint(2, 4))]

    def act(kind, limit, extra, w, h, taken):
        size = lambda value, most: tf.cast(tf.abs(value), tf.int32) % most + 1
        acts = [
            lambda: tf.boolean_mask(h, tf.reduce_sum(h, 1) > limit - 1.5),
            lambda: tf.cond(taken, lambda: h[:2], lambda: h * 2),
            lambda: tf.cond(taken, lambda: tf.concat([h, tf.tanh(h[:1])], 0), lambda: tf.sin(h)),
            lambda: tf.gather(h, tf.where(h[:, 0] > limit - 1.0)[:, 0]),
            lambda: tf.tile(h, [tf.cond(taken, lambda: 1, lambda: 3), 1]),
            lambda: h + tf.reduce_mean(tf.fill([size(tf.reduce_sum(tf.tanh(h)), 4), 2], tf.reduce_mean(h))),
            lambda: tf.repeat(h, tf.cast(tf.abs(tf.tanh(h[:, 1])) * 3, tf.int32) + extra, axis=0),
            lambda: tf.math.unsorted_segment_sum(h, *(lambda u: (u[1], tf.size(u[0])))(tf.unique(tf.cast(h[:, 0] * 2, tf.int32)))),
            lambda: tf.while_loop(lambda i, a: tf.logical_and(i < 6, tf.reduce_max(tf.abs(a)) > 0.4),
                                  lambda i, a: (i + 1, 0.7 * tf.tanh(a @ w) + a * 0.1), (0, h))[1],
            lambda: h[:size(tf.reduce_sum(tf.cast(h > limit, tf.int32)), 3)],
            lambda: h + tf.reduce_mean(tf.cond(taken, lambda: tf.reduce_sum(h ** 2, 0), lambda: tf.reduce_sum(tf.abs(h), 1))),
            lambda: tf.concat([h, h[tf.shape(h)[0] // 2:]], 0),
            lambda: h + tf.cast(tf.range(tf.shape(h)[0])[:, None], tf.float32) * 0.1]
        return tf.pad(acts[kind](), [[1, 0], [0, 0]], constant_values=0.3)

    def forward(w, x, even, third):
        h = x @ w
        for i, (kind, limit, extra) in enumerate(plan):
            h = act(kind, limit, extra, w, h, (even, third)[i % 2] if extra else tf.reduce_mean(h) * 3 > limit)
        return tf.reduce_mean(h ** 2) + 0.1 * tf.reduce_sum(w ** 2)
    return forward


def cases():
    for name, second in SECOND.items():
        yield f"chain_{name}", _case(_chain(second))
    for forward in (_grown, _listed, _axis, _words, _until):
        yield forward.__name__[1:], _case(forward)
    for seed in range(RANDOM):
        yield f"program_{seed}", _case(_program(seed), rate=0.2, clip=1.0)
