"""QuantizeV2 and Dequantize: floats to integers over a range and back."""
import numpy as np
import tensorflow as tf

from case_builder import Case, Gen

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


def cases():
    yield from quantize()
    yield from dequantize()
