"""tf-slim: its nets under their arg scopes, as graphs of TensorFlow 1 with its losses, regularisers and train op."""
import sys

import numpy as np
import tensorflow as tf
import tf_keras.src.legacy_tf_layers as legacy_tf_layers

# TensorFlow 2.17 looks for the layers of TensorFlow 1 where tf_keras no longer has them.
sys.modules.setdefault("tf_keras.legacy_tf_layers", legacy_tf_layers)
import tf_slim as slim  # noqa: E402
from tf_slim.nets import alexnet, inception, resnet_v1, resnet_v2  # noqa: E402

from package_steps import pictures  # noqa: E402
from zoo import Net  # noqa: E402

tf1 = tf.compat.v1
RNG = np.random.default_rng(0)


def small(blocks):
    """Residual nets of a few narrow blocks."""
    def net(images, classes, **options):
        layers = [blocks.resnet_v1_block(f"block{i + 1}", base_depth=4 << i, num_units=2, stride=2) if blocks is resnet_v1
                  else blocks.resnet_v2_block(f"block{i + 1}", base_depth=4 << i, num_units=2, stride=2) for i in range(3)]
        make = blocks.resnet_v1 if blocks is resnet_v1 else blocks.resnet_v2
        logits, ends = make(images, layers, classes, is_training=True, global_pool=True, **options)
        return tf.squeeze(logits, [1, 2]), ends
    return net


# name: (net, arg scope, image size, options)
NETS = {
    "inception_v1": (inception.inception_v1, inception.inception_v3_arg_scope, 224, {}),
    "inception_v2": (inception.inception_v2, inception.inception_v3_arg_scope, 224, {"depth_multiplier": 0.25}),
    "inception_v3": (inception.inception_v3, inception.inception_v3_arg_scope, 139, {"depth_multiplier": 0.25}),
    "resnet_v1": (small(resnet_v1), resnet_v1.resnet_arg_scope, 64, {}),
    "resnet_v1_atrous": (small(resnet_v1), resnet_v1.resnet_arg_scope, 64, {"output_stride": 8}),
    "resnet_v2": (small(resnet_v2), resnet_v2.resnet_arg_scope, 64, {}),
    "alexnet_v2": (alexnet.alexnet_v2, alexnet.alexnet_v2_arg_scope, 224, {}),
}

OPTIMIZERS = {
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, 0.9),
    "rmsprop": lambda rate: tf1.train.RMSPropOptimizer(rate, decay=0.9, momentum=0.9, epsilon=1.0),
    "adam": lambda rate: tf1.train.AdamOptimizer(rate),
}


def training(name, optimizer):
    net, scope, size, options = NETS[name]

    def build():
        feeds = pictures(RNG, size)
        images = tf1.placeholder(tf.float32, feeds["x"].shape, name="x")
        labels = tf1.placeholder(tf.int32, feeds["labels"].shape, name="labels")
        with slim.arg_scope(scope()):
            logits, ends = net(images, 4, **options)
        logits = tf.reshape(logits, [2, -1])[:, :4]
        targets = tf.one_hot(labels, 4)
        tf1.losses.softmax_cross_entropy(targets, logits, label_smoothing=0.1)
        if "AuxLogits" in ends:
            tf1.losses.softmax_cross_entropy(targets, ends["AuxLogits"], weights=0.4)
        total = tf1.losses.get_total_loss()
        step = tf1.train.get_or_create_global_step()
        rate = tf1.train.exponential_decay(1e-3, step, 2, 0.94, staircase=True)
        for variable in slim.get_model_variables():
            tf1.summary.histogram(variable.op.name, variable)
        train = slim.learning.create_train_op(total, OPTIMIZERS[optimizer](rate))
        averages = tf1.train.ExponentialMovingAverage(0.999, step)
        with tf.control_dependencies([train]):
            train = averages.apply(tf1.trainable_variables())
        return Net(total, train, feeds, (tf.identity(logits, name="logits"),), rtol=5e-3, steps=2)
    return build


def cases():
    optimizers = list(OPTIMIZERS)
    return [(name, training(name, optimizers[i % 3])) for i, name in enumerate(NETS)]
