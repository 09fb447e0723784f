"""Programs as people write their steps when nothing tells them not to: prints within loops, arrays of many lengths, scans and folds, ragged
and sparse rows, tables of counts, signals, matrix functions, old loops with devices of their own, optimizers that share a net."""
from guest_parts import *  # noqa: F403
from zoo import Net


def printed_while_learning(v, feeds):
    """Prints in turns and branches, assertions of shapes and numbers, checks of gradients by name."""
    n = v.hold("n", tf.constant(0))

    def step(x, y):
        with tf.GradientTape() as tape:
            h = x
            for i in tf.range(3):
                h = tf.tanh(v.dense("h", h, 6))
                tf.print("turn", i, "mean", tf.reduce_mean(h), h, summarize=2)
                tf.debugging.assert_all_finite(h, "not finite")
            value = tf.reduce_mean((v.dense("o", h, 1) - y) ** 2)
        gradients = [tf.debugging.check_numerics(g, "bad gradient") for g in tape.gradient(value, v.list)]
        if n % 2 == 0:
            tf.print("step", n, "norm", tf.linalg.global_norm(gradients), output_stream="file:///dev/null")
        descend(v.list, gradients)
        tf.debugging.assert_less(n.assign_add(1), 100, message="too long")
        return value
    return step


def folded(v, x, y):
    """A scan with a tuple for its state, folds from either side, map_fn of several outputs, switch_case in turns."""
    w, u = v("w", 5, 5), v("u", 4, 5)

    def cell(state, now):
        h, c = state
        h = tf.tanh(h @ w + now @ u)
        return h, 0.9 * c + h * h
    hs, cs = tf.scan(cell, x, (tf.zeros([x.shape[1], 5]), tf.zeros([x.shape[1], 5])))
    left = tf.foldl(lambda a, b: tf.sin(a) + b, hs, tf.zeros_like(hs[0]))
    right = tf.foldr(lambda a, b: a * 0.5 + b, cs, tf.zeros_like(cs[0]))
    one, other = tf.map_fn(lambda row: (tf.nn.softmax(row), tf.reduce_sum(row ** 2)), left, fn_output_signature=(tf.float32, tf.float32))
    total = tf.zeros([])
    for i in tf.range(6):
        total += tf.switch_case(i % 3, [lambda: tf.reduce_sum(hs[0]), lambda: tf.reduce_sum(tf.square(w)), lambda: 0.1 * total])
    return tf.reduce_mean((tf.reduce_sum(one * right, -1) + other - y) ** 2) + 0.01 * total


def bags_of_rows(v, values, splits, weights, y):
    """Ragged rows: safe lookups with empty rows, flat values changed, sorted, padded, softmax by rows, and the same as sparse rows."""
    rows = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    table = v("table", 30, 6)
    safe = tf.nn.safe_embedding_lookup_sparse(table, rows.to_sparse(), combiner="sqrtn", default_id=3)
    ragged = tf.nn.embedding_lookup(table, rows)
    scores = tf.ragged.map_flat_values(lambda e: tf.squeeze(v.dense("score", e, 1), -1), ragged)
    shares = tf.exp(scores - tf.reduce_max(scores, -1, keepdims=True))
    mixed = tf.reduce_sum((shares / (tf.reduce_sum(shares, -1, keepdims=True) + 1e-6)).with_values(tf.ones(14)).flat_values * weights)
    padded = ragged.to_tensor(default_value=0.1, shape=[None, 6, 6])
    mean = tf.reduce_mean(padded, 1) + tf.math.divide_no_nan(tf.reduce_sum(ragged, 1), tf.cast(rows.row_lengths(), tf.float32)[:, None])
    both = tf.concat([rows, rows[:, ::-1]], 1)
    return softmax_loss(v.dense("o", safe + mean, 4), y) + 0.01 * mixed, both.flat_values, tf.ragged.boolean_mask(rows, rows > 5).row_splits


def empty_rows_of_ragged(v, values, splits, y):
    rows = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
    found = tf.nn.safe_embedding_lookup_sparse(v("table", 30, 6), rows, combiner="mean")
    return softmax_loss(v.dense("o", found, 4), y)


def ranked_softly(v, x, y):
    """Soft ranks by isotonic regression."""
    scores = v.dense("o", tf.tanh(v.dense("h", x, 8)), 5)
    order = tf.argsort(-scores, -1)
    sorted_scores = tf.gather(scores, order, batch_dims=1)
    goal = tf.range(5, 0, -1, dtype=tf.float32)
    dual, parts = tf.nn.isotonic_regression(sorted_scores - goal, decreasing=True)
    ranks = tf.gather(sorted_scores - dual, tf.argsort(order, -1), batch_dims=1)
    return tf.reduce_mean((ranks - y) ** 2), parts


def grown_arrays(v, x, lengths):
    """Arrays that grow turn by turn, whose parts have many lengths, read twice, concatenated and split again."""
    parts = tf.TensorArray(tf.float32, 0, dynamic_size=True, clear_after_read=False, infer_shape=False, element_shape=[None, 6])
    sums = tf.TensorArray(tf.float32, 4)
    for i in tf.range(4):
        h = tf.tanh(v.dense("h", x[i, :lengths[i]], 6))
        parts = parts.write(i, h)
        sums = sums.write(i, tf.reduce_sum(h, 0))
    whole = parts.concat()
    again = tf.TensorArray(tf.float32, 4, infer_shape=False, element_shape=[None, 6]).split(whole * 2.0, lengths)
    return tf.reduce_mean(sums.stack() ** 2) + tf.reduce_mean(again.read(1)) + tf.reduce_sum(parts.read(2)) * 0.1, tf.shape(whole)


def filtered_signals(v, x):
    """Windows, transforms of cosines, modified ones, overlaps; an equalizer between; spectral convergence and phases."""
    frames = tf.signal.frame(x, 32, 16, pad_end=True) * tf.signal.kaiser_window(32)
    coefficients = tf.signal.dct(frames, norm="ortho") * tf.nn.softplus(v("gain", 1, 32)[0])
    back = tf.signal.overlap_and_add(tf.signal.idct(coefficients, norm="ortho"), 16)
    m = tf.signal.mdct(x, 32) * (1.0 + v("shape", 1, 16)[0])
    n = tf.signal.inverse_mdct(m)
    spectrum = tf.signal.stft(back[:, : x.shape[1]], 32, 8)
    goal = tf.signal.stft(x, 32, 8)
    convergence = tf.norm(tf.abs(spectrum) - tf.abs(goal)) / (tf.norm(tf.abs(goal)) + 1e-6)
    analytic = tf.signal.ifft(tf.signal.fft(tf.cast(n, tf.complex64)) * tf.cast(v("pass", 1, n.shape[-1])[0], tf.complex64))
    return convergence + tf.reduce_mean(tf.abs(analytic)) + tf.reduce_mean((back[:, : x.shape[1]] - x) ** 2)


def functions_of_matrices(v, x):
    """Rotations by exponentials, square roots, pseudo-inverses, least squares, Cayley's map, the polar factor by Newton's turns."""
    a = v("a", 4, 4)
    turn = tf.linalg.expm(a - tf.transpose(a))
    spread = tf.linalg.matmul(a, a, transpose_b=True) + tf.eye(4)
    root = tf.linalg.sqrtm(spread)
    cayley = tf.linalg.solve(tf.eye(4) + (a - tf.transpose(a)), tf.eye(4) - (a - tf.transpose(a)))
    polar = a + 2.0 * tf.eye(4)
    for _ in range(4):
        polar = 0.5 * (polar + tf.transpose(tf.linalg.inv(polar)))
    fit = tf.linalg.lstsq(x @ turn, x[:, :2], l2_regularizer=0.1)
    s, _, _ = tf.linalg.svd(x @ cayley)
    return tf.reduce_mean((x @ polar @ root) ** 2) + tf.reduce_mean(fit ** 2) + tf.reduce_sum(s) * 0.1 + tf.linalg.trace(tf.linalg.pinv(x) @ x @ turn)


def counted(v, feeds):
    """Histograms, weighted counts, confusions and moving quantiles in variables; the loss is weighted by the rare classes."""
    seen, edges = v.hold("seen", tf.ones([5])), v.hold("edges", tf.zeros([8], tf.int32))

    def step(x, y):
        seen.assign(0.9 * seen + tf.math.bincount(y, tf.ones_like(y, tf.float32), minlength=5, maxlength=5, dtype=tf.float32))
        weights = tf.gather(tf.reduce_sum(seen) / seen, y)
        with tf.GradientTape() as tape:
            logits = v.dense("o", tf.nn.relu(v.dense("h", x, 12)), 5)
            value = tf.reduce_mean(weights * tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        gradients = tape.gradient(value, v.list)
        descend(v.list, gradients, 0.01)
        edges.assign_add(tf.histogram_fixed_width(gradients[0], [-1.0, 1.0], 8))
        best = tf.argmax(logits, -1, tf.int32)
        confusion = tf.math.confusion_matrix(y, best, 5, weights=tf.cast(weights, tf.float32), dtype=tf.float32)
        kinds, place, count = tf.unique_with_counts(best)
        peaks = tf.tensor_scatter_nd_max(tf.fill([5], -9.0), best[:, None], tf.reduce_max(logits, -1))
        return value, confusion, tf.reduce_sum(count), peaks, tf.size(kinds), place[0], tf.timestamp() > 0.0
    return step


def shared_by_optimizers():
    """TensorFlow 1: three optimizers over parts of one net, one of them by a condition, with clipping by average norm and noise on gradients."""
    feeds = {"x": numbers(12, 6), "y": integers(3, 12)}
    x, y = tf1.placeholder(tf.float32, [None, 6], "x"), tf1.placeholder(tf.int32, [None], "y")
    step = tf1.train.get_or_create_global_step()
    with tf1.variable_scope("body", reuse=tf1.AUTO_REUSE, initializer=tf1.orthogonal_initializer(seed=2)):
        body = [tf1.get_variable(f"w{i}", [6, 6]) for i in range(2)]
    head, rows = tf1.get_variable("head", [6, 3], initializer=tf1.uniform_unit_scaling_initializer(seed=3)), tf1.get_variable("rows", [3, 6], initializer=tf1.zeros_initializer())
    h = x
    for w in body:
        h = tf1.nn.relu_layer(h, w, tf.zeros([6])) + h
    loss = softmax_loss(h @ head + tf1.nn.xw_plus_b(tf.nn.embedding_lookup(rows, y), tf.ones([6, 3]) * 0.01, tf.zeros([3])), y)
    slow, fast, rare = tf1.train.RMSPropOptimizer(0.001, centered=True), tf1.train.FtrlOptimizer(0.05, l1_regularization_strength=0.001), tf1.train.AdagradOptimizer(0.1)
    noisy = [(tf.clip_by_norm(g, 0.5) + tf1.random_normal(g.shape, stddev=1e-3, seed=7), w) for g, w in slow.compute_gradients(loss, body)]
    with tf1.control_dependencies([slow.apply_gradients(noisy, step)]):
        later = tf1.cond(tf.equal(step % 2, 0), lambda: tf.group(fast.minimize(loss, var_list=[head])), tf.no_op)
    with tf1.control_dependencies([later]):
        train = rare.minimize(loss, var_list=[rows])
    return Net(loss, train, feeds, steps=5)


def old_loop_of_cells():
    """TensorFlow 1: while_loop with arrays, lengths that end rows, invariants of shapes, gradients that are swapped."""
    feeds = {"x": numbers(4, 6, 3), "n": np.array([6, 2, 4, 1], np.int32)}
    x, n = tf1.placeholder(tf.float32, [4, None, 3], "x"), tf1.placeholder(tf.int32, [4], "n")
    w, u = tf1.get_variable("w", [8, 20], initializer=tf1.glorot_uniform_initializer(seed=1)), tf1.get_variable("u", [5], initializer=tf1.ones_initializer())
    steps = tf.TensorArray(tf.float32, tf.shape(x)[1]).unstack(tf.transpose(x, [1, 0, 2]))
    outs = tf.TensorArray(tf.float32, tf.shape(x)[1])

    def turn(t, h, c, outs):
        i, f, g, o = tf.split(tf.concat([steps.read(t), h], 1) @ w, 4, 1)
        new_c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(g)
        new_h = tf.sigmoid(o) * tf.tanh(new_c)
        going = t < n
        return t + 1, tf1.where(going, new_h, h), tf1.where(going, new_c, c), outs.write(t, tf1.where(going, new_h, tf.zeros_like(h)))
    zeros = tf.zeros([4, 5])
    _, h, _, outs = tf1.while_loop(lambda t, *_: t < tf.reduce_max(n), turn, (0, zeros, zeros, outs), parallel_iterations=4, swap_memory=True,
                                   shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 5]), tf.TensorShape([4, 5]), tf.TensorShape(None)))
    every = outs.gather(tf.range(tf.reduce_max(n)))
    loss = tf.reduce_mean((tf1.squeeze(h @ u[:, None]) - 1.0) ** 2) + 0.1 * tf.nn.l2_loss(every)
    optimizer = tf1.train.AdamOptimizer(0.01)
    gradients, variables = zip(*optimizer.compute_gradients(loss, gate_gradients=optimizer.GATE_GRAPH, aggregation_method=tf1.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N))
    return Net(loss, optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 1.0)[0], variables)), feeds)


def cases():
    xy = {"x": numbers(8, 6), "y": numbers(8, 1)}
    yield "printed_while_learning", stepped(lambda v, f: [tf.tanh(v.dense("h", f["x"], 6)), v.dense("o", f["x"], 1)] and printed_while_learning(v, f), xy)
    yield "folded", trained(folded, {"x": numbers(6, 3, 4), "y": numbers(3)})
    rows = {"values": integers(30, 14), "splits": np.array([0, 3, 3, 9, 14], np.int64), "y": integers(4, 4)}
    yield "bags_of_rows", trained(bags_of_rows, {**rows, "weights": numbers(14)})
    yield "empty_rows_of_ragged", trained(empty_rows_of_ragged, rows)
    yield "ranked_softly", trained(ranked_softly, {"x": numbers(6, 4), "y": np.argsort(numbers(6, 5)).astype(F32)})
    yield "grown_arrays", trained(grown_arrays, {"x": numbers(4, 5, 3), "lengths": np.array([5, 2, 3, 1], np.int32)})
    yield "filtered_signals", trained(filtered_signals, {"x": numbers(2, 128)})
    yield "functions_of_matrices", trained(functions_of_matrices, {"x": numbers(6, 4)})
    yield "counted", stepped(lambda v, f: v.dense("o", tf.nn.relu(v.dense("h", f["x"], 12)), 5) is not None and counted(v, f), {"x": numbers(20, 6), "y": integers(5, 20)})
    yield "shared_by_optimizers", shared_by_optimizers
    yield "old_loop_of_cells", old_loop_of_cells
