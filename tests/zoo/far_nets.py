"""Kinds of training that no other family has: control, filters and memories in loops, crossed and hashed features, flows of
splines, derivatives forwards and of batches, recomputation."""
import keras
import numpy as np
import tensorflow as tf

from world_nets import F32, _Built, integers, numbers, softmax_loss
from zoo import eager

tf1 = tf.compat.v1


# Reinforcement learning

def soft_actor_critic(v, s, a, r, s2, noise):
    def policy(state, eps):
        mean, log_std = tf.split(tf.tanh(state @ v["pi"]) @ v["pi2"], 2, -1)
        std = tf.exp(tf.clip_by_value(log_std, -5.0, 2.0))
        raw = mean + std * eps
        logp = tf.reduce_sum(-0.5 * tf.square(eps) - tf.math.log(std) - 0.9189385, -1)
        return tf.tanh(raw), logp - tf.reduce_sum(2.0 * (np.log(2.0) - raw - tf.nn.softplus(-2.0 * raw)), -1)
    critic = lambda name, state, action: tf.squeeze(tf.nn.relu(tf.concat([state, action], -1) @ v[name]) @ v[name + "o"], -1)
    a2, logp2 = policy(s2, noise)
    target = tf.stop_gradient(r + 0.9 * (tf.minimum(critic("t1", s2, a2), critic("t2", s2, a2)) - 0.1 * logp2))
    a1, logp = policy(s, noise)
    value = tf.minimum(critic("q1", s, a1), critic("q2", s, a1))
    return (tf.reduce_mean(tf.square(critic("q1", s, a) - target)) + tf.reduce_mean(tf.square(critic("q2", s, a) - target))
            + tf.reduce_mean(tf.exp(v["alpha"]) * logp - value) - tf.reduce_mean(v["alpha"] * tf.stop_gradient(logp - 1.0)))


def _soft_targets(made, gradients):
    for name, gradient in gradients.items():
        if gradient is not None and not name.startswith("t"):
            made[name].assign_sub(0.05 * gradient)
    for k in ("1", "1o", "2", "2o"):
        made["t" + k].assign(0.95 * made["t" + k] + 0.05 * made["q" + k])


def categorical_values(v, s, a, r, done):
    """The projection of C51: probabilities go to the atoms beside where they land."""
    atoms = tf.linspace(-2.0, 2.0, 7)
    logits = tf.reshape(s @ v["w"], [-1, 3, 7])
    p = tf.stop_gradient(tf.nn.softmax(tf.gather(logits, tf.argmax(tf.reduce_sum(tf.nn.softmax(logits) * atoms, -1), -1), batch_dims=1)))
    at = (tf.clip_by_value(r[:, None] + 0.9 * (1.0 - done)[:, None] * atoms, -2.0, 2.0) + 2.0) / (4.0 / 6.0)
    low, high = tf.floor(at), tf.math.ceil(at)
    rows = tf.repeat(tf.range(4), 7)
    def into(where, weight):
        index = tf.stack([rows, tf.reshape(tf.cast(where, tf.int32), [-1])], -1)
        return tf.scatter_nd(index, tf.reshape(p * weight, [-1]), [4, 7])
    target = into(low, high - at + tf.cast(low == high, tf.float32)) + into(high, at - low)
    chosen = tf.gather(logits, a, batch_dims=1)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(target, chosen))


def v_trace(v, s, rho, r):
    values = tf.squeeze(tf.tanh(s @ v["w"]) @ v["o"], -1)
    clipped = tf.minimum(1.0, tf.exp(rho))
    following = tf.concat([values[1:], values[-1:]], 0)
    deltas = clipped * (r + 0.9 * following - values)
    adjust = tf.scan(lambda acc, x: x[0] + 0.9 * x[1] * acc, (deltas, clipped), tf.zeros([3]), reverse=True)
    return tf.reduce_mean(tf.square(tf.stop_gradient(values + adjust) - values)) - tf.reduce_mean(rho * tf.stop_gradient(adjust) * values)


def replayed(v, s, r):
    """A buffer in a variable: the oldest rows are replaced, drawn ones are learnt from."""
    at = (v["filled"] + tf.range(2)) % 6
    v["buffer"].scatter_nd_update(at[:, None], tf.concat([s, r[:, None]], -1))
    v["filled"].assign_add(2)
    drawn = tf.random.stateless_uniform([4], tf.stack([3, v["filled"]]), 0, tf.minimum(v["filled"], 6), tf.int32)
    rows = tf.gather(tf.stop_gradient(v["buffer"]), drawn)
    return tf.reduce_mean(tf.square(tf.squeeze(rows[:, :3] @ v["w"], -1) - rows[:, 3]))


# Filters, memories, recurrences

def kalman_filter(v, y):
    q, h = tf.linalg.diag(tf.exp(v["q"])), v["h"]
    def step(state, obs):
        m, p, _ = state
        m, p = tf.linalg.matvec(v["a"], m), v["a"] @ p @ tf.transpose(v["a"]) + q
        s = h @ p @ tf.transpose(h) + 0.5 * tf.eye(2)
        chol = tf.linalg.cholesky(s)
        off = obs - tf.linalg.matvec(h, m)
        white = tf.linalg.triangular_solve(chol, off[:, None])
        gain = tf.transpose(tf.linalg.cholesky_solve(chol, h @ p))
        loss = 0.5 * tf.reduce_sum(white ** 2) + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol)))
        return m + tf.linalg.matvec(gain, off), p - gain @ h @ p, loss
    _, _, losses = tf.scan(step, y, (tf.zeros([3]), tf.eye(3), 0.0))
    return tf.reduce_mean(losses)


def hidden_markov(v, ids):
    start, move, emit = (tf.nn.log_softmax(v[k]) for k in ("start", "move", "emit"))
    step = lambda alpha, e: tf.reduce_logsumexp(alpha[:, :, None] + move[None], 1) + e
    score = tf.gather(tf.transpose(emit), tf.transpose(ids))
    last = tf.foldl(step, score[1:], start[None] + score[0])
    return -tf.reduce_mean(tf.reduce_logsumexp(last, -1))


def memory_of_rows(v, x, y):
    """Addressing by content and by shift, as of a Turing machine."""
    memory, weight, out = v["memory"] + tf.zeros([2, 1, 1]), tf.one_hot([0, 0], 5), []
    for t in range(3):
        k, beta, shift, erase, add = tf.split(tf.tanh(x[:, t] @ v["w"]), [4, 1, 3, 4, 4], -1)
        near = tf.nn.softmax(tf.nn.softplus(beta) * -tf.keras.losses.cosine_similarity(memory, k[:, None]))
        weight = 0.5 * near + 0.5 * weight
        turned = tf.stack([tf.roll(weight, s, 1) for s in (-1, 0, 1)], -1)
        weight = tf.einsum("bns,bs->bn", turned, tf.nn.softmax(shift))
        weight = weight ** 1.5 / tf.reduce_sum(weight ** 1.5, -1, keepdims=True)
        memory = memory * (1 - weight[..., None] * tf.sigmoid(erase)[:, None]) + weight[..., None] * add[:, None]
        out.append(tf.einsum("bn,bnd->bd", weight, memory))
    return tf.reduce_mean((tf.stack(out, 1) - y) ** 2)


def weighted_keys(v, x, y):
    """The recurrence of RWKV, with its running maximum."""
    k, u = tf.einsum("btd,de->tbe", x, v["k"]), tf.einsum("btd,de->tbe", x, v["v"])
    def step(state, kv):
        a, b, m, _ = state
        key, value = kv
        top = tf.maximum(m, v["bonus"] + key)
        e1, e2 = tf.exp(m - top), tf.exp(v["bonus"] + key - top)
        out = (e1 * a + e2 * value) / (e1 * b + e2)
        top = tf.maximum(m - tf.exp(v["decay"]), key)
        e1, e2 = tf.exp(m - tf.exp(v["decay"]) - top), tf.exp(key - top)
        return e1 * a + e2 * value, e1 * b + e2, top, out
    zero = tf.zeros([2, 4])
    out = tf.scan(step, (k, u), (zero, zero, zero - 1e30, zero))[3]
    return tf.reduce_mean((tf.transpose(out, [1, 0, 2]) * tf.sigmoid(x @ v["r"]) - y) ** 2)


def selective_scan(v, x, y):
    delta = tf.nn.softplus(x @ v["delta"])
    a = tf.exp(delta[..., None] * -tf.exp(v["a"]))
    b, c = x @ v["b"], x @ v["c"]
    states = tf.scan(lambda h, ab: ab[0] * h + ab[1], tuple(tf.transpose(t, [1, 0, 2, 3]) for t in (a, (delta * x)[..., None] * b[:, :, None])),
                     tf.zeros([2, 3, 2]))
    return tf.reduce_mean((tf.einsum("tbdn,btn->btd", states, c) + v["skip"] * x - y) ** 2)


def spikes(v, x, y):
    @tf.custom_gradient
    def fire(u):
        return tf.cast(u > 0, tf.float32), lambda g: g / tf.square(1.0 + 5.0 * tf.abs(u))
    def step(state, now):
        u, _ = state
        u = 0.8 * u + now @ v["w"]
        s = fire(u - 0.5)
        return u - 0.5 * s, s
    spikes = tf.scan(step, tf.transpose(x, [1, 0, 2]), (tf.zeros([4, 5]), tf.zeros([4, 5])))[1]
    return tf.reduce_mean((tf.reduce_mean(spikes, 0) @ v["o"] - y) ** 2)


def tree_of_words(v, leaves, left, right, y):
    """A tree whose nodes are written where their children have been."""
    states = tf.TensorArray(tf.float32, 7, clear_after_read=False, element_shape=[3])
    for i in range(4):
        states = states.write(i, tf.tanh(tf.gather(v["table"], leaves[i])))
    def join(i, states):
        both = tf.concat([states.read(left[i]), states.read(right[i])], 0)
        return i + 1, states.write(i + 4, tf.tanh(tf.linalg.matvec(v["w"], both, transpose_a=True)))
    _, states = tf.while_loop(lambda i, s: i < 3, join, (0, states))
    return tf.reduce_mean((states.stack() - y) ** 2)


def beam_of_words(v, x, y):
    """The expected cost of a beam's words."""
    def step(t, state, score, words):
        logp = tf.nn.log_softmax(state @ v["out"])
        score, index = tf.math.top_k(tf.reshape(score[..., None] + logp, [2, -1]), 3)
        state = tf.gather(state, index // 5, batch_dims=1)
        word = index % 5
        words = tf.concat([tf.gather(words, index // 5, batch_dims=1)[..., 1:], word[..., None]], -1)
        return t + 1, tf.tanh(state @ v["w"] + tf.gather(v["table"], word)), score, words
    state = tf.repeat((x @ v["w"])[:, None], 3, 1)
    _, _, score, words = tf.while_loop(lambda t, *_: t < 4, step, (0, state, tf.constant([[0.0, -9.0, -9.0]] * 2), tf.zeros([2, 3, 4], tf.int32)))
    cost = tf.reduce_sum(tf.cast(words != y[:, None], tf.float32), -1)
    return tf.reduce_mean(tf.reduce_sum(tf.nn.softmax(score) * cost, -1)) - 0.01 * tf.reduce_mean(score)


# Flows, transport, estimators

def spline_flow(v, x):
    """Rational quadratic splines: bins found by searchsorted."""
    width, height, slope = tf.split(tf.tile(v["s"][None], [6, 1]) + x[:, :1] @ v["w"], [4, 4, 3], -1)
    width, height = (0.05 + 0.8 * tf.nn.softmax(t) for t in (width, height))
    edges = lambda t: tf.pad(tf.cumsum(t, -1), [[0, 0], [1, 0]]) * (4.0 / tf.reduce_sum(t, -1, keepdims=True)) - 2.0
    ex, ey = edges(width), edges(height)
    slope = tf.pad(tf.nn.softplus(slope) + 0.1, [[0, 0], [1, 1]], constant_values=1.0)
    z = tf.clip_by_value(x[:, 1], -1.9, 1.9)
    k = tf.clip_by_value(tf.searchsorted(ex, z[:, None], side="right")[:, 0] - 1, 0, 3)
    pick = lambda t, i: tf.gather(t, i, batch_dims=1)
    w, h = pick(ex, k + 1) - pick(ex, k), pick(ey, k + 1) - pick(ey, k)
    d0, d1, s = pick(slope, k), pick(slope, k + 1), h / w
    t = (z - pick(ex, k)) / w
    below = s + (d1 + d0 - 2 * s) * t * (1 - t)
    out = pick(ey, k) + h * (s * t * t + d0 * t * (1 - t)) / below
    logdet = 2 * tf.math.log(s) + tf.math.log(d1 * t * t + 2 * s * t * (1 - t) + d0 * tf.square(1 - t)) - 2 * tf.math.log(below)
    return tf.reduce_mean(0.5 * out ** 2 - logdet)


def sinkhorn(v, x, y):
    cost = tf.reduce_sum(tf.square((x @ v["w"])[:, None] - y[None]), -1)
    f, g = tf.zeros([5]), tf.zeros([5])
    for _ in range(6):
        f = -0.5 * tf.reduce_logsumexp((g[None] - cost) / 0.5, 1)
        g = -0.5 * tf.reduce_logsumexp((f[:, None] - cost) / 0.5, 0)
    return tf.reduce_sum(tf.exp((f[:, None] + g[None] - cost) / 0.5) * cost)


def masked_autoregression(v, x):
    m1, m2 = (tf.constant(np.tril(np.ones((4, 4)), k).T, tf.float32) for k in (-1, 0))
    h = tf.nn.elu(x @ (v["a"] * m1))
    shift, log_scale = h @ (v["b"] * m2), tf.tanh(h @ (v["c"] * m2))
    z = (x - shift) * tf.exp(-log_scale)
    return tf.reduce_mean(tf.reduce_sum(0.5 * z ** 2 + log_scale, -1))


def frechet_distance(v, x, y):
    """The distance of two Gaussians, by the square root of a product of covariances."""
    def moments(z):
        mean = tf.reduce_mean(z, 0)
        return mean, tf.matmul(z - mean, z - mean, transpose_a=True) / 6.0 + 0.2 * tf.eye(3)
    (m1, c1), (m2, c2) = moments(tf.tanh(x @ v["w"])), moments(y)
    return tf.reduce_sum((m1 - m2) ** 2) + tf.linalg.trace(c1 + c2 - 2.0 * tf.linalg.sqrtm(c1 @ c2))


def ridge_on_features(v, x, y):
    """The inner problem solved, the features trained through the solution."""
    f = tf.nn.tanh(x @ v["w"])
    slow = tf.linalg.lstsq(tf.stop_gradient(f), y, fast=False)
    return tf.reduce_mean((f @ tf.linalg.lstsq(f, y, 0.3) - y) ** 2) + 0.1 * tf.reduce_mean((f @ slow - y) ** 2)


# Derivatives

def forwards(v, x, y):
    """A product of the Hessian with a vector, forwards over backwards."""
    loss = lambda w: tf.reduce_mean((tf.tanh(x @ w) - y) ** 2)
    w = tf.identity(v["w"])
    with tf.autodiff.ForwardAccumulator(w, tf.ones_like(w)) as accumulator:
        with tf.GradientTape() as inner:
            inner.watch(w)
            value = loss(w)
        gradient = inner.gradient(value, w)
    return value + 0.1 * tf.reduce_sum(accumulator.jvp(gradient) ** 2)


def batches_of_jacobians(v, x, y):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        out = tf.nn.softplus(x @ v["w"])
        total = tf.reduce_sum(out ** 2)
    contractive = tf.reduce_mean(tape.batch_jacobian(out, x) ** 2)
    slope = tape.gradient(total, x)
    del tape
    return tf.reduce_mean((out - y) ** 2) + 0.1 * contractive + 0.01 * tf.reduce_mean(slope ** 2)


def computed_again(v, x, y):
    block = tf.recompute_grad(lambda z: tf.nn.gelu(z @ v["w"]) @ v["o"])
    return tf.reduce_mean((x + block(x + block(x)) - y) ** 2)


def mapped_vectors(v, x, y):
    def each(row):
        a = tf.linalg.diag(tf.nn.softplus(row)) + 0.1 * v["w"] @ tf.transpose(v["w"])
        return tf.squeeze(tf.linalg.solve(a, row[:, None]), -1) + tf.nn.softmax(tf.linalg.matvec(v["w"], row))
    return tf.reduce_mean((tf.vectorized_map(each, x) - y) ** 2)


def chosen_branch(v, x, y, which):
    h = tf.switch_case(which, [lambda: tf.nn.relu(x @ v["w"]), lambda: tf.tanh(x @ v["w"]) * 2.0, lambda: tf.cumsum(x @ v["w"], 1)])
    _, h = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: h @ v["w"], lambda: h + x)), (0, h))
    return tf.reduce_mean((h - y) ** 2)


# Vision and signals

def deformed(v, x, y):
    """A convolution whose taps go where an earlier one says, read between pixels."""
    offset = tf.reshape(tf.nn.conv2d(x, v["off"], 1, "SAME"), [2, 6, 6, 9, 2])
    grid = tf.stack(tf.meshgrid(tf.range(6.0), tf.range(6.0), indexing="ij"), -1)[:, :, None] + tf.constant(
        [[i, j] for i in (-1.0, 0.0, 1.0) for j in (-1.0, 0.0, 1.0)])
    at = tf.clip_by_value(grid[None] + offset, 0.0, 5.0)
    low = tf.floor(at)
    part = at - low
    def read(dy, dx):
        corner = tf.minimum(tf.cast(low, tf.int32) + [dy, dx], 5)
        weight = (part[..., 0] if dy else 1 - part[..., 0]) * (part[..., 1] if dx else 1 - part[..., 1])
        return tf.gather_nd(x, corner, batch_dims=1) * weight[..., None]
    taps = read(0, 0) + read(0, 1) + read(1, 0) + read(1, 1)
    return tf.reduce_mean((tf.einsum("bhwkc,kcd->bhwd", taps, v["w"]) - y) ** 2)


def own_filters(v, x, y):
    """A filter per example, as one convolution of groups; and one per place."""
    filters = tf.reshape(tf.reduce_mean(x, [1, 2]) @ v["w"], [2, 3, 3, 3, 2])
    wide = tf.reshape(tf.transpose(x, [1, 2, 0, 3]), [1, 6, 6, 6])
    out = tf.nn.conv2d(wide, tf.reshape(tf.transpose(filters, [1, 2, 3, 0, 4]), [3, 3, 3, 4]), 1, "SAME")
    kernel = tf.reshape(x @ v["k"], [2, 6, 6, 9, 1])
    involved = tf.reduce_sum(kernel * tf.reshape(tf.image.extract_patches(x, [1, 3, 3, 1], [1] * 4, [1] * 4, "SAME"), [2, 6, 6, 9, 3]), 3)
    return tf.reduce_mean((tf.transpose(tf.reshape(out, [6, 6, 2, 2]), [2, 0, 1, 3]) - y) ** 2) + tf.reduce_mean(involved ** 2)


def picture_losses(v, x, y):
    out = tf.sigmoid(tf.nn.conv2d(x, v["w"], 1, "SAME"))
    edges = tf.reduce_mean(tf.abs(tf.image.sobel_edges(out) - tf.image.sobel_edges(y)))
    colours = tf.reduce_mean((tf.image.rgb_to_yiq(out) - tf.image.rgb_to_yuv(y)) ** 2)
    return (edges + colours + tf.reduce_mean(tf.image.total_variation(out)) / 1000.0 + 1.0 - tf.reduce_mean(tf.image.ssim(out, y, 1.0, 5))
            - 0.001 * tf.reduce_mean(tf.image.psnr(out, y, 1.0)))


def augmented(v, x, y):
    for k, change in enumerate((lambda z, s: tf.image.stateless_random_brightness(z, 0.2, s), lambda z, s: tf.image.stateless_random_contrast(z, 0.5, 1.5, s),
                                lambda z, s: tf.image.stateless_random_flip_left_right(z, s), lambda z, s: tf.image.stateless_random_crop(z, [2, 10, 10, 3], s),
                                lambda z, s: tf.image.resize(z, [6, 6], "bicubic"), lambda z, s: tf.image.resize(z, [8, 9], "lanczos3", antialias=True),
                                lambda z, s: tf.image.rot90(z), lambda z, s: tf.image.adjust_gamma(tf.abs(z), 0.8), lambda z, s: tf.image.per_image_standardization(z),
                                lambda z, s: tf.image.central_crop(z, 0.7), lambda z, s: tf.image.resize_with_pad(z, 7, 7))):
        x = change(x, [k, 5])
    return tf.reduce_mean((tf.reduce_mean(tf.nn.conv2d(x, v["w"], 1, "VALID"), [1, 2]) - y) ** 2)


def denoised(v, x, noise, when):
    """A step of diffusion: times as waves, group norm, attention in the middle."""
    wave = tf.exp(-np.log(1e4) * tf.range(4.0) / 4.0)[None] * tf.cast(when, tf.float32)[:, None]
    time = tf.nn.silu(tf.concat([tf.sin(wave), tf.cos(wave)], -1) @ v["t"])
    keep = tf.gather(tf.math.cumprod(1.0 - tf.linspace(1e-2, 0.2, 10)), when)[:, None, None, None]
    h = tf.nn.conv2d(tf.sqrt(keep) * x + tf.sqrt(1 - keep) * noise, v["in"], 1, "SAME") + time[:, None, None]
    groups = tf.reshape(h, [2, 8, 8, 2, 2])
    mean, var = tf.nn.moments(groups, [1, 2, 4], keepdims=True)
    h = tf.nn.silu(tf.reshape((groups - mean) * tf.math.rsqrt(var + 1e-5), [2, 8, 8, 4]))
    d = tf.nn.avg_pool2d(h, 2, 2, "SAME")
    flat = tf.reshape(d, [2, 16, 4])
    d += tf.reshape(tf.nn.softmax(tf.matmul(flat @ v["q"], flat, transpose_b=True) / 2.0) @ flat, [2, 4, 4, 4])
    u = tf.nn.conv2d_transpose(d, v["up"], [2, 8, 8, 4], 2, "SAME")
    return tf.reduce_mean((tf.nn.conv2d(tf.concat([h, u], -1), v["out"], 1, "SAME") - noise) ** 2)


def correlated_lags(v, x, y):
    """Lags at which a series is like itself, and its rows rolled by them."""
    q, k = x @ v["q"], x @ v["k"]
    lag = tf.reduce_mean(tf.signal.irfft(tf.signal.rfft(tf.transpose(q, [0, 2, 1])) * tf.math.conj(tf.signal.rfft(tf.transpose(k, [0, 2, 1])))), 1)
    weight, delay = tf.math.top_k(lag, 3)
    place = (tf.range(8)[None, None] + delay[..., None]) % 8
    rolled = tf.gather(tf.repeat(x[:, None], 3, 1), place, batch_dims=2)
    return tf.reduce_mean((tf.einsum("bk,bktd->btd", tf.nn.softmax(weight), rolled) - y) ** 2)


def complex_layers(v, x, y):
    w = tf.complex(v["re"], v["im"])
    z = tf.cast(x, tf.complex64) @ w
    z = tf.complex(tf.nn.relu(tf.math.real(z)), tf.nn.relu(tf.math.imag(z))) * tf.exp(tf.complex(0.0, tf.math.angle(z + (1.0 + 0.5j))))
    return tf.reduce_mean(tf.abs(tf.signal.fft(z)[:, :3] - tf.cast(y, tf.complex64)) ** 2) + tf.reduce_mean(tf.math.real(z * tf.math.conj(z)))


# Text, features, graphs

def cached_keys(v, x, y):
    cache = tf.zeros([2, 6, 4])
    out = []
    for t in range(3):
        rows = tf.stack([tf.range(2), tf.fill([2], t + 1)], -1)
        cache = tf.tensor_scatter_nd_update(cache, rows, x[:, t] @ v["k"])
        slope = -0.5 * tf.abs(tf.range(6.0) - float(t + 1))
        scores = tf.einsum("bd,bsd->bs", x[:, t], cache) + slope
        out.append(tf.einsum("bs,bsd->bd", tf.nn.softmax(tf.where(tf.range(6) <= t + 1, scores, -1e9)), cache))
    return tf.reduce_mean((tf.stack(out, 1) - y) ** 2)


def crossed_features(v, a, b, y):
    crossed = tf.sparse.cross_hashed([a, b], num_buckets=16)
    pooled = tf.nn.safe_embedding_lookup_sparse([v["table"]], crossed, combiner="sqrtn", max_norm=1.0)
    counts = tf.math.bincount(a, minlength=6, maxlength=6, axis=-1, dtype=tf.float32)
    seen = tf.sparse.bincount(tf.sparse.from_dense(b), minlength=6, maxlength=6, axis=-1, binary_output=True)
    seen = tf.cast(tf.sparse.to_dense(seen), tf.float32)
    return tf.reduce_mean((pooled + counts @ v["w"] + seen @ v["w"] - y) ** 2)


def ragged_features(v, ids, splits, y):
    rows = tf.RaggedTensor.from_row_splits(ids, splits)
    counts = tf.raw_ops.RaggedBincount(splits=splits, values=ids, size=6, weights=tf.zeros([0]))
    wide = tf.sparse.to_dense(tf.RaggedTensor.from_row_splits(tf.gather(v["table"], ids)[:, 0], splits).to_sparse())
    bags = tf.nn.embedding_lookup_sparse(v["table"], rows.to_sparse(), None, combiner="mean")
    return tf.reduce_mean((counts @ v["w"] + bags - y) ** 2) + tf.reduce_mean(wide ** 2)


def low_rank(v, x, y):
    frozen = tf.stop_gradient(v["w"])
    h = tf.nn.relu(x @ frozen + 2.0 * (tf.nn.dropout(x, 0.2, seed=3) @ v["down"]) @ v["up"])
    return tf.reduce_mean((h - y) ** 2)


def contrasted_pairs(v, x, y):
    a, b = tf.math.l2_normalize(x @ v["a"], -1), tf.math.l2_normalize(y @ v["b"], -1)
    logits = tf.minimum(tf.exp(v["scale"]), 100.0) * tf.matmul(a, b, transpose_b=True)
    labels = tf.range(tf.shape(logits)[0])
    std = tf.sqrt(tf.math.reduce_variance(x @ v["a"], 0) + 1e-4)
    cov = tf.matmul(a, a, transpose_a=True) / 4.0
    off = tf.linalg.set_diag(cov, tf.zeros([3]))
    return softmax_loss(logits, labels) + softmax_loss(tf.transpose(logits), labels) + tf.reduce_mean(tf.nn.relu(1 - std)) + tf.reduce_sum(off ** 2)


def neighbours(v, x, senders, receivers, graph, y):
    h = tf.gather(x @ v["w"], senders)
    both = [f(h, receivers, 6) for f in (tf.math.unsorted_segment_mean, tf.math.unsorted_segment_max, tf.math.unsorted_segment_sqrt_n)]
    degree = tf.math.unsorted_segment_sum(tf.ones([12]), receivers, 6)
    h = tf.concat([b * tf.math.log1p(degree)[:, None] for b in both], -1)
    h = tf.where(tf.math.is_finite(h) & (tf.abs(h) < 1e9), h, 0.0) @ v["mix"]
    out = tf.math.segment_sum(h, graph) + tf.math.segment_min(h, graph) + tf.math.segment_prod(tf.tanh(h), graph)
    return tf.reduce_mean((out - y) ** 2)


def read_speech(v, x, lengths, words, word_lengths):
    """Labels by a beam while training with CTC: what a metric in the graph reads."""
    logits = tf.transpose(x @ v["w"], [1, 0, 2])
    loss = tf.reduce_mean(tf1.nn.ctc_loss_v2(words, logits, word_lengths, lengths, blank_index=4))
    (best, second), score = tf.nn.ctc_beam_search_decoder(tf.stop_gradient(logits), lengths, 8, 2)
    truth = tf.sparse.from_dense(tf.cast(words, tf.int64))
    wrong = tf.edit_distance(best, truth) + 0.1 * tf.edit_distance(second, truth, normalize=False)
    return loss + 0.0 * tf.reduce_mean(score) + 0.01 * tf.reduce_mean(wrong)


def _table():
    w = lambda *shape, seed=5: numbers(*shape, seed=seed) * 0.4
    xy = {"x": numbers(4, 3), "y": numbers(4, 3, seed=1)}
    series = {"x": numbers(2, 6, 3), "y": numbers(2, 6, 3, seed=1)}
    critics = {n + e: w(*s, seed=k) for k, n in enumerate(("q1", "q2", "t1", "t2")) for e, s in (("", (5, 6)), ("o", (6, 1)))}
    yield ("soft_actor_critic", soft_actor_critic, _soft_targets), dict(critics, pi=w(3, 6), pi2=w(6, 4), alpha=F32(-1)), {
        "s": numbers(4, 3), "a": np.tanh(numbers(4, 2)), "r": numbers(4), "s2": numbers(4, 3, seed=2), "noise": numbers(4, 2, seed=3)}
    yield categorical_values, {"w": w(3, 21)}, {"s": numbers(4, 3), "a": integers(3, 4), "r": numbers(4), "done": np.array([0, 1, 0, 0], F32)}
    yield v_trace, {"w": w(3, 4), "o": w(4, 1)}, {"s": numbers(5, 3, 3), "rho": numbers(5, 3) * F32(0.3), "r": numbers(5, 3, seed=2)}
    yield replayed, {"w": w(3, 1), "buffer": w(6, 4), "filled": np.int32(2)}, {"s": numbers(2, 3), "r": numbers(2)}
    yield kalman_filter, {"a": np.eye(3, dtype=F32) * F32(0.9) + w(3, 3) * F32(0.1), "h": w(2, 3), "q": w(3)}, {"y": numbers(5, 2)}
    yield hidden_markov, {"start": w(3), "move": w(3, 3), "emit": w(3, 5)}, {"ids": integers(5, 2, 4)}
    yield memory_of_rows, {"memory": w(5, 4), "w": w(3, 16)}, {"x": numbers(2, 3, 3), "y": numbers(2, 3, 4)}
    yield weighted_keys, {"k": w(4, 4), "v": w(4, 4, seed=2), "r": w(4, 4, seed=3), "bonus": w(4), "decay": w(4, seed=1)}, {"x": numbers(2, 5, 4), "y": numbers(2, 5, 4, seed=1)}
    yield selective_scan, {"delta": w(3, 3), "a": w(3, 2), "b": w(3, 2, seed=2), "c": w(3, 2, seed=3), "skip": w(3)}, series
    yield spikes, {"w": w(3, 5) * 3, "o": w(5, 2)}, {"x": numbers(4, 6, 3), "y": numbers(4, 2)}
    yield tree_of_words, {"table": w(6, 3), "w": w(6, 3)}, {"leaves": integers(6, 4), "left": np.array([0, 4, 5], np.int32), "right": np.array([1, 2, 3], np.int32), "y": numbers(7, 3)}
    yield beam_of_words, {"table": w(5, 3), "w": w(3, 3), "out": w(3, 5) * 2}, {"x": numbers(2, 3), "y": integers(5, 2, 4)}
    yield spline_flow, {"s": w(11), "w": w(1, 11)}, {"x": numbers(6, 2)}
    yield sinkhorn, {"w": w(3, 3)}, {"x": numbers(5, 3), "y": numbers(5, 3, seed=1)}
    yield masked_autoregression, {k: w(4, 4, seed=i) for i, k in enumerate("abc")}, {"x": numbers(5, 4)}
    yield frechet_distance, {"w": w(3, 3)}, {"x": numbers(7, 3), "y": numbers(7, 3, seed=1)}
    yield ridge_on_features, {"w": w(3, 4)}, {"x": numbers(9, 3), "y": numbers(9, 2, seed=1)}
    yield forwards, {"w": w(3, 3)}, xy
    yield batches_of_jacobians, {"w": w(3, 3)}, xy
    yield computed_again, {"w": w(3, 5), "o": w(5, 3)}, xy
    yield mapped_vectors, {"w": w(3, 3)}, xy
    yield chosen_branch, {"w": w(3, 3)}, dict(xy, which=np.int32(2))
    image = np.abs(numbers(2, 6, 6, 3)) / 3
    yield deformed, {"off": w(3, 3, 3, 18), "w": w(9, 3, 2)}, {"x": image, "y": numbers(2, 6, 6, 2)}
    yield own_filters, {"w": w(3, 54), "k": w(3, 9)}, {"x": image, "y": numbers(2, 6, 6, 2)}
    yield picture_losses, {"w": w(3, 3, 3, 3)}, {"x": np.abs(numbers(2, 12, 12, 3)) / 3, "y": np.clip(np.abs(numbers(2, 12, 12, 3, seed=1)) / 3, 0, 1)}
    yield augmented, {"w": w(3, 3, 3, 2)}, {"x": np.abs(numbers(2, 12, 12, 3)) / 3, "y": numbers(2, 2)}
    yield denoised, {"t": w(8, 4), "in": w(3, 3, 3, 4), "q": w(4, 4), "up": w(2, 2, 4, 4), "out": w(3, 3, 8, 3)}, {
        "x": numbers(2, 8, 8, 3), "noise": numbers(2, 8, 8, 3, seed=1), "when": np.array([2, 7], np.int32)}
    yield correlated_lags, {"q": w(3, 3), "k": w(3, 3, seed=1)}, {"x": numbers(2, 8, 3), "y": numbers(2, 8, 3, seed=1)}
    yield complex_layers, {"re": w(3, 4), "im": w(3, 4, seed=1)}, xy
    yield cached_keys, {"k": w(4, 4)}, {"x": numbers(2, 3, 4), "y": numbers(2, 3, 4, seed=1)}
    yield crossed_features, {"table": w(16, 4), "w": w(6, 4)}, {"a": integers(6, 3, 2, dtype=np.int64), "b": integers(6, 3, 2, seed=1, dtype=np.int64), "y": numbers(3, 4)}
    yield ragged_features, {"table": w(6, 4), "w": w(6, 4)}, {"ids": integers(6, 7, dtype=np.int64), "splits": np.array([0, 3, 4, 7], np.int64), "y": numbers(3, 4)}
    yield low_rank, {"w": w(3, 3), "down": w(3, 2), "up": w(2, 3)}, xy
    yield contrasted_pairs, {"a": w(3, 3), "b": w(3, 3, seed=1), "scale": F32(1)}, xy
    yield neighbours, {"w": w(3, 3), "mix": w(9, 3)}, {"x": numbers(6, 3), "senders": integers(6, 12), "receivers": integers(6, 12, seed=1),
                                                       "graph": np.array([0, 0, 0, 1, 1, 1], np.int32), "y": numbers(2, 3)}
    yield read_speech, {"w": w(3, 5)}, {"x": numbers(2, 8, 3), "lengths": np.array([8, 6], np.int32), "words": integers(4, 2, 3), "word_lengths": np.array([3, 2], np.int32)}


def cases():
    for loss, variables, feeds in _table():
        name, loss, update = loss if isinstance(loss, tuple) else (loss.__name__, loss, None)
        variables = {key: np.asarray(value) for key, value in variables.items()}
        yield name, eager(_Built(variables, loss, feeds, 0.05, update, {}))
