"""Many sizes of a step's own in one step: rows of each image in a loop, rows kept by turns that follow from each other, boxes that
pass a threshold, sequences cut where a gate says so; what a wrong size makes of indices, lists and sums counts for nothing."""
import numpy as np
import tensorflow as tf

from world_nets import numbers
from zoo import eager, function_net

TURNS = 24


def _case(forward, shape=(6, 5, 3), steps=4, rate=0.3):
    """forward(w, x): w is 3 x 3, and moves enough for other sizes in each step."""
    def build():
        w = tf.Variable(numbers(3, 3, seed=3), name="w")

        def step(x):
            with tf.GradientTape() as tape:
                loss, counts = forward(w.read_value(), x)
            gradient = tape.gradient(loss, w)
            w.assign_sub(rate * tf.clip_by_value(gradient, -1.0, 1.0) + 0.05)
            return loss, counts
        return function_net(step, {"x": numbers(*shape)}, steps=steps)
    return eager(build)


def _each_image(w, x):
    def image(rows):
        h = rows @ w
        kept = tf.boolean_mask(h, h[:, 0] > 0.1)
        return tf.reduce_sum(tf.tanh(kept) ** 2), tf.shape(kept)[0]
    sums, counts = tf.map_fn(image, x, fn_output_signature=(tf.float32, tf.int32))
    return tf.reduce_mean(sums), counts


def _many_turns(w, x):
    rows, loss, counts = x[0] @ w, 0.0, []
    for turn in range(TURNS):
        chosen = tf.boolean_mask(rows, tf.sin(rows[:, turn % 3] * (turn + 1)) > 0)
        loss += tf.reduce_sum(chosen ** 2) / (turn + 1)
        counts.append(tf.shape(chosen)[0])
    return loss, tf.stack(counts)


def _fewer_and_fewer(w, x):
    rows, loss, counts = tf.reshape(x, [-1, 3]) @ w, 0.0, []
    for turn in range(8):
        rows = tf.boolean_mask(rows, rows[:, turn % 3] > -0.5 - 0.2 * turn)
        loss += tf.reduce_sum(tf.tanh(rows))
        counts.append(tf.shape(rows)[0])
    return loss, tf.stack(counts)


def _rows_by_number(w, x):
    h, loss, counts = tf.reshape(x, [-1, 3]) @ w, 0.0, []
    for column in range(3):
        places = tf.where(h[:, column] > 0)[:, 0]
        last = tf.shape(places)[0] - 1
        chosen = tf.gather(h, places)
        loss += tf.reduce_sum(chosen[last // 2] ** 2) + tf.reduce_sum(tf.gather(chosen, tf.range(last + 1) // 2))
        counts.append(last)
    return loss, tf.stack(counts)


def _counts_as_sizes(w, x):
    loss, counts = 0.0, []
    for image in range(6):
        h = x[image] @ w
        n = tf.reduce_sum(tf.cast(h > 0, tf.int32)) + 1
        noise = tf.random.stateless_normal(tf.stack([n, 3]), [image, 2])
        loss += tf.reduce_mean(tf.matmul(noise, w) ** 2) + tf.reduce_sum(tf.fill([n, 2], h[0, 0])) / tf.cast(n, tf.float32)
        counts.append(n)
    return loss, tf.stack(counts)


def _boxes(w, x):
    def image(rows):
        h = rows @ w
        scores = tf.sigmoid(h[:, 2])
        found = tf.where(scores > 0.4)
        boxes = tf.gather_nd(h[:, :2], found)
        order = tf.argsort(tf.gather_nd(scores, found), direction="DESCENDING", stable=True)
        best = tf.gather(boxes, order)[:2]
        return tf.reduce_sum(best ** 2) + tf.reduce_sum(tf.abs(boxes)), tf.shape(boxes)[0]
    sums, counts = tf.map_fn(image, x, fn_output_signature=(tf.float32, tf.int32))
    return tf.reduce_mean(sums), counts


def _groups(w, x):
    h = tf.reshape(x, [-1, 3]) @ w
    parts = tf.dynamic_partition(h, tf.cast(tf.argmax(h, 1), tf.int32), 3)
    loss, counts = 0.0, []
    for expert, part in enumerate(parts):
        values, place = tf.unique(tf.cast(part[:, 0] * 3, tf.int32))
        loss += tf.reduce_sum(tf.math.unsorted_segment_sum(part @ w, place, tf.size(values)) ** 2) / (expert + 1)
        counts += [tf.shape(part)[0], tf.size(values)]
    return loss, tf.stack(counts)


def _cut_where_a_gate_says(w, x):
    rows = tf.reshape(x, [-1, 3]) @ w
    cuts = tf.where(rows[:, 1] > 0.3)[:, 0]
    starts = tf.concat([tf.zeros([1], tf.int64), cuts + 1], 0)
    lengths = tf.concat([cuts + 1, [30]], 0) - starts
    pieces = tf.RaggedTensor.from_row_lengths(rows, lengths)
    sums = tf.reduce_sum(pieces, axis=1)
    padded = pieces.to_tensor()
    return tf.reduce_sum(sums ** 2) + tf.reduce_sum(tf.reduce_max(padded, 1)), tf.shape(padded)[:2]


def cases():
    for forward in (_each_image, _many_turns, _fewer_and_fewer, _rows_by_number, _counts_as_sizes, _boxes, _groups, _cut_where_a_gate_says):
        yield forward.__name__[1:], _case(forward)
    yield "sixty_images", _case(_each_image, shape=(60, 5, 3))
