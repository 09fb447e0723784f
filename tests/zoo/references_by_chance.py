"""Random programs of TensorFlow 1 whose branches, turns and loops' conditions write reference variables, and use what was read of them before:
wherever it is used, it is what the variable holds then. Rows follow from each write and each use, so that nothing is left to chance."""
import random

import tensorflow as tf

from branch_nets import old_control_flow
from guest_parts import numbers, tf1
from zoo import Net

CASES = 40
DEEPEST = 2
MOST_PARTS = 24


class _Program:
    def __init__(self, seed, w, step):
        self.rng, self.w, self.step, self.left = random.Random(seed), w, step, MOST_PARTS
        self.variables = [tf1.get_variable(f"c{i}", initializer=.5 + i, trainable=False, use_resource=False) for i in range(3)]

    def predicate(self, h, i):
        return self.rng.choice([
            lambda: tf.reduce_sum(h) > self.rng.uniform(-1, 1), lambda: tf.equal(self.step % 2, self.rng.randrange(2)),
            lambda: tf.constant(self.rng.random() < .5), lambda: tf.reduce_mean(h) > 0 if i is None else i < 1])()

    def write(self, h):
        with tf.control_dependencies([h]):
            amount = tf.constant(self.rng.choice([1., .25])) if self.rng.random() < .6 else tf.reduce_mean(h) * .1
            return self.rng.choice([tf1.assign_add, tf1.assign_sub])(self.rng.choice(self.variables), amount)

    def behind(self, h, written):
        kind = self.rng.randrange(5)
        with tf.control_dependencies([written]):
            if kind == 0:
                return tf.identity(h)
            if kind == 1:
                return h * tf.constant(.9)
            if kind == 2:
                return h + .01 * tf.constant(1.)
            if kind == 3:
                with tf.control_dependencies([tf.no_op()]):
                    return tf.identity(h)
        return h + .01 * tf.identity(written)

    def read(self):
        variable = self.rng.choice(self.variables)
        return self.rng.choice([variable.value, lambda: tf.identity(variable), variable.read_value])()

    def use(self, h, read):
        if self.rng.random() < .3:
            return tf.add(h, read) * .7
        with tf.control_dependencies([h]):
            used = tf.negative(read)
        return tf.tanh(h + .1 * used)

    def loop(self, depth, h, reads):
        turns, carries, swaps, writes = self.rng.randint(0, 3), reads and self.rng.random() < .5, self.rng.random() < .5, self.rng.random() < .3
        carried = [self.rng.choice(reads) if carries else tf.constant(0.) for _ in range(2)]

        def condition(i, h, *_):
            with tf.control_dependencies([self.write(h)] if writes else []):
                return i < turns

        def turn(i, h, s, t):
            h = self.block(depth + 1, h, reads + ([s, t] if carries else []), i)
            with tf.control_dependencies([h] if self.rng.random() < .2 else []):
                return (i + 1, h, t, s) if swaps else (i + 1, h, s, t)
        with tf.control_dependencies([h] if self.rng.random() < .2 else []):
            start = (tf.constant(0), h, *carried)
        _, h, *carried = tf1.while_loop(condition, turn, start, parallel_iterations=self.rng.choice([1, 10]))
        return h, reads + (carried if carries else [])

    def block(self, depth, h, reads, i=None):
        for _ in range(self.rng.randint(1, 4)):
            if self.left == 0:
                break
            self.left -= 1
            kind = self.rng.choice(["write", "write", "read", "read_now", "use", "use", "mix"] + (["cond", "loop", "loop"] if depth < DEEPEST else []))
            if kind == "write":
                h = self.behind(h, self.write(h))
            elif kind in ("read", "read_now"):
                with tf.control_dependencies([h] if kind == "read_now" else []):
                    reads = reads + [self.read()]
            elif kind == "use" and reads:
                h = self.use(h, self.rng.choice(reads))
            elif kind == "mix":
                h = tf.tanh(h @ self.w)
            elif kind == "cond":
                inner = lambda h=h, reads=reads: self.block(depth + 1, h, reads, i)
                h = tf1.cond(self.predicate(h, i), inner, inner)
            elif kind == "loop":
                h, reads = self.loop(depth, h, reads)
        return h


def _case(seed):
    @old_control_flow
    def build():
        rng = random.Random(seed)
        step = tf1.get_variable("step", initializer=0, trainable=False, use_resource=True)
        x = tf1.placeholder(tf.float32, [2, 3], "x")
        w = tf1.get_variable("w", initializer=numbers(3, 3, seed=3), use_resource=False)
        now = tf.identity(step)
        program = _Program(seed, w, now)
        h = program.block(0, x @ w, [program.read()] if rng.random() < .6 else [])
        loss = tf.reduce_mean(h ** 2)
        train = tf1.train.GradientDescentOptimizer(.1).minimize(loss) if rng.random() < .5 else tf.no_op()
        with tf.control_dependencies([now, h]):
            train = tf.group(train, tf1.assign_add(step, 1))
        return Net(loss, train, {"x": numbers(2, 3)}, (h,))
    return build


def cases():
    for seed in range(CASES):
        yield f"program_{seed}", _case(seed)
