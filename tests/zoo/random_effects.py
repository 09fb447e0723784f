"""Random programs of assignments, reads, conditionals, cases, loops and calls in one another, over a few variables: what is
read and written when must be as in TensorFlow. With gradients through them (without loops) in every second case."""
import random

import numpy as np
import tensorflow as tf

from zoo import eager, function_net

CASES = 40
DEEPEST = 3


class _Program:
    """Python runs the random choices once, when the graph is traced."""

    def __init__(self, seed, variables, step, loops):
        self.rng, self.variables, self.step, self.loops = random.Random(seed), variables, step, loops

    def predicate(self, values):
        kind = self.rng.randrange(3)
        if kind == 0:
            return tf.reduce_sum(self.rng.choice(values)) > self.rng.uniform(-1, 1)
        return tf.equal(self.step % 2, self.rng.randrange(2)) if kind == 1 else tf.equal(self.step % 3, 1)

    def block(self, depth, values):
        values = list(values)
        simple = ["assign", "add", "subtract", "scatter", "read", "read", "mix"]
        nested = ["cond", "cond", "case", "call"] + (["loop"] if self.loops else [])
        for _ in range(self.rng.randint(1, 4)):
            self.act(self.rng.choice(simple + (nested if depth < DEEPEST else [])), depth, values)
        return tf.ensure_shape(tf.tanh(tf.add_n([values[-1]] + [0.3 * value for value in values[-3:-1]])), [2])

    def act(self, kind, depth, values):
        variable, value = self.rng.choice(self.variables), self.rng.choice(values)
        inner = lambda: self.block(depth + 1, values)
        if kind == "assign":
            variable.assign(tf.tanh(value))
        elif kind == "add":
            variable.assign_add(0.1 * value)
        elif kind == "subtract":
            variable.assign_sub(0.1 * tf.tanh(value))
        elif kind == "scatter":
            variable.scatter_nd_update([[self.rng.randrange(2)]], [self.rng.random()])
        elif kind == "read":
            values.append(variable.read_value())
        elif kind == "mix":
            values.append(tf.tanh(value + 0.5 * self.rng.choice(values)))
        elif kind == "cond":
            values.append(tf.cond(self.predicate(values), inner, inner))
        elif kind == "case":
            values.append(tf.switch_case(tf.cast(self.step % 3, tf.int32), [inner, inner, inner]))
        elif kind == "call":
            values.append(tf.function(lambda a: self.block(depth + 1, [a]))(value))
        else:
            turns = self.rng.randint(1, 3)
            turn = lambda i, a: (i + 1, self.block(depth + 1, [a, 0.5 * a]))
            values.append(tf.while_loop(lambda i, a: i < turns, turn, (0, value))[1])


def _case(seed, gradients):
    def build():
        variables = [tf.Variable(np.array([0.1 * i + 0.2, 0.1 - 0.3 * i], np.float32), name=f"v{i}") for i in range(3)]
        count = tf.Variable(np.int64(0), name="count", trainable=False)

        def step(x):
            with tf.GradientTape() as tape:
                start = x + variables[0] if gradients else x
                loss = tf.reduce_sum(_Program(seed, variables, count.read_value(), not gradients).block(0, [start]))
            for variable, gradient in zip(variables, tape.gradient(loss, variables) if gradients else ()):
                if gradient is not None:
                    variable.assign_sub(0.05 * tf.clip_by_value(gradient, -1.0, 1.0))
            count.assign_add(1)
            return loss + 0.001 * tf.reduce_sum(variables[0])
        return function_net(step, {"x": np.array([0.3, -0.7], np.float32)}, steps=4)
    return eager(build)


def cases():
    for seed in range(CASES):
        yield f"effects_{seed}", _case(seed, gradients=seed % 2 == 1)
