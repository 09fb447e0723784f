"""InTopK, NthElement and IsotonicRegression."""
import numpy as np

from case_builder import Case, Gen, bfloat16

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16


def cases():
    odd = Gen((40, 7), i32, 0, 5).numpy().astype(f32)  # small integers: ties
    odd[3, 2], odd[4, 1], odd[5, 0] = np.inf, np.nan, -np.inf
    for dtype in (i32, i64):
        targets = Gen((40,), dtype, -1, 8, 3)
        for k in (0, 1, 3, 7, 9):
            yield Case(f"InTopK_{k}_{np.dtype(dtype).name}", "InTopK", [odd, targets], {"k": k})
            yield Case(f"InTopKV2_{k}_{np.dtype(dtype).name}", "InTopKV2", [odd, targets, dtype(k)])
    yield Case("InTopK_large", "InTopK", [Gen((1000, 150)), Gen((1000,), i32, 0, 150, 2)], {"k": 5})
    yield Case("InTopK_rows_differ", "InTopK", [Gen((3, 4)), np.array([0, 1], i32)], {"k": 1}, error="")
    for dtype in (f32, f64, f16, bfloat16, i32, i64, np.uint8, np.int8, np.int16, np.uint16):
        values = Gen((2, 3, 9), i32, 0, 50).numpy().astype(dtype)
        for reverse in (False, True):
            yield Case(f"NthElement_{np.dtype(dtype).name}_{reverse}", "NthElement", [values, i32(2)], {"reverse": reverse})
    yield Case("NthElement_row", "NthElement", [Gen((9,)), i32(8)])
    yield Case("NthElement_large", "NthElement", [Gen((900, 300)), i32(20)])
    yield Case("NthElement_out_of_range", "NthElement", [Gen((3, 4)), i32(4)], error="")
    yield Case("NthElement_scalar", "NthElement", [f32(1), i32(0)], error="")
    for dtype, out, rtol in ((f32, f32, 1e-6), (f64, f64, 1e-12), (f16, f16, 4e-3), (bfloat16, bfloat16, 2e-2), (i32, f64, 1e-12), (i64, f64, 1e-12), (np.int8, f32, 1e-6), (np.int16, f32, 1e-6)):
        values = Gen((2, 3, 9), i32, 0, 9).numpy().astype(dtype)
        yield Case(f"Isotonic_{np.dtype(dtype).name}", "IsotonicRegression", [values], {"output_dtype": out}, rtol=rtol, atol=rtol)
    isotonic = {"output_dtype": f32}
    yield Case("Isotonic_row", "IsotonicRegression", [np.array([3, 3, 1, 2, 5, 5, 0], f32)], isotonic)
    yield Case("Isotonic_falling", "IsotonicRegression", [np.array([[7, 7, 3, 3, 1]], f32)], isotonic)
    yield Case("Isotonic_nan", "IsotonicRegression", [np.array([[np.nan, 1, 2], [1, np.nan, 2], [np.inf, 1, -np.inf]], f32)], isotonic)
    yield Case("Isotonic_empty", "IsotonicRegression", [np.zeros((2, 0), f32)], isotonic)
    yield Case("Isotonic_large", "IsotonicRegression", [Gen((900, 300))], isotonic, rtol=1e-4, atol=1e-5)
