"""Random programs of TensorFlow 1 whose branches and turns read rows of TensorArrays that were written before them, and write others of
their own: gradients come from the branches that are taken alone."""
import random

import tensorflow as tf

from branch_nets import old_control_flow
from guest_parts import numbers, tf1
from zoo import Net

CASES = 40
DEEPEST = 2
ITEMS = 3


class _Program:
    def __init__(self, seed, step, w, array):
        self.rng, self.step, self.w, self.array = random.Random(seed), step, w, array

    def predicate(self, h):
        return tf.reduce_sum(h) > self.rng.uniform(-2, 2) if self.rng.random() < .4 else tf.equal(self.step // self.rng.choice([1, 2]) % 2, self.rng.randrange(2))

    def read(self, turn):
        number = self.rng.randrange(ITEMS)
        return self.array.read((turn + number) % ITEMS if turn is not None and self.rng.random() < .6 else number)

    def collected(self, h, turn):
        """An array of the block's own, written in a loop, one side of it or the other."""
        own = tf.TensorArray(tf.float32, 2, element_shape=[2, 3])
        own = own.write(0, tf.tanh(h))
        if self.rng.random() < .5:
            p = self.predicate(h)
            own = tf1.cond(p, lambda: own.write(1, h * 1.5), lambda: own.write(1, self.read(turn)))
        else:
            own = own.write(1, self.read(turn))
        return tf.reduce_mean(own.stack(), 0)

    def block(self, depth, h, turn=None):
        for _ in range(self.rng.randint(1, 3)):
            kind = self.rng.choice(["read", "read", "mix", "stack", "own"] + ["cond", "cond", "loop"] * (depth < DEEPEST))
            inner = lambda h=h: self.block(depth + 1, h, turn)
            if kind == "read":
                h = h + self.rng.uniform(.2, 1) * self.read(turn)
            elif kind == "mix":
                h = tf.sin(h @ self.w)
            elif kind == "stack":
                h = h + tf.reduce_mean(self.array.gather([0, self.rng.randrange(ITEMS)]), 0)
            elif kind == "own":
                h = h + self.collected(h, turn)
            elif kind == "cond":
                other = self.rng.choice([inner, lambda h=h: tf.identity(h), lambda: self.read(turn)])
                h = tf1.cond(self.predicate(h), self.rng.choice([inner, lambda: self.read(turn)]), other)
            else:
                turns = self.rng.randint(1, 3)
                h = tf1.while_loop(lambda i, *_: i < turns, lambda i, h: (i + 1, self.block(depth + 1, h, i)), (0, h), parallel_iterations=1)[1]
        return h


def _case(seed):
    def build():
        step = tf1.get_variable("step", initializer=tf.constant(0), trainable=False, use_resource=True)
        x = tf1.placeholder(tf.float32, [2, 3], "x")
        w = tf1.get_variable("w", initializer=numbers(3, 3, seed=3), use_resource=True)
        now = tf.identity(step)
        array = tf.TensorArray(tf.float32, ITEMS, element_shape=[2, 3], clear_after_read=False)
        array = array.unstack(tf.stack([x @ w, tf.tanh(x @ w), 2 * (x @ w)]))
        h = _Program(seed, now, w, array).block(0, tf.cos(x @ w))
        loss = tf.reduce_mean(h ** 2)
        train = tf1.train.GradientDescentOptimizer(.05).minimize(loss)
        with tf.control_dependencies([now, train]):
            train = tf.group(train, tf1.assign_add(step, 1))
        return Net(loss, train, {"x": numbers(2, 3)}, (h,), steps=4)
    build.__name__ = f"program_{seed}"
    return build


def cases():
    for seed in range(CASES):
        yield f"program_{seed}", old_control_flow(_case(seed))
