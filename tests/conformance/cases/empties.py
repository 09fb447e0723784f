"""Tensors without elements, and half types, where the other families have none."""
import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, L, Var

bfloat16 = tf.bfloat16.as_numpy_dtype
F, I, I64 = np.float32, np.int32, np.int64
NONE = np.zeros((0, 3), F)


def none(*shape, dtype=F):
    return np.zeros(shape, dtype)


def elementwise():
    for op in ("Sub", "Mul", "RealDiv", "SquaredDifference", "Xdivy", "Xlogy", "Xlog1py", "Pow", "Maximum", "Minimum", "FloorMod",
               "Atan2", "DivNoNan", "MulNoNan", "Less", "Equal", "ApproximateEqual", "TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad",
               "ReciprocalGrad", "ReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad", "Relu6Grad", "Igamma", "Zeta"):
        yield Case(f"{op}_empty", op, [NONE, NONE])
    for op in ("Sub", "SquaredDifference", "Maximum", "Less"):
        yield Case(f"{op}_empty_broadcast", op, [none(0, 1), np.ones(3, F)])
    for op in ("Softmax", "LogSoftmax", "ZerosLike", "OnesLike", "L2Loss", "Snapshot", "CheckNumerics"):
        attrs = {"message": "none"} if op == "CheckNumerics" else {}
        yield Case(f"{op}_empty", op, [NONE], attrs)
    for dtype in (np.float16, bfloat16):
        name = tf.as_dtype(dtype).name
        for op in ("Softmax", "LogSoftmax", "L2Loss"):
            yield Case(f"{op}_{name}", op, [Gen((5, 9), dtype, -2, 2)], rtol=2e-2, atol=1e-2)
        for op in ("TanhGrad", "SigmoidGrad", "RsqrtGrad", "SqrtGrad", "SoftplusGrad", "EluGrad"):
            yield Case(f"{op}_{name}", op, [Gen((5, 9), dtype, 0.2, 0.9), Gen((5, 9), dtype, -2, 2, seed=2)], rtol=2e-2, atol=1e-2)
    yield Case("Select_empty", "Select", [none(0, 3, dtype=bool), NONE, NONE])
    yield Case("SelectV2_empty", "SelectV2", [np.array([True, False, True]), NONE, np.float32(1)])
    yield Case("ClipByValue_empty", "ClipByValue", [NONE, np.float32(0), np.float32(1)])
    yield Case("AddN_empty", "AddN", [L([NONE, NONE])])
    yield Case("BiasAdd_empty", "BiasAdd", [NONE, np.ones(3, F)])
    yield Case("BiasAddGrad_empty", "BiasAddGrad", [NONE])
    yield Case("SoftmaxCrossEntropy_empty", "SoftmaxCrossEntropyWithLogits", [NONE, NONE])
    yield Case("SparseSoftmaxCrossEntropy_empty", "SparseSoftmaxCrossEntropyWithLogits", [NONE, none(0, dtype=I)])


def moves():
    yield Case("Split_empty", "Split", [np.int32(1), none(0, 6)], {"num_split": 2})
    yield Case("SplitV_empty", "SplitV", [none(4, 0), np.array([1, 3], I), np.int32(0)], {"num_split": 2})
    yield Case("SplitV_zero_part", "SplitV", [Gen((3, 4)), np.array([0, 3], I), np.int32(0)], {"num_split": 2})
    yield Case("Squeeze_empty", "Squeeze", [none(1, 0, 1)])
    yield Case("Pack_empty", "Pack", [L([none(0, 2), none(0, 2)])], {"axis": 1})
    yield Case("Unpack_empty", "Unpack", [none(2, 0)], {"num": 2})
    yield Case("ConcatV2_empty", "ConcatV2", [L([none(0, 3), Gen((2, 3))]), np.int32(0)])
    yield Case("ConcatV2_all_empty", "ConcatV2", [L([none(0, 3), none(0, 3)]), np.int32(-1)])
    yield Case("Transpose_empty", "Transpose", [none(2, 0, 3), np.array([2, 0, 1], I)])
    yield Case("Tile_nothing", "Tile", [Gen((2, 3)), np.array([0, 2], I)])
    yield Case("Pad_empty", "Pad", [none(0, 2), np.array([[1, 1], [0, 1]], I)])
    yield Case("MirrorPad_nothing", "MirrorPad", [Gen((2, 3)), np.zeros((2, 2), I)], {"mode": "REFLECT"})
    yield Case("ReverseV2_empty", "ReverseV2", [none(2, 0), np.array([0], I)])
    yield Case("ReverseV2_no_axes", "ReverseV2", [Gen((2, 3)), none(0, dtype=I)])
    yield Case("Roll_empty", "Roll", [none(0, 2), np.int32(1), np.int32(0)])
    yield Case("SpaceToDepth_empty", "SpaceToDepth", [none(0, 2, 2, 1)], {"block_size": 2})
    yield Case("DepthToSpace_empty", "DepthToSpace", [none(0, 2, 2, 4)], {"block_size": 2})
    yield Case("SpaceToBatchND_empty", "SpaceToBatchND", [none(0, 4, 1), np.array([2], I), np.zeros((1, 2), I)])
    yield Case("BroadcastTo_empty", "BroadcastTo", [none(0, 1), np.array([0, 4], I)])
    yield Case("Fill_empty", "Fill", [np.array([0, 3], I), np.float32(2)])
    yield Case("Range_empty", "Range", [np.int32(3), np.int32(3), np.int32(1)])
    yield Case("OneHot_empty", "OneHot", [none(0, dtype=I), np.int32(3), np.float32(1), np.float32(0)])
    yield Case("Where_none", "Where", [np.zeros((2, 3), bool)])
    yield Case("Where_empty", "Where", [none(0, 3, dtype=bool)])
    yield Case("TopKV2_zero", "TopKV2", [Gen((2, 4)), np.int32(0)])
    yield Case("TopKV2_no_rows", "TopKV2", [none(0, 4), np.int32(2)])
    yield Case("Unique_empty", "Unique", [none(0, dtype=I)])
    yield Case("UniqueWithCounts_empty", "UniqueWithCounts", [none(0, dtype=I)])
    yield Case("MatrixDiag_empty", "MatrixDiag", [none(0, 3)])
    yield Case("MatrixBandPart_empty", "MatrixBandPart", [none(0, 3, 3), np.int64(1), np.int64(1)])
    yield Case("DiagPart_empty", "DiagPart", [none(0, 0)])
    yield Case("StridedSlice_nothing", "StridedSlice", [Gen((4, 3)), np.array([2], I), np.array([2], I), np.array([1], I)])
    yield Case("Slice_nothing", "Slice", [Gen((4, 3)), np.array([1, 0], I), np.array([0, 3], I)])
    yield Case("InvertPermutation_empty", "InvertPermutation", [none(0, dtype=I)])
    yield Case("ExpandDims_empty", "ExpandDims", [none(0), np.int32(-1)])


def gathers():
    index = none(0, 1, dtype=I)
    for op in ("TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin", "TensorScatterUpdate"):
        yield Case(f"{op}_empty", op, [Gen((4, 2)), index, none(0, 2)])
    for op in ("ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate", "ScatterNdMax", "ScatterNdMin"):
        resource = "Resource" + op
        yield Case(f"{resource}_empty", resource, [Var(np.ones((4, 2), F)), index, none(0, 2)])
        yield Case(f"{resource}_double", resource, [Var(np.ones((4, 2))), np.array([[1], [3]], I64), np.array([[2, 0.5], [3, -1]])])
    for op in ("ResourceScatterAdd", "ResourceScatterUpdate"):
        yield Case(f"{op}_empty", op, [Var(np.ones((4, 2), F)), none(0, dtype=I), none(0, 2)])
    yield Case("ScatterNd_empty", "ScatterNd", [index, none(0, 2), np.array([4, 2], I)])
    yield Case("GatherV2_empty", "GatherV2", [Gen((4, 2)), none(0, dtype=I), np.int32(0)])
    yield Case("GatherV2_nothing_of_nothing", "GatherV2", [none(0, 2), none(0, dtype=I), np.int32(0)])
    yield Case("GatherV2_of_nothing", "GatherV2", [none(0, 2), np.array([0], I), np.int32(0)], error="")
    yield Case("GatherNd_empty", "GatherNd", [Gen((4, 2)), none(0, 2, dtype=I)])
    yield Case("GatherNd_no_index", "GatherNd", [Gen((4, 2)), none(3, 0, dtype=I)])
    for op in ("Sum", "Max", "Min", "Prod", "Mean"):
        yield Case(f"Segment{op}_empty", f"Segment{op}", [none(0, 3), none(0, dtype=I)])
        if op != "Mean":
            yield Case(f"UnsortedSegment{op}_empty", f"UnsortedSegment{op}", [none(0, 3), none(0, dtype=I), np.int32(2)])
    for op in ("Sum", "Mean", "SqrtN"):
        yield Case(f"SparseSegment{op}_empty", f"SparseSegment{op}", [Gen((4, 3)), none(0, dtype=I), none(0, dtype=I)])
        yield Case(f"SparseSegment{op}_rows_empty", f"SparseSegment{op}WithNumSegments", [Gen((4, 3)), none(0, dtype=I), none(0, dtype=I), np.int32(2)])
        yield Case(f"SparseSegment{op}_rows_double", f"SparseSegment{op}WithNumSegments",
                   [Gen((4, 3), np.float64), np.array([0, 3, 1], I64), np.array([0, 0, 2], I), np.int32(4)], rtol=1e-12)
    yield Case("SparseToDense_empty", "SparseToDense", [none(0, 2, dtype=I), np.array([2, 3], I), none(0), np.float32(7)])
    yield Case("SparseReorder_empty", "SparseReorder", [none(0, 2, dtype=I64), none(0), np.array([2, 3], I64)])
    yield Case("SparseReshape_empty", "SparseReshape", [none(0, 2, dtype=I64), np.array([2, 3], I64), np.array([6], I64)])
    yield Case("SparseSoftmax_empty", "SparseSoftmax", [none(0, 2, dtype=I64), none(0), np.array([2, 3], I64)])
    yield Case("SparseTensorDenseAdd_empty", "SparseTensorDenseAdd", [none(0, 2, dtype=I64), none(0), np.array([2, 3], I64), Gen((2, 3))])
    yield Case("DynamicStitch_empty", "DynamicStitch", [L([none(0, dtype=I), np.array([0, 1], I)]), L([none(0, 2), Gen((2, 2))])])
    yield Case("DynamicPartition_empty", "DynamicPartition", [none(0, 2), none(0, dtype=I)], {"num_partitions": 3})


def heavy():
    yield Case("MatMul_no_rows", "MatMul", [none(0, 3), Gen((3, 4))])
    yield Case("MatMul_no_inner", "MatMul", [none(2, 0), none(0, 4)])
    yield Case("BatchMatMulV2_empty", "BatchMatMulV2", [none(0, 2, 3), none(0, 3, 4)])
    yield Case("BatchMatMulV2_no_inner", "BatchMatMulV2", [none(2, 3, 0), none(2, 0, 4)])
    yield Case("Einsum_no_inner", "Einsum", [L([none(2, 0), none(0, 4)])], {"equation": "ij,jk->ik"})
    yield Case("Conv2D_no_batch", "Conv2D", [none(0, 5, 5, 2), Gen((3, 3, 2, 4))], {"strides": [1, 1, 1, 1], "padding": "SAME"})
    yield Case("Conv2DBackpropFilter_no_batch", "Conv2DBackpropFilter", [none(0, 5, 5, 2), np.array([3, 3, 2, 4], I), none(0, 5, 5, 4)],
               {"strides": [1, 1, 1, 1], "padding": "SAME"})
    yield Case("Conv2DBackpropInput_no_batch", "Conv2DBackpropInput", [np.array([0, 5, 5, 2], I), Gen((3, 3, 2, 4)), none(0, 5, 5, 4)],
               {"strides": [1, 1, 1, 1], "padding": "SAME"})
    for op in ("Sum", "Prod", "Max", "Min", "Mean"):
        yield Case(f"{op}_no_axes", op, [Gen((2, 3)), none(0, dtype=I)])
        yield Case(f"{op}_of_nothing", op, [none(0, 3), np.array([0], I)])
        yield Case(f"{op}_of_no_columns", op, [none(3, 0), np.array([0], I)])
    yield Case("Cumsum_empty", "Cumsum", [none(0, 3), np.int32(0)])
    yield Case("ArgMax_no_rows", "ArgMax", [none(0, 3), np.int32(1)])
    yield Case("ArgMax_of_nothing", "ArgMax", [none(0, 3), np.int32(0)], error="")
    for op in ("Cholesky", "MatrixInverse", "MatrixDeterminant"):
        yield Case(f"{op}_no_matrices", op, [none(0, 3, 3)])
    yield Case("ResizeBilinear_no_batch", "ResizeBilinear", [none(0, 4, 4, 2), np.array([8, 8], I)])
    yield Case("MaxPool_no_batch", "MaxPool", [none(0, 4, 4, 2)], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"})
    yield Case("AvgPool_no_batch", "AvgPool", [none(0, 4, 4, 2)], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"})


def cases():
    yield from elementwise()
    yield from moves()
    yield from gathers()
    yield from heavy()
