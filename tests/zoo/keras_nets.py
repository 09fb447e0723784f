"""Keras 3 applications at small sizes, and Keras layers in one net after another."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

from zoo import eager, keras_net

RNG = np.random.default_rng(0)


def image_feeds(size, batch=4, classes=10):
    return {"images": RNG.normal(size=(batch, size, size, 3)).astype(np.float32),
            "labels": RNG.integers(0, classes, batch).astype(np.int32)}


def cross_entropy(outputs, labels, **feeds):
    return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True))


def application(make, size, **options):
    def build():
        model = make(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None, **options)
        return keras_net(model, cross_entropy, keras.optimizers.SGD(1e-3, momentum=0.9), image_feeds(size),
                         ["images"], rtol=5e-3, check_variables=False, steps=2)
    return eager(build)


APPLICATIONS = {
    "resnet50v2": (keras.applications.ResNet50V2, 64, {}),
    "efficientnet_b0": (keras.applications.EfficientNetB0, 64, {}),
    "efficientnet_v2b0": (keras.applications.EfficientNetV2B0, 64, {}),
    "mobilenet": (keras.applications.MobileNet, 64, {"alpha": 0.25}),
    "mobilenet_v2": (keras.applications.MobileNetV2, 64, {"alpha": 0.35}),
    "mobilenet_v3_small": (keras.applications.MobileNetV3Small, 64, {}),
    "mobilenet_v3_large": (keras.applications.MobileNetV3Large, 64, {}),
    "densenet121": (keras.applications.DenseNet121, 64, {}),
    "inception_v3": (keras.applications.InceptionV3, 128, {}),
    "inception_resnet_v2": (keras.applications.InceptionResNetV2, 128, {}),
    "xception": (keras.applications.Xception, 72, {}),
    "convnext_tiny": (keras.applications.ConvNeXtTiny, 64, {}),
    "nasnet_mobile": (keras.applications.NASNetMobile, 96, {}),
    "vgg16": (keras.applications.VGG16, 32, {}),
}


def sequential(make_layers, feeds, loss=cross_entropy, inputs=("x",), optimizer=None, **more):
    def build():
        model = keras.Sequential([keras.Input(feeds["x"].shape[1:], dtype=feeds["x"].dtype), *make_layers()])
        return keras_net(model, loss, optimizer() if optimizer else keras.optimizers.Adam(1e-3), feeds, list(inputs),
                         **{"check_variables": False, **more})
    return eager(build)


def labelled(x, classes=5):
    return {"x": x, "labels": RNG.integers(0, classes, len(x)).astype(np.int32)}


def images(size=16, channels=3, batch=4):
    return labelled(RNG.uniform(size=(batch, size, size, channels)).astype(np.float32))


def sequence(steps=12, width=6, batch=4):
    return labelled(RNG.normal(size=(batch, steps, width)).astype(np.float32))


def volume():
    return labelled(RNG.normal(size=(2, 8, 8, 8, 2)).astype(np.float32))


def tokens(steps=12, batch=4):
    return labelled(RNG.integers(0, 50, (batch, steps)).astype(np.int32))


def head(count=5):
    return [layers.Flatten(), layers.Dense(count)]


LAYERS = {
    "augmentation_flip": (lambda: [layers.RandomFlip(seed=1), layers.Conv2D(4, 3), *head()], images()),
    "augmentation_contrast": (lambda: [layers.RandomContrast(0.3, seed=1), layers.Conv2D(4, 3), *head()], images()),
    "augmentation_brightness": (lambda: [layers.RandomBrightness(0.3, value_range=(0, 1), seed=1), *head()], images()),
    "augmentation_rotation": (lambda: [layers.RandomRotation(0.1, seed=1), layers.Conv2D(4, 3), *head()], images()),
    "augmentation_zoom": (lambda: [layers.RandomZoom(0.1, seed=1), layers.Conv2D(4, 3), *head()], images()),
    "augmentation_translation": (lambda: [layers.RandomTranslation(0.1, 0.1, seed=1), *head()], images()),
    "augmentation_crop": (lambda: [layers.RandomCrop(12, 12, seed=1), layers.Conv2D(4, 3), *head()], images()),
    "rescale_resize": (lambda: [layers.Rescaling(2.0, -1), layers.Resizing(20, 20), layers.CenterCrop(12, 12), *head()],
                       images()),
    "conv2d_transpose": (lambda: [layers.Conv2DTranspose(6, 3, 2, "same"), layers.LeakyReLU(), *head()], images()),
    "separable": (lambda: [layers.SeparableConv2D(8, 3, padding="same", dilation_rate=2), layers.DepthwiseConv2D(3),
                           layers.PReLU(shared_axes=[1, 2]), layers.GlobalAveragePooling2D(), layers.Dense(5)],
                  images()),
    "grouped": (lambda: [layers.Conv2D(8, 3, groups=1), layers.Conv2D(8, 3, groups=4), *head()], images()),
    "conv1d": (lambda: [layers.Conv1D(8, 3, padding="causal", dilation_rate=2), layers.SeparableConv1D(6, 3),
                        layers.MaxPooling1D(), layers.AveragePooling1D(2), layers.UpSampling1D(), *head()], sequence()),
    "conv1d_transpose": (lambda: [layers.Conv1DTranspose(6, 3, 2), layers.GlobalMaxPooling1D(), layers.Dense(5)],
                         sequence()),
    "depthwise1d": (lambda: [layers.DepthwiseConv1D(3), layers.ZeroPadding1D(1), layers.Cropping1D(1), *head()],
                    sequence()),
    "conv3d": (lambda: [layers.Conv3D(4, 3), layers.MaxPooling3D(), layers.Conv3DTranspose(3, 2, 2),
                        layers.UpSampling3D(), layers.AveragePooling3D(1), *head()], volume()),
    "norms": (lambda: [layers.Conv2D(8, 3), layers.GroupNormalization(4), layers.LayerNormalization(),
                       layers.UnitNormalization(), layers.BatchNormalization(renorm=False), *head()], images()),
    "rms_norm": (lambda: [layers.Dense(8), layers.RMSNormalization(), layers.SpectralNormalization(layers.Dense(6)),
                          *head()], sequence()),
    "activations": (lambda: [layers.Dense(8, activation=a) for a in (
        "elu", "selu", "softplus", "softsign", "relu6", "silu", "gelu", "hard_sigmoid", "mish", "exponential",
        "log_softmax", "tanh", "hard_silu", "leaky_relu", "celu", "squareplus", "soft_shrink", "hard_tanh",
        "log_sigmoid", "sparse_plus", "tanh_shrink", "sparsemax")] + head(), sequence()),
    "regularised": (lambda: [layers.Dense(16, kernel_regularizer=keras.regularizers.L1L2(0.01, 0.01), activity_regularizer="l2",
                                          bias_regularizer="l1"),
                             layers.Dense(8, kernel_regularizer=keras.regularizers.OrthogonalRegularizer()),
                             layers.ActivityRegularization(0.01), *head()], sequence()),
    "dropouts": (lambda: [layers.GaussianNoise(0.1, seed=1), layers.GaussianDropout(0.2, seed=2),
                          layers.AlphaDropout(0.2, seed=3), layers.SpatialDropout1D(0.3, seed=4),
                          layers.Dropout(0.5, noise_shape=(None, 1, 6), seed=5), *head()], sequence()),
    "lstm_unrolled": (lambda: [layers.LSTM(8, unroll=True, return_sequences=True, dropout=0.1, recurrent_dropout=0.1),
                               layers.Bidirectional(layers.GRU(6, unroll=True)), layers.Dense(5)], sequence(5)),
    "rnn_cells": (lambda: [layers.SimpleRNN(6, unroll=True, return_sequences=True),
                           layers.RNN([layers.GRUCell(6, reset_after=False), layers.LSTMCell(5)], unroll=True),
                           layers.Dense(5)], sequence(4)),
    "time_distributed": (lambda: [layers.TimeDistributed(layers.Dense(4)), *head()], sequence(4)),
    "embedding": (lambda: [layers.Embedding(50, 8, mask_zero=True), layers.LSTM(6, unroll=True), layers.Dense(5)],
                  tokens(5)),
    "reshape": (lambda: [layers.Permute((2, 1)), layers.Reshape((8, 9)), *head(3), layers.RepeatVector(2), *head()], sequence()),
    "discretize": (lambda: [layers.CategoryEncoding(50, "multi_hot"), layers.Dense(5)], tokens()),
    "upsample": (lambda: [layers.UpSampling2D(2, interpolation="bilinear"), layers.UpSampling2D(2),
                          layers.ZeroPadding2D(1), layers.Cropping2D(2), layers.MaxPooling2D(3, 2, "same"), *head()],
                 images(8)),
    "einsum_dense": (lambda: [layers.EinsumDense("abc,cd->abd", (12, 7), bias_axes="d"), *head()], sequence()),
}


def attention(make):
    def build():
        feeds = sequence()
        x = keras.Input((12, 6))
        y = make(x)
        model = keras.Model(x, layers.Dense(5)(layers.Flatten()(y)))
        return keras_net(model, cross_entropy, keras.optimizers.Adam(1e-3), feeds, ["x"], check_variables=False)
    return eager(build)


ATTENTION = {
    "attention_dot": lambda x: layers.Attention(use_scale=True, dropout=0.1)([x, x], use_causal_mask=True),
    "attention_additive": lambda x: layers.AdditiveAttention()([x, x]),
    "attention_heads": lambda x: layers.MultiHeadAttention(2, 4, dropout=0.1)(x, x, use_causal_mask=True),
    "attention_grouped": lambda x: layers.GroupQueryAttention(4, 4, 2)(x, x),
}

LOSSES = ("binary_crossentropy", "binary_focal_crossentropy", "categorical_crossentropy", "cosine_similarity", "huber",
          "categorical_focal_crossentropy", "hinge", "squared_hinge", "categorical_hinge", "kl_divergence", "log_cosh",
          "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_error",
          "mean_squared_logarithmic_error", "poisson", "dice", "tversky")


def many_losses():
    rng = np.random.default_rng(3)
    feeds = {"x": rng.normal(size=(8, 6)).astype(np.float32), "y": np.eye(5, dtype=np.float32)[rng.integers(0, 5, 8)]}

    def loss(outputs, y, **_):
        outputs = tf.nn.softmax(outputs)
        return tf.add_n([tf.reduce_mean(keras.losses.get(name)(y, outputs)) for name in LOSSES])
    return keras_net(keras.Sequential([keras.Input((6,)), layers.Dense(5)]), loss, keras.optimizers.Adam(0.01), feeds,
                     ["x"])


def ctc_and_metrics():
    rng = np.random.default_rng(3)
    feeds = {"x": rng.normal(size=(4, 10, 6)).astype(np.float32), "y": rng.integers(1, 5, (4, 3)).astype(np.int32)}
    metrics = [keras.metrics.MeanSquaredError(), keras.metrics.Mean(), keras.metrics.BinaryAccuracy(),
               keras.metrics.AUC(num_thresholds=20), keras.metrics.Precision(), keras.metrics.TopKCategoricalAccuracy(2),
               keras.metrics.MeanIoU(2), keras.metrics.F1Score(threshold=0.5)]

    def loss(outputs, y, **_):
        value = tf.reduce_mean(keras.losses.ctc(y, outputs))
        first = tf.one_hot(y[:, 0], 5)
        guess = tf.nn.softmax(outputs[:, 0, :5])
        for metric in metrics:
            metric.update_state(*([value] if isinstance(metric, keras.metrics.Mean) and type(metric) is keras.metrics.Mean
                                  else [first, guess]))
        return value
    return keras_net(keras.Sequential([keras.Input((10, 6)), layers.Dense(5)]), loss, keras.optimizers.Adam(0.01),
                     feeds, ["x"])


def mixed_precision(name):
    def build():
        feeds = images()
        policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy(name)
        model = keras.Sequential([keras.Input((16, 16, 3)), layers.Conv2D(8, 3, padding="same"),
                                  layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(),
                                  layers.LayerNormalization(), layers.Dense(8, "gelu"), layers.Dropout(0.1, seed=3),
                                  layers.Flatten(), layers.Dense(5, dtype="float32")])
        keras.config.set_dtype_policy(policy)
        scale = 128.0

        def loss(outputs, labels, **_):
            return cross_entropy(outputs, labels) * scale
        return keras_net(model, loss, keras.optimizers.SGD(0.01 / scale, momentum=0.9), feeds, ["x"], rtol=2e-2,
                         check_variables=False)
    return eager(build)


def cases():
    for name, (make, size, options) in APPLICATIONS.items():
        yield name, application(make, size, **options)
    for name, (make, feeds) in LAYERS.items():
        yield f"layer_{name}", sequential(make, feeds)
    for name, make in ATTENTION.items():
        yield f"layer_{name}", attention(make)
    yield "losses", eager(many_losses)
    yield "ctc_and_metrics", eager(ctc_and_metrics)
    yield "mixed_float16", mixed_precision("mixed_float16")
    yield "mixed_bfloat16", mixed_precision("mixed_bfloat16")
