"""Pools over two and three dimensions and their gradients."""
import numpy as np

from case_builder import Case, Gen, bfloat16

i32, f32, f64, f16 = np.int32, np.float32, np.float64, np.float16
SHORT = {f32: 1e-6, f64: 1e-14, f16: 4e-3, bfloat16: 4e-2}

GEOMETRIES = (((2, 7, 9, 5), (3, 3), (2, 2)), ((1, 8, 8, 64), (2, 2), (2, 2)), ((3, 5, 6, 3), (5, 1), (1, 1)),
              ((1, 4, 4, 2), (4, 4), (3, 1)), ((2, 6, 6, 3), (2, 2), (3, 3)), ((0, 4, 4, 2), (2, 2), (1, 1)),
              ((4, 30, 30, 40), (3, 3), (2, 2)), ((1, 5, 25, 1), (3, 3), (1, 2)), ((2, 6, 19, 2), (2, 2), (2, 2)),
              ((1, 5, 13, 16), (3, 3), (2, 2)), ((1, 4, 11, 33), (2, 4), (1, 1)))


def windows(shape, ksize, strides, padding):
    out = [-(-n // s) if padding == "SAME" else (n - k) // s + 1 for n, k, s in zip(shape[1:-1], ksize, strides)]
    return {"ksize": [1, *ksize, 1], "strides": [1, *strides, 1], "padding": padding}, (shape[0], *out, shape[-1])


def maximum_of(x, attrs):
    """The output that a gradient takes, computed here: inputs of a case are plain arrays."""
    import tensorflow as tf
    op = tf.raw_ops.MaxPool if x.ndim == 4 else tf.raw_ops.MaxPool3D
    return op(input=tf.constant(x), **attrs).numpy()


def pools(rank, suffix):
    for shape, ksize, strides in GEOMETRIES:
        if rank == 5:
            shape, ksize, strides = (shape[0], 3, *shape[1:]), (2, *ksize), (1, *strides)
        for padding in ("SAME", "VALID"):
            attrs, out = windows(shape, ksize, strides, padding)
            tag = f"{suffix}_{'x'.join(map(str, shape))}_{padding}"
            dy = Gen(out, seed=2)
            yield Case(f"MaxPool{tag}", f"MaxPool{suffix}", [Gen(shape)], attrs)
            if np.prod(shape) < 4000:
                # Small integers: many equal maxima.
                x = Gen(shape, i32, -3, 3).numpy().astype(f32)
                y = maximum_of(x, attrs)
                yield Case(f"MaxPoolGrad{tag}", f"MaxPool{suffix}Grad", [x, y, dy], attrs, rtol=1e-6, atol=1e-6)
                if x.size:
                    yield Case(f"MaxPoolGradGrad{tag}", f"MaxPool{suffix}GradGrad", [x, y, Gen(shape, seed=3)], attrs)
            yield Case(f"AvgPool{tag}", f"AvgPool{suffix}", [Gen(shape)], attrs, rtol=1e-6, atol=1e-6)
            yield Case(f"AvgPoolGrad{tag}", f"AvgPool{suffix}Grad", [np.array(shape, i32), dy], attrs, rtol=1e-6, atol=1e-6)


def types():
    attrs, out = windows((2, 5, 6, 19), (3, 3), (2, 1), "SAME")
    for dtype in (f64, f16, bfloat16, i32, np.int64, np.uint8, np.int8, np.int16, np.uint16):
        name = np.dtype(dtype).name
        yield Case(f"MaxPool_{name}", "MaxPool", [Gen((2, 5, 6, 19), i32, 0, 9).numpy().astype(dtype)], attrs)
        if dtype in SHORT:
            x = Gen((2, 5, 6, 19), i32, 0, 9).numpy().astype(dtype)
            tolerance = {"rtol": SHORT[dtype], "atol": SHORT[dtype]}
            yield Case(f"MaxPoolGrad_{name}", "MaxPoolGrad", [x, maximum_of(x, attrs), Gen(out, dtype)], attrs, **tolerance)
            yield Case(f"AvgPool_{name}", "AvgPool", [Gen((2, 5, 6, 19), dtype)], attrs, **tolerance)
            yield Case(f"AvgPoolGrad_{name}", "AvgPoolGrad", [np.array((2, 5, 6, 19), i32), Gen(out, dtype)], attrs,
                       **tolerance)


def wide():
    """Windows that share most of their taps, few channels, and both in 16 bits."""
    for dtype in (f32, f16, bfloat16):
        for shape, ksize, strides in (((2, 9, 10, 19), (7, 7), (1, 1)), ((1, 9, 31, 3), (3, 3), (2, 2)), ((1, 8, 9, 2), (6, 7), (1, 2))):
            attrs, out = windows(shape, ksize, strides, "SAME")
            tag = f"wide_{'x'.join(map(str, shape))}_{np.dtype(dtype).name}"
            x = Gen(shape, i32, -9, 9).numpy().astype(dtype)
            tolerance = {"rtol": SHORT[dtype], "atol": 8 * SHORT[dtype]}
            yield Case(f"MaxPool_{tag}", "MaxPool", [x], attrs)
            yield Case(f"MaxPoolGrad_{tag}", "MaxPoolGrad", [x, maximum_of(x, attrs), Gen(out, dtype)], attrs, **tolerance)
            yield Case(f"AvgPool_{tag}", "AvgPool", [x], attrs, **tolerance)


def whole_vectors():
    """Channels that fill vectors: results stay in registers."""
    for ksize, strides, padding in (((3, 2, 3), (2, 1, 2), "SAME"), ((2, 2, 2), (2, 2, 2), "VALID"), ((1, 3, 3), (1, 1, 1), "SAME")):
        shape, close = (1, 4, 5, 11, 16), {"rtol": SHORT[f32], "atol": SHORT[f32]}
        attrs, out = windows(shape, ksize, strides, padding)
        tag = f"vectors_{'x'.join(map(str, ksize))}"
        x = Gen(shape, i32, -9, 9).numpy().astype(f32)
        yield Case(f"MaxPool3D_{tag}", "MaxPool3D", [x], attrs)
        yield Case(f"MaxPool3DGrad_{tag}", "MaxPool3DGrad", [x, maximum_of(x, attrs), Gen(out)], attrs, **close)
        yield Case(f"AvgPool3D_{tag}", "AvgPool3D", [x], attrs, **close)
        yield Case(f"AvgPool3DGrad_{tag}", "AvgPool3DGrad", [np.array(shape, i32), Gen(out)], attrs, **close)
    attrs, out = windows((1, 9, 14, 8), (3, 3), (2, 2), "SAME")
    yield Case("MaxPool_vectors_float64", "MaxPool", [Gen((1, 9, 14, 8), f64)], attrs)
    yield Case("AvgPool_vectors_float64", "AvgPool", [Gen((1, 9, 14, 8), f64)], attrs, rtol=SHORT[f64], atol=SHORT[f64])
    yield Case("AvgPoolGrad_vectors_float64", "AvgPoolGrad", [np.array((1, 9, 14, 8), i32), Gen(out, f64)], attrs, rtol=SHORT[f64], atol=SHORT[f64])
    for dtype in (f16, bfloat16):
        attrs, out = windows((1, 9, 8, 16), (3, 3), (2, 2), "SAME")
        x = Gen((1, 9, 8, 16), i32, -9, 9).numpy().astype(dtype)
        yield Case(f"MaxPoolGrad_vectors_{np.dtype(dtype).name}", "MaxPoolGrad", [x, maximum_of(x, attrs), Gen(out, dtype)], attrs,
                   rtol=SHORT[dtype], atol=8 * SHORT[dtype])


def near_ties():
    """In three dimensions TensorFlow takes what is less than 1e-5 below the maximum for one, too."""
    x = np.array([1, 1 - 9e-6, 1 - 1.2e-5, 0], f32).reshape(1, 1, 1, 4, 1)
    attrs, out = windows(x.shape, (1, 1, 4), (1, 1, 4), "VALID")
    yield Case("MaxPoolGrad3D_near_ties", "MaxPool3DGrad", [x, maximum_of(x, attrs), np.full(out, 2, f32)], attrs)


def edges():
    row = np.array([1, np.nan, 3, 2, np.nan, np.nan, 5, 4, -np.inf, -np.inf, np.inf], f32).reshape(1, 1, 11, 1)
    attrs, _ = windows(row.shape, (1, 2), (1, 1), "VALID")
    yield Case("MaxPool_nan", "MaxPool", [row], attrs)
    yield Case("MaxPoolGrad_nan", "MaxPoolGrad", [row, maximum_of(row, attrs), Gen((1, 1, 10, 1))], attrs, atol=1e-7)
    yield Case("AvgPool_nan", "AvgPool", [row], attrs)
    explicit = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 1, 1], "padding": "EXPLICIT",
                "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}
    x = Gen((2, 5, 6, 3)).numpy()
    yield Case("MaxPool_explicit", "MaxPool", [x], explicit)
    y = maximum_of(x, explicit)
    yield Case("MaxPoolGrad_explicit", "MaxPoolGrad", [x, y, Gen(y.shape, seed=2)], explicit, atol=1e-6)
    yield Case("MaxPool_depth", "MaxPool", [Gen((2, 5, 6, 6))],
               {"ksize": [1, 1, 1, 3], "strides": [1, 1, 1, 3], "padding": "VALID"})
    yield Case("MaxPool_depth_left_over", "MaxPool", [Gen((2, 5, 6, 6))],
               {"ksize": [1, 1, 1, 4], "strides": [1, 1, 1, 4], "padding": "VALID"}, error="")
    k, s = np.array([1, 3, 3, 1], i32), np.array([1, 2, 2, 1], i32)
    yield Case("MaxPoolV2", "MaxPoolV2", [Gen((2, 5, 6, 3)), k, s], {"padding": "SAME"})
    y = maximum_of(x, {"ksize": k.tolist(), "strides": s.tolist(), "padding": "SAME"})
    yield Case("MaxPoolGradV2", "MaxPoolGradV2", [x, y, Gen(y.shape, seed=2), k, s], {"padding": "SAME"}, atol=1e-6)
    yield Case("MaxPoolGrad_wrong_shape", "MaxPoolGrad", [x, x, x], attrs, error="")
    yield Case("MaxPool_rank", "MaxPool", [Gen((5, 6, 3))], attrs, error="")


def cases():
    yield from pools(4, "")
    yield from pools(5, "3D")
    yield from wide()
    yield from whole_vectors()
    yield from near_ties()
    yield from types()
    yield from edges()
