"""Random programs whose branches, turns and functions change tables, queues and accumulators, and ask how much is in them: what they do
must be done as often, and seen as late, as in TensorFlow. Of TensorFlow 1, where nobody may wait for it, and of TensorFlow 2."""
import numpy as np
import tensorflow as tf

import random_effects
import unread_effects
from branch_nets import old_control_flow
from guest_parts import numbers, tf1
from zoo import Net

CASES = 40


class _OldProgram(unread_effects._Program):
    """Counts are how much is in a resource after one more was put there."""

    def __init__(self, seed, step):
        super().__init__(seed, step)
        self.free = [self._table, self._queue, self._accumulator, self._table, self._queue]

    def _table(self):
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.)
        return lambda: table.insert(tf.reshape(table.size(), [1]), tf.ones([1])), table.size

    def _queue(self):
        queue = tf1.FIFOQueue(500, [tf.int64], [[]])
        return lambda: queue.enqueue(tf.cast(self.step, tf.int64)), queue.size

    def _accumulator(self):
        accumulator = tf1.ConditionalAccumulator(tf.float32, [2])
        return lambda: accumulator.apply_grad(tf.ones([2]), local_step=tf.cast(self.step, tf.int64)), accumulator.num_accumulated

    def count(self, h, counted):
        if not self.free:
            return h, counted
        with tf.init_scope():
            put, size = self.free.pop()()
        with tf.control_dependencies([h] if self.rng.random() < .5 else []):
            done = put()
        with tf.control_dependencies([done]):
            added = tf.cast(size(), tf.float32)
        kind = self.rng.randrange(4)
        if kind == 0:  # the rows wait for it
            with tf.control_dependencies([done]):
                return tf.identity(h), counted
        if kind == 1:  # the rows follow from it
            return h + .01 * added, counted
        return (h, added) if kind == 2 else (h, counted)  # the count is it; nobody takes it


def _old_case(seed):
    def build():
        step = tf1.get_variable("step", initializer=tf.constant(0), trainable=False, use_resource=True)
        x = tf1.placeholder(tf.float32, [2, 3], "x")
        now = tf.identity(step)
        h, counted = _OldProgram(seed, now).block(0, x, tf.constant(0.))
        loss = tf.reduce_mean(h ** 2) + counted
        with tf.control_dependencies([now, loss]):
            train = tf.group(tf1.assign_add(step, 1))
        return Net(loss, train, {"x": numbers(2, 3)}, (h,), steps=4)
    build.__name__ = f"old_{seed}"
    return old_control_flow(build)


class _Program(random_effects._Program):
    """Beside variables; keys follow from values, so that some are there already."""

    def __init__(self, seed, variables, step, table, queue):
        super().__init__(seed, variables, step, loops=True)
        self.table, self.queue = table, queue

    def act(self, kind, depth, values):
        value = self.rng.choice(values)
        keys = tf.cast(tf.floor(4. * value), tf.int64)
        acts = {"assign": lambda: self.table.insert(keys, value), "add": lambda: self.table.insert(keys, value + 1.),
                "subtract": lambda: self.table.remove(keys), "scatter": lambda: self.queue.enqueue(keys[0]),
                "read": lambda: self._read(values, value, keys)}
        if kind in acts and self.rng.random() < .7:
            acts[kind]()
        else:
            super().act(kind, depth, values)

    def _read(self, values, value, keys):
        kind = self.rng.randrange(3)
        if kind == 0:
            values.append(self.table.lookup(keys))
        else:
            size = self.table.size() if kind == 1 else self.queue.size()
            values.append(value + .1 * tf.cast(size, tf.float32))


def _case(seed):
    def build():
        variables = [tf1.get_variable(f"v{i}", initializer=tf.constant([.1 * i + .2, .1 - .3 * i]), use_resource=True) for i in range(2)]
        count = tf1.get_variable("count", initializer=tf.constant(0, tf.int64), trainable=False, use_resource=True)
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.)
        queue = tf1.FIFOQueue(500, [tf.int64], [[]])

        @tf.function
        def step(x):
            program = _Program(seed, variables, count.read_value(), table, queue)
            loss = tf.reduce_sum(program.block(0, [x + tf.cast(count, tf.float32)]))
            count.assign_add(1)
            return loss + .001 * tf.reduce_sum(variables[0]) + tf.cast(table.size() + tf.cast(queue.size(), tf.int64), tf.float32)
        loss = step(tf1.placeholder(tf.float32, [2], "x"))
        return Net(loss, tf.group(loss), {"x": np.array([.3, -.7], np.float32)}, steps=4)
    build.__name__ = f"program_{seed}"
    return build


def cases():
    for seed in range(CASES):
        yield f"old_{seed}", _old_case(seed)
        yield f"program_{seed}", _case(seed)
