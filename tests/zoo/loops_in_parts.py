"""Random loops of TensorFlow 1 whose variables begin one after another, each with what an earlier one left the loop with; with what the turns
of earlier ones made, writes of reference variables in each, reads of them behind, and loops in them."""
import random

import tensorflow as tf

from guest_parts import numbers, tf1
from zoo import Net

CASES = 40
raw = tf.raw_ops


def _in_turn(value, after):
    """A constant of the turn that `after` is in."""
    with tf.control_dependencies([after]):
        return tf.constant(value)


class _Loop:
    def __init__(self, name, turns, constant=tf.constant):
        self.name = name
        one, end = (self.enter(constant(number), is_constant=True) for number in (1, turns))
        count, _ = self.begin(constant(0), lambda merged: raw.LoopCond(input=raw.Less(x=merged, y=end)))
        self.end(count, raw.AddV2(x=count[1], y=one))

    def enter(self, value, is_constant=False, op=raw.Enter):
        return op(data=value, frame_name=self.name, is_constant=is_constant, parallel_iterations=32)

    def begin(self, value, condition=None):
        """A variable, and what it is in a turn."""
        entered = self.enter(value)
        merge = raw.Merge(inputs=[entered, entered]).output
        if condition:
            self.goes_on = condition(merge)
        switch = raw.Switch(data=merge, pred=self.goes_on)
        variable = (merge, tf.identity(switch.output_true), switch.output_false)
        return variable, variable[1]

    def end(self, variable, value):
        variable[0].op._update_input(1, raw.NextIteration(data=value))  # pylint: disable=protected-access
        return raw.Exit(data=variable[2])


def _written(rng, loop, counter, read, v):
    """v, behind a write in its turn."""
    with tf.control_dependencies([v]):
        amount = tf.constant(1.) if rng.random() < .5 else tf.reduce_mean(v, _in_turn([0, 1], v)) * tf.constant(.1)
    # pylint: disable-next=protected-access
    added = raw.AssignAdd(ref=loop.enter(counter._ref(), is_constant=True, op=raw.RefEnter), value=amount)
    kind = rng.randrange(3)
    with tf.control_dependencies([added]):
        v = v + _in_turn(.01, v) * tf.identity(added) if kind == 0 else tf.identity(v) if kind == 1 else v * tf.constant(.9)
    return v + _in_turn(.05, v) * loop.enter(read, is_constant=True) if rng.random() < .5 else v


def _case(seed):
    def build():
        rng = random.Random(seed)
        x = tf1.placeholder(tf.float32, [2, 3], "x")
        counters = [tf1.get_variable(f"count_{i}", initializer=.5 + i, trainable=False, use_resource=False) for i in range(6)]
        free = [(counter, counter.value()) for counter in counters]
        loops = [(_Loop(f"loop_{k}", rng.randint(0, 3)), []) for k in range(rng.randint(1, 3))]
        left = [x]
        for number in range(rng.randint(2, 6)):
            loop, made = rng.choice(loops)
            start = rng.choice(left[-2:])
            kind = rng.randrange(3)
            if kind == 0:
                start = tf.tanh(start)
            elif kind == 1:
                with tf.control_dependencies([start]):
                    start = tf.identity(x * .3)
            variable, v = loop.begin(start)
            if made and rng.random() < .8:
                v = v + rng.choice(made) * _in_turn(.5, v)
            counter, read = free.pop() if rng.random() < .6 else (None, None)
            if counter is not None:
                v = _written(rng, loop, counter, read, v)
            if rng.random() < .3:
                inner = _Loop(f"{loop.name}/inner_{number}", rng.randint(0, 2), lambda value, v=v: _in_turn(value, v))
                inside, b = inner.begin(v)
                if made and rng.random() < .7:
                    b = b + inner.enter(rng.choice(made), is_constant=True) * _in_turn(.3, b)
                v = inner.end(inside, tf.tanh(b))
            made.append(tf.tanh(v))
            out = loop.end(variable, made[-1])
            if counter is not None and rng.random() < .6:
                with tf.control_dependencies([out]):
                    out = out + .1 * raw.Neg(x=read)
            left.append(out)
        loss = tf.reduce_mean(tf.add_n(left) ** 2)
        return Net(loss, tf.group(*left), {"x": numbers(2, 3)}, tuple(tf.identity(value) for value in left[1:]))
    return build


def cases():
    for seed in range(CASES):
        yield f"program_{seed}", _case(seed)
