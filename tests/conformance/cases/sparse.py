"""Sparse tensors: products, sums and mixtures with dense tensors."""
import numpy as np

from case_builder import Case, Gen

INDICES = np.array([[0, 1], [1, 0], [1, 3], [2, 2], [2, 3]], np.int64)
VALUES = np.array([1, -2, .5, 3, 4], np.float32)
SHAPE = np.array([3, 4], np.int64)


def cases():
    for dtype in (np.float32, np.float64, np.int32):
        name = np.dtype(dtype).name
        for adjoint_a in (False, True):
            for adjoint_b in (False, True):
                inner = 3 if adjoint_a else 4
                b = Gen((5, inner) if adjoint_b else (inner, 5), dtype, -4, 4)
                yield Case(f"MatMul_{name}_{adjoint_a}_{adjoint_b}", "SparseTensorDenseMatMul",
                           [INDICES, (2 * VALUES).astype(dtype), SHAPE, b], {"adjoint_a": adjoint_a, "adjoint_b": adjoint_b},
                           rtol=1e-6, atol=1e-6)
    long = np.stack([np.zeros(2600, np.int64), np.arange(2600)], 1)
    yield Case("MatMul_many_float16", "SparseTensorDenseMatMul",
               [long, Gen((2600,), np.float16, .5, 1.5), np.array([1, 2600], np.int64), Gen((2600, 2), np.float16, .5, 1.5, seed=2)], rtol=2e-3)
    yield Case("MatMul_int32_indices", "SparseTensorDenseMatMul", [INDICES.astype(np.int32), VALUES, SHAPE, Gen((4, 2))], rtol=1e-6)
    yield Case("MatMul_empty", "SparseTensorDenseMatMul", [np.zeros((0, 2), np.int64), np.zeros(0, np.float32), SHAPE, Gen((4, 2))])
    yield Case("MatMul_outside", "SparseTensorDenseMatMul", [np.array([[0, 4]], np.int64), VALUES[:1], SHAPE, Gen((4, 2))], error="out of bounds")
    many = np.stack(np.unravel_index(np.arange(0, 40000, 13), (200, 200)), 1).astype(np.int64)
    yield Case("MatMul_large", "SparseTensorDenseMatMul", [many, Gen((len(many),)), np.array([200, 200], np.int64), Gen((200, 70))],
               rtol=1e-4, atol=1e-4)
    yield Case("Reshape", "SparseReshape", [INDICES, SHAPE, np.array([2, 6], np.int64)])
    yield Case("Reshape_inferred", "SparseReshape", [INDICES, SHAPE, np.array([-1, 2, 2], np.int64)])
    yield Case("Reshape_wrong", "SparseReshape", [INDICES, SHAPE, np.array([5, 2], np.int64)], error="")
    yield Case("Reorder", "SparseReorder", [INDICES[[3, 0, 4, 2, 1]], VALUES, SHAPE])
    for op in ("Add", "Mul", "Div"):
        for what, dense in (("same", Gen((3, 4), low=1, high=2)), ("row", Gen((4,), low=1, high=2)), ("column", Gen((3, 1), low=1, high=2))):
            yield Case(f"Cwise{op}_{what}", f"SparseDenseCwise{op}", [INDICES, VALUES, SHAPE, dense], rtol=1e-6)
    for dtype in (np.float32, np.float16, np.int32):
        zero = np.array([0, 1, 2, 0], dtype)
        name = np.dtype(dtype).name
        yield Case(f"CwiseDiv_by_zero_{name}", "SparseDenseCwiseDiv", [INDICES, VALUES.astype(dtype), SHAPE, zero], error="cannot divide by zero")
        yield Case(f"CwiseDiv_beside_zero_{name}", "SparseDenseCwiseDiv", [INDICES[[0, 3]], VALUES[:2].astype(dtype), SHAPE, zero])
    yield Case("DenseAdd", "SparseTensorDenseAdd", [INDICES, VALUES, SHAPE, Gen((3, 4))], rtol=1e-6)
    yield Case("DenseAdd_int32", "SparseTensorDenseAdd", [INDICES.astype(np.int32), VALUES, SHAPE.astype(np.int32), Gen((3, 4))], rtol=1e-6)
    yield Case("Softmax", "SparseSoftmax", [INDICES, VALUES, SHAPE], rtol=1e-6)
    negative = np.array([-1, 4], np.int64)
    yield Case("Softmax_negative", "SparseSoftmax", [INDICES[:1], VALUES[:1], negative], error="Expected shape dimensions to be non-negative, got -1")
    yield Case("Softmax_rank3", "SparseSoftmax", [np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0]], np.int64), VALUES[:4],
               np.array([2, 2, 2], np.int64)], rtol=1e-6)
    for dtype in (np.float32, np.int64):
        values = (2 * VALUES).astype(dtype)
        yield Case(f"FillEmptyRows_{np.dtype(dtype).name}", "SparseFillEmptyRows",
                   [INDICES[[0, 3, 4]], values[:3], np.array([5, 4], np.int64), dtype(7)])
        yield Case(f"FillEmptyRowsGrad_{np.dtype(dtype).name}", "SparseFillEmptyRowsGrad",
                   [np.array([2, 1], np.int64), np.array([1, 2, 3, 4], dtype)])
    yield Case("FillEmptyRows_full", "SparseFillEmptyRows", [INDICES, VALUES, SHAPE, np.float32(-1)])
    yield Case("FillEmptyRows_unordered", "SparseFillEmptyRows", [INDICES[[3, 0, 4]], VALUES[:3], SHAPE, np.float32(-1)])
    yield Case("FillEmptyRows_none", "SparseFillEmptyRows", [np.zeros((0, 2), np.int64), VALUES[:0], SHAPE, np.float32(-1)])
    yield Case("FillEmptyRows_outside", "SparseFillEmptyRows", [np.array([[3, 0]], np.int64), VALUES[:1], SHAPE, np.float32(-1)],
               error="indices(0, 0) is invalid: 3 >= 3")
    rows = np.array([0, 0, 2, 1], np.int64)
    for dtype in (np.float32, np.int64):
        values = (2 * VALUES).astype(dtype)[:4]
        yield Case(f"FillRagged_{np.dtype(dtype).name}", "RaggedFillEmptyRows", [rows, values, np.int64(5), dtype(7)])
        yield Case(f"FillRaggedGrad_{np.dtype(dtype).name}", "RaggedFillEmptyRowsGrad", [np.array([2, 1], np.int64), np.array([1, 2, 3, 4], dtype)])
    yield Case("FillRagged_full", "RaggedFillEmptyRows", [rows, VALUES[:4], np.int64(3), np.float32(7)])
    yield Case("FillRagged_none", "RaggedFillEmptyRows", [rows[:0], VALUES[:0], np.int64(3), np.float32(7)])
    yield Case("FillRagged_outside", "RaggedFillEmptyRows", [rows, VALUES[:4], np.int64(2), np.float32(7)], error="indices(2, 0) is invalid: 2 >= 2")
    yield Case("FillRagged_lengths", "RaggedFillEmptyRows", [rows[:2], VALUES[:4], np.int64(2), np.float32(7)], error="")
    yield Case("FillRaggedGrad_outside", "RaggedFillEmptyRowsGrad", [np.array([9], np.int64), VALUES], error="reverse index must be in [0, 5)")
    yield Case("FillEmptyRowsGrad_outside", "SparseFillEmptyRowsGrad", [np.array([9], np.int64), VALUES], error="reverse index must be in [0, 5)")
