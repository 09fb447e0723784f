"""Rarer special functions."""
import numpy as np
import tensorflow as tf

from case_builder import Case, Gen

# Range, and the largest absolute difference in roundings (where values pass through 0).
RANGES = {
    "BesselJ0": (-12, 12, 4), "BesselJ1": (-12, 12, 4), "BesselY0": (0.05, 12, 8), "BesselY1": (0.05, 12, 8),
    "BesselK0": (0.05, 8, 4), "BesselK0e": (0.05, 20, 4), "BesselK1": (0.05, 8, 4), "BesselK1e": (0.05, 20, 4),
    "Dawsn": (-9, 9, 4), "Expint": (0.01, 12, 8), "FresnelCos": (-6, 6, 8), "FresnelSin": (-6, 6, 8), "Spence": (0, 9, 8),
}
SPECIAL = np.array([np.nan, np.inf, 0.0, 1.0, 1e-20, 1e-3], np.float32)


def cases():
    for op, (low, high, absolute) in RANGES.items():
        for dtype, rounding in ((np.float32, 1.2e-7), (np.float64, 4e-16)):
            name = tf.as_dtype(dtype).name
            yield Case(f"{op}_{name}", op, [Gen((5, 61), dtype, low, high)], rtol=16 * rounding, atol=4 * absolute * rounding)
        yield Case(f"{op}_special", op, [SPECIAL], rtol=2e-6, atol=1e-12)
        yield Case(f"{op}_scalar", op, [np.float32(1.75)], rtol=4e-6)
        yield Case(f"{op}_empty", op, [np.zeros((2, 0), np.float32)])
        yield Case(f"{op}_rank8", op, [Gen((2, 1, 3, 1, 2, 2, 1, 2), np.float32, max(low, 0.1), high)], rtol=1e-5, atol=4e-6)
        yield Case(f"{op}_large", op, [Gen((130001,), np.float32, low, high)], rtol=2e-5, atol=4e-6)
    for dtype in (np.float32, np.float64):
        for op in ("BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1"):
            yield Case(f"{op}_negative_{np.dtype(dtype).name}", op, [np.array([-np.inf, -3, -1e-20, 0.0, -0.0, np.inf, np.nan], dtype)])
    for op in ("BesselJ0", "BesselJ1", "BesselY0", "BesselY1"):
        yield Case(f"{op}_far", op, [Gen((211,), np.float64, 9, 1e4)], rtol=1e-13, atol=2e-15)
    for op in ("Dawsn", "FresnelCos", "FresnelSin"):
        yield Case(f"{op}_far", op, [np.array([-np.inf, 20, -35, 150, 1e5, 1e9], np.float64)], rtol=1e-6, atol=1e-6)
    yield Case("Expint_far", "Expint", [np.array([-1, 25, 39, 41, 60, 88, 700], np.float64)], rtol=1e-12)
    for dtype, rtol in ((np.float32, 2e-5), (np.float64, 1e-10)):
        a, b, x = Gen((4, 9), dtype, 0.2, 6), Gen((4, 9), dtype, 0.2, 6, seed=2), Gen((4, 9), dtype, 0, 1, seed=3)
        name = np.dtype(dtype).name
        yield Case(f"Betainc_{name}", "Betainc", [a, b, x], rtol=rtol, atol=1e-6 if dtype is np.float32 else 1e-13)
        yield Case(f"Betainc_scalars_{name}", "Betainc", [dtype(2), dtype(0.5), x], rtol=rtol, atol=1e-6)
    yield Case("Betainc_edges", "Betainc", [np.float32(2), np.float32(3), np.array([0, 1, -0.5, 1.5, np.nan], np.float32)])
    yield Case("Betainc_empty", "Betainc", [np.float32(2), np.float32(3), np.zeros((0, 2), np.float32)])
    yield Case("Betainc_shapes", "Betainc", [Gen((2,)), Gen((3,)), Gen((3,))], error="")
    yield Case("Betainc_large", "Betainc", [Gen((120000,), np.float32, 0.5, 3), np.float32(2), Gen((120000,), np.float32, 0, 1, seed=4)],
               rtol=1e-4, atol=2e-6)
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
        low = 0 if np.dtype(dtype).kind == "u" else -100
        yield Case(f"PopulationCount_{np.dtype(dtype).name}", "PopulationCount", [Gen((4, 50), dtype, low, 100)])
    yield Case("PopulationCount_empty", "PopulationCount", [np.zeros((0,), np.int32)])
