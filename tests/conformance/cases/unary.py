"""Unary elementwise ops, casts, and the gradients of unary ops."""

import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, bfloat16

NAN, INF = np.nan, np.inf
SPECIAL = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e-3, -1e-3, 20.0, -20.0, 1e30], np.float32
)
# Rounding of one operation in each type, relative to the value.
ROUNDING = {np.float32: 1.2e-6, np.float64: 3e-15, np.float16: 1.5e-3, bfloat16: 1.2e-2}
FLOATS = (np.float32, np.float64, np.float16, bfloat16)
INTS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)

EXACT = ["Abs", "Neg", "Sign", "Square", "Floor", "Ceil", "Rint", "Round", "Relu", "Relu6"]
# op: (low, high, absolute tolerance as a multiple of the rounding)
MATH = {
    "Sqrt": (0.01, 100, 0),
    "Rsqrt": (0.01, 100, 0),
    "Reciprocal": (0.1, 10, 0),
    "Inv": (0.1, 10, 0),
    "Exp": (-8, 8, 0),
    "Expm1": (-4, 4, 0.1),
    "Log": (0.01, 100, 1),
    "Log1p": (-0.9, 10, 1),
    "Sin": (-20, 20, 1),
    "Cos": (-20, 20, 1),
    "Tan": (-1.4, 1.4, 1),
    "Asin": (-1, 1, 1),
    "Acos": (-1, 1, 1),
    "Atan": (-10, 10, 1),
    "Sinh": (-4, 4, 1),
    "Cosh": (-4, 4, 0),
    "Tanh": (-5, 5, 1),
    "Asinh": (-10, 10, 1),
    "Acosh": (1.1, 10, 1),
    "Atanh": (-0.9, 0.9, 1),
    "Sigmoid": (-10, 10, 0.1),
    "Softplus": (-20, 20, 0.1),
    "Softsign": (-5, 5, 0),
    "Elu": (-5, 5, 1),
    "Selu": (-5, 5, 1),
    "Erf": (-3, 3, 1),
    "Erfc": (-3, 3, 1),
    "Erfinv": (-0.95, 0.95, 4),
    "Ndtri": (0.02, 0.98, 4),
    "Lgamma": (0.2, 10, 4),
    "Digamma": (1, 10, 4),
}
ONLY_WIDE = {"Ndtri", "Erfinv", "Reciprocal"}
BESSEL = {"BesselI0": (-3, 3), "BesselI1": (-3, 3), "BesselI0e": (-10, 10), "BesselI1e": (-10, 10)}
NO_SPECIAL = {"Ndtri", "Lgamma", "Digamma", "Erfinv", "Sin", "Cos", "Tan"}


def name_of(dtype):
    return tf.as_dtype(dtype).name


def exact_cases():
    for op in EXACT:
        for dtype in FLOATS[:2] if op == "Rint" else FLOATS:
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((3, 37), dtype, -9, 9)])
        yield Case(f"{op}_special", op, [SPECIAL])
        yield Case(f"{op}_scalar", op, [np.float32(-1.5)])
        yield Case(f"{op}_empty", op, [np.zeros((0, 3), np.float32)])
        yield Case(f"{op}_rank8", op, [Gen((2, 1, 3, 1, 2, 2, 1, 2), np.float32, -9, 9)])
        yield Case(f"{op}_large", op, [Gen((150000,), np.float32, -9, 9)])
    for op in ("Abs", "Neg", "Sign", "Square"):
        for dtype in (np.int8, np.int16, np.int32, np.int64):
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((5, 70), dtype, -100, 100)])
    for dtype in INTS:
        low = 0 if np.dtype(dtype).kind == "u" else -100
        yield Case(f"Invert_{name_of(dtype)}", "Invert", [Gen((300,), dtype, low, 100)])
    yield Case("Abs_least", "Abs", [np.array([-(2**31), 2**31 - 1], np.int32)])
    yield Case("LogicalNot", "LogicalNot", [Gen((2, 333), np.bool_, 0, 2)])
    for op in ("IsNan", "IsInf", "IsFinite"):
        for dtype in FLOATS:
            yield Case(f"{op}_{name_of(dtype)}", op, [SPECIAL.astype(dtype)])
    for op in ("ZerosLike", "OnesLike"):
        for dtype in (np.float32, np.float64, np.float16, bfloat16, np.int32, np.int64, np.bool_, np.uint8):
            high = 2 if dtype is np.bool_ else 9
            yield Case(f"{op}_{name_of(dtype)}", op, [Gen((4, 5), dtype, 0, high)])
    yield Case("ZerosLike_nan", "ZerosLike", [SPECIAL])


def math_cases():
    for op, (low, high, absolute) in MATH.items():
        for dtype in FLOATS[:2] if op in ONLY_WIDE else FLOATS[:3]:
            rounding = ROUNDING[dtype]
            yield Case(
                f"{op}_{name_of(dtype)}",
                op,
                [Gen((5, 61), dtype, low, high)],
                rtol=2 * rounding,
                atol=2 * absolute * rounding,
            )
        if op not in NO_SPECIAL:
            yield Case(f"{op}_special", op, [SPECIAL], rtol=2e-6, atol=2e-6)
        yield Case(f"{op}_scalar", op, [np.float32((low + high) / 2 + 0.1)], rtol=2e-6, atol=2e-6)
        yield Case(f"{op}_empty", op, [np.zeros((2, 0), np.float32)])
        yield Case(f"{op}_large", op, [Gen((130001,), np.float32, low, high)], rtol=4e-6, atol=4e-6 * absolute)
    for op, (low, high) in BESSEL.items():
        for dtype in FLOATS[:2]:
            yield Case(
                f"{op}_{name_of(dtype)}",
                op,
                [Gen((40,), dtype, low, high)],
                rtol=4 * ROUNDING[dtype],
                atol=4 * ROUNDING[dtype],
            )
    tail = np.concatenate([np.linspace(-9, 9.1, 200), [np.inf, -np.inf, np.nan, 12, 40, 1e30]]).astype(np.float32)
    yield Case("Erfc_tail", "Erfc", [tail], rtol=6e-6)
    wide = np.concatenate([np.linspace(-27, 26.5, 300), np.linspace(-1.1, 1.1, 60), [np.inf, -np.inf, np.nan, 40, 1e300, 0.0, -0.0, 1e-300]])
    yield Case("Erfc_wide_double", "Erfc", [wide], rtol=1e-13)
    yield Case("Erf_wide_double", "Erf", [wide[np.abs(wide) < 100]], rtol=4e-15)
    near = np.array([-1e-30, -1e-8, -1e-4, -0.01, -0.4, -3, -16, -17, -100, -np.inf, 0, -0.0, np.nan], np.float32)
    yield Case("Elu_near", "Elu", [near], rtol=1e-6, atol=1e-7)
    yield Case("Selu_near", "Selu", [near], rtol=1e-6, atol=2e-7)
    for op in ("Elu", "Selu"):
        yield Case(f"{op}_near_double", op, [np.concatenate([near.astype(np.float64), np.linspace(-3, 1, 77)])], rtol=4e-15, atol=1e-15)
    yield Case("Sin_far", "Sin", [np.array([1e4, -3e5, 12345.678, 1e7], np.float32)], rtol=1e-5, atol=2e-6)
    yield Case("Cos_far", "Cos", [np.array([1e4, -3e5, 12345.678, 1e7], np.float32)], rtol=1e-5, atol=2e-6)
    yield Case("Exp_far", "Exp", [np.array([88.5, 89.5, -87, -100, 700], np.float32)], rtol=2e-6)
    far = np.array([88, 88.37, 88.4, 88.6, 88.72, 88.73, 89, 1e30, INF], np.float32)
    yield Case("Expm1_far", "Expm1", [far], rtol=2e-6)
    yield Case("Expm1_far_bfloat16", "Expm1", [far.astype(bfloat16)], rtol=1.2e-2)
    signed = np.array([1e-30, 1e-4, 0.41, 0.42, 0.4999, 0.5, 0.5001, 0.9999999, 1, 1.0001, 2.41, 2.42, 1e4, 1e30, INF], np.float64)
    signed = np.concatenate([signed, -signed, [0.0, -0.0, NAN]])
    for dtype in FLOATS[:2]:
        for op in ("Asin", "Acos", "Atan", "Tanh"):
            yield Case(f"{op}_bounds_{name_of(dtype)}", op, [signed.astype(dtype)], rtol=2 * ROUNDING[dtype], atol=1e-44)
    yield Case("Tanh_far_double", "Tanh", [np.array([0.6249, 0.6251, 18, 19, 20, 21, 400, 1e300])], rtol=1e-15)
    yield Case("Cosh_far", "Cosh", [np.array([0, -0.0, 80, -88.5, 89.3, 89.41, -89.42, 89.5, 1e30, INF, -INF, NAN], np.float32)], rtol=2e-6)
    outside = np.array([-1.5, -1, -0.9999, -0.5, -0.0, 0, 0.5, 0.9999, 1, 1.5, NAN], np.float32)
    for op in ("Erfinv", "Ndtri"):
        yield Case(f"{op}_bounds", op, [outside], rtol=2e-5, atol=2e-6)
    yield Case("Log_denormal", "Log", [np.array([1e-30, 1e30, 1.17549435e-38], np.float32)], rtol=2e-6)


def activation_cases():
    g, x = Gen((7, 53), np.float32, -3, 3, seed=2), Gen((7, 53), np.float32, -8, 8, seed=3)
    small = np.array([NAN, 1, NAN, 2, -1, 3, 5, -0.0], np.float32)
    features = np.array([1, NAN, -1, 0, -0.0, INF, -INF, 6], np.float32)
    for op in ("ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"):
        yield Case(op, op, [g, x], rtol=2e-6, atol=1e-6)
        yield Case(f"{op}_special", op, [small, features], rtol=2e-6, atol=1e-6)
        yield Case(
            f"{op}_large", op, [Gen((140000,), seed=4), Gen((140000,), low=-8, high=8, seed=5)], rtol=4e-6, atol=1e-6
        )
        yield Case(f"{op}_empty", op, [np.zeros((0,), np.float32), np.zeros((0,), np.float32)])
        yield Case(
            f"{op}_half",
            op,
            [Gen((60,), np.float16, seed=6), Gen((60,), np.float16, -8, 8, seed=7)],
            rtol=4e-3,
            atol=1e-3,
        )
        yield Case(f"{op}_shapes", op, [np.zeros((2,), np.float32), np.zeros((3,), np.float32)], error="")
    y, dy = Gen((7, 53), np.float32, 0.1, 0.9, seed=2), Gen((7, 53), np.float32, -3, 3, seed=3)
    for op in ("TanhGrad", "SigmoidGrad", "ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad"):
        yield Case(op, op, [y, dy], rtol=2e-6, atol=1e-6)
        yield Case(
            f"{op}_double",
            op,
            [Gen((50,), np.float64, 0.1, 0.9), Gen((50,), np.float64, seed=5)],
            rtol=1e-14,
            atol=1e-15,
        )
        yield Case(
            f"{op}_half", op, [Gen((50,), np.float16, 0.2, 0.9), Gen((50,), np.float16, seed=5)], rtol=5e-3, atol=1e-3
        )
        yield Case(f"{op}_large", op, [Gen((140000,), low=0.1, high=0.9), Gen((140000,), seed=5)], rtol=4e-6, atol=1e-6)
    for op in ("ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad"):
        for dtype in FLOATS:
            y = np.array([0, -0.0, INF, -INF, NAN, 2, 0, INF, 1, NAN], np.float32).astype(dtype)
            yield Case(f"{op}_of_zero_{name_of(dtype)}", op, [y, np.array([0, -0.0, 0, 0, -0.0, 0, 1, 1, NAN, 1], np.float32).astype(dtype)])
    for alpha in (0.2, 0.0, 1.5):
        yield Case(f"LeakyRelu_{alpha}", "LeakyRelu", [np.concatenate([SPECIAL, features])], {"alpha": alpha})
        yield Case(f"LeakyReluGrad_{alpha}", "LeakyReluGrad", [g, x], {"alpha": alpha})
    yield Case("LeakyRelu_default", "LeakyRelu", [x])
    yield Case("LeakyReluGrad_special", "LeakyReluGrad", [small, features])


def cast_cases():
    types = FLOATS + INTS + (np.bool_,)
    for source in types:
        for target in types:
            if source is np.bool_ or target is np.bool_:
                low, high = 0, 2
            elif "u" in (np.dtype(source).kind, np.dtype(target).kind):
                low, high = 0, 120
            else:
                low, high = -120, 120
            yield Case(
                f"Cast_{name_of(source)}_{name_of(target)}", "Cast", [Gen((65,), source, low, high)], {"DstT": target}
            )
    yield Case("Cast_wraps", "Cast", [np.array([300, -1, 65536, -129], np.int32)], {"DstT": np.int8})
    yield Case(
        "Cast_double_float", "Cast", [np.array([1e300, -1e300, 1e-50, NAN, 0.1], np.float64)], {"DstT": np.float32}
    )
    yield Case("Cast_nan_bool", "Cast", [SPECIAL], {"DstT": np.bool_})
    yield Case(
        "Cast_float_bfloat16",
        "Cast",
        [np.concatenate([SPECIAL, np.array([1.00390625, 1.01171875, 3.4e38], np.float32)])],
        {"DstT": bfloat16},
    )
    yield Case(
        "Cast_float_half",
        "Cast",
        [np.concatenate([SPECIAL, np.array([65504, 65520, 1e-7, 6e-8], np.float32)])],
        {"DstT": np.float16},
    )
    finer = [1.00390625, 1.0039, 1.999, -1.999, 0.1, 1e-8, 65519, 65520, 70000, -70000, 2049.9, 5.9e-8, 1e39, NAN, INF, -INF]
    for source in FLOATS:
        for target in FLOATS:
            yield Case(
                f"Cast_truncate_{name_of(source)}_{name_of(target)}",
                "Cast",
                [np.array(finer).astype(source)],
                {"DstT": target, "Truncate": True},
            )
    around = [1.0, 2.5, 447.9, 448, 464, 464.1, 480, 500, 57344, 61439, 61440, 65504, 70000, 2**-6, 2**-7, 2**-9, 2**-10, 2**-10 * 1.01, 2**-16, 2**-17, 3 * 2**-17,
              2**-18, 1e-30, 0.0, 1.0625, 1.1875, 1.06249, 1.125, 1.375, 0.0146, NAN, INF]
    numbers = np.concatenate([np.array(around), -np.array(around)])
    float8 = (tf.dtypes.experimental.float8_e5m2.as_numpy_dtype, tf.dtypes.experimental.float8_e4m3fn.as_numpy_dtype)
    for narrow in float8:
        for source in FLOATS:
            yield Case(f"Cast_{name_of(source)}_{name_of(narrow)}", "Cast", [numbers.astype(source)], {"DstT": narrow})
        codes = np.arange(256, dtype=np.uint8).view(narrow)
        for target in (*FLOATS, np.bool_, *float8):
            yield Case(f"Cast_{name_of(narrow)}_{name_of(target)}", "Cast", [codes], {"DstT": target})
        yield Case(f"Cast_{name_of(narrow)}_int32", "Cast", [codes[:120]], {"DstT": np.int32})
        for source in (*FLOATS, *(float8[1:] if narrow is float8[0] else ())):
            truncated = np.array([1.2, 1.375, -1.9, 470, 0.1, 3e-3, 1.99, NAN]).astype(source)
            yield Case(f"Cast_truncate_{name_of(source)}_{name_of(narrow)}", "Cast", [truncated], {"DstT": narrow, "Truncate": True})
        halves = np.array([0x00FF, 0x03FF, 0x8201, 0x3CFF, 0x7BFF, 0x7C00], np.uint16).view(np.float16)
        yield Case(f"Cast_truncate_small_halves_{name_of(narrow)}", "Cast", [halves], {"DstT": narrow, "Truncate": True})
    # Of these numbers the double nearest to the middle of two is rounded to another one if it becomes a float first.
    yield Case("Cast_double_float8_once", "Cast", [np.array([1.0625 + 1e-12, 1.0625 - 1e-12, 1.1875 - 1e-12, 464 + 1e-9])], {"DstT": float8[1]})
    yield Case("Cast_truncate_large", "Cast", [Gen((150000,))], {"DstT": np.float16, "Truncate": True})
    yield Case("Cast_truncate_int", "Cast", [np.array([2051, 65521, -257], np.int32)], {"DstT": bfloat16, "Truncate": True})
    yield Case("Cast_large", "Cast", [Gen((150000,), np.int64, -1000000, 1000000)], {"DstT": np.float32})
    yield Case("Cast_precise", "Cast", [np.array([2**53 + 1, 2**24 + 1, -(2**62) - 1], np.int64)], {"DstT": np.float32})
    yield Case("Cast_scalar", "Cast", [np.int32(3)], {"DstT": np.float32})
    yield Case("Cast_empty", "Cast", [np.zeros((0, 2), np.int32)], {"DstT": np.float32})


def check_cases():
    yield Case("CheckNumerics", "CheckNumerics", [Gen((130000,))], {"message": "here"})
    yield Case(
        "CheckNumerics_nan",
        "CheckNumerics",
        [np.array([1, NAN], np.float32)],
        {"message": "here"},
        error="here : Tensor had NaN values",
    )
    yield Case(
        "CheckNumerics_inf",
        "CheckNumerics",
        [np.array([1, -INF], np.float64)],
        {"message": "here"},
        error="here : Tensor had Inf values",
    )
    yield Case(
        "CheckNumerics_both",
        "CheckNumerics",
        [np.array([NAN, INF], np.float16)],
        {"message": "here"},
        error="here : Tensor had Inf and NaN values",
    )
    yield Case("CheckNumericsV2", "CheckNumericsV2", [Gen((50,))], {"message": "here"})
    yield Case(
        "CheckNumericsV2_negative",
        "CheckNumericsV2",
        [np.array([1, -INF], np.float32)],
        {"message": "here"},
        error="here : Tensor had -Inf values",
    )
    yield Case(
        "CheckNumericsV2_all",
        "CheckNumericsV2",
        [np.array([INF, -INF, NAN], np.float32)],
        {"message": "here"},
        error="here : Tensor had -Inf, +Inf, and NaN values",
    )


def cases():
    yield from exact_cases()
    yield from math_cases()
    yield from activation_cases()
    yield from cast_cases()
    yield from check_cases()
