"""Language models, sequence to sequence, recommenders: as TF1-style graphs."""
import numpy as np
import tensorflow as tf

from zoo import Net

tf1 = tf.compat.v1


def variable(name, shape, scale=0.1, use_resource=True):
    return tf1.get_variable(name, shape, initializer=tf1.random_normal_initializer(0, scale, seed=len(name)),
                            use_resource=use_resource)


def dense(x, width, name, activation=None):
    with tf1.variable_scope(name):
        w = variable("kernel", [x.shape[-1], width])
        b = tf1.get_variable("bias", [width], initializer=tf1.zeros_initializer(), use_resource=True)
    y = tf.nn.bias_add(tf.tensordot(x, w, [[x.shape.rank - 1], [0]]), b)
    return activation(y) if activation else y


def layer_norm(x, name):
    with tf1.variable_scope(name):
        gamma = tf1.get_variable("gamma", [x.shape[-1]], initializer=tf1.ones_initializer(), use_resource=True)
        beta = tf1.get_variable("beta", [x.shape[-1]], initializer=tf1.zeros_initializer(), use_resource=True)
    mean, var = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-6)


def attention(x, heads, name, causal):
    batch, steps, width = x.shape
    with tf1.variable_scope(name):
        q, k, v = (tf.transpose(tf.reshape(dense(x, width, n), [batch, steps, heads, width // heads]), [0, 2, 1, 3])
                   for n in ("q", "k", "v"))
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(width // heads)
        if causal:
            mask = tf.linalg.band_part(tf.ones([steps, steps]), -1, 0)
            scores += (1 - mask) * -1e9
        weights = tf1.nn.dropout(tf.nn.softmax(scores), rate=0.1, seed=3)
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [batch, steps, width])
        return dense(mixed, width, "out")


def block(x, name, causal):
    with tf1.variable_scope(name):
        x = layer_norm(x + attention(x, 2, "attention", causal), "norm1")
        inner = dense(x, 32, "inner", lambda y: tf.nn.gelu(y, approximate=True))
        return layer_norm(x + tf1.nn.dropout(dense(inner, x.shape[-1], "outer"), rate=0.1, seed=4), "norm2")


def bert():
    """Masked tokens and next sentence; lookup by one-hot products, as BERT's own code has it; LAMB-like by hand."""
    rng = np.random.default_rng(0)
    feeds = {"ids": rng.integers(0, 40, (4, 12)).astype(np.int32), "segments": rng.integers(0, 2, (4, 12)).astype(np.int32),
             "mask": (rng.uniform(size=(4, 12)) < 0.9).astype(np.int32),
             "positions": rng.integers(0, 12, (4, 3)).astype(np.int32),
             "targets": rng.integers(0, 40, (4, 3)).astype(np.int32), "next": rng.integers(0, 2, 4).astype(np.int32)}
    ids, segments, mask, positions, targets, following = (
        tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    table = variable("word", [40, 16])
    x = tf.reshape(tf.matmul(tf.one_hot(tf.reshape(ids, [-1]), 40), table), [4, 12, 16])
    x += tf.reshape(tf.matmul(tf.one_hot(tf.reshape(segments, [-1]), 2), variable("segment", [2, 16])), [4, 12, 16])
    x += tf.slice(variable("position", [20, 16]), [0, 0], [12, -1])[None]
    x = tf1.nn.dropout(layer_norm(x, "norm"), rate=0.1, seed=1)
    x *= tf.cast(mask, tf.float32)[:, :, None]
    x = block(block(x, "block0", False), "block1", False)
    flat = tf.reshape(positions + tf.range(4)[:, None] * 12, [-1])
    picked = layer_norm(dense(tf.gather(tf.reshape(x, [-1, 16]), flat), 16, "transform", tf.nn.gelu), "norm_out")
    log_probs = tf.nn.log_softmax(tf.matmul(picked, table, transpose_b=True))
    each = -tf.reduce_sum(log_probs * tf.one_hot(tf.reshape(targets, [-1]), 40), -1)
    pooled = dense(tf.squeeze(x[:, :1], 1), 16, "pooler", tf.tanh)
    next_loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=following, logits=dense(pooled, 2, "next_logits")))
    loss = tf.reduce_sum(each) / (tf.cast(tf.size(each), tf.float32) + 1e-5) + next_loss
    step = tf1.train.get_or_create_global_step()
    rate = tf1.train.polynomial_decay(1e-2, step, 10, 0.0)
    warm = tf.cast(step, tf.float32) / 3
    rate = tf.where(step < 3, 1e-2 * warm, rate)
    gradients, _ = tf.clip_by_global_norm(tf1.gradients(loss, tf1.trainable_variables()), 1.0)
    updates = []
    for weight, gradient in zip(tf1.trainable_variables(), gradients):
        m = tf1.get_variable(weight.op.name + "/m", weight.shape, initializer=tf1.zeros_initializer(), trainable=False)
        v = tf1.get_variable(weight.op.name + "/v", weight.shape, initializer=tf1.zeros_initializer(), trainable=False)
        next_m = tf.multiply(0.9, m) + tf.multiply(0.1, gradient)
        next_v = tf.multiply(0.999, v) + tf.multiply(0.001, tf.square(gradient))
        update = next_m / (tf.sqrt(next_v) + 1e-6) + 0.01 * weight
        w_norm, u_norm = tf.norm(weight), tf.norm(update)
        ratio = tf.where(tf.greater(w_norm, 0), tf.where(tf.greater(u_norm, 0), w_norm / u_norm, 1.0), 1.0)
        updates += [weight.assign(weight - ratio * rate * update), m.assign(next_m), v.assign(next_v)]
    with tf1.control_dependencies(updates):
        return Net(loss, step.assign_add(1), feeds, check_variables=False)


def gpt():
    rng = np.random.default_rng(0)
    feeds = {"tokens": rng.integers(0, 40, (4, 11)).astype(np.int32)}
    tokens = tf1.placeholder(tf.int32, [4, 11], "tokens")
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    table = variable("wte", [40, 16])
    x = tf.gather(table, inputs) + variable("wpe", [10, 16])
    for i in range(2):
        x = block(x, f"h{i}", True)
    logits = tf.einsum("bsw,vw->bsv", x, table)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits))
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


def rotary_gpt():
    """Rotary positions, RMS norm, gated inner layer, grouped heads by einsum."""
    rng = np.random.default_rng(0)
    feeds = {"tokens": rng.integers(0, 40, (2, 9)).astype(np.int32)}
    tokens = tf1.placeholder(tf.int32, [2, 9], "tokens")
    x = tf.nn.embedding_lookup(variable("table", [40, 16]), tokens[:, :-1])
    angles = tf.einsum("s,d->sd", tf.range(8, dtype=tf.float32), 10000.0 ** (-tf.range(0, 4, 2, dtype=tf.float32) / 4))
    cos, sin = tf.cos(angles)[None, :, None], tf.sin(angles)[None, :, None]

    def rotate(y):
        even, odd = y[..., ::2], y[..., 1::2]
        return tf.reshape(tf.stack([even * cos - odd * sin, even * sin + odd * cos], -1), y.shape)

    def rms(y, name):
        gain = tf1.get_variable(name, [16], initializer=tf1.ones_initializer())
        return y * tf.math.rsqrt(tf.reduce_mean(tf.square(y), -1, keepdims=True) + 1e-6) * gain
    y = rms(x, "rms1")
    q = rotate(tf.einsum("bsw,whd->bshd", y, variable("wq", [16, 4, 4])))
    k = tf.repeat(rotate(tf.einsum("bsw,whd->bshd", y, variable("wk", [16, 2, 4]))), 2, axis=2)
    v = tf.repeat(tf.einsum("bsw,whd->bshd", y, variable("wv", [16, 2, 4])), 2, axis=2)
    scores = tf.einsum("bqhd,bkhd->bhqk", q, k) / 2
    scores = tf.where(tf.sequence_mask(tf.range(1, 9), 8)[None, None], scores, scores.dtype.min)
    x += tf.einsum("bhqk,bkhd,hdw->bqw", tf.nn.softmax(scores), v, variable("wo", [4, 4, 16]))
    y = rms(x, "rms2")
    x += dense(tf.nn.silu(dense(y, 24, "gate")) * dense(y, 24, "up"), 16, "down")
    logits = dense(rms(x, "rms3"), 40, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits))
    return Net(loss, tf1.train.MomentumOptimizer(0.05, 0.9).minimize(loss), feeds)


def lstm_cell(x, state, name):
    h, c = state
    with tf1.variable_scope(name, reuse=tf1.AUTO_REUSE):
        gates = dense(tf.concat([x, h], 1), 4 * h.shape[1], "gates")
    i, j, f, o = tf.split(gates, 4, axis=1)
    c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
    return tf.tanh(c) * tf.sigmoid(o), c


def seq2seq():
    """Encoder and decoder of LSTMs, additive attention over masked steps, teacher forcing, weighted loss."""
    rng = np.random.default_rng(0)
    feeds = {"source": rng.integers(1, 30, (4, 6)).astype(np.int32), "target": rng.integers(1, 30, (4, 5)).astype(np.int32),
             "source_length": np.array([6, 3, 5, 1], np.int32), "target_length": np.array([4, 2, 4, 1], np.int32)}
    source, target, source_length, target_length = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    source = tf.reverse_sequence(source, source_length, seq_axis=1, batch_axis=0)
    table = variable("embedding", [30, 8])
    state = (tf.zeros([4, 10]), tf.zeros([4, 10]))
    outputs = []
    for x in tf.unstack(tf.gather(table, source), axis=1):
        state = lstm_cell(x, state, "encoder")
        outputs.append(state[0])
    memory = tf.stack(outputs, 1)
    keys = dense(memory, 10, "keys")
    visible = tf.sequence_mask(source_length, 6)
    logits = []
    for step in range(4):
        x = tf.gather(table, target[:, step])
        query = dense(state[0], 10, f"query{step}")
        scores = tf.reduce_sum(variable(f"v{step}", [10]) * tf.tanh(keys + query[:, None]), -1)
        scores = tf.where(visible, scores, tf.fill([4, 6], float("-inf")))
        context = tf.squeeze(tf.matmul(tf.nn.softmax(scores)[:, None], memory), 1)
        state = lstm_cell(tf.concat([x, context], 1), state, "decoder")
        logits.append(dense(state[0], 30, f"logits{step}"))
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target[:, 1:], logits=tf.stack(logits, 1))
    weights = tf.sequence_mask(target_length, 4, tf.float32)
    loss = tf.reduce_sum(each * weights) / tf.reduce_sum(weights)
    pairs = list(zip(*[tf1.gradients(loss, tf1.trainable_variables()), tf1.trainable_variables()]))
    clipped = [(tf.clip_by_norm(tf.convert_to_tensor(g), 1.0), v) for g, v in pairs if g is not None]
    return Net(loss, tf1.train.AdagradOptimizer(0.1).apply_gradients(clipped), feeds)


def word2vec_nce():
    return sampled(tf.nn.nce_loss)


def sampled_softmax():
    return sampled(tf.nn.sampled_softmax_loss)


def sampled(loss_function):
    rng = np.random.default_rng(0)
    feeds = {"words": rng.integers(0, 100, 16).astype(np.int32), "context": rng.integers(0, 100, (16, 1)).astype(np.int64)}
    words, context = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    hidden = tf.nn.embedding_lookup(variable("words_table", [100, 8]), words)
    candidates = tf.random.log_uniform_candidate_sampler(context, 1, 10, True, 100, seed=5)
    each = loss_function(variable("nce_weights", [100, 8]), variable("nce_biases", [100]), context, hidden,
                         num_sampled=10, num_classes=100, sampled_values=candidates, remove_accidental_hits=False)
    loss = tf.reduce_mean(each)
    return Net(loss, tf1.train.GradientDescentOptimizer(0.5).minimize(loss), feeds)


def recommender():
    """Two towers and a wide part: several tables, partitioned table, weighted bags, in-batch softmax, Adagrad and Ftrl."""
    rng = np.random.default_rng(0)
    feeds = {"user": rng.integers(0, 50, 8).astype(np.int64), "item": rng.integers(0, 60, 8).astype(np.int64),
             "history": rng.integers(0, 60, (8, 5)).astype(np.int32), "history_weight": rng.uniform(size=(8, 5)).astype(np.float32),
             "dense": rng.normal(size=(8, 4)).astype(np.float32), "clicked": rng.integers(0, 2, 8).astype(np.float32)}
    user, item, history, weight, numbers, clicked = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    items = variable("items", [60, 8], use_resource=False)
    bag = tf.reduce_sum(tf.nn.embedding_lookup(items, history) * weight[:, :, None], 1)
    bag /= tf.maximum(tf.reduce_sum(weight, 1, keepdims=True), 1e-6)
    users = tf.nn.embedding_lookup(variable("users", [50, 8]), user)
    crossed = (user * 7 + item) % 20
    wide = tf.nn.embedding_lookup(variable("wide", [20, 1]), crossed)
    tower = dense(tf.concat([users, bag, tf.math.log1p(tf.abs(numbers))], 1), 8, "tower", tf.nn.relu)
    item_rows = tf.gather(items, item)
    logits = tf.reduce_sum(tower * item_rows, 1) + tf.squeeze(wide, 1)
    batch_logits = tf.matmul(tower, item_rows, transpose_b=True)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=clicked, logits=logits))
    loss += tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=tf.eye(8), logits=batch_logits))
    wide_part = [v for v in tf1.trainable_variables() if v.op.name == "wide"]
    deep_part = [v for v in tf1.trainable_variables() if v.op.name != "wide"]
    train = tf.group(tf1.train.FtrlOptimizer(0.1).minimize(loss, var_list=wide_part),
                     tf1.train.AdagradOptimizer(0.1).minimize(loss, var_list=deep_part))
    return Net(loss, train, feeds)


def embedding_bags():
    """embedding_lookup_sparse over a sparse matrix that is fed, with each combiner."""
    feeds = {"indices": np.array([[0, 0], [0, 2], [1, 1], [2, 0], [2, 1], [2, 3]], np.int64),
             "values": np.array([3, 1, 4, 1, 5, 9], np.int64), "weights": np.array([.5, 1, 2, 1, .25, 3], np.float32),
             "y": np.ones([3, 6], np.float32)}
    indices, values, weights, y = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    ids = tf.SparseTensor(indices, values, [3, 4])
    mass = tf.SparseTensor(indices, weights, [3, 4])
    table = variable("table", [10, 6], 0.5)
    out = [tf.nn.embedding_lookup_sparse(table, ids, None, combiner=c) for c in ("sum", "mean", "sqrtn")]
    out += [tf.nn.embedding_lookup_sparse(table, ids, mass, combiner=c) for c in ("sum", "mean", "sqrtn")]
    loss = tf.reduce_mean(tf.square(tf.add_n(out) - y))
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


def crf():
    """Linear-chain conditional random field, unrolled: logsumexp, gathers with flat indices."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(4, 6, 8)).astype(np.float32), "tags": rng.integers(0, 5, (4, 6)).astype(np.int32)}
    x, tags = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    unary, transitions = dense(x, 5, "unary"), variable("transitions", [5, 5])
    alpha = unary[:, 0]
    for step in range(1, 6):
        alpha = tf.reduce_logsumexp(alpha[:, :, None] + transitions[None], 1) + unary[:, step]
    score = tf.reduce_sum(tf.gather(unary, tags, batch_dims=2, axis=2))
    score += tf.reduce_sum(tf.gather_nd(transitions, tf.stack([tags[:, :-1], tags[:, 1:]], -1)))
    loss = tf.reduce_mean(tf.reduce_logsumexp(alpha, 1)) - score / 4
    return Net(loss, tf1.train.AdadeltaOptimizer(1.0).minimize(loss), feeds)


def cases():
    return [(f.__name__, f) for f in (bert, gpt, rotary_gpt, seq2seq, word2vec_nce, sampled_softmax, recommender,
                                      embedding_bags, crf)]
