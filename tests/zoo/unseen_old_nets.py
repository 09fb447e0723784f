"""Habits of TensorFlow 1 that no other family has: references through frames and branches, tables over parts, loops that
grow, fed iterators, second derivatives of reference variables."""
import numpy as np
import tensorflow as tf

from branch_nets import old_control_flow, variable
from world_nets import integers, numbers
from zoo import Net

tf1 = tf.compat.v1


def xy(rows=4):
    feeds = {"x": numbers(rows, 3), "y": numbers(rows, 3, seed=1)}
    return feeds, *(tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())


def sgd(loss, rate=0.1):
    return tf1.train.GradientDescentOptimizer(rate).minimize(loss)


def ref(name, shape, value=None, trainable=True):
    return variable(name, shape, value, trainable, use_resource=False) if value is not None else variable(name, shape, use_resource=False)


@old_control_flow
def references_in_branches():
    """A branch that assigns a reference, another that reads it: RefSwitch."""
    feeds, x, y = xy()
    w, count, held = ref("w", [3, 3]), ref("count", [], 0.0, False), ref("held", [3], 1.0, False)
    loss = tf.reduce_mean((x @ w * held - y) ** 2)
    train = sgd(loss)
    with tf.control_dependencies([train]):
        add = tf1.assign_add(count, 1.0)
        change = tf1.cond(tf.equal(tf.math.floormod(add, 2.0), 0.0), lambda: tf1.assign(held, held * 0.5 + 0.1),
                          lambda: tf.identity(held))
    return Net(loss, tf.group(train, change), feeds)


@old_control_flow
def references_in_frames():
    """A reference itself goes into a frame: RefEnter; scatter into it turn by turn."""
    feeds, x, y = xy()
    w, memory = ref("w", [3, 3]), ref("memory", [4, 3], 0.5, False)

    def body(i, h):
        with tf.control_dependencies([tf1.scatter_update(memory, i, tf.reduce_mean(h, 0) * 0.5)]):
            return i + 1, tf.tanh(h @ w) + tf.gather(memory, i)
    _, h = tf.while_loop(lambda i, h: i < 4, body, (0, x), parallel_iterations=1)
    loss = tf.reduce_mean((h - y) ** 2)
    return Net(loss, sgd(loss), feeds)


@old_control_flow
def references_behind_what_enters():
    """What is read before a loop and used in it is the memory of that moment: an update comes before what goes into the loop."""
    feeds, x, y = xy()
    w, u, count = ref("w", [3, 3]), ref("u", [3, 3]), ref("count", [], 0.0, False)
    first = sgd(tf.reduce_mean((x @ u - y) ** 2))
    with tf.control_dependencies([first, tf1.assign_add(count, 1.0)]):
        start = tf.tanh(x)

    def body(i, h):
        with tf.control_dependencies([h]):
            step = count * 0.1
        return i + 1, tf.tanh(h @ w + step * (h @ u))
    _, h = tf.while_loop(lambda i, h: i < 3, body, (0, start), parallel_iterations=1)
    with tf.control_dependencies([h]):
        after = count + 0.0
    loss = tf.reduce_mean((h - y) ** 2)
    return Net(loss, sgd(loss), feeds, fetches=(after,))


@old_control_flow
def references_behind_conditions():
    """A condition writes each time that it is asked; what comes after the loop finds the last of it."""
    feeds, x, y = xy()
    w, count = ref("w", [3, 3]), ref("count", [], 0.0, False)

    def goes_on(i, h):
        with tf.control_dependencies([h]):
            asked = tf1.assign_add(count, 1.0) + 0.0
        return tf.logical_and(i < 2, asked < 100.0)
    _, h = tf.while_loop(goes_on, lambda i, h: (i + 1, tf.tanh(h @ w)), (0, x), parallel_iterations=1)
    with tf.control_dependencies([h]):
        after = count + 0.0
    loss = tf.reduce_mean((h - y) ** 2)
    return Net(loss, sgd(loss), feeds, fetches=(after,))


def parted_tables():
    feeds = {"ids": integers(10, 7, dtype=np.int64), "y": numbers(7, 4)}
    ids, y = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    parts = [ref(f"p{i}", [4 if i == 0 else 3, 4]) for i in range(3)]
    e = tf1.nn.embedding_lookup(parts, ids, "mod") + tf1.nn.embedding_lookup(parts, ids, "div") * 0.5
    with tf1.variable_scope("q", partitioner=tf1.fixed_size_partitioner(2)):
        split = tf1.get_variable("split", [5, 4], initializer=tf1.constant_initializer(0.3), use_resource=False)
    loss = tf.reduce_mean((e + tf1.nn.embedding_lookup(split, ids % 5) + tf.reduce_mean(tf.convert_to_tensor(split), 0) - y) ** 2)
    return Net(loss, tf1.train.AdagradOptimizer(0.1).minimize(loss), feeds)


def second_derivatives():
    feeds, x, y = xy()
    w, u = ref("w", [3, 3]), ref("u", [3, 3])
    h = tf.nn.sigmoid(x @ w) @ u
    g = tf1.gradients(h, [x, w], grad_ys=y)
    loss = tf.reduce_mean((tf.norm(g[0], axis=1) - 1) ** 2) + tf.reduce_mean(g[1] ** 2) + tf1.losses.huber_loss(y, h)
    hv = tf1.gradients(tf1.gradients(loss, u)[0], u, tf.ones([3, 3]))[0]
    return Net(loss + 0.1 * tf.reduce_mean(tf.abs(hv)), tf1.train.AdamOptimizer(0.01).minimize(loss), feeds)


@old_control_flow
def growing_loop():
    """A state that grows by a row in every turn."""
    feeds, x, y = xy()
    w = ref("w", [3, 3])
    grow = lambda i, h: (i + 1, tf.concat([h, tf.tanh(h[-1:] @ w)], 0))
    _, h = tf.while_loop(lambda i, h: i < 4, grow, (0, x), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])))
    loss = tf.reduce_mean(h ** 2) + tf.reduce_mean((x @ w - y) ** 2)
    return Net(loss, sgd(loss), feeds)


@old_control_flow
def case_of_steps():
    feeds, x, y = xy()
    w = ref("w", [3, 3])
    step = tf1.train.get_or_create_global_step()
    rate = tf1.case([(tf.less(step, 1), lambda: tf.constant(0.1)), (tf.less(step, 2), lambda: tf.constant(0.05))], default=lambda: tf1.train.exponential_decay(0.1, step, 2, 0.5), exclusive=False)
    loss = tf.reduce_mean((x @ w - y) ** 2)
    grads = tf1.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)
    gv = [(tf.clip_by_norm(g, 0.5), v) for g, v in grads.compute_gradients(loss)]
    return Net(loss, grads.apply_gradients(gv, global_step=step), feeds)


@old_control_flow
def scheduled_sampling():
    """A decoder that takes its own word or the teacher's, by random numbers, with TensorArrays and a branch."""
    feeds = {"words": integers(5, 6, 4), "h": numbers(4, 6)}
    words, h0 = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    table, w, out = ref("table", [5, 6]), ref("w", [12, 6]), ref("out", [6, 5])
    given = tf.TensorArray(tf.int32, 6).unstack(words)

    def body(t, h, own, logits):
        word = tf1.cond(t > 0, lambda: tf1.where(tf1.random_uniform([4], seed=t0) < 0.5, own, given.read(t - 1)), lambda: tf.zeros([4], tf.int32))
        h = tf.tanh(tf.concat([tf.nn.embedding_lookup(table, word), h], 1) @ w)
        score = h @ out
        return t + 1, h, tf.argmax(score, 1, tf.int32), logits.write(t, score)
    t0 = 5
    _, _, _, logits = tf.while_loop(lambda t, *_: t < 6, body, (0, h0, tf.zeros([4], tf.int32), tf.TensorArray(tf.float32, 6)), parallel_iterations=1)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=words, logits=logits.stack()))
    return Net(loss, sgd(loss, 0.3), feeds)


def descended(optimizer):
    feeds, x, y = xy()
    w, u = ref("w", [3, 3]), ref("u", [3, 3])
    loss = tf.reduce_mean((tf.tanh(x @ w) @ u - y) ** 2)
    return feeds, w, u, loss, optimizer.minimize(loss)


@old_control_flow
def averages_of_references():
    """The averages come after the update, and follow it."""
    feeds, w, u, loss, train = descended(tf1.train.AdamOptimizer(0.1))
    with tf.control_dependencies([train]):
        return Net(loss, tf1.train.ExponentialMovingAverage(0.5).apply([w, u]), feeds)


@old_control_flow
def clipped_references():
    feeds, w, u, loss, train = descended(tf1.train.MomentumOptimizer(0.1, 0.9))
    with tf.control_dependencies([train]):
        return Net(loss, tf.group(*[tf1.assign(v, tf.clip_by_value(v, -0.1, 0.1)) for v in (w, u)]), feeds)


@old_control_flow
def fetched_references():
    """A fetch finds what the step leaves, a value computed before the update what was there."""
    feeds, w, u, loss, train = descended(tf1.train.AdamOptimizer(0.1))
    return Net(loss, train, feeds, fetches=(tf.reshape(w, [-1]), tf.identity(u, "uu"), w.value()))


def references_passed_on():
    """RefIdentity: what is read and written through it is the variable."""
    feeds, x, y = xy()
    w, count = ref("w", [3, 3]), ref("count", [], 1.0, False)
    same = tf.raw_ops.RefIdentity(input=count._ref())
    loss = tf.reduce_mean((x @ tf.raw_ops.RefIdentity(input=w._ref()) * same - y) ** 2)
    train = sgd(loss)
    with tf.control_dependencies([train]):
        return Net(loss, tf.raw_ops.AssignAdd(ref=same, value=0.5).op, feeds)


@old_control_flow
def newton():
    """A frame that ends by its own result, with its gradient."""
    feeds, x, y = xy()
    w = ref("w", [3, 3])
    target = tf.reduce_sum(tf.square(x @ w)) + 2.0
    _, root = tf.while_loop(lambda i, r: tf.abs(r * r - target) > 1e-3, lambda i, r: (i + 1, 0.5 * (r + target / r)), (0, target))
    loss = root + tf.reduce_mean((x @ w - y) ** 2)
    return Net(loss, sgd(loss), feeds)


def cases():
    return [(f.__name__, f) for f in (references_in_branches, references_in_frames, references_behind_what_enters, references_behind_conditions,
                                      averages_of_references, clipped_references, fetched_references, references_passed_on, newton, parted_tables,
                                      second_derivatives, growing_loop, case_of_steps, scheduled_sampling)]
