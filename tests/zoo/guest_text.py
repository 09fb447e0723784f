"""Programs of the kinds that people of language and speech bring: transformers with caches and experts, decoders with beams,
fields and paths found by dynamic programming, retrieval, sounds."""
from guest_parts import *  # noqa: F403


def attend(v, name, x, heads=4, bias=None, mask=None, rope=False):
    size = x.shape[-1] // heads
    split = lambda t: tf.transpose(tf.reshape(t, [tf.shape(t)[0], -1, heads, size]), [0, 2, 1, 3])
    q, k, w = (split(t) for t in tf.split(v.dense(f"{name}_qkv", x, 3 * x.shape[-1]), 3, -1))
    if rope:
        q, k = turned(q), turned(k)
    scores = tf.matmul(q, k, transpose_b=True) * size ** -0.5
    if bias is not None:
        scores += bias
    if mask is not None:
        scores = tf.where(mask, scores, -1e9)
    mixed = tf.transpose(tf.nn.softmax(scores) @ w, [0, 2, 1, 3])
    return v.dense(f"{name}_o", tf.reshape(mixed, tf.shape(x)), x.shape[-1])


def turned(x):
    """Rotary positions."""
    half = x.shape[-1] // 2
    angles = tf.cast(tf.range(tf.shape(x)[2]), tf.float32)[:, None] * 10000.0 ** (-tf.range(0.0, half) / half)
    a, b = x[..., :half], x[..., half:]
    return tf.concat([a * tf.cos(angles) - b * tf.sin(angles), a * tf.sin(angles) + b * tf.cos(angles)], -1)


def causal(n):
    return tf.linalg.band_part(tf.ones([n, n]), -1, 0) > 0


def alibi(v, ids):
    """A decoder with linear biases in some layers, rotary positions in others, a gated unit, tied weights, z-loss."""
    x = tf.gather(v("table", 50, 32), ids[:, :-1])
    n = tf.shape(x)[1]
    far = tf.cast(tf.range(n)[None] - tf.range(n)[:, None], tf.float32)
    bias = 2.0 ** -tf.range(1.0, 5.0)[:, None, None] * far
    for i in range(3):
        x += attend(v, f"a{i}", v.norm(f"n{i}", x), bias=None if i == 1 else bias, mask=causal(n), rope=i == 1)
        h = v.norm(f"m{i}", x)
        x += v.dense(f"f{i}", tf.nn.silu(v.dense(f"g{i}", h, 64)) * v.dense(f"u{i}", h, 64), 32)
    logits = tf.einsum("bnd,vd->bnv", v.norm("last", x), v("table", 50, 32))
    return softmax_loss(logits, ids[:, 1:]) + 1e-4 * tf.reduce_mean(tf.reduce_logsumexp(logits, -1) ** 2)


def cached(v, ids):
    """Keys and values of a cache written place by place in a loop; teacher's words go in, gradients come through the cache."""
    batch, length, size = 4, 10, 32
    table, w = v("table", 40, size), v("qkv", size, 3 * size)
    out = v("out", size, 40)

    def turn(i, keys, values, total):
        x = tf.gather(table, tf.gather(ids, i, axis=1))
        q, k, new = tf.split(x @ w, 3, -1)
        rows = tf.stack([tf.range(batch), tf.fill([batch], i)], -1)
        keys, values = tf.tensor_scatter_nd_update(keys, rows, k), tf.tensor_scatter_nd_update(values, rows, new)
        seen = tf.where(tf.range(length) <= i, 0.0, -1e9)
        mixed = tf.einsum("bn,bnd->bd", tf.nn.softmax(tf.einsum("bd,bnd->bn", q, keys) / 5.6 + seen), values)
        return i + 1, keys, values, total + softmax_loss((x + mixed) @ out, tf.gather(ids, i + 1, axis=1))
    zero = tf.zeros([batch, length, size])
    return tf.while_loop(lambda i, *_: i < length, turn, (0, zero, zero, 0.0))[3] / length


def greedy_words(v, ids):
    """Words that the model gives itself go in again, until all samples have ended or 12 are there; the loss is of what came."""
    table, w, out = v("table", 12, 16), v("w", 32, 16), v("out", 16, 12)

    def turn(i, word, h, ended, total, words):
        h = tf.tanh(tf.concat([tf.gather(table, word), h], -1) @ w)
        logits = 3.0 * h @ out
        word = tf.where(ended, 0, tf.argmax(logits, -1, output_type=tf.int32))
        total += tf.reduce_sum(tf.where(ended, 0.0, tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, 1], logits)))
        return i + 1, word, h, ended | (word == 3), total, words.write(i, word)
    state = (0, ids[:, 0], tf.zeros([4, 16]), tf.zeros([4], tf.bool), 0.0, tf.TensorArray(tf.int32, 0, True, element_shape=[4]))
    end = tf.while_loop(lambda i, w, h, ended, *_: (i < 12) & ~tf.reduce_all(ended), turn, state)
    return end[4], end[5].stack(), end[0]


def experts(v, ids):
    """Two experts a token of eight, places by cumulated counts, a capacity that drops what is too much, balance and z losses."""
    x = tf.gather(v("table", 40, 32), ids)
    tokens = tf.reshape(x, [-1, 32])
    logits = v.dense("gate", tokens, 8)
    p = tf.nn.softmax(logits)
    top, chosen = tf.math.top_k(p, 2)
    top /= tf.reduce_sum(top, -1, keepdims=True)
    capacity = int(1.0 * 2 * ids.shape[0] * ids.shape[1] / 8)
    flat = tf.reshape(tf.transpose(chosen), [-1])
    hot = tf.one_hot(flat, 8, dtype=tf.int32)
    place = tf.reduce_sum(tf.cumsum(hot, exclusive=True) * hot, -1)
    kept = place < capacity
    where = tf.boolean_mask(tf.stack([flat, place], -1), kept)
    owner = tf.boolean_mask(tf.tile(tf.range(tf.shape(tokens)[0]), [2]), kept)
    weight = tf.boolean_mask(tf.reshape(tf.transpose(top), [-1]), kept)
    slots = tf.scatter_nd(where, tf.gather(tokens, owner), [8, capacity, 32])
    h = tf.nn.gelu(tf.einsum("ecd,edf->ecf", slots, v("up", 8, 32, 64)))
    back = tf.gather_nd(tf.einsum("ecf,efd->ecd", h, v("down", 8, 64, 32)), where) * weight[:, None]
    y = tokens + tf.math.unsorted_segment_sum(back, owner, tf.shape(tokens)[0])
    share = tf.reduce_mean(tf.one_hot(chosen[:, 0], 8), 0)
    balance = 8.0 * tf.reduce_sum(share * tf.reduce_mean(p, 0)) + 0.001 * tf.reduce_mean(tf.reduce_logsumexp(logits, -1) ** 2)
    return softmax_loss(v.dense("o", y, 40), tf.reshape(ids, [-1])) + 0.01 * balance, tf.reduce_sum(hot, 0)


def expert_choice(v, ids):
    """Experts choose their tokens by top_k along the other axis; they run one after the other over sorted rows."""
    tokens = tf.reshape(tf.gather(v("table", 40, 32), ids), [-1, 32])
    p = tf.nn.softmax(v.dense("gate", tokens, 4))
    weight, index = tf.math.top_k(tf.transpose(p), 12)
    rows = tf.gather(tokens, index)
    out = tf.stack([v.dense(f"b{e}", tf.nn.relu(v.dense(f"a{e}", rows[e], 48)), 32) for e in range(4)])
    mixed = tf.scatter_nd(index[..., None], out * weight[..., None], tf.shape(tokens))
    order = tf.argsort(tf.argmax(p, -1, output_type=tf.int32), stable=True)
    again = tf.gather(tf.gather(mixed, order), tf.math.invert_permutation(order))
    return softmax_loss(v.dense("o", tokens + again, 40), tf.reshape(ids, [-1]))


def beams(v, source, target):
    """Recurrent encoder and decoder with additive attention; beside the loss a beam search in a loop, which is fetched."""
    table, cell = v("table", 20, 16), lambda name, x, h: gru(v, name, x, h)
    words = tf.gather(table, source)
    cell("enc", words[:, 0], tf.zeros([4, 16]))
    memory = tf.transpose(tf.scan(lambda h, x: cell("enc", x, h), tf.transpose(words, [1, 0, 2]), tf.zeros([4, 16])), [1, 0, 2])
    keys = v.dense("keys", memory, 16)

    def decode(word, h, memory, keys):
        score = tf.einsum("...nd,d->...n", tf.tanh(keys + v.dense("query", h, 16)[:, None]), v("energy", 16, value=0.3))
        context = tf.einsum("bn,bnd->bd", tf.nn.softmax(score), memory)
        h = cell("dec", tf.concat([tf.gather(table, word), context], -1), h)
        return h, v.dense("out", tf.concat([h, context], -1), 20)
    h, total = memory[:, -1], 0.0
    for i in range(6):
        h, logits = decode(target[:, i], h, memory, keys)
        total += softmax_loss(logits, target[:, i + 1])
    width = 3
    wide = lambda x: tf.repeat(x, width, 0)
    many, many_keys = wide(memory), wide(keys)

    def turn(i, word, h, score, history):
        h, logits = decode(word, h, many, many_keys)
        sums = score[..., None] + tf.reshape(tf.nn.log_softmax(logits), [4, width, 20])
        score, best = tf.math.top_k(tf.reshape(sums, [4, width * 20]), width)
        parent, word = best // 20, tf.reshape(best % 20, [-1])
        rows = tf.reshape(parent + width * tf.range(4)[:, None], [-1])
        history = tf.gather(history, rows)
        history = tf.concat([history[:, :i], word[:, None], history[:, i + 1:]], 1)
        return i + 1, word, tf.gather(h, rows), score, tf.ensure_shape(history, [4 * width, 6])
    start = (0, wide(target[:, 0]), wide(memory[:, -1]), tf.tile([[0.0, -1e9, -1e9]], [4, 1]), tf.zeros([4 * width, 6], tf.int32))
    found = tf.while_loop(lambda i, *_: i < 6, turn, start)
    return total / 6.0, found[4], found[3]


def gru(v, name, x, h):
    z, r = tf.split(tf.sigmoid(v.dense(f"{name}_g", tf.concat([x, h], -1), 2 * h.shape[-1])), 2, -1)
    return z * h + (1 - z) * tf.tanh(v.dense(f"{name}_c", tf.concat([x, r * h], -1), h.shape[-1]))


def field(v, ids, tags, lengths):
    """A conditional random field: forward sums by scan, masked by lengths; Viterbi's path by two loops is fetched."""
    unary = v.dense("u", tf.gather(v("table", 30, 16), ids), 5)
    change = v("change", 5, 5)
    mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
    rows = tf.transpose(unary, [1, 0, 2])
    keep = tf.transpose(mask)[..., None]
    step = lambda a, x: tf.where(x[1], tf.reduce_logsumexp(a[:, :, None] + change, 1) + x[0], a)
    total = tf.reduce_logsumexp(tf.scan(step, (rows[1:], keep[1:]), rows[0])[-1], -1)
    of_tags = tf.reduce_sum(tf.gather(unary, tags, batch_dims=2) * tf.cast(mask, tf.float32), 1)
    pairs = tf.gather_nd(change, tf.stack([tags[:, :-1], tags[:, 1:]], -1))
    score = of_tags + tf.reduce_sum(pairs * tf.cast(mask[:, 1:], tf.float32), 1)

    def best(state, x):
        reached = state[0][:, :, None] + change
        new = tf.reduce_max(reached, 1) + x[0]
        return tf.where(x[1], new, state[0]), tf.where(x[1], tf.argmax(reached, 1, output_type=tf.int32), tf.range(5)[None] + tf.zeros([4, 1], tf.int32))
    last, back = tf.scan(best, (rows[1:], keep[1:]), (rows[0], tf.zeros([4, 5], tf.int32)))
    end = tf.argmax(last[-1], -1, output_type=tf.int32)
    path = tf.scan(lambda tag, b: tf.gather(b, tag, batch_dims=1), back, end, reverse=True)
    return tf.reduce_mean(total - score), path


def transducer(v, sound, words):
    """The lattice of a recurrent transducer, by scans of scans over logarithms."""
    joint = tf.tanh(v.dense("e", sound, 16)[:, :, None] + tf.gather(v("table", 8, 16), tf.pad(words, [[0, 0], [1, 0]]))[:, None])
    logs = tf.nn.log_softmax(v.dense("j", joint, 8))
    blank = logs[..., 0]
    emit = tf.gather(logs[:, :, :-1], tf.tile(words[:, None], [1, sound.shape[1], 1]), batch_dims=3)

    def row(alpha, x):
        up, side = x
        start = alpha + up
        across = tf.scan(lambda a, y: tf.reduce_logsumexp(tf.stack([a + y[0], y[1]]), 0), (tf.transpose(side), tf.transpose(start[:, 1:])), start[:, 0])
        return tf.transpose(tf.concat([start[None, :, 0], across], 0))
    first = tf.pad(tf.cumsum(emit[:, 0], 1), [[0, 0], [1, 0]])
    alphas = tf.scan(row, (tf.transpose(blank, [1, 0, 2])[:-1], tf.transpose(emit, [1, 0, 2])[1:]), first)
    return -tf.reduce_mean(alphas[-1][:, -1] + blank[:, -1, -1]) / 10.0


def speech(v, waves, sizes, words, counts):
    """Waves of fed lengths: spectra, mel bands, masks of time and frequency, a bidirectional net, CTC, decoded greedily and by beams."""
    spectra = tf.abs(tf.signal.stft(waves, 64, 32, 64))
    mel = tf.math.log(tf.tensordot(spectra, tf.signal.linear_to_mel_weight_matrix(16, 33, 8000, 100.0, 3800.0), 1) + 1e-3)
    frames = (sizes - 64) // 32 + 1
    mask = tf.sequence_mask(frames, tf.shape(mel)[1], tf.float32)[..., None]
    mean = tf.reduce_sum(mel * mask, 1, keepdims=True) / tf.reduce_sum(mask, 1, keepdims=True)
    band = tf.random.stateless_uniform([4, 1], [1, 2], maxval=12, dtype=tf.int32)
    mel = (mel - mean) * mask * tf.cast((tf.range(16) < band) | (tf.range(16) >= band + 3), tf.float32)[:, None]
    run = lambda name, x: tf.scan(lambda h, y: gru(v, name, y, h), tf.transpose(x, [1, 0, 2]), tf.zeros([4, 16]))
    gru(v, "f", mel[:, 0], tf.zeros([4, 16])), gru(v, "b", mel[:, 0], tf.zeros([4, 16]))
    back = tf.reverse_sequence(tf.transpose(run("b", tf.reverse_sequence(mel, frames, 1, 0)), [1, 0, 2]), frames, 1, 0)
    logits = v.dense("o", tf.concat([tf.transpose(run("f", mel), [1, 0, 2]), back], -1), 7)
    loss = tf.reduce_mean(tf.nn.ctc_loss(words, logits, counts, frames, logits_time_major=False, blank_index=6) / tf.cast(counts, tf.float32))
    major = tf.transpose(logits, [1, 0, 2])
    greedy = tf.nn.ctc_greedy_decoder(major, frames)[0][0]
    searched, scores = tf.nn.ctc_beam_search_decoder(major, frames, 8, 1)
    return loss, tf.sparse.to_dense(greedy, -1), scores, searched[0].values


def t5(v, source, target):
    """Encoder and decoder with buckets of relative places, root mean square norms, and factored second moments."""
    def buckets(n, both):
        far = tf.range(n)[None] - tf.range(n)[:, None]
        base = tf.where(far > 0, 8, 0) if both else 0
        far = tf.abs(far) if both else -tf.minimum(far, 0)
        log = 4 + tf.cast(tf.math.log(tf.cast(tf.maximum(far, 1), tf.float32) / 4) / np.log(128 / 4).astype(F32) * 4, tf.int32)
        return base + tf.where(far < 4, far, tf.minimum(log, 7))
    rms = lambda name, x: x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6) * v(name, 32, value=1)
    def layer(name, x, both, memory=None):
        bias = tf.transpose(tf.gather(v(f"{name}_rel", 16, 4), buckets(x.shape[1], both)), [2, 0, 1])
        x += attend(v, f"{name}_s", rms(f"{name}_n", x), bias=bias, mask=None if both else causal(x.shape[1]))
        if memory is not None:
            q, k, w = v.dense(f"{name}_q", rms(f"{name}_c", x), 32), v.dense(f"{name}_k", memory, 32), v.dense(f"{name}_v", memory, 32)
            x += tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 5.6) @ w
        return x + v.dense(f"{name}_d", tf.nn.relu(v.dense(f"{name}_u", rms(f"{name}_m", x), 64, False)), 32, False)
    memory = layer("e1", layer("e0", tf.gather(v("table", 30, 32), source), True), True)
    x = layer("d0", tf.gather(v("table", 30, 32), target[:, :-1]), False, memory)
    logits = tf.matmul(rms("out", x) / 5.6, v("table", 30, 32), transpose_b=True)
    hot = 0.9 * tf.one_hot(target[:, 1:], 30) + 0.1 / 30
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(hot, logits))


class Factored:
    """Adafactor: second moments by rows and columns, updates clipped by their size, rates by that of the weights."""

    def __init__(self, v):
        self.v, self.step = v, tf.Variable(0.0, trainable=False, name="step")
        self.slots = [[tf.Variable(tf.zeros(s), trainable=False, name="factor") for s in ([x.shape[:1], x.shape[1:]] if x.shape.rank == 2 else [x.shape])] for x in v.list]

    def apply(self, gradients):
        decay = 1.0 - tf.pow(self.step.assign_add(1.0), -0.8)
        for x, slots, g in zip(self.v.list, self.slots, gradients):
            g = tf.convert_to_tensor(g)
            square = g * g + 1e-30
            if len(slots) == 2:
                r = slots[0].assign(decay * slots[0] + (1 - decay) * tf.reduce_mean(square, 1))
                c = slots[1].assign(decay * slots[1] + (1 - decay) * tf.reduce_mean(square, 0))
                u = g * tf.math.rsqrt(r / tf.reduce_mean(r))[:, None] * tf.math.rsqrt(c)
            else:
                u = g * tf.math.rsqrt(slots[0].assign(decay * slots[0] + (1 - decay) * square))
            u /= tf.maximum(1.0, tf.sqrt(tf.reduce_mean(u * u)))
            x.assign_sub(0.01 * tf.maximum(1e-3, tf.sqrt(tf.reduce_mean(x * x))) * u)


def masked_words(v, ids, places, weights):
    """BERT: gathered places, tied weights, the second sentence, dropout by stateless seeds."""
    x = tf.gather(v("table", 60, 32), ids) + v("place", 12, 32) + tf.gather(v("part", 2, 32), tf.cast(tf.range(12) > 5, tf.int32))
    mask = tf.cast(ids > 0, tf.float32)[:, None, None]
    for i in range(2):
        x = v.norm(f"n{i}", x + attend(v, f"a{i}", x, bias=(1 - mask) * -1e4))
        x = v.norm(f"m{i}", x + v.dense(f"f{i}", tf.nn.gelu(v.dense(f"u{i}", x, 64), approximate=True), 32))
        x = tf.nn.experimental.stateless_dropout(x, 0.1, [i, 4], rng_alg="philox")
    rows = tf.gather(tf.reshape(x, [-1, 32]), tf.reshape(places + tf.range(0, 4 * 12, 12)[:, None], [-1]))
    logits = tf.matmul(v.norm("t", tf.nn.gelu(v.dense("t", rows, 32))), v("table", 60, 32), transpose_b=True) + v("bias", 60)
    labels = tf.gather(tf.reshape(ids, [-1]), tf.reshape(places + tf.range(0, 4 * 12, 12)[:, None], [-1]))
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits) * tf.reshape(weights, [-1])
    after = v.dense("next", tf.tanh(v.dense("pool", x[:, 0], 32)), 2)
    return tf.reduce_sum(each) / (tf.reduce_sum(weights) + 1e-5) + softmax_loss(after, ids[:, 0] % 2)


class Lamb:
    """Layer by layer rates by the ratio of norms; no decay of norms and biases, chosen by name."""

    def __init__(self, v):
        self.v, self.adam = v, [(tf.Variable(tf.zeros_like(x), trainable=False, name="m"), tf.Variable(tf.zeros_like(x), trainable=False, name="s")) for x in v.list]
        self.step = tf.Variable(0, trainable=False, name="step", dtype=tf.int64)

    def apply(self, gradients):
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        t = tf.cast(self.step.assign_add(1), tf.float32)
        rate = 0.01 * tf.minimum(1.0, t / 2.0)
        for (name, x), (m, s), g in zip(self.v.made.items(), self.adam, gradients):
            g = tf.convert_to_tensor(g)
            m.assign(0.9 * m + 0.1 * g)
            s.assign(0.999 * s + 0.001 * g * g)
            u = m / (1 - tf.pow(0.9, t)) / (tf.sqrt(s / (1 - tf.pow(0.999, t))) + 1e-6)
            if not name.endswith(("_b", "_g", "_s")):
                u += 0.01 * x
            a, b = tf.norm(x), tf.norm(u)
            x.assign_sub(rate * tf.where(a > 0, tf.where(b > 0, a / b, 1.0), 1.0) * u)


def state_space(v, x, y):
    """A selective scan as an associative one, log-deep, by halves of the sequence; a causal convolution and a gate."""
    h, gate = tf.split(v.dense("in", x, 64), 2, -1)
    h = tf.nn.silu(tf.nn.conv1d(tf.pad(h, [[0, 0], [3, 0], [0, 0]]), v("c", 4, 1, 32) * tf.eye(32), 1, "VALID"))
    step, b, c = tf.nn.softplus(v.dense("dt", h, 32)), v.dense("B", h, 8, False), v.dense("C", h, 8, False)
    decay = tf.exp(-step[..., None] * tf.exp(v("A", 32, 8)))
    drive = (step * h)[..., None] * b[:, :, None]

    def scan(a, u):
        if a.shape[1] == 1:
            return a, u
        even, odd = (a[:, ::2], u[:, ::2]), (a[:, 1::2], u[:, 1::2])
        pa, pu = scan(even[0] * odd[0], odd[0] * even[1] + odd[1])
        ea = tf.concat([even[0][:, :1], pa[:, :-1] * even[0][:, 1:]], 1)
        eu = tf.concat([even[1][:, :1], even[0][:, 1:] * pu[:, :-1] + even[1][:, 1:]], 1)
        join = lambda p, q: tf.reshape(tf.stack([p, q], 2), [tf.shape(p)[0], -1, 32, 8])
        return join(ea, pa), join(eu, pu)
    _, states = scan(decay, drive)
    out = (tf.einsum("blds,bls->bld", states, c) + v("D", 32, value=1) * h) * tf.nn.silu(gate)
    return tf.reduce_mean((v.dense("o", out, 1)[..., 0] - y) ** 2)


def receptance(v, ids):
    """RWKV: mixing with the token before, exponential averages kept stable by running maxima, in a loop with tensor arrays."""
    x = tf.gather(v("table", 40, 24), ids)
    before = tf.pad(x, [[0, 0], [1, 0], [0, 0]])[:, :-1]
    mix = lambda name: v.dense(name, x * v(f"{name}_m", 24, value=.5) + before * (1 - v(f"{name}_m", 24, value=.5)), 24, False)
    k, w, r = mix("k"), mix("v"), tf.sigmoid(mix("r"))
    decay, first = -tf.exp(v("decay", 24)), v("first", 24)
    keys, values = (tf.TensorArray(tf.float32, ids.shape[1]).unstack(tf.transpose(t, [1, 0, 2])) for t in (k, w))

    def turn(i, a, b, top, out):
        ki, vi = keys.read(i), values.read(i)
        m = tf.maximum(top, first + ki)
        e1, e2 = tf.exp(top - m), tf.exp(first + ki - m)
        out = out.write(i, (e1 * a + e2 * vi) / (e1 * b + e2))
        m = tf.maximum(top + decay, ki)
        e1, e2 = tf.exp(top + decay - m), tf.exp(ki - m)
        return i + 1, e1 * a + e2 * vi, e1 * b + e2, m, out
    zero = tf.zeros([4, 24])
    out = tf.while_loop(lambda i, *_: i < ids.shape[1], turn, (0, zero, zero, zero - 1e9, tf.TensorArray(tf.float32, ids.shape[1])))[4]
    x += v.dense("o", r * tf.transpose(out.stack(), [1, 0, 2]), 24)
    return softmax_loss(v.dense("head", x[:, :-1], 40), ids[:, 1:])


def copied_words(v, source, target):
    """A pointer generator: what attention points at is added to the vocabulary's probabilities by scatter; coverage."""
    memory = v.dense("e", tf.gather(v("table", 25, 16), source), 16)
    h, cover, loss = tf.reduce_mean(memory, 1), tf.zeros([4, 8]), 0.0
    rows = tf.tile(tf.range(4)[:, None], [1, 8])
    for i in range(4):
        h = gru(v, "d", tf.gather(v("table", 25, 16), target[:, i]), h)
        a = tf.nn.softmax(tf.reduce_sum(tf.tanh(memory + v.dense("q", h, 16)[:, None] + cover[..., None] * v("cover", 16)), -1))
        context = tf.einsum("bn,bnd->bd", a, memory)
        p = tf.sigmoid(v.dense("switch", tf.concat([h, context], -1), 1))
        words = p * tf.nn.softmax(v.dense("o", tf.concat([h, context], -1), 25))
        words += tf.scatter_nd(tf.stack([rows, source], -1), (1 - p) * a, [4, 25])
        loss += tf.reduce_mean(-tf.math.log(tf.gather(words, target[:, i + 1], batch_dims=1) + 1e-6)) + tf.reduce_mean(tf.minimum(a, cover))
        cover += a
    return loss / 4.0


def two_towers(v, users, bought, counts):
    """In-batch negatives over a large matrix of similarities, corrected by estimated frequencies, with hits among the first ten."""
    u = tf.math.l2_normalize(v.dense("u2", tf.nn.relu(v.dense("u1", users, 64)), 32), -1)
    i = tf.math.l2_normalize(v.dense("i2", tf.nn.relu(v.dense("i1", tf.gather(v("items", 500, 16), bought), 64)), 32), -1)
    logits = tf.matmul(u, i, transpose_b=True) / 0.1 - tf.math.log(tf.gather(counts, bought) / 1000.0)
    same = tf.equal(bought[:, None], bought[None]) & ~tf.eye(512, dtype=tf.bool)
    logits = tf.where(same, -1e9, logits)
    hit = tf.math.in_top_k(tf.range(512), logits, 10)
    return softmax_loss(logits, tf.range(512)), tf.reduce_mean(tf.cast(hit, tf.float32))


def wave_decoder(v, text, frames):
    """Tacotron: location sensitive attention, a decoder that ends where its own gate says so or the frames are over."""
    memory = tf.tanh(v.dense("e", tf.gather(v("table", 20, 16), text), 16))
    v.dense("gate", tf.zeros([1, 16]), 1)
    def cell(i, h, a, cumulated):
        where = tf.nn.conv1d(tf.stack([a, cumulated], -1), v("loc", 3, 2, 16), 1, "SAME")
        a = tf.nn.softmax(tf.reduce_sum(tf.tanh(v.dense("q", h, 16)[:, None] + memory + where) * v("en", 16, value=.5), -1))
        context = tf.einsum("bn,bnd->bd", a, memory)
        h = gru(v, "d", tf.concat([tf.gather(frames, i, axis=1), context], -1), h)
        return h, a, cumulated + a, v.dense("frame", h, 4), tf.sigmoid(v.dense("gate", h, 1))
    def turn(i, h, a, cumulated, total, _):
        h, a, cumulated, frame, gate = cell(i, h, a, cumulated)
        return i + 1, h, a, cumulated, total + tf.reduce_mean((frame - tf.gather(frames, i + 1, axis=1)) ** 2) + 0.1 * tf.reduce_mean(gate), tf.reduce_max(gate)
    zero = tf.zeros([4, 7])
    cell(0, tf.zeros([4, 16]), zero, zero)
    end = tf.while_loop(lambda i, h, a, c, t, gate: (i < 9) & (gate < 0.56), turn, (0, tf.zeros([4, 16]), zero, zero, 0.0, 0.0))
    return end[4], end[0]


def soft_warping(v, x, y):
    """Soft dynamic time warping by diagonals in a loop."""
    d = tf.reduce_sum((v.dense("a", x, 8)[:, :, None] - v.dense("a", y, 8)[:, None]) ** 2, -1)
    n = 12
    skewed = tf.stack([tf.linalg.diag_part(tf.reverse(d, [2]), k=k, padding_value=1e6) if k == 0 else
                       tf.pad(tf.linalg.diag_part(tf.reverse(d, [2]), k=k), [[0, 0], [0, abs(k)]] if k > 0 else [[0, 0], [abs(k), 0]], constant_values=1e6)
                       for k in range(n - 1, -n, -1)], 0)
    def turn(i, one, two):
        left = tf.pad(one[:, :-1], [[0, 0], [1, 0]], constant_values=1e6)
        corner = tf.pad(two[:, :-1], [[0, 0], [1, 0]], constant_values=1e6)
        least = -tf.reduce_logsumexp(-tf.stack([one, left, corner]), 0)
        return i + 1, skewed[i] + least, one
    first = skewed[0]
    return tf.reduce_mean(tf.while_loop(lambda i, *_: i < 2 * n - 1, turn, (1, first, tf.fill([4, n], 1e6)))[1][:, -1]) / 100.0


def listwise(v, documents, grades):
    """Lambda rank with gains of places found by sorting twice, and the Plackett-Luce likelihood of the sorted list."""
    s = tf.squeeze(v.dense("b", tf.nn.relu(v.dense("a", documents, 32)), 1), -1)
    rank = tf.argsort(tf.argsort(s, direction="DESCENDING")) + 1
    gain = tf.cast(2 ** grades - 1, tf.float32)
    discount = 1 / tf.math.log1p(tf.cast(rank, tf.float32))
    ideal = tf.reduce_sum(tf.sort(gain, direction="DESCENDING") / tf.math.log1p(tf.range(1.0, 11.0)), -1)
    change = tf.abs((gain[:, :, None] - gain[:, None]) * (discount[:, :, None] - discount[:, None])) / (ideal[:, None, None] + 1e-6)
    better = tf.cast(grades[:, :, None] > grades[:, None], tf.float32)
    pairs = tf.reduce_sum(better * tf.stop_gradient(change) * tf.nn.softplus(s[:, None] - s[:, :, None]))
    ordered = tf.gather(s, tf.argsort(grades, direction="DESCENDING", stable=True), batch_dims=1)
    return pairs / 8.0 + tf.reduce_mean(tf.math.cumulative_logsumexp(ordered, axis=-1, reverse=True) - ordered)


def cases():
    ids = {"ids": integers(40, 4, 12)}
    pair = {"source": integers(20, 4, 8), "target": integers(20, 4, 7, seed=2)}
    adam = lambda v: Adam(v)
    yield "alibi", trained(alibi, {"ids": integers(50, 4, 25)}, adam)
    yield "cached", trained(cached, {"ids": integers(40, 4, 11)})
    yield "greedy_words", trained(greedy_words, {"ids": integers(12, 4, 2)})
    yield "experts", trained(experts, ids, adam)
    yield "expert_choice", trained(expert_choice, ids)
    yield "beams", trained(beams, pair)
    yield "field", trained(field, {"ids": integers(30, 4, 9), "tags": integers(5, 4, 9), "lengths": np.array([9, 4, 1, 6], np.int32)})
    yield "transducer", trained(transducer, {"sound": numbers(3, 8, 6), "words": 1 + integers(7, 3, 4)})
    yield "speech", trained(speech, {"waves": numbers(4, 800), "sizes": np.array([800, 500, 640, 300], np.int32),
                                     "words": integers(6, 4, 5), "counts": np.array([5, 2, 4, 1], np.int32)})
    yield "t5", trained(t5, pair, Factored)
    yield "masked_words", trained(masked_words, {"ids": integers(60, 4, 12), "places": integers(12, 4, 3), "weights": np.array([[1, 1, 0]] * 4, F32)}, Lamb)
    yield "state_space", trained(state_space, {"x": numbers(2, 32, 8), "y": numbers(2, 32)})
    yield "receptance", trained(receptance, ids)
    yield "copied_words", trained(copied_words, {"source": integers(25, 4, 8), "target": integers(25, 4, 5)})
    yield "two_towers", trained(two_towers, {"users": numbers(512, 24), "bought": integers(500, 512), "counts": np.full(500, 3, F32)})
    yield "wave_decoder", trained(wave_decoder, {"text": integers(20, 4, 7), "frames": numbers(4, 10, 4)})
    yield "soft_warping", trained(soft_warping, {"x": numbers(4, 12, 3), "y": numbers(4, 12, 3, seed=1)})
    yield "listwise", trained(listwise, {"documents": numbers(4, 10, 12), "grades": integers(4, 4, 10)})
