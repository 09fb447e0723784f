"""Sparse tensors combined with sparse tensors, cut, joined and reduced."""
import numpy as np

from case_builder import Case, Gen, L, bfloat16

A = np.array([[0, 1], [1, 0], [1, 3], [2, 2]], np.int64)
B = np.array([[0, 1], [0, 2], [1, 3], [2, 3]], np.int64)
X, Y = np.array([1, -2, 0.5, 3], np.float32), np.array([-1, 4, 0.25, -3], np.float32)
DIMS = np.array([3, 4], np.int64)
NONE = (np.zeros((0, 2), np.int64), np.zeros(0, np.float32), DIMS)


def cases():
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        name, x, y = np.dtype(dtype).name, (4 * X).astype(dtype), (4 * Y).astype(dtype)
        yield Case(f"Add_{name}", "SparseAdd", [A, x, DIMS, B, y, DIMS, dtype(0)])
        for op in ("Maximum", "Minimum"):
            yield Case(f"{op}_{name}", f"SparseSparse{op}", [A, x, DIMS, B, y, DIMS])
        for keep in (False, True):
            for axes in ([0], [1], [-1], [0, 1], []):
                label = "_".join(map(str, axes)).replace("-", "m")
                yield Case(f"ReduceSum_{name}_{keep}_{label}", "SparseReduceSum", [A, x, DIMS, np.array(axes, np.int32)], {"keep_dims": keep})
        yield Case(f"ReduceMax_{name}", "SparseReduceMax", [A, x, DIMS, np.array([1], np.int32)])
        yield Case(f"Concat_{name}", "SparseConcat", [L([A, B]), L([x, y]), L([DIMS, DIMS])], {"concat_dim": 0})
        yield Case(f"Slice_{name}", "SparseSlice", [A, x, DIMS, np.array([0, 1], np.int64), np.array([2, 9], np.int64)])
        yield Case(f"Split_{name}", "SparseSplit", [np.int64(1), A, x, DIMS], {"num_split": 3})
    yield Case("Add_threshold", "SparseAdd", [A, X, DIMS, B, Y, DIMS, np.float32(0.8)])
    yield Case("Add_nan", "SparseAdd", [A, X * np.float32(np.nan), DIMS, B, Y, DIMS, np.float32(0)])
    yield Case("Add_empty", "SparseAdd", [*NONE, B, Y, DIMS, np.float32(0)])
    yield Case("Add_both_empty", "SparseAdd", [*NONE, *NONE, np.float32(0)])
    yield Case("Add_shapes", "SparseAdd", [A, X, DIMS, B, Y, DIMS + 1, np.float32(0)], error="")
    yield Case("Maximum_empty", "SparseSparseMaximum", [*NONE, B, Y, DIMS])
    yield Case("Minimum_empty", "SparseSparseMinimum", [A, X, DIMS, *NONE])
    nan = np.float32(np.nan)
    left, right = np.array([nan, 1, nan, nan], np.float32)[:len(A)], np.array([nan, 2, nan, -1], np.float32)[:len(B)]
    for op in ("Maximum", "Minimum"):
        for label, a, b in (("left", left, Y), ("right", X, right), ("both", left, right)):
            yield Case(f"{op}_nan_{label}", f"SparseSparse{op}", [A, a, DIMS, B, b, DIMS])
    zeros = np.array([[0], [1]], np.int64)
    for op in ("Maximum", "Minimum"):
        yield Case(f"{op}_zeros", f"SparseSparse{op}", [zeros, np.array([0., -0.], np.float32), np.array([2], np.int64),
                                                       zeros, np.array([-0., 0.], np.float32), np.array([2], np.int64)])
    yield Case("AddGrad", "SparseAddGrad", [Gen((5,)), A, B, np.array([[0, 2], [1, 0], [1, 3], [2, 2], [2, 3]], np.int64)])
    yield Case("AddGrad_empty", "SparseAddGrad", [np.zeros(0, np.float32), NONE[0], NONE[0], NONE[0]])
    yield Case("Concat_columns", "SparseConcat", [L([A, B, A]), L([X, Y, X]), L([DIMS, DIMS, DIMS])], {"concat_dim": 1})
    yield Case("Concat_last", "SparseConcat", [L([A, B]), L([X, Y]), L([DIMS, DIMS])], {"concat_dim": -1})
    yield Case("Concat_empty", "SparseConcat", [L([NONE[0], B]), L([NONE[1], Y]), L([DIMS, DIMS])], {"concat_dim": 1})
    yield Case("Concat_shapes", "SparseConcat", [L([A, B]), L([X, Y]), L([DIMS, DIMS + 1])], {"concat_dim": 0}, error="")
    yield Case("Concat_bool", "SparseConcat", [L([A, B]), L([X > 0, Y > 0]), L([DIMS, DIMS])], {"concat_dim": 0})
    yield Case("Slice_outside", "SparseSlice", [A, X, DIMS, np.array([3, 0], np.int64), np.array([2, 2], np.int64)])
    yield Case("Slice_empty", "SparseSlice", [*NONE, np.array([0, 1], np.int64), np.array([2, 9], np.int64)])
    yield Case("SliceGrad", "SparseSliceGrad", [Gen((2,)), A, np.array([0, 1], np.int64), np.array([[0, 0], [1, 2]], np.int64)])
    yield Case("SliceGrad_wrong", "SparseSliceGrad", [Gen((1,)), A, np.array([0, 1], np.int64), np.array([[0, 1]], np.int64)], error="")
    yield Case("Split_rows", "SparseSplit", [np.int64(0), A, X, DIMS], {"num_split": 2})
    yield Case("Split_one", "SparseSplit", [np.int64(0), A, X, DIMS], {"num_split": 1})
    yield Case("Split_too_many", "SparseSplit", [np.int64(0), A, X, DIMS], {"num_split": 4}, error="")
    three = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 1]], np.int64)
    for axes in ([1], [0, 2], [-3]):
        label = "_".join(map(str, axes)).replace("-", "m")
        yield Case(f"ReduceSum_rank3_{label}", "SparseReduceSum", [three, X, np.array([2, 2, 2], np.int64), np.array(axes, np.int32)])
        yield Case(f"ReduceMax_rank3_{label}", "SparseReduceMax", [three, -np.abs(X), np.array([2, 2, 2], np.int64), np.array(axes, np.int32)])
    for op in ("SparseReduceSumSparse", "SparseReduceMaxSparse"):
        for label, axes in (("0", [0]), ("1", [1]), ("last", [-1]), ("outer", [0, 2]), ("all", [0, 1, 2]), ("none", [])):
            for keep in (False, True):
                attrs = {"keep_dims": keep}
                yield Case(f"{op}_{label}_{keep}", op, [three, X, np.array([2, 2, 2], np.int64), np.array(axes, np.int32)], attrs)
                yield Case(f"{op}_{label}_{keep}_turned", op, [three[::-1].copy(), X, np.array([2, 2, 2], np.int64), np.array(axes, np.int32)], attrs)
        types = (np.float16, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, bfloat16)
        for dtype in types + ((np.complex64, np.complex128) if op == "SparseReduceSumSparse" else ()):
            yield Case(f"{op}_{np.dtype(dtype).name}", op, [A, np.arange(len(A)).astype(dtype), DIMS, np.array([1], np.int32)])
        yield Case(f"{op}_empty", op, [*NONE, np.array([0], np.int32)])
        yield Case(f"{op}_axis", op, [A, X[:len(A)], DIMS, np.array([5], np.int32)], error="")
        yield Case(f"{op}_nan", op, [A, np.full(len(A), np.nan, np.float32), DIMS, np.array([-1], np.int32)])
    nan = np.array([np.nan, 2, 3, np.nan], np.float32)
    pairs = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int64)
    for op in ("SparseReduceMax", "SparseReduceMaxSparse"):
        yield Case(f"{op}_nan_first_and_last", op, [pairs, nan, np.array([2, 2], np.int64), np.array([1], np.int32)])
    for dtype, count in ((np.float16, 2600), (bfloat16, 600)):
        indices, sizes = np.stack([np.zeros(count, np.int64), np.arange(count)], 1), np.array([1, count], np.int64)
        for op in ("SparseReduceSum", "SparseReduceSumSparse"):
            yield Case(f"{op}_many_{np.dtype(dtype).name}", op, [indices, Gen((count,), dtype, .5, 1.5), sizes, np.array([1], np.int32)], rtol=1e-2)
    negative = np.array([-1, 4], np.int64)
    for op in ("SparseReduceSum", "SparseReduceMax", "SparseReduceSumSparse", "SparseReduceMaxSparse"):
        yield Case(f"{op}_negative", op, [A[:1], X[:1], negative, np.array([1], np.int32)], error="")
    yield Case("Slice_negative", "SparseSlice", [A[:1], X[:1], negative, np.array([0, 0], np.int64), np.array([2, 2], np.int64)], error="non-negative")
    yield Case("Concat_negative", "SparseConcat", [L([A[:1], B]), L([X[:1], Y]), L([negative, DIMS])], {"concat_dim": 0}, error="")
    for label, at in (("below", [1, -1]), ("above", [1, 4]), ("row", [3, 0])):
        outside = np.array([A[0], at], np.int64)
        yield Case(f"Split_{label}", "SparseSplit", [np.int64(1), outside, X[:2], DIMS], {"num_split": 2}, error="is out of bounds")
        for op in ("Maximum", "Minimum"):
            yield Case(f"{op}_{label}_left", f"SparseSparse{op}", [outside, X[:2], DIMS, B, Y, DIMS], error="is out of bounds")
            yield Case(f"{op}_{label}_right", f"SparseSparse{op}", [A, X, DIMS, outside, Y[:2], DIMS], error="is out of bounds")
    yield Case("ReduceSum_empty", "SparseReduceSum", [*NONE, np.array([0], np.int32)])
    many = np.stack(np.unravel_index(np.arange(0, 400000, 131), (200, 2000)), 1).astype(np.int64)
    dims = np.array([200, 2000], np.int64)
    yield Case("ReduceSum_large", "SparseReduceSum", [many, Gen((len(many),)), dims, np.array([0], np.int32)], rtol=1e-5, atol=1e-5)
