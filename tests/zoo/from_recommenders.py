"""Recommenders: DeepCTR's click models, TensorFlow Recommenders' layers and tasks, TensorFlow Lattice."""
import numpy as np
import tensorflow as tf
import tensorflow_lattice as tfl
import tensorflow_recommenders as tfrs
from deepctr import feature_column as fc
from deepctr import models as deepctr
from deepctr.models import sequence

from package_steps import binary_cross_entropy, floats, keras_2, squared_error, taped

RNG = np.random.default_rng(0)
BATCH = 6
FIELDS = [fc.SparseFeat(f"field{i}", 10 + i, embedding_dim=4) for i in range(3)] + [fc.DenseFeat("price", 1)]
FED = {**{f"field{i}": RNG.integers(0, 10, BATCH).astype(np.int32) for i in range(3)}, "price": floats(RNG, BATCH, 1)}
HIDDEN = {"dnn_hidden_units": (8, 4)}

CLICK_MODELS = {
    "deepfm": (deepctr.DeepFM, HIDDEN), "wdl": (deepctr.WDL, HIDDEN), "dcn": (deepctr.DCN, {"cross_num": 2, **HIDDEN}),
    "dcn_matrix": (deepctr.DCN, {"cross_num": 2, "cross_parameterization": "matrix", **HIDDEN}),
    "dcn_mix": (deepctr.DCNMix, HIDDEN), "xdeepfm": (deepctr.xDeepFM, {"cin_layer_size": (4, 4), **HIDDEN}),
    "nfm": (deepctr.NFM, HIDDEN), "afm": (deepctr.AFM, {}), "autoint": (deepctr.AutoInt, HIDDEN), "fibinet": (deepctr.FiBiNET, HIDDEN),
    "fgcnn": (deepctr.FGCNN, {"conv_kernel_width": (2, 2), "conv_filters": (3, 3), "new_maps": (2, 2), "pooling_width": (1, 1), **HIDDEN}),
    "ccpm": (deepctr.CCPM, {"conv_kernel_width": (2, 2), "conv_filters": (2, 2), **HIDDEN}), "onn": (deepctr.ONN, HIDDEN),
    "fwfm": (deepctr.FwFM, HIDDEN), "ifm": (deepctr.IFM, HIDDEN), "difm": (deepctr.DIFM, HIDDEN), "deepfefm": (deepctr.DeepFEFM, HIDDEN),
    "mlr": (deepctr.MLR, {}), "edcn": (deepctr.EDCN, {"cross_num": 2}),
}
ONE_COLUMN = ("mlr",)
CATEGORIES_ONLY = ("edcn", "ccpm", "afm")


def click(name):
    make, options = CLICK_MODELS[name]
    fields = FIELDS[:3] if name in CATEGORIES_ONLY else FIELDS
    feeds = {field.name: FED[field.name] for field in fields}
    order = list(feeds)

    def model():
        return make(fields, **options) if name in ONE_COLUMN else make(fields, fields, **options)
    return keras_2(model, binary_cross_entropy, {**feeds, "labels": RNG.integers(0, 2, (BATCH, 1)).astype(np.float32)}, order)


def history(make, **options):
    """Models of what a user clicked before."""
    columns = [fc.SparseFeat("user", 5, embedding_dim=4), fc.SparseFeat("item", 9, embedding_dim=4),
               fc.VarLenSparseFeat(fc.SparseFeat("hist_item", 9, embedding_dim=4, embedding_name="item"), maxlen=4, length_name="seq_length")]
    feeds = {"user": RNG.integers(0, 5, BATCH).astype(np.int32), "item": RNG.integers(1, 9, BATCH).astype(np.int32),
             "hist_item": RNG.integers(1, 9, (BATCH, 4)).astype(np.int32), "seq_length": RNG.integers(1, 5, BATCH).astype(np.int32)}

    return keras_2(lambda: make(columns, ["item"], **options), binary_cross_entropy,
                   {**feeds, "labels": RNG.integers(0, 2, (BATCH, 1)).astype(np.float32)}, list(feeds))


def retrieval(**options):
    def make():
        users, items = tf.keras.layers.Embedding(20, 8), tf.keras.layers.Embedding(30, 8)
        users.build(None), items.build(None)
        task = tfrs.tasks.Retrieval(**options)
        best = tf.keras.optimizers.Adagrad(0.1)
        weights = users.trainable_variables + items.trainable_variables
        best.build(weights)
        return (lambda user, item: task(users(user), items(item), compute_metrics=False), lambda: weights,
                lambda grads, variables: best.apply_gradients(zip(grads, variables)))
    return taped(make, {"user": RNG.integers(0, 20, BATCH).astype(np.int32), "item": RNG.integers(0, 30, BATCH).astype(np.int32)})


def feature_net(*layers):
    return keras_2(lambda: tf.keras.Sequential([*(layer() for layer in layers), tf.keras.layers.Dense(1)]), squared_error,
                   {"x": floats(RNG, BATCH, 5), "labels": floats(RNG, BATCH, 1)})


def dot_interaction():
    def make():
        inputs = [tf.keras.Input((4,)) for _ in range(3)]
        return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(tfrs.layers.dcn.Cross()(tfrs.layers.feature_interaction.DotInteraction()(inputs))))
    feeds = {name: floats(RNG, BATCH, 4) for name in "abc"}
    return keras_2(make, squared_error, {**feeds, "labels": floats(RNG, BATCH, 1)}, "abc")


def lattice(**options):
    def make():
        inputs = tf.keras.Input((2,))
        calibrated = tfl.layers.PWLCalibration(np.linspace(-2.0, 2.0, 5), units=2, output_min=0.0, output_max=1.0,
                                               monotonicity="increasing")(inputs)
        return tf.keras.Model(inputs, tfl.layers.Lattice([2, 2], monotonicities=["increasing", "none"], **options)(calibrated))
    return keras_2(make, squared_error, {"x": floats(RNG, BATCH, 2), "labels": floats(RNG, BATCH, 1)})


def cases():
    yield from ((f"deepctr_{name}", click(name)) for name in CLICK_MODELS)
    yield "deepctr_din", history(sequence.DIN, dnn_hidden_units=(8, 4))
    yield "deepctr_bst", history(sequence.BST, dnn_hidden_units=(8, 4), att_head_num=2)
    yield "tfrs_retrieval", retrieval()
    yield "tfrs_retrieval_hard_negatives", retrieval(num_hard_negatives=2, temperature=0.5)
    yield "tfrs_cross", feature_net(tfrs.layers.dcn.Cross, lambda: tfrs.layers.dcn.Cross(projection_dim=2))
    yield "tfrs_multi_layer_cross", feature_net(lambda: tfrs.layers.feature_interaction.MultiLayerDCN(projection_dim=2, num_layers=2))
    yield "tfrs_dot_interaction", dot_interaction()
    yield "lattice_hypercube", lattice()
    yield "lattice_simplex", lattice(interpolation="simplex")
