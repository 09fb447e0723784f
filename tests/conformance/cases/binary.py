"""Binary and ternary elementwise ops: arithmetic, comparisons, logic, bits, selection; AddN and BiasAdd."""

import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, L, bfloat16

NAN, INF = np.nan, np.inf
FLOATS = (np.float32, np.float64, np.float16, bfloat16)
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
SPECIAL_X = np.array([NAN, 1, NAN, INF, -INF, INF, 0.0, -0.0, 0.0, 5, -5], np.float32)
SPECIAL_Y = np.array([1, NAN, NAN, INF, INF, 0, -0.0, 0.0, 0, 0, -0.0], np.float32)
# Shapes that broadcast: every repetition of rows and columns, both sides at once, rank 8 (as far as TensorFlow goes),
# empty, scalars.
SHAPES = [
    ((), ()),
    ((5,), ()),
    ((), (5,)),
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 3), (2, 1)),
    ((2, 1), (1, 3)),
    ((4, 1, 5), (3, 1)),
    ((1, 1), (1,)),
    ((0, 3), (3,)),
    ((0,), (1,)),
    ((2, 0), (1, 1)),
    ((2, 3, 1, 1, 2, 2, 1, 1), (1, 1, 2, 2, 2, 2, 3, 1)),
    ((1, 2, 1, 1, 3, 1, 2, 2), (2, 1, 1, 2, 3, 1, 1, 1)),
    ((30, 7), (7,)),
    ((6, 40), (6, 1)),
]


def name_of(dtype):
    return tf.as_dtype(dtype).name


def operands(dtype, shape=(3, 41), low=None, high=None, seed=1):
    kind = np.dtype(dtype).kind
    low = low if low is not None else 1 if kind == "u" else -11
    high = high if high is not None else 2 if dtype is np.bool_ else 11
    return [Gen(shape, dtype, low, high, seed), Gen(shape, dtype, low, high, seed + 1)]


def broadcasting(op, dtype=np.float32, **kwargs):
    for i, (a, b) in enumerate(SHAPES):
        x = Gen(a, dtype, 1, 9, seed=2 * i + 1)
        y = Gen(b, dtype, 1, 9, seed=2 * i + 2)
        yield Case(f"{op}_broadcast{i}", op, [x, y], **kwargs)
    yield Case(f"{op}_mismatch", op, [np.ones((2, 3), dtype), np.ones((2,), dtype)], error="")


def arithmetic_cases():
    for op in ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"):
        types = [np.float32, np.float64, np.float16, bfloat16, np.int32, np.int64]
        if op not in ("SquaredDifference",):
            types += [np.int8, np.int16, np.uint8]
        for dtype in types:
            rtol = {np.float16: 2e-3, bfloat16: 1.6e-2}.get(dtype, 0) if op == "SquaredDifference" else 0
            yield Case(f"{op}_{name_of(dtype)}", op, operands(dtype), rtol=rtol)
        yield from broadcasting(op)
        yield Case(f"{op}_special", op, [SPECIAL_X, SPECIAL_Y])
        yield Case(f"{op}_large", op, operands(np.float32, (140000,)))
        yield Case(f"{op}_large_rows", op, [Gen((300, 500)), Gen((500,), seed=2)])
        yield Case(f"{op}_large_columns", op, [Gen((500, 300)), Gen((500, 1), seed=2)])
    for op in ("AddV2", "Sub", "Mul"):
        for dtype in (np.uint16, np.uint32, np.uint64):
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((50,), dtype, 0, 60000, 1), Gen((50,), dtype, 0, 60000, 2)])
    yield Case("Mul_wraps", "Mul", [np.array([2**30, -(2**31), 77777], np.int32), np.array([5, -1, 77777], np.int32)])


def division_cases():
    for op in ("RealDiv", "Div", "DivNoNan", "MulNoNan", "Xdivy"):
        for dtype in FLOATS[:3]:
            yield Case(f"{op}_{name_of(dtype)}", op, operands(dtype), rtol=1e-3 if dtype is np.float16 else 0)
        yield from broadcasting(op)
        yield Case(f"{op}_special", op, [SPECIAL_X, SPECIAL_Y])
        yield Case(f"{op}_large", op, operands(np.float32, (140000,)))
    signs = [7, -7, 7, -7, 0, 6, -6, 127, -128], [3, 3, -3, -3, 3, -2, 2, 10, 3]
    for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod", "Div"):
        types = [np.int32, np.int64] + (
            [np.int8, np.int16] if op in ("FloorDiv", "Div", "TruncateDiv", "FloorMod") else []
        )
        if op != "TruncateDiv":
            types += [np.float32, np.float64]
        for dtype in types:
            yield Case(f"{op}_signs_{name_of(dtype)}", op, [np.array(v).astype(dtype) for v in signs])
        yield from broadcasting(op, np.int32) if op != "Div" else ()
        text = "" if op in ("TruncateDiv", "TruncateMod") else "Integer division by zero"
        yield Case(f"{op}_zero", op, [np.array([1, 2], np.int32), np.array([1, 0], np.int32)], error=text)
        yield Case(f"{op}_zero_empty", op, [np.zeros((0, 2), np.int32), np.array([1, 0], np.int32)])
    for op in ("FloorDiv", "FloorMod"):
        for dtype in (np.uint8, np.uint16):
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((40,), dtype, 0, 200, 1), Gen((40,), dtype, 1, 9, 2)])
        yield Case(
            f"{op}_special",
            op,
            [np.array([1, -1, INF, 1, -1, -0.0, 5.5], np.float32), np.array([0, 0, 1, INF, INF, 2, -2], np.float32)],
        )
        yield Case(f"{op}_fractions", op, operands(np.float32, low=-9, high=9))
    for op in ("FloorDiv", "TruncateDiv"):
        for dtype in (np.float16, bfloat16):
            dividends, divisors = np.meshgrid(np.arange(-9, 10), np.concatenate([1 / np.arange(1, 10), [-1 / 3, 0.7, -2, INF]]))
            yield Case(f"{op}_rounded_{name_of(dtype)}", op, [dividends.astype(dtype), divisors.astype(dtype)])


def math_cases():
    for op, low in (("Pow", 0.1), ("Xlogy", 0.1), ("Xlog1py", 0.1), ("Atan2", -3)):
        for dtype, rounding in ((np.float32, 2e-6), (np.float64, 1e-14), (np.float16, 4e-3)):
            yield Case(f"{op}_{name_of(dtype)}", op, operands(dtype, low=low, high=3), rtol=rounding, atol=rounding)
        yield from broadcasting(op, rtol=2e-6, atol=2e-6)
        yield Case(f"{op}_large", op, operands(np.float32, (140000,), low, 3), rtol=4e-6, atol=4e-6)
    yield Case(
        "Pow_special",
        "Pow",
        [
            np.array([-2, 0, 0, NAN, 1, -8, -2, INF, 2], np.float32),
            np.array([3, 0, -1, 0, NAN, 1 / 3, -2, 0.5, INF], np.float32),
        ],
        rtol=2e-6,
    )
    for dtype in FLOATS:
        bases, powers = np.meshgrid(np.array([-0.0, 0, -INF, INF, -2, 2, -0.5, -1]), np.array([-3, -1, 3, 5, -2, 2, -0.5, 1.5, INF, -INF, 16777215, -16777215]))
        yield Case(f"Pow_odd_{name_of(dtype)}", "Pow", [bases.astype(dtype), powers.astype(dtype)], rtol=2e-6)
    # Exponents that have kernels of their own, as one number for all and beside others.
    specials = [-2, -0.0, 0, NAN, 1, -INF, INF, 0.3, 1e-30, 3e25]
    for dtype in (np.float32, np.float64):
        for exponent in (2, 3, 1, 0.5, -0.5, -1, 0):
            base = np.concatenate([np.array(specials), np.linspace(0.01, 9, 23)]).astype(dtype)
            yield Case(f"Pow_{exponent}_{name_of(dtype)}", "Pow", [base, dtype(exponent)], rtol=4e-7)
            yield Case(f"Pow_{exponent}_{name_of(dtype)}_each", "Pow", [base, np.full_like(base, exponent)], rtol=4e-7)
        exponents = np.resize(np.array([2, 0.7, 3, -1, 0.5, 4, -0.5, 1], dtype), 600)
        yield Case(f"Pow_mixed_{name_of(dtype)}", "Pow", [np.linspace(0.1, 5, 600).astype(dtype), exponents], rtol=4e-6)
        yield Case(f"Pow_base_{name_of(dtype)}", "Pow", [dtype(1.7), exponents], rtol=4e-6)
    yield Case("Pow_one_number", "Pow", [np.float32(-3), np.float32(2)])
    for dtype in (np.int32, np.int64):
        yield Case(
            f"Pow_{name_of(dtype)}", "Pow", [np.array([2, -3, 7, 0, 5], dtype), np.array([10, 3, 0, 5, 1], dtype)]
        )
        yield Case(
            f"Pow_negative_{name_of(dtype)}",
            "Pow",
            [np.array([2, 3], dtype), np.array([1, -1], dtype)],
            error="Integers to negative integer powers are not allowed",
        )
    yield Case("Xlogy_zero", "Xlogy", [np.array([0, 0, 1, 2], np.float32), np.array([0, NAN, 0, INF], np.float32)])
    yield Case("Xlog1py_zero", "Xlog1py", [np.array([0, 0, 1], np.float32), np.array([-1, NAN, -1], np.float32)])
    yield Case(
        "Atan2_special",
        "Atan2",
        [np.array([0, 1, -1, INF], np.float32), np.array([-1, 0, 0, INF], np.float32)],
        rtol=1e-6,
    )
    for dtype in (np.float32, np.float64):
        yield Case(f"NextAfter_{name_of(dtype)}", "NextAfter", operands(dtype))
    for op in ("Igamma", "Igammac", "IgammaGradA"):
        for dtype, rounding in ((np.float32, 2e-5), (np.float64, 1e-12)):
            yield Case(f"{op}_{name_of(dtype)}", op, operands(dtype, low=0.3, high=5), rtol=rounding, atol=rounding)
    far, shift = [50, 100, 1e3, 1e10, 100, 1e10, 1e10, 40, 12], [10, 3, 2, 2, 1, 1, 0.5, 9, 3000]
    yield Case("Zeta_far", "Zeta", [np.array(far, np.float32), np.array(shift, np.float32)], atol=1e-37)
    yield Case("Zeta_far_double", "Zeta", [np.array(far, np.float64), np.array(shift, np.float64)], rtol=1e-12)
    yield Case("Polygamma_far", "Polygamma", [np.array([20, 12, 3], np.float32), np.array([1e3, 1e4, 1e20], np.float32)], atol=1e-37)
    for dtype in (np.float32, np.float64):
        shifts = np.array([-INF, -1.5, -1, 0, 0.5, 1, 2, INF, NAN], dtype)
        yield Case(f"Zeta_infinite_{name_of(dtype)}", "Zeta", [dtype(INF), shifts])
        yield Case(f"Polygamma_infinite_{name_of(dtype)}", "Polygamma", [dtype(INF), shifts])
        yield Case(f"Polygamma_at_infinity_{name_of(dtype)}", "Polygamma", [np.array([0, 1, 2], dtype), dtype(INF)])
        samples = np.array([-1, 0, 1, 2.5, INF, NAN], dtype)
        yield Case(f"RandomGammaGrad_infinite_{name_of(dtype)}", "RandomGammaGrad", [dtype(INF), samples])
        yield Case(f"RandomGammaGrad_at_infinity_{name_of(dtype)}", "RandomGammaGrad", [samples[2:4], dtype(INF)])
    yield Case("Zeta", "Zeta", [Gen((30,), low=1.5, high=6), Gen((30,), low=0.5, high=5, seed=2)], rtol=1e-5)
    yield Case(
        "Polygamma",
        "Polygamma",
        [np.array([1, 2, 3, 1], np.float32), np.array([1.5, 2.5, 0.7, 8], np.float32)],
        rtol=1e-5,
    )


def comparison_cases():
    for op in ("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"):
        for dtype in FLOATS + INTS:
            low = 0 if np.dtype(dtype).kind == "u" else -3
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((90,), dtype, low, 4, 1), Gen((90,), dtype, low, 4, 2)])
        yield from broadcasting(op, np.int32)
        yield Case(f"{op}_special", op, [SPECIAL_X, SPECIAL_Y])
        yield Case(f"{op}_large", op, operands(np.int32, (140000,), 0, 3))
    for op in ("Equal", "NotEqual"):
        yield Case(f"{op}_bool", op, operands(np.bool_, low=0))
        yield Case(
            f"{op}_incompatible",
            op,
            [np.array([1, 2], np.int32), np.array([1, 2, 3], np.int32)],
            {"incompatible_shape_error": False},
        )
        yield Case(
            f"{op}_compatible",
            op,
            [np.array([[1], [2]], np.int32), np.array([1, 2, 3], np.int32)],
            {"incompatible_shape_error": False},
        )
    yield Case(
        "ApproximateEqual",
        "ApproximateEqual",
        [np.array([1, 1, 1], np.float32), np.array([1.000001, 1.1, 1], np.float32)],
    )
    yield Case(
        "ApproximateEqual_tolerance",
        "ApproximateEqual",
        [np.array([1, 1, 1], np.float64), np.array([1.2, 1.4, 0.75], np.float64)],
        {"tolerance": 0.3},
    )


def logic_cases():
    for op in ("LogicalAnd", "LogicalOr"):
        yield Case(op, op, operands(np.bool_, low=0))
        yield Case(f"{op}_rows", op, [Gen((3, 50), np.bool_, 0, 2), Gen((50,), np.bool_, 0, 2, 2)])
        yield Case(f"{op}_scalar", op, [np.bool_(True), Gen((9,), np.bool_, 0, 2, 2)])
        yield Case(f"{op}_large", op, operands(np.bool_, (140000,), low=0))
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for dtype in INTS:
            low = 0 if np.dtype(dtype).kind == "u" else -100
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((70,), dtype, low, 100, 1), Gen((70,), dtype, low, 100, 2)])
        yield Case(f"{op}_rows", op, [Gen((3, 50), np.int32, 0, 99), Gen((50,), np.int32, 0, 99, 2)])
    for op in ("LeftShift", "RightShift"):
        for dtype in INTS:
            low = 0 if np.dtype(dtype).kind == "u" else -100
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((70,), dtype, low, 100, 1), Gen((70,), dtype, 0, 7, 2)])
        yield Case(f"{op}_outside", op, [np.array([1, 1, -16, 5], np.int32), np.array([40, -1, 33, 31], np.int32)])


def select_cases():
    for dtype in FLOATS + (np.int32, np.int64, np.uint8, np.bool_):
        high = 2 if dtype is np.bool_ else 9
        for op in ("Select", "SelectV2"):
            yield Case(
                f"{op}_{name_of(dtype)}",
                op,
                [Gen((4, 30), np.bool_, 0, 2), Gen((4, 30), dtype, 0, high, 2), Gen((4, 30), dtype, 0, high, 3)],
            )
    triples = [
        ((), (3, 4), (3, 4)),
        ((3, 1), (3, 4), (4,)),
        ((4,), (), (3, 4)),
        ((4,), (3, 1), ()),
        ((3, 4), (), ()),
        ((2, 1, 4), (3, 1), (1, 1, 1)),
        ((), (), ()),
        ((0,), (1,), (1,)),
        ((5, 1), (1, 6), (5, 6)),
        ((1, 2, 1, 1, 3, 1, 2, 2), (2, 1, 1, 2, 3, 1, 1, 1), (2,)),
    ]
    for i, (c, a, b) in enumerate(triples):
        yield Case(f"SelectV2_broadcast{i}", "SelectV2", [Gen(c, np.bool_, 0, 2, 5), Gen(a, seed=6), Gen(b, seed=7)])
    yield Case("Select_scalar", "Select", [np.bool_(True), Gen((2, 3), seed=1), Gen((2, 3), seed=2)])
    yield Case("Select_rows", "Select", [np.array([True, False, True]), Gen((3, 4, 2), seed=1), Gen((3, 4, 2), seed=2)])
    yield Case("Select_shapes", "Select", [np.array([True, False]), Gen((3, 4), seed=1), Gen((3, 4), seed=2)], error="")
    yield Case(
        "SelectV2_large", "SelectV2", [Gen((140000,), np.bool_, 0, 2), Gen((140000,), seed=2), Gen((140000,), seed=3)]
    )
    x = np.array([NAN, INF, -INF, 0.25, -3, 3], np.float32)
    for i, (low, high) in enumerate([(-0.5, 0.5), (NAN, 0.5), (-0.5, NAN), (1, -1)]):
        yield Case(f"ClipByValue_{i}", "ClipByValue", [x, np.float32(low), np.float32(high)])
    for dtype in (np.float64, np.int32, np.int64, np.float16):
        yield Case(
            f"ClipByValue_{name_of(dtype)}",
            "ClipByValue",
            [Gen((50,), dtype, -9, 9), np.array(-3, dtype), np.array(4, dtype)],
        )
    yield Case(
        "ClipByValue_each",
        "ClipByValue",
        [Gen((3, 50), low=-9, high=9), Gen((3, 50), low=-3, high=0, seed=2), Gen((3, 50), low=0, high=3, seed=3)],
    )


def sum_cases():
    for dtype in FLOATS + (np.int32, np.int64):
        for n in (1, 2, 3, 8, 12):
            rtol = {np.float32: 1e-6, np.float64: 1e-14, np.float16: 4e-3, bfloat16: 4e-2}.get(dtype, 0)
            values = [Gen((3, 70), dtype, 0, 9, seed=k + 1) for k in range(n)]
            yield Case(f"AddN_{name_of(dtype)}_{n}", "AddN", [L(values)], rtol=rtol)
    yield Case("AddN_large", "AddN", [L([Gen((140000,), seed=k) for k in range(5)])], rtol=1e-6, atol=1e-6)
    yield Case("AddN_empty", "AddN", [L([np.zeros((0, 2), np.float32)] * 3)])
    yield Case("AddN_shapes", "AddN", [L([np.zeros((2,), np.float32), np.zeros((3,), np.float32)])], error="")
    yield Case("AddN_nan", "AddN", [L([SPECIAL_X, SPECIAL_Y])])
    for dtype in FLOATS + (np.int32,):
        yield Case(
            f"BiasAdd_{name_of(dtype)}", "BiasAdd", [Gen((2, 3, 4, 5), dtype, -9, 9), Gen((5,), dtype, -9, 9, 2)]
        )
    for shape in ((4, 6), (2, 3, 6), (2, 2, 2, 2, 6)):
        yield Case(f"BiasAdd_rank{len(shape)}", "BiasAdd", [Gen(shape), Gen((6,), seed=2)])
        yield Case(f"BiasAddV1_rank{len(shape)}", "BiasAddV1", [Gen(shape), Gen((6,), seed=2)])
    for shape in ((2, 6, 3), (2, 6, 3, 4), (2, 6, 2, 2, 3)):
        yield Case(f"BiasAdd_nchw{len(shape)}", "BiasAdd", [Gen(shape), Gen((6,), seed=2)], {"data_format": "NCHW"})
    yield Case("BiasAdd_large", "BiasAdd", [Gen((8, 50, 50, 8)), Gen((8,), seed=2)])
    yield Case("BiasAdd_channels", "BiasAdd", [Gen((2, 3)), Gen((2,), seed=2)], error="")
    yield Case("BiasAdd_empty", "BiasAdd", [np.zeros((0, 3), np.float32), Gen((3,), seed=2)])


def cases():
    yield from arithmetic_cases()
    yield from division_cases()
    yield from math_cases()
    yield from comparison_cases()
    yield from logic_cases()
    yield from select_cases()
    yield from sum_cases()
