"""Programs in the ways that people write and export them: graphs of TensorFlow 1 with towers, tables, columns, averages and
metrics; sparse, ragged and text features; functions for XLA, own gradients, recomputation; steps of modules."""
from guest_parts import *  # noqa: F403
from zoo import Net


def fed(feeds, **shapes):
    return feeds, *(tf1.placeholder(x.dtype, shapes.get(n, x.shape), n) for n, x in feeds.items())


def weight(name, *shape, **more):
    fan_in = max(int(np.prod(shape[:-1])), 1)
    return tf1.get_variable(name, initializer=numbers(*shape, seed=len(name)) / F32(np.sqrt(fan_in)), use_resource=True, **more)


def dense(name, x, size):
    return x @ weight(name, x.shape[-1], size) + weight(f"{name}_b", size)


def towers():
    """Two towers with devices by a function, shared variables on the host, mean gradients, one update."""
    feeds, x, y = fed({"x": numbers(8, 16, 16, 3), "y": integers(4, 8)})
    optimizer = tf1.train.MomentumOptimizer(0.05, 0.9)
    placed = lambda gpu: lambda op: "/cpu:0" if op.type in ("VarHandleOp", "VariableV2", "ReadVariableOp", "VarIsInitializedOp") else f"/gpu:{gpu}"
    gradients, losses = [], []
    for gpu, (part, labels) in enumerate(zip(tf.split(x, 2), tf.split(y, 2))):
        with tf1.device(placed(gpu)), tf1.name_scope(f"tower_{gpu}"), tf1.variable_scope("net", reuse=gpu > 0):
            kernel = tf1.get_variable("k", [3, 3, 3, 16], initializer=tf1.truncated_normal_initializer(0, 0.2, seed=3), use_resource=True)
            h = tf.nn.relu(tf.nn.conv2d(part, kernel, 2, "SAME"))
            w = tf1.get_variable("w", [16, 4], initializer=tf1.glorot_uniform_initializer(seed=4), use_resource=True)
            losses.append(softmax_loss(tf.reduce_mean(h, [1, 2]) @ w, labels))
            gradients.append(optimizer.compute_gradients(losses[-1], [kernel, w]))
    with tf1.device("/cpu:0"):
        mean = [(tf.reduce_mean(tf.stack([g for g, _ in pair]), 0), pair[0][1]) for pair in zip(*gradients)]
        step = tf1.train.get_or_create_global_step()
        train = optimizer.apply_gradients(mean, step)
    return Net(tf.add_n(losses) / 2.0, train, feeds, fetches=tuple(losses))


def pipelined():
    """Layers on two devices, colocated gradients, micro-batches."""
    feeds, x, y = fed({"x": numbers(8, 12), "y": numbers(8, 1)})
    with tf1.device("/device:GPU:0"):
        a, b = weight("a", 12, 32), weight("ab", 32)
    with tf1.device("/device:GPU:1"):
        c = weight("c", 32, 1)
    total = []
    for p, q in zip(tf.split(x, 4), tf.split(y, 4)):
        with tf1.device("/device:GPU:0"):
            h = tf.nn.relu(p @ a + b)
        with tf1.device("/device:GPU:1"):
            total.append(tf.reduce_mean((h @ c - q) ** 2))
    loss = tf.add_n(total) / 4.0
    optimizer = tf1.train.AdamOptimizer(0.01)
    gradients = optimizer.compute_gradients(loss, colocate_gradients_with_ops=True)
    return Net(loss, optimizer.apply_gradients(gradients), feeds)


def averaged_and_measured():
    """What an estimator makes: averages of weights, losses and regularization from collections, metrics in local variables, summaries."""
    feeds, x, y = fed({"x": numbers(12, 8), "y": integers(3, 12)}, x=[None, 8], y=[None])
    step = tf1.train.get_or_create_global_step()
    regular = tf1.keras.regularizers.l2(0.01)
    with tf1.variable_scope("model", initializer=tf1.variance_scaling_initializer(seed=1)):
        h = x
        for i, size in enumerate((16, 16)):
            w = tf1.get_variable(f"w{i}", [h.shape[-1], size], use_resource=True)
            tf1.add_to_collection(tf1.GraphKeys.REGULARIZATION_LOSSES, regular(w))
            h = tf.nn.elu(tf1.nn.xw_plus_b(h, w, tf1.get_variable(f"b{i}", [size], initializer=tf1.zeros_initializer(), use_resource=True)))
        logits = h @ tf1.get_variable("o", [16, 3], use_resource=True)
    tf1.losses.sparse_softmax_cross_entropy(y, logits)
    loss = tf1.losses.get_total_loss()
    _, up = tf1.metrics.accuracy(y, tf.argmax(logits, -1))
    _, up2 = tf1.metrics.auc(tf.equal(y, 0), tf.nn.softmax(logits)[:, 0], num_thresholds=20)
    _, up3 = tf1.metrics.mean_per_class_accuracy(y, tf.argmax(logits, -1), 3)
    tf1.summary.scalar("losses/total", loss)
    rate = tf1.train.polynomial_decay(0.1, step, 10, 0.01, power=2.0)
    optimizer = tf1.train.AdagradOptimizer(rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
    train = optimizer.apply_gradients(zip(gradients, variables), step)
    average = tf1.train.ExponentialMovingAverage(0.99, step)
    with tf1.control_dependencies([train]):
        train = average.apply(tf1.trainable_variables())
    return Net(loss, tf.group(train, up, up2, up3), feeds, fetches=(up, norm, average.average(variables[0])))


def tables_of_words():
    """Words looked up in a static table, those it lacks by hashes; bags of them with weights and two combiners."""
    feeds = {"words": np.array([[b"the", b"cat", b"sat"], [b"a", b"dog", b"zebra"], [b"cat", b"xyz", b""]]), "y": numbers(3, 4)}
    words, y = tf1.placeholder(tf.string, [3, 3], "words"), tf1.placeholder(tf.float32, [3, 4], "y")
    table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer([b"the", b"a", b"cat", b"dog", b"sat"], tf.range(5, dtype=tf.int64)), 7)
    ids = table.lookup(words)
    embedded = weight("table", 12, 4)
    kept = tf.where(tf.not_equal(words, ""))
    bag = tf.SparseTensor(kept, tf.gather_nd(ids, kept), [3, 3])
    mean = tf.nn.embedding_lookup_sparse(embedded, bag, None, combiner="sqrtn")
    weighted = tf.nn.safe_embedding_lookup_sparse(weight("more", 12, 4), bag, tf.SparseTensor(kept, tf.ones([tf.shape(kept)[0]]) * 0.5, [3, 3]))
    loss = tf.reduce_mean((mean + weighted - y) ** 2)
    train = tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss)
    return Net(loss, train, feeds, fetches=(ids,))


def hashed_words():
    """Text split and hashed into buckets in two ways; a wide part under FTRL and a deep one under Adagrad."""
    feeds = {"text": np.array([b"a quick brown fox", b"jumps", b"over the lazy dog again", b""]), "number": numbers(4, 3), "y": integers(2, 4).astype(F32)}
    text, number, y = tf1.placeholder(tf.string, [4], "text"), tf1.placeholder(tf.float32, [None, 3], "number"), tf1.placeholder(tf.float32, [None], "y")
    words = tf.strings.split(text)
    ids = tf.strings.to_hash_bucket_fast(words.flat_values, 50)
    crossed = tf.strings.to_hash_bucket_strong(words.flat_values, 64, [1, 2])
    wide = weight("wide", 64, 1, trainable=False)
    linear = tf.math.unsorted_segment_sum(tf.gather(wide, crossed), words.value_rowids(), 4)
    deep = tf.math.unsorted_segment_mean(tf.gather(weight("deep", 50, 8), ids), words.value_rowids(), 4)
    bounds = tf.raw_ops.Bucketize(input=number, boundaries=[-1.0, 0.0, 1.0])
    deep = tf.concat([deep, number, tf.reshape(tf.one_hot(bounds, 4), [-1, 12])], -1)
    logits = tf.squeeze(linear + dense("o", tf.nn.relu(dense("h", deep, 16)), 1), -1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
    train = tf.group(tf1.train.FtrlOptimizer(0.1, l2_regularization_strength=0.1).minimize(loss, var_list=[wide]),
                     tf1.train.AdagradOptimizer(0.1).minimize(loss, var_list=tf1.trainable_variables()))
    return Net(loss, train, feeds, fetches=(ids, crossed))


def columns():
    """Recommendation: dot interactions of embedded ids, multi-hot histories as ragged rows, several optimizers by name, sparse all the way."""
    feeds, numbers_in, ids, flat, splits, y = fed({"dense": numbers(16, 6), "ids": integers(30, 16, 4), "flat": integers(40, 29, dtype=np.int64),
                                                   "splits": np.sort(np.append(integers(29, 15, dtype=np.int64), [0, 29])).astype(np.int64), "y": integers(2, 16).astype(F32)})
    bottom = tf.nn.relu(dense("b2", tf.nn.relu(dense("b1", numbers_in, 32)), 8))
    tables = [weight(f"embedding_{i}", 30, 8) for i in range(4)]
    history = tf.RaggedTensor.from_row_splits(tf.gather(weight("embedding_h", 40, 8), flat), splits, validate=False)
    pooled = tf.reduce_sum(history, 1) / (tf.cast(history.row_lengths(), tf.float32)[:, None] + 1.0)
    vectors = tf.stack([bottom, pooled] + [tf.gather(t, ids[:, i]) for i, t in enumerate(tables)], 1)
    dots = tf.matmul(vectors, vectors, transpose_b=True)
    pairs = tf.boolean_mask(dots, np.tril(np.ones((6, 6), bool), -1), axis=1)
    logits = tf.squeeze(dense("t2", tf.nn.relu(dense("t1", tf.concat([bottom, tf.ensure_shape(pairs, [16, 15])], -1), 32)), 1), -1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))
    sparse = [x for x in tf1.trainable_variables() if x.name.startswith("embedding")]
    rest = [x for x in tf1.trainable_variables() if not x.name.startswith("embedding")]
    gradients = tf1.gradients(loss, sparse + rest)
    split = len(sparse)
    train = tf.group(tf1.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients[:3], sparse[:3])),
                     tf1.train.FtrlOptimizer(0.05).apply_gradients(zip(gradients[3:split], sparse[3:])),
                     tf1.train.RMSPropOptimizer(0.01, momentum=0.9, centered=True).apply_gradients(zip(gradients[split:], rest)))
    return Net(loss, train, feeds)


def old_loops():
    """A TensorArray of states, a loop with parallel turns and a greatest number of them, conditionals and an assertion within."""
    feeds, x, n = fed({"x": numbers(4, 9, 5), "n": np.int32(6)})
    w, u = weight("w", 5, 8), weight("u", 8, 8)
    inputs = tf1.TensorArray(tf.float32, 9).unstack(tf.transpose(x, [1, 0, 2]))

    def turn(i, h, states):
        with tf1.control_dependencies([tf1.Assert(tf.reduce_all(tf.math.is_finite(h)), [h])]):
            g = tf.tanh(inputs.read(i) @ w + h @ u)
        g = tf1.cond(tf.equal(i % 2, 0), lambda: g * 0.9, lambda: tf.where(g > 0, g, 0.1 * g))
        return i + 1, g, states.write(i, g)
    state = (tf.constant(0), tf.zeros([4, 8]), tf1.TensorArray(tf.float32, 0, True, clear_after_read=False, element_shape=[4, 8]))
    _, h, states = tf1.while_loop(lambda i, *_: i < n, turn, state, parallel_iterations=4, maximum_iterations=8, swap_memory=True)
    stacked = states.stack()
    loss = tf.reduce_mean(h ** 2) + tf.reduce_mean(tf.abs(stacked)) + tf.reduce_sum(states.gather([0, 2]) ** 2) * 0.01
    optimizer = tf1.train.RMSPropOptimizer(0.01)
    gradients = [(tf.clip_by_norm(g, 1.0), x) for g, x in optimizer.compute_gradients(loss)]
    return Net(loss, optimizer.apply_gradients(gradients), feeds, fetches=(stacked,))


def unknown_batches():
    """Batches unknown, placeholders with defaults, shapes by tf.shape everywhere, image sizes unknown too."""
    feeds, x, y = fed({"x": numbers(3, 20, 24, 3), "y": integers(4, 3)}, x=[None, None, None, 3], y=[None])
    keep = tf1.placeholder_with_default(tf.constant(1.0), [], "keep")
    flag = tf1.placeholder_with_default(True, [], "training")
    h = tf.nn.relu(tf.nn.conv2d(x, weight("a", 3, 3, 3, 8), [1, 2, 2, 1], "SAME"))
    mean, variance = tf.nn.moments(h, [0, 1, 2])
    moving = tf1.get_variable("moving", initializer=np.zeros(8, F32), trainable=False, use_resource=True)
    up = tf1.cond(flag, lambda: tf.identity(tf1.assign(moving, 0.9 * moving + 0.1 * mean)), lambda: tf.identity(moving))
    h = tf.nn.batch_normalization(h, tf1.cond(flag, lambda: mean, lambda: moving + 0.0), variance, weight("beta", 8), None, 1e-3)
    bigger = tf1.image.resize_bilinear(h, tf.shape(h)[1:3] * 2, align_corners=True)
    shape = tf.shape(bigger)
    flat = tf.reshape(bigger, tf.stack([shape[0], -1, 8]))
    top = tf.reduce_mean(tf.math.top_k(tf.transpose(flat, [0, 2, 1]), tf.minimum(10, tf.shape(flat)[1])).values, -1)
    logits = tf.nn.dropout(top, rate=1 - keep) @ weight("o", 8, 4)
    loss = softmax_loss(logits, y) + 0.0 * tf.cast(tf.size(flat), tf.float32)
    return Net(loss, tf.group(tf1.train.AdadeltaOptimizer(1.0).minimize(loss), up), feeds, fetches=(tf.shape(x), tf.rank(flat)))


def graph_nets(v, x, edges, weights, graph, y):
    """GraphSAGE, attention over edges by segments, a sparse adjacency with both directions, pooling by graph, and edges dropped."""
    n = tf.shape(x)[0]
    s, r = edges[:, 0], edges[:, 1]
    mean = tf.math.unsorted_segment_mean(tf.gather(x, s), r, n)
    large = tf.math.unsorted_segment_max(tf.nn.relu(v.dense("p", tf.gather(x, s), 8)), r, n)
    h = tf.nn.relu(v.dense("sage", tf.concat([x, mean, tf.maximum(large, 0.0)], -1), 16))
    z = tf.reshape(v.dense("gat", h, 16, False), [-1, 2, 8])
    score = tf.nn.leaky_relu(tf.einsum("ehd,hd->eh", tf.concat([tf.gather(z, s), tf.gather(z, r)], -1), v("a", 2, 16)))
    score -= tf.gather(tf.math.unsorted_segment_max(score, r, n), r)
    e = tf.exp(score) * tf.cast(tf.random.stateless_uniform([tf.shape(edges)[0], 1], [3, 4]) > 0.1, tf.float32)
    e /= tf.gather(tf.math.unsorted_segment_sum(e, r, n), r) + 1e-9
    h += tf.reshape(tf.math.unsorted_segment_sum(tf.gather(z, s) * e[..., None], r, n), [-1, 16])
    order = tf.argsort(s * 20 + r)
    adjacency = tf.SparseTensor(tf.cast(tf.gather(edges, order), tf.int64), tf.gather(tf.nn.sigmoid(weights * v("scale", value=1)), order), [20, 20])
    degree = tf.sparse.reduce_sum(adjacency, 1) + 1e-3
    h += tf.sparse.sparse_dense_matmul(adjacency, h / degree[:, None]) + tf.sparse.sparse_dense_matmul(adjacency, h, adjoint_a=True)
    attention = tf.sparse.softmax(adjacency)
    h = v.norm("n", h + tf.sparse.sparse_dense_matmul(attention, h))
    pooled = tf.concat([tf.math.segment_sum(h, graph), tf.math.segment_mean(h, graph), tf.math.segment_max(h, graph)], -1)
    return softmax_loss(v.dense("o", tf.ensure_shape(pooled, [3, 48]), 2), y), degree


def ragged_texts(v, values, splits, y):
    """Ragged rows: lookups, attention in each row by map_fn with ragged results, concatenation, masks, sorting, reductions."""
    rows = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    x = tf.ragged.map_flat_values(lambda i: tf.gather(v("table", 30, 8), i), rows)
    mixed = tf.map_fn(lambda r: tf.nn.softmax(tf.matmul(r, r, transpose_b=True)) @ r, x, fn_output_signature=tf.RaggedTensorSpec([None, 8], tf.float32, 0))
    both = tf.concat([x, mixed[:, :1]], 1)
    dense = both.to_tensor()
    mask = tf.sequence_mask(both.row_lengths(), tf.shape(dense)[1], tf.float32)
    pooled = tf.concat([tf.reduce_max(dense - 1e3 * (1 - mask)[..., None], 1), tf.reduce_mean(both, 1)], -1)
    longest = tf.cast(both.bounding_shape()[1], tf.float32)
    return softmax_loss(v.dense("o", tf.ensure_shape(pooled, [4, 16]), 3), y) + 0.0 * longest, rows.row_lengths(), tf.ragged.boolean_mask(rows, rows > 9).flat_values


def sparse_rows(v, x, y):
    """Sparse tensors made, joined, cut, reordered, added, and multiplied; the gradients go through their values."""
    found = tf.where(x > 0.3)
    a = tf.SparseTensor(found, tf.gather_nd(x, found) * v("s", value=1), [6, 10])
    b = tf.sparse.slice(tf.sparse.transpose(a), [2, 0], [6, 6])
    c = tf.sparse.concat(1, [a, tf.sparse.reorder(b)])
    d = tf.sparse.add(tf.sparse.reshape(c, [12, 8]), tf.sparse.eye(12, 8))
    h = tf.sparse.sparse_dense_matmul(d, v("w", 8, 4)) + tf.sparse.reduce_sum(d, 1, keepdims=True)
    filled, empty = tf.sparse.fill_empty_rows(tf.SparseTensor(d.indices, tf.abs(d.values), d.dense_shape), 0.5)
    most = tf.math.segment_max(filled.values, filled.indices[:, 0])
    return tf.reduce_mean((h - y) ** 2) + tf.reduce_mean(most), tf.cast(empty, tf.int32), tf.shape(d.indices)


def compiled(v, x, y):
    """Functions for XLA within each other and in a loop, recomputed blocks with dropout, an own gradient with variables' values."""
    @tf.function(jit_compile=True)
    def block(h, w):
        return h + tf.nn.gelu(h @ w)

    @tf.function(jit_compile=True, autograph=False)
    def twice(h, w):
        return block(block(h, w), tf.transpose(w))

    @tf.recompute_grad
    def heavy(h, w, u):
        h = tf.nn.experimental.stateless_dropout(tf.tanh(h @ w), 0.2, [1, 2], rng_alg="philox")
        return h @ u

    @tf.custom_gradient
    def rounded(h, scale):
        def backward(g):
            return g * tf.cast(tf.abs(h) < scale, tf.float32), tf.reduce_sum(g * tf.sign(h) * tf.cast(tf.abs(h) >= scale, tf.float32))
        return tf.round(tf.clip_by_value(h, -scale, scale) * 4) / 4, backward
    h = v.dense("in", x, 32)
    w = v("w", 32, 32)
    h = tf.while_loop(lambda i, _: i < 2, lambda i, h: (i + 1, twice(h, w)), (0, h))[1]
    for i in range(3):
        h += heavy(h, v(f"a{i}", 32, 64), v(f"b{i}", 64, 32))
    h = rounded(h, v("scale", value=3.0))
    return tf.reduce_mean((v.dense("o", h, 1) - y) ** 2)


def mapped(v, x, y):
    """vectorized_map over convolutions and conditionals, map_fn with several results, jacobians, einsums with dots in them."""
    kernel = v("k", 3, 3, 3, 4)
    each = tf.vectorized_map(lambda image: tf.reduce_max(tf.nn.relu(tf.nn.conv2d(image[None], kernel, 1, "SAME")[0]), [0, 1]), x)
    lots, picked = tf.map_fn(lambda pair: (pair[0] * 2.0, tf.gather(pair[0], pair[1])), (each, y % 4), fn_output_signature=(tf.float32, tf.float32))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(each)
        out = tf.tanh(v.dense("j", each, 3))
        summed = tf.reduce_sum(out, 0)
    jacobian, batched = tape.jacobian(summed, each), tape.batch_jacobian(out, each)
    mixed = 0.1 * tf.einsum("...i,ij,...j->...", lots, v("m", 4, 4), each) + tf.einsum("bii->b", tf.einsum("boi,ok->bki", batched, v("e", 3, 4)))
    outer = tf.einsum("bi,bj,bk->bijk", each, each, each)
    return tf.reduce_mean(mixed ** 2) + tf.reduce_mean(jacobian ** 2) + 0.01 * tf.reduce_mean(outer) + tf.reduce_mean(picked) * 0.1


def sorted_things(v, x, y):
    """Quantiles, histograms, medians by sorting, unique rows, bins, soft ranks, sets and cumulated sums of all kinds."""
    h = v.dense("a", x, 6)
    flat = tf.reshape(h, [-1])
    ordered = tf.sort(flat)
    n = tf.size(flat)
    median = 0.5 * (tf.gather(ordered, n // 2 - 1) + tf.gather(ordered, n // 2))
    counts = tf.histogram_fixed_width(flat, [-2.0, 2.0], 8)
    bins = tf.searchsorted(tf.linspace(-1.0, 1.0, 5), tf.sort(tf.stop_gradient(flat)))
    mass = tf.math.bincount(tf.cast(bins, tf.int32), weights=tf.stop_gradient(ordered), minlength=6)
    unique, place, times = tf.unique_with_counts(y)
    groups = tf.math.unsorted_segment_mean(h, place, tf.size(unique))
    soft = tf.reduce_sum(tf.sigmoid(10.0 * (h[:, :, None] - h[:, None])), -1)
    partial = tf.cumsum(h, 1, exclusive=True, reverse=True) + tf.math.cumulative_logsumexp(h, 1) + tf.math.cumprod(tf.tanh(h), 1)
    return (tf.reduce_mean((groups - tf.reduce_mean(h, 0)) ** 2) + median ** 2 + 0.1 * tf.reduce_mean(soft * h)
            + 0.1 * tf.reduce_mean(partial)), counts, unique, times, mass


def modules(v, feeds):
    """A module of modules with lists of variables, batch renormalisation whose clipping moves, weight norms, an optimizer of Keras with a schedule."""
    import keras
    rate = keras.optimizers.schedules.CosineDecayRestarts(0.05, 4)
    optimizer = keras.optimizers.Nadam(rate, clipnorm=1.0, use_ema=True, ema_momentum=0.9)
    mean, deviation, count = v.hold("mean", np.zeros(16, F32)), v.hold("deviation", np.ones(16, F32)), v.hold("count", tf.constant(0.0))

    def loss(v, x, y):
        direction, length = v("d", 8, 16), v("g", 16, value=1)
        h = x @ (direction / tf.norm(direction, axis=0) * length) + v("b", 16)
        m, s = tf.reduce_mean(h, 0), tf.math.reduce_std(h, 0) + 1e-3
        most = 1.0 + tf.minimum(count / 2.0, 2.0)
        r = tf.stop_gradient(tf.clip_by_value(s / deviation, 1 / most, most))
        d = tf.stop_gradient(tf.clip_by_value((m - mean) / deviation, -count, count))
        return tf.reduce_mean((v.dense("o", tf.nn.relu((h - m) / s * r + d), 1) - y) ** 2), m, s
    loss(v, **feeds)
    optimizer.build(v.list)

    def step(x, y):
        value, (m, s), gradients = gradients_of(v, loss, x, y)
        optimizer.apply_gradients(zip(gradients, v.list))
        mean.assign(0.9 * mean + 0.1 * m)
        deviation.assign(0.9 * deviation + 0.1 * s)
        count.assign_add(1.0)
        return value, optimizer.learning_rate + 0.0
    return step


def triangles(v, x, y):
    """Pairs of residues: triangle products and attention, outer products, a distogram, frames by cross products."""
    pair = v.dense("left", x, 16)[:, :, None] + v.dense("right", x, 16)[:, None]
    h = v.norm("n1", pair)
    a, b = tf.sigmoid(v.dense("ga", h, 16)) * v.dense("a", h, 16), tf.sigmoid(v.dense("gb", h, 16)) * v.dense("b", h, 16)
    pair += tf.sigmoid(v.dense("g", h, 16)) * v.dense("o", v.norm("n2", tf.einsum("bikc,bjkc->bijc", a, b) + tf.einsum("bkic,bkjc->bijc", a, b)), 16)
    q, k, w = (tf.reshape(v.dense(n, pair, 16), [2, 12, 12, 4, 4]) for n in ("q", "k", "v"))
    scores = tf.einsum("bijhd,bikhd->bhijk", q, k) * 0.5 + tf.transpose(v.dense("bias", pair, 4), [0, 3, 1, 2])[:, :, None]
    pair += tf.reshape(tf.einsum("bhijk,bikhd->bijhd", tf.nn.softmax(scores), w), [2, 12, 12, 16])
    logits = v.dense("bins", pair + tf.transpose(pair, [0, 2, 1, 3]), 10)
    where = v.dense("xyz", tf.reduce_mean(pair, 2), 3)
    one = tf.math.l2_normalize(where[:, 1:-1] - where[:, :-2] + 1e-3, -1)
    two = where[:, 2:] - where[:, 1:-1]
    two = tf.math.l2_normalize(two - one * tf.reduce_sum(one * two, -1, keepdims=True) + 1e-3, -1)
    frames = tf.stack([one, two, tf.linalg.cross(one, two)], -1)
    local = tf.einsum("bnij,bnmi->bnmj", frames, where[:, None] - where[:, 1:-1, None])
    far = tf.norm(y[:, :, None] - y[:, None] + 1e-6, axis=-1)
    labels = tf.cast(tf.clip_by_value(far * 3.0, 0.0, 9.0), tf.int32)
    return softmax_loss(logits, labels) + 0.1 * tf.reduce_mean(tf.minimum(tf.norm(local + 1e-6, axis=-1), 5.0))


def forecasts(v, x, y):
    """Windows of a series, backcasts and forecasts, quantiles, a temporal net with weight norms and dilations, seasons by Fourier terms."""
    frames = tf.signal.frame(x, 16, 8)
    frames = frames * tf.signal.hann_window(16)
    rest, total = tf.reshape(frames, [4, 7 * 16]), tf.zeros([4, 12])
    for i in range(2):
        h = tf.nn.relu(v.dense(f"h{i}", rest, 32))
        t = tf.range(12.0) / 12.0
        season = tf.stack([tf.cos(2 * np.pi * k * t) for k in range(4)] + [tf.sin(2 * np.pi * k * t) for k in range(4)])
        rest -= v.dense(f"back{i}", h, 7 * 16)
        total += v.dense(f"theta{i}", h, 8) @ season
    h = x[..., None]
    for i in range(3):
        kernel = v(f"t{i}", 2, h.shape[-1], 8)
        kernel = kernel * tf.math.rsqrt(tf.reduce_sum(kernel ** 2, [0, 1], keepdims=True) + 1e-6) * v(f"tg{i}", 8, value=1)
        h = tf.nn.relu(tf.nn.conv1d(tf.pad(h, [[0, 0], [2 ** i, 0], [0, 0]]), kernel, 1, "VALID", dilations=2 ** i))
    bands = total[..., None] + tf.reshape(v.dense("q", h[:, -1], 36), [4, 12, 3])
    off = y[..., None] - bands
    quantiles = tf.constant([0.1, 0.5, 0.9])
    spectrum = tf.abs(tf.signal.rfft(x))
    return tf.reduce_mean(tf.maximum(quantiles * off, (quantiles - 1) * off)) + 1e-3 * tf.reduce_mean(tf.abs(tf.signal.irfft(tf.signal.rfft(total))) ** 2), tf.argmax(spectrum, -1)


def distilled(v, feeds):
    """A frozen teacher, mixed-up inputs, label smoothing, stochastic depth with rates by layer, cosine similarities of hidden states."""
    teacher = [tf.Variable(numbers(8, 16, seed=91), trainable=False, name="tw"), tf.Variable(numbers(16, 5, seed=92) / 4, trainable=False, name="to")]
    n = v.hold("n", tf.constant(0))

    def loss(v, x, y, seed):
        beta = tf.random.stateless_uniform([], seed, 0.2, 0.8)
        order = tf.argsort(tf.random.stateless_uniform([12], seed + 1))
        mixed = beta * x + (1 - beta) * tf.gather(x, order)
        labels = beta * tf.one_hot(y, 5) + (1 - beta) * tf.one_hot(tf.gather(y, order), 5)
        there = tf.nn.relu(mixed @ teacher[0])
        h = v.dense("in", mixed, 16)
        for i in range(3):
            keep = tf.cast(tf.random.stateless_uniform([12, 1], seed + 2 + i) > 0.1 * (i + 1), tf.float32) / (1 - 0.1 * (i + 1))
            h += keep * tf.nn.silu(v.dense(f"l{i}", h, 16))
        logits = v.dense("o", h, 5)
        soft = tf.nn.softmax(there @ teacher[1] / 2.0)
        hard = tf.reduce_mean(tf.keras.losses.categorical_crossentropy(labels, logits, from_logits=True, label_smoothing=0.1))
        return hard + 4.0 * tf.reduce_mean(tf.keras.losses.kld(soft, tf.nn.softmax(logits / 2.0))) + tf.reduce_mean(tf.keras.losses.cosine_similarity(there, h))
    loss(v, feeds["x"], feeds["y"], tf.constant([1, 2]))
    adam = Adam(v, decay=0.01)

    def step(x, y):
        seed = tf.stack([n.assign_add(1), 40])
        value, _, gradients = gradients_of(v, loss, x, y, seed)
        adam.apply(gradients)
        return value
    return step


def trees(v, words, left, right, y):
    """A recursive net over trees given by children's places: a loop that reads what it wrote, leaves by a conditional."""
    table, w, b = v("table", 20, 8), v("w", 16, 8), v("b", 8)

    def node(i, states):
        h = tf.cond(left[i] < 0, lambda: tf.gather(table, words[i]), lambda: tf.tanh(
            tf.squeeze(tf.concat([states.read(left[i]), states.read(right[i])], 0)[None] @ w, 0) + b))
        return i + 1, states.write(i, h)
    states = tf.TensorArray(tf.float32, 7, clear_after_read=False, element_shape=[8])
    states = tf.while_loop(lambda i, _: i < 7, node, (0, states))[1]
    return softmax_loss(v.dense("o", states.stack(), 3), y)


def memories(v, x, y):
    """A neural Turing machine: addressing by content, shifts by a circular convolution, sharpening, erasing and adding."""
    size, width = 8, 6
    v.dense("ctl", tf.zeros([1, 4 + width]), 16), v.dense("head", tf.zeros([1, 16]), 3 * width + 6), v.dense("out", tf.zeros([1, 16 + width]), 3)

    def turn(i, memory, read, w, total):
        h = tf.tanh(v.dense("ctl", tf.concat([tf.gather(x, i, axis=1), read], -1), 16))
        key, erase, add, rest = tf.split(v.dense("head", h, 3 * width + 6), [width, width, width, 6], -1)
        strength, gate, sharp = tf.nn.softplus(rest[:, :1]), tf.sigmoid(rest[:, 1:2]), 1 + tf.nn.softplus(rest[:, 2:3])
        content = tf.nn.softmax(strength * tf.einsum("bnw,bw->bn", tf.math.l2_normalize(memory, -1), tf.math.l2_normalize(key, -1)))
        g = gate * content + (1 - gate) * w
        shift = tf.nn.softmax(rest[:, 3:])
        g = tf.add_n([shift[:, k:k + 1] * tf.roll(g, k - 1, 1) for k in range(3)]) ** sharp
        w = g / (tf.reduce_sum(g, -1, keepdims=True) + 1e-6)
        memory = memory * (1 - w[..., None] * tf.sigmoid(erase)[:, None]) + w[..., None] * tf.tanh(add)[:, None]
        read = tf.einsum("bn,bnw->bw", w, memory)
        return i + 1, memory, read, w, total + softmax_loss(v.dense("out", tf.concat([h, read], -1), 3), tf.gather(y, i, axis=1))
    state = (0, tf.fill([4, size, width], 0.1), tf.zeros([4, width]), tf.one_hot(tf.zeros([4], tf.int32), size), 0.0)
    return tf.while_loop(lambda i, *_: i < 6, turn, state)[4] / 6.0


def prototypes(v, support, labels, query, y):
    """Few shots: prototypes by segments, distances, a relation net, matching by attention over the support."""
    encode = lambda x: tf.reduce_mean(tf.nn.relu(v.conv("b", tf.nn.relu(v.conv("a", x, 8, stride=2)), 16)), [1, 2])
    s, q = encode(support), encode(query)
    centres = tf.math.unsorted_segment_mean(s, labels, 3)
    far = -tf.reduce_sum((q[:, None] - centres) ** 2, -1)
    pairs = tf.concat([tf.repeat(q, 3, 0), tf.tile(centres, [tf.shape(q)[0], 1])], -1)
    relation = tf.reshape(v.dense("r2", tf.nn.relu(v.dense("r1", pairs, 16)), 1), [-1, 3])
    match = tf.nn.softmax(tf.matmul(tf.math.l2_normalize(q, -1), tf.math.l2_normalize(s, -1), transpose_b=True) * 5.0) @ tf.one_hot(labels, 3)
    return softmax_loss(far, y) + tf.reduce_mean((tf.sigmoid(relation) - tf.one_hot(y, 3)) ** 2) - tf.reduce_mean(tf.math.log(tf.gather(match, y, batch_dims=1) + 1e-6))


def in_old_frames(case):
    def built():
        tf1.disable_control_flow_v2()
        try:
            return case()
        finally:
            tf1.enable_control_flow_v2()
    return built


def cases():
    for case in (towers, pipelined, averaged_and_measured, tables_of_words, hashed_words, columns, old_loops, unknown_batches):
        yield case.__name__, case
    for case in (averaged_and_measured, old_loops, unknown_batches):
        yield f"{case.__name__}_in_frames", in_old_frames(case)
    yield "graph_nets", trained(graph_nets, {"x": numbers(20, 6), "edges": np.unique(integers(20, 60, 2), axis=0), "weights": numbers(len(np.unique(integers(20, 60, 2), axis=0))),
                                             "graph": np.sort(integers(3, 20)), "y": integers(2, 3)})
    yield "ragged_texts", trained(ragged_texts, {"values": integers(30, 14), "splits": np.array([0, 3, 4, 9, 14], np.int64), "y": integers(3, 4)})
    yield "sparse_rows", trained(sparse_rows, {"x": numbers(6, 10), "y": numbers(12, 4)})
    xy = {"x": numbers(16, 8), "y": numbers(16, 1)}
    yield "compiled", trained(compiled, xy)
    yield "mapped", trained(mapped, {"x": 0.3 * images(4, 8), "y": integers(4, 4)})
    yield "sorted_things", trained(sorted_things, {"x": numbers(10, 4), "y": integers(4, 10)})
    yield "modules", stepped(modules, xy)
    yield "triangles", trained(triangles, {"x": numbers(2, 12, 8), "y": numbers(2, 12, 3)})
    yield "forecasts", trained(forecasts, {"x": numbers(4, 64), "y": numbers(4, 12)})
    yield "distilled", stepped(distilled, {"x": numbers(12, 8), "y": integers(5, 12)})
    yield "trees", trained(trees, {"words": integers(20, 7), "left": np.array([-1, -1, 0, -1, -1, 3, 2], np.int32), "right": np.array([-1, -1, 1, -1, -1, 4, 5], np.int32), "y": integers(3, 7)})
    yield "memories", trained(memories, {"x": numbers(4, 6, 4), "y": integers(3, 4, 6)})
    yield "prototypes", trained(prototypes, {"support": images(9, 16), "labels": np.arange(9, dtype=np.int32) % 3, "query": images(6, 16, seed=4), "y": integers(3, 6)})
