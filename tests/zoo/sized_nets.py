"""Sizes that follow from a step's own values and change from step to step: counts of positive numbers, durations that a net
predicts, rows for each expert in loops of their own, parts of different lengths put one behind the other, a variable's value."""
import numpy as np
import tensorflow as tf

from stranger_nets import fed, held, sgd, weight
from world_nets import numbers
from zoo import Net

tf1 = tf.compat.v1


def counted():
    """Shapes, depths, numbers of classes and parts that are counts of a product's positive numbers."""
    feeds, x = fed({"x": numbers(5, 4)})
    w = weight(shape=(4, 4))
    h = x @ w
    count = tf.reduce_sum(tf.cast(h > 0, tf.int32))
    noise = tf.random.stateless_normal([count, 4], [1, 2])
    most = tf.minimum(count, 6) + 1
    largest = tf.math.top_k(tf.reshape(h, [-1]), most)[0]
    classes, place = tf.unique(tf.argmax(h, 1))
    sums = tf.math.unsorted_segment_sum(h, place, tf.size(classes))
    parts = tf.split(tf.concat([h, h], 0), [count % 5, 10 - count % 5], 0)
    loss = tf.reduce_mean(noise @ w) + tf.reduce_mean(largest ** 2) + tf.reduce_mean(tf.linspace(0.0, 1.0, count + 1))
    loss += tf.reduce_mean(tf.one_hot(tf.argmax(h, 1), count + 2)) + tf.reduce_sum(tf.eye(most)[:1]) + tf.reduce_mean(sums ** 2)
    loss += tf.reduce_mean(parts[1] ** 2) + tf.reduce_mean(tf.sin(tf.range(tf.cast(count, tf.float32))))
    return Net(loss, sgd(loss, 1.0), feeds, fetches=(count, tf.shape(sums)), steps=4)


def size_of_a_variable():
    feeds, x = fed({"x": numbers(5, 4)})
    w, rows = weight(shape=(4, 4)), held("rows", np.int32(2))
    loss = 0.1 * tf.reduce_sum((tf.ones([rows, 4]) @ w) ** 2) + tf.reduce_mean((x @ w) ** 2)
    with tf.control_dependencies([sgd(loss)]):
        train = rows.assign_add(1)
    return Net(loss, train, feeds, steps=4)


def durations():
    """FastSpeech's length regulator: each frame is repeated as often as the net says."""
    feeds, x, y = fed({"x": numbers(2, 4, 3), "y": numbers(2, 9, 3, seed=1)})
    w, d = weight(shape=(3, 3)), weight("d", (3, 1), scale=1.0)
    logs = tf.squeeze(x @ d, -1)
    turns = tf.minimum(tf.cast(tf.round(tf.exp(logs)), tf.int32), 4)

    def spread(pair):
        frames, times = pair
        return tf.pad(tf.repeat(frames, times, axis=0)[:9], [[0, tf.maximum(0, 9 - tf.reduce_sum(times))], [0, 0]])[:9]
    h = tf.map_fn(spread, (x @ w, turns), dtype=tf.float32)
    rows = tf.repeat(tf.reshape(x @ w, [-1, 3]), tf.reshape(turns, [-1]), axis=0)
    padded = tf.RaggedTensor.from_row_lengths(rows, tf.reduce_sum(turns, 1)).to_tensor()
    loss = tf.reduce_mean((tf.reshape(h, [2, 9, 3]) - y) ** 2) + tf.reduce_mean(padded ** 2)
    loss += 0.1 * tf.reduce_mean((logs - tf.stop_gradient(tf.cast(turns, tf.float32))) ** 2)
    return Net(loss, sgd(loss, 0.02), feeds, fetches=(tf.shape(padded),), steps=4)


def experts_in_loops():
    """Each expert turns over its rows as often as it has some."""
    feeds, x = fed({"x": numbers(8, 4)})
    gate, experts = weight("gate", (4, 3)), weight("experts", (3, 4, 4))
    logits = x @ gate
    best = tf.argmax(logits, 1, output_type=tf.int32)
    parts, places = tf.dynamic_partition(x, best, 3), tf.dynamic_partition(tf.range(8), best, 3)

    def expert(number, rows):
        turn = lambda i, h: (i + 1, tf.tanh(h @ experts[number]))
        shapes = (tf.TensorShape([]), tf.TensorShape([None, 4]))
        return tf.while_loop(lambda i, h: i < tf.shape(h)[0], turn, (0, rows), shape_invariants=shapes)[1]
    out = tf.dynamic_stitch(places, [expert(e, rows) for e, rows in enumerate(parts)])
    out *= tf.reduce_max(tf.nn.softmax(logits), 1, keepdims=True)
    loss = tf.reduce_mean((out - x) ** 2)
    return Net(loss, sgd(loss, 1.0), feeds, fetches=tuple(tf.shape(rows) for rows in parts), steps=4)


def attention_over_found():
    """Attention over the frames that a gate lets through, few of them: kernels for short sides take scratch of their own."""
    feeds, x = fed({"x": numbers(2, 12, 3)})
    h = x @ weight("a", (3, 4))
    gates = tf.sigmoid(tf.squeeze(h @ weight("h", (4, 1)), -1))
    found = tf.where(gates > 0.5)
    rows = tf.RaggedTensor.from_value_rowids(tf.gather_nd(h, found), found[:, 0], nrows=2).to_tensor()
    loss = tf.reduce_mean((tf.nn.softmax(rows @ tf.transpose(rows, [0, 2, 1])) @ rows) ** 2) + tf.reduce_mean(gates)
    return Net(loss, sgd(loss, 0.05), feeds)


def parts_of_many_lengths():
    """Slices of fed lengths, written to an array in a loop, put one behind the other and taken apart again."""
    feeds, x, lengths = fed({"x": numbers(7, 4), "lengths": np.array([2, 0, 4, 1], np.int32)})
    w = weight(shape=(4, 4))
    begins = tf.concat([[0], tf.cumsum(lengths)], 0)
    parts = tf.TensorArray(tf.float32, 4, infer_shape=False, element_shape=tf.TensorShape([None, 4]))

    def turn(i, parts):
        return i + 1, parts.write(i, tf.tanh(x[begins[i]:begins[i + 1]] @ w) * tf.cast(i + 1, tf.float32))
    whole = tf.while_loop(lambda i, _: i < 4, turn, (0, parts))[1].concat()
    again = tf.TensorArray(tf.float32, 4, infer_shape=False).split(whole, lengths)
    loss = tf.reduce_mean((whole - x) ** 2) + tf.reduce_sum(again.read(2) ** 2) + tf.reduce_sum(again.read(0))
    return Net(loss, sgd(loss), feeds)


def in_frames(case):
    """With control flow of TensorFlow 1."""
    def built():
        tf1.disable_control_flow_v2()
        try:
            return case()
        finally:
            tf1.enable_control_flow_v2()
    return built


def cases():
    for case in (counted, size_of_a_variable, durations, experts_in_loops, attention_over_found, parts_of_many_lengths):
        yield case.__name__, case
    for case in (durations, experts_in_loops, parts_of_many_lengths):
        yield f"{case.__name__}_in_frames", in_frames(case)
