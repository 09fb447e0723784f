"""Keras programs of kinds that strangers bring: augmentation inside the model, sounds, crossed and counted columns, adapted ranks of
weights, eight-bit weights, packed optimizers, losses that few use."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from zoo import eager, keras_net

F32 = np.float32


def rng(seed=0):
    return np.random.default_rng(seed)


def labelled(x, classes=5):
    return {"x": x, "labels": rng(7).integers(0, classes, len(x)).astype(np.int32)}


def images(size=16, batch=4):
    return labelled(rng().uniform(size=(batch, size, size, 3)).astype(F32))


def entropy(outputs, labels, **_):
    return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True))


def net(make_layers, feeds, loss=entropy, optimizer=lambda: keras.optimizers.SGD(0.05), prepare=None, **more):
    """The case of a Sequential model; prepare(model) may change it before its optimizer is built."""
    def build():
        model = keras.Sequential([keras.Input(batch_shape=feeds["x"].shape, dtype=feeds["x"].dtype), *make_layers()])
        if prepare is not None:
            prepare(model)
        return keras_net(model, loss, optimizer(), feeds, ["x"], **more)
    return eager(build)


def seen(*first):
    """What pictures go through, and a small net behind it."""
    return lambda: [*(make() for make in first), layers.Conv2D(6, 3, strides=2, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(5)]


def adapted(model):
    for layer in model.layers:
        if isinstance(layer, (layers.Dense, layers.Embedding, layers.EinsumDense)):
            layer.enable_lora(2)


def in_eight_bits(model):
    model.quantize("int8")
    adapted(model)


def of_pairs(loss):
    return lambda outputs, y, **_: tf.reduce_mean(loss(y, outputs))


def embeddings_in_circles(outputs, labels, **_):
    return keras.losses.Circle()(labels, tf.math.l2_normalize(outputs, -1))


class Functions(layers.Layer):
    """Functions of keras.ops that few layers take."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, x):
        return self.function(x)


def of_numbers(x):
    ranks = ops.median(x, axis=-1, keepdims=True) + ops.quantile(x, 0.3, axis=-1, keepdims=True)
    logs = ops.logaddexp(x, ops.flip(x, -1)) + ops.log2(1.0 + ops.square(x)) + ops.hypot(x, 1.0) + ops.cbrt(ops.abs(x) + 0.1)
    bent = ops.celu(x) + ops.glu(ops.concatenate([x, x], -1)) + ops.hard_shrink(x) + ops.squareplus(x) + ops.sparse_plus(x) + ops.tanh_shrink(x) + ops.sinc(x)
    return logs + bent + ranks + ops.nan_to_num(ops.std(x, axis=0)) + ops.trapezoid(x, axis=-1)[:, None] + ops.pad(ops.diff(x, axis=-1), ((0, 0), (1, 0)))


def of_matrices(x):
    m = ops.einsum("bi,bj->bij", x, x) / 8.0 + ops.eye(x.shape[-1]) * 2.0
    parts = ops.inv(m) + ops.cholesky(m) + ops.cholesky_inverse(ops.cholesky(m))
    return ops.diagonal(parts, axis1=1, axis2=2) + ops.logdet(m)[:, None] + ops.cdist(x, x + 1.0)[:, :1] + ops.linalg.norm(m, axis=(1, 2))[:, None] + ops.eigh(m + ops.diag(ops.arange(6.0)))[0]


def of_places(x):
    taken = ops.take_along_axis(x, ops.argsort(x, axis=-1), axis=-1) + ops.roll(x, 2, axis=-1) + ops.tril(ops.outer(x[0], x[1]))[:4]
    folded = ops.segment_sum(x, ops.array([0, 1, 1, 0]), num_segments=2)
    chosen = ops.switch(ops.array(1), [lambda y: y * 2.0, lambda y: y * 3.0], x)
    turned = ops.fori_loop(0, 3, lambda i, y: y + ops.sin(y) * 0.1, x)
    _, kept = ops.scan(lambda c, y: (c * 0.5 + y, c), ops.zeros((x.shape[-1],)), x)
    return taken + ops.repeat(folded, 2, axis=0) + chosen + turned + kept + ops.map(lambda y: y / (1.0 + ops.sum(y * y)), x) + ops.cast(ops.searchsorted(ops.sort(x[0]), x[:, 0])[:, None], "float32") * 0.01


def cases():
    rows = labelled(rng(1).normal(size=(4, 8)).astype(F32))
    for make in (layers.RandomErasing, layers.RandomGrayscale, layers.RandomElasticTransform, layers.RandomGaussianBlur, layers.RandomPosterization,
                 layers.RandomSharpness, layers.RandomSaturation, layers.RandomHue, layers.RandomColorDegeneration, layers.RandomInvert, layers.RandomPerspective,
                 layers.RandomShear, layers.RandomColorJitter, layers.RandAugment, layers.AugMix):
        options = {"RandomPosterization": {"factor": 4}, "RandomSharpness": {"factor": 0.5}, "RandomSaturation": {"factor": 0.3}, "RandomHue": {"factor": 0.2},
                   "RandomColorDegeneration": {"factor": 0.4}, "RandomShear": {"x_factor": 0.2, "y_factor": 0.2},
                   "RandomColorJitter": {"brightness_factor": 0.2, "contrast_factor": 0.2, "saturation_factor": 0.2, "hue_factor": 0.1}}.get(make.__name__, {})
        ranged = {} if make in (layers.RandomGrayscale, layers.RandomErasing) else {"value_range": (0, 1)}
        if make in (layers.RandomElasticTransform, layers.RandomGaussianBlur, layers.RandomPerspective, layers.RandomShear):
            ranged = {}
        yield make.__name__, net(seen(lambda make=make, options={**options, **ranged}: make(seed=3, **options)), images())
    yield "Equalized", net(seen(lambda: layers.Equalization(value_range=(0, 1)), lambda: layers.AutoContrast(value_range=(0, 1)), lambda: layers.Solarization(value_range=(0, 1))), images())
    yield "Pooled", net(lambda: [layers.Conv2D(6, 3), layers.AdaptiveAveragePooling2D((3, 5)), layers.AdaptiveMaxPooling2D(2), layers.Flatten(), layers.Dense(5)], images())
    sounds = labelled(rng(2).normal(size=(4, 1600)).astype(F32))
    yield "MelSpectrogram", net(lambda: [layers.MelSpectrogram(fft_length=256, sequence_stride=128, num_mel_bins=16), layers.Permute((2, 1)), layers.GRU(6), layers.Dense(5)], sounds)
    yield "ConvLSTM1D", net(lambda: [layers.ConvLSTM1D(4, 3, return_sequences=True), layers.ConvLSTM1D(3, 3), layers.Flatten(), layers.Dense(5)], labelled(rng().normal(size=(4, 3, 10, 2)).astype(F32)))
    yield "Stacked", net(lambda: [layers.Masking(), layers.RNN(layers.StackedRNNCells([layers.LSTMCell(5, recurrent_dropout=0.0), layers.GRUCell(4)])), layers.Dense(5)],
                         labelled(rng().normal(size=(4, 6, 3)).astype(F32) * (np.arange(6) < np.array([[3], [6], [1], [4]]))[..., None].astype(F32)))
    yield "lora", net(lambda: [layers.Embedding(20, 8), layers.EinsumDense("btd,de->bte", (None, 8), bias_axes="e", activation="gelu"), layers.GlobalAveragePooling1D(), layers.Dense(5)],
                      labelled(rng().integers(0, 20, (4, 7)).astype(np.int32)), prepare=adapted, optimizer=lambda: keras.optimizers.Adam(0.01))
    yield "words_in_eight_bits", net(lambda: [layers.Embedding(20, 8), layers.EinsumDense("btd,dhe->bthe", (7, 2, 4), bias_axes="he"), layers.Flatten(), layers.Dense(5)],
                                     labelled(rng().integers(0, 20, (4, 7)).astype(np.int32)), prepare=in_eight_bits)
    yield "eight_bits", net(lambda: [layers.Dense(16, activation="relu"), layers.Dense(5)], rows, prepare=in_eight_bits)
    yield "Discretized", net(lambda: [layers.Discretization([-1.0, 0.0, 0.5]), layers.CategoryEncoding(4, "count"), layers.Dense(5)], rows)
    for optimizer in (lambda: keras.optimizers.ScheduleFreeAdamW(0.01, warmup_steps=2), lambda: keras.optimizers.Adam(keras.optimizers.schedules.CosineDecayRestarts(0.01, 3), use_ema=True, ema_overwrite_frequency=2),
                      lambda: keras.optimizers.Adafactor(0.01, gradient_accumulation_steps=2), lambda: keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=0.01, global_clipnorm=0.5)):
        yield optimizer().name + "_packed", net(lambda: [layers.Dense(16, activation="mish"), layers.LayerNormalization(), layers.Dense(5)], rows, optimizer=optimizer, steps=5)
    pairs = {"x": rng(1).normal(size=(4, 8)).astype(F32), "y": rng(2).uniform(0.05, 1, size=(4, 3)).astype(F32)}
    for loss in (keras.losses.Dice(), keras.losses.Tversky(), keras.losses.BinaryFocalCrossentropy(True, label_smoothing=0.1), keras.losses.CategoricalFocalCrossentropy(),
                 keras.losses.CategoricalHinge(), keras.losses.LogCosh(), keras.losses.Poisson(), keras.losses.MeanSquaredLogarithmicError(),
                 keras.losses.KLDivergence(), keras.losses.CosineSimilarity()):
        yield loss.name, net(lambda: [layers.Dense(8, kernel_regularizer=keras.regularizers.OrthogonalRegularizer(0.1), kernel_constraint="unit_norm"), layers.Dense(3, activation="softmax")], pairs, of_pairs(loss))
    yield "circle", net(lambda: [layers.Dense(6)], rows, embeddings_in_circles)
    for function in (of_numbers, of_matrices, of_places):
        yield function.__name__, net(lambda function=function: [layers.Dense(6, activation="tanh"), Functions(function), layers.Dense(5)], rows)
