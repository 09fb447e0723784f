"""Assert and Print; the outputs of summaries are strings and are not compared."""
import numpy as np

from case_builder import Case, L

i32, f32 = np.int32, np.float32


def cases():
    yes, no = np.array(True), np.array(False)
    x = np.arange(12, dtype=f32).reshape(3, 4) / 4
    yield Case("Assert_true", "Assert", [yes, L(["fine"])])
    yield Case("Assert_message", "Assert", [no, L(["x must be positive", x])],
               error="assertion failed: [x must be positive] [[0 0.25 0.5...")
    yield Case("Assert_all", "Assert", [no, L([np.array([1, 2], i32), np.array(True), x])], {"summarize": 20},
               error="assertion failed: [1 2] [1] [[0 0.25 0.5 0.75][1 1.25 1.5 1.75][2 2.25 2.5 2.75]]")
    yield Case("Assert_row", "Assert", [no, L([x, f32(1e-9), np.array([], f32)])], {"summarize": 4},
               error="assertion failed: [[0 0.25 0.5 0.75]...] [1e-09] []")
    yield Case("Assert_strings", "Assert", [no, L([np.array(["a", "b"], object)])], error="assertion failed: [a b]")
    yield Case("Print", "Print", [x, L([x, i32(3)])], {"message": "x: ", "first_n": 1})
    yield Case("Print_int32", "Print", [np.arange(3), L([])])
    yield Case("ScalarSummary", "ScalarSummary", ["loss", f32(2)])
    yield Case("HistogramSummary", "HistogramSummary", ["h", x])
    yield Case("StringFormat", "StringFormat", [L([x])], {"template": "x is %s"})
    yield Case("AsString", "AsString", [x])
    words = np.array(["a", "b"], object)
    yield Case("Pack_strings", "Pack", [L([words, words])])
    yield Case("StridedSlice_strings", "StridedSlice", [words] + [np.array([k], i32) for k in (0, 1, 1)])
    yield Case("Reshape_strings", "Reshape", [words, np.array([2, 1], i32)])
    yield Case("StringJoin", "StringJoin", [L([np.array(["a", "b"], object), "c"])])
