"""Programs in which chance, sorting and closed forms do the work: mixtures, particles, trees of words, samplers, sparse ends of softmax,
embeddings on curved space."""
from guest_parts import *  # noqa: F403


def seeded(n, *more):
    return tf.stack([n, *more])


def mixture_by_steps(v, feeds):
    """Expectation and maximization of Gaussians with full covariances, then a gradient step on their prior."""
    mean, factor, weight = v.hold("mean", numbers(3, 2, seed=1)), v.hold("factor", np.tile(np.eye(2, dtype=F32), (3, 1, 1))), v.hold("weight", tf.fill([3], 1 / 3.0))
    prior = v("prior", 2)

    def step(x):
        off = x[None] - mean[:, None]
        solved = tf.linalg.triangular_solve(factor, tf.linalg.matrix_transpose(off))
        logs = tf.math.log(weight)[:, None] - 0.5 * tf.reduce_sum(solved ** 2, 1) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), -1, keepdims=True)
        total = tf.reduce_logsumexp(logs, 0)
        shares = tf.exp(logs - total)
        count = tf.reduce_sum(shares, 1)
        with tf.GradientTape() as tape:
            value = -tf.reduce_mean(total) + tf.reduce_mean(tf.math.squared_difference(prior, tf.reduce_mean(mean, 0)))
        descend([prior], tape.gradient(value, [prior]), 0.3)
        mean.assign(tf.einsum("kn,nd->kd", shares, x) / count[:, None])
        off = x[None] - mean[:, None]
        covariance = tf.einsum("kn,knd,kne->kde", shares, off, off) / count[:, None, None]
        factor.assign(tf.linalg.cholesky(tf.linalg.set_diag(covariance, tf.linalg.diag_part(covariance) + 1e-3)))
        weight.assign(count / tf.reduce_sum(count))
        return value, tf.linalg.logdet(covariance)
    return step


def particles(v, x):
    """A filter of particles that are drawn again by their weights: gradients pass the draws by a correction of their density."""
    state = tf.random.stateless_normal([32, 2], [1, 2])
    total = tf.constant(0.0)
    for t in range(5):
        noise = tf.random.stateless_normal([32, 2], [3, t])
        state = tf.tanh(state @ v("move", 2, 2)) + 0.3 * noise * tf.nn.softplus(v("spread", 2))
        logs = -tf.reduce_sum((x[t] - v.dense("seen", state, 3)) ** 2, -1)
        total += tf.reduce_logsumexp(logs) - np.log(32.0)
        shares = tf.nn.softmax(logs)
        points = (tf.range(32, dtype=tf.float32) + tf.random.stateless_uniform([], [4, t])) / 32.0
        chosen = tf.minimum(tf.searchsorted(tf.cumsum(shares), points, side="right"), 31)
        kept = tf.gather(shares, chosen)
        state = tf.gather(state, chosen) * (kept / tf.stop_gradient(kept))[:, None]
    return -total / 5.0, state


def hybrid_chain(v, feeds):
    """Hamiltonian Monte Carlo of a regression's weights: leapfrog in a loop, acceptance, a step width that adapts."""
    place, width, n = v.hold("place", numbers(4)), v.hold("width", tf.constant(0.05)), v.hold("n", tf.constant(0))

    def step(x, y):
        def energy(q):
            return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(y, tf.linalg.matvec(x, q))) + 0.5 * tf.reduce_sum(q * q)

        def slope(q):
            with tf.GradientTape() as tape:
                tape.watch(q)
                value = energy(q)
            return tape.gradient(value, q)
        count = n.assign_add(1)
        speed = tf.random.stateless_normal([4], seeded(count, 5))
        q, p = place + 0.0, speed - 0.5 * width * slope(place + 0.0)
        for i in tf.range(6):
            q = q + width * p
            p = p - tf.where(i < 5, width, width / 2.0) * slope(q)
        first = energy(place + 0.0) + 0.5 * tf.reduce_sum(speed ** 2)
        gain = first - energy(q) - 0.5 * tf.reduce_sum(p ** 2)
        taken = tf.math.log(tf.random.stateless_uniform([], seeded(count, 6), 1e-6)) < gain
        place.assign(tf.where(taken, q, place))
        width.assign(width * tf.where(taken, 1.1, 0.8))
        return energy(place + 0.0), taken
    return step


def restricted_machine(v, feeds):
    """A Boltzmann machine by contrastive divergence with persistent chains: no tape, updates by outer products."""
    w, a, b = v.hold("w", 0.3 * numbers(12, 6)), v.hold("a", tf.zeros([12])), v.hold("b", tf.zeros([6]))
    chain, n = v.hold("chain", tf.cast(numbers(8, 12) > 0, tf.float32)), v.hold("n", tf.constant(0))

    def drawn(p, seed):
        return tf.cast(tf.random.stateless_uniform(tf.shape(p), seed) < p, tf.float32)

    def step(x):
        data = tf.cast(x > 0, tf.float32)
        shown = chain + 0.0
        count = n.assign_add(1)
        for k in range(3):
            hidden = drawn(tf.sigmoid(shown @ w + b), seeded(count, 2 * k))
            shown = drawn(tf.sigmoid(tf.matmul(hidden, w, transpose_b=True) + a), seeded(count, 2 * k + 1))
        free = lambda s: -tf.linalg.matvec(s, a) - tf.reduce_sum(tf.nn.softplus(s @ w + b), -1)
        value = tf.reduce_mean(free(data)) - tf.reduce_mean(free(shown))
        w.assign_add(0.05 * (tf.matmul(data, tf.sigmoid(data @ w + b), transpose_a=True) - tf.matmul(shown, tf.sigmoid(shown @ w + b), transpose_a=True)))
        a.assign_add(0.05 * tf.reduce_sum(data - shown, 0))
        b.assign_add(0.05 * tf.reduce_sum(tf.sigmoid(data @ w + b) - tf.sigmoid(shown @ w + b), 0))
        chain.assign(shown)
        return value, tf.reduce_sum(shown)
    return step


def sparsemax(z):
    ordered = tf.sort(z, direction="DESCENDING")
    sums = tf.cumsum(ordered, -1) - 1.0
    k = tf.range(1, z.shape[-1] + 1, dtype=tf.float32)
    held = tf.cast(ordered * k > sums, tf.float32)
    size = tf.reduce_sum(held, -1, keepdims=True)
    edge = tf.gather(sums, tf.cast(size, tf.int32) - 1, batch_dims=z.shape.rank - 1) / size
    return tf.maximum(z - edge, 0.0)


def sparse_attention(v, x, y):
    """Sparsemax and the 1.5-entmax by bisection in a loop, over heads."""
    q, k = tf.split(v.dense("qk", x, 32), 2, -1)
    z = tf.matmul(q, k, transpose_b=True) / 4.0
    first = sparsemax(z)
    low, high = tf.reduce_max(z, -1, keepdims=True) / 2.0 - 1.0, tf.reduce_max(z, -1, keepdims=True) / 2.0
    for _ in tf.range(18):
        middle = (low + high) / 2.0
        above = tf.reduce_sum(tf.nn.relu(z / 2.0 - middle) ** 2, -1, keepdims=True) >= 1.0
        low, high = tf.where(above, middle, low), tf.where(above, high, middle)
    second = tf.nn.relu(z / 2.0 - tf.stop_gradient(low)) ** 2
    second /= tf.reduce_sum(second, -1, keepdims=True)
    h = tf.reduce_mean((first + second) @ x, 1)
    return softmax_loss(v.dense("o", h, 5), y), tf.math.count_nonzero(first > 0)


def trees_of_heads(v, words, heads):
    """Dependency trees: biaffine scores, the number of trees by the matrix-tree theorem, marginals as its gradient."""
    h = tf.gather(v("rows", 30, 16), words)
    n = h.shape[1]
    scores = tf.einsum("bid,de,bje->bij", h, v("arc", 16, 16), h)
    root = v.dense("root", h, 1)[..., 0]
    weights = tf.exp(scores) * (1.0 - tf.eye(n))
    laplacian = tf.linalg.diag(tf.reduce_sum(weights, 1)) - weights
    laplacian = tf.concat([tf.exp(root)[:, None], laplacian[:, 1:]], 1)
    sign, logs = tf.linalg.slogdet(laplacian)
    picked = tf.gather(tf.concat([root[:, None], scores], 1), heads, axis=1, batch_dims=1)
    chosen = tf.reduce_sum(tf.linalg.diag_part(picked), -1)
    return tf.reduce_mean(logs - chosen), sign, tf.linalg.inv(laplacian)


def minimum_risk(v, x, y):
    """Samples of a decoder scored against a reference by edits, with the mean as a baseline and sampled candidates renormalised."""
    logits = v.dense("o", tf.tanh(v.dense("h", x, 24)), 9)  # batch, time, words
    b, t = logits.shape[:2]
    drawn = tf.random.stateless_categorical(tf.reshape(logits, [b * t, 9]), 6, [3, 4], dtype=tf.int32)
    drawn = tf.transpose(tf.reshape(drawn, [b, t, 6]), [0, 2, 1])
    logs = tf.nn.log_softmax(logits)
    scored = tf.reduce_sum(tf.gather(tf.tile(logs[:, None], [1, 6, 1, 1]), drawn, axis=3, batch_dims=3), -1)
    wrong = []
    for k in range(6):
        one, other = tf.sparse.from_dense(drawn[:, k] + 1), tf.sparse.from_dense(y + 1)
        wrong.append(tf.edit_distance(one, other, normalize=True))
    risk = tf.stack(wrong, 1)
    share = tf.nn.softmax(0.5 * scored, -1)
    return tf.reduce_mean(tf.reduce_sum(share * (risk - tf.reduce_mean(risk, -1, keepdims=True)), -1)), risk


def curved_words(v, feeds):
    """Poincaré embeddings: distances, negative draws, the Riemannian gradient of touched rows, projection into the ball."""
    rows = v.hold("rows", 0.05 * numbers(40, 5))

    def distance(a, b):
        grow = 1.0 + 2.0 * tf.reduce_sum((a - b) ** 2, -1) / ((1.0 - tf.reduce_sum(a * a, -1)) * (1.0 - tf.reduce_sum(b * b, -1)))
        return tf.acosh(tf.maximum(grow, 1.0 + 1e-6))

    def step(pairs):
        negatives, _, _ = tf.random.log_uniform_candidate_sampler(tf.cast(pairs[:, 1:], tf.int64), 1, 8, True, 40, seed=3)
        ids = tf.concat([pairs, tf.tile(tf.cast(negatives, tf.int32)[None], [pairs.shape[0], 1])], 1)
        used = tf.unique(tf.reshape(ids, [-1]))
        with tf.GradientTape() as tape:
            table = tf.gather(rows, used.y)
            tape.watch(table)
            e = tf.gather(table, tf.reshape(used.idx, ids.shape))
            far = distance(e[:, :1], e[:, 1:])
            value = softmax_loss(-far, tf.zeros([pairs.shape[0]], tf.int32))
        gradient = tape.gradient(value, table) * ((1.0 - tf.reduce_sum(table ** 2, -1, keepdims=True)) ** 2 / 4.0)
        moved = tf.clip_by_norm(table - 0.3 * gradient, 1.0 - 1e-3, axes=[1])
        rows.scatter_update(tf.IndexedSlices(moved, used.y))
        return value, tf.size(used.y)
    return step


def topics(v, feeds):
    """Latent Dirichlet allocation by variational steps on batches: digamma of counts, a decaying rate, perplexity."""
    words, n = v.hold("words", 1.0 + tf.abs(numbers(4, 20))), v.hold("n", tf.constant(0.0))

    def step(counts):
        row = tf.exp(tf.math.digamma(words) - tf.math.digamma(tf.reduce_sum(words, -1, keepdims=True)))
        gamma = tf.ones([counts.shape[0], 4])
        share = tf.zeros_like(gamma)
        change, turn = tf.constant(1.0), tf.constant(0)
        while turn < 30 and change > 1e-3:
            share = tf.exp(tf.math.digamma(gamma) - tf.math.digamma(tf.reduce_sum(gamma, -1, keepdims=True)))
            new = 0.1 + share * tf.matmul(counts / (share @ row + 1e-9), row, transpose_b=True)
            change, gamma, turn = tf.reduce_mean(tf.abs(new - gamma)), new, turn + 1
        rate = tf.pow(n + 2.0, -0.7)
        words.assign((1.0 - rate) * words + rate * (0.1 + row * tf.matmul(share, counts / (share @ row + 1e-9), transpose_a=True)))
        n.assign_add(1.0)
        bound = tf.reduce_sum(counts * tf.math.log(share @ row + 1e-9)) + tf.reduce_sum(tf.math.lgamma(gamma)) - tf.reduce_sum(tf.math.lbeta(words))
        return -bound / tf.reduce_sum(counts), turn
    return step


def overlaps(v, images, y):
    """Segmentation by the Lovász hinge of sorted errors, Tversky's index and distances to borders from dilation."""
    h = tf.nn.relu(v.conv("a", images, 8, stride=2))
    h = tf.image.resize(tf.nn.relu(v.conv("b", h, 8)), images.shape[1:3], antialias=True)
    logits = v.conv("c", h, 1)[..., 0]
    truth = tf.cast(y, tf.float32)
    flat, labels = tf.reshape(logits, [-1]), tf.reshape(truth, [-1])
    errors = 1.0 - flat * (2.0 * labels - 1.0)
    order = tf.argsort(errors, direction="DESCENDING", stable=True)
    ordered, marks = tf.gather(errors, order), tf.gather(labels, order)
    total = tf.reduce_sum(marks)
    jaccard = 1.0 - (total - tf.cumsum(marks)) / (total + tf.cumsum(1.0 - marks))
    steps = tf.concat([jaccard[:1], jaccard[1:] - jaccard[:-1]], 0)
    lovasz = tf.tensordot(tf.nn.relu(ordered), tf.stop_gradient(steps), 1)
    p = tf.sigmoid(logits)
    hits = tf.reduce_sum(p * truth, [1, 2])
    tversky = 1.0 - (hits + 1.0) / (hits + 0.3 * tf.reduce_sum(p * (1.0 - truth), [1, 2]) + 0.7 * tf.reduce_sum((1.0 - p) * truth, [1, 2]) + 1.0)
    wide = tf.nn.dilation2d(truth[..., None], tf.zeros([3, 3, 1]), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])[..., 0]
    border = tf.reduce_sum((wide - truth) * tf.math.log1p(tf.exp(logits))) / (tf.reduce_sum(wide - truth) + 1.0)
    return lovasz + tf.reduce_mean(tversky) + 0.1 * border, tf.reduce_mean(p)


def weights_in_doubt(v, x, y):
    """Bayes by backpropagation: local reparametrisation, a scale mixture as prior, concrete dropout whose rate is learnt."""
    rate = tf.sigmoid(v("rate", 1))
    u = tf.random.stateless_uniform(x.shape, [8, 9], 1e-4, 1 - 1e-4)
    gate = tf.sigmoid((tf.math.log(rate + 1e-7) - tf.math.log1p(-rate) + tf.math.log(u) - tf.math.log1p(-u)) / 0.1)
    h = x * (1.0 - gate) / (1.0 - rate)
    kl = tf.reduce_sum(rate * tf.math.log(rate) + (1.0 - rate) * tf.math.log1p(-rate))
    for i, size in enumerate((16, 1)):
        mean, spread = v(f"m{i}", h.shape[-1], size), tf.nn.softplus(v(f"s{i}", h.shape[-1], size) - 3.0)
        noise = tf.random.stateless_normal([x.shape[0], size], [i, 7])
        sample = mean + spread * tf.random.stateless_normal(mean.shape, [i, 8])
        wide = tf.stack([-0.5 * sample ** 2, np.log(10.0) - 50.0 * sample ** 2])
        kl += tf.reduce_sum(-0.5 * ((sample - mean) / spread) ** 2 - tf.math.log(spread)) - tf.reduce_sum(tf.reduce_logsumexp(wide, 0))
        h = h @ mean + noise * tf.sqrt((h * h) @ (spread * spread) + 1e-8)
        h = tf.nn.swish(h) if i == 0 else h
    return tf.reduce_mean((h - y) ** 2) + kl / 1000.0


def cases():
    xy = {"x": numbers(16, 6), "y": numbers(16, 1, seed=2)}
    yield "mixture_by_steps", stepped(mixture_by_steps, {"x": numbers(40, 2)}, steps=4)
    yield "particles", trained(particles, {"x": numbers(5, 3)})
    yield "hybrid_chain", stepped(hybrid_chain, {"x": numbers(20, 4), "y": (numbers(20) > 0).astype(F32)}, steps=6)
    yield "restricted_machine", stepped(restricted_machine, {"x": numbers(8, 12, seed=2)}, steps=4)
    yield "sparse_attention", trained(sparse_attention, {"x": numbers(3, 7, 16), "y": integers(5, 3)})
    yield "trees_of_heads", trained(trees_of_heads, {"words": integers(30, 3, 6), "heads": np.tile(np.arange(6, dtype=np.int32), (3, 1))})
    yield "minimum_risk", trained(minimum_risk, {"x": numbers(4, 5, 8), "y": integers(9, 4, 5)})
    yield "curved_words", stepped(curved_words, {"pairs": integers(40, 12, 2)}, steps=4)
    yield "topics", stepped(topics, {"counts": integers(4, 6, 20).astype(F32)}, steps=4)
    yield "overlaps", trained(overlaps, {"images": images(2, 16), "y": (numbers(2, 16, 16) > 0.5).astype(np.int32)})
    yield "weights_in_doubt", trained(weights_in_doubt, xy)
