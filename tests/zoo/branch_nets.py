"""Conditionals of TensorFlow 1, Switch and Merge: schedules, training flags, guarded assertions, updates now and then."""
import numpy as np
import tensorflow as tf

from zoo import Net

tf1 = tf.compat.v1


def old_control_flow(case):
    """The case's graph is built with Switch and Merge."""
    def build():
        on = tf1.control_flow_v2_enabled()
        tf1.disable_control_flow_v2()
        try:
            return case()
        finally:
            if on:
                tf1.enable_control_flow_v2()
    build.__name__ = case.__name__
    return build


def variable(name, shape, value=None, trainable=True, use_resource=True, dtype=tf.float32):
    initializer = tf1.random_normal_initializer(0, 0.3, seed=len(name)) if value is None else tf1.constant_initializer(value)
    return tf1.get_variable(name, shape, dtype, initializer, trainable=trainable, use_resource=use_resource)


def regression(use_resource=True):
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(6, 4)).astype(np.float32), "y": rng.normal(size=(6, 3)).astype(np.float32)}
    x, y = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    w = variable("w", [4, 3], use_resource=use_resource)
    return feeds, x, y, w


def schedule(use_resource=True):
    """Warm-up by cond, then cases of steps, inside of each other."""
    feeds, x, y, w = regression(use_resource)
    step = variable("step", [], 0, False, use_resource, tf.int32)
    loss = tf.reduce_mean(tf1.squared_difference(x @ w, y))
    late = lambda: tf1.case([(step < 2, lambda: tf.constant(0.1)), (step < 3, lambda: 0.05 * tf.reduce_sum(w) ** 2 + 0.01)],
                            default=lambda: tf.constant(0.01), exclusive=False)
    rate = tf1.cond(step < 1, lambda: 0.05 * tf.cast(step + 1, tf.float32), late)
    train = tf1.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
    return Net(loss, train, feeds, fetches=(tf.identity(rate, "rate"),), steps=5)


def schedule_of_references():
    return schedule(False)


def training_flag(flag=True):
    """Batch statistics or moving averages by a flag that is fed; the averages are updated in the branch."""
    feeds, x, y, w = regression()
    feeds["training"] = np.bool_(flag)
    training = tf1.placeholder(tf.bool, [], "training")
    mean, variance = variable("mean", [3], 0.0, False), variable("variance", [3], 1.0, False)
    h = x @ w

    def batch():
        now = tf.nn.moments(h, [0])
        with tf1.control_dependencies([mean.assign_sub(0.1 * (mean - now[0])), variance.assign(0.9 * variance + 0.1 * now[1])]):
            return tf.identity(now[0]), tf.identity(now[1])
    used = tf1.cond(training, batch, lambda: (tf.identity(mean), tf.identity(variance)))
    h = tf.nn.batch_normalization(h, *used, variable("beta", [3], 0.0), variable("gamma", [3], 1.0), 1e-3)
    h = tf1.cond(training, lambda: h * tf.constant([1.0, 0.0, 2.0]), lambda: h)
    loss = tf.reduce_mean(tf1.squared_difference(h, y))
    return Net(loss, tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss), feeds)


def inference_flag():
    return training_flag(False)


def guarded_assertions():
    """Assert of TensorFlow 1 is a cond around the assertion itself."""
    feeds, x, y, w = regression(False)
    loss = tf.reduce_mean(tf1.squared_difference(x @ w, y))
    checks = [tf1.Assert(tf.reduce_all(tf.abs(x) < 100), [x], summarize=3), tf1.assert_equal(tf.shape(x), tf.shape(x)),
              tf1.assert_less(loss, 1e6, data=[loss]), tf1.assert_rank(x, 2), tf1.assert_non_negative(tf.square(x))]
    with tf1.control_dependencies([c for c in checks if c is not None]):
        loss = tf.identity(loss)
    return Net(loss, tf1.train.AdamOptimizer(0.01).minimize(loss), feeds)


def now_and_then(use_resource=True):
    """Gradients add up, every second step they are applied and cleared; a slow copy follows every third one."""
    feeds, x, y, w = regression(use_resource)
    total = variable("total", [4, 3], 0.0, False, use_resource)
    slow = variable("slow", [4, 3], 0.0, False, use_resource)
    step = variable("step", [], 0, False, use_resource, tf.int32)
    loss = tf.reduce_mean(tf1.squared_difference(x @ w, y))
    (gradient,) = tf1.gradients(loss, [w])
    optimizer = tf1.train.AdamOptimizer(0.05)
    with tf1.control_dependencies([tf1.assign_add(total, gradient), tf1.assign_add(step, 1)]):
        def apply():
            with tf1.control_dependencies([optimizer.apply_gradients([(total.read_value(), w)])]):
                return tf.group(tf1.assign(total, tf.zeros_like(total)))
        applied = tf1.cond(tf.equal(step.read_value() % 2, 0), apply, tf.no_op)
    with tf1.control_dependencies([applied]):
        followed = tf1.cond(tf.equal(step.read_value() % 3, 0), lambda: tf.identity(tf1.assign(slow, 0.5 * (w.read_value() + slow))),
                           lambda: tf.identity(slow))
    return Net(loss, tf.group(followed), feeds, steps=6)


def references_now_and_then():
    return now_and_then(False)


def gradients_through():
    """Gradients of branches, nested, with a value that only one of them uses."""
    feeds, x, y, w = regression()
    v = variable("v", [3])
    h = x @ w
    deep = lambda: tf1.cond(tf.reduce_mean(y) > 0, lambda: tf.tanh(h) * v, lambda: tf.nn.relu(h))
    h2 = tf1.cond(tf.reduce_sum(x) > 1e3, lambda: h, deep)
    h3 = tf1.cond(tf.reduce_sum(h) > -1e3, lambda: tf.exp(-tf.square(h2)), lambda: h2 / 0.0)
    loss = tf.reduce_mean(tf1.squared_difference(h3, y))
    return Net(loss, tf1.train.RMSPropOptimizer(0.01).minimize(loss), feeds)


def critic_and_generator():
    """Two optimizers take turns."""
    feeds, x, y, w = regression(False)
    critic, step = variable("critic", [3, 1], use_resource=False), variable("step", [], 0, False, False, tf.int64)
    score, real = tf.reduce_mean((x @ w) @ critic), tf.reduce_mean(y @ critic)
    loss = score - real + tf.reduce_sum(tf.square(critic))
    make = tf1.train.RMSPropOptimizer(0.05)
    with tf1.control_dependencies([loss]):
        train = tf1.cond(tf.less(step % 3, 2), lambda: tf.group(make.minimize(loss, var_list=[critic])),
                         lambda: tf.group(make.minimize(-score, var_list=[w])))
    with tf1.control_dependencies([train]):
        return Net(loss, tf1.assign_add(step, 1).op, feeds, steps=5)


def steps_of_lengths():
    """An unrolled recurrent net with a length per sequence: states are kept by where and by cond."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(3, 5, 2)).astype(np.float32), "lengths": np.array([5, 2, 3], np.int32)}
    x, lengths = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    w, state, outputs = variable("w", [6, 4]), tf.zeros([3, 4]), []
    for time in range(5):
        def step():
            new = tf.tanh(tf.concat([x[:, time], state], 1) @ w)
            kept = tf.less(time, lengths)
            return tf1.where(kept, new, state), tf1.where(kept, new, tf.zeros_like(new))
        state, out = tf1.cond(tf.less(time, tf.reduce_max(lengths)), step, lambda: (state, tf.zeros([3, 4])))
        outputs.append(out)
    loss = tf.reduce_mean(tf.square(tf.stack(outputs, 1))) + tf.reduce_mean(state)
    return Net(loss, tf1.train.AdagradOptimizer(0.1).minimize(loss), feeds)


def cases():
    return [(f.__name__, old_control_flow(f)) for f in (
        schedule, schedule_of_references, training_flag, inference_flag, guarded_assertions, now_and_then,
        references_now_and_then, gradients_through, critic_and_generator, steps_of_lengths)]
