"""Training steps of models from packages: a tape around a loss, and the optimizer that the package's users take."""
import numpy as np
import tensorflow as tf

from zoo import eager, function_net


def taped(make, feeds, **more):
    """A case. make() -> (loss(**feeds) -> scalar, variables() -> list, apply(gradients, variables))."""
    def build():
        loss, variables, apply = make()

        def step(**values):
            with tf.GradientTape() as tape:
                value = loss(**values)
            weights = variables()
            pairs = [(g, v) for g, v in zip(tape.gradient(value, weights), weights) if g is not None]
            apply(*zip(*pairs))
            return value

        return function_net(step, feeds, **more)
    return eager(build)


def keras_2(make, loss, feeds, inputs=("x",), optimizer=None, **more):
    """A case of a tf_keras model; loss(outputs, **feeds) -> scalar."""
    def parts():
        model = make()
        given = [tf.constant(feeds[name]) for name in inputs]
        model(given if len(given) > 1 else given[0])
        best = optimizer() if optimizer else tf.keras.optimizers.Adam(1e-3)
        if hasattr(best, "build"):
            best.build(model.trainable_variables)

        def value(**values):
            given = [values[name] for name in inputs]
            result = loss(model(given if len(given) > 1 else given[0], training=True), **values)
            return result + tf.add_n(model.losses) if model.losses else result

        return value, lambda: model.trainable_variables, lambda grads, weights: best.apply_gradients(zip(grads, weights))
    return taped(parts, feeds, **more)


def cross_entropy(outputs, labels, **feeds):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs))


def squared_error(outputs, labels, **feeds):
    return tf.reduce_mean(tf.math.squared_difference(outputs, labels))


def binary_cross_entropy(outputs, labels, **feeds):
    return tf.reduce_mean(tf.keras.losses.binary_crossentropy(labels, outputs))


def floats(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def pictures(rng, size=32, batch=2, classes=4):
    return {"x": rng.uniform(size=(batch, size, size, 3)).astype(np.float32),
            "labels": rng.integers(0, classes, batch).astype(np.int32)}
