"""QuantizeV2 and Dequantize: floats to integers over a range and back."""
import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, L

TYPES = {"qint8": tf.qint8, "quint8": tf.quint8, "qint16": tf.qint16, "quint16": tf.quint16, "qint32": tf.qint32}
MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")
X = np.array([-300, -1.52, -1, -0.51, -0.3, 0, 0.2, 0.52, 0.77, 1, 1.5, 2.3, np.inf, -np.inf], np.float32)
RANGES = {"both": (-1, 1), "above": (0.5, 0.7), "below": (-3, -2), "point": (0, 0)}


def held(name, numbers):
    return np.array(numbers).astype(TYPES[name].as_numpy_dtype)


def f32(*values):
    return [np.float32(v) for v in values]


def quantize():
    for name, dtype in TYPES.items():
        for mode in MODES:
            for where, (low, high) in RANGES.items():
                # Where no number of the range has a step TensorFlow takes the lowest one's for 0: it flushes subnormal numbers.
                for narrow in (False, True) if mode == "SCALED" and not (name[1] == "u" and where == "below") else (False,):
                    attrs = {"T": dtype, "mode": mode, "narrow_range": narrow}
                    yield Case(f"QuantizeV2_{name}_{mode}_{where}{'_narrow' if narrow else ''}", "QuantizeV2", [X, *f32(low, high)], attrs, rtol=1e-6)
        yield Case(f"QuantizeV2_{name}_even", "QuantizeV2", [X, *f32(-1, 1)], {"T": dtype, "mode": "SCALED", "round_mode": "HALF_TO_EVEN"}, rtol=1e-6)
        low, high = -np.arange(1, 4).astype(np.float32), np.arange(2, 5).astype(np.float32)
        for mode in ("MIN_COMBINED", "SCALED"):
            attrs = {"T": dtype, "mode": mode, "axis": 1, "ensure_minimum_range": 0.0}
            yield Case(f"QuantizeV2_{name}_{mode}_axis", "QuantizeV2", [Gen((2, 3, 5), seed=4), low, high], attrs, rtol=1e-6)
    yield Case("QuantizeV2_last_axis", "QuantizeV2", [Gen((4, 3), seed=4), low, high], {"T": tf.quint8, "axis": 1})
    yield Case("QuantizeV2_defaults", "QuantizeV2", [X, *f32(-2, 2)], {"T": tf.quint8})
    yield Case("QuantizeV2_large", "QuantizeV2", [Gen((130001,)), *f32(-1, 0.9)], {"T": tf.qint16, "mode": "MIN_FIRST"})
    yield Case("QuantizeV2_minimum", "QuantizeV2", [X, *f32(0, 0)], {"T": tf.quint8, "ensure_minimum_range": 0.5}, rtol=1e-6)
    yield Case("QuantizeV2_order", "QuantizeV2", [X, *f32(1, 0)], {"T": tf.quint8}, error="input_max_range must be larger than input_min_range")
    yield Case("QuantizeV2_rounding", "QuantizeV2", [X, *f32(0, 1)], {"T": tf.quint8, "round_mode": "HALF_TO_EVEN"},
               error="Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED'")
    yield Case("QuantizeV2_first_by_axis", "QuantizeV2", [Gen((2, 3, 5)), low, high], {"T": tf.quint8, "mode": "MIN_FIRST", "axis": 1},
               error="MIN_FIRST mode is not implemented for Quantize with axis != -1")
    yield Case("QuantizeV2_axis_beyond", "QuantizeV2", [X, low, high], {"T": tf.quint8, "axis": 3}, error="")


def dequantize():
    for name, dtype in TYPES.items():
        limits = np.iinfo(TYPES[name].as_numpy_dtype[0] if TYPES[name].as_numpy_dtype.names else name[1:])
        # The highest of 32 bits are no floats: TensorFlow makes them negative in mode SCALED.
        high = limits.max if limits.max < 2**31 - 1 else 2147483520
        numbers = held(name, [limits.min, limits.min + 1, high - 1, high, limits.max // 3, 0, 1, 100])
        for mode in MODES:
            for where, (low, high) in RANGES.items():
                yield Case(f"Dequantize_{name}_{mode}_{where}", "Dequantize", [numbers, *f32(low, high)], {"mode": mode}, rtol=1e-6, atol=1e-6)
        yield Case(f"Dequantize_{name}_narrow", "Dequantize", [numbers, *f32(-2, 1)], {"mode": "SCALED", "narrow_range": True}, rtol=1e-6, atol=1e-6)
        yield Case(f"Dequantize_{name}_bfloat16", "Dequantize", [numbers, *f32(-2, 1)], {"dtype": tf.bfloat16}, rtol=1e-2, atol=1e-6)
        rows = held(name, np.arange(30).reshape(2, 3, 5))
        low, high = -np.arange(1, 4).astype(np.float32), np.arange(2, 5).astype(np.float32)
        for mode in ("MIN_COMBINED", "SCALED"):
            yield Case(f"Dequantize_{name}_{mode}_axis", "Dequantize", [rows, low, high], {"mode": mode, "axis": 1}, rtol=1e-6, atol=1e-6)
    yield Case("Dequantize_defaults", "Dequantize", [held("quint8", [0, 128, 255]), *f32(-1, 2)], rtol=1e-6, atol=1e-6)
    yield Case("Dequantize_empty", "Dequantize", [held("quint8", np.zeros((0, 3))), *f32(-1, 2)])
    yield Case("Dequantize_scalar", "Dequantize", [held("qint8", 7), *f32(-1, 2)], rtol=1e-6, atol=1e-6)
    yield Case("Dequantize_rank8", "Dequantize", [held("qint8", np.arange(4).reshape((2, 1, 1, 2, 1, 1, 1, 1))), *f32(-1, 2)], rtol=1e-6, atol=1e-6)
    yield Case("Dequantize_nan", "Dequantize", [held("quint8", [0, 128, 255]), *f32(np.nan, 2)])
    yield Case("Dequantize_first_by_axis", "Dequantize", [rows, low, high], {"mode": "MIN_FIRST", "axis": 1}, error="MIN_FIRST mode is not implemented")
    yield Case("Dequantize_mode", "Dequantize", [held("quint8", [1]), *f32(-1, 2)], {"mode": "SCALED", "dtype": tf.bfloat16}, error="MIN_COMBINED")
    yield Case("Dequantize_ranges", "Dequantize", [held("quint8", [1, 2]), *f32([-1, 1], [2, 3])], error="")


# Numbers of all 256 values, in any order.
def mixed(shape, step=37, name="quint8"):
    return held(name, np.arange(int(np.prod(shape))) * step % 256 - (128 if name == "qint8" else 0)).reshape(shape)


def wide(shape, scale=1):
    return held("qint32", (np.arange(int(np.prod(shape)), dtype=np.int64) * 7919 % 20011 - 9000) * scale).reshape(shape)


def products():
    ranges = {"around": f32(-1, 2, -.5, .75), "above": f32(0, 6, 0, 1), "below": f32(-3, 0, -2, -1)}
    for label, of in ranges.items():
        for a, b in ((False, False), (True, False), (False, True), (True, True)):
            x, y = mixed((7, 5) if a else (5, 7)), mixed((4, 7) if b else (7, 4), 91)
            yield Case(f"QuantizedMatMul_{label}_{a}_{b}", "QuantizedMatMul", [x, y, *of], {"transpose_a": a, "transpose_b": b, "Toutput": tf.qint32},
                       rtol=1e-6)
    yield Case("QuantizedMatMul_large", "QuantizedMatMul", [mixed((120, 90)), mixed((90, 40), 91), *f32(-1, 2, -.5, .75)], {"Toutput": tf.qint32}, rtol=1e-6)
    yield Case("QuantizedMatMul_range", "QuantizedMatMul", [mixed((2, 3)), mixed((3, 2)), *f32(1, 1, 0, 1)], {"Toutput": tf.qint32},
               error="max_a must be larger than min_a.")
    yield Case("QuantizedMatMul_sizes", "QuantizedMatMul", [mixed((2, 3)), mixed((2, 3)), *f32(0, 1, 0, 1)], {"Toutput": tf.qint32}, error="")
    for padding in ("SAME", "VALID"):
        for label, of in (("around", f32(-1, 2, -.5, .75)), ("above", f32(0, 6, 0, 1))):
            for size, taps, stride in ((6, 3, 1), (8, 3, 2), (9, 2, 3), (7, 1, 2), (8, 3, 3), (8, 1, 4), (11, 2, 5)):
                x, y = mixed((2, size, size + 1, 3)), mixed((taps, taps, 3, 5), 91)
                yield Case(f"QuantizedConv2D_{padding}_{label}_{size}_{taps}_{stride}", "QuantizedConv2D", [x, y, *of],
                           {"out_type": tf.qint32, "strides": [1, stride, stride, 1], "padding": padding}, rtol=1e-6)
    attrs = {"out_type": tf.qint32, "strides": [1, 1, 1, 1], "padding": "SAME"}
    yield Case("QuantizedConv2D_large", "QuantizedConv2D", [mixed((2, 20, 20, 8)), mixed((3, 3, 8, 16), 91), *f32(-1, 2, -.5, .75)], attrs, rtol=1e-6)
    yield Case("QuantizedConv2D_depth", "QuantizedConv2D", [mixed((1, 4, 4, 3)), mixed((2, 2, 2, 2)), *f32(-1, 2, -1, 1)], attrs, error="")
    yield Case("QuantizedConv2D_strides", "QuantizedConv2D", [mixed((1, 4, 4, 2)), mixed((2, 2, 2, 2)), *f32(-1, 2, -1, 1)],
               {**attrs, "strides": [1, 1, 2, 1]}, error="only supports equal length strides")


def between_products():
    for name in ("quint8", "qint8"):
        for label, of in {"around": f32(-1, 2, -.5, .75), "wide": f32(-100, 50, 0, .01), "above": f32(0, 3, 0, 200)}.items():
            yield Case(f"QuantizedBiasAdd_{name}_{label}", "QuantizedBiasAdd", [mixed((3, 4, 7), name=name), mixed((7,), 91, name), *of],
                       {"out_type": tf.qint32}, rtol=1e-6)
    yield Case("QuantizedBiasAdd_large", "QuantizedBiasAdd", [mixed((50, 400)), mixed((400,), 91), *f32(-1, 2, -.5, .75)], {"out_type": tf.qint32}, rtol=1e-6)
    yield Case("QuantizedBiasAdd_count", "QuantizedBiasAdd", [mixed((3, 4)), mixed((3,)), *f32(-1, 2, -1, 1)], {"out_type": tf.qint32}, error="")
    some, one = held("qint32", [5, 70000, 9]), held("qint32", [-12345])
    for label, x in {"numbers": wide((4, 50)), "high": wide((4, 50), 100000), "positive": some, "one": one}.items():
        for where, of in {"around": f32(-20000, 20000), "small": f32(-1.5, 1.25), "above": f32(0, 4000)}.items():
            yield Case(f"RequantizationRange_{label}_{where}", "RequantizationRange", [x, *of], rtol=1e-6)
            yield Case(f"QuantizeDownAndShrinkRange_{label}_{where}", "QuantizeDownAndShrinkRange", [x, *of], {"out_type": tf.quint8}, rtol=1e-6)
            for k, to in enumerate((f32(-1, 1), f32(0, .01), f32(-3000, 500), f32(0, 0))):
                yield Case(f"Requantize_{label}_{where}_{k}", "Requantize", [x, *of, *to], {"out_type": tf.quint8}, rtol=1e-6)
    yield Case("Requantize_empty", "Requantize", [wide((0, 4)), *f32(-10, 10, -1, 1)], {"out_type": tf.quint8})
    yield Case("Requantize_low", "Requantize", [wide((4,)), *f32(-1, 1, .5, 1)], {"out_type": tf.quint8},
               error="requested_output_min must be <= 0, but got 0.5")
    yield Case("Requantize_order", "Requantize", [wide((4,)), *f32(-1, 1, -1, -2)], {"out_type": tf.quint8}, error="requested_output_max must be")
    for name, x in (("quint8", mixed((5, 51))), ("qint32", wide((5, 51), 90000))):
        for where, of in {"around": f32(-1, 2), "above": f32(0, 12), "far": f32(-300, 400)}.items():
            for op in ("QuantizedRelu", "QuantizedRelu6"):
                yield Case(f"{op}_{name}_{where}", op, [x, *of], {"out_type": TYPES[name]})
    for op in ("QuantizedMaxPool", "QuantizedAvgPool"):
        for padding in ("SAME", "VALID"):
            for taps, stride in ((2, 2), (3, 2), (3, 1)):
                yield Case(f"{op}_{padding}_{taps}_{stride}", op, [mixed((2, 7, 8, 3)), *f32(-1, 2)],
                           {"ksize": [1, taps, taps, 1], "strides": [1, stride, stride, 1], "padding": padding})
        yield Case(f"{op}_large", op, [mixed((2, 60, 30, 6)), *f32(-1, 2)], {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"})
    for name in ("quint8", "qint32"):
        x = mixed((2, 6)) if name == "quint8" else wide((2, 6))
        for to in ([12], [3, -1], [2, 3, 2], [-1]):
            yield Case(f"QuantizedReshape_{name}_{'_'.join(map(str, to)).replace('-', 'm')}", "QuantizedReshape", [x, np.array(to, np.int32), *f32(-1, 2)])
    shapes = {"same": ((3, 5), (3, 5)), "first": ((5,), (3, 5)), "second": ((2, 3, 5), (3, 5)), "x": ((), (4, 9)), "y": ((4, 9), (1,)), "both": ((), (1, 1)),
              "ones": ((1, 5), (3, 5)), "large": ((170, 400), (400,))}
    for op in ("QuantizedAdd", "QuantizedMul"):
        for label, (a, b) in shapes.items():
            for where, of in {"around": f32(-1, 2, -.5, .75), "above": f32(0, 3, 0, 200), "below": f32(-3, -1, -2, 0)}.items():
                if label != "large" or where == "around":
                    yield Case(f"{op}_{label}_{where}", op, [mixed(a), mixed(b, 91), *of], {"Toutput": tf.qint32}, rtol=1e-6)
        yield Case(f"{op}_range", op, [mixed((2, 3)), mixed((2, 3)), *f32(1, 1, 0, 1)], {"Toutput": tf.qint32}, error="max_x must be larger than min_")
        yield Case(f"{op}_shapes", op, [mixed((2, 3)), mixed((2, 4)), *f32(0, 1, 0, 1)], {"Toutput": tf.qint32}, error="")
    for dim in (0, 1, 2):
        for name in ("quint8", "qint32"):
            shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
            shapes[1][dim] = 5
            values = L([mixed(s, 37 + k) if name == "quint8" else wide(s, 90000 + k) for k, s in enumerate(shapes)])
            yield Case(f"QuantizedConcat_{name}_{dim}", "QuantizedConcat", [np.int32(dim), values, L(f32(-1, 0, -3)), L(f32(2, 1, .5))])
    yield Case("QuantizedConcat_one_range", "QuantizedConcat", [np.int32(0), L([mixed((2, 3)), mixed((1, 3))]), L(f32(-1, -1)), L(f32(2, 2))])
    yield Case("QuantizedConcat_dim", "QuantizedConcat", [np.int32(2), L([mixed((2, 3)), mixed((2, 3))]), L(f32(-1, -1)), L(f32(2, 2))], error="")
    yield Case("QuantizedConcat_sizes", "QuantizedConcat", [np.int32(0), L([mixed((2, 3)), mixed((2, 4))]), L(f32(-1, -1)), L(f32(2, 2))], error="")
    yield Case("QuantizedReshape_size", "QuantizedReshape", [mixed((2, 6)), np.array([5], np.int32), *f32(-1, 2)], error="")


def cases():
    yield from quantize()
    yield from dequantize()
    yield from products()
    yield from between_products()
