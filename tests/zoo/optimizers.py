"""Every optimizer of TensorFlow and Keras 3 on a small net with a dense and an embedded part; schedules; averages."""
import keras
import numpy as np
import tensorflow as tf

from tensorflow.python.training import moving_averages

from zoo import Net, eager, function_net

tf1 = tf.compat.v1
RNG = np.random.default_rng(0)
FEEDS = {"x": RNG.normal(size=(16, 8)).astype(np.float32), "ids": RNG.integers(0, 20, 16).astype(np.int32),
         "y": RNG.normal(size=(16, 4)).astype(np.float32)}


def placeholders():
    return [tf1.placeholder(value.dtype, value.shape, name) for name, value in FEEDS.items()]


def small_loss(x, ids, y, use_resource, dense_only=False):
    with tf1.variable_scope("net", use_resource=use_resource):
        w = tf1.get_variable("w", [8, 16], initializer=tf1.glorot_uniform_initializer(seed=1))
        b = tf1.get_variable("b", [16], initializer=tf1.zeros_initializer())
        table = tf1.get_variable("table", [20, 16], initializer=tf1.random_normal_initializer(0, 0.5, seed=2))
        v = tf1.get_variable("v", [16, 4], initializer=tf1.truncated_normal_initializer(0, 0.5, seed=3))
    rows = tf.one_hot(ids, 20) @ table if dense_only else tf.nn.embedding_lookup(table, ids)
    hidden = tf.nn.tanh(x @ w + b + rows)
    return tf.reduce_mean(tf1.squared_difference(hidden @ v, y))


def v1_case(make, use_resource, dense_only=False):
    def build():
        loss = small_loss(*placeholders(), use_resource, dense_only)
        step = tf1.get_variable("global_step", [], tf.int64, tf1.zeros_initializer(), trainable=False,
                                use_resource=use_resource)
        return Net(loss, make(step).minimize(loss, global_step=step), FEEDS)
    return build


# Their sparse updates choose between two forms by values (StatelessIf).
CONTROL_FLOW_WHEN_SPARSE = ("rmsprop", "adagrad", "adadelta", "adafactor")


def keras_case(make, dense_only):
    def build():
        rng = np.random.default_rng(1)
        variables = [keras.Variable(rng.normal(size=shape, scale=0.4).astype(np.float32), name=f"v{i}")
                     for i, shape in enumerate(((8, 16), (20, 16), (16, 4)))]
        optimizer = make()
        optimizer.build(variables)

        def step(x, ids, y):
            with tf.GradientTape() as tape:
                table = variables[1].value
                rows = tf.one_hot(ids, 20) @ table if dense_only else tf.gather(table, ids)
                hidden = tf.nn.gelu(x @ variables[0].value + rows)
                loss = tf.reduce_mean(tf.square(hidden @ variables[2].value - y))
            optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
            return loss
        return function_net(step, FEEDS)
    return eager(build)


V1 = {
    "sgd": lambda step: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda step: tf1.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda step: tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda step: tf1.train.AdamOptimizer(0.01),
    "rmsprop": lambda step: tf1.train.RMSPropOptimizer(0.01, momentum=0.9),
    "rmsprop_centered": lambda step: tf1.train.RMSPropOptimizer(0.01, centered=True),
    "adagrad": lambda step: tf1.train.AdagradOptimizer(0.1),
    "adagrad_da": lambda step: tf1.train.AdagradDAOptimizer(0.1, step, l1_regularization_strength=0.001),
    "adadelta": lambda step: tf1.train.AdadeltaOptimizer(1.0),
    "ftrl": lambda step: tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001,
                                                 l2_regularization_strength=0.01),
    "ftrl_shrinkage": lambda step: tf1.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.01),
    "proximal_sgd": lambda step: tf1.train.ProximalGradientDescentOptimizer(0.1, 0.001, 0.01),
    "proximal_adagrad": lambda step: tf1.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.001),
    "exponential_decay": lambda step: tf1.train.GradientDescentOptimizer(
        tf1.train.exponential_decay(0.1, step, 2, 0.9, staircase=True)),
    "polynomial_decay": lambda step: tf1.train.GradientDescentOptimizer(
        tf1.train.polynomial_decay(0.1, step, 10, 0.01, power=2.0, cycle=True)),
    "cosine_decay": lambda step: tf1.train.MomentumOptimizer(tf1.train.cosine_decay(0.1, step, 10, 0.1), 0.9),
    "linear_cosine": lambda step: tf1.train.GradientDescentOptimizer(tf1.train.linear_cosine_decay(0.1, step, 10)),
    "noisy_cosine": lambda step: tf1.train.GradientDescentOptimizer(
        tf1.train.noisy_linear_cosine_decay(0.1, step, 10)),
    "inverse_time": lambda step: tf1.train.GradientDescentOptimizer(tf1.train.inverse_time_decay(0.1, step, 2, 0.5)),
    "natural_exp": lambda step: tf1.train.GradientDescentOptimizer(tf1.train.natural_exp_decay(0.1, step, 2, 0.5)),
}

KERAS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "sgd_nesterov": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True, global_clipnorm=1.0),
    "adamw": lambda: keras.optimizers.AdamW(0.01, clipnorm=0.5),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True, clipvalue=0.1),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "adamax": lambda: keras.optimizers.Adamax(0.01),
    "nadam": lambda: keras.optimizers.Nadam(0.01),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.001),
    "lion": lambda: keras.optimizers.Lion(0.001),
    "lamb": lambda: keras.optimizers.Lamb(0.01),
    "adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "muon": lambda: keras.optimizers.Muon(0.01),
    "ema": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9),
    "cosine": lambda: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.01, 10)),
    "cosine_restarts": lambda: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecayRestarts(0.01, 2)),
    "inverse_time": lambda: keras.optimizers.SGD(keras.optimizers.schedules.InverseTimeDecay(0.01, 2, 0.5)),
    "exponential": lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.9)),
    "piecewise": lambda: keras.optimizers.SGD(keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [.1, .05, .01])),
    "polynomial": lambda: keras.optimizers.SGD(keras.optimizers.schedules.PolynomialDecay(0.1, 10)),
}


def legacy_cases():
    """Updates through raw ops that have no Python optimizer any more."""
    def build(update, slots):
        def case():
            loss = small_loss(*placeholders(), True, dense_only=True)
            variables = tf1.trainable_variables()
            updates = []
            for variable, gradient in zip(variables, tf1.gradients(loss, variables)):
                made = [tf1.Variable(tf.zeros(variable.shape), use_resource=True, name=f"slot{i}") for i in range(slots)]
                updates.append(update(variable.handle, [slot.handle for slot in made], gradient))
            return Net(loss, tf.group(*updates), FEEDS)
        return case
    raw = tf.raw_ops
    yield "adamax", build(lambda v, s, g: raw.ResourceApplyAdaMax(
        var=v, m=s[0], v=s[1], beta1_power=0.9, lr=0.01, beta1=0.9, beta2=0.999, epsilon=1e-7, grad=g), 2)
    yield "amsgrad", build(lambda v, s, g: raw.ResourceApplyAdamWithAmsgrad(
        var=v, m=s[0], v=s[1], vhat=s[2], beta1_power=0.9, beta2_power=0.999, lr=0.01, beta1=0.9, beta2=0.999,
        epsilon=1e-7, grad=g), 3)
    yield "add_sign", build(lambda v, s, g: raw.ResourceApplyAddSign(
        var=v, m=s[0], lr=0.01, alpha=1.0, sign_decay=0.9, beta=0.9, grad=g), 1)
    yield "power_sign", build(lambda v, s, g: raw.ResourceApplyPowerSign(
        var=v, m=s[0], lr=0.01, logbase=1.0, sign_decay=0.9, beta=0.9, grad=g), 1)
    yield "keras_momentum", build(lambda v, s, g: raw.ResourceApplyKerasMomentum(
        var=v, accum=s[0], lr=0.01, grad=g, momentum=0.9, use_nesterov=True), 1)


def clipped_with_averages():
    loss = small_loss(*placeholders(), True)
    variables = tf1.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf1.gradients(loss, variables), 0.3)
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdamOptimizer(0.01).apply_gradients(zip(gradients, variables), step)
    averages = [tf1.Variable(tf.zeros(variable.shape), trainable=False) for variable in variables]
    with tf1.control_dependencies([train]):
        moves = [moving_averages.assign_moving_average(average, variable, 0.9, zero_debias=False)
                 for average, variable in zip(averages, variables)]
    return Net(loss + 0 * norm, tf.group(*moves), FEEDS)


def clipped_by_value_and_norm():
    loss = small_loss(*placeholders(), False)
    optimizer = tf1.train.MomentumOptimizer(0.1, 0.9)
    pairs = optimizer.compute_gradients(loss)
    pairs = [(tf.clip_by_norm(tf.clip_by_value(tf.convert_to_tensor(g), -0.05, 0.05), 0.1), v) for g, v in pairs]
    return Net(loss, optimizer.apply_gradients(pairs), FEEDS)


def gradient_accumulation():
    loss = small_loss(*placeholders(), True)
    variables = tf1.trainable_variables()
    gradients = [tf.convert_to_tensor(g) for g in tf1.gradients(loss, variables)]
    sums = [tf1.Variable(tf.zeros(v.shape), trainable=False) for v in variables]
    step = tf1.Variable(0, trainable=False)
    add = tf.group(step.assign_add(1), *[s.assign_add(g) for s, g in zip(sums, gradients)])
    with tf1.control_dependencies([add]):
        now = tf.cast(tf.equal(step.read_value() % 2, 0), tf.float32)
        updates = [v.assign_sub(0.1 * now * s.read_value()) for v, s in zip(variables, sums)]
        with tf1.control_dependencies(updates):
            clears = [s.assign(s.read_value() * (1 - now)) for s in sums]
    return Net(loss, tf.group(*clears), FEEDS)


def cases():
    for name, make in V1.items():
        yield f"v1_{name}", v1_case(make, use_resource=True)
        if "decay" not in name and "cos" not in name:
            yield f"v1_{name}_dense", v1_case(make, use_resource=True, dense_only=True)
            yield f"v1_{name}_reference", v1_case(make, use_resource=False)
    for name, make in KERAS.items():
        yield f"keras_{name}", keras_case(make, name in CONTROL_FLOW_WHEN_SPARSE)
    for name, case in legacy_cases():
        yield f"raw_{name}", case
    yield "clipped_with_averages", clipped_with_averages
    yield "clipped_by_value_and_norm", clipped_by_value_and_norm
    yield "gradient_accumulation", gradient_accumulation
