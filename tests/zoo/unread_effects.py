"""Random programs of TensorFlow 1 whose branches and turns count in variables, where what counts is read, waited for, or neither: what
TensorFlow leaves out must be left out, and what it does must be done in every turn. Functions say nothing of their effects there."""
import random

import tensorflow as tf

from branch_nets import old_control_flow
from guest_parts import numbers, tf1
from zoo import Net

CASES = 24
DEEPEST = 2
COUNTERS = 6


class _Program:
    """Values are (a tensor of rows, a count): counts come from counters, each of which no more than one place reads."""

    def __init__(self, seed, step):
        self.rng, self.step = random.Random(seed), step
        self.counters = [tf1.get_variable(f"count_{i}", initializer=tf.constant(0.), trainable=False, use_resource=True) for i in range(COUNTERS)]
        self.free = list(self.counters)

    def predicate(self, h):
        return tf.reduce_sum(h) > self.rng.uniform(-2, 2) if self.rng.random() < .5 else tf.equal(self.step % 2, self.rng.randrange(2))

    def count(self, h, counted):
        if not self.free:
            return h, counted
        counter = self.free.pop()
        with tf.control_dependencies([h] if self.rng.random() < .5 else []):
            added = tf1.assign_add(counter, 1.)
        kind = self.rng.randrange(4)
        if kind == 0:  # the rows wait for it
            with tf.control_dependencies([added]):
                return tf.identity(h), counted
        if kind == 1:  # the rows follow from it
            return h + .01 * tf.identity(added), counted
        return (h, tf.identity(added)) if kind == 2 else (h, counted)  # the count is it; nobody takes it

    def block(self, depth, h, counted):
        for _ in range(self.rng.randint(1, 3)):
            kind = self.rng.choice(["count", "count", "mix"] + (["cond", "loop"] if depth < DEEPEST else []))
            inner = lambda h=h, counted=counted: self.block(depth + 1, h, counted)
            if kind == "count":
                h, counted = self.count(h, counted)
            elif kind == "mix":
                h = tf.tanh(h * self.rng.uniform(.5, 1.5))
            elif kind == "cond":
                h, counted = tf1.cond(self.predicate(h), inner, inner)
            else:
                turns = self.rng.randint(1, 3)
                turn = lambda i, h, counted: (i + 1, *self.block(depth + 1, h, counted))
                start = (0, h, counted)
                h, counted = tf1.while_loop(lambda i, *_: i < turns, turn, start, parallel_iterations=1)[1:]
        return h, counted


def _case(seed):
    def build():
        rng = random.Random(seed)
        step = tf1.get_variable("step", initializer=tf.constant(0), trainable=False, use_resource=True)
        x = tf1.placeholder(tf.float32, [2, 3], "x")
        w = tf1.get_variable("w", initializer=numbers(3, 3, seed=3), use_resource=True)
        now = tf.identity(step)
        h, counted = _Program(seed, now).block(0, x @ w, tf.constant(0.))
        loss = tf.reduce_mean(h ** 2)
        if rng.random() < .5:
            train = tf1.train.GradientDescentOptimizer(.1).minimize(loss)
        else:
            train = tf.no_op()
        with tf.control_dependencies([now, h]):
            train = tf.group(train, tf1.assign_add(step, 1))
        return Net(loss, train, {"x": numbers(2, 3)}, (h, counted) if rng.random() < .3 else (h,), steps=4)
    build.__name__ = f"program_{seed}"
    return build


def cases():
    for seed in range(CASES):
        yield f"program_{seed}", _case(seed)
        yield f"program_{seed}_v1", old_control_flow(_case(seed))
