"""What TensorFlow refuses when a node runs, for values that no shape tells of; the other families have more of it."""
import numpy as np

from case_builder import Case, Gen, L, RefVar, Var

F, I, I64 = np.float32, np.int32, np.int64
X = np.arange(8, dtype=F).reshape(4, 2)


def fails(name, op, inputs, attrs=None):
    return Case(name, op, inputs, attrs, error="")


def indices():
    outside, rows = np.array([[1], [4]], I), Gen((2, 2))
    for below in (False, True):
        at = np.array([[1], [-1]], I) if below else outside
        where = "negative" if below else "outside"
        for op in ("TensorScatterSub", "TensorScatterMax", "TensorScatterMin", "TensorScatterUpdate", "TensorScatterAdd"):
            yield fails(f"{op}_{where}", op, [X, at, rows])
        for op in ("ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate", "ScatterNdMax", "ScatterNdMin"):
            yield fails(f"{op}_{where}", op, [RefVar(X), at, rows])
            yield fails(f"Resource{op}_{where}", f"Resource{op}", [Var(X), at, rows])
        yield fails(f"ScatterNdNonAliasingAdd_{where}", "ScatterNdNonAliasingAdd", [X, at, rows])
        yield fails(f"ScatterNd_{where}", "ScatterNd", [at, rows, np.array([4, 2], I)])
        yield fails(f"Gather_{where}", "Gather", [X, at[:, 0]])
        yield fails(f"GatherV2_columns_{where}", "GatherV2", [X.T.copy(), at[:, 0], I(1)])
        yield fails(f"ResourceGather_{where}", "ResourceGather", [Var(X), at[:, 0]], {"dtype": F})
        yield fails(f"ResourceGatherNd_{where}", "ResourceGatherNd", [Var(X), at], {"dtype": F})
        yield fails(f"GatherNd_{where}", "GatherNd", [X, at])
    yield fails("DynamicStitch_negative", "DynamicStitch", [L([np.array([0, -1], I)]), L([rows])])
    yield fails("DynamicPartition_outside", "DynamicPartition", [X, np.array([0, 1, 2, 0], I)], {"num_partitions": 2})
    box = np.array([[0, 0, 1, 1]], F)
    yield fails("CropAndResizeGradImage_outside", "CropAndResizeGradImage", [Gen((1, 2, 2, 1)), box, np.array([3], I), np.array([1, 4, 4, 1], I)], {"T": F})
    yield fails("CropAndResizeGradBoxes_outside", "CropAndResizeGradBoxes", [Gen((1, 2, 2, 1)), Gen((1, 4, 4, 1)), box, np.array([3], I)])
    yield fails("UnravelIndex_outside", "UnravelIndex", [np.array([3, 12], I), np.array([3, 4], I)])
    yield fails("InTopKV2_rows", "InTopKV2", [Gen((3, 4)), np.array([0, 1], I), I(1)])
    yield fails("SparseSoftmaxCrossEntropy_negative", "SparseSoftmaxCrossEntropyWithLogits", [Gen((2, 3)), np.array([0, -1], I)])


def segments():
    for op in ("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd"):
        yield fails(f"{op}_unsorted", op, [X, np.array([0, 2, 1, 3], I)])
        yield fails(f"{op}_negative", op, [X, np.array([-1, 0, 1, 2], I)])
    for op in ("Sum", "Mean", "SqrtN"):
        name = f"SparseSegment{op}"
        yield fails(f"{name}_outside", name, [X, np.array([0, 4], I), np.array([0, 1], I)])
        yield fails(f"{name}_unsorted", name, [X, np.array([0, 1], I), np.array([1, 0], I)])
        wide = f"{name}WithNumSegments"
        yield fails(f"{wide}_outside", wide, [X, np.array([0, 4], I), np.array([0, 1], I), I(3)])
        yield fails(f"{wide}_too_few", wide, [X, np.array([0, 1], I), np.array([0, 3], I), I(2)])
        yield fails(f"{name}Grad_outside", f"{name}Grad", [Gen((2, 2)), np.array([0, 5], I), np.array([0, 1], I), I(4)])
        yield fails(f"{name}Grad_segment_outside", f"{name}Grad", [Gen((2, 2)), np.array([0, 1], I), np.array([0, 2], I), I(4)])
    for op in ("Sum", "Prod", "Max", "Min"):
        yield fails(f"UnsortedSegment{op}_outside", f"UnsortedSegment{op}", [X, np.array([0, 1, 2, 3], I), I(3)])
    yield fails("DenseBincount_negative", "DenseBincount", [np.array([1, -1], I), I(3), np.zeros(0, F)])
    yield fails("Bincount_negative", "Bincount", [np.array([1, -1], I), I(3), np.zeros(0, F)])


def values():
    singular = np.array([[1, 2], [2, 4]], F)
    yield fails("MatrixSolve_singular", "MatrixSolve", [singular, Gen((2, 1))])
    yield fails("MatrixInverse_singular", "MatrixInverse", [singular])
    for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Div", "Mod"):
        for dtype in (I, I64) if op in ("TruncateMod", "Mod") else (I, I64, np.uint8, np.int16):
            yield fails(f"{op}_by_zero_{np.dtype(dtype).name}", op, [np.array([1, 2], dtype), np.array([1, 0], dtype)])
    for dtype in (I, I64):
        yield fails(f"Pow_negative_{np.dtype(dtype).name}", "Pow", [np.array([2, 3], dtype), np.array([1, -1], dtype)])
    yield fails("Assert_false", "Assert", [np.bool_(False), L([np.array([1, 2], F)])])
    for bad in (np.nan, np.inf, -np.inf):
        for op in ("CheckNumerics", "CheckNumericsV2"):
            yield fails(f"{op}_{bad}", op, [np.array([1, bad], F)], {"message": "here"})
    yield fails("HistogramFixedWidth_range", "HistogramFixedWidth", [X, np.array([2, 1], F), I(3)])
    for dtype in (F, np.float64):
        yield Case(f"HistogramFixedWidth_nan_{np.dtype(dtype).name}", "HistogramFixedWidth", [np.array([1, np.nan], dtype), np.array([0, 5], dtype), I(3)],
                   error="Histogram values must not contain NaN")
    yield fails("HistogramFixedWidth_bins", "HistogramFixedWidth", [X, np.array([0, 1], F), I(0)])
    yield fails("QuantizeAndDequantizeV3_order", "QuantizeAndDequantizeV3", [X, F(1), F(-1), I(8)])
    boxes, scores = np.array([[0, 0, 1, 1], [0, 0, 1, 2]], F), np.array([0.5, 0.7], F)
    yield fails("NonMaxSuppressionV2_threshold", "NonMaxSuppressionV2", [boxes, scores, I(2), F(2)])
    yield fails("NonMaxSuppressionV4_threshold", "NonMaxSuppressionV4", [boxes, scores, I(2), F(-1), F(0)])
    yield fails("NonMaxSuppressionV5_threshold", "NonMaxSuppressionV5", [boxes, scores, I(2), F(2), F(0), F(0)])
    yield fails("InvertPermutation_repeats", "InvertPermutation", [np.array([0, 0, 1], I)])
    yield fails("ReverseSequence_long", "ReverseSequence", [X, np.array([5, 1], I)], {"seq_dim": 0, "batch_dim": 1})
    yield fails("LinSpace_none", "LinSpace", [F(0), F(1), I(0)])
    yield fails("Range_nowhere", "Range", [I(0), I(5), I(0)])
    yield fails("Bucketize_order", "Bucketize", [X], {"boundaries": [2.0, 1.0]})
    yield fails("Multinomial_count", "Multinomial", [Gen((2, 3)), I(-1)])
    yield fails("RandomUniformInt_order", "RandomUniformInt", [np.array([2], I), I(3), I(3)])
    yield fails("StatelessRandomUniformInt_order", "StatelessRandomUniformInt", [np.array([2], I), np.array([1, 2], I), I(3), I(3)])
    yield fails("EnsureShape_other", "EnsureShape", [X], {"shape": [4, 3]})
    yield fails("ConcatOffset_differ", "ConcatOffset", [I(0), L([np.array([2, 3], I), np.array([2, 4], I)])])
    yield fails("BroadcastTo_smaller", "BroadcastTo", [X, np.array([2], I)])
    yield fails("Reshape_other", "Reshape", [X, np.array([3, 3], I)])
    yield fails("Reshape_negative", "Reshape", [X, np.array([-2, 8], I)])
    yield fails("Slice_outside", "Slice", [X, np.array([3, 0], I), np.array([2, 2], I)])
    yield fails("SplitV_sum", "SplitV", [X, np.array([1, 2], I), I(0)], {"num_split": 2})
    yield fails("Split_uneven", "Split", [I(0), X], {"num_split": 3})
    yield fails("TopKV2_too_many", "TopKV2", [X, I(3)])
    yield fails("TopKV2_negative", "TopKV2", [X, I(-1)])
    yield fails("Pad_negative", "Pad", [X, np.array([[-1, 0], [0, 0]], I)])
    yield fails("MirrorPad_wide", "MirrorPad", [X, np.array([[0, 0], [2, 0]], I)], {"mode": "REFLECT"})
    yield fails("Tile_negative", "Tile", [X, np.array([-1, 1], I)])
    yield fails("Fill_negative", "Fill", [np.array([-1, 2], I), F(1)])
    yield fails("OneHot_negative_depth", "OneHot", [np.array([0, 1], I), I(-1), F(1), F(0)])
    yield fails("SpaceToBatchND_uneven", "SpaceToBatchND", [Gen((1, 5, 1)), np.array([2], I), np.zeros((1, 2), I)])
    yield fails("Transpose_repeats", "Transpose", [X, np.array([0, 0], I)])
    yield fails("ResizeNearestNeighbor_nothing", "ResizeNearestNeighbor", [Gen((1, 2, 2, 1)), np.array([0, 2], I)])
    yield fails("NthElement_negative", "NthElement", [X, I(-1)])
    yield fails("StatelessRandomNormal_seed", "StatelessRandomNormal", [np.array([2], I), np.array([1, 2, 3], I)])


def sparse():
    outside, dense = np.array([[0, 0], [4, 1]], I64), np.array([4, 2], I64)
    entries = np.array([1, 2], F)
    yield fails("SparseTensorDenseMatMul_outside", "SparseTensorDenseMatMul", [outside, entries, dense, Gen((2, 3))])
    yield fails("SparseTensorDenseAdd_outside", "SparseTensorDenseAdd", [outside, entries, dense, Gen((4, 2))])
    yield fails("SparseToDense_outside", "SparseToDense", [outside, dense, entries, F(0)])
    yield fails("SparseToDense_unsorted", "SparseToDense", [outside[::-1].copy() % 4 + np.array([[1, 0], [0, 0]]), dense, entries, F(0)])
    for op in ("Add", "Mul", "Div"):
        yield fails(f"SparseDenseCwise{op}_outside", f"SparseDenseCwise{op}", [outside, entries, dense, Gen((4, 2))])
    yield fails("SparseReshape_other", "SparseReshape", [outside % 4, dense, np.array([3, 3], I64)])
    yield fails("SparseFillEmptyRows_outside", "SparseFillEmptyRows", [outside, entries, dense, F(0)])
    yield fails("SparseFillEmptyRowsGrad_outside", "SparseFillEmptyRowsGrad", [np.array([0, 9], I64), Gen((3,))])
    yield fails("EditDistance_outside", "EditDistance", [outside, entries.astype(I64), dense, outside, entries.astype(I64), np.array([4, 1], I64)])


def variables():
    yield fails("Assign_shape", "Assign", [RefVar(X), Gen((3, 2))])
    yield fails("AssignVariableOp_shape", "AssignVariableOp", [Var(X), Gen((3, 2))], {"validate_shape": True})
    yield fails("AssignAddVariableOp_shape", "AssignAddVariableOp", [Var(X), Gen((3, 2))])
    for op in ("ScatterAdd", "ScatterUpdate"):
        for at in (4, -1):
            yield fails(f"Resource{op}_{'negative' if at < 0 else 'outside'}", f"Resource{op}", [Var(X), np.array([0, at], I), Gen((2, 2))])
    yield fails("ResourceStridedSliceAssign_shape", "ResourceStridedSliceAssign",
                [Var(X), np.array([0], I), np.array([2], I), np.array([1], I), Gen((3, 2))])
    yield fails("ApplyGradientDescent_shape", "ApplyGradientDescent", [RefVar(X), F(0.1), Gen((3, 2))])
    yield fails("ResourceSparseApplyMomentum_outside", "ResourceSparseApplyMomentum",
                [Var(X), Var(X), F(0.1), Gen((2, 2)), np.array([0, 4], I), F(0.9)])
    yield fails("ResourceSparseApplyAdagrad_outside", "ResourceSparseApplyAdagrad", [Var(X), Var(X), F(0.1), Gen((2, 2)), np.array([0, -1], I)])


def scalars():
    """Another number of elements where an op reads one, or so many: no memory is read that is not there."""
    def where(input, op, inputs, name, attrs=None, error=None, shapes=((0,), (1,))):
        for shape in shapes:
            changed = list(inputs)
            like = inputs[input].value if isinstance(inputs[input], Var) else np.asarray(inputs[input])
            wrong = np.resize(like, shape) if np.prod(shape) else np.zeros(shape, like.dtype)
            changed[input] = type(inputs[input])(wrong) if isinstance(inputs[input], Var) else wrong
            yield Case(f"{op}_{name}_{'x'.join(map(str, shape)) or 'scalar'}", op, changed, attrs, error=f"{name} must be a scalar" if error is None else error)

    yield from where(2, "PadV2", [X, np.ones((2, 2), I), F(3)], "constant_values")
    one_hot = [np.array([0, 1], I), I(3), F(1), F(0)]
    yield from where(2, "OneHot", one_hot, "on_value")
    yield from where(3, "OneHot", one_hot, "off_value")
    yield from where(2, "MatrixDiagPartV2", [X, I(0), F(0)], "padding_value", error="")
    yield from where(2, "MatrixDiagPartV3", [X, I(0), F(0)], "padding_value", error="")
    yield from where(4, "MatrixDiagV2", [X, I(0), I(-1), I(-1), F(0)], "padding_value", error="")
    yield from where(4, "MatrixDiagV3", [X, I(0), I(-1), I(-1), F(0)], "padding_value", error="")
    for end in (0, 1):
        yield from where(end, "LinSpace", [F(0), F(1), I(3)], "stop" if end else "start", error="")
    image = Gen((1, 3, 4, 3), low=0)
    yield from where(1, "AdjustContrastv2", [image, F(2)], "contrast_factor", error="")
    yield from where(1, "AdjustHue", [image, F(0.25)], "delta", error="delta must be")
    yield from where(1, "AdjustSaturation", [image, F(2)], "scale", error="scale must be")
    turn = np.array([[1, 0, 0, 0, 1, 0, 0, 0]], F)
    yield from where(3, "ImageProjectiveTransformV3", [image, turn, np.array([2, 2], I), F(0)], "fill_value", {"interpolation": "NEAREST"})
    suppression = [Gen((1, 3, 1, 4), low=0), Gen((1, 3, 2), low=0), I(2), I(3), F(0.5), F(0.1)]
    yield from where(4, "CombinedNonMaxSuppression", suppression, "iou_threshold", error="")
    yield from where(5, "CombinedNonMaxSuppression", suppression, "score_threshold", error="")
    box, grads = np.array([[0, 0, 1, 1]], F), Gen((2, 2, 2, 1))
    yield Case("CropAndResizeGradImage_boxes", "CropAndResizeGradImage", [grads, box, np.array([0], I), np.array([1, 4, 4, 1], I)], {"T": F},
               error="boxes and grads have incompatible shape")
    yield Case("CropAndResizeGradImage_depth", "CropAndResizeGradImage", [Gen((1, 2, 2, 2)), box, np.array([0], I), np.array([1, 4, 4, 1], I)], {"T": F},
               error="grads")
    yield Case("CropAndResizeGradBoxes_boxes", "CropAndResizeGradBoxes", [grads, Gen((1, 4, 4, 1)), box, np.array([0], I)],
               error="boxes and grads have incompatible shape")
    yield Case("CropAndResizeGradBoxes_depth", "CropAndResizeGradBoxes", [Gen((1, 2, 2, 2)), Gen((1, 4, 4, 1)), box, np.array([0], I)],
               error="image, grads depth differ")

    generator, seed, key, counter = Var(np.array([5, 7, 11], I64)), np.array([1, 2], I64), np.array([3], np.uint64), np.array([4, 5], np.uint64)
    stateful = [generator, I64(1), np.array([3], I64), I64(2), I64(9)]
    yield from where(3, "StatefulUniformInt", stateful, "minval")
    yield from where(4, "StatefulUniformInt", stateful, "maxval")
    for op in ("RngSkip", "RngReadAndSkip"):
        yield from where(2, op, [generator, I(1) if op == "RngReadAndSkip" else I64(1), np.uint64(1) if op == "RngReadAndSkip" else I64(1)], "delta", error="")
    yield from where(1, "RandomUniformInt", [np.array([2], I), I(0), I(3)], "minval")
    yield from where(3, "StatelessRandomUniformInt", [np.array([2], I), seed, I(0), I(3)], "maxval")
    shuffle = [X, key, counter, I(1)]
    yield from where(3, "StatelessShuffle", shuffle, "alg", error="input 3")
    yield from where(1, "StatelessShuffle", shuffle, "key", error="key must have shape [1]", shapes=((0,), (2,), ()))
    yield from where(2, "StatelessShuffle", shuffle, "counter", error="counter must be a vector with length at least", shapes=((0,), (1, 2)))
    gamma = [np.array([2], I), key, counter, I(1), np.array([1, 2], F)]
    yield from where(1, "StatelessRandomGammaV3", gamma, "key", error="", shapes=((0,), (2,)))
    yield from where(2, "StatelessRandomGammaV3", gamma, "counter", error="", shapes=((0,), ()))
    yield from where(3, "StatelessRandomGammaV3", gamma, "alg", error="")
    wrong_seeds = ((0,), (1,), (3,), (), (1, 2))
    yield from where(1, "StatelessRandomGammaV2", [np.array([2], I), seed, np.array([1, 2], F)], "seed", error="", shapes=wrong_seeds)
    yield from where(1, "StatelessRandomPoisson", [np.array([2], I), seed, np.array([1, 2], F)], "seed", {"dtype": F}, error="", shapes=wrong_seeds)
    yield from where(1, "StatelessRandomNormal", [np.array([2], I), seed], "seed", error="", shapes=((1, 2),))
    boxes = [np.array([9, 9, 3], I), np.array([[[0, 0, 1, 1]]], F), F(0.1)]
    yield from where(2, "SampleDistortedBoundingBoxV2", boxes, "min_object_covered", error="")
    yield from where(2, "StatelessSampleDistortedBoundingBox", boxes + [seed], "min_object_covered", error="")
    yield from where(3, "StatelessSampleDistortedBoundingBox", boxes + [seed], "seed", error="", shapes=wrong_seeds)

    sparse = [np.array([[0, 1]], I64), np.array([1], F), np.array([4, 2], I64)]
    yield from where(6, "SparseAdd", sparse + sparse + [F(0)], "threshold")
    yield from where(3, "SparseTensorDenseAdd", sparse + [X], "b", error="", shapes=((8,), (1, 4, 2)))
    cross = [L([sparse[0]]), L([np.array([7], I64)]), L([np.array([4, 2], I64)]), L([])]
    for shape in ((0,), (1,), (3,), ()):
        cross[2] = L([np.resize(np.array([4, 2], I64), shape) if shape != (0,) else np.zeros(0, I64)])
        yield fails(f"SparseCross_shape_{'x'.join(map(str, shape)) or 'scalar'}", "SparseCross", list(cross),
                    {"hashed_output": True, "num_buckets": 5, "hash_key": 1, "out_type": I64, "internal_type": I64})
    ragged = [np.array([2, 3], I64), Gen((3,)), F(0), I64(2)]
    for shape in ((0,), (1,), (2,)):
        size = np.zeros(0, I64) if shape == (0,) else np.resize(I64(2), shape)
        yield Case(f"RaggedTensorToTensor_size_{shape[0]}", "RaggedTensorToTensor", ragged[:3] + [L([size, np.array([0, 0, 1], I64)])],
                   {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}, error="FIRST_DIM_SIZE must be a scalar")
    yield Case("UnravelIndex_none", "UnravelIndex", [np.zeros(0, I), np.array([3, 4], I)], error="received empty tensor indices")
    yield Case("UnravelIndex_matrix", "UnravelIndex", [np.zeros((1, 2), I), np.array([3, 4], I)], error="The indices can only be scalar or vector, got")
    yield from where(1, "HistogramFixedWidth", [X, np.array([0, 1], F), I(3)], "value_range", error="", shapes=((0,), (1,), (3,), ()))
    for op in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"):
        for given in (False, True):
            yield fails(f"{op}_range_{given}", op, [X, np.zeros(0, F), np.zeros(0, F)], {"range_given": given})
            yield fails(f"{op}_range1_{given}", op, [X, np.zeros(1, F), np.ones(1, F)], {"range_given": given})
    yield from where(3, "QuantizeAndDequantizeV3", [X, F(-1), F(1), I(8)], "num_bits", error="")
    yield from where(0, "ResourceCountUpTo", [Var(I(0))], "variable", {"limit": 5, "T": I}, error="")
    yield from where(0, "CountUpTo", [RefVar(I(0))], "variable", {"limit": 5}, error="")
    yield from where(1, "NthElement", [X, I(0)], "n", error="")
    yield from where(2, "InTopKV2", [Gen((3, 4)), np.array([0, 1, 2], I), I(1)], "k", error="")
    ends = [np.array([1], I), np.array([3], I), np.array([1], I)]
    for op, variable in (("TensorStridedSliceUpdate", X), ("ResourceStridedSliceAssign", Var(X))):
        for input, name in ((1, "begin"), (2, "end")):
            yield from where(input, op, [variable] + ends + [Gen((2, 2))], name, error="equal size tensors", shapes=((0,), (2,)))
    wide = np.array([[0, 0, 1]], I64)
    yield fails("SparseConcat_ranks", "SparseConcat", [L([sparse[0], wide]), L([sparse[1]] * 2), L([sparse[2], np.array([4, 2, 2], I64)])], {"concat_dim": 0})
    yield fails("SparseCountSparseOutput_more_values", "SparseCountSparseOutput", [sparse[0], np.array([1, 2], I), sparse[2], np.zeros(0, F)],
                {"binary_output": False})
    yield fails("SparseCountSparseOutput_ranks", "SparseCountSparseOutput", [wide, np.array([1], I), sparse[2], np.zeros(0, F)],
                {"binary_output": False})


def cases():
    for family in (indices, segments, values, sparse, variables, scalars):
        yield from family()
