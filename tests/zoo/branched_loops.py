"""Loops in conditionals that a step's own values decide, with gradients through them, in control flow v2 and in TensorFlow 1's
frames: what one side keeps for its backward pass the other side never made."""
import random

import numpy as np
import tensorflow as tf

from branch_nets import old_control_flow
from zoo import Net, eager, function_net

tf1 = tf.compat.v1

RANDOM_PROGRAMS = 30
DEEPEST = 3


def _repeated(step, x, turns):
    return tf.while_loop(lambda i, *_: i < turns, lambda i, a: (i + 1, step(a)), (0, x))[1]


def _positive(x):
    return tf.reduce_sum(x) > 0


def loop_or_value(w, x):
    return tf.cond(_positive(x @ w), lambda: _repeated(lambda a: tf.tanh(a @ w), x, 3), lambda: x @ w * 2.0)


def value_or_loop(w, x):
    return tf.cond(_positive(x @ w), lambda: tf.sin(x @ w), lambda: _repeated(lambda a: tf.tanh(a @ w), x, 3))


def loop_or_loop(w, x):
    """Both sides keep lists, of different lengths."""
    return tf.cond(_positive(x @ w), lambda: _repeated(lambda a: tf.tanh(a @ w), x, 4),
                   lambda: _repeated(lambda a: tf.sin(a @ w) * tf.nn.sigmoid(a), x, 2))


def same_loop_twice(w, x):
    """A loop before the conditional, whose list both sides go on with."""
    turn = lambda a: tf.tanh(a @ w)
    once = _repeated(turn, x, 2)
    return tf.cond(_positive(once), lambda: _repeated(turn, once, 2), lambda: _repeated(turn, -once, 2))


def rows_on_either_side(w, x):
    """Arrays that leave the conditional, stacked outside of it."""
    def fill(scale, turns):
        def body(i, a, rows):
            a = tf.tanh(a @ w * scale)
            return i + 1, a, rows.write(i, a)
        array = tf.TensorArray(tf.float32, 3, element_shape=x.shape)
        return tf.while_loop(lambda i, *_: i < turns, body, (0, x, array))[2].stack()
    return tf.reduce_sum(tf.cond(_positive(x @ w), lambda: fill(1.0, 3), lambda: fill(0.5, 3)), 0)


def conditional_in_loop(w, x):
    """In each turn its own predicate, with a loop on both sides."""
    def turn(a):
        return tf.cond(_positive(a), lambda: _repeated(lambda b: tf.tanh(b @ w), a, 2), lambda: _repeated(lambda b: tf.sin(b @ w) - 0.1, a, 3))
    return _repeated(turn, x, 3)


def nested_conditionals(w, x):
    inner = lambda a, s: tf.cond(tf.reduce_mean(a) > s, lambda: _repeated(lambda b: tf.tanh(b @ w), a, 2), lambda: a * a)
    return tf.cond(_positive(x @ w), lambda: inner(x @ w, 0.1), lambda: _repeated(lambda b: inner(b, -0.1), x, 2))


def one_of_three(w, x):
    index = tf.cast(tf.math.floormod(tf.reduce_sum(tf.abs(x @ w)) * 10.0, 3.0), tf.int32)
    return tf.switch_case(index, [lambda: _repeated(lambda a: tf.tanh(a @ w), x, 2),
                                  lambda: _repeated(lambda a: tf.sin(a @ w), x, 3), lambda: x @ w])


def loops_in_loops(w, x):
    def turns(a, n):
        return _repeated(lambda b: _repeated(lambda c: tf.tanh(c @ w), b, n), a, 2)
    return tf.cond(_positive(x @ w), lambda: turns(x, 2), lambda: turns(x * 0.5, 3))


def growing_lists(w, x):
    """Scans, whose results are lists with gradients of their own."""
    scan = lambda a, n: tf.scan(lambda h, row: tf.tanh(h @ w + row), tf.stack([a] * n), tf.zeros_like(a))[-1]
    return tf.cond(_positive(x @ w), lambda: scan(x, 4), lambda: scan(-x, 2))


def mapped_rows(w, x):
    rows = lambda f: tf.map_fn(lambda row: f(tf.linalg.matvec(w, row, transpose_a=True)), x)
    return tf.cond(_positive(x @ w), lambda: rows(tf.tanh), lambda: rows(tf.sin))


def turns_by_value(w, x):
    """How often a side turns, its own values say."""
    def until(f, bound):
        return tf.while_loop(lambda i, a: (tf.norm(a) > bound) & (i < 6), lambda i, a: (i + 1, f(a)), (0, x))[1]
    return tf.cond(_positive(x @ w), lambda: until(lambda a: 0.6 * tf.tanh(a @ w), 0.5), lambda: until(lambda a: 0.5 * a, 0.3) @ w)


def dropped_out(w, x):
    """Random numbers on the way."""
    noisy = lambda a: tf.nn.dropout(tf.tanh(a @ w), 0.3, seed=3)
    return tf.cond(_positive(x @ w), lambda: _repeated(noisy, x, 3), lambda: _repeated(lambda a: a @ w, x, 2))


def second_order(w, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(loop_or_loop(w, x) ** 2)
    return tape.gradient(y, x)


def _keras_layer(make):
    def build(w, x, layer):
        steps = tf.stack([x, x @ w, -x], 1)
        return tf.cond(_positive(x @ w), lambda: layer(steps), lambda: layer(steps[:, :2] * 0.5))
    build.make, build.__name__ = make, make.__name__
    return build


def keras_lstm():
    import keras
    return keras.layers.LSTM(3)


def keras_gru():
    import keras
    return keras.layers.GRU(3)


def keras_bidirectional():
    import keras
    return keras.layers.Bidirectional(keras.layers.LSTM(3), merge_mode="sum")


def keras_cells():
    import keras
    return keras.layers.RNN([keras.layers.SimpleRNNCell(4), keras.layers.GRUCell(3)])


def _feeds(seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(4, 3)).astype(np.float32), "y": rng.normal(size=(4, 3)).astype(np.float32)}


STEPS = 5


def _net(forward):
    """The sign of every step's input is another one, so that both sides are taken."""
    def build():
        w = tf.Variable(np.random.default_rng(4).normal(0, 0.6, (3, 3)).astype(np.float32), name="w")
        count = tf.Variable(np.int64(0), name="count", trainable=False)
        more = {}
        if hasattr(forward, "make"):
            layer = more["layer"] = forward.make()
            layer.build((4, 3, 3))

        def step(x, y):
            sign = tf.where(tf.equal(count % 2, 0), 1.0, -1.0) * (1.0 + 0.1 * tf.cast(count, tf.float32))
            variables = [w] + (more["layer"].trainable_variables if more else [])
            variables = [getattr(v, "value", v) if not isinstance(v, tf.Variable) else v for v in variables]
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((forward(w, x * sign, **more) - y) ** 2)
            for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
            count.assign_add(1)
            return loss
        return function_net(step, _feeds(), steps=STEPS)
    return eager(build)


class _Random:
    """A random expression of conditionals, cases, loops and maps in one another; Python draws while the graph is traced."""

    def __init__(self, seed, w):
        self.rng, self.w = random.Random(seed), w

    def predicate(self, a):
        return tf.reduce_sum(a) > self.rng.uniform(-0.5, 0.5)

    def value(self, a, depth):
        kinds = ["mix", "mix"] + (["cond", "cond", "case", "loop", "loop", "scan", "array"] if depth < DEEPEST else [])
        for _ in range(self.rng.randint(1, 2)):
            a = getattr(self, self.rng.choice(kinds))(a, depth + 1)
        return tf.ensure_shape(a, [4, 3])

    def mix(self, a, _):
        f = self.rng.choice([tf.tanh, tf.sin, tf.nn.softplus])
        return f(a @ self.w + self.rng.uniform(-0.3, 0.3)) * self.rng.choice([1.0, tf.nn.sigmoid(a)])

    def cond(self, a, depth):
        return tf.cond(self.predicate(a), lambda: self.value(a, depth), lambda: self.value(a, depth))

    def case(self, a, depth):
        index = tf.cast(tf.math.floormod(tf.reduce_sum(tf.abs(a)) * 7.0, 3.0), tf.int32)
        return tf.switch_case(index, [lambda: self.value(a, depth)] * 3)

    def loop(self, a, depth):
        turns = self.rng.randint(1, 3)
        return tf.while_loop(lambda i, b: i < turns, lambda i, b: (i + 1, self.value(b, depth)), (0, a))[1]

    def scan(self, a, depth):
        rows = tf.stack([a, -a, 0.5 * a][:self.rng.randint(1, 3)])
        return tf.scan(lambda h, row: self.value(h + row, depth), rows, tf.zeros_like(a))[-1]

    def array(self, a, depth):
        turns = self.rng.randint(1, 3)

        def body(i, b, rows):
            b = self.value(b, depth)
            return i + 1, b, rows.write(i, b)
        rows = tf.while_loop(lambda i, *_: i < turns, body, (0, a, tf.TensorArray(tf.float32, turns, element_shape=[4, 3])))[2]
        return tf.reduce_mean(rows.stack(), 0)


def _random_case(seed):
    def forward(w, x):
        return _Random(seed, w).value(tf.tanh(x @ w), 0)
    return _net(forward)


def _old(forward, v2):
    """The same in a graph of TensorFlow 1."""
    def build():
        on = tf1.control_flow_v2_enabled()
        if v2:
            tf1.enable_control_flow_v2()
        try:
            feeds = _feeds()
            x, y = (tf1.placeholder(tf.float32, value.shape, name) for name, value in feeds.items())
            w = tf1.get_variable("w", initializer=np.random.default_rng(4).normal(0, 0.6, (3, 3)).astype(np.float32), use_resource=v2)
            count = tf1.get_variable("count", initializer=np.int64(0), trainable=False, use_resource=v2)
            sign = tf.where(tf.equal(count % 2, 0), 1.0, -1.0) * (1.0 + 0.1 * tf.cast(count, tf.float32))
            loss = tf.reduce_mean((forward(tf.identity(w), x * sign) - y) ** 2)
            train = tf1.train.MomentumOptimizer(0.1, 0.5).minimize(loss, count, [w])
            return Net(loss, train, feeds, steps=STEPS)
        finally:
            if v2 and not on:
                tf1.disable_control_flow_v2()
    return build if v2 else old_control_flow(build)


FORWARDS = (loop_or_value, value_or_loop, loop_or_loop, same_loop_twice, rows_on_either_side, conditional_in_loop, nested_conditionals,
            one_of_three, loops_in_loops, growing_lists, mapped_rows, turns_by_value, dropped_out, second_order)
OLD = (loop_or_value, value_or_loop, loop_or_loop, same_loop_twice, rows_on_either_side, conditional_in_loop, nested_conditionals,
       one_of_three, loops_in_loops, growing_lists, mapped_rows, turns_by_value, dropped_out)


def cases():
    for forward in FORWARDS:
        yield forward.__name__, _net(forward)
    for make in (keras_lstm, keras_gru, keras_bidirectional, keras_cells):
        yield make.__name__, _net(_keras_layer(make))
    for forward in OLD:
        yield f"old_{forward.__name__}", _old(forward, v2=False)
        yield f"old_v2_{forward.__name__}", _old(forward, v2=True)
    for seed in range(RANDOM_PROGRAMS):
        yield f"random_{seed}", _random_case(seed)
