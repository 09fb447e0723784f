"""Softmax and the cross entropies."""
import numpy as np

from case_builder import Case, Gen, bfloat16

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16
TOLERANCE = {f32: 4e-6, f64: 1e-12, f16: 4e-3, bfloat16: 4e-2}


def near(dtype, factor=1):
    return {"rtol": factor * TOLERANCE[dtype], "atol": factor * TOLERANCE[dtype]}


def softmax():
    for dtype in (f32, f64, f16, bfloat16):
        name = np.dtype(dtype).name
        for shape in ((5,), (3, 7), (2, 3, 4, 33), (4, 1), (0, 5), (300, 400)):
            tag = f"{name}_{'x'.join(map(str, shape))}"
            yield Case(f"Softmax_{tag}", "Softmax", [Gen(shape, dtype, -8, 8)], **near(dtype))
            yield Case(f"LogSoftmax_{tag}", "LogSoftmax", [Gen(shape, dtype, -8, 8)], **near(dtype))
    odd = np.array([[1, -np.inf, 2], [np.inf, 1, 2], [np.nan, 1, 1], [-np.inf] * 3, [100, -1e9, 0]], f32)
    yield Case("Softmax_odd", "Softmax", [odd], **near(f32))
    yield Case("LogSoftmax_odd", "LogSoftmax", [odd], **near(f32))
    yield Case("Softmax_scalar", "Softmax", [f32(1)], error="")


def cross_entropies():
    for dtype in (f32, f64, f16, bfloat16):
        name = np.dtype(dtype).name
        for i, (logits, labels) in enumerate((((5, 7), (5, 7)), ((1, 7), (5, 7)), ((5, 7), (1, 7)), ((5, 1), (5, 7)),
                                              ((200, 300), (200, 300)))):
            yield Case(f"Softmax_cross_entropy_{name}_{i}", "SoftmaxCrossEntropyWithLogits",
                       [Gen(logits, dtype, -4, 4), Gen(labels, dtype, 0, 1, 2)], **near(dtype, 2))
        for labels_type in (i32, i64):
            for rows, classes in ((5, 7), (200, 300), (4, 1)):
                yield Case(f"Sparse_cross_entropy_{name}_{np.dtype(labels_type).name}_{rows}x{classes}",
                           "SparseSoftmaxCrossEntropyWithLogits",
                           [Gen((rows, classes), dtype, -4, 4), Gen((rows,), labels_type, 0, classes, 2)], **near(dtype))
    logits = Gen((3, 4)).numpy()
    for label in (-1, 4):
        yield Case(f"Sparse_label_{label}", "SparseSoftmaxCrossEntropyWithLogits", [logits, np.array([0, label, 1], i32)],
                   error="")
    yield Case("Sparse_rows_differ", "SparseSoftmaxCrossEntropyWithLogits", [logits, np.array([0, 1], i32)], error="")


def cases():
    yield from softmax()
    yield from cross_entropies()
