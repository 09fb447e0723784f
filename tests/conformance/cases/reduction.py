"""Reductions, L2Loss, BiasAddGrad, ArgMax and ArgMin, running sums and products, Bucketize."""

import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, bfloat16

NAN, INF = np.nan, np.inf
FLOATS = (np.float32, np.float64, np.float16, bfloat16)
ROUNDING = {np.float32: 2e-6, np.float64: 1e-14, np.float16: 2e-3, bfloat16: 1.6e-2}
AXES = [
    ((7,), [0]),
    ((7,), -1),
    ((), []),
    ((2, 3), []),
    ((4, 5), [0]),
    ((4, 5), [1]),
    ((4, 5), [0, 1]),
    ((4, 5), [-2]),
    ((3, 4, 5), [0, 2]),
    ((3, 4, 5), [1]),
    ((3, 1, 5, 2), [-1, 1]),
    ((2, 3, 2, 3), [1, 2]),
    ((6, 70), 1),
    ((2, 3, 2, 1, 2, 3, 1, 2), [0, 2, 4, 6]),
    ((2, 3, 2, 1, 2, 3, 1, 2), [1, 3, 5, 7]),
    ((1, 1), [0]),
]


def name_of(dtype):
    return tf.as_dtype(dtype).name


def axes(value, dtype=np.int32):
    return np.array(value, dtype)


def reduction_cases():
    for op in ("Sum", "Mean", "Prod", "Max", "Min", "EuclideanNorm"):
        low, high = (0.8, 1.2) if op == "Prod" else (-2, 3)
        rounded = op not in ("Max", "Min")
        types = list(FLOATS) + ([] if op == "EuclideanNorm" else [np.int32, np.int64])
        if op in ("Sum", "Max", "Min", "Mean", "Prod"):
            types += [np.int8, np.int16, np.uint8, np.uint16]
        for dtype in types:
            integer = dtype not in FLOATS
            a, b = (
                ((1, 3) if op == "Prod" else (0, 5) if np.dtype(dtype).kind == "u" else (-4, 5))
                if integer
                else (low, high)
            )
            rtol = 0 if integer or not rounded else ROUNDING[dtype]
            for i, axis in enumerate(([0], [1], [0, 1])):
                shape = (3, 4) if op == "Prod" else (5, 8)
                yield Case(
                    f"{op}_{name_of(dtype)}_{i}", op, [Gen(shape, dtype, a, b), axes(axis)], rtol=rtol, atol=rtol
                )
        for i, (shape, axis) in enumerate(AXES):
            for keep in (False, True):
                yield Case(
                    f"{op}_axes{i}{'_keep' if keep else ''}",
                    op,
                    [Gen(shape, np.float32, low, high, seed=i), axes(axis)],
                    {"keep_dims": keep},
                    rtol=2e-6,
                    atol=1e-6,
                )
        yield Case(
            f"{op}_axes_int64", op, [Gen((3, 4), np.float32, low, high), axes([1], np.int64)], rtol=2e-6, atol=1e-6
        )
        yield Case(f"{op}_nothing", op, [np.zeros((0, 2), np.float32), axes([0])])
        yield Case(f"{op}_empty", op, [np.zeros((2, 0), np.float32), axes([0])])
        yield Case(f"{op}_outside", op, [np.zeros((2, 3), np.float32), axes([2])], error="")
        yield Case(f"{op}_twice", op, [np.zeros((2, 3), np.float32), axes([1, -1])], error="")
    for op in ("Sum", "Mean", "Max", "Min"):
        # Whole tensors, rows, columns and both, cut into shards. The tolerance is for the rounding of TensorFlow's sums.
        for i, (shape, axis) in enumerate(
            [
                ((300000,), [0]),
                ((500, 600), [1]),
                ((500, 600), [0]),
                ((4, 100, 90, 8), [0, 1, 2]),
                ((4, 8, 100, 90), [0, 2, 3]),
                ((60000, 3), [0]),
                ((60000, 3), [1]),
                ((2, 60000, 2), [1]),
            ]
        ):
            yield Case(f"{op}_large{i}", op, [Gen(shape, np.float32, -1, 2, seed=i), axes(axis)], rtol=2e-5, atol=4e-6)
        # Short rows, which are taken several at once, with a rest.
        for count in (2, 7, 8, 15, 16, 17, 31, 32, 63, 64):
            yield Case(f"{op}_short{count}", op, [Gen((37, count), np.float32, -1, 2, seed=count), axes([1])], rtol=2e-6, atol=2e-6)
            yield Case(f"{op}_short{count}_double", op, [Gen((19, count), np.float64, -1, 2, seed=count), axes([1])], rtol=1e-14, atol=1e-14)
            yield Case(f"{op}_short{count}_int32", op, [Gen((33, count), np.int32, -90, 90, seed=count), axes([1])])
            yield Case(f"{op}_short{count}_half", op, [Gen((35, count), np.float16, 0, 2, seed=count), axes([1])], rtol=4e-3, atol=4e-3)
        yield Case(
            f"{op}_nan",
            op,
            [np.array([[1, NAN, 2], [INF, 1, -1], [NAN, INF, 3], [INF, -INF, 1]], np.float32), axes([1])],
        )
    for op in ("Max", "Min"):
        for dtype in (np.int32, np.int64, np.int16, np.uint8):
            yield Case(f"{op}_nothing_{name_of(dtype)}", op, [np.zeros((0, 2), dtype), axes([0])])
    yield Case("Sum_wraps", "Sum", [np.array([2**30] * 5, np.int32), axes([0])])
    yield Case("Mean_negative", "Mean", [np.array([-7, -8, 2], np.int32), axes([0])])
    yield Case("Mean_wide", "Mean", [np.array([2**30] * 3, np.int32), axes([0])])
    yield Case("Mean_int8", "Mean", [np.array([100] * 3, np.int8), axes([0])])
    for op in ("All", "Any"):
        for i, (shape, axis) in enumerate(AXES):
            yield Case(f"{op}_axes{i}", op, [Gen(shape, np.bool_, 0, 2, seed=i), axes(axis)])
        yield Case(f"{op}_keep", op, [Gen((3, 4), np.bool_, 0, 2), axes([0])], {"keep_dims": True})
        yield Case(f"{op}_nothing", op, [np.zeros((0, 2), np.bool_), axes([0])])
        yield Case(f"{op}_large", op, [Gen((300, 500), np.bool_, 0, 2), axes([1])])
    for dtype in FLOATS:
        yield Case(f"L2Loss_{name_of(dtype)}", "L2Loss", [Gen((4, 30), dtype, -2, 2)], rtol=4 * ROUNDING[dtype])
    yield Case("L2Loss_large", "L2Loss", [Gen((200, 1000))], rtol=4e-6)
    yield Case("L2Loss_scalar", "L2Loss", [np.float32(3)])
    yield Case("L2Loss_empty", "L2Loss", [np.zeros((0, 3), np.float32)])


def bias_cases():
    for dtype in FLOATS + (np.int32,):
        rtol = 0 if dtype is np.int32 else 2 * ROUNDING[dtype]
        yield Case(f"BiasAddGrad_{name_of(dtype)}", "BiasAddGrad", [Gen((2, 3, 4, 5), dtype, 0, 4)], rtol=rtol)
    for shape in ((4, 6), (2, 3, 6), (2, 2, 2, 2, 6)):
        yield Case(f"BiasAddGrad_rank{len(shape)}", "BiasAddGrad", [Gen(shape)], rtol=2e-6, atol=1e-6)
    for shape in ((2, 6, 3), (2, 6, 3, 4), (2, 6, 2, 2, 3)):
        yield Case(
            f"BiasAddGrad_nchw{len(shape)}", "BiasAddGrad", [Gen(shape)], {"data_format": "NCHW"}, rtol=2e-6, atol=1e-6
        )
    yield Case("BiasAddGrad_large", "BiasAddGrad", [Gen((8, 60, 60, 9), low=0)], rtol=1e-5)
    yield Case(
        "BiasAddGrad_large_nchw", "BiasAddGrad", [Gen((8, 9, 60, 60), low=0)], {"data_format": "NCHW"}, rtol=1e-5
    )


def arg_cases():
    for op in ("ArgMax", "ArgMin"):
        # Rows and columns of more than a few vectors, with ties, infinities and NaNs.
        values = np.resize(np.array([3, -2, 7, 7, -np.inf, 0, -2, 5, -np.inf, 7, 1], np.float32), (7, 201))
        values[1, 3:150] = values[2, :] = values[3, 200] = values[:, 90] = np.nan
        yield Case(f"{op}_long_rows", op, [values, np.int32(1)])
        yield Case(f"{op}_many_columns", op, [values, np.int32(0)])
        for short in FLOATS[2:]:
            yield Case(f"{op}_long_rows_{name_of(short)}", op, [values.astype(short), np.int32(1)])
            yield Case(f"{op}_many_columns_{name_of(short)}", op, [values.astype(short), np.int32(0)])
        for dtype in FLOATS + (
            np.int32,
            np.int64,
            np.int8,
            np.int16,
            np.uint8,
            np.uint16,
            np.uint32,
            np.uint64,
            np.bool_,
        ):
            low = 0 if np.dtype(dtype).kind in "ub" else -9
            high = 2 if dtype is np.bool_ else 9
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((6, 20), dtype, low, high), np.int32(1)])
        for i, (shape, axis) in enumerate(
            [
                ((9,), 0),
                ((9,), -1),
                ((4, 5, 6), 0),
                ((4, 5, 6), 1),
                ((4, 5, 6), -1),
                ((3, 1), 1),
                ((0, 3), 1),
                ((300, 500), 1),
                ((300, 500), 0),
            ]
        ):
            yield Case(f"{op}_axis{i}", op, [Gen(shape, np.float32, -9, 9, seed=i), np.int32(axis)])
        yield Case(f"{op}_to_int32", op, [Gen((3, 4)), np.int64(0)], {"output_type": np.int32})
        yield Case(f"{op}_equal", op, [np.array([[1, 1, 1], [2, 3, 3]], np.float32), np.int32(1)])
        yield Case(f"{op}_infinite", op, [np.array([[1, INF, -INF], [-INF, -INF, -INF]], np.float32), np.int32(1)])
        yield Case(
            f"{op}_empty_axis", op, [np.zeros((2, 0), np.float32), np.int32(1)], error="axis 1 is empty in shape [2,0]"
        )
        yield Case(f"{op}_outside", op, [np.zeros((2, 3), np.float32), np.int32(2)], error="")


def scan_cases():
    for op in ("Cumsum", "Cumprod"):
        low, high = (-2, 3) if op == "Cumsum" else (0.8, 1.2)
        for dtype in FLOATS + (np.int32, np.int64, np.int8, np.uint8):
            integer = dtype not in FLOATS
            rtol = 0 if integer else 8 * ROUNDING[dtype]
            values = Gen((3, 4), dtype, 1 if integer else low, 3 if integer else high)
            yield Case(f"{op}_{name_of(dtype)}", op, [values, np.int32(1)], rtol=rtol, atol=rtol)
        for length in (65, 5000):
            for exclusive in (False, True):
                yield Case(f"{op}_long_{length}_{exclusive}", op, [Gen((length,), np.int64, -9, 9), np.int32(0)],
                           {"exclusive": exclusive, "reverse": not exclusive})
        for axis in (0, 1, 2, -1, -3):
            for exclusive in (False, True):
                for reverse in (False, True):
                    yield Case(
                        f"{op}_axis{axis}_{exclusive}_{reverse}",
                        op,
                        [Gen((4, 5, 6), np.float32, low, high), np.int32(axis)],
                        {"exclusive": exclusive, "reverse": reverse},
                        rtol=4e-6,
                        atol=2e-6,
                    )
        yield Case(f"{op}_large", op, [Gen((60, 50, 50), np.float32, low, high), np.int64(0)], rtol=2e-5, atol=2e-5)
        yield Case(f"{op}_large_rows", op, [Gen((3000, 50), np.float32, low, high), np.int32(1)], rtol=2e-5, atol=2e-5)
        yield Case(f"{op}_empty", op, [np.zeros((0, 3), np.float32), np.int32(0)])
        yield Case(f"{op}_outside", op, [np.zeros((2, 3), np.float32), np.int32(2)], error="")
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        yield Case(
            f"Bucketize_{name_of(dtype)}", "Bucketize", [Gen((5, 30), dtype, -5, 15)], {"boundaries": [0.0, 3.0, 8.5]}
        )
    yield Case(
        "Bucketize_special", "Bucketize", [np.array([NAN, INF, -INF, 0, 3], np.float32)], {"boundaries": [0.0, 3.0]}
    )
    yield Case("Bucketize_large", "Bucketize", [Gen((140000,))], {"boundaries": [-0.5, 0.0, 0.5]})
    yield Case("Bucketize_none", "Bucketize", [Gen((5,))], {"boundaries": []})
    yield Case("Bucketize_unsorted", "Bucketize", [Gen((5,))], {"boundaries": [1.0, 0.0]}, error="")


def cases():
    yield from reduction_cases()
    yield from bias_cases()
    yield from arg_cases()
    yield from scan_cases()
