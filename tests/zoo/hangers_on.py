"""What hangs around in real graphs beside the computation: summaries, assertions, prints, checks, savers, counters."""
import numpy as np
import tensorflow as tf

from zoo import Net

tf1 = tf.compat.v1


def feeds():
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(8, 6)).astype(np.float32), "labels": rng.integers(0, 3, 8).astype(np.int32)}


def small_net():
    x = tf1.placeholder(tf.float32, [8, 6], "x")
    labels = tf1.placeholder(tf.int32, [8], "labels")
    w = tf1.get_variable("w", [6, 3], initializer=tf1.glorot_normal_initializer(seed=1), use_resource=True)
    b = tf1.get_variable("b", [3], initializer=tf1.zeros_initializer(), use_resource=False)
    logits = x @ w + b
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return x, labels, w, logits, loss


def train(loss, after=()):
    with tf1.control_dependencies(list(after)):
        return tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_or_create_global_step())


def summaries():
    x, labels, w, logits, loss = small_net()
    tf1.summary.scalar("curve", loss)
    tf1.summary.histogram("w", w)
    tf1.summary.image("x", tf.reshape(x, [8, 2, 3, 1]))
    tf1.summary.text("note", tf.as_string(labels))
    tf1.summary.audio("sound", tf.reshape(x, [8, 6]), 8000)
    merged = tf1.summary.merge_all()
    return Net(loss, tf.group(train(loss), merged), feeds())


def assertions():
    x, labels, w, logits, loss = small_net()
    checks = [tf1.assert_equal(tf.shape(x)[0], 8), tf1.assert_less(labels, 3), tf1.assert_non_negative(labels),
              tf1.assert_greater_equal(tf.reduce_max(logits), tf.reduce_min(logits), message="order"),
              tf1.assert_rank(x, 2), tf1.assert_type(x, tf.float32), tf1.assert_none_equal(labels, 7),
              tf1.Assert(tf.reduce_all(tf.math.is_finite(logits)), [logits, "logits", tf.shape(logits)]),
              tf1.assert_near(x, x + 1e-9), tf1.assert_integer(labels), tf1.assert_positive(tf.abs(loss) + 1)]
    return Net(loss, train(loss, [c for c in checks if c is not None]), feeds())


def prints():
    x, labels, w, logits, loss = small_net()
    loss = tf1.Print(loss, [loss, tf.argmax(logits, 1)], "loss: ", first_n=1)
    shown = tf.print("step", tf.reduce_sum(x), logits[:1], summarize=2)
    return Net(loss, train(loss, [shown]), feeds())


def numeric_checks():
    x, labels, w, logits, loss = small_net()
    loss = tf.debugging.check_numerics(loss, "loss")
    everything = tf1.add_check_numerics_ops()
    return Net(loss, train(loss, [everything, tf1.verify_tensor_all_finite(logits, "logits")]), feeds())


def metrics():
    """tf.metrics in the step: local variables, confusion matrices, thresholds."""
    x, labels, w, logits, loss = small_net()
    guesses = tf.argmax(logits, 1)
    updates = [tf1.metrics.accuracy(labels, guesses)[1], tf1.metrics.mean(loss)[1],
               tf1.metrics.recall(tf.equal(labels, 1), tf.equal(guesses, 1))[1],
               tf1.metrics.precision(tf.equal(labels, 1), tf.equal(guesses, 1))[1],
               tf1.metrics.mean_squared_error(tf.one_hot(labels, 3), logits)[1],
               tf1.metrics.mean_iou(labels, guesses, 3)[1], tf1.metrics.auc(tf.equal(labels, 1), tf.sigmoid(logits[:, 1]))[1],
               tf1.metrics.root_mean_squared_error(tf.one_hot(labels, 3), logits)[1]]
    confusion = tf.math.confusion_matrix(labels, guesses, 3)
    top = tf.reduce_mean(tf.cast(tf.math.in_top_k(labels, logits, 2), tf.float32), name="top")
    return Net(loss, tf.group(train(loss), *updates), feeds(), fetches=(confusion, top))


def saver_and_queue_names():
    """A saver's nodes are in the graph but not needed; so are initialisers of other variables and a counter."""
    x, labels, w, logits, loss = small_net()
    step = tf1.train.get_or_create_global_step()
    updated = train(loss)
    tf1.train.Saver()
    tf1.report_uninitialized_variables()
    tf.identity(step, "step_now")
    return Net(loss, updated, feeds())


def control_and_identity():
    """identity_n, custom gradients, recompute_grad, stop_gradient, no_op, tuple, group, colocation, device strings."""
    x, labels, w, logits, loss = small_net()

    @tf.custom_gradient
    def scaled(value):
        return value * 1.0, lambda upstream: 0.5 * upstream

    logits = scaled(logits)
    a, b = tf.identity_n([logits, tf.stop_gradient(logits)])
    with tf1.colocate_with(a):
        both = tf.tuple([a + b, tf.grad_pass_through(tf.round)(a)])
    with tf1.device("/cpu:0"):
        more = tf.reduce_mean(tf.square(both[0])) + tf.reduce_mean(tf.abs(both[1]))
    loss += 0.1 * more + 0.0 * tf.cast(tf.size(x), tf.float32)
    return Net(loss, train(loss, [tf.no_op()]), feeds())


def shape_arithmetic():
    """Shapes computed in the graph: unknown batch, reshapes by -1, broadcasts to computed shapes, ranges of sizes."""
    x, labels, w, logits, loss = small_net()
    batch = tf.shape(x)[0]
    tiled = tf.tile(x[:, None], tf.stack([1, tf.maximum(2, batch // 4), 1]))
    flat = tf.reshape(tiled, tf.concat([[batch], [-1]], 0))
    mask = tf.sequence_mask(tf.range(batch) % 5, tf.shape(flat)[1])
    masked = tf.where(mask, flat, tf.zeros_like(flat))
    padded = tf.pad(masked, [[0, 0], [0, tf.math.floormod(-tf.shape(masked)[1], 8)]])
    wide = tf.broadcast_to(tf.reduce_mean(padded, 1, keepdims=True), tf.shape(logits))
    order = tf.argsort(tf.reduce_sum(logits, 1), direction="DESCENDING")
    loss += tf.reduce_mean(tf.square(tf.gather(logits, order) + wide)) * tf.cast(tf.size(x), tf.float32) * 1e-3
    return Net(loss, train(loss), feeds())


def array_ops():
    """A wide selection of array and math ops on the way to a loss, each with its gradient."""
    x, labels, w, logits, loss = small_net()
    y = tf.reverse(logits, [1]) + tf.roll(logits, 1, 0) + tf.cumsum(logits, 1) + tf.math.cumprod(logits * 0.1 + 1, 1)
    y += tf.einsum("ij,kj,kl->il", logits, logits, logits) * 0.01 + tf.sort(logits, 1) + tf.math.top_k(logits, 3)[0]
    y += tf.linalg.matmul(tf.linalg.band_part(tf.matmul(logits, logits, transpose_b=True), 1, 1), logits) * 0.01
    z = tf.concat([tf.math.segment_sum(logits, [0, 0, 1, 1, 2, 2, 2, 3]), tf.math.segment_mean(logits, [0, 0, 1, 1, 2, 2, 2, 3])], 0)
    y += z + tf.dynamic_stitch([[0, 2, 4, 6], [1, 3, 5, 7]], [logits[:4], logits[4:]])
    y += tf.tensor_scatter_nd_update(logits, [[1], [3]], logits[:2]) + tf.tensor_scatter_nd_add(logits, [[0, 1]], [1.0])
    y += tf.linalg.diag_part(tf.linalg.set_diag(tf.tile(logits[:, None], [1, 3, 1]), logits * 2))
    y += tf.math.erf(logits) + tf.math.atan2(logits, y) + tf.math.xlogy(tf.abs(logits), 2.0) + tf.math.expm1(logits * 0.1)
    y += tf.math.squared_difference(logits, 1.0) + tf.math.floormod(logits, 0.7) + tf.clip_by_value(logits, -0.5, 0.5)
    y += tf.math.reduce_prod(logits * 0.1 + 1, 1, keepdims=True) + tf.math.reduce_std(logits, 0) + tf.math.reduce_euclidean_norm(logits, 1, keepdims=True)
    y += tf.image.extract_patches(tf.reshape(logits, [1, 8, 3, 1]), [1, 1, 1, 1], [1, 1, 1, 1], [1] * 4, "SAME")[0, :, :, 0]
    y += tf.gather(logits, [[0, 1, 2]] * 8, axis=1, batch_dims=1) + tf.transpose(tf.transpose(logits)) + tf.repeat(logits[:4], 2, 0)
    y += tf.unstack(tf.stack([logits, logits * 2], 1), axis=1)[1] + tf.math.accumulate_n([logits, logits])
    y += tf.nn.l2_normalize(logits, 1) + tf.nn.crelu(logits)[:, :3] + tf.nn.log_softmax(logits, 0) + tf.nn.swish(logits)
    y += tf.math.pow(tf.abs(logits) + 0.1, 1.5) + tf.math.sinh(logits) + tf.math.asinh(logits) + tf.math.log_sigmoid(logits)
    y += tf.strided_slice(tf.pad(logits, [[1, 1], [1, 1]], "REFLECT"), [1, 1], [9, 4]) + tf.pad(logits, [[0, 0], [0, 0]], "SYMMETRIC")
    loss += 1e-3 * tf.reduce_mean(tf.square(y)) + 1e-3 * tf.reduce_mean(tf.math.cumulative_logsumexp(logits, 1))
    return Net(loss, train(loss), feeds())


def cases():
    return [(f.__name__, f) for f in (summaries, assertions, prints, numeric_checks, metrics, saver_and_queue_names,
                                      control_and_identity, shape_arithmetic, array_ops)]
