"""What the programs of guest_*.py are built from: variables by name, updates by hand, layers."""
import numpy as np
import tensorflow as tf

from world_nets import F32, integers, numbers
from zoo import eager, function_net

tf1 = tf.compat.v1


class Vars:
    """Trainable variables of the program, made where they are first named: v("conv", 3, 3, 8, 16)."""

    def __init__(self):
        self.made, self.held = {}, {}

    def __call__(self, name, *shape, value=None):
        if name not in self.made:
            fan_in = int(np.prod(shape[:-1])) if len(shape) > 1 else 0
            if value is not None:
                initial = np.full(shape, value, F32)
            elif fan_in:
                initial = numbers(*shape, seed=len(self.made) + 17) / F32(np.sqrt(fan_in))
            else:
                initial = np.zeros(shape, F32)
            self.made[name] = tf.Variable(initial, name=name)
        return self.made[name]

    def hold(self, name, value):
        """A variable that does not train."""
        if name not in self.held:
            self.held[name] = tf.Variable(value, trainable=False, name=name)
        return self.held[name]

    @property
    def list(self):
        return list(self.made.values())

    def dense(self, name, x, size, bias=True):
        y = tf.tensordot(x, self(name, x.shape[-1], size), 1)
        return y + self(f"{name}_b", size) if bias else y

    def conv(self, name, x, filters, size=3, stride=1, padding="SAME", dilation=1):
        kernel = self(name, size, size, x.shape[-1], filters)
        return tf.nn.conv2d(x, kernel, stride, padding, dilations=dilation) + self(f"{name}_b", filters)

    def norm(self, name, x, axes=(-1,)):
        mean, variance = tf.nn.moments(x, axes, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * self(f"{name}_g", x.shape[-1], value=1) + self(f"{name}_s", x.shape[-1])

    def group_norm(self, name, x, groups=4):
        shape = tf.shape(x)
        parts = tf.reshape(x, [shape[0], shape[1], shape[2], groups, x.shape[-1] // groups])
        mean, variance = tf.nn.moments(parts, [1, 2, 4], keepdims=True)
        parts = (parts - mean) * tf.math.rsqrt(variance + 1e-5)
        return tf.reshape(parts, shape) * self(f"{name}_g", x.shape[-1], value=1) + self(f"{name}_s", x.shape[-1])


def gradients_of(v, loss, *arguments, **named):
    """(loss, what else it returned, gradients of v.list); variables are made by a first call outside the tape."""
    with tf.GradientTape() as tape:
        value = loss(v, *arguments, **named)
        value, *more = value if isinstance(value, tuple) else (value,)
    return value, more, tape.gradient(value, v.list)


def descend(variables, gradients, rate=0.05):
    for variable, gradient in zip(variables, gradients):
        if isinstance(gradient, tf.IndexedSlices):
            variable.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
        elif gradient is not None:
            variable.assign_sub(rate * gradient)


class Adam:
    """By hand, with slots and a step of its own."""

    def __init__(self, v, variables=None, rate=1e-3, name="adam", decay=0.0):
        self.variables = variables or v.list
        self.rate, self.decay = rate, decay
        self.m = [tf.Variable(tf.zeros_like(x), trainable=False, name=f"{name}_m") for x in self.variables]
        self.s = [tf.Variable(tf.zeros_like(x), trainable=False, name=f"{name}_s") for x in self.variables]
        self.step = tf.Variable(0, trainable=False, name=f"{name}_step", dtype=tf.int64)

    def apply(self, gradients):
        t = tf.cast(self.step.assign_add(1), tf.float32)
        rate = self.rate * tf.sqrt(1.0 - tf.pow(0.999, t)) / (1.0 - tf.pow(0.9, t))
        for x, m, s, g in zip(self.variables, self.m, self.s, gradients):
            if g is None:
                continue
            g = tf.convert_to_tensor(g)
            m.assign(0.9 * m + 0.1 * g)
            s.assign(0.999 * s + 0.001 * g * g)
            x.assign_sub(rate * m / (tf.sqrt(s) + 1e-6) + self.decay * self.rate * x)


def trained(loss, feeds, optimizer=None, **more):
    """The case of loss(v, **feeds) with its gradients applied by plain descent or by optimizer(v).apply."""
    def build():
        v = Vars()
        loss(v, **{name: tf.constant(value) for name, value in feeds.items()})
        made = optimizer(v) if optimizer else None

        def step(**values):
            value, others, gradients = gradients_of(v, loss, **values)
            made.apply(gradients) if made else descend(v.list, gradients)
            return (value, *others)
        return function_net(step, feeds, **more)
    return eager(build)


def stepped(make, feeds, **more):
    """The case of make(v) -> step(**feeds), which updates what it likes. v is empty: the step's first trace makes variables."""
    def build():
        v = Vars()
        step = make(v, {name: tf.constant(value) for name, value in feeds.items()})
        return function_net(step, feeds, **more)
    return eager(build)


def softmax_loss(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(y, tf.int32), logits))


def images(batch=4, size=32, channels=3, seed=0):
    return numbers(batch, size, size, channels, seed=seed)


__all__ = ["F32", "Adam", "Vars", "descend", "eager", "function_net", "gradients_of", "images", "integers", "np", "numbers",
           "softmax_loss", "stepped", "tf", "tf1", "trained"]
