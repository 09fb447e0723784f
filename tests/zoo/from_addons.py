"""TensorFlow Addons and packages of that time (TensorFlow 2.14): layers, losses, optimizers, ranking, privacy, agents, Edward2."""
import edward2 as ed
import neural_structured_learning as nsl
import numpy as np
import tensorflow as tf
import tensorflow_addons as tfa
import tensorflow_ranking as tfr
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras import make_keras_optimizer_class

from package_steps import cross_entropy, floats, keras_2, pictures, taped
from zoo import eager, function_net

RNG = np.random.default_rng(0)
K = tf.keras


def labelled(*shape, classes=4):
    return {"x": floats(RNG, *shape), "labels": RNG.integers(0, classes, shape[0]).astype(np.int32)}


def dense(*layers, optimizer=None, loss=cross_entropy, feeds=None, outputs=4):
    feeds = feeds or labelled(8, 6)
    return keras_2(lambda: K.Sequential([K.layers.Dense(8), *(layer() for layer in layers), K.layers.Dense(outputs)]), loss, feeds,
                   optimizer=optimizer)


def of_pictures(*layers, size=16):
    return keras_2(lambda: K.Sequential([K.layers.Conv2D(8, 3, padding="same"), *(layer() for layer in layers), K.layers.Flatten(),
                                         K.layers.Dense(4)]), cross_entropy, pictures(RNG, size))


def of_sequence(layer):
    return keras_2(lambda: K.Sequential([layer(), K.layers.Flatten(), K.layers.Dense(4)]), cross_entropy, labelled(4, 7, 5))


def embedded(loss):
    """A loss of the whole batch's embeddings."""
    return dense(loss=lambda outputs, labels, **feeds: tf.reduce_mean(loss(labels, tf.math.l2_normalize(outputs, 1))))


def tagger():
    embed, head = K.layers.Embedding(20, 8), K.layers.Dense(5)
    transitions = tf.Variable(RNG.normal(size=(5, 5)).astype(np.float32))
    best = K.optimizers.legacy.Adam(1e-2)

    def loss(x, labels, lengths):
        likelihood, _ = tfa.text.crf_log_likelihood(head(embed(x)), labels, lengths, transitions)
        decoded, score = tfa.text.crf_decode(head(embed(x)), transitions, lengths)
        return -tf.reduce_mean(likelihood) + 0.0 * tf.reduce_mean(score) + 0.0 * tf.cast(tf.reduce_sum(decoded), tf.float32)
    loss(*(tf.constant(value) for value in TAGS.values()))
    variables = lambda: embed.trainable_variables + head.trainable_variables + [transitions]
    return loss, variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))


TAGS = {"x": RNG.integers(0, 20, (3, 6)).astype(np.int32), "labels": RNG.integers(0, 5, (3, 6)).astype(np.int32),
        "lengths": np.array([6, 4, 5], np.int32)}
PAIRS = {"x": RNG.integers(0, 20, (3, 6)).astype(np.int32), "y": RNG.integers(0, 20, (3, 5)).astype(np.int32),
         "labels": RNG.integers(0, 20, (3, 5)).astype(np.int32), "lengths": np.array([5, 3, 4], np.int32)}


def translator(attention):
    """An encoder and a decoder of seq2seq with attention, by teacher forcing."""
    embed, encoder = K.layers.Embedding(20, 8), K.layers.LSTM(8, return_sequences=True, return_state=True)
    sampler = tfa.seq2seq.sampler.TrainingSampler()
    mechanism = attention()
    cell = tfa.seq2seq.AttentionWrapper(K.layers.LSTMCell(8), mechanism, attention_layer_size=8)
    decoder = tfa.seq2seq.BasicDecoder(cell, sampler, output_layer=K.layers.Dense(20))
    best = K.optimizers.legacy.Adam(1e-2)

    def loss(x, y, labels, lengths):
        memory, *state = encoder(embed(x))
        mechanism.setup_memory(memory)
        first = cell.get_initial_state(batch_size=3, dtype=tf.float32).clone(cell_state=state)
        outputs, _, _ = decoder(embed(y), initial_state=first, sequence_length=lengths, training=True)
        logits = outputs.rnn_output
        weights = tf.sequence_mask(lengths, tf.shape(logits)[1], tf.float32)
        return tfa.seq2seq.sequence_loss(logits, labels[:, :tf.shape(logits)[1]], weights)
    loss(*(tf.constant(value) for value in PAIRS.values()))
    variables = lambda: embed.trainable_variables + encoder.trainable_variables + decoder.trainable_variables
    return loss, variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))


def warped():
    """Pictures moved by flows and by splines that are learnt."""
    head = K.Sequential([K.layers.Conv2D(2, 3, padding="same")])
    points = tf.Variable(RNG.uniform(2, 13, size=(2, 5, 2)).astype(np.float32))
    best = K.optimizers.legacy.SGD(0.1)

    def loss(x, labels):
        moved = tfa.image.dense_image_warp(x, head(x))
        bent, _ = tfa.image.sparse_image_warp(x, points, points + 0.5, num_boundary_points=1)
        return tf.reduce_mean((moved - x[:, ::-1]) ** 2) + tf.reduce_mean((bent - x[:, :, ::-1]) ** 2)
    feeds = pictures(RNG, 16)
    loss(**{name: tf.constant(value) for name, value in feeds.items()})
    return loss, lambda: head.trainable_variables + [points], lambda grads, weights: best.apply_gradients(zip(grads, weights))


def filtered(x):
    """Filters of pictures one after the other, without weights."""
    x = tfa.image.gaussian_filter2d(x, 3, 1.0)
    x = tfa.image.mean_filter2d(x, 3)
    x = tfa.image.median_filter2d(x, 3)
    x = tfa.image.rotate(x, 0.3, interpolation="bilinear")
    x = tfa.image.translate(x, [1.0, -1.0], interpolation="bilinear")
    return tfa.image.adjust_hsv_in_yiq(x, 0.1, 1.1, 0.9)


def ranked(loss, **more):
    """Lists of twelve candidates, some of them padding."""
    labels = RNG.integers(-1, 5, (4, 12)).astype(np.float32)
    score = lambda outputs, labels, **feeds: loss(labels, tf.squeeze(outputs, -1))
    return keras_2(lambda: K.Sequential([K.layers.Dense(8, "relu"), K.layers.Dense(1)]), score,
                   {"x": floats(RNG, 4, 12, 6), "labels": labels}, **more)


def adversarial():
    base = K.Sequential([K.layers.Dense(8, "relu"), K.layers.Dense(4)])
    config = nsl.configs.make_adv_reg_config(multiplier=0.2, adv_step_size=0.2, adv_grad_norm="infinity")
    feeds = labelled(8, 6)
    base(feeds["x"])
    best = K.optimizers.legacy.Adam(1e-2)

    def loss(x, labels):
        return nsl.keras.adversarial_loss({"x": x}, labels, Named(base), K.losses.SparseCategoricalCrossentropy(True),
                                          adv_config=config) + cross_entropy(base(x), labels)
    return loss, lambda: base.trainable_variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))


class Named:
    """A model that takes its features by name, as the adversarial loss gives them."""

    def __init__(self, model):
        self.model = model

    def __call__(self, features, **options):
        return self.model(features["x"], **options)


def private():
    """Gradients of every example clipped, summed and hidden in noise."""
    model = K.Sequential([K.layers.Dense(8, "relu"), K.layers.Dense(4)])
    feeds = labelled(8, 6)
    model(feeds["x"])
    best = make_keras_optimizer_class(K.optimizers.legacy.SGD)(l2_norm_clip=1.0, noise_multiplier=0.5, num_microbatches=4, learning_rate=0.1)

    def step(x, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(x))
        best.apply_gradients(best._compute_gradients(losses, model.trainable_variables, tape=tape))
        return tf.reduce_mean(losses)
    return function_net(step, feeds)


def bayesian(*layers):
    def make():
        return K.Sequential([layer() for layer in layers])
    return keras_2(make, cross_entropy, labelled(8, 6), rtol=2e-3)


class Mean(K.layers.Layer):
    """The first of what a layer gives: a Gaussian process gives a covariance, too."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, x):
        return self.layer(x)[0]


def cases():
    yield from addons_layers()
    yield from addons_optimizers()
    yield from addons_losses()
    yield "crf", taped(tagger, TAGS)
    yield "seq2seq_bahdanau", taped(lambda: translator(lambda: tfa.seq2seq.BahdanauAttention(8)), PAIRS)
    yield "seq2seq_luong", taped(lambda: translator(lambda: tfa.seq2seq.LuongAttention(8, scale=True)), PAIRS)
    yield "seq2seq_monotonic", taped(lambda: translator(lambda: tfa.seq2seq.BahdanauMonotonicAttention(8, mode="parallel")), PAIRS)
    yield "image_warps", taped(warped, pictures(RNG, 16))
    yield "image_filters", of_pictures(lambda: K.layers.Conv2D(3, 1), lambda: K.layers.Lambda(filtered))
    for name in ("approx_ndcg_loss", "softmax_loss", "list_mle_loss", "pairwise_logistic_loss", "gumbel_approx_ndcg_loss",
                 "approx_mrr_loss", "unique_softmax_loss"):
        yield f"ranking_{name}", ranked(tfr.keras.losses.get(name))
    yield "ranking_lambda_ndcg", ranked(tfr.keras.losses.PairwiseLogisticLoss(lambda_weight=tfr.keras.losses.NDCGLambdaWeight()))
    yield "adversarial", taped(adversarial, labelled(8, 6))
    yield "private_gradients", eager(private)
    yield "edward_dense", bayesian(lambda: ed.layers.DenseReparameterization(8, activation="relu"), lambda: ed.layers.DenseFlipout(4))
    yield "edward_ensemble", bayesian(lambda: ed.layers.DenseBatchEnsemble(8, ensemble_size=2, activation="relu"),
                                      lambda: ed.layers.DenseBatchEnsemble(4, ensemble_size=2))
    yield "edward_spectral", bayesian(lambda: ed.layers.SpectralNormalization(K.layers.Dense(8)),
                                      lambda: Mean(ed.layers.RandomFeatureGaussianProcess(4, num_inducing=16)))


def addons_layers():
    yield "maxout", dense(lambda: tfa.layers.Maxout(4))
    yield "sparsemax", dense(lambda: K.layers.Activation(tfa.activations.sparsemax))
    yield "activations", dense(*(lambda f=f: K.layers.Activation(f) for f in (
        tfa.activations.gelu, tfa.activations.lisht, tfa.activations.mish, tfa.activations.snake, tfa.activations.softshrink,
        tfa.activations.hardshrink, tfa.activations.tanhshrink, tfa.activations.rrelu)))
    yield "weight_normalization", of_pictures(lambda: tfa.layers.WeightNormalization(K.layers.Conv2D(8, 3)), lambda: tfa.layers.InstanceNormalization())
    yield "spectral_normalization", of_pictures(lambda: tfa.layers.SpectralNormalization(K.layers.Conv2D(8, 3)))
    yield "group_normalization", of_pictures(lambda: tfa.layers.GroupNormalization(4), lambda: tfa.layers.FilterResponseNormalization(),
                                             lambda: tfa.layers.TLU())
    yield "adaptive_pooling", of_pictures(lambda: tfa.layers.AdaptiveAveragePooling2D(4), lambda: tfa.layers.AdaptiveMaxPooling2D(2))
    yield "pyramid_pooling", of_pictures(lambda: tfa.layers.SpatialPyramidPooling2D([1, 3]))
    yield "esn", of_sequence(lambda: tfa.layers.ESN(8))
    yield "noisy_dense", dense(lambda: tfa.layers.NoisyDense(8))
    yield "poincare", dense(lambda: tfa.layers.PoincareNormalize())
    yield "stochastic_depth", of_pictures(lambda: K.layers.Lambda(
        lambda x: tfa.layers.StochasticDepth(0.7)([x, x * 0.5], training=True)))
    yield "multi_head_attention", of_sequence(lambda: Attending())
    yield "norm_lstm", of_sequence(lambda: K.layers.RNN(tfa.rnn.LayerNormLSTMCell(6), return_sequences=True))
    yield "nas_cell", of_sequence(lambda: K.layers.RNN(tfa.rnn.NASCell(6), return_sequences=True))
    yield "peephole_cell", of_sequence(lambda: K.layers.RNN(tfa.rnn.PeepholeLSTMCell(6), return_sequences=True))


class Attending(K.layers.Layer):
    def __init__(self):
        super().__init__()
        self.attention = tfa.layers.MultiHeadAttention(head_size=4, num_heads=2)

    def call(self, x):
        return self.attention([x, x, x])


def addons_optimizers():
    tfo, adam = tfa.optimizers, lambda: K.optimizers.legacy.Adam(1e-2)
    best = {"lamb": lambda: tfo.LAMB(1e-2), "adamw": lambda: tfo.AdamW(weight_decay=1e-3, learning_rate=1e-2),
            "lookahead": lambda: tfo.Lookahead(adam(), sync_period=2), "moving_average": lambda: tfo.MovingAverage(adam()),
            "swa": lambda: tfo.SWA(adam(), start_averaging=0, average_period=2), "rectified": lambda: tfo.RectifiedAdam(1e-2),
            "novograd": lambda: tfo.NovoGrad(1e-2), "yogi": lambda: tfo.Yogi(1e-2), "proximal": lambda: tfo.ProximalAdagrad(1e-2),
            "adabelief": lambda: tfo.AdaBelief(1e-2), "conditional": lambda: tfo.ConditionalGradient(0.1, 1.0, ord="fro"),
            "lazy": lambda: tfo.LazyAdam(1e-2), "sgdw": lambda: tfo.SGDW(1e-3, 1e-2, momentum=0.9),
            "cyclical": lambda: K.optimizers.legacy.SGD(tfo.Triangular2CyclicalLearningRate(1e-3, 1e-1, 2))}
    feeds = {"x": RNG.integers(0, 20, (4, 5)).astype(np.int32), "labels": RNG.integers(0, 4, 4).astype(np.int32)}
    for name, optimizer in best.items():
        yield f"optimizer_{name}", keras_2(lambda: K.Sequential([K.layers.Embedding(20, 8), K.layers.GlobalAveragePooling1D(), K.layers.Dense(4)]),
                                           cross_entropy, feeds, optimizer=optimizer, steps=5)


def addons_losses():
    yield "triplet_semihard", embedded(tfa.losses.TripletSemiHardLoss())
    yield "triplet_hard", embedded(tfa.losses.TripletHardLoss(soft=True))
    yield "lifted_struct", embedded(tfa.losses.LiftedStructLoss())
    yield "npairs", dense(loss=lambda outputs, labels, **feeds: tfa.losses.NpairsLoss()(labels, outputs @ tf.transpose(outputs)), outputs=8)
    yield "giou", dense(loss=lambda outputs, labels, **feeds: tfa.losses.GIoULoss()(
        tf.abs(feeds["boxes"]), tf.abs(outputs)), feeds={**labelled(8, 6), "boxes": floats(RNG, 8, 4)})
    yield "focal", dense(loss=lambda outputs, labels, **feeds: tf.reduce_mean(
        tfa.losses.SigmoidFocalCrossEntropy(from_logits=True)(tf.one_hot(labels, 4), outputs)))
    yield "pinball", dense(loss=lambda outputs, labels, **feeds: tfa.losses.PinballLoss(0.3)(tf.cast(labels, tf.float32)[:, None], outputs))
    yield "kappa", dense(loss=lambda outputs, labels, **feeds: tfa.losses.WeightedKappaLoss(4)(tf.one_hot(labels, 4), tf.nn.softmax(outputs)))
