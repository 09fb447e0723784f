"""Ideas of well-known models and training tricks, each as a traced step over a few variables: the ops that they are
made of in forward and gradient."""
import numpy as np
import tensorflow as tf

from zoo import eager, function_net

F32 = np.float32


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(F32)


def integers(high, *shape, seed=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


class _Built:
    """A case: called outside any graph, gives what adds the step to one."""

    def __init__(self, variables, loss, feeds, rate, update, more):
        self.variables, self.loss, self.feeds, self.rate, self.update, self.more = variables, loss, feeds, rate, update, more

    def __call__(self):
        made = {name: tf.Variable(value, name=name, trainable=value.dtype.kind == "f") for name, value in self.variables.items()}
        names = [name for name, v in made.items() if v.trainable]

        def step(**values):
            with tf.GradientTape() as tape:
                value = self.loss(made, **values)
            gradients = tape.gradient(value, [made[name] for name in names])
            if self.update is not None:
                self.update(made, dict(zip(names, gradients)))
                return value
            for name, gradient in zip(names, gradients):
                if isinstance(gradient, tf.IndexedSlices):
                    made[name].scatter_sub(tf.IndexedSlices(self.rate * gradient.values, gradient.indices))
                elif gradient is not None:
                    made[name].assign_sub(self.rate * gradient)
            return value

        return function_net(step, self.feeds, **self.more)


def softmax_loss(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def layer_norm(x, gain, shift):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * gain + shift


# Text

def fnet(v, ids, y):
    x = tf.gather(v["table"], ids)
    mixed = tf.math.real(tf.signal.fft2d(tf.cast(x, tf.complex64)))
    x = layer_norm(x + mixed, v["gain"], v["shift"])
    return softmax_loss(tf.reduce_mean(x, 1) @ v["out"], y)


def transformer_xl(v, x, memory, y):
    """Relative positions by the shift of Dai et al. 2019."""
    full = tf.concat([memory, x], 1)
    q, k = x @ v["wq"], full @ v["wk"]
    positions = tf.range(9.0, -1.0, -1.0)
    angles = positions[:, None] / tf.pow(10000.0, tf.range(0.0, 8.0, 2.0) / 8.0)[None]
    r = tf.concat([tf.sin(angles), tf.cos(angles)], -1) @ v["wr"]
    content = tf.einsum("bqd,bkd->bqk", q + v["u"], k)
    shifted = tf.einsum("bqd,kd->bqk", q + v["w"], r)
    b, n, m = shifted.shape
    shifted = tf.reshape(tf.reshape(tf.pad(shifted, [[0, 0], [0, 0], [1, 0]]), [b, m + 1, n])[:, 1:], [b, n, m])
    mask = tf.linalg.band_part(tf.ones([n, m]), -1, m - n)
    weights = tf.nn.softmax((content + shifted) / 8.0 ** 0.5 - 1e9 * (1 - mask))
    return tf.reduce_mean((weights @ full - y) ** 2)


def t5_bias(v, x, y):
    n = tf.shape(x)[1]
    relative = tf.range(n)[None] - tf.range(n)[:, None]
    buckets = tf.cast(relative > 0, tf.int32) * 4
    distance = tf.abs(relative)
    large = 2 + tf.cast(tf.math.log(tf.cast(distance, tf.float32) / 2 + 1e-6) / np.log(8 / 2) * 2, tf.int32)
    buckets += tf.where(distance < 2, distance, tf.minimum(large, 3))
    bias = tf.transpose(tf.gather(v["bias"], buckets), [2, 0, 1])
    heads = tf.transpose(tf.reshape(x @ v["qk"], [2, n, 2, 4]), [0, 2, 1, 3])
    weights = tf.nn.softmax(tf.matmul(heads, heads, transpose_b=True) + bias)
    out = tf.reshape(tf.transpose(weights @ heads, [0, 2, 1, 3]), [2, n, 8])
    return tf.reduce_mean(tf.square(out * tf.math.rsqrt(tf.reduce_mean(out ** 2, -1, keepdims=True) + 1e-6) - y))


def performer(v, x, y):
    features = lambda z: tf.exp(z @ v["p"] - tf.reduce_sum(z * z, -1, keepdims=True) / 2 - tf.stop_gradient(tf.reduce_max(z)))
    q, k = features(x @ v["wq"]), features(x @ v["wk"])
    top = tf.einsum("bnf,bfd->bnd", q, tf.einsum("bnf,bnd->bfd", k, x))
    return tf.reduce_mean((top / tf.einsum("bnf,bf->bn", q, tf.reduce_sum(k, 1))[..., None] - y) ** 2)


def text_cnn(v, ids, y):
    x = tf.nn.embedding_lookup(v["table"], ids)
    pooled = []
    for width in (2, 3):
        h = tf.nn.relu(tf.nn.conv1d(x, v[f"c{width}"], 1, "VALID") + v[f"b{width}"])
        pooled.append(tf.reduce_max(h, 1))
    gate = tf.sigmoid(tf.concat(pooled, 1) @ v["gate"])
    h = gate * tf.nn.elu(tf.concat(pooled, 1)) + (1 - gate) * tf.concat(pooled, 1)
    smooth = tf.one_hot(y, 3) * 0.9 + 0.1 / 3
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(smooth, h @ v["out"]))


def sru(v, x, y):
    z, f, r = tf.split(x @ v["w"], 3, -1)
    f = tf.sigmoid(f)
    log_f = tf.cumsum(tf.math.log(f), 1)
    c = tf.exp(log_f) * tf.cumsum((1 - f) * z * tf.exp(-log_f), 1)
    return tf.reduce_mean((tf.sigmoid(r) * tf.tanh(c) + (1 - tf.sigmoid(r)) * x - y) ** 2)


# Recommenders

def dlrm(v, dense, a, b, y):
    bottom = tf.nn.relu(dense @ v["bottom"])
    features = tf.stack([bottom, tf.gather(v["ta"], a), tf.gather(v["tb"], b)], 1)
    dots = tf.matmul(features, features, transpose_b=True)
    upper = tf.where(tf.linalg.band_part(tf.ones([3, 3]), 0, -1) - tf.eye(3) > 0)
    crossed = tf.transpose(tf.gather_nd(tf.transpose(dots, [1, 2, 0]), upper))
    logits = tf.concat([bottom, tf.reshape(crossed, [4, 3])], 1) @ v["top"]
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits[:, 0]))


def mixture_of_tasks(v, x, y):
    experts = tf.nn.relu(tf.einsum("bi,eio->beo", x, v["experts"]))
    loss = 0.0
    for task in range(2):
        gates = tf.nn.softmax(x @ v["gates"][task])
        loss += tf.losses.huber(y[:, task], tf.einsum("be,beo->bo", gates, experts) @ v["towers"][task])
    return tf.reduce_mean(loss)


def deep_cross(v, x, ids, y):
    x = tf.concat([x, tf.reduce_sum(tf.gather(v["table"], ids), 1)], 1)
    h = x
    for layer in range(2):
        h = x * (h @ v["w"][layer] + v["b"][layer]) + h
    squared = tf.square(tf.reduce_sum(h, 1)) - tf.reduce_sum(tf.square(h), 1)
    return tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(y, 0.1 * squared, 2.0))


def interest(v, history, target, lengths, y):
    items, wanted = tf.gather(v["table"], history), tf.gather(v["table"], target)[:, None]
    wanted = tf.tile(wanted, [1, 5, 1])
    scores = tf.squeeze(tf.concat([items, wanted, items - wanted, items * wanted], -1) @ v["att"], -1)
    mask = tf.sequence_mask(lengths, 5)
    scores = tf.where(mask, scores, tf.fill(tf.shape(scores), -2.0 ** 32 + 1))
    pooled = tf.matmul(tf.nn.softmax(scores)[:, None], items)[:, 0]
    p, q = pooled - tf.reduce_mean(pooled, 0), tf.nn.sigmoid(pooled)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, tf.reduce_sum(q * p + (1 - q) * 0.25 * p, 1)))


def safe_bags(v, y):
    ids = tf.SparseTensor(np.array([[0, 0], [0, 1], [2, 0], [3, 1]], np.int64), np.array([1, 3, 2, 5], np.int64), [4, 2])
    weights = tf.SparseTensor(ids.indices, np.array([1, 2, 0.5, 1], F32), [4, 2])
    x = tf.nn.safe_embedding_lookup_sparse(v["table"], ids, weights, combiner="mean")
    z = tf.nn.safe_embedding_lookup_sparse(v["table"], ids, combiner="sqrtn", default_id=0)
    return tf.reduce_mean((x + z - y) ** 2)


# Pictures

def simclr(v, x, y):
    a, b = tf.nn.l2_normalize(x @ v["w"], -1), tf.nn.l2_normalize(y @ v["w"], -1)
    both = tf.concat([a, b], 0)
    similar = tf.matmul(both, both, transpose_b=True) / 0.5
    similar = tf.linalg.set_diag(similar, tf.fill([8], -1e9))
    return softmax_loss(similar, tf.concat([tf.range(4, 8), tf.range(4)], 0))


def triplets(v, x, y):
    """Semi-hard mining, as in FaceNet."""
    e = tf.math.l2_normalize(x @ v["w"], 1)
    d = tf.maximum(2 - 2 * tf.matmul(e, e, transpose_b=True), 0.0)
    same = tf.equal(y[:, None], y[None])
    n = tf.shape(y)[0]
    tiled = tf.tile(d, [n, 1])
    mask = tf.logical_and(tf.tile(tf.logical_not(same), [n, 1]), tf.greater(tiled, tf.reshape(tf.transpose(d), [-1, 1])))
    found = tf.transpose(tf.reshape(tf.greater(tf.reduce_sum(tf.cast(mask, tf.float32), 1, keepdims=True), 0.0), [n, n]))
    least = lambda data, m: tf.reduce_min(tf.multiply(data - tf.reduce_max(data, 1, keepdims=True), m), 1, keepdims=True) \
        + tf.reduce_max(data, 1, keepdims=True)
    outside = tf.transpose(tf.reshape(least(tiled, tf.cast(mask, tf.float32)), [n, n]))
    inside = tf.tile(-least(-d, tf.cast(tf.logical_not(same), tf.float32)), [1, n])
    loss = 1.0 + d - tf.where(found, outside, inside)
    positives = tf.cast(same, tf.float32) - tf.linalg.diag(tf.ones([n]))
    return tf.math.truediv(tf.reduce_sum(tf.maximum(loss * positives, 0.0)), tf.reduce_sum(positives))


def arc_face(v, x, y):
    cosine = tf.nn.l2_normalize(x @ v["w"], 1) @ tf.nn.l2_normalize(v["c"], 0)
    angle = tf.acos(tf.clip_by_value(cosine, -1 + 1e-6, 1 - 1e-6))
    hot = tf.one_hot(y, 3)
    logits = 8.0 * (tf.cos(angle + 0.3) * hot + cosine * (1 - hot))
    p = tf.nn.softmax(logits)
    focal = -tf.reduce_sum(hot * (1 - p) ** 2 * tf.math.log(p + 1e-7), 1)
    return tf.reduce_mean(focal)


def yolo(v, x, box, y):
    grid = tf.reshape(tf.nn.conv2d(x, v["w"], 2, "SAME"), [2, 4, 4, 2, 7])
    column, row = tf.meshgrid(tf.range(4), tf.range(4))
    corner = tf.cast(tf.stack([column, row], -1), tf.float32)[None, :, :, None]
    xy, wh = (tf.sigmoid(grid[..., :2]) + corner) / 4, tf.exp(grid[..., 2:4]) * tf.constant([[0.1, 0.2], [0.3, 0.1]])
    lower, upper = tf.maximum(xy - wh / 2, box[:, None, None, :, :2]), tf.minimum(xy + wh / 2, box[:, None, None, :, 2:])
    overlap = tf.reduce_prod(tf.maximum(upper - lower, 0.0), -1)
    iou = overlap / (tf.reduce_prod(wh, -1) + 0.1 - overlap)
    mask = tf.cast(y > 0, tf.float32)
    ignore = tf.cast(tf.reduce_max(iou, -1, keepdims=True) < 0.5, tf.float32)
    conf = tf.nn.sigmoid_cross_entropy_with_logits(mask, grid[..., 4])
    chosen = tf.boolean_mask(grid[..., 5:], y > 0)
    loss = tf.reduce_sum(conf * (mask + (1 - mask) * ignore)) + tf.reduce_sum((1 - iou) * mask)
    return loss / 2 + tf.reduce_mean(tf.reduce_logsumexp(chosen, -1) - chosen[:, 0])


def center_net(v, x, index, target):
    heat = tf.nn.conv2d(x, v["w"], 1, "SAME")
    peak = tf.cast(tf.equal(tf.nn.max_pool2d(heat, 3, 1, "SAME"), heat), tf.float32) * heat
    scores, where = tf.math.top_k(tf.reshape(peak, [2, -1]), 4)
    found = tf.gather(tf.reshape(x, [2, -1, 3]), index, batch_dims=1)
    rows = tf.cast(where // 16, tf.float32) + tf.cast(where % 16, tf.float32)
    return tf.reduce_mean(tf.abs(found @ v["r"] - target)) + tf.reduce_mean(scores) + 1e-3 * tf.reduce_mean(rows)


def proposals(v, boxes, scores, y):
    """Non-maximum suppression, then a head on the crops of what is left."""
    keep = tf.image.non_max_suppression(boxes, tf.nn.sigmoid(scores), 3, 0.5, 0.1)
    kept = tf.gather(boxes, keep)
    crops = tf.image.crop_and_resize(tf.reshape(v["image"], [1, 8, 8, 2]), kept, tf.zeros(tf.shape(keep), tf.int32), [2, 2])
    return softmax_loss(tf.reshape(crops, [-1, 8]) @ v["w"], tf.gather(y, keep))


def antialiased(v, x, y):
    small = tf.image.resize(tf.nn.conv2d(x, v["w"], 1, "SAME"), [5, 4], "lanczos3", antialias=True)
    large = tf.image.resize(small, [9, 9], "mitchellcubic")
    return tf.reduce_mean((large - y) ** 2)


def morphology(v, x, y):
    h = tf.nn.dilation2d(x, v["f"], [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])
    h = tf.nn.erosion2d(h, v["g"], [1, 2, 2, 1], "VALID", "NHWC", [1, 1, 1, 1])
    return tf.reduce_mean(tf.square(tf.reduce_mean(h, [1, 2]) - y))


def shuffled(v, x, y):
    h = tf.nn.depth_to_space(tf.nn.conv2d(x, v["w"], 1, "SAME"), 2)
    groups = tf.reshape(tf.transpose(tf.reshape(h, [2, 16, 16, 2, 1]), [0, 1, 2, 4, 3]), [2, 16, 16, 2])
    grad_y, grad_x = tf.image.image_gradients(groups)
    return tf.reduce_mean(tf.image.ssim(groups, y, 1.0, filter_size=5)) + tf.reduce_mean(tf.abs(grad_y) + tf.abs(grad_x)) \
        + tf.reduce_mean(tf.image.total_variation(groups)) * 1e-3


def quantised(v, x, y):
    w = tf.quantization.quantize_and_dequantize_v2(v["w"], -1.0, 1.0, range_given=True)
    h = tf.quantization.quantize_and_dequantize_v2(tf.nn.relu(x @ w), 0.0, 6.0, signed_input=False, num_bits=4)
    return tf.reduce_mean((h - y) ** 2)


# Generative models, geometry, sound

def vq_vae(v, x, y):
    z = x @ v["enc"]
    d = tf.reduce_sum(z ** 2, 1, keepdims=True) - 2 * z @ v["codes"] + tf.reduce_sum(v["codes"] ** 2, 0, keepdims=True)
    q = tf.nn.embedding_lookup(tf.transpose(v["codes"]), tf.argmin(d, 1))
    through = z + tf.stop_gradient(q - z)
    used = tf.reduce_mean(tf.one_hot(tf.argmin(d, 1), 5), 0)
    perplexity = tf.exp(-tf.reduce_sum(used * tf.math.log(used + 1e-10)))
    return tf.reduce_mean((through @ v["dec"] - y) ** 2) + tf.reduce_mean((tf.stop_gradient(z) - q) ** 2) \
        + 0.25 * tf.reduce_mean((z - tf.stop_gradient(q)) ** 2) + 0 * perplexity


def glow(v, x, y):
    h = x @ v["mix"]
    log_det = tf.math.log(tf.abs(tf.linalg.det(v["mix"]))) + tf.linalg.slogdet(v["mix"])[1]
    a, b = tf.split(h, 2, 1)
    scale, shift = tf.split(tf.tanh(a @ v["net"]), 2, 1)
    b = b * tf.exp(scale) + shift
    back = tf.concat([a, b], 1) @ tf.linalg.inv(v["mix"])
    return -tf.reduce_mean(log_det + tf.reduce_sum(scale, 1)) + tf.reduce_mean((back - y) ** 2)


def gumbel(v, x, y):
    noise = -tf.math.log(-tf.math.log(tf.random.stateless_uniform([4, 3], [1, 2], 1e-5, 1 - 1e-5)))
    soft = tf.nn.softmax((x @ v["w"] + noise) / 0.7)
    hard = tf.one_hot(tf.argmax(soft, 1), 3)
    return tf.reduce_mean((tf.stop_gradient(hard - soft) + soft - y) ** 2)


def nerf(v, points, deltas, y):
    encoded = tf.concat([f(2.0 ** k * np.pi * points) for k in range(2) for f in (tf.sin, tf.cos)], -1)
    raw = tf.nn.relu(encoded @ v["w"]) @ v["o"]
    alpha = 1 - tf.exp(-tf.nn.relu(raw[..., 3]) * deltas)
    weights = alpha * tf.math.cumprod(1 - alpha + 1e-10, -1, exclusive=True)
    colour = tf.reduce_sum(weights[..., None] * tf.sigmoid(raw[..., :3]), -2)
    return tf.reduce_mean((colour - y) ** 2)


def stft_loss(v, x, y):
    made = tf.nn.tanh(x @ v["w"])
    loss = 0.0
    for length, step in ((16, 8), (32, 16)):
        a, b = (tf.abs(tf.signal.stft(s, length, step, window_fn=tf.signal.hamming_window)) + 1e-3 for s in (made, y))
        loss += tf.norm(b - a) / tf.norm(b) + tf.reduce_mean(tf.abs(tf.math.log(a) - tf.math.log(b)))
    mel = tf.signal.linear_to_mel_weight_matrix(5, 9, 8000, 100.0, 3000.0)
    power = tf.square(tf.abs(tf.signal.stft(made, 16, 8)))
    mfcc = tf.signal.mfccs_from_log_mel_spectrograms(tf.math.log(tf.tensordot(power, mel, 1) + 1e-3))
    back = tf.signal.inverse_stft(tf.signal.stft(made, 16, 8), 16, 8)
    return loss + 0.1 * tf.reduce_mean(mfcc ** 2) + tf.reduce_mean(back ** 2)


def attention_on_graphs(v, x, senders, receivers, y):
    h = x @ v["w"]
    scores = tf.nn.leaky_relu(tf.reduce_sum(tf.gather(h, senders) * v["a"], 1) + tf.reduce_sum(tf.gather(h, receivers) * v["b"], 1))
    top = tf.gather(tf.math.unsorted_segment_max(scores, receivers, 6), receivers)
    weights = tf.exp(scores - top)
    weights /= tf.gather(tf.math.unsorted_segment_sum(weights, receivers, 6), receivers) + 1e-9
    h = tf.math.unsorted_segment_sum(weights[:, None] * tf.gather(h, senders), receivers, 6)
    mean = tf.math.unsorted_segment_mean(h, tf.constant([0, 0, 0, 1, 1, 1]), 2)
    root = tf.math.unsorted_segment_sqrt_n(h, tf.constant([0, 0, 0, 1, 1, 1]), 2)
    return tf.reduce_mean((mean + root - y) ** 2)


def ppo(v, states, actions, advantages, old):
    logits, value = states @ v["pi"], tf.squeeze(states @ v["v"], 1)
    log_p = tf.gather(tf.nn.log_softmax(logits), actions, batch_dims=1)
    ratio = tf.exp(log_p - old)
    policy = -tf.reduce_mean(tf.minimum(ratio * advantages, tf.clip_by_value(ratio, 0.8, 1.2) * advantages))
    entropy = -tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), 1)
    returns = tf.cumsum(advantages, reverse=True)
    return policy + 0.5 * tf.reduce_mean(tf.square(value - returns)) - 0.01 * tf.reduce_mean(entropy)


# Normalisation, recurrent blocks, checks

def spectral_norm(v, x, y):
    u = v["u"]
    right = tf.math.l2_normalize(tf.matmul(u, v["w"], transpose_b=True))
    left = tf.math.l2_normalize(tf.matmul(right, v["w"]))
    sigma = tf.matmul(tf.matmul(tf.stop_gradient(right), v["w"]), tf.stop_gradient(left), transpose_b=True)
    v["u_next"].assign(left)
    w = v["g"] * v["w"] / tf.squeeze(sigma)
    return tf.reduce_mean((x @ w - y) ** 2)


def norms(v, x, y):
    h = tf.nn.conv2d(x, v["w"], 1, "SAME")
    grouped = tf.reshape(h, [2, 8, 8, 2, 2])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keepdims=True)
    h = tf.reshape((grouped - mean) * tf.math.rsqrt(variance + 1e-5), [2, 8, 8, 4]) * v["g"] + v["b"]
    mean, variance = tf.nn.moments(h, [1, 2], keepdims=True)
    h = tf.nn.batch_normalization(h, mean, variance, v["b"], v["g"], 1e-5)
    flat, _, _, = tf.compat.v1.nn.fused_batch_norm(tf.reshape(h, [1, 2, 64, 4]), v["g"], v["b"], data_format="NHWC")
    h = tf.maximum(0.0, flat) + v["g"] * tf.minimum(0.0, flat)
    return tf.reduce_mean(tf.square(tf.reduce_mean(tf.reshape(h, [2, 64, 4]), 1) - y))


def block_lstm(v, x, y):
    zero = tf.zeros([2, 3])
    none = tf.zeros([3])
    out = tf.raw_ops.BlockLSTM(seq_len_max=4, x=x, cs_prev=zero, h_prev=zero, w=v["w"], wci=none, wcf=none, wco=none,
                               b=v["b"], cell_clip=-1)
    out2 = tf.raw_ops.BlockLSTMV2(seq_len_max=3, x=out.h, cs_prev=zero, h_prev=zero, w=v["w2"], wci=v["p"], wcf=v["p"],
                                  wco=v["p"], b=v["b"], use_peephole=True)
    return tf.reduce_mean((out2.h - y) ** 2)


def checked(v, x, y):
    tf.debugging.assert_shapes([(x, (4, 3))])
    with tf.control_dependencies([tf.debugging.assert_all_finite(x, "x"), tf.debugging.assert_non_negative(y),
                                  tf.debugging.assert_less_equal(tf.reduce_max(y), 10.0, message="too large"),
                                  tf.debugging.assert_rank(x, 2), tf.debugging.assert_near(x, x)]):
        h = tf.identity(x) @ v["w"]
    tf.print("h is", h, summarize=2)
    h = tf.debugging.check_numerics(h, "h")
    return tf.reduce_mean((tf.grad_pass_through(tf.round)(h) - y) ** 2)


@tf.custom_gradient
def clipped_gradient(x):
    return tf.identity(x), lambda g: tf.clip_by_norm(g, 0.1)


def nested_functions(v, x, y):
    @tf.function
    def inner(z):
        return tf.nn.relu(z) + clipped_gradient(z)

    @tf.function
    def middle(z):
        return inner(z @ v["w"]) * inner(z)[:, :1]

    again = tf.recompute_grad(lambda z: tf.nn.softplus(z) * tf.nn.silu(z))
    return tf.reduce_mean((again(middle(x)) - y) ** 2)


# Update rules

def _adafactor(v, g):
    for name in ("w",):
        square = tf.square(g[name]) + 1e-30
        v["rows"].assign(0.9 * v["rows"] + 0.1 * tf.reduce_mean(square, -1))
        v["columns"].assign(0.9 * v["columns"] + 0.1 * tf.reduce_mean(square, -2))
        factor = tf.math.rsqrt(v["rows"] / tf.reduce_mean(v["rows"], keepdims=True))
        update = g[name] * factor[:, None] * tf.math.rsqrt(v["columns"])[None]
        update /= tf.maximum(1.0, tf.sqrt(tf.reduce_mean(update ** 2)))
        v[name].assign_sub(0.01 * update)


def _shampoo(v, g):
    v["rows"].assign_add(tf.matmul(g["w"], g["w"], transpose_b=True))
    e, q = tf.linalg.eigh(v["rows"] + 1e-2 * tf.eye(3))
    root = tf.matmul(q * tf.pow(e, -0.25)[None], q, transpose_b=True)
    v["w"].assign_sub(0.01 * root @ g["w"])


def _lamb(v, g):
    clipped, norm = tf.clip_by_global_norm([g["w"]], 1.0)
    step = v["step"].assign_add(1)
    v["m"].assign(0.9 * v["m"] + 0.1 * clipped[0])
    v["s"].assign(0.99 * v["s"] + 0.01 * clipped[0] ** 2)
    t = tf.cast(step, tf.float32)
    update = v["m"] / (1 - tf.pow(0.9, t)) / (tf.sqrt(v["s"] / (1 - tf.pow(0.99, t))) + 1e-6) + 0.01 * v["w"]
    a, b = tf.norm(v["w"]), tf.norm(update)
    ratio = tf.where(tf.greater(a, 0), tf.where(tf.greater(b, 0), a / b, 1.0), 1.0)
    decayed = tf.keras.optimizers.schedules.CosineDecay(0.1, 10)(step)
    v["w"].assign_sub(decayed * ratio * update + 0 * norm)


def _loss_scaled(v, g):
    scale = v["scale"]
    gradient = g["w"] / scale
    finite = tf.reduce_all(tf.math.is_finite(gradient))
    v["w"].assign(tf.where(finite, v["w"] - 0.1 * gradient, v["w"]))
    good = tf.where(finite, v["good"] + 1, 0)
    v["good"].assign(good % 2)
    v["scale"].assign(tf.where(finite, tf.where(good >= 2, scale * 2, scale), tf.maximum(scale / 2, 1.0)))


def plain(v, x, y):
    return tf.reduce_mean((x @ v["w"] - y) ** 2)


def scaled(v, x, y):
    return v["scale"] * tf.reduce_mean((x @ v["w"] - y) ** 2)


def _table():
    w = lambda *shape, seed=1: 0.3 * numbers(*shape, seed=seed)
    ones = lambda *shape: np.ones(shape, F32)
    zeros = lambda *shape: np.zeros(shape, F32)
    xy = {"x": numbers(4, 3), "y": numbers(4, 3, seed=2)}
    image = {"x": numbers(2, 8, 8, 3)}
    yield fnet, {"table": w(7, 8), "gain": ones(8), "shift": zeros(8), "out": w(8, 3)}, {"ids": integers(7, 2, 6), "y": integers(3, 2)}
    yield transformer_xl, {"wq": w(8, 8), "wk": w(8, 8, seed=2), "wr": w(8, 8, seed=3), "u": w(8), "w": w(8, seed=4)}, {
        "x": numbers(2, 4, 8), "memory": numbers(2, 6, 8, seed=1), "y": numbers(2, 4, 8, seed=2)}
    yield t5_bias, {"bias": w(8, 2), "qk": w(8, 8)}, {"x": numbers(2, 6, 8), "y": numbers(2, 6, 8, seed=2)}
    yield performer, {"p": w(4, 6), "wq": w(4, 4), "wk": w(4, 4, seed=2)}, {"x": numbers(2, 5, 4), "y": numbers(2, 5, 4, seed=1)}
    yield text_cnn, {"table": w(9, 4), "c2": w(2, 4, 3), "b2": zeros(3), "c3": w(3, 4, 3), "b3": zeros(3), "gate": w(6, 6),
                     "out": w(6, 3)}, {"ids": integers(9, 4, 7), "y": integers(3, 4)}
    yield sru, {"w": w(4, 12)}, {"x": numbers(2, 6, 4), "y": numbers(2, 6, 4, seed=1)}
    yield dlrm, {"bottom": w(3, 4), "ta": w(6, 4), "tb": w(5, 4), "top": w(7, 1)}, {
        "dense": numbers(4, 3), "a": integers(6, 4), "b": integers(5, 4), "y": ones(4)}
    yield mixture_of_tasks, {"experts": w(3, 3, 4), "gates": w(2, 3, 3), "towers": w(2, 4, 1)}, {"x": numbers(4, 3), "y": numbers(4, 2, 1)}
    yield deep_cross, {"table": w(6, 3), "w": w(2, 6, 6), "b": zeros(2, 6)}, {"x": numbers(4, 3), "ids": integers(6, 4, 2), "y": ones(4)}
    yield interest, {"table": w(8, 4), "att": w(16, 1)}, {"history": integers(8, 3, 5), "target": integers(8, 3),
                                                         "lengths": np.array([2, 5, 1], np.int32), "y": ones(3)}
    yield safe_bags, {"table": w(6, 4)}, {"y": numbers(4, 4)}
    yield simclr, {"w": w(3, 4)}, xy
    yield triplets, {"w": w(3, 4)}, {"x": numbers(6, 3), "y": integers(3, 6)}
    yield arc_face, {"w": w(3, 4), "c": w(4, 3)}, {"x": numbers(4, 3), "y": integers(3, 4)}
    yield yolo, {"w": w(3, 3, 3, 14)}, dict(image, box=np.array([[[.1, .1, .5, .5], [.2, .3, .9, .8]]] * 2, F32), y=integers(2, 2, 4, 4, 2))
    yield center_net, {"w": w(3, 3, 3, 2), "r": w(3, 2)}, dict(image, index=integers(64, 2, 3), target=numbers(2, 3, 2))
    yield proposals, {"image": w(128), "w": w(8, 3)}, {
        "boxes": np.array([[0, 0, .5, .5], [0, .1, .5, .6], [.4, .4, 1, 1], [.5, .5, 1, .9], [.2, 0, .3, .9]], F32),
        "scores": np.array([.9, .8, .7, 1.1, .1], F32), "y": integers(3, 5)}
    yield antialiased, {"w": w(3, 3, 3, 2)}, dict(image, y=numbers(2, 9, 9, 2))
    yield morphology, {"f": w(3, 3, 3), "g": w(2, 2, 3)}, dict(image, y=numbers(2, 3))
    yield shuffled, {"w": w(3, 3, 3, 8)}, dict(image, y=np.abs(numbers(2, 16, 16, 2)))
    yield quantised, {"w": w(3, 3)}, xy
    yield vq_vae, {"enc": w(3, 4), "codes": w(4, 5), "dec": w(4, 3)}, xy
    yield glow, {"mix": np.eye(4, dtype=F32) + w(4, 4), "net": w(2, 4)}, {"x": numbers(5, 4), "y": numbers(5, 4, seed=2)}
    yield gumbel, {"w": w(3, 3)}, xy
    yield nerf, {"w": w(12, 8), "o": w(8, 4)}, {"points": numbers(2, 6, 3), "deltas": np.abs(numbers(2, 6)), "y": numbers(2, 3)}
    yield stft_loss, {"w": w(64, 64)}, {"x": numbers(2, 64), "y": numbers(2, 64, seed=1)}
    yield attention_on_graphs, {"w": w(3, 4), "a": w(4), "b": w(4, seed=2)}, {
        "x": numbers(6, 3), "senders": integers(6, 12), "receivers": integers(6, 12, seed=1), "y": numbers(2, 4)}
    yield ppo, {"pi": w(3, 4), "v": w(3, 1)}, {"states": numbers(5, 3), "actions": integers(4, 5), "advantages": numbers(5), "old": -ones(5)}
    yield spectral_norm, {"w": w(3, 3), "g": np.float32(1), "u": numbers(1, 3), "u_next": zeros(1, 3)}, xy
    yield norms, {"w": w(3, 3, 3, 4), "g": ones(4), "b": zeros(4)}, dict(image, y=numbers(2, 4))
    yield block_lstm, {"w": w(5, 12), "w2": w(6, 12), "b": w(12), "p": w(3)}, {"x": numbers(4, 2, 2), "y": numbers(4, 2, 3)}
    yield checked, {"w": w(3, 3)}, {"x": numbers(4, 3), "y": np.abs(numbers(4, 3))}
    yield nested_functions, {"w": w(3, 3)}, xy
    for name, update, more in (("adafactor", _adafactor, {"rows": ones(3), "columns": ones(3)}),
                               ("shampoo", _shampoo, {"rows": np.eye(3, dtype=F32)}),
                               ("lamb", _lamb, {"m": zeros(3, 3), "s": zeros(3, 3), "step": np.int64(0)})):
        yield (name, plain, update), dict({"w": w(3, 3)}, **more), xy
    yield ("loss_scaled", scaled, _loss_scaled), {"w": w(3, 3), "scale": np.float32(8), "good": np.int32(0)}, xy


def cases():
    for loss, variables, feeds in _table():
        name, loss, update = loss if isinstance(loss, tuple) else (loss.__name__, loss, None)
        variables = {key: np.asarray(value) for key, value in variables.items()}
        yield name, eager(_Built(variables, loss, feeds, 0.05, update, {}))
