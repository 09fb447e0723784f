"""Pictures, sounds and smaller nets: StarDist, CSBDeep, Keras GPT-2 and its kin, Kapre, quantisation, pruning, clustering."""
import kapre
import keras_gpt_2
import keras_multi_head
import keras_transformer
import numpy as np
import tensorflow as tf
import tensorflow_model_optimization as tfmot
from csbdeep.internals import losses as csb_losses
from csbdeep.internals import nets
from stardist.models import base as stardist_base

from package_steps import cross_entropy, floats, keras_2, pictures, taped

RNG = np.random.default_rng(0)
K = tf.keras


def pixels(size=32, channels=1, outputs=1):
    return {"x": RNG.uniform(size=(2, size, size, channels)).astype(np.float32), "labels": RNG.uniform(size=(2, size, size, outputs)).astype(np.float32)}


def restored(loss, prob=False, **options):
    """A U-Net that restores pictures, by one of CSBDeep's losses."""
    make = lambda: nets.custom_unet((32, 32, 1), "linear", n_depth=2, n_filter_base=4, kernel_size=(3, 3), pool_size=(2, 2), prob_out=prob, **options)
    return keras_2(make, lambda outputs, labels, **feeds: tf.reduce_mean(loss(labels, outputs)), pixels(), rtol=2e-3)


def stars():
    """Distances along 8 rays and the probability of an object, with the masked losses of StarDist."""
    def make():
        given = K.Input((32, 32, 1))
        features = nets.unet_block(n_depth=2, n_filter_base=4, kernel_size=(3, 3), pool=(2, 2))(given)
        return K.Model(given, [K.layers.Conv2D(1, 1, activation="sigmoid")(features), K.layers.Conv2D(8, 1)(features)])

    def loss(outputs, labels, **feeds):
        mask = tf.cast(labels > 0.5, tf.float32)
        distance = stardist_base.masked_loss_mae(mask, reg_weight=1e-4)(tf.concat([labels] * 8, -1), outputs[1])
        overlap = stardist_base.masked_loss_iou(mask, reg_weight=1e-4)(tf.concat([labels + 0.1] * 8, -1), tf.abs(outputs[1]) + 0.1)
        return tf.reduce_mean(distance) + tf.reduce_mean(overlap) + tf.reduce_mean(K.losses.binary_crossentropy(mask, outputs[0]))
    return keras_2(make, loss, pixels(), rtol=2e-3)


def words(length=8):
    return {"x": RNG.integers(1, 30, (2, length)).astype(np.int32), "labels": RNG.integers(0, 3, 2).astype(np.int32)}


def of_sequence(layer):
    return keras_2(lambda: K.Sequential([layer(), K.layers.Flatten(), K.layers.Dense(4)]), cross_entropy,
                   {"x": floats(RNG, 4, 7, 8), "labels": RNG.integers(0, 4, 4).astype(np.int32)})


def small_net():
    return K.Sequential([K.layers.Conv2D(8, 3, input_shape=(16, 16, 3)), K.layers.BatchNormalization(), K.layers.ReLU(), K.layers.MaxPool2D(),
                         K.layers.DepthwiseConv2D(3), K.layers.Flatten(), K.layers.Dense(4)])


def pruned():
    """Weights that are cut away more and more; the step of the schedule is counted here, as the package's callback does."""
    schedule = tfmot.sparsity.keras.PolynomialDecay(0.2, 0.8, 0, 3, frequency=1)
    model = tfmot.sparsity.keras.prune_low_magnitude(small_net(), pruning_schedule=schedule)
    best = K.optimizers.legacy.Adam(1e-3)
    counts = [layer.pruning_step for layer in model.layers if hasattr(layer, "pruning_step")]

    def loss(x, labels):
        with tf.control_dependencies([count.assign_add(1) for count in counts]):
            return cross_entropy(model(tf.identity(x), training=True), labels)
    for count in counts:
        count.assign(0)
    return loss, lambda: model.trainable_variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))


def clustered(**options):
    start = tfmot.clustering.keras.CentroidInitialization.LINEAR
    return tfmot.clustering.keras.cluster_weights(small_net(), number_of_clusters=4, cluster_centroids_init=start, **options)


def sounds(*layers):
    feeds = {"x": floats(RNG, 2, 800, 1), "labels": RNG.integers(0, 4, 2).astype(np.int32)}
    return keras_2(lambda: K.Sequential([*(layer() for layer in layers), K.layers.Conv2D(4, 3), K.layers.GlobalAveragePooling2D(), K.layers.Dense(4)]),
                   cross_entropy, feeds, rtol=2e-3)


def cases():
    yield "csbdeep_mae", restored(csb_losses.loss_mae(), residual=True)
    yield "csbdeep_laplace", restored(csb_losses.loss_laplace(), prob=True, batch_norm=True, dropout=0.1)
    yield "stardist", stars()
    yield "keras_gpt_2", keras_2(lambda: keras_gpt_2.get_model(30, 8, 16, 2, 2, batch_size=2), lambda outputs, labels, **feeds: tf.reduce_mean(
        outputs ** 2), words())
    yield "keras_transformer", keras_2(lambda: keras_transformer.get_model(30, 16, 1, 1, 2, 32), lambda outputs, labels, **feeds: tf.reduce_mean(
        outputs ** 2), {**words(), "y": RNG.integers(1, 30, (2, 6)).astype(np.int32)}, inputs=("x", "y"))
    yield "keras_multi_head", of_sequence(lambda: keras_multi_head.MultiHeadAttention(2))
    yield "kapre_stft", sounds(lambda: kapre.STFT(n_fft=128, hop_length=64, input_shape=(800, 1)), kapre.Magnitude, kapre.MagnitudeToDecibel,
                               lambda: kapre.Delta(win_length=5))
    yield "quantization_aware", keras_2(lambda: tfmot.quantization.keras.quantize_model(small_net()), cross_entropy, pictures(RNG, 16), rtol=5e-3)
    yield "pruning", taped(pruned, pictures(RNG, 16))
    yield "clustering", keras_2(clustered, cross_entropy, pictures(RNG, 16))
    yield "clustering_sparse", keras_2(lambda: clustered(preserve_sparsity=True), cross_entropy, pictures(RNG, 16))
