"""What no other family has: memory lent for a step, sections that exclude each other, odd feeds and fetches, ranks that are fed,
two replicas' strategies, slices of XLA, functions for XLA in one another, line searches, operators, transforms."""
import keras
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from world_nets import F32, _Built, integers, numbers
from zoo import Net, eager, function_net

tf1 = tf.compat.v1


def fed(feeds, shapes=None):
    """Placeholders of the feeds' shapes, or of those given by name."""
    return feeds, *(tf1.placeholder(v.dtype, (shapes or {}).get(n, v.shape), n) for n, v in feeds.items())


def pair():
    return {"x": numbers(4, 3), "y": numbers(4, 3, seed=1)}


def weight(name="w", shape=(3, 3), resource=True, scale=0.4, seed=5):
    return tf1.get_variable(name, initializer=(numbers(*shape, seed=seed) * scale).astype(F32), use_resource=resource)


def held(name, value, resource=True):
    return tf1.get_variable(name, initializer=value, trainable=False, use_resource=resource)


def sgd(loss, rate=0.1):
    return tf1.train.GradientDescentOptimizer(rate).minimize(loss)


# Graphs of TensorFlow 1

def lent_memory():
    """Gradients that are added up in memory lent for the step."""
    feeds, x, y = fed(pair())
    w = weight()
    parts = [tf.reduce_mean((x[i:i + 1] @ w - y[i:i + 1]) ** 2) for i in range(4)]
    lent = tf.raw_ops.TemporaryVariable(shape=[3, 3], dtype=tf.float32, var_name="sum")
    with tf.control_dependencies([tf.raw_ops.Assign(ref=lent, value=tf.zeros([3, 3])).op]):
        adds = [tf.raw_ops.AssignAdd(ref=lent, value=tf1.gradients(part, w)[0]).op for part in parts]
    with tf.control_dependencies(adds):
        total = tf.raw_ops.DestroyTemporaryVariable(ref=lent, var_name="sum")
    return Net(tf.add_n(parts), tf1.assign_sub(w, 0.05 * total), feeds)


def critical_section():
    feeds, x, y = fed(pair())
    w, count = weight(), held("count", 0.0)
    loss = tf.reduce_mean((x @ w - y) ** 2)
    done = tf.CriticalSection(name="section").execute(lambda: tf.identity(count.assign_add(1.0)))
    with tf.control_dependencies([done]):
        train = sgd(loss / (1.0 + done))
    return Net(loss, tf.group(train, done), feeds)


def sparse_operands():
    feeds, x, y = fed({"x": numbers(6, 3), "y": numbers(6, 3, seed=1)})
    w = weight()
    h = tf1.matmul(tf.nn.relu(x), w, a_is_sparse=True)
    h = tf1.matmul(tf.nn.relu(h), w, b_is_sparse=True, transpose_b=True)
    loss = tf.reduce_mean((h - y) ** 2)
    return Net(loss, sgd(loss), feeds)


def odd_feeds():
    """Feeds and fetches of many types, with shapes and ranks unknown."""
    feeds = {"bytes": integers(255, 4, 5).astype(np.uint8), "mask": np.array([1, 0, 1, 1], bool), "half": numbers(4, 3).astype(np.float16),
             "complex": (numbers(4, 3) + 1j * numbers(4, 3, seed=3)).astype(np.complex64), "double": numbers(4, 3).astype(np.float64),
             "small": integers(5, 4).astype(np.int8), "scale": np.int64(2)}
    shapes = {n: None if n == "half" else [None] * v.ndim for n, v in feeds.items()}
    feeds, pixels, mask, half, number, double, small, scale = fed(feeds, shapes)
    h = tf.cast(tf.ensure_shape(pixels, [None, 5]), tf.float32) / 255.0 @ weight(shape=(5, 3))
    h = tf.where(mask[:, None], h, tf.cast(half, tf.float32)) + tf.abs(number) + tf.cast(double, tf.float32)
    loss = tf.reduce_mean(tf.square(h)) + tf.reduce_mean(tf.gather(h, tf.cast(small, tf.int32) % 4)) * tf.cast(scale, tf.float32)
    fetches = (tf.argmax(h, 1), h > 0, tf.cast(h, tf.float16), tf.cast(h * 100, tf.uint8), tf.shape(h), tf.cast(h, tf.float64))
    return Net(loss, sgd(loss), feeds, fetches=fetches)


def unknown_rank():
    """Axes, permutations and shapes that are fed, to tensors of unknown rank."""
    feeds = {"x": numbers(2, 5, 3), "y": numbers(2, 5, 2), "axis": np.int32(1), "order": np.array([1, 0, 2], np.int32),
             "shape": np.array([5, -1], np.int32)}
    feeds, x, y, axis, order, shape = fed(feeds, dict.fromkeys(feeds))
    h = tf.tensordot(x, weight(shape=(3, 2)), [[2], [0]])
    h = tf.transpose(tf.transpose(h, order), order)
    total = tf.reduce_logsumexp(h, axis, keepdims=True)
    first, rest = tf.split(tf.concat([h, total], axis), [2, 4], axis)
    loss = tf.reduce_mean((h - y) ** 2) + tf.reduce_mean(total) + tf.reduce_mean(first ** 2)
    loss += tf.reduce_mean(tf.reshape(tf.transpose(y, order), shape)) * tf.reduce_mean(h)
    loss -= tf.reduce_mean(tf.reverse(rest, [axis]) * tf.cumsum(rest, axis))
    return Net(loss, sgd(loss), feeds)


def renormalised():
    """Batch renormalisation by hand, its averages among the update ops, then a fused one."""
    feeds, x, y = fed({"x": numbers(6, 4, 4, 3), "y": integers(3, 6)}, {"x": [None, 4, 4, 3], "y": [None]})
    mean, variance = held("mean", np.zeros(3, F32)), held("variance", np.ones(3, F32))
    h = tf.nn.conv2d(x, weight(shape=(3, 3, 3, 3)), 1, "SAME")
    now, spread = tf.nn.moments(h, [0, 1, 2])
    r = tf.stop_gradient(tf.clip_by_value(tf.sqrt(spread / variance), 1 / 3.0, 3.0))
    d = tf.stop_gradient(tf.clip_by_value((now - mean) / tf.sqrt(variance), -5.0, 5.0))
    h = (h - now) * tf.math.rsqrt(spread + 1e-3) * r + d
    for average, value in ((mean, now), (variance, spread)):
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, tf1.assign_sub(average, 0.1 * (average - value)))
    h, batch_mean, _ = tf1.nn.fused_batch_norm(h, tf.ones([3]), tf.zeros([3]), is_training=True)[:3]
    loss = tf1.losses.sparse_softmax_cross_entropy(y, tf.reduce_mean(tf.nn.relu(h), [1, 2])) + 0.01 * tf.reduce_sum(batch_mean)
    with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        train = tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True).minimize(loss, tf1.train.get_or_create_global_step())
    return Net(loss, train, feeds)


def volumes():
    feeds, x, y = fed({"x": numbers(2, 4, 6, 6, 4), "y": integers(3, 2)})
    a, b = weight("a", (3, 3, 3, 4, 6), scale=0.2), weight("b", (2, 2, 2, 3, 6), scale=0.2)
    h = tf.nn.relu(tf.nn.conv3d(x, a, [1, 1, 2, 2, 1], "SAME"))
    h = tf.nn.conv3d_transpose(h, b, [2, 8, 6, 6, 3], [1, 2, 2, 2, 1])
    h = tf.nn.avg_pool3d(tf.nn.max_pool3d(h, [1, 2, 2, 2, 1], [1, 2, 1, 1, 1], "VALID"), 2, 1, "SAME")
    loss = 0.1 * tf.reduce_mean(h ** 2) + tf1.losses.softmax_cross_entropy(tf.one_hot(y, 3), tf.reduce_mean(h, [1, 2, 3]))
    return Net(loss, tf1.train.RMSPropOptimizer(1e-2, centered=True, momentum=0.5).minimize(loss), feeds)


def swapped_turns():
    """A recurrent loop with lengths, of unknown batch and time, that asks for its memory to be swapped."""
    feeds = {"x": numbers(3, 5, 4), "lengths": np.array([5, 2, 3], np.int32), "y": numbers(3, 4)}
    feeds, x, lengths, y = fed(feeds, {"x": [None, None, 4], "lengths": [None], "y": [None, 4]})
    w, b, time = weight("w", (8, 16), scale=0.3), weight("b", (16,)), tf.shape(x)[1]
    rows = tf.TensorArray(tf.float32, time).unstack(tf.transpose(x, [1, 0, 2]))

    def body(t, c, h, out):
        i, j, f, o = tf.split(tf.concat([rows.read(t), h], 1) @ w + b, 4, 1)
        c_next = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(j)
        h_next, goes_on = tf.sigmoid(o) * tf.tanh(c_next), (t < lengths)[:, None]
        out = out.write(t, tf.where(goes_on, h_next, tf.zeros_like(h_next)))
        return t + 1, tf.where(goes_on, c_next, c), tf.where(goes_on, h_next, h), out
    nothing = tf.zeros([tf.shape(x)[0], 4])
    start = (0, nothing, nothing, tf.TensorArray(tf.float32, time))
    _, _, h, out = tf.while_loop(lambda t, *_: t < tf.reduce_max(lengths), body, start, swap_memory=True, maximum_iterations=time)
    loss = tf.reduce_mean((h - y) ** 2) + 0.1 * tf.reduce_mean(out.stack() ** 2)
    return Net(loss, tf1.train.AdagradOptimizer(0.1).minimize(loss), feeds)


# Functions of TensorFlow 2

@eager
def mirrored():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        w = tf.Variable(numbers(3, 3) * F32(0.4), name="w", aggregation=tf.VariableAggregation.MEAN)

    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - y) ** 2)
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w)))
        return loss
    return function_net(lambda x, y: strategy.reduce("mean", strategy.run(replica, (x, y)), None), pair())


@eager
def compiled_layers():
    """Functions that are to be compiled by XLA, one in another."""
    w, b = tf.Variable(numbers(3, 3) * F32(0.4), name="w"), tf.Variable(np.zeros(3, F32), name="b")

    @tf.function(jit_compile=True)
    def layer(x):
        return tf.nn.gelu(x @ w + b)

    @tf.function(jit_compile=True)
    def layers(x):
        return layer(layer(x))

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((layers(x) - y) ** 2)
        for variable, gradient in zip((w, b), tape.gradient(loss, (w, b))):
            variable.assign_sub(0.1 * gradient)
        return loss
    return function_net(tf.function(step, jit_compile=True), pair())


@eager
def recomputed_and_passed_through():
    """Blocks that are computed again, a gradient of one's own behind them, clipped by the global norm."""
    weights = [tf.Variable(numbers(4, 4, seed=i) * F32(0.4), name=f"w{i}") for i in range(4)]
    blocks = [tf.recompute_grad(lambda x, w=w: tf.tanh(x @ w) + x) for w in weights]

    @tf.custom_gradient
    def signs(x):
        return tf.sign(x) * tf.reduce_mean(tf.abs(x)), lambda d: tf.clip_by_value(d, -0.1, 0.1)

    def step(x, y):
        with tf.GradientTape() as tape:
            h = x
            for block in blocks:
                h = block(h)
            loss = tf.reduce_mean((signs(h) - y) ** 2)
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, weights), 0.5)
        for variable, gradient in zip(weights, gradients):
            variable.assign_sub(0.1 * gradient)
        return loss
    return function_net(step, {"x": numbers(4, 4), "y": numbers(4, 4, seed=1)})


@eager
def two_optimizers():
    layers = keras.layers
    maker = keras.Sequential([layers.Dense(8, "relu"), layers.BatchNormalization(), layers.Dense(3)])
    judge = keras.Sequential([layers.Dense(8, "leaky_relu"), layers.SpectralNormalization(layers.Dense(4)), layers.Dense(1)])
    maker.build((4, 2))
    judge.build((4, 3))
    of_maker, of_judge = keras.optimizers.Adam(1e-2, beta_1=0.5), keras.optimizers.RMSprop(1e-2)
    of_maker.build(maker.trainable_variables)
    of_judge.build(judge.trainable_variables)
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1)

    def step(x, z):
        with tf.GradientTape() as first, tf.GradientTape() as second:
            made = maker(z, training=True)
            real, fake = judge(x, training=True), judge(made, training=True)
            judged = cross_entropy(tf.ones_like(real), real) + cross_entropy(tf.zeros_like(fake), fake)
            fooled = cross_entropy(tf.ones_like(fake), fake)
        of_judge.apply(second.gradient(judged, judge.trainable_variables), judge.trainable_variables)
        of_maker.apply(first.gradient(fooled, maker.trainable_variables), maker.trainable_variables)
        return judged + fooled
    return function_net(step, {"x": numbers(4, 3), "z": numbers(4, 2)})


# Losses

def ragged_softmax(v, ids, splits, y):
    rows = tf.RaggedTensor.from_row_splits(tf.gather(v["table"], ids), splits)
    scores = tf.ragged.map_flat_values(lambda r: tf.reduce_sum(r * v["w"], -1), rows)
    e = tf.exp(scores - tf.stop_gradient(tf.reduce_max(scores, 1, keepdims=True)))
    share = e / tf.reduce_sum(e, 1, keepdims=True)
    pooled = tf.reduce_sum(rows * tf.expand_dims(share, -1), 1)
    joined = tf.concat([rows, rows[:, ::-1]], 0)[1:4].to_tensor(0.5)
    return tf.reduce_mean((pooled - y) ** 2) + 0.1 * tf.reduce_mean(joined ** 2)


def line_search(v, x, y):
    """Two steps whose rate is halved until the loss is lower."""
    loss_of = lambda w: tf.reduce_mean((tf.tanh(x @ w) - y) ** 2)
    w = v["w"].read_value()
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(w)
            here = loss_of(w)
        g = tape.gradient(here, w)
        enough = lambda r: here - 0.3 * r * tf.reduce_sum(g * g)
        rate = tf.while_loop(lambda r: loss_of(w - r * g) > enough(r), lambda r: (r * 0.5,), (tf.constant(64.0),))[0]
        w = tf.stop_gradient(w - rate * g)
    v["w"].assign(w)
    return loss_of(w)


def linear_operators(v, x, y):
    op = tf.linalg
    low = op.LinearOperatorLowRankUpdate(op.LinearOperatorDiag(tf.exp(v["d"])), v["u"], tf.exp(v["s"]))
    kron = op.LinearOperatorKronecker([op.LinearOperatorFullMatrix(v["k"] + 3 * tf.eye(2)), op.LinearOperatorIdentity(2)])
    toeplitz, house = op.LinearOperatorToeplitz(v["d"], v["d"] * 0.5), op.LinearOperatorHouseholder(v["d"] + 2.0)
    block = op.LinearOperatorBlockDiag([op.LinearOperatorFullMatrix(v["k"]), op.LinearOperatorScaledIdentity(2, 2.0)])
    h = low.solve(kron.matmul(tf.transpose(x))) + toeplitz.matmul(house.matmul(block.matmul(tf.transpose(x))))
    return tf.reduce_mean((tf.transpose(h) - y) ** 2) + 0.01 * low.log_abs_determinant() + 0.01 * kron.trace()


def signal_transforms(v, x):
    s, h = tf.signal, x * v["gain"]
    cosines = s.dct(h, 2, norm="ortho") + 0.1 * (s.dct(h, 3) + s.idct(h, 2) + s.dct(h, 1) + s.dct(h, 4))
    spectrum = s.stft(h, 8, 4, pad_end=True)
    again = s.inverse_stft(spectrum, 8, 4, window_fn=s.inverse_stft_window_fn(4))
    frames = s.overlap_and_add(s.frame(h, 6, 2, axis=-1), 2)
    mel = tf.abs(spectrum) @ s.linear_to_mel_weight_matrix(4, 5, 100, 5.0, 45.0)
    mel = s.mfccs_from_log_mel_spectrograms(tf.math.log(mel + 1e-2))
    shifted = tf.abs(s.fftshift(s.fft2d(tf.cast(h, tf.complex64))))
    parts = (cosines, s.inverse_mdct(s.mdct(h, 8)), again, frames, 0.1 * mel, 0.1 * shifted)
    return tf.add_n([tf.reduce_mean(part ** 2) for part in parts])


def largest_of_many(v, x, y):
    value, index = tf.math.approx_max_k(x @ v["w"], 2)
    return tf.reduce_mean((value - tf.gather(y, index, batch_dims=1)) ** 2)


def sliced_by_values(v, x, y, at, long):
    """tf.slice whose begin and size are fed."""
    h = tf.slice(x @ v["w"], [at, 0], [long, -1])
    return tf.reduce_mean((h - tf.slice(y, tf.stack([at, 0]), tf.stack([long, 3]))) ** 2)


def slices_of_xla(v, x, y, at):
    """Slices that XLA moves back where they reach over the end: keras.ops.slice_update."""
    placed = xla.dynamic_update_slice(tf.zeros([4, 3]), tf.ones([2, 2]), tf.stack([at, 2]))
    placed += xla.dynamic_slice(x, tf.stack([at, -4]), [4, 3])
    return tf.reduce_mean((x @ v["w"] * tf.stop_gradient(placed) - y) ** 2)


def _table():
    w = lambda *shape, seed=5: numbers(*shape, seed=seed) * F32(0.4)
    ragged = {"ids": integers(6, 7, dtype=np.int64), "splits": np.array([0, 3, 4, 7], np.int64), "y": numbers(3, 4)}
    yield ragged_softmax, {"table": w(6, 4), "w": w(4)}, ragged
    yield ("line_search", line_search, lambda made, gradients: None), {"w": w(3, 3)}, pair()
    yield linear_operators, {"d": w(4), "u": w(4, 2), "s": w(2), "k": w(2, 2)}, {"x": numbers(3, 4), "y": numbers(3, 4, seed=1)}
    yield signal_transforms, {"gain": w(32) + 1}, {"x": numbers(2, 32)}
    yield largest_of_many, {"w": w(3, 3)}, pair()
    yield slices_of_xla, {"w": w(3, 3)}, dict(pair(), at=np.int32(3))
    yield sliced_by_values, {"w": w(3, 3)}, dict(pair(), at=np.int32(1), long=np.int32(2))


def cases():
    for case in (lent_memory, critical_section, sparse_operands, odd_feeds, unknown_rank, renormalised, volumes, swapped_turns, mirrored,
                 compiled_layers, recomputed_and_passed_through, two_optimizers):
        yield case.__name__, case
    for loss, variables, feeds in _table():
        name, loss, update = loss if isinstance(loss, tuple) else (loss.__name__, loss, None)
        variables = {key: np.asarray(value) for key, value in variables.items()}
        yield name, eager(_Built(variables, loss, feeds, 0.05, update, {}))
