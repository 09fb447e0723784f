"""Loops: recurrent layers, scans and maps, decoders, nested loops, in control flow v2 and in TensorFlow 1's frames."""
import numpy as np
import tensorflow as tf

from branch_nets import old_control_flow, variable
from zoo import Net, eager, function_net, keras_net

tf1 = tf.compat.v1


def sequences(batch=4, time=6, width=5, classes=3):
    rng = np.random.default_rng(1)
    return {"x": rng.normal(size=(batch, time, width)).astype(np.float32),
            "y": rng.integers(0, classes, batch).astype(np.int32)}


def keras_sequence(*layers, optimizer=None, feeds=None, **more):
    """A net of Keras layers that ends in classes."""
    import keras
    keras.utils.set_random_seed(3)
    feeds = feeds or sequences()
    model = keras.Sequential([keras.layers.Input(feeds["x"].shape[1:], feeds["x"].shape[0]), *layers, keras.layers.Dense(3)])

    def loss(outputs, x, y):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=outputs))
    return keras_net(model, loss, optimizer or keras.optimizers.SGD(0.1), feeds, ["x"], **more)


@eager
def lstm():
    import keras
    return keras_sequence(keras.layers.LSTM(7))


@eager
def gru_backwards():
    import keras
    return keras_sequence(keras.layers.GRU(7, go_backwards=True, reset_after=False))


@eager
def simple_rnn():
    import keras
    return keras_sequence(keras.layers.SimpleRNN(7, recurrent_dropout=0.0))


@eager
def bidirectional_stack():
    import keras
    return keras_sequence(keras.layers.Bidirectional(keras.layers.LSTM(5, return_sequences=True)),
                          keras.layers.Bidirectional(keras.layers.GRU(4), merge_mode="sum"))


@eager
def stacked_cells():
    import keras
    cells = [keras.layers.LSTMCell(6), keras.layers.GRUCell(5), keras.layers.SimpleRNNCell(4)]
    return keras_sequence(keras.layers.RNN(cells, return_sequences=True), keras.layers.GlobalAveragePooling1D())


@eager
def masked():
    import keras
    feeds = sequences()
    feeds["x"][1, 3:] = 0
    feeds["x"][2, 1:] = 0
    return keras_sequence(keras.layers.Masking(0.0), keras.layers.LSTM(6, return_sequences=True), keras.layers.GRU(5), feeds=feeds)


@eager
def masked_embedding():
    import keras
    rng = np.random.default_rng(0)
    feeds = {"x": rng.integers(0, 4, (4, 6)).astype(np.int32), "y": rng.integers(0, 3, 4).astype(np.int32)}
    return keras_sequence(keras.layers.Embedding(4, 5, mask_zero=True), keras.layers.Bidirectional(keras.layers.LSTM(6)), feeds=feeds)


@eager
def time_major_states():
    import keras
    keras.utils.set_random_seed(5)
    feeds = sequences()
    inputs = keras.layers.Input((6, 5), 4)
    whole, h, c = keras.layers.LSTM(6, return_sequences=True, return_state=True)(inputs)
    decoded = keras.layers.LSTM(6, return_sequences=True)(whole, initial_state=[h, c])
    model = keras.Model(inputs, keras.layers.TimeDistributed(keras.layers.Dense(3))(decoded))
    loss = lambda outputs, x, y: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=outputs[:, -1]))
    return keras_net(model, loss, keras.optimizers.Adam(0.01), feeds, ["x"])


@eager
def conv_lstm():
    import keras
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(2, 4, 6, 6, 2)).astype(np.float32), "y": np.array([0, 2], np.int32)}
    return keras_sequence(keras.layers.ConvLSTM2D(4, 3, padding="same", return_sequences=True), keras.layers.ConvLSTM2D(3, 3),
                          keras.layers.Flatten(), feeds=feeds)


def eager_weights(*shapes):
    rng = np.random.default_rng(4)
    return [tf.Variable(rng.normal(0, 0.4, shape).astype(np.float32), name=f"w{i}") for i, shape in enumerate(shapes)]


def descend(loss_of, weights):
    def step(**values):
        with tf.GradientTape() as tape:
            loss = loss_of(**values)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss
    return step


def signal(time=6, batch=3, width=4):
    rng = np.random.default_rng(2)
    return {"x": rng.normal(size=(time, batch, width)).astype(np.float32)}


@eager
def scan():
    w, u = eager_weights([4, 5], [5, 5])

    def loss(x):
        states = tf.scan(lambda h, row: tf.tanh(row @ w + h @ u), x, tf.zeros([3, 5]))
        back = tf.scan(lambda h, row: 0.5 * h + row, x, tf.zeros([3, 4]), reverse=True)
        return tf.reduce_mean(states ** 2) + tf.reduce_mean(back @ w)
    return function_net(descend(loss, [w, u]), signal())


@eager
def maps_and_folds():
    w, = eager_weights([4, 4])

    def loss(x):
        mapped = tf.map_fn(lambda row: tf.linalg.matmul(row, w) * tf.reduce_sum(row), x)
        pairs = tf.map_fn(lambda both: (both[0] + both[1], both[0] * 2.0), (x, x @ w), fn_output_signature=(tf.float32, tf.float32))
        folded = tf.foldl(lambda a, row: tf.sin(a) + row, mapped) + tf.foldr(lambda a, row: 0.3 * a * row, x)
        return tf.reduce_mean(folded) + tf.reduce_mean(pairs[0] * pairs[1])
    return function_net(descend(loss, [w]), signal())


@eager
def maps_in_maps():
    w, = eager_weights([4])

    def loss(x):
        inner = lambda vector: tf.reduce_sum(tf.exp(-vector * w))
        return tf.reduce_mean(tf.map_fn(lambda row: tf.map_fn(inner, row), x))
    return function_net(descend(loss, [w]), signal())


@eager
def loops_with_branches():
    """Branches by the counter, which are decided turn by turn, and by data, of which both sides run."""
    w, u = eager_weights([4, 4], [4])

    def loss(x):
        state, total, rows = x[0], tf.constant(0.0), tf.TensorArray(tf.float32, 0, dynamic_size=True)
        for i in tf.range(6):
            if i % 2 == 0:
                state = tf.tanh(state @ w)
            else:
                state = state * u + x[i - 1]
            if tf.reduce_sum(state) > 0.0:
                total += tf.reduce_sum(state * u)
            else:
                total -= tf.reduce_mean(state ** 2)
            rows = rows.write(i, state)
        return total / 10.0 + tf.reduce_mean(rows.stack())
    return function_net(descend(loss, [w, u]), signal())


@eager
def rows_in_branches():
    """Arrays that a branch writes to."""
    w, = eager_weights([4, 4])

    def loss(x):
        rows = tf.TensorArray(tf.float32, 6, element_shape=[3, 4])
        for i in tf.range(6):
            if tf.reduce_sum(x[i]) > 0.0:
                rows = rows.write(i, x[i] @ w)
            else:
                rows = rows.write(i, tf.exp(x[i]) * tf.reduce_sum(w))
        return tf.reduce_mean(rows.stack())
    return function_net(descend(loss, [w]), signal())


@eager
def updates_in_loops():
    """Variables that are read and written in every turn."""
    w, total = eager_weights([4, 4], [4])

    def step(x):
        for i in tf.range(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x[i] @ w - total) ** 2)
            w.assign_sub(0.2 * tape.gradient(loss, w))
            total.assign(0.9 * total + 0.1 * tf.reduce_mean(x[i], 0))
            tf.debugging.assert_less(loss, 1e6)
        return tf.reduce_mean((x[5] @ w) ** 2)
    return function_net(step, signal())


@eager
def random_in_loops():
    """One stream goes on over the turns, and over the steps."""
    w, = eager_weights([4, 4])

    def loss(x):
        state = x[0]
        for i in tf.range(5):
            with tf.control_dependencies([state]):  # TensorFlow draws for a later turn first if it may
                state = tf.tanh(tf.nn.dropout(state, 0.3, seed=7) @ w) + 0.1 * tf.random.normal([3, 4], seed=3)
            state += tf.random.stateless_uniform([3, 4], [i, 5])
        return tf.reduce_mean(state ** 2)
    tf.random.set_seed(9)
    return function_net(descend(loss, [w]), signal())


@eager
def power_iteration():
    w, = eager_weights([5, 5])

    def loss(x):
        v = tf.ones([5, 1]) / tf.sqrt(5.0)
        _, v, n = tf.while_loop(lambda i, v, n: i < 8, lambda i, v, n: (i + 1, tf.math.l2_normalize(w @ v), tf.norm(w @ v)),
                                (0, v, 1.0), maximum_iterations=6)
        return n + tf.reduce_mean(x[:, :, :1] * v[0, 0])
    return function_net(descend(loss, [w]), signal())


@eager
def crf():
    """The forward algorithm of a chain, and its gradient."""
    weights, transitions = eager_weights([4, 5], [5, 5])

    def loss(x):
        unary = tf.einsum("tbw,wc->tbc", x, weights)
        alpha = unary[0]
        for t in tf.range(1, 6):
            alpha = tf.reduce_logsumexp(alpha[:, :, None] + transitions, 1) + unary[t]
        return tf.reduce_mean(tf.reduce_logsumexp(alpha, 1)) - tf.reduce_mean(unary[:, :, 2]) - transitions[2, 2]
    return function_net(descend(loss, [weights, transitions]), signal())


@eager
def attention_decoder():
    """Sequence to sequence: a cell that looks at all encoded steps in every turn and is fed what it gave."""
    import keras
    keras.utils.set_random_seed(2)
    encoder = keras.layers.GRU(6, return_sequences=True, return_state=True)
    cell, key, out, embed = keras.layers.LSTMCell(6), keras.layers.Dense(6), keras.layers.Dense(5), keras.layers.Embedding(5, 4)
    feeds = sequences()
    encoder.build([4, 6, 5]), cell.build([4, 10]), key.build([4, 6, 6]), out.build([4, 6]), embed.build([4])
    weights = [v.value for layer in (encoder, cell, key, out, embed) for v in layer.trainable_variables]

    def loss(x, y):
        memory, h = encoder(x)
        keys, c, token = key(memory), tf.zeros([4, 6]), y
        losses = tf.TensorArray(tf.float32, 5)
        for t in tf.range(5):
            scores = tf.nn.softmax(tf.einsum("bth,bh->bt", keys, h))
            context = tf.einsum("bt,bth->bh", scores, memory)
            _, (h, c) = cell(tf.concat([embed(token), context], 1), [h, c])
            logits = out(h)
            losses = losses.write(t, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=(y + t) % 5, logits=logits))
            token = tf.argmax(logits, 1, tf.int32)
        return tf.reduce_mean(losses.stack())
    return function_net(descend(loss, weights), feeds)


@eager
def gradients_of_gradients():
    w, = eager_weights([4, 4])

    def loss(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = x[0]
            for i in tf.range(4):
                h = tf.tanh(h @ w) + x[i]
            y = tf.reduce_sum(h ** 2)
        return tf.reduce_mean(tape.gradient(y, x) ** 2)
    return function_net(descend(loss, [w]), signal())


def cell_of_old(width, rows, use_resource):
    kernel = variable("kernel", [rows + width, 4 * width], use_resource=use_resource)
    bias = variable("bias", [4 * width], 0.0, use_resource=use_resource)

    def cell(x, c, h):
        i, j, f, o = tf.split(tf.nn.bias_add(tf.concat([x, h], 1) @ kernel, bias), 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return c, tf.tanh(c) * tf.sigmoid(o)
    return cell


def old_lstm(use_resource, swap_memory, optimizer):
    feeds = sequences()
    x, y = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    cell = cell_of_old(7, 5, use_resource)
    steps = tf.TensorArray(tf.float32, 6).unstack(tf.transpose(x, [1, 0, 2]))
    outputs = tf.TensorArray(tf.float32, 6)

    def body(t, c, h, outputs):
        c, h = cell(steps.read(t), c, h)
        return t + 1, c, h, outputs.write(t, h)
    zero = tf.zeros([4, 7])
    _, _, last, outputs = tf.while_loop(lambda t, *_: t < 6, body, (0, zero, zero, outputs), swap_memory=swap_memory)
    logits = tf.concat([last, tf.reduce_mean(outputs.stack(), 0)], 1) @ variable("out", [14, 3], use_resource=use_resource)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return Net(loss, optimizer.minimize(loss), feeds)


@old_control_flow
def dynamic_rnn():
    return old_lstm(False, True, tf1.train.GradientDescentOptimizer(0.3))


@old_control_flow
def dynamic_rnn_of_resources():
    return old_lstm(True, False, tf1.train.AdamOptimizer(0.01))


def dynamic_rnn_v2():
    """The same graph code with While nodes in it."""
    on = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    try:
        return old_lstm(True, True, tf1.train.MomentumOptimizer(0.1, 0.9))
    finally:
        if not on:
            tf1.disable_control_flow_v2()


@old_control_flow
def raw_rnn():
    """A loop whose inputs are chosen in the turn, with lengths, and a conditional on the counter."""
    feeds = sequences()
    x, y = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    cell = cell_of_old(5, 5, True)
    rows = tf.TensorArray(tf.float32, 6).unstack(tf.transpose(x, [1, 0, 2]))
    outputs = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    lengths = tf.constant([6, 2, 4, 5])

    def body(t, finished, x, c, h, outputs):
        new_c, new_h = cell(x, c, h)
        keep = lambda new, old: tf.where(finished[:, None] & tf.ones([4, 5], tf.bool), old, new)
        outputs = outputs.write(t, tf.where(finished[:, None] & tf.ones([4, 5], tf.bool), tf.zeros([4, 5]), new_h))
        done = t + 1 >= lengths
        following = tf1.cond(tf.reduce_all(done), lambda: tf.zeros([4, 5]), lambda: rows.read(t + 1))
        return t + 1, done, following, keep(new_c, c), keep(new_h, h), outputs
    start = (0, tf.zeros([4], tf.bool), rows.read(0), tf.zeros([4, 5]), tf.zeros([4, 5]), outputs)
    *_, h, outputs = tf.while_loop(lambda t, finished, *_: tf.logical_not(tf.reduce_all(finished)), body, start)
    logits = (h + tf.reduce_sum(outputs.stack(), 0)) @ variable("out", [5, 3])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


@old_control_flow
def nested_frames():
    feeds = signal()
    x = tf1.placeholder(tf.float32, [6, 3, 4], "x")
    w = variable("w", [4, 4])

    def outer(i, h):
        inner = lambda j, g: (j + 1, tf.tanh(g @ w) + x[i])
        _, h = tf.while_loop(lambda j, g: j < i + 1, inner, (0, h))
        return i + 1, h * 0.9
    _, h = tf.while_loop(lambda i, h: i < 3, outer, (0, x[5]))
    loss = tf.reduce_mean(h ** 2)
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


@old_control_flow
def branches_in_frames():
    feeds = signal()
    x = tf1.placeholder(tf.float32, [6, 3, 4], "x")
    w = variable("w", [4, 4])

    def body(i, h):
        h = tf1.cond(tf.equal(i % 2, 0), lambda: tf.tanh(h @ w), lambda: h + x[i])
        return i + 1, tf1.cond(tf.reduce_sum(h) > 0, lambda: h * 0.5, lambda: tf.sin(h @ w))
    _, h = tf.while_loop(lambda i, h: i < 5, body, (0, x[0]))
    loss = tf.reduce_mean(h ** 2)
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


@old_control_flow
def old_scan_and_map():
    feeds = signal()
    x = tf1.placeholder(tf.float32, [6, 3, 4], "x")
    w = variable("w", [4, 4], use_resource=False)
    states = tf.scan(lambda h, row: tf.tanh(row + h @ w), x, tf.zeros([3, 4]))
    mapped = tf.map_fn(lambda row: tf.reduce_sum(row @ w), x)
    loss = tf.reduce_mean(states ** 2) + tf.reduce_mean(mapped ** 2) / 10.0
    return Net(loss, tf1.train.RMSPropOptimizer(0.01).minimize(loss), feeds)


@old_control_flow
def counters_of_references():
    """Reference variables that the body of a frame updates."""
    feeds = signal()
    x = tf1.placeholder(tf.float32, [6, 3, 4], "x")
    w = variable("w", [4, 4])
    count = variable("count", [], 0.0, False, use_resource=False)

    def body(i, h):
        with tf1.control_dependencies([tf1.assign_add(count, tf.reduce_mean(h))]):
            return i + 1, tf.tanh(h @ w)
    _, h = tf.while_loop(lambda i, h: i < 4, body, (0, x[0]), parallel_iterations=1)
    loss = tf.reduce_mean(h ** 2)
    return Net(loss, tf1.train.GradientDescentOptimizer(0.1).minimize(loss), feeds)


def fed_lengths(v2):
    feeds = sequences()
    feeds["lengths"] = np.array([5, 2, 4, 3], np.int32)
    x, y, lengths = (tf1.placeholder(v.dtype, v.shape, n) for n, v in feeds.items())
    cell = cell_of_old(7, 5, True)
    longest = tf.reduce_max(lengths)
    steps = tf.TensorArray(tf.float32, 6).unstack(tf.transpose(x, [1, 0, 2]))
    outputs = tf.TensorArray(tf.float32, longest)

    def body(t, c, h, outputs):
        new_c, new_h = cell(steps.read(t), c, h)
        running = tf.tile((t < lengths)[:, None], [1, 7])
        c, h = tf.where(running, new_c, c), tf.where(running, new_h, h)
        return t + 1, c, h, outputs.write(t, h)
    zero = tf.zeros([4, 7])
    _, _, last, outputs = tf.while_loop(lambda t, *_: t < longest, body, (0, zero, zero, outputs))
    logits = tf.concat([last, tf.reduce_mean(outputs.stack(), 0)], 1) @ variable("out", [14, 3])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    return Net(loss, tf1.train.GradientDescentOptimizer(0.3).minimize(loss), feeds)


@old_control_flow
def lengths_that_are_fed():
    return fed_lengths(False)


def lengths_that_are_fed_v2():
    on = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    try:
        return fed_lengths(True)
    finally:
        if not on:
            tf1.disable_control_flow_v2()


def cases():
    return [(f.__name__, f) for f in (
        lstm, gru_backwards, simple_rnn, bidirectional_stack, stacked_cells, masked, masked_embedding,
        time_major_states, conv_lstm, scan, maps_and_folds, maps_in_maps, loops_with_branches, rows_in_branches,
        updates_in_loops, random_in_loops, power_iteration, crf, attention_decoder, gradients_of_gradients,
        dynamic_rnn, dynamic_rnn_of_resources, dynamic_rnn_v2, raw_rnn, nested_frames, branches_in_frames,
        old_scan_and_map, counters_of_references, lengths_that_are_fed, lengths_that_are_fed_v2)]
