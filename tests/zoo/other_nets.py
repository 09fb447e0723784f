"""Sound, graphs, mixtures, variational and reinforcement learning, Gaussian processes; and dtypes other than float32."""
import numpy as np
import tensorflow as tf

from zoo import Net

tf1 = tf.compat.v1


def variable(name, shape, scale=0.2, initializer=None, dtype=tf.float32):
    initializer = initializer or tf1.random_normal_initializer(0, scale, seed=len(name), dtype=dtype)
    return tf1.get_variable(name, shape, dtype, initializer=initializer, use_resource=True)


def placeholders(feeds):
    return [tf1.placeholder(value.dtype, value.shape, name) for name, value in feeds.items()]


def sgd(loss, rate=0.1):
    return tf1.train.GradientDescentOptimizer(rate).minimize(loss)


def wavenet():
    """Causal dilated convolutions by SpaceToBatch and BatchToSpace, gated, skip sums, mu-law targets."""
    rng = np.random.default_rng(0)
    feeds = {"audio": rng.uniform(-1, 1, (2, 33)).astype(np.float32)}
    (audio,) = placeholders(feeds)
    mu = tf.sign(audio) * tf.math.log1p(255 * tf.abs(audio)) / np.log(256)
    codes = tf.cast((mu + 1) / 2 * 15 + 0.5, tf.int32)
    x = tf.one_hot(codes[:, :-1], 16) @ variable("embed", [16, 8])
    skips = []
    for i, rate in enumerate((1, 2, 4, 8)):
        padded = tf.pad(x, [[0, 0], [rate, 0], [0, 0]])
        gates = tf.nn.convolution(padded, variable(f"gate{i}", [2, 8, 16]), padding="VALID", dilations=[rate])
        y = tf.tanh(gates[..., :8]) * tf.sigmoid(gates[..., 8:])
        skips.append(tf.nn.conv1d(y, variable(f"skip{i}", [1, 8, 8]), 1, "SAME"))
        x += tf.nn.conv1d(y, variable(f"residual{i}", [1, 8, 8]), 1, "SAME")
    spaced = tf.batch_to_space(tf.space_to_batch(x[:, :, None], [2, 1], [[0, 0], [0, 0]]), [2, 1], [[0, 0], [0, 0]])
    out = tf.nn.relu(tf.add_n(skips) + spaced[:, :, 0])
    logits = tf.nn.conv1d(out, variable("out", [1, 8, 16]), 1, "VALID")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=codes[:, 1:], logits=logits))
    return Net(loss, tf1.train.AdamOptimizer(0.01).minimize(loss), feeds, check_variables=False)


def vae():
    rng = np.random.default_rng(0)
    feeds = {"x": rng.uniform(size=(6, 12)).astype(np.float32)}
    (x,) = placeholders(feeds)
    hidden = tf.nn.softsign(x @ variable("enc", [12, 16]))
    mean, log_var = tf.split(hidden @ variable("stats", [16, 8]), 2, 1)
    z = mean + tf.exp(0.5 * log_var) * tf1.random_normal([6, 4], seed=3)
    logits = tf.nn.selu(z @ variable("dec", [4, 16])) @ variable("out", [16, 12])
    rebuilt = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), 1)
    kl = -0.5 * tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), 1)
    return Net(tf.reduce_mean(rebuilt + kl), sgd(tf.reduce_mean(rebuilt + kl), 0.01), feeds)


def mixture_density():
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(8, 3)).astype(np.float32), "y": rng.normal(size=(8, 1)).astype(np.float32)}
    x, y = placeholders(feeds)
    pi, mu, sigma = tf.split(tf.tanh(x @ variable("w", [3, 10])) @ variable("v", [10, 12]), 3, -1)
    sigma = tf.nn.softplus(sigma) + 1e-3
    log_p = -0.5 * tf.square((y - mu) / sigma) - tf.math.log(sigma) - 0.5 * np.log(2 * np.pi)
    student = tf.math.lgamma((sigma + 1) / 2) - tf.math.lgamma(sigma / 2) - (sigma + 1) / 2 * tf.math.log1p(tf.square(y - mu) / sigma)
    loss = -tf.reduce_mean(tf.reduce_logsumexp(tf.nn.log_softmax(pi) + log_p, 1)) - 0.1 * tf.reduce_mean(student)
    loss += tf.reduce_mean(tf.math.erf(mu) ** 2) + tf.reduce_mean(tf.math.digamma(sigma + 1)) * 0.01
    return Net(loss, sgd(loss), feeds)


def policy_gradient():
    """Actions drawn in the graph, advantages, entropy, clipped ratio, target network by soft updates."""
    rng = np.random.default_rng(0)
    feeds = {"state": rng.normal(size=(8, 4)).astype(np.float32), "reward": rng.normal(size=(8,)).astype(np.float32),
             "action": rng.integers(0, 3, 8).astype(np.int32)}
    state, reward, action = placeholders(feeds)
    logits = tf.nn.relu(state @ variable("w", [4, 16])) @ variable("v", [16, 3])
    drawn = tf.random.categorical(logits, 1, seed=4)
    value = tf.squeeze(state @ variable("critic", [4, 1]), 1)
    returns = tf.cumsum(reward * 0.9 ** tf.range(8, dtype=tf.float32), reverse=True)
    advantage = tf.stop_gradient(returns - value)
    log_p = tf.nn.log_softmax(logits)
    picked = tf.reduce_sum(log_p * tf.one_hot(action, 3), 1)
    ratio = tf.exp(picked - tf.stop_gradient(picked) + 0.1 * tf.cast(drawn[:, 0], tf.float32) * 0)
    clipped = tf.minimum(ratio * advantage, tf.clip_by_value(ratio, 0.8, 1.2) * advantage)
    entropy = -tf.reduce_sum(tf.exp(log_p) * log_p, 1)
    loss = -tf.reduce_mean(clipped + 0.01 * entropy) + 0.5 * tf.reduce_mean(tf.square(returns - value))
    train = sgd(loss)
    target = variable("target", [4, 16], initializer=tf1.zeros_initializer())
    with tf1.control_dependencies([train]):
        source = [v for v in tf1.trainable_variables() if v.op.name == "w"][0]
        soft = target.assign(0.99 * target + 0.01 * source.read_value())
    return Net(loss, soft, feeds, fetches=(drawn,))


def graph_convolution():
    """Messages along edges by gather and segment sums, attention by segment softmax, sparse times dense."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(7, 5)).astype(np.float32), "source": rng.integers(0, 7, 15).astype(np.int32),
             "target": np.sort(rng.integers(0, 7, 15)).astype(np.int32), "labels": rng.integers(0, 3, 7).astype(np.int32),
             "edges": np.stack(np.unravel_index(np.sort(rng.choice(49, 12, False)), (7, 7)), 1).astype(np.int64),
             "weights": rng.uniform(size=12).astype(np.float32)}
    x, source, target, labels, edges, weights = placeholders(feeds)
    h = tf.nn.elu(x @ variable("w1", [5, 8]))
    h = tf.sparse.sparse_dense_matmul(tf.SparseTensor(edges, weights, [7, 7]), h) + h
    score = tf.nn.leaky_relu(tf.reduce_sum(tf.gather(h, source) * tf.gather(h, target) * variable("a", [8]), 1))
    largest = tf.math.unsorted_segment_max(score, target, 7)
    power = tf.exp(score - tf.gather(largest, target))
    share = power / (tf.gather(tf.math.unsorted_segment_sum(power, target, 7), target) + 1e-9)
    h += tf.math.unsorted_segment_sum(share[:, None] * tf.gather(h, source), target, 7)
    h += tf.math.unsorted_segment_mean(tf.gather(h, source), target, 7)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h @ variable("w2", [8, 3])))
    return Net(loss, sgd(loss), feeds)


def gaussian_process():
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(8, 2)), "y": rng.normal(size=(8, 1))}
    x, y = placeholders(feeds)
    scale = tf.exp(variable("scale", [2], dtype=tf.float64))
    noise = tf.nn.softplus(variable("noise", [], dtype=tf.float64))
    distance = tf.reduce_sum(tf.square((x[:, None] - x[None]) / scale), -1)
    kernel = tf.exp(-0.5 * distance) + (noise + 0.1) * tf.eye(8, dtype=tf.float64)
    chol = tf.linalg.cholesky(kernel)
    alpha = tf.linalg.triangular_solve(chol, y)
    loss = 0.5 * tf.reduce_sum(tf.square(alpha)) + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol)))
    loss += 1e-3 * tf.linalg.logdet(kernel) + 1e-3 * tf.linalg.trace(tf.linalg.inv(kernel))
    loss += 1e-3 * tf.reduce_sum(tf.linalg.solve(kernel, y) * y)
    return Net(loss, sgd(loss, 0.05), feeds)


def orthogonal_weights():
    """Orthogonal initialisers (Qr in the initialiser's graph) and an orthogonality penalty."""
    feeds = {"x": np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)}
    (x,) = placeholders(feeds)
    w = variable("w", [8, 8], initializer=tf1.orthogonal_initializer(seed=3))
    u = variable("u", [8, 3], initializer=tf1.initializers.variance_scaling(distribution="uniform", seed=4))
    penalty = tf.norm(tf.matmul(w, w, transpose_a=True) - tf.eye(8), ord="fro", axis=[0, 1])
    loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) @ u)) + 0.1 * penalty ** 2
    return Net(loss, sgd(loss), feeds)


def float64_net():
    return dtype_net(tf.float64, 1e-6)


def bfloat16_net():
    return dtype_net(tf.bfloat16, 3e-2)


def float16_net():
    return dtype_net(tf.float16, 1e-2)


def dtype_net(dtype, rtol):
    """Everything in one type, master weights in float32, gradients of a scaled loss."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(4, 8, 8, 2)).astype(np.float32), "labels": rng.integers(0, 3, 4).astype(np.int32)}
    x, labels = placeholders(feeds)
    w, v = variable("w", [3, 3, 2, 4]), variable("v", [4, 3])
    h = tf.nn.conv2d(tf.cast(x, dtype), tf.cast(w, dtype), 2, "SAME")
    h = tf.nn.relu(tf.nn.bias_add(h, tf.cast(variable("b", [4]), dtype)))
    h = tf.reduce_mean(tf.nn.max_pool2d(h, 2, 2, "VALID"), [1, 2])
    logits = tf.cast(h @ tf.cast(v, dtype), tf.float32)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    scale = 64.0
    variables = tf1.trainable_variables()
    gradients = [g / scale for g in tf1.gradients(loss * scale, variables)]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
    gradients = [tf.where(finite, g, tf.zeros_like(g)) for g in gradients]
    return Net(loss, tf1.train.MomentumOptimizer(0.1, 0.9).apply_gradients(zip(gradients, variables)), feeds, rtol=rtol,
               check_variables=dtype == tf.float64)


def random_ops():
    """Every stateful random op, seeded, and a generator of its own: the streams go on from step to step."""
    feeds = {"x": np.ones((6, 5), np.float32)}
    (x,) = placeholders(feeds)
    state = tf1.get_variable("state", initializer=np.array([1, 2, 3], np.int64), use_resource=True, trainable=False)
    skipped = tf.raw_ops.RngReadAndSkip(resource=state.handle, alg=np.int32(1), delta=np.uint64(30))
    own = tf.random.stateless_uniform([6, 5], tf.cast(skipped[:2], tf.int64))
    noise = [tf1.random_uniform([6, 5], seed=1), tf1.random_normal([6, 5], seed=2), tf1.truncated_normal([6, 5], seed=3),
             tf.cast(tf1.random_uniform([6, 5], 0, 9, tf.int32, seed=4), tf.float32), tf.random.shuffle(x * own, seed=5),
             tf.random.gamma([6], [.5, 1, 2, 3, 4.0], seed=6), tf.random.poisson([6], [.5, 1, 2, 30, 4.0], seed=7), own,
             tf.random.stateless_normal([6, 5], [1, 2]), tf.random.stateless_truncated_normal([6, 5], [3, 4]),
             tf.random.stateless_gamma([6, 5], [5, 6], 2.0), tf.cast(
             tf.random.stateless_poisson([6, 5], [7, 8], 3.0, tf.int32), tf.float32)]
    w = variable("w", [5, 3])
    loss = tf.reduce_mean(tf.square((x + 0.1 * tf.add_n(noise)) @ w))
    return Net(loss, sgd(loss, 0.01), feeds, fetches=tuple(tf.identity(n, f"noise{i}") for i, n in enumerate(noise)))


def sound_features():
    """Short-time Fourier transform and mel bands before a net; the transform needs no gradient."""
    feeds = {"audio": np.random.default_rng(0).normal(size=(2, 256)).astype(np.float32), "labels": np.array([0, 2], np.int32)}
    audio, labels = placeholders(feeds)
    spectrum = tf.abs(tf.signal.stft(audio, 64, 32))
    mel = tf.signal.linear_to_mel_weight_matrix(10, 33, 8000, 20.0, 3800.0)
    features = tf.math.log(tf.tensordot(spectrum, mel, 1) + 1e-3)
    features = tf.concat([features, tf.signal.mfccs_from_log_mel_spectrograms(features)[..., :5]], -1)
    logits = tf.reduce_mean(tf.nn.tanh(tf.tensordot(features, variable("w", [15, 8]), 1)), 1) @ variable("v", [8, 3])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return Net(loss, sgd(loss), feeds)


def spectral_loss():
    """Gradients through Fourier transforms."""
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 64)).astype(np.float32), "y": np.ones((2, 64), np.float32)}
    x, y = placeholders(feeds)
    made = tf.nn.tanh(x @ variable("w", [64, 64]))
    mixed = tf.math.real(tf.signal.fft(tf.cast(made, tf.complex64)))
    loss = tf.reduce_mean(tf.abs(tf.abs(tf.signal.rfft(made) + 1e-3) - tf.abs(tf.signal.rfft(y) + 1e-3))) + tf.reduce_mean(mixed ** 2) / 64
    return Net(loss, sgd(loss), feeds)


def cases():
    return [(f.__name__, f) for f in (wavenet, vae, mixture_density, policy_gradient, graph_convolution, gaussian_process,
                                      orthogonal_weights, float64_net, bfloat16_net, float16_net, random_ops, sound_features,
                                      spectral_loss)]
