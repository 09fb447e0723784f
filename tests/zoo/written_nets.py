"""Steps as people write them in tf.function: Python's loops and breaks turned into graphs, arrays that grow, gradients of
one's own, checks on the way."""
import numpy as np
import tensorflow as tf

from zoo import eager, function_net

F32 = np.float32


def numbers(*shape, seed=1, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(F32)


def descend(loss_of, feeds, variables, rate=0.05, **more):
    """Gradient descent on eager variables of the given first values."""
    def build():
        made = {name: tf.Variable(value, name=name) for name, value in variables.items()}

        def step(**values):
            with tf.GradientTape() as tape:
                loss = loss_of(made, **values)
            for variable, gradient in zip(made.values(), tape.gradient(loss, list(made.values()))):
                if gradient is not None and variable.dtype.is_floating:
                    variable.assign_sub(rate * tf.convert_to_tensor(gradient))
            return loss
        return function_net(step, feeds, **more)
    return eager(build)


def early_break(v, x, y):
    h = x
    for i in tf.range(6):
        h = tf.tanh(h @ v["w"])
        if tf.reduce_mean(h * h) < 0.2:
            break
    return tf.reduce_mean((h - y) ** 2)


def skipped_turns(v, x, y):
    total = tf.zeros_like(x)
    for i in tf.range(5):
        if i % 2 == 1:
            continue
        total += tf.sin(x @ v["w"] * tf.cast(i, tf.float32))
    return tf.reduce_mean((total - y) ** 2)


def break_beside_a_loop(v, x, y):
    h = x
    for i in tf.range(5):
        if tf.reduce_sum(h * h) > 50.0:
            break
        h += tf.cast(i, tf.float32) * tf.tanh(h @ v["w"])
        n = 0
        while n < i:
            h = tf.sin(h)
            n += 1
    return tf.reduce_mean((h - y) ** 2)


def while_of_values(v, x, y):
    h, n = x, tf.constant(0)
    while tf.norm(h) > 1.0 and n < 8:
        h = 0.7 * tf.tanh(h @ v["w"])
        n += 1
    return tf.reduce_mean((h - y) ** 2) + 0.01 * tf.cast(n, tf.float32)


def growing_array(v, x, y):
    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
    h = tf.zeros([3])
    for row in x:
        h = tf.tanh(tf.linalg.matvec(v["w"], row) + h)
        rows = rows.write(rows.size(), h)
    return tf.reduce_mean((rows.stack() - y) ** 2)


def nested_python_loops(v, x, y):
    total = tf.constant(0.0)
    for i in tf.range(2):
        a = tf.cast(i + 1, tf.float32)
        for j in tf.range(i + 1):
            if tf.reduce_sum(x) * a > 0.5:
                total += tf.reduce_mean(tf.sin(x @ v["w"] * a))
            else:
                total -= tf.reduce_mean(tf.cos(x @ v["w"])) * tf.cast(j, tf.float32)
    return tf.reduce_mean((x @ v["w"] - y) ** 2) + total


def own_gradient_with_variables(v, x, y):
    @tf.custom_gradient
    def layer(a):
        out = tf.tanh(a @ v["w"])

        def grad(g, variables=None):
            inner = g * (1.0 - out * out)
            return tf.clip_by_norm(inner @ tf.transpose(v["w"]), 1.0), [tf.clip_by_value(tf.transpose(a) @ inner, -0.1, 0.1)]
        return out, grad
    return tf.reduce_mean((layer(layer(x)) - y) ** 2)


def recomputed_blocks(v, x, y):
    block = tf.recompute_grad(lambda a: tf.tanh(a @ v["w"]) + a)
    return tf.reduce_mean((block(block(x)) - y) ** 2)


def vectorized(v, x, y):
    per_row = lambda row: tf.tanh(tf.linalg.matvec(v["w"], row)) * tf.reduce_max(row)
    return tf.reduce_mean((tf.vectorized_map(per_row, x) - y) ** 2)


def meta_learning(v, x, y):
    """A few inner steps whose gradient the outer one takes."""
    w = tf.identity(v["w"])
    for _ in range(3):
        with tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.reduce_mean((x @ w - y) ** 2)
        w = w - 0.1 * tape.gradient(loss, w)
    return tf.reduce_mean((x @ w - y) ** 2)


def looped_meta_learning(v, x, y):
    w = tf.identity(v["w"])
    for _ in tf.range(3):
        with tf.GradientTape() as tape:
            tape.watch(w)
            loss = tf.reduce_mean((tf.tanh(x @ w) - y) ** 2)
        w = w - 0.1 * tape.gradient(loss, w)
    return tf.reduce_mean((x @ w - y) ** 2)


def neural_ode(v, x, y):
    """Runge and Kutta's fourth order in a loop."""
    f = lambda h: tf.tanh(h @ v["w"])

    def turn(i, h):
        k1 = f(h)
        k2 = f(h + 0.1 * k1)
        k3 = f(h + 0.1 * k2)
        k4 = f(h + 0.2 * k3)
        return i + 1, h + 0.2 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return tf.reduce_mean((tf.while_loop(lambda i, h: i < 5, turn, (0, x), parallel_iterations=1)[1] - y) ** 2)


def hutchinson(v, x, y):
    """The trace of a Jacobian by a product with noise, as continuous flows have it."""
    noise = tf.random.stateless_normal(x.shape, [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = tf.tanh(x @ v["w"]) @ v["w"]
    trace = tf.reduce_sum(tape.gradient(h, x, noise) * noise, 1)
    return tf.reduce_mean(trace) + tf.reduce_mean((h - y) ** 2)


def checked_and_printed(v, x, y):
    tf.debugging.assert_shapes([(x, ("N", 3)), (y, ("N", 3))])
    tf.debugging.assert_all_finite(x, "x")
    h = tf.ensure_shape(x @ v["w"], [None, 3])
    tf.print("mean", tf.reduce_mean(h), output_stream="file:///dev/null")
    with tf.control_dependencies([tf.debugging.assert_less(tf.abs(h), 100.0)]):
        h = tf.debugging.check_numerics(tf.identity(h), "h")
    return tf.reduce_mean((h - y) ** 2)


def sparse_lookup(v, ids, splits, y):
    """Rows of a table averaged without looking up each first; their gradient by rows."""
    segments = tf.repeat(tf.range(4), splits[1:] - splits[:-1])
    mean = tf.raw_ops.SparseSegmentMean(data=v["table"], indices=ids, segment_ids=segments, sparse_gradient=True)
    more = tf.raw_ops.SparseSegmentSqrtN(data=v["table"], indices=ids, segment_ids=segments, sparse_gradient=True)
    return tf.reduce_mean((mean + tf.tanh(more) - y) ** 2)


def skip_gram(v, words, context):
    """Negative samples by how often words were counted."""
    h = tf.nn.embedding_lookup(v["table"], words)
    sampled = tf.random.fixed_unigram_candidate_sampler(context, 1, 6, True, 20, distortion=0.75, unigrams=[float(1 + k % 7) for k in range(20)], seed=4)
    return tf.reduce_mean(tf.nn.nce_loss(v["out"], v["bias"], context, h, 6, 20, sampled_values=sampled))


def retina(v, x, boxes, classes):
    """Anchors to objects by overlap, focal loss, suppressed boxes cropped for a second stage."""
    maps = tf.nn.conv2d(x, v["conv"], 2, "SAME")
    anchors = tf.reshape(tf.stack(tf.meshgrid(tf.linspace(0.1, 0.9, 4), tf.linspace(0.1, 0.9, 4)), -1), [-1, 2])
    anchors = tf.concat([anchors - 0.15, anchors + 0.15], -1)
    low, high = tf.maximum(anchors[:, None, :2], boxes[None, :, :2]), tf.minimum(anchors[:, None, 2:], boxes[None, :, 2:])
    area = lambda b: (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    inside = tf.reduce_prod(tf.maximum(high - low, 0.0), -1)
    overlap = inside / (area(anchors)[:, None] + area(boxes)[None] - inside)
    best = tf.argmax(overlap, -1)
    positive = tf.reduce_max(overlap, -1) > 0.1
    wanted = tf.where(positive, tf.gather(classes, best), 0)
    logits = tf.reshape(maps, [-1, 7])
    p = tf.nn.softmax(logits[:, :3])
    chosen = tf.gather(p, wanted, batch_dims=1)
    focal = -tf.reduce_sum((1.0 - chosen) ** 2 * tf.math.log(chosen + 1e-6)) / tf.maximum(1.0, tf.reduce_sum(tf.cast(positive, tf.float32)))
    deltas = tf.boolean_mask(logits[:, 3:] - tf.gather(boxes, best), positive)
    smooth = tf.where(tf.abs(deltas) < 1.0, 0.5 * deltas ** 2, tf.abs(deltas) - 0.5)
    keep = tf.image.non_max_suppression(tf.stop_gradient(anchors + 0.1 * logits[:, 3:]), tf.stop_gradient(p[:, 1]), 5, 0.5)
    crops = tf.image.crop_and_resize(maps, tf.gather(anchors, keep), tf.zeros_like(keep), [2, 2])
    return focal + tf.reduce_sum(smooth) + tf.reduce_mean(crops ** 2)


def scheduled_rate(v, x, y):
    """Warm-up and decay by cond on a counter of the step's own."""
    v["count"].assign_add(1.0)
    rate = tf.cond(v["count"] < 3.0, lambda: v["count"] / 3.0, lambda: tf.math.rsqrt(v["count"]))
    return rate * tf.reduce_mean((x @ v["w"] - y) ** 2)


def joined_rows(v, x, y):
    """Ragged rows put behind each other, taken by their numbers, filled up."""
    rows = tf.RaggedTensor.from_row_splits(x @ v["w"], [0, 1, 1, 4])
    both = tf.concat([rows, 2.0 * tf.gather(rows, [2, 0, 1])], 1)
    return tf.reduce_mean((tf.gather(both, [0, 2, 2]).to_tensor()[:, :4] - y) ** 2)


def modes_of_a_system(v, x, y):
    """How fast a linear system decays, by the eigenvalues of its matrix, which need not be real."""
    values, _ = tf.linalg.eig(v["w"])
    return tf.reduce_mean(tf.abs(values) ** 2) + tf.reduce_mean(tf.square(tf.math.real(values) + 1.0)) + tf.reduce_mean((x @ v["w"] - y) ** 2)


def complex_volumes(v, x, y):
    """Determinants and inverses of complex matrices, as normalising flows on phases have them."""
    m = tf.complex(v["w"] + 2.0 * tf.eye(3), 0.3 * tf.transpose(v["w"]))
    _, size = tf.linalg.slogdet(m)
    z = tf.linalg.inv(m) @ tf.complex(tf.transpose(x), tf.transpose(y))
    return tf.reduce_mean(tf.abs(z) ** 2) - 0.1 * tf.math.real(size)


def random_crops(v, x, y):
    """Crops of random size, rows in random order, successes counted at random."""
    picture = tf.reshape(tf.range(108.0) / 108.0, [6, 6, 3])
    boxes = tf.constant([[[0.1, 0.1, 0.7, 0.8]]])
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box([6, 6, 3], boxes, [3, 4], min_object_covered=0.3)
    crop = tf.image.resize(tf.slice(picture, begin, size)[None], [2, 2])
    rows = tf.gather(x @ v["w"], tf.random.experimental.stateless_shuffle(tf.range(4), [5, 6]))
    counts = tf.random.stateless_binomial([4, 3], [7, 8], 20.0, tf.sigmoid(tf.stop_gradient(rows)), output_dtype=tf.float32)
    return tf.reduce_mean((rows * tf.reduce_mean(crop) + 0.01 * counts - y) ** 2)


def draws_of_a_generator(v, x, y):
    """Draws that only control edges order, which tf.function adds: in functions, branches and turns, and some that nothing uses."""
    rng = tf.random.Generator(state=v["state"], alg="philox")
    draw = tf.function(lambda scale: scale * rng.normal([4, 3]) + rng.uniform([3]))
    late = draw(0.1)
    rng.uniform([7])
    early = rng.truncated_normal([4, 3])
    total = tf.cond(tf.reduce_sum(x) > 0.0, lambda: rng.normal([4, 3]) * rng.uniform([]), lambda: draw(0.3) - rng.uniform([4, 1]))
    for i in tf.range(3):
        total += rng.normal([4, 3]) * tf.cast(rng.uniform([4, 3], 0, i + 2, tf.int32), tf.float32)
        if rng.uniform([]) < 0.5:
            total += draw(0.01)
    keys = rng.make_seeds(2)
    total += tf.random.stateless_normal([4, 3], tf.cast(keys[:, 1], tf.int64))
    return tf.reduce_mean(((x + 0.1 * draw(2.0)) @ v["w"] + 0.1 * (early * total - late) - y) ** 2)


def _table():
    xy = {"x": numbers(4, 3), "y": numbers(4, 3, seed=2)}
    w = {"w": numbers(3, 3, seed=3, scale=0.6)}
    for loss in (early_break, skipped_turns, break_beside_a_loop, while_of_values, nested_python_loops, own_gradient_with_variables, recomputed_blocks,
                 vectorized, meta_learning, looped_meta_learning, neural_ode, hutchinson, checked_and_printed, growing_array, modes_of_a_system, complex_volumes, random_crops):
        yield loss, xy, w
    yield draws_of_a_generator, xy, {**w, "state": np.array([5, 0, 9], np.int64)}
    yield joined_rows, {"x": numbers(4, 3), "y": numbers(3, 4, 3, seed=2)}, w
    yield scheduled_rate, xy, {**w, "count": np.zeros((), F32)}
    yield sparse_lookup, {"ids": np.array([3, 1, 3, 0, 5, 2], np.int32), "splits": np.array([0, 2, 3, 5, 6], np.int32), "y": numbers(4, 3)}, {"table": numbers(8, 3, seed=5)}
    yield skip_gram, {"words": np.array([3, 1, 7], np.int32), "context": np.array([[4], [0], [11]], np.int64)}, {
        "table": numbers(20, 4, seed=5), "out": numbers(20, 4, seed=6), "bias": numbers(20, seed=7)}
    yield retina, {"x": np.abs(numbers(1, 8, 8, 3)), "boxes": np.array([[0.0, 0.1, 0.4, 0.5], [0.5, 0.5, 0.9, 0.8]], F32), "classes": np.array([1, 2], np.int32)}, {
        "conv": numbers(3, 3, 3, 7, seed=8, scale=0.3)}


def cases():
    for loss, feeds, variables in _table():
        yield loss.__name__, descend(loss, feeds, variables)
