#!/usr/bin/env python3
"""Writes tests/session/xla_ops.npz: a graph of XLA's ops as jax2tf writes them, what it is fed, and what TensorFlow makes of it:
of the families `specials` and `bits_and_places` what JAX does, since TensorFlow compiles extremes without regard to NaN, and walks windows in another order.

Needs TensorFlow and JAX (2.21 and 0.4.38 were used):  cd tests/session && python make_xla_ops.py
"""
import argparse
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from jax import lax
from jax.experimental import enable_x64, jax2tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops as xla

tf1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
CASES = []
INF, NAN = np.inf, np.nan
NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


def case(name, function, *arguments):
    CASES.append((name, function, arguments))


def floats(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def integers(low, high, *shape):
    return RANDOM.integers(low, high, shape).astype(np.int32)


def ints(*values):
    return np.array(values, np.int32)


def gradient(function, of=0):
    return jax.grad(lambda *arguments: jnp.sum(jnp.sin(function(*arguments))), of)


def dots():
    for name, numbers, left, right in [
            ("batched", (((2,), (1,)), ((0,), (0,))), floats(3, 4, 5), floats(3, 5, 2)),
            ("turned", (((1,), (2,)), ((0,), (0,))), floats(3, 5, 4), floats(3, 2, 5)),
            ("batch_behind", (((3,), (0,)), ((1, 2), (2, 1))), floats(2, 3, 4, 5), floats(5, 4, 3, 6)),
            ("two_sums", (((0, 2), (2, 1)), ((), ())), floats(3, 4, 5), floats(6, 5, 3)),
            ("outer", (((), ()), ((), ())), floats(3), floats(4)),
            ("inner", (((0,), (0,)), ((), ())), floats(5), floats(5)),
            ("heads", (((3,), (3,)), ((0, 2), (0, 2))), floats(2, 5, 3, 4), floats(2, 6, 3, 4))]:
        case("dot_" + name, lambda a, b, numbers=numbers: lax.dot_general(a, b, numbers), left, right)
    matrices = (((1,), (0,)), ((), ()))
    case("dot_bytes", lambda a, b: lax.dot_general(a, b, matrices, preferred_element_type=jnp.int32),
         integers(-9, 9, 3, 4).astype(np.int8), integers(-9, 9, 4, 2).astype(np.int8))
    case("dot_bfloat16", lambda a, b: lax.dot_general(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), matrices, preferred_element_type=jnp.float32),
         floats(3, 4), floats(4, 2))


def pads():
    for i, config in enumerate([((1, 2, 0), (0, 0, 0)), ((-1, 2, 1), (0, -1, 2)), ((0, 0, 3), (-2, -3, 1)), ((-3, 4, 0), (2, 1, 0))]):
        case(f"pad_{i}", lambda x, config=config: lax.pad(x, np.float32(1.5), config), floats(4, 3))


def convolution(name, images, kernel, **attrs):
    function = lambda x, k: lax.conv_general_dilated(x, k, **attrs)
    case("conv_" + name, function, images, kernel)
    case("conv_" + name + "_gradient", gradient(function, (0, 1)), images, kernel)


def convolutions():
    convolution("same", floats(2, 7, 6, 3), floats(3, 3, 3, 4), window_strides=(1, 1), padding="SAME", dimension_numbers=NHWC)
    convolution("strided", floats(2, 7, 6, 3), floats(3, 2, 3, 4), window_strides=(2, 3), padding="SAME", dimension_numbers=NHWC)
    convolution("unreached", floats(2, 8, 8, 3), floats(3, 3, 3, 4), window_strides=(2, 2), padding="VALID", dimension_numbers=NHWC)
    convolution("channels_first", floats(2, 3, 7, 6), floats(4, 3, 3, 3), window_strides=(2, 1), padding=((1, 0), (2, 2)), dimension_numbers=NCHW)
    convolution("dilated", floats(2, 9, 9, 2), floats(3, 3, 2, 4), window_strides=(1, 2), padding=((1, 2), (0, 3)), rhs_dilation=(2, 3),
                dimension_numbers=NHWC)
    convolution("cut", floats(2, 9, 9, 2), floats(3, 3, 2, 4), window_strides=(1, 2), padding=((-1, 2), (0, -3)), dimension_numbers=NHWC)
    convolution("groups", floats(2, 7, 6, 4), floats(3, 3, 2, 6), window_strides=(2, 1), padding="SAME", feature_group_count=2, dimension_numbers=NHWC)
    convolution("depthwise", floats(2, 7, 6, 4), floats(3, 3, 1, 8), window_strides=(1, 1), padding="SAME", feature_group_count=4,
                dimension_numbers=NHWC)
    convolution("batch_groups", floats(4, 7, 6, 3), floats(3, 3, 3, 4), window_strides=(2, 1), padding="SAME", batch_group_count=2,
                dimension_numbers=NHWC)
    convolution("transposed", floats(2, 4, 5, 3), floats(3, 3, 3, 4), window_strides=(1, 1), padding=((1, 2), (2, 1)), lhs_dilation=(2, 3),
                dimension_numbers=NHWC)
    convolution("transposed_groups", floats(2, 4, 5, 4), floats(3, 3, 2, 6), window_strides=(1, 1), padding=((1, 2), (2, 1)), lhs_dilation=(2, 2),
                feature_group_count=2, dimension_numbers=NHWC)
    convolution("both", floats(2, 4, 5, 3), floats(3, 3, 3, 4), window_strides=(2, 1), padding=((1, 2), (-2, 1)), lhs_dilation=(2, 3),
                dimension_numbers=NHWC)
    lines = ("NWC", "WIO", "NWC")
    convolution("line", floats(2, 9, 3), floats(3, 3, 4), window_strides=(2,), padding="SAME", dimension_numbers=lines)
    convolution("causal", floats(2, 9, 3), floats(3, 3, 4), window_strides=(1,), padding=((4, 0),), rhs_dilation=(2,), dimension_numbers=lines)
    convolution("line_transposed", floats(2, 9, 3), floats(4, 3, 4), window_strides=(1,), padding=((2, 2),), lhs_dilation=(2,), dimension_numbers=lines)
    volumes = ("NDHWC", "DHWIO", "NDHWC")
    convolution("volume", floats(2, 5, 6, 5, 2), floats(3, 2, 3, 2, 3), window_strides=(2, 1, 1), padding="SAME", dimension_numbers=volumes)
    convolution("volume_transposed", floats(1, 3, 2, 3, 2), floats(3, 3, 3, 2, 3), window_strides=(1, 1, 1), padding=((1, 2), (2, 1), (1, 1)),
                lhs_dilation=(2, 2, 1), dimension_numbers=volumes)
    convolution("patches", floats(2, 8, 8, 3), floats(4, 4, 3, 5), window_strides=(4, 4), padding="VALID", dimension_numbers=NHWC)
    convolution("whole", floats(2, 4, 4, 3), floats(4, 4, 3, 5), window_strides=(1, 1), padding="VALID", dimension_numbers=NHWC)


def gather(name, function, *arguments):
    case("gather_" + name, function, *arguments)
    case("gather_" + name + "_gradient", gradient(function), *arguments)


def gathers():
    x = floats(6, 5, 4)
    gather("rows", lambda x, i: x[i], x, ints(0, 5, 2, 9, -1))
    gather("columns", lambda x, i: x[:, i], x, ints(0, 4, 2))
    gather("last", lambda x, i: x[:, :, i], x, ints([0, 3], [3, 9]))
    gather("pairs", lambda x, i, j: x[i, j], x, ints(0, 5, 2), ints(1, 4, 7))
    gather("apart", lambda x, i, j: x[i, :, j], x, ints(0, 5, 2), ints(1, 3, 0))
    gather("along_axis", lambda x, i: jnp.take_along_axis(x, i, 1), x, integers(0, 5, 6, 3, 4))
    gather("along_last", lambda x, i: jnp.take_along_axis(x, i, 2), x, integers(-4, 6, 6, 5, 2))
    for mode in ("clip", "wrap", "fill"):
        gather(mode, lambda x, i, mode=mode: jnp.take(x, i, 1, mode=mode), x, ints(-3, 4, 9))
    gather("one", lambda x, i: x[i[0], 1], x, ints(3))
    gather("slices", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 3))), x, ints(0, 1, 2, 3, 4, 9))
    numbers = lax.GatherDimensionNumbers((1, 2, 3), (), (0, 2))
    gather("windows", lambda x, i: lax.gather(x, i, numbers, (2, 3, 2), mode="clip"), x, ints([0, 0], [4, 2], [9, -1]))
    gather("diagonal", lambda x: jnp.diagonal(x[:, :, 0]), x)


def scatters():
    x = floats(6, 5, 4)
    for op in ("add", "max", "min", "set"):
        case(f"scatter_{op}_rows", lambda x, i, u, op=op: getattr(x.at[i], op)(u), x, ints(0, 5, 2, 9), floats(4, 5, 4))
        case(f"scatter_{op}_columns", lambda x, i, u, op=op: getattr(x.at[:, i], op)(u), x, ints(0, 4, 2), floats(6, 3, 4))
    case("scatter_elements", lambda x, i, j, u: x.at[i, j, 1].add(u), x, ints(0, 5, 5), ints(1, 4, 4), floats(3))
    case("scatter_pairs", lambda x, i, j, u: x.at[i, j].set(u), x, ints(0, 5, 9), ints(1, 4, 4), floats(3, 4))
    case("scatter_at_constants", lambda x, u: x.at[jnp.array([1, 3])].set(u), x, floats(2, 5, 4))
    case("scatter_one", lambda x: x.at[0].set(0.0), x)
    case("scatter_slice", lambda x, u: x.at[1:3, ::2].add(u), x, floats(2, 3, 4))
    case("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 4), x, ints(0, 1, 1, 5, 2, 3))
    case("segment_max", lambda x, i: jax.ops.segment_max(x, i, 4), x, ints(0, 1, 1, 0, 2, 3))


def pool(name, start, op, size, strides, padding, x, **more):
    function = lambda x: lax.reduce_window(x, start, op, size, strides, padding, **more)
    case("window_" + name, function, x)
    if not more:
        case("window_" + name + "_gradient", gradient(function), x)


def windows():
    images = floats(2, 7, 6, 3)
    for name, start, op in (("max", -INF, lax.max), ("min", INF, lax.min), ("sum", 0.0, lax.add)):
        pool(name, start, op, (1, 2, 2, 1), (1, 2, 2, 1), "VALID", images)
        pool(name + "_same", start, op, (1, 3, 3, 1), (1, 2, 1, 1), "SAME", images)
        pool(name + "_channels_first", start, op, (1, 1, 3, 2), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 0), (0, 1)), floats(2, 3, 7, 6))
        pool(name + "_line", start, op, (1, 3, 1), (1, 2, 1), "SAME", floats(2, 7, 3))
        pool(name + "_volume", start, op, (1, 2, 3, 2, 1), (1, 2, 1, 2, 1), "SAME", floats(1, 5, 4, 5, 2))
        pool(name + "_dilated", start, op, (1, 3, 2, 1), (1, 1, 2, 1), "VALID", images, window_dilation=(1, 2, 2, 1))
        pool(name + "_of_dilated", start, op, (1, 3, 2, 1), (1, 2, 1, 1), ((0, 0), (1, 2), (0, 0), (0, 0)), images, base_dilation=(1, 2, 3, 1))
    case("window_product", lambda x: lax.reduce_window(x, 1.0, lax.mul, (1, 3, 2, 1), (1, 1, 2, 1), "SAME"), images)
    case("window_apart", lambda x: lax.reduce_window(x, -INF, lax.max, (2, 1, 1, 3), (1, 1, 1, 1), "SAME"), images)
    case("window_integers", lambda x: lax.reduce_window(x, np.int32(0), lax.add, (3, 2), (2, 1), "SAME"), integers(-9, 9, 6, 5))
    for name in ("cumsum", "cummax", "cummin", "cumprod"):
        case(name, lambda x, name=name: getattr(lax, name)(x, axis=1), floats(6, 5, 4))
    case("cumsum_reverse", lambda x: lax.cumsum(x, axis=0, reverse=True), floats(6, 5, 4))


def orders():
    x = floats(6, 5, 4)
    for axis in (0, 2):
        case(f"sort_{axis}", lambda x, axis=axis: jnp.sort(x, axis), x)
        case(f"argsort_{axis}", lambda x, axis=axis: jnp.argsort(x, axis), x)
    few = integers(0, 3, 9, 5)
    case("argsort_stable", lambda x: jnp.argsort(x, 0), few)
    case("argsort_descending", lambda x: jnp.argsort(x, 0, descending=True), few)
    case("sort_by_two", lambda a, b: lax.sort((a, b, a * 2), num_keys=2, dimension=0), integers(0, 3, 9, 4), floats(9, 4))
    case("permutation", lambda x: jax.random.permutation(jax.random.PRNGKey(1), x), x)
    for name in ("argmax", "argmin"):
        for axis in (0, 2):
            case(f"{name}_{axis}", lambda x, name=name, axis=axis: getattr(jnp, name)(x, axis), integers(0, 3, 5, 2, 6))
    case("reduce_sum", lambda x: lax.reduce(x, np.float32(2), lambda a, b: a + b, (1,)), x)
    case("reduce_max", lambda x: lax.reduce(x, np.float32(-INF), lax.max, (0, 2)), x)
    case("reduce_any", lambda x: lax.reduce(x > 0, False, lax.bitwise_or, (0,)), x)
    case("reduce_precision", lambda x: lax.reduce_precision(x, 8, 7), x)


def functions():
    """Elements joined by functions of a program's own, and products."""
    join = lambda a, b: jnp.logaddexp(a, b)
    for axes in ((0,), (1,), (0, 2), (1, 2), ()):
        case("reduce_logaddexp_" + "_".join(map(str, axes)), lambda x, axes=axes: lax.reduce(x, np.float32(-INF), join, axes), floats(5, 7, 3))
    case("reduce_maps", lambda x, y: lax.reduce((x, y), (np.float32(1), np.float32(0)), lambda a, b: (b[0] * a[0], b[0] * a[1] + b[1]), (0,)),
         floats(11, 4), floats(11, 4))
    case("reduce_last", lambda x: lax.reduce(x, np.float32(3), lambda a, b: b, (1,)), floats(3, 13, 2))
    case("reduce_nothing", lambda x: lax.reduce(x, np.float32(3), join, (1,)), floats(3, 0, 2))
    case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), floats(3, 7))
    case("cumlogsumexp_gradient", gradient(lambda x: lax.cumlogsumexp(x, 0, reverse=True)), floats(11, 3))
    case("window_last", lambda x: lax.reduce_window(x, np.float32(3), lambda a, b: b, (1, 3, 2, 1), (1, 2, 1, 1), "VALID"), floats(2, 6, 5, 3))
    case("reduce_velocities", lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.tanh(jnp.arctanh(a) + jnp.arctanh(b)), (1,)),
         np.tanh(0.3 * floats(5, 7)))
    case("reduce_lengths", lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.sinh(jnp.arcsinh(a) + jnp.arcsinh(b)), (1,)), 0.3 * floats(5, 7))
    case("reduce_remainders", lambda x: lax.reduce(x, np.int32(0), lambda a, b: lax.rem(a + b, np.int32(7)), (1,)), integers(0, 7, 5, 7))
    case("reduce_modulo", lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.round(jnp.mod(a + b, 7)), (1,)),
         integers(0, 7, 5, 7).astype(np.float32))
    case("window_logaddexp", lambda x: lax.reduce_window(x, np.float32(-INF), join, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"), floats(2, 6, 5, 3))
    x = floats(6, 5, 4)
    case("scatter_mul_rows", lambda x, i, u: x.at[i].mul(u), x, ints(0, 5, 2, 2, 9), floats(5, 5, 4))
    case("scatter_mul_columns", lambda x, i, u: x.at[:, i].mul(u), x, ints(0, 4, 2, 2), floats(6, 4, 4))
    case("scatter_mul_pairs", lambda x, i, j, u: x.at[i, j].mul(u), x, ints(0, 5, 5, 9), ints(1, 4, 4, 0), floats(4, 4))
    case("scatter_mul_one", lambda x, i, u: x.at[i].mul(u), x, np.array(3, np.int32), floats(5, 4))
    case("scatter_mul_far_apart", lambda x, i, u: x.at[i].mul(u), np.array([1e-30, 2, 1e30, 4], np.float32), ints(0, 0, 2, 2, 1),
         np.array([1e20, 2e20, 1e-25, 1e-25, -3], np.float32))
    case("scatter_mul_slice", lambda x, u: x.at[1:3, ::2].mul(u), x, floats(2, 3, 4))
    case("scatter_mul_integers", lambda x, i, u: x.at[i].mul(u), integers(-5, 5, 6, 3), ints(0, 5, 2, 2, 9), integers(-5, 5, 5, 3))
    case("segment_prod", lambda x, i: jax.ops.segment_prod(x, i, 4), x, ints(0, 1, 1, 5, 2, 3))


def specials():
    """Values that are no finite numbers, gradients among equal ones, and a function that the order matters to."""
    x = floats(5, 6)
    x[1, 2] = x[2, 3] = x[2, 5] = x[4, 1] = NAN
    x[0, 0] = x[4, 0] = INF
    x[3] = -INF
    for name in ("argmax", "argmin"):
        for dtype in (jnp.float32, jnp.bfloat16):
            case(f"{name}_nan_{jnp.dtype(dtype).name}", lambda x, name=name, dtype=dtype: getattr(jnp, name)(x.astype(dtype), 1), x)
    for name in ("sort", "argsort"):
        for descending in (False, True):
            case(f"{name}_nan_{descending}", lambda x, name=name, descending=descending: getattr(jnp, name)(x, 1, descending=descending), x)
    case("nanmedian", lambda x: jnp.nanmedian(x, 1), x)
    case("sort_by_nan_and_another", lambda a, b: lax.sort((a, b), num_keys=2, dimension=0), np.array([0, NAN, 0, NAN, -0.0], np.float32), floats(5))
    case("window_second_gradient", gradient(gradient(lambda x: lax.reduce_window(x, -INF, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"))), floats(1, 6, 6, 2))
    case("window_last_positive", lambda x: lax.reduce_window(x, np.float32(-1), lambda a, b: jnp.where(b > 0, b, a), (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
         floats(2, 6, 5, 3))
    images = floats(2, 6, 6, 3)
    images[0, 1, 1, 0] = NAN
    images[0, 2:5, 2:5, 1] = images[1, :, :, 1] = -INF
    images[0, :, :, 2] = INF
    for name, start, op in (("max", -INF, lax.max), ("min", INF, lax.min)):
        for kind, size, strides, padding in (("images", (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), ("apart", (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
                                             ("line", (1, 3, 1, 1), (1, 1, 1, 1), "SAME"), ("volume", (1, 2, 2, 2), (1, 2, 1, 1), "VALID")):
            case(f"window_{name}_{kind}_not_finite",
                 lambda x, start=start, op=op, size=size, strides=strides, padding=padding: lax.reduce_window(x, start, op, size, strides, padding), images)
        case(f"cum{name}_not_finite", lambda x, name=name: getattr(lax, "cum" + name)(x, 1), images)
    flat = integers(0, 2, 1, 4, 5, 6, 3).astype(np.float32)
    for padding in ("VALID", "SAME"):
        case(f"window_volume_of_equals_{padding}_gradient",
             gradient(lambda x, padding=padding: lax.reduce_window(x, -INF, lax.max, (1, 2, 2, 2, 1), (1, 1, 2, 2, 1), padding)), flat)
    for name in ("cummax", "cummin"):
        case(name + "_long", lambda x, name=name: getattr(lax, name)(x, axis=0), floats(19, 2))
    minus_nan = np.copysign(NAN, -1)
    signs = np.array([0, -0.0, NAN, minus_nan, 1, -0.0, 0, -INF, minus_nan, NAN, INF, -1e-30, 2.5], np.float32)
    for dtype in (np.float32, np.float64, jnp.float16, jnp.bfloat16):
        wide = np.float64 if dtype == np.float64 else np.float32
        for name in ("sort", "argsort"):
            for descending in (False, True):
                case(f"{name}_signs_{jnp.dtype(dtype).name}_{descending}",
                     lambda x, name=name, dtype=dtype, wide=wide, descending=descending:
                     getattr(jnp, name)(x.astype(dtype), descending=descending).astype(wide), signs.astype(wide))
    edges = np.array([1e-39, 2.0**-14, 2.0**-14 * (1 - 2.0**-12), 2.0**-14 * (1 - 2.0**-11),
                      -3e-5, -0.0, 65519, 65520, -7e4, 0.3, 2, NAN, minus_nan, INF, -INF], np.float32)
    numbers = np.concatenate([edges, 100 * floats(30)])
    for exponent, mantissa in ((5, 10), (8, 7), (5, 2), (4, 3), (8, 3), (3, 23), (2, 0)):
        case(f"reduce_precision_{exponent}_{mantissa}",
             lambda x, exponent=exponent, mantissa=mantissa: lax.reduce_precision(x, exponent, mantissa), numbers)
    for dtype, formats in ((jnp.float16, ((4, 6), (5, 2), (3, 10))), (jnp.bfloat16, ((8, 3), (5, 7), (4, 2), (8, 0)))):
        for exponent, mantissa in formats:
            case(f"reduce_precision_{jnp.dtype(dtype).name}_{exponent}_{mantissa}",
                 lambda x, dtype=dtype, exponent=exponent, mantissa=mantissa:
                 lax.reduce_precision(x.astype(dtype), exponent, mantissa).astype(jnp.float32), numbers)
    least = 2.0**-126
    around = [least, -least, least * (1 - 2.0**-25), least * (1 - 2.0**-24), -least * (1 - 2.0**-24), 3e38, 3.5e38, -1e300, 1e-310, 1 / 3]
    doubles = np.concatenate([numbers, around])
    for exponent, mantissa in ((8, 23), (11, 20), (8, 7), (5, 10)):
        case(f"reduce_precision_double_{exponent}_{mantissa}",
             lambda x, exponent=exponent, mantissa=mantissa: lax.reduce_precision(x, exponent, mantissa), doubles)


def bits_and_places():
    """Bits of a state, extremes with NaN, of integers at places that may lie outside, and windows moved inside."""
    keys = np.array([3, 2**32 - 1, 2**32 - 3, 2**32 - 1], np.uint32)
    for algorithm in (lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_PHILOX, lax.RandomAlgorithm.RNG_THREE_FRY):
        for shape in ((), (7,), (3, 5), (5, 2, 3), (0,), (3, 4)):
            for dtype in ("uint32", "uint8"):
                case(f"bits_{algorithm.name}_{dtype}_{'_'.join(map(str, shape))}",
                     lambda key, algorithm=algorithm, shape=shape, dtype=dtype: lax.rng_bit_generator(key, shape, dtype, algorithm=algorithm), keys)
    for impl in ("rbg", "unsafe_rbg"):
        def draw(key, impl=impl):
            one, other = jax.random.split(jax.random.wrap_key_data(key, impl=impl))
            return jax.random.key_data(one), jax.random.normal(other, (5, 3))
        case(f"bits_{impl}", draw, keys)
    x = floats(6, 4)
    x[1, 1] = x[5, 2] = NAN
    updates = floats(5, 4)
    updates[0, 0] = updates[1, 3] = NAN
    places = ints(0, 3, 5, 3, 9)
    for name in ("max", "min"):
        case(f"scatter_{name}_nan", lambda x, i, u, name=name: getattr(x.at[i], name)(u), x, places, updates)
        for dtype in (np.int32, np.uint8):
            numbers = integers(0, 100, 6, 4).astype(dtype)
            case(f"scatter_{name}_outside_{np.dtype(dtype).name}",
                 lambda x, i, u, name=name: getattr(x.at[i], name)(u), numbers, places, integers(0, 100, 5, 4).astype(dtype))
    put = lambda rows, row, i: lax.dynamic_update_slice(rows, row, (i, 1))
    case("scatter_set_slices", jax.vmap(put), floats(5, 6, 4), floats(5, 2, 3), ints(0, 4, 5, 9, -3))
    case("scatter_set_slices_of_columns", jax.vmap(put, (2, 0, 0), 2), floats(6, 4, 5), floats(5, 2, 3), ints(0, 4, 5, 9, -3))
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    case("scatter_set_windows_outside", lambda x, i, u: lax.scatter(x, i, u, numbers, mode="drop"), floats(7, 6),
         ints([0, 1], [4, 3], [6, 0], [1, 5], [-1, 2]), floats(5, 2, 3))


# Of TensorFlow's own, which JAX does not write: name, function of tensors, arguments.
def raw_ops():
    state, matrices = np.array([5, 2**64 - 2, 2**64 - 1], np.uint64), floats(2, 5, 3)
    square = floats(2, 4, 4)
    double = floats(2).astype(np.float64)
    yield "raw_bits", lambda s: xla.xla_rng_bit_generator(1, s, [9], dtype=tf.uint32), [state]
    yield "raw_long_bits", lambda s: xla.xla_rng_bit_generator(3, s, [3, 3], dtype=tf.uint64), [state]
    yield "raw_threefry_bits", lambda s: xla.xla_rng_bit_generator(2, s[1:], [3, 3], dtype=tf.uint64), [state]
    yield "raw_broadcast", lambda a, b: xla.xla_broadcast_helper(a, b, [1]), [square, floats(4)]
    yield "raw_broadcast_left", lambda a, b: xla.xla_broadcast_helper(a, b, [0, 2]), [floats(2, 3), matrices]
    for lower in (True, False):
        yield f"raw_eigenvalues_{lower}", lambda a, lower=lower: [rebuilt(*xla.xla_self_adjoint_eig(a, lower, 100, 1e-6))], [square]
    for name, value in (("tall", matrices), ("wide", floats(3, 5))):
        yield f"raw_svd_{name}", lambda a: [singular_product(min(a.shape[-2:]), *xla.xla_svd(a, 100, 1e-6, ""))], [value]

    @tf.function
    def more(x):
        return 2 * x

    @tf.function
    def less(x):
        return tf.reduce_sum(x) < 10
    spec = tf.TensorSpec([2], tf.float64)
    yield "raw_while", lambda x: xla.xla_while([x], less.get_concrete_function(spec), more.get_concrete_function(spec)), [abs(double)]


# The signs of vectors are free, so what they make is compared.
def rebuilt(values, vectors):
    return tf.matmul(vectors * values[..., None, :], vectors, transpose_b=True)


def singular_product(count, values, left, right):
    return tf.matmul(left[..., :count] * values[..., None, :], right[..., :count], transpose_b=True)


def main():
    for family in (dots, pads, convolutions, gathers, scatters, windows, orders, functions):
        family()
    others = len(CASES)
    specials()
    bits_and_places()
    special = {name for name, _, _ in CASES[others:]}
    fed, arrays, fetches, by_jax = {}, {}, [], {}
    graph = tf1.Graph()
    with graph.as_default():
        for name, function, arguments in CASES:
            for value in arguments:
                if id(value) not in fed:
                    fed[id(value)] = tf1.placeholder(value.dtype, value.shape, f"x{len(fed)}")
                    arrays[f"in/{fed[id(value)].op.name}"] = value
            taken = [fed[id(value)] for value in arguments]
            with enable_x64(any(value.dtype == np.float64 for value in arguments)):
                results = jax.tree_util.tree_leaves(jax2tf.convert(function, native_serialization=False, with_gradient=False)(*taken))
                fetches += [tf.identity(result, f"{name}/y{i}") for i, result in enumerate(results)]
                if name in special:
                    results = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
                    by_jax.update({f"out/{name}/y{i}": np.asarray(result) for i, result in enumerate(results)})
        raw = []
        for name, function, arguments in raw_ops():
            for i, value in enumerate(arguments):
                arrays[f"in/{name}/x{i}"] = value
            taken = [tf1.placeholder(value.dtype, value.shape, f"{name}/x{i}") for i, value in enumerate(arguments)]
            made = [tf.identity(result, f"{name}/y{i}") for i, result in enumerate(function(*taken))]
            raw.append((function, arguments, made))
            fetches += made
    for function, arguments, made in raw:
        results = tf.function(function, jit_compile=True)(*[tf.constant(value) for value in arguments])
        by_jax.update({f"out/{one.op.name}": result.numpy() for one, result in zip(made, results)})
    fetches = [one for one in fetches if f"out/{one.op.name}" not in by_jax]
    with tf1.Session(graph=graph) as session:
        results = session.run(fetches, {f"{name[3:]}:0": value for name, value in arrays.items()})
    arrays.update({f"out/{one.op.name}": value for one, value in zip(fetches, results)})
    arrays.update(by_jax)
    arrays["graph"] = np.frombuffer(graph.as_graph_def().SerializeToString(deterministic=True), np.uint8)
    np.savez_compressed("xla_ops.npz", **arrays)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    main()
