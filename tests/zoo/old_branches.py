"""TensorFlow 1's control flow, with gradients: conditionals in conditionals in loops, of predicates that are known and that are not;
loops in conditionals, and such in loops; gathers, TensorArrays and recurrent layers on one side; arrays written on either side; gradients
of loops that wait for what follows from them."""
import itertools

import numpy as np
import tensorflow as tf

from branch_nets import old_control_flow
from world_nets import numbers
from zoo import Net

tf1 = tf.compat.v1

IDS = [1, 3, 1, 0, 2]
PREDICATES = {
    "early": lambda i, h: i < 1,
    "late": lambda i, h: i > 1,
    "mean": lambda i, h: tf.reduce_mean(h) > 0.1,
}


def _case(forward, reference=False):
    """forward(h, w), h of five rows of four."""
    @old_control_flow
    def build():
        x = tf1.placeholder(tf.float32, [5, 4], "x")
        w = tf1.get_variable("w", initializer=numbers(4, 4, seed=3) * np.float32(0.5), use_resource=not reference)
        loss = tf.reduce_mean(forward(x @ w, w) ** 2)
        return Net(loss, tf1.train.GradientDescentOptimizer(0.05).minimize(loss), {"x": numbers(5, 4)}, steps=4)
    return build


def _thrice(step):
    return lambda h, w: tf1.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, step(i, h, w)), (0, h))[1]


def _nested(names):
    """Conditionals in each other's second side."""
    def step(i, h, w):
        sides = [lambda: tf.tanh(h @ w), lambda: h * 1.1, lambda: tf.sin(h)]

        def inner(depth):
            if depth == len(names):
                return tf.nn.relu(h @ w)
            return tf1.cond(PREDICATES[names[depth]](i, h), sides[depth], lambda: inner(depth + 1))
        return inner(0)
    return _thrice(step)


def _until(h, w):
    return tf1.while_loop(lambda i, a: tf.logical_and(i < 5, tf.reduce_max(tf.abs(a)) > 0.2), lambda i, a: (i + 1, 0.6 * tf.tanh(a @ w)), (0, h))[1]


def _often(h):
    return tf.reduce_mean(h) > -9.0


def _written(other):
    def forward(h, w):
        array = tf.TensorArray(tf.float32, 5, element_shape=[4])

        def step(i, array):
            return i + 1, tf1.cond(h[i, 0] > 0, lambda: array.write(i, h[i]), lambda: other(array, i, h))
        return tf1.while_loop(lambda i, array: i < 5, step, (0, array))[1].stack()
    return forward


GATHERS = {
    "gather": lambda h, w: tf1.cond(_often(h), lambda: tf.gather(h, IDS), lambda: h),
    "gather_both": lambda h, w: tf1.cond(_often(h), lambda: tf.gather(h, IDS), lambda: tf.gather(h, IDS[::-1]) * 2),
    "gather_computed": lambda h, w: tf1.cond(_often(h), lambda: tf.gather(h, tf.argmax(h, 1)), lambda: h * 2),
    "gather_weights": lambda h, w: tf1.cond(_often(h), lambda: h * tf.gather(w, IDS), lambda: h),
    "gather_nested": lambda h, w: tf1.cond(tf.reduce_mean(h) > 0, lambda: tf1.cond(tf.constant(0) > 0, lambda: tf.gather(w, tf.argmax(h, 1)),
                                                                                  lambda: h), lambda: h * 2),
    "mask": lambda h, w: tf1.cond(_often(h), lambda: tf.boolean_mask(h, h[:, 0] > -0.8), lambda: h),
}
LOOPS = {
    "fold": lambda h, w: tf1.cond(_often(h), lambda: tf.foldl(lambda a, row: tf.tanh(a + row), h), lambda: tf.reduce_sum(h, 0)),
    "map": lambda h, w: tf1.cond(_often(h), lambda: tf.map_fn(tf.tanh, h), lambda: h),
    "map_nested": lambda h, w: tf1.cond(_often(h), lambda: tf1.cond(tf.reduce_mean(h) > 0, lambda: tf.map_fn(tf.tanh, h), lambda: h * 2), lambda: h),
    "map_case": lambda h, w: tf1.case([(tf.reduce_mean(h) > 0.3, lambda: tf.map_fn(tf.tanh, h)), (_often(h), lambda: tf.map_fn(tf.sin, h))],
                                      default=lambda: h),
    "map_mask": lambda h, w: tf1.cond(_often(h), lambda: tf.map_fn(tf.tanh, tf.boolean_mask(h, h[:, 0] > -0.8)), lambda: h),
    "fold_in_loop": _thrice(lambda i, h, w: tf1.cond(tf.reduce_mean(h) > 0, lambda: h + tf.foldl(lambda a, row: tf.tanh(a + row), h),
                                                     lambda: h * 0.5)),
    "map_in_loop": _thrice(lambda i, h, w: tf1.cond(tf.reduce_mean(h) > 0, lambda: tf.map_fn(lambda row: tf.linalg.matvec(w, row), h),
                                                    lambda: h * 0.5)),
    "until": lambda h, w: tf1.cond(tf.reduce_mean(h) > 0.1, lambda: _until(h, w), lambda: h),
    "until_in_loop": _thrice(lambda i, h, w: tf1.cond(tf.reduce_mean(h) > -0.1, lambda: _until(h, w), lambda: h * 0.5)),
    "until_nested": _thrice(lambda i, h, w: tf1.cond(h[0, 0] > 0, lambda: tf1.cond(tf.reduce_mean(h) > -0.1, lambda: _until(h, w), lambda: h * 0.9),
                                                     lambda: h * 0.5)),
    "until_other_side": _thrice(lambda i, h, w: tf1.cond(h[0, 0] > 0, lambda: h * 0.9,
                                                         lambda: tf1.cond(tf.reduce_mean(h) > -0.1, lambda: _until(h, w), lambda: tf.sin(h)))),
    "written_both": _written(lambda array, i, h: array.write(i, h[i] * 2)),
    "written_one": _written(lambda array, i, h: array),
}


def _scan(h, w):
    return tf1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a @ w)), (0, h), swap_memory=True)[1]


def _behind(forward):
    """The gradient waits for the loss, and so does the counter that it adds to loops of `forward`."""
    @old_control_flow
    def build():
        x = tf1.placeholder(tf.float32, [5, 4], "x")
        w = tf1.get_variable("w", initializer=numbers(4, 4, seed=3) * np.float32(0.5), use_resource=False)
        loss = tf1.verify_tensor_all_finite(tf.reduce_mean(forward(x @ w, w) ** 2), "the loss")
        with tf.control_dependencies([loss]):
            return Net(loss, tf1.train.GradientDescentOptimizer(0.05).minimize(loss), {"x": numbers(5, 4)}, steps=4)
    return build


def _normed(h, name):
    mean, variance = tf.nn.moments(h, [0])
    for value, statistic in ((mean, "mean"), (variance, "variance")):
        moving = tf1.get_variable(f"{name}_{statistic}", initializer=np.zeros(4, np.float32), use_resource=False, trainable=False)
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, tf1.assign_sub(moving, 0.1 * (moving - value)))
    return (h - mean) * tf.math.rsqrt(variance + 1e-3)


def _norms():
    """Under UPDATE_OPS, as in DeepSpeech2."""
    x = tf1.placeholder(tf.float32, [5, 4], "x")
    ahead, back = [tf1.get_variable(name, initializer=numbers(4, 4, seed=seed), use_resource=False) for name, seed in (("ahead", 3), ("back", 4))]
    both = _normed(_scan(x, ahead), "first") + _scan(x[::-1], back)
    loss = tf.reduce_mean(_normed(_scan(both, ahead), "second") ** 3)
    with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        return Net(loss, tf1.train.GradientDescentOptimizer(0.05).minimize(loss), {"x": numbers(5, 4)}, steps=4)


def _losses_behind_each_other():
    x = tf1.placeholder(tf.float32, [5, 4], "x")
    weights = [tf1.get_variable(f"w{i}", initializer=numbers(4, 4, seed=3 + i)) for i in (0, 1)]
    losses = [tf.reduce_mean(_scan(x, w) ** 2) for w in weights]
    gradients = []
    for w, loss, other in zip(weights, losses, losses[::-1]):
        with tf.control_dependencies([other]):
            gradients.append((tf1.gradients(loss, w)[0], w))
    return Net(tf.add_n(losses), tf1.train.GradientDescentOptimizer(0.05).apply_gradients(gradients), {"x": numbers(5, 4)}, steps=4)


BEHIND = {
    "scan": _scan,
    "until": _until,
    "branch": lambda h, w: tf1.cond(tf.reduce_mean(h) > 0.1, lambda: _scan(h, w), lambda: h * w[0]),
    "rows": lambda h, w: tf1.scan(lambda a, row: tf.tanh(a + row), h),
}


def cases():
    for depth in (1, 2, 3):
        for names in itertools.product(PREDICATES, repeat=depth):
            yield "_".join(("nested",) + names), _case(_nested(names))
    for name, forward in (GATHERS | LOOPS).items():
        yield name, _case(forward)
    yield "gather_reference", _case(GATHERS["gather_weights"], reference=True)
    for name, forward in BEHIND.items():
        yield f"behind_{name}", _behind(forward)
    yield "behind_norms", old_control_flow(_norms)
    yield "behind_each_other", old_control_flow(_losses_behind_each_other)
