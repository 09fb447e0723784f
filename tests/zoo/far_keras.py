"""Keras layers and optimizers with everything switched on, metrics in the graph and of streams, and what graphs of TensorFlow 1
have around their nets."""
import keras
import numpy as np
import tensorflow as tf

from world_nets import F32, integers, numbers
from zoo import Net, eager, function_net, keras_net

tf1 = tf.compat.v1


# Keras with everything switched on

def _keras(build, optimizer, loss, feeds, inputs, **more):
    model = build()
    model(feeds["x"])  # a model that is not functional has its weights from here on
    return keras_net(model, loss, optimizer(), feeds, inputs, **more)


IMAGES = {"x": np.abs(numbers(2, 12, 12, 3)), "y": integers(3, 2)}
WORDS = {"x": numbers(2, 6, 4), "y": numbers(2, 3)}
_ce = lambda out, x, y: tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, out, from_logits=True))
_mse = lambda out, x, y: tf.reduce_mean((out - y) ** 2)


def _odd_layers():
    i = keras.Input([12, 12, 3], batch_size=2)
    h = keras.layers.Conv2D(8, 3, groups=1, dilation_rate=2, padding="same")(i)
    h = keras.layers.GroupNormalization(2)(h)
    h = keras.layers.Conv2D(8, 3, groups=4, activation="mish")(h)
    h = keras.layers.DepthwiseConv2D(3, depth_multiplier=2, strides=2, padding="same")(h)
    h = keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same", output_padding=1)(h)
    h = keras.layers.UnitNormalization()(keras.layers.SpatialDropout2D(0.2, seed=1)(h))
    h = keras.layers.SpectralNormalization(keras.layers.Conv2D(4, 3))(h)
    h = keras.layers.Concatenate()([keras.layers.GlobalMaxPooling2D()(h), keras.layers.GlobalAveragePooling2D()(h)])
    return keras.Model(i, keras.layers.Dense(3)(keras.layers.GaussianNoise(0.1, seed=2)(h)))


def _sequence_layers():
    i = keras.Input([6, 4], batch_size=2)
    h = keras.layers.Bidirectional(keras.layers.GRU(3, return_sequences=True, reset_after=False))(i)
    h = keras.layers.TimeDistributed(keras.layers.Dense(4))(h)
    h = keras.layers.GroupQueryAttention(4, 4, 2)(h, h, use_causal_mask=True) + h
    h = keras.layers.SeparableConv1D(4, 3, padding="same")(h)
    h = keras.layers.Conv1DTranspose(4, 3, padding="same")(keras.layers.Conv1D(4, 3, padding="causal", dilation_rate=2)(h))
    h = keras.layers.RNN([keras.layers.LSTMCell(3), keras.layers.SimpleRNNCell(3)], go_backwards=True)(h)
    return keras.Model(i, h)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = keras.layers.EinsumDense("btd,dhk->bthk", [None, 2, 3], bias_axes="hk"), keras.layers.Dense(3), keras.layers.BatchNormalization()

    def call(self, x, training=False):
        h = keras.ops.silu(self.norm(keras.ops.reshape(self.a(x), [2, 6, 6]), training=training))
        self.add_loss(0.01 * keras.ops.mean(keras.ops.square(h)))
        return self.b(keras.ops.max(h, 1))


def _with_policy(policy, build):
    def made():
        keras.config.set_dtype_policy(policy)
        try:
            return build()
        finally:
            keras.config.set_dtype_policy("float32")
    return made


def _scaled_step(policy):
    """A step with a scale of the loss that the optimizer itself halves or doubles."""
    def build():
        model = _with_policy(policy, _sequence_layers)()
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05, momentum=0.9), initial_scale=64.0, dynamic_growth_steps=2)
        optimizer.build(model.trainable_variables)

        def step(x, y):
            with tf.GradientTape() as tape:
                value = tf.reduce_mean((tf.cast(model(x, training=True), tf.float32) - y) ** 2)
                scaled = optimizer.scale_loss(value)
            optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
            return value
        return function_net(step, WORDS, rtol=3e-2, check_variables=False)
    return build


def _two_optimizers():
    rng = numbers(4, 8, seed=9)
    g, d = tf.Variable(rng[:, :3], name="g"), tf.Variable(numbers(3, 1, seed=8), name="d")
    first, second = keras.optimizers.Adam(0.01, beta_1=0.5), keras.optimizers.RMSprop(0.01)
    gv, dv = keras.Variable(g, name="generator"), keras.Variable(d, name="critic")
    first.build([gv]), second.build([dv])

    def step(z, real):
        with tf.GradientTape(persistent=True) as tape:
            fake = tf.tanh(z @ gv.value)
            with tf.GradientTape() as inner:
                inner.watch(real)
                score = real @ dv.value
                soft = tf.nn.softplus(score)
            penalty = tf.reduce_mean(tf.square(inner.gradient(soft, real)))
            loss_d = tf.reduce_mean(tf.nn.softplus(-score)) + tf.reduce_mean(tf.nn.softplus(fake @ dv.value)) + penalty
            loss_g = tf.reduce_mean(tf.nn.softplus(-(fake @ dv.value)))
        second.apply([tape.gradient(loss_d, dv.value)], [dv])
        first.apply([tape.gradient(loss_g, gv.value)], [gv])
        return loss_d + loss_g
    return function_net(step, {"z": numbers(5, 4), "real": numbers(5, 3)})


def _metrics():
    w = tf.Variable(numbers(3, 4), name="w")
    metrics = [keras.metrics.AUC(num_thresholds=11), keras.metrics.MeanIoU(4), keras.metrics.F1Score(average="macro"),
               keras.metrics.SparseTopKCategoricalAccuracy(2), keras.metrics.PrecisionAtRecall(0.5, num_thresholds=11)]

    def step(x, y):
        with tf.GradientTape() as tape:
            logits = x @ w
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        hot, p = tf.one_hot(y, 4), tf.nn.softmax(logits)
        for metric in metrics:
            sparse = isinstance(metric, keras.metrics.SparseTopKCategoricalAccuracy)
            iou = isinstance(metric, keras.metrics.MeanIoU)
            metric.update_state(*((y, tf.argmax(p, -1)) if iou else (y, p) if sparse else (hot, p)))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss + 0.1 * tf.add_n([tf.reduce_mean(metric.result()) for metric in metrics])
    return function_net(step, {"x": numbers(6, 3), "y": integers(4, 6)})


# Graphs of TensorFlow 1

def streamed_metrics():
    x, y = tf1.placeholder(tf.float32, [8, 3], "x"), tf1.placeholder(tf.float32, [8, 1], "y")
    w = tf1.get_variable("w", [3, 1], initializer=tf1.glorot_uniform_initializer(seed=1))
    p = tf.sigmoid(x @ w)
    loss = tf1.losses.log_loss(y, p)
    updates = [tf1.metrics.auc(y > 0.5, p, num_thresholds=9)[1], tf1.metrics.precision(y > 0.5, p > 0.5)[1], tf1.metrics.mean_squared_error(y, p)[1],
               tf1.metrics.sensitivity_at_specificity(y > 0.5, p, 0.4, num_thresholds=9)[1]]
    step = tf1.train.get_or_create_global_step()
    rate = tf1.train.linear_cosine_decay(0.1, step, 10)
    train = tf1.train.MomentumOptimizer(rate, 0.9).minimize(loss, step)
    with tf1.control_dependencies([tf1.get_variable("epochs", [], tf.int32, tf1.zeros_initializer(), trainable=False, use_resource=False).count_up_to(10)]):
        total = loss + 0.1 * tf.add_n([tf.cast(u, tf.float32) for u in updates])
    return Net(total, train, {"x": numbers(8, 3), "y": (numbers(8, 1, seed=3) > 0).astype(F32)})


def averaged_getter():
    """Weights by a getter, their averages read by a second copy of the net, sliced tables in parts."""
    x, ids, y = tf1.placeholder(tf.float32, [6, 3], "x"), tf1.placeholder(tf.int32, [6], "ids"), tf1.placeholder(tf.float32, [6, 2], "y")

    def dense(z, width, name, seed):
        with tf1.variable_scope(name):
            w = tf1.get_variable("kernel", [z.shape[1], width], initializer=tf1.glorot_uniform_initializer(seed=seed), regularizer=lambda t: 0.01 * tf.nn.l2_loss(t))
            return tf1.nn.xw_plus_b(z, w, tf1.get_variable("bias", [width], initializer=tf1.zeros_initializer()))

    def net(getter=None):
        with tf1.variable_scope("net", reuse=tf1.AUTO_REUSE, custom_getter=getter):
            h = tf.nn.relu(dense(x, 4, "a", 2))
            if getter is None:
                table = tf1.get_variable("table", [7, 4], initializer=tf1.random_normal_initializer(seed=3), partitioner=tf1.fixed_size_partitioner(3))
                h += tf1.nn.embedding_lookup(table, ids, "div")
            return dense(h, 2, "b", 4)
    loss = tf1.losses.huber_loss(y, net()) + tf1.losses.get_regularization_loss()
    train = tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss)
    average = tf1.train.ExponentialMovingAverage(0.9, zero_debias=True)
    with tf1.control_dependencies([train]):
        averaged = average.apply([v for v in tf1.trainable_variables() if "table" not in v.name])
    def getter(getter, name, *a, **k):
        return average.average(getter(name, *a, **k))
    return Net(loss + 0.0 * tf.reduce_mean(net(getter)), averaged, {"x": numbers(6, 3), "ids": integers(7, 6), "y": numbers(6, 2)})


def strategy_of_one():
    """What tf.distribute exports of one replica."""
    x, y = tf1.placeholder(tf.float32, [4, 3], "x"), tf1.placeholder(tf.float32, [4, 2], "y")
    strategy = tf1.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        w = tf1.get_variable("w", [3, 2], initializer=tf1.glorot_uniform_initializer(seed=2))
        steps = tf1.get_variable("steps", [], initializer=tf1.zeros_initializer(), trainable=False, aggregation=tf.VariableAggregation.SUM)

        def replica(x, y):
            context = tf1.distribute.get_replica_context()
            value = tf.reduce_mean((x @ w - y) ** 2)
            gradient = context.all_reduce("mean", tf.gradients(value, w)[0])
            w.assign_sub(0.1 * gradient)
            steps.assign_add(1.0)
            return value
        loss = strategy.run(replica, (x, y))
    return Net(strategy.reduce("mean", loss, axis=None), tf.group(w.read_value(), steps.read_value()), {"x": numbers(4, 3), "y": numbers(4, 2)}, check_variables=False)


def cases():
    full = dict(weight_decay=0.01, global_clipnorm=0.5, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2)
    for name, build, optimizer, loss, feeds in (
            ("odd_layers", _odd_layers, lambda: keras.optimizers.Lion(0.01, **full), _ce, IMAGES),
            ("sequence_layers", _sequence_layers, lambda: keras.optimizers.Lamb(0.01, gradient_accumulation_steps=2), _mse, WORDS),
            ("subclassed", Subclassed, lambda: keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.01, 10, warmup_steps=2, warmup_target=0.02), amsgrad=True), _mse, WORDS),
            ("subclassed_ftrl", Subclassed, lambda: keras.optimizers.Ftrl(0.05, l1_regularization_strength=0.01, clipvalue=0.3), _mse, WORDS),
            ("subclassed_adafactor", Subclassed, lambda: keras.optimizers.Adafactor(0.05, relative_step=False), _mse, WORDS),
            ("subclassed_nadam", Subclassed, lambda: keras.optimizers.Nadam(0.01, gradient_accumulation_steps=3, use_ema=True), _mse, WORDS)):
        yield name, eager(lambda build=build, optimizer=optimizer, loss=loss, feeds=feeds: _keras(
            build, optimizer, loss, feeds, ["x"], check_variables=name != "odd_layers"))
    yield "bfloat16_sequences", eager(_scaled_step("mixed_bfloat16"))
    yield "float16_sequences", eager(_scaled_step("mixed_float16"))
    yield "two_optimizers", eager(_two_optimizers)
    yield "metrics_in_graph", eager(_metrics)
    for case in (streamed_metrics, averaged_getter, strategy_of_one):
        yield case.__name__, case
