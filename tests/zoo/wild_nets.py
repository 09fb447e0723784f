"""What graphs from elsewhere hold: attention of many kinds, geometry, sparse and ragged features, decoders, pooling at
random places, matrix functions, derivatives of derivatives. Each is a traced step over a few variables."""
import numpy as np
import tensorflow as tf

from world_nets import F32, _Built, integers, layer_norm, numbers, softmax_loss
from zoo import eager


# Text and sequences

def llama(v, ids, y):
    """Grouped queries, rotary positions, RMS norm, gated units, a mask of -inf, ignored labels."""
    rms = lambda z, g: z * tf.math.rsqrt(tf.reduce_mean(tf.square(z), -1, keepdims=True) + 1e-6) * g
    x = tf.nn.embedding_lookup(v["table"], ids)
    h = rms(x, v["g1"])
    q = tf.einsum("bsd,dhk->bhsk", h, v["q"])
    k, u = (tf.repeat(tf.einsum("bsd,dhk->bhsk", h, v[n]), 2, 1) for n in "kv")
    angle = tf.einsum("s,f->sf", tf.range(6.0), 1.0 / 100.0 ** (tf.range(0.0, 4.0, 2.0) / 4.0))
    angle = tf.concat([angle, angle], -1)
    turn = lambda z: z * tf.cos(angle) + tf.concat([-z[..., 2:], z[..., :2]], -1) * tf.sin(angle)
    scores = tf.einsum("bhqk,bhsk->bhqs", turn(q), turn(k)) / 2.0
    causal = tf.range(6)[:, None] >= tf.range(6)[None]
    weights = tf.nn.softmax(tf.where(causal, scores, tf.constant(-np.inf, tf.float32)))
    x += tf.einsum("bhqs,bhsk,hkd->bqd", weights, u, v["o"])
    h = rms(x, v["g2"])
    x += (tf.nn.silu(h @ v["gate"]) * (h @ v["up"])) @ v["down"]
    keep = tf.cast(y >= 0, tf.float32)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(y, 0), tf.matmul(x, v["table"], transpose_b=True))
    return tf.math.divide_no_nan(tf.reduce_sum(each * keep), tf.reduce_sum(keep))


def state_space(v, x, y):
    """A diagonal state space as a long convolution by Fourier transforms, and its scan by doubling."""
    time = tf.range(8.0)
    kernel = tf.einsum("n,nt->t", v["c"], tf.exp(-tf.nn.softplus(v["a"])[:, None] * time[None]))
    spectrum = tf.signal.rfft(x, [16]) * tf.signal.rfft(kernel, [16])
    long = tf.signal.irfft(spectrum, [16])[:, :8]
    decay, state = tf.sigmoid(v["gate"] * x), x
    for shift in (1, 2, 4):
        before = tf.pad(state[:, :-shift], [[0, 0], [shift, 0]])
        state += decay * before
        decay *= tf.pad(decay[:, :-shift], [[0, 0], [shift, 0]], constant_values=1.0)
    return tf.reduce_mean((long + state - y) ** 2)


def routed_experts(v, x, y):
    """Top-2 of four experts with a capacity: positions by cumsum, dispatch and combine by einsum."""
    gates = tf.nn.softmax(x @ v["gate"])
    value, index = tf.math.top_k(gates, 2)
    value /= tf.reduce_sum(value, -1, keepdims=True)
    used, combine = tf.zeros([4]), tf.zeros([8, 4, 3])
    for k in range(2):
        hot = tf.one_hot(index[:, k], 4)
        place = tf.cumsum(hot, 0, exclusive=True) + used
        used += tf.reduce_sum(hot, 0)
        place = tf.reduce_sum(place * hot, 1)
        fits = tf.cast(place < 3, tf.float32)
        combine += (value[:, k] * fits)[:, None, None] * hot[:, :, None] * tf.one_hot(tf.cast(place, tf.int32), 3)[:, None]
    into = tf.einsum("tec,td->ecd", tf.cast(combine > 0, tf.float32), x)
    out = tf.einsum("tec,ecd->td", combine, tf.nn.gelu(tf.einsum("ecd,edf->ecf", into, v["w"]), approximate=True))
    balance = tf.reduce_sum(tf.reduce_mean(gates, 0) * tf.reduce_mean(tf.one_hot(index[:, 0], 4), 0)) * 4
    z_loss = tf.reduce_mean(tf.square(tf.reduce_logsumexp(x @ v["gate"], 1)))
    return tf.reduce_mean((out - y) ** 2) + 0.01 * balance + 1e-3 * z_loss


def window_attention(v, x, y):
    """Shifted windows with a table of relative positions."""
    h = tf.roll(x, [-1, -1], [1, 2])
    h = tf.reshape(tf.transpose(tf.reshape(h, [2, 4, 2, 4, 2, 3]), [0, 1, 3, 2, 4, 5]), [-1, 4, 3])
    q, k, u = tf.unstack(tf.reshape(h @ v["qkv"], [-1, 4, 3, 3]), axis=2)
    at = tf.reshape(tf.stack(tf.meshgrid(tf.range(2), tf.range(2), indexing="ij"), -1), [4, 2])
    relative = at[:, None] - at[None] + 1
    bias = tf.reshape(tf.gather(v["bias"], tf.reshape(relative[..., 0] * 3 + relative[..., 1], [-1])), [4, 4])
    part = tf.reshape(tf.transpose(tf.reshape(tf.pad(tf.zeros([6, 6]), [[0, 2], [0, 2]], constant_values=1), [4, 2, 4, 2]),
                                   [0, 2, 1, 3]), [1, 16, 4])
    mask = tf.where(tf.equal(part[..., None], part[:, :, None]), 0.0, -100.0)
    scores = tf.reshape(tf.matmul(q, k, transpose_b=True) + bias, [2, 16, 4, 4]) + mask
    h = tf.matmul(tf.nn.softmax(tf.reshape(scores, [-1, 4, 4])), u)
    h = tf.roll(tf.reshape(tf.transpose(tf.reshape(h, [2, 4, 4, 2, 2, 3]), [0, 1, 3, 2, 4, 5]), [2, 8, 8, 3]), [1, 1], [1, 2])
    return tf.reduce_mean((h - y) ** 2)


def patches(v, x, y):
    tokens = tf.reshape(tf.image.extract_patches(x, [1, 4, 4, 1], [1, 4, 4, 1], [1, 1, 1, 1], "VALID"), [2, 4, 48]) @ v["embed"]
    tokens = tf.concat([tf.broadcast_to(v["class"], [2, 1, 6]), tokens], 1) + v["position"]
    dropped = tf.nn.experimental.stateless_dropout(tokens, 0.25, [3, 4])
    path = tf.floor(0.8 + tf.random.stateless_uniform([2, 1, 1], [5, 6])) / 0.8
    tokens += path * tf.nn.softmax(tf.matmul(dropped, dropped, transpose_b=True)) @ tokens
    return softmax_loss(layer_norm(tokens, 1.0, 0.0)[:, 0] @ v["out"], y)


def speech(v, x, labels):
    """CTC with the greedy decoder beside it."""
    logits = tf.transpose(x @ v["w"], [1, 0, 2])
    truth = tf.SparseTensor(tf.constant([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]], tf.int64), tf.reshape(labels, [-1])[:5], [2, 3])
    loss = tf.reduce_mean(tf.compat.v1.nn.ctc_loss(truth, logits, tf.constant([8, 7])))
    (greedy,), _ = tf.nn.ctc_greedy_decoder(logits, tf.constant([8, 7]))
    return loss + 0.0 * tf.cast(tf.reduce_sum(greedy.values), tf.float32)


def edit_distances(v, x, y):
    truth = tf.sparse.from_dense(tf.constant([[1, 2, 3], [2, 1, 0]], tf.int64))
    guess = tf.sparse.from_dense(tf.constant([[1, 3, 0], [2, 2, 1]], tf.int64))
    return tf.reduce_mean((x @ v["w"] - y) ** 2) + tf.reduce_mean(tf.edit_distance(guess, truth))


# Features

def sparse_features(v, x, y):
    a = tf.sparse.from_dense(tf.constant([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 4, 5]], tf.float32))
    b = tf.SparseTensor(tf.constant([[0, 0], [1, 3], [2, 2]], tf.int64), tf.gather(x[:, 0], [0, 1, 2]), [3, 4])
    both = tf.sparse.add(a, b)
    joined = tf.sparse.concat(1, [both, tf.sparse.transpose(tf.sparse.transpose(a))])
    part = tf.sparse.slice(joined, [0, 2], [3, 5])
    halves = tf.sparse.split(joined, 2, 1)
    kept = tf.sparse.retain(part, part.values > 1.5)
    largest = tf.sparse.maximum(a, b)
    sums = tf.sparse.reduce_sum(joined, 1) + tf.sparse.reduce_max(a, 1)
    h = tf.sparse.sparse_dense_matmul(part, v["w"]) + tf.sparse.sparse_dense_matmul(halves[0], v["u"]) + sums[:, None]
    h += tf.sparse.sparse_dense_matmul(tf.sparse.reorder(largest), v["u"])
    h += tf.sparse.to_dense(tf.sparse.reset_shape(kept, [3, 5]))[:, :2]
    h += tf.sparse.to_dense(tf.sparse.softmax(a))[:, :2] + tf.sparse.to_dense(tf.sparse.expand_dims(b, 0))[0, :, :2]
    return tf.reduce_mean((h - y) ** 2)


def sparse_segments(v, ids, segments, y):
    rows = tf.sparse.segment_sum(v["table"], ids, segments) + tf.sparse.segment_mean(v["table"], ids, segments)
    rows += tf.sparse.segment_sqrt_n(v["table"], ids, segments) + tf.math.segment_sum(tf.gather(v["table"], ids), segments)
    rows += tf.math.segment_max(tf.gather(v["table"], ids), segments) * tf.math.segment_min(tf.gather(v["table"], ids), segments)
    rows += tf.math.segment_prod(tf.gather(v["table"], ids), segments) + tf.math.segment_mean(tf.gather(v["table"], ids), segments)
    rows += tf.sparse.segment_sum(v["table"], ids, segments, num_segments=3)
    return tf.reduce_mean((rows - y) ** 2)


def ragged_words(v, ids, row_of, y):
    words = tf.RaggedTensor.from_value_rowids(ids, row_of, 3, validate=False)
    rows = tf.gather(v["table"], words.values)
    mean = tf.math.segment_mean(rows, words.value_rowids())
    dense = words.with_values(rows).to_tensor(0.0, shape=[3, 4, 4])
    positions = tf.range(tf.size(ids)) - tf.gather(words.row_starts(), words.value_rowids())
    placed = tf.gather(v["place"], positions)
    summed = tf.math.unsorted_segment_sum(placed, words.value_rowids(), 3)
    return tf.reduce_mean((mean + tf.reduce_sum(dense, 1) + summed - y) ** 2) + tf.reduce_mean(words.with_values(rows).to_tensor())


def wide_features(v, age, clicks, y):
    bucket = tf.raw_ops.Bucketize(input=age, boundaries=[18.0, 30.0, 50.0])
    crossed = tf.math.floormod(bucket * 7 + clicks[:, 0], 6)
    counts = tf.math.bincount(clicks, minlength=5, maxlength=5, axis=-1, dtype=tf.float32)
    flags = tf.math.bincount(clicks, minlength=5, maxlength=5, axis=-1, binary_output=True, dtype=tf.float32)
    weighted = tf.math.bincount(tf.reshape(clicks, [-1]), weights=tf.repeat(age, 3) / 10.0, minlength=5, maxlength=5)
    edges = tf.searchsorted(tf.constant([0.0, 20.0, 40.0]), age, side="right")
    logits = tf.gather(v["cross"], crossed) + tf.linalg.matvec(counts + flags + weighted, v["deep"]) + tf.gather(v["edge"], edges)
    shares = tf.cast(tf.histogram_fixed_width(age, [0.0, 80.0], 4), tf.float32)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits)) + 1e-3 * tf.reduce_sum(shares * v["cross"][:4])


def rows_by_part(v, ids, y):
    """Embeddings kept in several variables, `div` and `mod`."""
    x = tf.compat.v1.nn.embedding_lookup([v["p0"], v["p1"], v["p2"]], ids, partition_strategy="mod")
    z = tf.compat.v1.nn.embedding_lookup([v["p0"], v["p1"], v["p2"]], ids, partition_strategy="div", max_norm=1.0)
    return tf.reduce_mean((x + z - y) ** 2)


def scattered(v, x, index, y):
    h = x @ v["w"]
    h = tf.tensor_scatter_nd_update(h, index, h[:2] * 2)
    h = tf.tensor_scatter_nd_add(h, index, h[1:3])
    h = tf.tensor_scatter_nd_sub(h, index, h[:2] * 0.5)
    h = tf.tensor_scatter_nd_max(h, index, tf.zeros([2, 3]))
    h = tf.tensor_scatter_nd_min(h, index, tf.ones([2, 3]))
    h += tf.scatter_nd(index, h[:2], [4, 3])
    left, right = tf.dynamic_partition(h, tf.constant([0, 1, 1, 0]), 2)
    h = tf.dynamic_stitch([tf.constant([0, 3]), tf.constant([1, 2])], [left, right * 2])
    v["count"].scatter_add(tf.IndexedSlices(tf.ones([2, 3]), index[:, 0]))
    v["count"].scatter_max(tf.IndexedSlices(tf.fill([2, 3], 2.5), index[:, 0]))
    v["count"].scatter_nd_add(index, tf.ones([2, 3]))
    return tf.reduce_mean((h - y) ** 2)


def clusters(v, x):
    distance = tf.reduce_sum(tf.math.squared_difference(x[:, None], v["centres"][None]), -1)
    nearest = tf.argmin(distance, 1)
    found, where, counts = tf.unique_with_counts(nearest)
    means = tf.math.unsorted_segment_mean(x, where, tf.size(found))
    spread = tf.reduce_sum(tf.square(tf.gather(means, where) - x)) / tf.cast(tf.reduce_max(counts), tf.float32)
    return tf.reduce_mean(tf.reduce_min(distance, 1)) + 0.1 * spread * tf.reduce_mean(v["centres"])


def sparsemax(v, x, y):
    z = x @ v["w"]
    ordered = tf.sort(z, direction="DESCENDING")
    sums = tf.cumsum(ordered, 1)
    k = tf.range(1.0, 6.0)
    support = 1 + k * ordered > sums
    size = tf.reduce_sum(tf.cast(support, tf.int32), 1)
    tau = (tf.gather(sums, size - 1, batch_dims=1) - 1) / tf.cast(size, tf.float32)
    p = tf.maximum(0.0, z - tau[:, None])
    order = tf.argsort(z, stable=True)
    lovasz = tf.gather(p, order, batch_dims=1) * tf.cumsum(tf.ones_like(p), 1, reverse=True)
    return tf.reduce_mean((p - y) ** 2) + 0.01 * tf.reduce_mean(lovasz)


# Pictures

def fractional(v, x, y):
    h = tf.nn.conv2d(x, v["w"], 1, "SAME")
    a, rows, columns = tf.nn.fractional_max_pool(h, [1, 1.5, 1.4, 1], pseudo_random=True, overlapping=True, seed=7)
    b, _, _ = tf.nn.fractional_avg_pool(h, [1, 1.5, 1.4, 1], pseudo_random=False, seed=9)
    return tf.reduce_mean(tf.square(a + b)) + tf.reduce_mean(y) + 0.0 * tf.cast(tf.reduce_sum(rows) + tf.reduce_sum(columns), tf.float32)


def style_gan(v, x, style, y):
    """Modulated and demodulated kernels by grouped convolution, blur, noise, deviation over the batch."""
    w = v["w"][None] * (style @ v["mod"])[:, None, None, :, None]
    w *= tf.math.rsqrt(tf.reduce_sum(tf.square(w), [1, 2, 3], keepdims=True) + 1e-8)
    grouped = tf.reshape(tf.transpose(x, [1, 2, 0, 3]), [1, 8, 8, 6])
    kernel = tf.reshape(tf.transpose(w, [1, 2, 3, 0, 4]), [3, 3, 3, 8])
    h = tf.nn.conv2d(grouped, kernel, 1, "SAME")
    h = tf.transpose(tf.reshape(h, [8, 8, 2, 4]), [2, 0, 1, 3])
    blur = tf.tile(tf.constant(np.outer([1, 2, 1], [1, 2, 1])[:, :, None, None] / 16.0, tf.float32), [1, 1, 4, 1])
    h = tf.nn.depthwise_conv2d(tf.pad(tf.repeat(tf.repeat(h, 2, 1), 2, 2), [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT"),
                               blur, [1, 2, 2, 1], "VALID")
    h = tf.nn.leaky_relu(h + v["noise"] * tf.random.stateless_normal([2, 8, 8, 1], [1, 1]), 0.2) * np.sqrt(2)
    deviation = tf.reduce_mean(tf.sqrt(tf.math.reduce_variance(h, 0) + 1e-8))
    return tf.reduce_mean(tf.square(tf.concat([h, tf.fill([2, 8, 8, 1], deviation)], -1)[..., :2] - y))


def cycle_gan(v, x, y):
    h = tf.nn.conv2d(tf.pad(x, [[0, 0], [3, 3], [3, 3], [0, 0]], "REFLECT"), v["w"], 1, "VALID")
    mean, variance = tf.nn.moments(h, [1, 2], keepdims=True)
    h = tf.nn.relu((h - mean) / tf.sqrt(variance + 1e-5))
    h = tf.nn.conv2d(h, v["down"], 2, [[0, 0], [0, 1], [1, 0], [0, 0]])
    h = tf.nn.conv2d_transpose(h, v["up"], [2, 8, 8, 3], 2, "SAME")
    h = tf.tanh(h + tf.pad(x[:, 1:, 1:], [[0, 0], [1, 0], [0, 1], [0, 0]], "SYMMETRIC"))
    return tf.reduce_mean(tf.abs(h - y)) + tf.reduce_mean(tf.math.squared_difference(h, 1.0))


def boxes_of_masks(v, x, boxes, scores, y):
    picked = tf.image.combined_non_max_suppression(boxes, scores, 2, 3, 0.5, 0.1)
    crops = tf.image.crop_and_resize(tf.nn.conv2d(x, v["w"], 1, "SAME"), picked.nmsed_boxes[0], tf.zeros([3], tf.int32), [2, 2])
    return softmax_loss(tf.reshape(crops, [3, -1]) @ v["o"], y) + tf.reduce_mean(picked.nmsed_scores) + \
        1e-3 * tf.reduce_sum(tf.cast(picked.valid_detections, tf.float32))


def resampled(v, x, at, y):
    small = tf.compat.v1.image.resize_area(x, [5, 4])
    at = tf.stack([at[:, 0], at[:, 1], at[:, 0] + 0.4, at[:, 1] + 0.6], 1)
    seen = tf.image.crop_and_resize(x, at, tf.range(2), [3, 3], "nearest")
    drawn = tf.image.resize(x, [3, 4], "area")
    moved = tf.raw_ops.ImageProjectiveTransformV3(images=x, transforms=tf.constant([[1, 0.1, 0, 0, 1, 0.5, 0, 0]], tf.float32),
                                                  output_shape=[8, 8], fill_value=0.5, interpolation="BILINEAR")
    bright = tf.image.adjust_gamma(tf.image.convert_image_dtype(tf.cast(x * 10, tf.uint8), tf.float32), 0.8)
    h = tf.concat([tf.reduce_mean(i, [1, 2]) for i in (small, seen, drawn, moved, bright)], 1)
    return tf.reduce_mean((h @ v["w"] - y) ** 2)


def points(v, x, y):
    """Farthest points, neighbours, max over them: point clouds."""
    chosen, distance = [tf.zeros([2], tf.int32)], tf.fill([2, 8], 1e10)
    for _ in range(2):
        last = tf.gather(x, chosen[-1], batch_dims=1)
        distance = tf.minimum(distance, tf.reduce_sum(tf.square(x - last[:, None]), -1))
        chosen.append(tf.argmax(distance, 1, output_type=tf.int32))
    centres = tf.gather(x, tf.stack(chosen, 1), batch_dims=1)
    apart = tf.norm(centres[:, :, None] - x[:, None], axis=-1)
    _, near = tf.math.top_k(-apart, 3, sorted=False)
    group = tf.gather(x, tf.sort(near), batch_dims=1) - centres[:, :, None]
    features = tf.reduce_max(tf.nn.relu(group @ v["w"]), 2)
    return tf.reduce_mean((tf.reduce_max(features, 1) - y) ** 2) + tf.reduce_mean(tf.reduce_min(apart, -1))


def odd_convolutions(v, x, y):
    h = tf.nn.depthwise_conv2d(x, v["d"], [1, 1, 1, 1], "SAME", dilations=[2, 2])
    h += tf.nn.separable_conv2d(x, v["d"], v["p"], [1, 1, 1, 1], "SAME")
    h = tf.nn.atrous_conv2d(h, v["a"], 2, "VALID")
    h += tf.nn.atrous_conv2d_transpose(h, v["t"], [2, 4, 4, 6], 2, "SAME")
    lines = tf.nn.conv1d(tf.reshape(h, [2, 16, 6]), v["l"], 2, "SAME", dilations=1)
    lines = tf.nn.conv1d_transpose(lines, v["l"], [2, 16, 6], 2, "SAME")
    pooled = tf.nn.pool(tf.reshape(lines, [2, 4, 4, 6]), [2, 2], "AVG", [1, 1], "VALID", dilations=[2, 2])
    pooled = tf.pad(pooled, [[0, 0], [1, 1], [1, 1], [0, 0]]) + tf.nn.pool(tf.reshape(lines, [2, 4, 4, 6]), [3, 3], "MAX", [1, 1], "SAME")
    return tf.reduce_mean((tf.reduce_mean(pooled, [1, 2]) - y) ** 2)


# Numbers and derivatives

def special(v, x):
    z = tf.abs(v["w"] * x) + 0.5
    loss = sum(tf.reduce_mean(f(z)) for f in (
        tf.math.special.bessel_j0, tf.math.special.bessel_j1, tf.math.special.bessel_y0, tf.math.special.bessel_y1,
        tf.math.special.bessel_k0, tf.math.special.bessel_k0e, tf.math.special.bessel_k1, tf.math.special.bessel_k1e,
        tf.math.special.dawsn, tf.math.special.expint, tf.math.special.fresnel_sin, tf.math.special.fresnel_cos,
        tf.math.special.spence, tf.math.bessel_i0, tf.math.bessel_i1e, tf.math.lbeta, tf.math.erf))
    p = tf.sigmoid(z)
    loss += tf.reduce_mean(tf.math.betainc(tf.stop_gradient(z), tf.stop_gradient(z) + 1, p))
    loss += tf.reduce_mean(tf.math.igamma(tf.stop_gradient(z), z)) + tf.reduce_mean(tf.math.ndtri(p)) + tf.reduce_mean(tf.math.erfcinv(p))
    loss += tf.reduce_mean(tf.math.xlogy(z, z) + tf.math.xlog1py(z, z) + tf.math.xdivy(z, z + 1))
    return loss + tf.reduce_mean(tf.sin(z)) + tf.reduce_mean(tf.math.polygamma(1.0, z))


def matrices(v, x, y):
    a = tf.matmul(v["w"], v["w"], transpose_b=True) + tf.eye(3)
    band = tf.linalg.tridiagonal_solve([tf.ones([3]) * 0.5, tf.fill([3], 4.0) + v["w"][0], tf.ones([3]) * 0.3], tf.transpose(x)[:3],
                                       diagonals_format="sequence")
    product = tf.linalg.tridiagonal_matmul([v["w"][0], v["w"][1], v["w"][2]], tf.transpose(x)[:3], diagonals_format="sequence")
    least = tf.linalg.lstsq(x, y, l2_regularizer=0.1)
    factor, order = tf.linalg.lu(tf.stop_gradient(a))
    whole = tf.linalg.cholesky_solve(tf.linalg.cholesky(a), tf.transpose(x)) + tf.linalg.pinv(a) @ tf.transpose(x)
    h = x + tf.transpose(band + whole + product) + x @ least @ tf.ones([2, 3]) * 0.1
    return tf.reduce_mean(tf.square(h)) + tf.linalg.logdet(a) + 1e-2 * tf.reduce_mean(factor) + \
        0.0 * tf.cast(tf.reduce_sum(order), tf.float32)


def inner_steps(v, x, y, x2, y2):
    """Learning to learn: a gradient through a step of gradient descent, and through a second one."""
    fast = [v["w"], v["b"]]
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(fast)
            inner = softmax_loss(tf.nn.relu(tf.nn.conv1d(x, fast[0], 1, "SAME"))[:, 0] + fast[1], y)
        fast = [p - 0.1 * g for p, g in zip(fast, tape.gradient(inner, fast))]
    return softmax_loss(tf.nn.relu(tf.nn.conv1d(x2, fast[0], 1, "SAME"))[:, 0] + fast[1], y2)


def physics(v, x):
    """The heat equation's residual: second derivatives by nested tapes."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            u = tf.tanh(tf.sin(x @ v["w1"]) @ v["w2"])
        first = tape.gradient(u, x)
        slope = first[:, 0]
    second = outer.gradient(slope, x)[:, 0]
    return tf.reduce_mean(tf.square(first[:, 1] - 0.1 * second)) + tf.reduce_mean(tf.square(u))


def ordinary_equation(v, x, y):
    field = lambda s, t: tf.math.softplus(s @ v["w"] + t * v["b"]) - 0.5
    for i in range(2):
        t, h = 0.5 * i, 0.5
        k1 = field(x, t)
        k2 = field(x + h / 2 * k1, t + h / 2)
        k3 = field(x + h / 2 * k2, t + h / 2)
        x += h / 6 * (k1 + 2 * k2 + 2 * k3 + field(x + h * k3, t + h))
    return tf.reduce_mean(tf.math.log(tf.cosh(y - x)))


def private_gradients(v, x, y):
    """Per-example gradients by vectorised mapping, clipped one by one."""
    def one(pair):
        with tf.GradientTape() as tape:
            tape.watch(v["w"])
            loss = tf.reduce_sum(tf.square(tf.linalg.matvec(v["w"], pair[0], transpose_a=True) - pair[1]))
        return tape.gradient(loss, v["w"])
    each = tf.vectorized_map(one, (x, y))
    norms = tf.norm(tf.reshape(each, [4, -1]), axis=1)
    clipped = each * tf.minimum(1.0, 1.0 / norms)[:, None, None]
    v["sum"].assign(tf.reduce_mean(clipped, 0))
    return tf.reduce_mean(tf.square(x @ v["w"] - y))


def jacobians(v, x, y):
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = tf.tanh(x @ v["w"])
    jacobian = tape.batch_jacobian(h, x)
    return tf.reduce_mean(tf.square(h - y)) + 0.1 * tf.reduce_mean(tf.linalg.norm(jacobian, axis=[1, 2]))


def distributions(v, x):
    a, b = tf.nn.softplus(v["w"]) + 0.5, tf.nn.softplus(-v["w"]) + 0.5
    p = tf.sigmoid(x)
    beta = (a - 1) * tf.math.log(p) + (b - 1) * tf.math.log1p(-p) - tf.math.lbeta(tf.stack([a, b], -1))
    mises = a * tf.cos(x - v["w"]) - tf.math.log(tf.math.bessel_i0e(a)) - tf.abs(a)
    draw = tf.random.stateless_gamma([4, 3], [1, 2], a)
    cauchy = -tf.math.log(np.pi * b * (1 + tf.square((x - v["w"]) / b)))
    normal = tf.math.log(0.5 * tf.math.erfc(-x / np.sqrt(2.0) * a) + 1e-6)
    count = tf.floor(tf.abs(x) * 3)
    poisson = tf.nn.log_poisson_loss(count, tf.math.log(a) + 0 * x, compute_full_loss=True)
    return -tf.reduce_mean(beta + mises + cauchy + normal) + tf.reduce_mean(poisson) + tf.reduce_mean(tf.square(draw))


def target_network(v, states, following, actions, rewards, done):
    """Double Q-learning with a replayed batch, a categorical head and soft updates of the target."""
    q = states @ v["online"]
    best = tf.argmax(following @ v["online"], 1, output_type=tf.int32)
    later = tf.gather_nd(following @ v["target"], tf.stack([tf.range(5), best], 1))
    wanted = tf.stop_gradient(rewards + 0.9 * later * (1.0 - tf.cast(done, tf.float32)))
    taken = tf.reduce_sum(q * tf.one_hot(actions, 3), 1)
    v["target"].assign(0.99 * v["target"] + 0.01 * v["online"])
    levels = tf.clip_by_value(tf.linspace(-1.0, 1.0, 5)[None] * 0.9 + rewards[:, None], -1, 1)
    b = (levels + 1) / 0.5
    low, high = tf.floor(b), tf.math.ceil(b)
    share = tf.reduce_sum(tf.one_hot(tf.cast(low, tf.int32), 5) * (high - b)[..., None], 1)
    p = tf.nn.log_softmax(states @ v["atoms"])
    return tf.reduce_mean(tf.losses.huber(wanted[:, None], taken[:, None])) - tf.reduce_mean(share * p)


# Branches

def small_loss(v, x, y):
    return tf.reduce_mean(tf.square(x @ v["w"] - y))


def _warm_up(v, g):
    step = v["step"]
    rate = tf.cond(step < 2, lambda: 0.1 * tf.cast(step + 1, tf.float32) / 2.0,
                   lambda: 0.05 * (1.0 + tf.cos(np.pi * tf.cast(step - 2, tf.float32) / 8.0)))
    rate *= tf.switch_case(tf.minimum(step, 2), [lambda: tf.constant(1.0), lambda: tf.constant(0.5), lambda: v["w"][0, 0] + 1.0])
    v["w"].assign_sub(rate * g["w"])
    step.assign_add(1)


def _every_other(v, g):
    """Gradients are gathered and applied every second step, slow weights follow every second step."""
    v["sum"].assign_add(g["w"])
    v["step"].assign_add(1)

    def apply():
        v["w"].assign_sub(0.05 * v["sum"])
        v["sum"].assign(tf.zeros_like(v["sum"]))
        return tf.constant(True)
    applied = tf.cond(tf.equal(v["step"] % 2, 0), apply, lambda: tf.constant(False))
    tf.cond(applied, lambda: v["slow"].assign_add(0.5 * (v["w"] - v["slow"])).read_value(), lambda: v["slow"].read_value())


def _finite_only(v, g):
    finite = tf.reduce_all(tf.math.is_finite(g["w"]))

    def good():
        v["w"].assign_sub(0.05 * g["w"] / v["scale"])
        v["good"].assign_add(1)
        tf.cond(tf.equal(v["good"], 2), lambda: grow(), lambda: None)

    def grow():
        v["scale"].assign(v["scale"] * 2.0)
        v["good"].assign(0)

    def bad():
        v["scale"].assign(v["scale"] / 2.0)
        v["good"].assign(0)
    tf.cond(finite, good, bad)


def _adam_if(v, g):
    raw = tf.raw_ops
    kept = tf.reduce_sum(v["m"]) + tf.reduce_sum(v["s"])  # the graph must know them as variables
    tf.debugging.assert_all_finite(kept, "moments")

    def apply():
        raw.ResourceApplyAdam(var=v["w"].handle, m=v["m"].handle, v=v["s"].handle, beta1_power=0.9, beta2_power=0.99, lr=0.1,
                              beta1=0.9, beta2=0.99, epsilon=1e-7, grad=g["w"])
        return tf.no_op()
    tf.cond(tf.equal(v["step"] % 2, 0), apply, tf.no_op)
    v["step"].assign_add(1)


def train_or_not(v, x, training, y):
    """A normalisation whose statistics and moving averages hang on a flag that is fed, with dropout behind it."""
    h = x @ v["w"]

    def batch():
        mean, variance = tf.nn.moments(h, [0])
        v["mean"].assign_sub(0.1 * (v["mean"] - mean))
        v["variance"].assign_sub(0.1 * (v["variance"] - variance))
        return mean, variance
    mean, variance = tf.cond(training, batch, lambda: (v["mean"].read_value(), v["variance"].read_value()))
    h = tf.nn.batch_normalization(h, mean, variance, None, None, 1e-3)
    h = tf.cond(training, lambda: tf.nn.experimental.stateless_dropout(h, 0.5, [1, 2]), lambda: h)
    return tf.reduce_mean(tf.square(h - y))


def guarded(v, x, y):
    """Asserts, prints and checks inside of branches."""
    def checked():
        tf.debugging.assert_less(tf.reduce_max(tf.abs(x)), 100.0)
        tf.debugging.assert_equal(tf.shape(x)[0], 4)
        return tf.debugging.check_numerics(x @ v["w"], "in a branch")
    h = tf.cond(tf.reduce_sum(x) > -1000.0, checked, lambda: x @ v["w"] * 2.0)
    h = tf.cond(tf.reduce_any(h > 1e6), lambda: tf.clip_by_value(h, -1.0, 1.0), lambda: h)
    return tf.reduce_mean(tf.square(h - y))


def shaped(v, x, y, keep):
    """Rows that a mask keeps, under a shape that is asserted."""
    rows = tf.boolean_mask(x, keep)
    rows = tf.ensure_shape(rows, [3, 3])
    return tf.reduce_mean(tf.square(rows @ v["w"] - tf.ensure_shape(tf.boolean_mask(y, keep), [None, 3])))


def orders(v, x, y):
    order = tf.math.invert_permutation(tf.argsort(x[:, 0]))
    different, places = tf.raw_ops.ListDiff(x=tf.range(4), y=tf.constant([1]))
    h = tf.gather(x, order) @ v["w"]
    return tf.reduce_mean(tf.square(h - y)) + tf.reduce_mean(tf.gather(h, different)) + \
        0.0 * tf.cast(tf.reduce_sum(places), tf.float32)


def drawn(v, x, y):
    """Random numbers of the rarer kinds, all from seeds that are given."""
    made = [tf.cast(tf.random.stateless_uniform([4, 3], [5, 6], 0, 10, tf.int32), tf.float32),
            tf.cast(tf.random.stateless_categorical(x, 3, [7, 8]), tf.float32),
            tf.random.stateless_truncated_normal([4, 3], [3, 4])]
    return tf.reduce_mean(tf.square((x + 0.1 * tf.add_n(made)) @ v["w"] - y))


def bits_of_numbers(v, x, y):
    shifted = tf.bitwise.bitwise_xor(tf.cast(x[:, 0] * 8, tf.int32), 3)
    bits = tf.raw_ops.PopulationCount(x=shifted)
    low = tf.bitwise.left_shift(tf.bitwise.bitwise_and(shifted, 1), 1)
    h = x @ v["w"] + tf.cast(bits, tf.float32)[:, None] + tf.cast(low, tf.float32)[:, None]
    return tf.reduce_mean(tf.square(h - y)) + tf.reduce_mean(tf.math.nextafter(h, h + 1.0)) * 0.1


def _table():
    w = lambda *shape, seed=5: numbers(*shape, seed=seed) * F32(0.3)
    ones, zeros = (lambda *s: np.ones(s, F32)), (lambda *s: np.zeros(s, F32))
    image = {"x": np.abs(numbers(2, 8, 8, 3))}
    xy = {"x": numbers(4, 3), "y": numbers(4, 3)}
    step = {"step": np.int32(0)}
    yield llama, {"table": w(9, 8), "g1": ones(8), "g2": ones(8), "q": w(8, 4, 4), "k": w(8, 2, 4), "v": w(8, 2, 4, seed=6),
                  "o": w(4, 4, 8), "gate": w(8, 12), "up": w(8, 12, seed=7), "down": w(12, 8)}, {
        "ids": integers(9, 2, 6), "y": integers(9, 2, 6) - 2}
    yield state_space, {"c": w(4), "a": w(4, seed=6), "gate": w(8)}, {"x": numbers(2, 8), "y": numbers(2, 8, seed=1)}
    yield routed_experts, {"gate": w(3, 4), "w": w(4, 3, 3)}, {"x": numbers(8, 3), "y": numbers(8, 3)}
    yield window_attention, {"qkv": w(3, 9), "bias": w(9)}, dict(image, y=numbers(2, 8, 8, 3))
    yield patches, {"embed": w(48, 6), "class": w(1, 1, 6), "position": w(1, 5, 6), "out": w(6, 3)}, dict(image, y=integers(3, 2))
    yield speech, {"w": w(3, 5)}, {"x": numbers(2, 8, 3), "labels": integers(4, 2, 3)}
    yield edit_distances, {"w": w(3, 3)}, xy
    yield sparse_features, {"w": w(5, 2), "u": w(4, 2)}, {"x": numbers(3, 3), "y": numbers(3, 2)}
    yield sparse_segments, {"table": w(6, 4)}, {"ids": integers(6, 7), "segments": np.array([0, 0, 1, 1, 1, 2, 2], np.int32), "y": numbers(3, 4)}
    yield ragged_words, {"table": w(6, 4), "place": w(4, 4)}, {"ids": integers(6, 7), "row_of": np.array([0, 0, 0, 1, 2, 2, 2], np.int32), "y": numbers(3, 4)}
    yield wide_features, {"cross": w(6), "deep": w(5), "edge": w(4)}, {"age": np.array([17, 25, 44, 70], F32), "clicks": integers(5, 4, 3), "y": ones(4)}
    yield rows_by_part, {"p0": w(3, 4), "p1": w(3, 4, seed=6), "p2": w(3, 4, seed=7)}, {"ids": integers(9, 5), "y": numbers(5, 4)}
    yield scattered, {"w": w(3, 3), "count": zeros(4, 3)}, dict(xy, index=np.array([[1], [3]], np.int32))
    yield clusters, {"centres": w(3, 2)}, {"x": numbers(8, 2)}
    yield sparsemax, {"w": w(3, 5)}, {"x": numbers(4, 3), "y": numbers(4, 5)}
    yield fractional, {"w": w(3, 3, 3, 2)}, dict(image, y=numbers(2, 3))
    yield style_gan, {"w": w(3, 3, 3, 4), "mod": w(5, 3), "noise": w(4)}, dict(image, style=numbers(2, 5), y=numbers(2, 8, 8, 2))
    yield cycle_gan, {"w": w(7, 7, 3, 4), "down": w(2, 2, 4, 4), "up": w(3, 3, 3, 4)}, dict(image, y=numbers(2, 8, 8, 3))
    yield boxes_of_masks, {"w": w(3, 3, 3, 2), "o": w(8, 3)}, dict(
        image, boxes=np.array([[[[0, 0, .5, .5]], [[0, .1, .5, .6]], [[.4, .4, 1, 1]], [[.5, .5, 1, .9]]]], F32),
        scores=np.array([[[.9, .2], [.8, .3], [.7, .6], [.1, .5]]], F32), y=integers(3, 3))
    yield resampled, {"w": w(15, 3)}, dict(image, at=np.array([[0, 0], [.3, -.2]], F32), y=numbers(2, 3))
    yield points, {"w": w(3, 4)}, {"x": numbers(2, 8, 3), "y": numbers(2, 4)}
    yield odd_convolutions, {"d": w(3, 3, 3, 2), "p": w(1, 1, 6, 6), "a": w(3, 3, 6, 6), "t": w(2, 2, 6, 6), "l": w(3, 6, 6)}, dict(image, y=numbers(2, 6))
    yield special, {"w": w(3)}, {"x": numbers(4, 3)}
    yield matrices, {"w": w(3, 3)}, {"x": numbers(5, 3), "y": numbers(5, 2)}
    yield inner_steps, {"w": w(3, 3, 4), "b": w(4)}, {"x": numbers(4, 5, 3), "y": integers(4, 4), "x2": numbers(4, 5, 3, seed=3), "y2": integers(4, 4, seed=4)}
    yield physics, {"w1": w(2, 8), "w2": w(8, 1)}, {"x": numbers(6, 2)}
    yield ordinary_equation, {"w": w(3, 3), "b": w(3)}, xy
    yield private_gradients, {"w": w(3, 3), "sum": zeros(3, 3)}, xy
    yield jacobians, {"w": w(3, 3)}, xy
    yield distributions, {"w": w(3)}, {"x": numbers(4, 3)}
    yield target_network, {"online": w(4, 3), "target": w(4, 3), "atoms": w(4, 5)}, {
        "states": numbers(5, 4), "following": numbers(5, 4, seed=1), "actions": integers(3, 5), "rewards": numbers(5),
        "done": np.array([0, 1, 0, 0, 1], bool)}
    yield ("warm_up", small_loss, _warm_up), dict(step, w=w(3, 3)), xy
    yield ("every_other", small_loss, _every_other), dict(step, w=w(3, 3), sum=zeros(3, 3), slow=w(3, 3)), xy
    yield ("finite_only", lambda v, x, y: small_loss(v, x, y) * v["scale"], _finite_only), {
        "w": w(3, 3), "scale": np.float32(4), "good": np.int32(0)}, xy
    yield ("adam_if", small_loss, _adam_if), dict(step, w=w(3, 3), m=zeros(3, 3), s=zeros(3, 3)), xy
    yield train_or_not, {"w": w(3, 3), "mean": zeros(3), "variance": ones(3)}, dict(xy, training=np.bool_(True))
    yield ("train_not", train_or_not, None), {"w": w(3, 3), "mean": zeros(3), "variance": ones(3)}, dict(xy, training=np.bool_(False))
    yield guarded, {"w": w(3, 3)}, xy
    yield shaped, {"w": w(3, 3)}, dict(xy, keep=np.array([True, False, True, True]))
    yield orders, {"w": w(3, 3)}, xy
    yield drawn, {"w": w(3, 3)}, xy
    yield bits_of_numbers, {"w": w(3, 3)}, xy


def cases():
    for loss, variables, feeds in _table():
        name, loss, update = loss if isinstance(loss, tuple) else (loss.__name__, loss, None)
        variables = {key: np.asarray(value) for key, value in variables.items()}
        yield name, eager(_Built(variables, loss, feeds, 0.05, update, {}))
