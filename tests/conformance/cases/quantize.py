"""QuantizeAndDequantize: numbers rounded to a grid."""
import itertools

import numpy as np

from case_builder import Case, Gen

X = np.array([-3.5, -1, -0.51, -0.5, 0, 0.25, 0.5, 0.7, 1, 2.49, 7], np.float32)


def cases():
    for dtype in (np.float32, np.float64):
        x, tol = X.astype(dtype), {"rtol": 1e-6, "atol": 1e-6}
        name = np.dtype(dtype).name
        for signed, given, narrow, mode in itertools.product((False, True), (False, True), (False, True), ("HALF_TO_EVEN", "HALF_UP")):
            attrs = {"signed_input": signed, "range_given": given, "narrow_range": narrow, "round_mode": mode, "num_bits": 4}
            where = f"{name}_{signed:d}{given:d}{narrow:d}_{mode}"
            for op in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"):
                yield Case(f"{op[-2:]}_{where}", op, [x, dtype(-1), dtype(2)], attrs, **tol)
            if mode == "HALF_UP":
                attrs = {"signed_input": signed, "range_given": given, "narrow_range": narrow}
                yield Case(f"V3_{where}", "QuantizeAndDequantizeV3", [x, dtype(-1), dtype(2), np.int32(5)], attrs, **tol)
        yield Case(f"V4Grad_{name}", "QuantizeAndDequantizeV4Grad", [np.arange(11).astype(dtype), x, dtype(-0.5), dtype(2)])
    picture = Gen((2, 3, 4))
    for axis in (0, 1, 2):
        low, high = -np.arange(1, 5)[:(2, 3, 4)[axis]].astype(np.float32) / 4, np.arange(1, 5)[:(2, 3, 4)[axis]].astype(np.float32) / 3
        yield Case(f"V2_axis{axis}", "QuantizeAndDequantizeV2", [picture, low, high], {"axis": axis}, rtol=1e-6, atol=1e-6)
        yield Case(f"V4Grad_axis{axis}", "QuantizeAndDequantizeV4Grad", [Gen((2, 3, 4), seed=2), picture, low, high], {"axis": axis})
    yield Case("V2_defaults", "QuantizeAndDequantizeV2", [X, np.float32(0), np.float32(0)], rtol=1e-6, atol=1e-6)
    yield Case("V2_zeros", "QuantizeAndDequantizeV2", [np.zeros(3, np.float32), np.float32(0), np.float32(0)])
    yield Case("V2_range", "QuantizeAndDequantizeV2", [X, np.float32(2), np.float32(1)], {"range_given": True}, error="nvalid range")
    yield Case("V2_bits", "QuantizeAndDequantizeV2", [X, np.float32(0), np.float32(1)], {"num_bits": 64}, error="num_bits")
