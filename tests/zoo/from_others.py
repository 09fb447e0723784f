"""Attacks of cleverhans inside the step, losses of detectors, constrained problems, the U-Nets that Spleeter separates with."""
import numpy as np
import tensorflow as tf
import tensorflow_constrained_optimization as tfco
from cleverhans.tf2.attacks.fast_gradient_method import fast_gradient_method
from cleverhans.tf2.attacks.momentum_iterative_method import momentum_iterative_method
from cleverhans.tf2.attacks.projected_gradient_descent import projected_gradient_descent
from keras_retinanet import losses as retina_losses
from keras_retinanet.initializers import PriorProbability
from keras_retinanet.layers import UpsampleLike
from spleeter.model.functions import unet

from package_steps import cross_entropy, floats, keras_2, pictures, taped

K = tf.keras
RNG = np.random.default_rng(0)


def small_net():
    return K.Sequential([K.layers.Conv2D(8, 3, activation="relu", input_shape=(16, 16, 3)), K.layers.MaxPool2D(), K.layers.Flatten(), K.layers.Dense(4)])


def hardened(attack):
    """A net trained on the pictures that an attack on it makes."""
    def make():
        model, best = small_net(), K.optimizers.legacy.Adam(1e-2)

        def loss(x, labels):
            worse = tf.stop_gradient(attack(model, x, tf.cast(labels, tf.int64)))
            return cross_entropy(model(worse), labels) + cross_entropy(model(x), labels)
        return loss, lambda: model.trainable_variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))
    return taped(make, pictures(RNG, 16, 4), rtol=5e-3)


def retina():
    """Two levels of a pyramid with the heads of RetinaNet; anchors are ignored, background or objects."""
    def make():
        given = K.Input((32, 32, 3))
        low = K.layers.Conv2D(8, 3, strides=4, padding="same", activation="relu")(given)
        high = K.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(low)
        low = K.layers.Add()([UpsampleLike()([high, low]), low])
        classes = K.layers.Conv2D(6, 3, padding="same", activation="sigmoid", bias_initializer=PriorProbability(0.01))
        boxes = K.layers.Conv2D(8, 3, padding="same")
        join = lambda head, width: K.layers.Concatenate(axis=1)([K.layers.Reshape((-1, width))(head(level)) for level in (low, high)])
        return K.Model(given, [join(boxes, 4), join(classes, 3)])

    def loss(outputs, boxes, labels, **feeds):
        return retina_losses.smooth_l1()(boxes, outputs[0]) + retina_losses.focal()(labels, outputs[1])
    state = RNG.integers(-1, 2, (2, 160, 1)).astype(np.float32)
    kinds = np.eye(3, dtype=np.float32)[RNG.integers(0, 3, (2, 160))] * (state == 1)
    return keras_2(make, loss, {"x": pictures(RNG)["x"], "boxes": np.concatenate([floats(RNG, 2, 160, 4), state], -1),
                                "labels": np.concatenate([kinds, state], -1).astype(np.float32)}, rtol=5e-3)


def constrained(kind):
    """A rate that is held above a bound while hinges are minimised, by Lagrangians or by proxies that play for themselves."""
    def make():
        weights, bias = tf.Variable(floats(RNG, 5, 1) * 0.1), tf.Variable([0.0])
        held = {}

        def scores():
            return (tf.matmul(held["x"], weights) + bias)[:, 0]
        context = tfco.rate_context(scores, lambda: held["labels"])
        problem = tfco.RateMinimizationProblem(tfco.error_rate(context), [tfco.recall(context) >= 0.9, tfco.positive_prediction_rate(context) <= 0.8])
        value, update, multipliers = kind(problem)
        trained = [weights, bias, *problem.trainable_variables, *multipliers]
        best = K.optimizers.legacy.Adam(1e-2)

        def loss(x, labels):
            held.update(x=x, labels=labels)
            return value()
        held.update(x=tf.zeros((8, 5)), labels=tf.zeros(8))
        return loss, lambda: trained, lambda grads, used: (best.apply_gradients(zip(grads, used)), update())
    return taped(make, {"x": floats(RNG, 8, 5), "labels": RNG.integers(0, 2, 8).astype(np.float32)})


def lagrangian(problem):
    value, update, multipliers = tfco.create_lagrangian_loss(problem)
    return value, update, [multipliers]


def separated():
    """Masks of two instruments over the spectrum of a mixture."""
    def make():
        given = K.Input((64, 64, 2))
        with_mask = unet.softmax_unet(given, ["voice", "rest"], {"conv_n_filters": [4, 4, 8, 8, 8, 8]})
        return K.Model(given, [with_mask[name] for name in sorted(with_mask)])
    return keras_2(make, lambda outputs, labels, **feeds: tf.reduce_mean(tf.abs(outputs[0] - labels)) + tf.reduce_mean(tf.abs(outputs[1] + labels)),
                   {"x": np.abs(floats(RNG, 2, 64, 64, 2)), "labels": np.abs(floats(RNG, 2, 64, 64, 2))}, rtol=5e-3)


def cases():
    yield "attack_fast", hardened(lambda model, x, labels: fast_gradient_method(model, x, 0.1, np.inf, y=labels, clip_min=0.0, clip_max=1.0))
    yield "attack_fast_l1", hardened(lambda model, x, labels: fast_gradient_method(model, x, 0.5, 1, y=labels))
    yield "attack_fast_l2", hardened(lambda model, x, labels: fast_gradient_method(model, x, 0.5, 2))
    yield "attack_projected", hardened(lambda model, x, labels: projected_gradient_descent(
        model, x, 0.3, 0.1, 3, np.inf, y=labels, rand_init=True, rand_minmax=0.3))
    yield "attack_projected_l2", hardened(lambda model, x, labels: projected_gradient_descent(model, x, 0.5, 0.2, 3, 2, y=labels, rand_init=False))
    yield "attack_momentum", hardened(lambda model, x, labels: momentum_iterative_method(model, x, nb_iter=3, y=labels, sanity_checks=False))
    yield "retina", retina()
    yield "constrained_lagrangian", constrained(lagrangian)
    yield "separated", separated()
