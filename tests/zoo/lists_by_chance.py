"""Random programs whose branches and turns write rows into TensorArrays and read what may not have been written: zeros, and no gradient."""
import random

import tensorflow as tf

from guest_parts import numbers, tf1
from zoo import Net

CASES = 40
DEEPEST = 3
ITEMS = 4


class _Program:
    def __init__(self, seed, step, w):
        self.rng, self.step, self.w = random.Random(seed), step, w

    def predicate(self, h):
        return tf.reduce_sum(h) > self.rng.uniform(-2, 2) if self.rng.random() < .4 else tf.equal(self.step // self.rng.choice([1, 2]) % 2, self.rng.randrange(2))

    def number(self, turn):
        return (turn + self.rng.randrange(ITEMS)) % ITEMS if turn is not None and self.rng.random() < .6 else self.rng.randrange(ITEMS)

    def block(self, depth, h, array, turn=None):
        for _ in range(self.rng.randint(1, 3)):
            kind = self.rng.choice(["write", "write", "read", "mix", "new", "stack"] + ["cond", "cond", "loop"] * (depth < DEEPEST))
            inner = lambda h=h, array=array: self.block(depth + 1, h, array, turn)
            if kind == "write":
                array = array.write(self.number(turn), tf.tanh(h * self.rng.uniform(.5, 1.5)))
            elif kind == "read":
                h = h + self.rng.uniform(.2, 1) * array.read(self.number(turn))
            elif kind == "mix":
                h = tf.sin(h @ self.w)
            elif kind == "new" and self.rng.random() < .4:
                array = new_array()
            elif kind == "stack":
                h = h + tf.reduce_mean(array.stack(), 0)
            elif kind == "cond":
                h, array = tf.cond(self.predicate(h), inner, self.rng.choice([inner, lambda h=h, array=array: (h, array)]))
            elif kind == "loop":
                turns = self.rng.randint(1, 3)
                turn_of = lambda i, h, array: (i + 1, *self.block(depth + 1, h, array, i))
                h, array = tf.while_loop(lambda i, *_: i < turns, turn_of, (0, h, array), parallel_iterations=1)[1:]
        return h, array


def new_array():
    return tf.TensorArray(tf.float32, ITEMS, element_shape=[2, 3], clear_after_read=False)


def _case(seed):
    def build():
        step = tf1.get_variable("step", initializer=tf.constant(0), trainable=False, use_resource=True)
        x = tf1.placeholder(tf.float32, [2, 3], "x")
        w = tf1.get_variable("w", initializer=numbers(3, 3, seed=3), use_resource=True)
        now = tf.identity(step)
        h, array = _Program(seed, now, w).block(0, x @ w, new_array())
        loss = tf.reduce_mean(h ** 2) + tf.reduce_mean(array.stack() * tf.reshape(tf.range(1., ITEMS + 1), [-1, 1, 1]))
        train = tf1.train.GradientDescentOptimizer(.1).minimize(loss)
        with tf.control_dependencies([now, train]):
            train = tf.group(train, tf1.assign_add(step, 1))
        return Net(loss, train, {"x": numbers(2, 3)}, (h, array.stack()), steps=4)
    build.__name__ = f"program_{seed}"
    return build


def cases():
    for seed in range(CASES):
        yield f"program_{seed}", _case(seed)
