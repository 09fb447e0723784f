"""Ops on shapes, views, and tensors made from a shape."""
import numpy as np

from case_builder import Case, L

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16


def cases():
    for dtype in (f32, f64, i32, i64, np.bool_, f16):
        name = np.dtype(dtype).name
        x = np.ones((2, 0, 3), dtype)
        yield Case(f"Shape_{name}", "Shape", [x])
        yield Case(f"Shape64_{name}", "Shape", [x], {"out_type": i64})
        yield Case(f"Fill_{name}", "Fill", [np.array([2, 3], i32), dtype(1)])
        yield Case(f"BroadcastTo_{name}", "BroadcastTo", [np.array([[1], [0]], dtype), np.array([3, 2, 4], i32)])
        yield Case(f"Reshape_{name}", "Reshape", [np.arange(6).astype(dtype), np.array([-1, 2], i32)])
    yield Case("Shape_scalar", "Shape", [f32(1)])
    yield Case("Shape_rank8", "Shape", [np.zeros((1, 2, 1, 2, 1, 2, 1, 3), f32)])
    yield Case("ShapeN", "ShapeN", [L([np.zeros((2, 3), f32), np.zeros((4,), f32), f32(0)])])
    yield Case("ShapeN_int64", "ShapeN", [L([np.zeros((2, 3), i32)])], {"out_type": i64})
    yield Case("Size", "Size", [np.zeros((2, 3, 4), f32)])
    yield Case("Size_int64_empty", "Size", [np.zeros((2, 0), f32)], {"out_type": i64})
    yield Case("Rank", "Rank", [np.zeros((2, 3, 4), f64)])

    yield Case("Reshape_minus_one", "Reshape", [np.arange(24, dtype=f32), np.array([2, -1, 4], i64)])
    yield Case("Reshape_to_scalar", "Reshape", [np.ones((1, 1), f32), np.zeros((0,), i32)])
    yield Case("Reshape_empty", "Reshape", [np.ones((0, 3), f32), np.array([3, -1], i32)])
    yield Case("Reshape_rank8", "Reshape", [np.arange(8, dtype=i32), np.array([1, 2, 1, 2, 1, 2, 1, 1], i32)])
    yield Case("Reshape_wrong_size", "Reshape", [np.arange(6, dtype=f32), np.array([4, 2], i32)],
               error="Input to reshape is a tensor with 6 values, but the requested shape has 8")
    yield Case("Reshape_no_multiple", "Reshape", [np.arange(6, dtype=f32), np.array([4, -1], i32)],
               error="Input to reshape is a tensor with 6 values, but the requested shape requires a multiple of 4")
    yield Case("Reshape_two_unknown", "Reshape", [np.arange(6, dtype=f32), np.array([-1, -1], i32)],
               error="nly one input size may be -1, not both 0 and 1")
    yield Case("Reshape_negative", "Reshape", [np.arange(6, dtype=f32), np.array([-2, -3], i32)], error="")
    yield Case("Reshape_empty_minus_one", "Reshape", [np.ones((0, 3), f32), np.array([0, -1], i32)])
    yield Case("Reshape_empty_uneven", "Reshape", [np.ones((0, 3, 4), f32), np.array([0, 2, -1], i32)])
    yield Case("Squeeze_all", "Squeeze", [np.ones((1, 3, 1, 2, 1), f32)])
    yield Case("Squeeze_axes", "Squeeze", [np.ones((1, 3, 1, 2, 1), f32)], {"squeeze_dims": [0, -1]})
    yield Case("Squeeze_to_scalar", "Squeeze", [np.ones((1, 1), i32)])
    yield Case("Squeeze_not_one", "Squeeze", [np.ones((1, 3), f32)], {"squeeze_dims": [1]}, error="an not squeeze dim[1]")
    yield Case("Squeeze_out_of_range", "Squeeze", [np.ones((1, 3), f32)], {"squeeze_dims": [2]}, error="")
    yield Case("ExpandDims_first", "ExpandDims", [np.ones((2, 3), f32), i32(0)])
    yield Case("ExpandDims_negative", "ExpandDims", [np.ones((2, 3), f32), i64(-1)])
    yield Case("ExpandDims_scalar", "ExpandDims", [f32(4), i32(0)])
    yield Case("ExpandDims_out_of_range", "ExpandDims", [np.ones((2, 3), f32), i32(3)], error="")
    yield Case("EnsureShape", "EnsureShape", [np.ones((2, 3), f32)], {"shape": [None, 3]})
    yield Case("EnsureShape_wrong", "EnsureShape", [np.ones((2, 3), f32)], {"shape": [None, 4]}, error="")
    yield Case("Bitcast_same", "Bitcast", [np.array([1.5, np.nan, -0.0], f32)], {"type": i32})
    yield Case("Bitcast_wider", "Bitcast", [np.arange(8, dtype=i32).reshape(2, 2, 2)], {"type": i64})
    yield Case("IdentityN", "IdentityN", [L([np.ones((2, 3), f32), np.arange(3), np.array(True)])])

    yield Case("Fill_scalar", "Fill", [np.zeros((0,), i32), f32(2)])
    yield Case("Fill_empty", "Fill", [np.array([3, 0], i64), f32(2)])
    yield Case("Fill_nan", "Fill", [np.array([3], i32), f32(np.nan)])
    yield Case("Fill_rank8", "Fill", [np.array([1, 2] * 4, i32), i64(7)])
    yield Case("Fill_large", "Fill", [np.array([300, 1001], i32), f64(7)])
    yield Case("Fill_negative", "Fill", [np.array([3, -1], i32), f32(2)], error="")
    yield Case("Range_int32", "Range", [i32(3), i32(18), i32(3)])
    yield Case("Range_int64_down", "Range", [i64(5), i64(-4), i64(-2)])
    yield Case("Range_float", "Range", [f32(0.1), f32(1.05), f32(0.1)])
    yield Case("Range_double", "Range", [f64(0), f64(1), f64(0.25)])
    yield Case("Range_empty", "Range", [i32(3), i32(3), i32(1)])
    yield Case("Range_zero_delta", "Range", [i32(3), i32(5), i32(0)], error="delta")
    yield Case("Range_wrong_way", "Range", [i32(5), i32(3), i32(1)], error="start <= limit when delta > 0")
    yield Case("LinSpace", "LinSpace", [f32(1), f32(2.5), i32(7)], rtol=1e-6)
    yield Case("LinSpace_one", "LinSpace", [f64(1), f64(2.5), i32(1)])
    yield Case("LinSpace_down", "LinSpace", [f32(3), f32(-3), i64(4)], rtol=1e-6)
    yield Case("LinSpace_none", "LinSpace", [f32(3), f32(-3), i32(0)], error="")

    yield Case("BroadcastTo_scalar", "BroadcastTo", [f32(3), np.array([2, 3], i32)])
    yield Case("BroadcastTo_same", "BroadcastTo", [np.arange(6, dtype=f32).reshape(2, 3), np.array([2, 3], i64)])
    yield Case("BroadcastTo_empty", "BroadcastTo", [np.ones((1, 3), f32), np.array([0, 3], i32)])
    yield Case("BroadcastTo_rank8", "BroadcastTo",
               [np.arange(4, dtype=i32).reshape(2, 1, 2, 1), np.array([1, 2, 1, 2, 2, 3, 2, 2], i32)])
    yield Case("BroadcastTo_large", "BroadcastTo",
               [np.arange(60, dtype=f32).reshape(3, 1, 20), np.array([3, 1500, 20], i32)])
    yield Case("BroadcastTo_mismatch", "BroadcastTo", [np.ones((2, 3), f32), np.array([2, 4], i32)],
               error="ncompatible shapes")

    args = [([2, 3], [3]), ([2, 3], [2, 1]), ([], [2, 3]), ([4], [4]), ([1, 3], [1, 1]), ([1, 3], [3]), ([5, 1, 3], [1, 4, 1]),
            ([0, 3], [1]), ([2, 1, 1, 3], [1, 1, 4, 3]), ([], []), ([1], [1, 1, 1])]
    for k, (a, b) in enumerate(args):
        yield Case(f"BroadcastGradientArgs_{k}", "BroadcastGradientArgs", [np.array(a, i32), np.array(b, i32)])
        yield Case(f"BroadcastArgs_{k}", "BroadcastArgs", [np.array(a, i64), np.array(b, i64)])
    yield Case("BroadcastGradientArgs_int64", "BroadcastGradientArgs", [np.array([2, 1], i64), np.array([2, 5], i64)])
    yield Case("BroadcastGradientArgs_mismatch", "BroadcastGradientArgs", [np.array([2, 3], i32), np.array([4], i32)],
               error="ncompatible shapes")
    yield Case("InvertPermutation", "InvertPermutation", [np.array([3, 4, 0, 2, 1], i32)])
    yield Case("InvertPermutation_int64", "InvertPermutation", [np.array([1, 0], i64)])
    yield Case("InvertPermutation_repeated", "InvertPermutation", [np.array([1, 1], i32)],
               error="1 is duplicated in the input.")
    yield Case("InvertPermutation_outside", "InvertPermutation", [np.array([1, 2], i32)], error="2 is not between 0 and 2")
