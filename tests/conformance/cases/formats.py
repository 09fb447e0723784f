"""What TensorFlow's CPU kernels refuse but is defined by what they do: channels first, which is the answer for channels
last with its dimensions moved, and gradients of dilated convolutions, which are those of a filter with zeros between its
weights. Further cells of coverage.md that no variant of another case covers."""
import numpy as np

from case_builder import Case, Gen, L, bfloat16, run_tensorflow

F, I = np.float32, np.int32
RAGGED = [0, 0, 1, 2, 0, 1, 0, 0]


def first(x):
    return np.moveaxis(x, -1, 1)


def move(values):
    """[batch, space..., channels] of an attribute or shape with channels second."""
    return list(values[:1]) + list(values[-1:]) + list(values[1:-1])


def channels_first(name, op, inputs, attrs, images, vectors=(), results=(0,), **options):
    """The case in NCHW or NCDHW. inputs: as for channels last; images, vectors: which are moved; results: outputs that are."""
    last = Case(name, op, inputs, attrs)
    answers, _, _ = run_tensorflow(last)
    volume = len(next(v for k, v in attrs.items() if k in ("strides", "ksize"))) == 5 if {"strides", "ksize"} & set(attrs) else False
    moved = dict(attrs, data_format="NCDHW" if volume else "NCHW")
    for key in ("strides", "ksize", "dilations"):
        if key in moved:
            moved[key] = move(moved[key])
    if "explicit_paddings" in moved:
        pairs = [moved["explicit_paddings"][2 * i:2 * i + 2] for i in range(4)]
        moved["explicit_paddings"] = sum(move(pairs), [])
    arrays = [v.numpy() if isinstance(v, Gen) else v for v in inputs]
    turned = [first(v) if i in images else np.array(move(v), v.dtype) if i in vectors else v for i, v in enumerate(arrays)]
    expected = [first(a) if i in results else a for i, a in enumerate(answers)]
    return Case(name, op, turned, moved, expected=expected, **options)


def convolutions():
    close = dict(rtol=1e-5, atol=2e-5)
    image, filters = Gen((2, 5, 6, 3)), Gen((3, 2, 3, 4), seed=2)
    for padding, extra, size in (("SAME", {}, (3, 6)), ("VALID", {}, (2, 5)), ("EXPLICIT", {"explicit_paddings": RAGGED}, (3, 6))):
        attrs = dict({"strides": [1, 2, 1, 1], "padding": padding}, **extra)
        gradient, shape = Gen((2,) + size + (4,), seed=3), np.array([2, 5, 6, 3], I)
        yield channels_first(f"Conv2D_NCHW_{padding}", "Conv2D", [image, filters], attrs, {0}, **close)
        yield channels_first(f"Conv2DBackpropInput_NCHW_{padding}", "Conv2DBackpropInput", [shape, filters, gradient], attrs, {2}, {0}, **close)
        yield channels_first(f"Conv2DBackpropFilter_NCHW_{padding}", "Conv2DBackpropFilter", [image, np.array([3, 2, 3, 4], I), gradient],
                             attrs, {0, 2}, results=(), **close)
    # Every type; an even size at stride 2 pads one side alone.
    for dtype, near in ((np.float64, dict(rtol=1e-13, atol=1e-13)), (np.float16, dict(rtol=1e-2, atol=2e-2)), (bfloat16, dict(rtol=5e-2, atol=2e-1))):
        attrs, suffix = {"strides": [1, 2, 2, 1], "padding": "SAME"}, f"NCHW_uneven_{np.dtype(dtype).name}"
        even, weights, gradient = Gen((2, 6, 8, 3), dtype), Gen((3, 3, 3, 4), dtype, seed=2), Gen((2, 3, 4, 4), dtype, seed=3)
        shape, size = np.array([2, 6, 8, 3], I), np.array([3, 3, 3, 4], I)
        yield channels_first(f"Conv2D_{suffix}", "Conv2D", [even, weights], attrs, {0}, **near)
        yield channels_first(f"Conv2DBackpropInput_{suffix}", "Conv2DBackpropInput", [shape, weights, gradient], attrs, {2}, {0}, **near)
        yield channels_first(f"Conv2DBackpropFilter_{suffix}", "Conv2DBackpropFilter", [even, size, gradient], attrs, {0, 2}, results=(), **near)
    for window in (1, 5):
        attrs, weights = {"strides": [1, 1, 1, 1], "padding": "SAME"}, Gen((window, window, 3, 4), seed=2)
        gradient, size = Gen((2, 5, 6, 4), seed=3), np.array([window, window, 3, 4], I)
        yield channels_first(f"Conv2D_NCHW_{window}x{window}", "Conv2D", [image, weights], attrs, {0}, **close)
        yield channels_first(f"Conv2DBackpropFilter_NCHW_{window}x{window}", "Conv2DBackpropFilter", [image, size, gradient], attrs, {0, 2}, results=(), **close)
    for ops in (["BiasAdd"], ["BiasAdd", "Relu"]):
        attrs = {"strides": [1, 2, 1, 1], "padding": "SAME", "fused_ops": ops, "num_args": 1}
        yield channels_first(f"FusedConv2D_NCHW_{ops[-1]}", "_FusedConv2D", [image, filters, L([Gen((4,), seed=5)]), L([])], attrs, {0}, **close)
    thin = Gen((3, 2, 3, 2), seed=2)
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    gradient, shape = Gen((2, 5, 6, 6), seed=3), np.array([2, 5, 6, 3], I)
    op = "DepthwiseConv2dNative"
    yield channels_first(f"{op}_NCHW", op, [image, thin], attrs, {0}, **close)
    yield channels_first(f"{op}BackpropInput_NCHW", f"{op}BackpropInput", [shape, thin, gradient], attrs, {2}, {0}, **close)
    yield channels_first(f"{op}BackpropFilter_NCHW", f"{op}BackpropFilter", [image, np.array([3, 2, 3, 2], I), gradient], attrs, {0, 2}, results=(), **close)
    volume, weights = Gen((1, 3, 4, 3, 2)), Gen((2, 2, 2, 2, 3), seed=2)
    attrs = {"strides": [1, 1, 2, 1, 1], "padding": "SAME"}
    gradient, shape = Gen((1, 3, 2, 3, 3), seed=3), np.array([1, 3, 4, 3, 2], I)
    yield channels_first("Conv3D_NCDHW", "Conv3D", [volume, weights], attrs, {0}, **close)
    yield channels_first("Conv3DBackpropInputV2_NCDHW", "Conv3DBackpropInputV2", [shape, weights, gradient], attrs, {2}, {0}, **close)
    yield channels_first("Conv3DBackpropFilterV2_NCDHW", "Conv3DBackpropFilterV2", [volume, np.array([2, 2, 2, 2, 3], I), gradient],
                         attrs, {0, 2}, results=(), **close)
    attrs = {"strides": [1, 2, 2, 2, 1], "padding": "SAME"}
    even, weights, gradient = Gen((1, 4, 6, 4, 2)), Gen((3, 3, 3, 2, 3), seed=2), Gen((1, 2, 3, 2, 3), seed=3)
    shape, size = np.array([1, 4, 6, 4, 2], I), np.array([3, 3, 3, 2, 3], I)
    for op, inputs, images, results in (("Conv3D", [even, weights], {0}, {0}), ("Conv3DBackpropInputV2", [shape, weights, gradient], {2}, {0}),
                                        ("Conv3DBackpropFilterV2", [even, size, gradient], {0, 2}, ())):
        yield Case(f"{op}_uneven", op, inputs, attrs, **close)
        yield channels_first(f"{op}_NCDHW_uneven", op, inputs, attrs, images, {0} if op == "Conv3DBackpropInputV2" else (), results, **close)


def spread(filters, rates):
    """The filter with zeros between its weights."""
    for axis, rate in enumerate(rates):
        shape = list(filters.shape)
        shape[axis] = (shape[axis] - 1) * rate + 1
        wide = np.zeros(shape, filters.dtype)
        wide[tuple([slice(None)] * axis + [slice(None, None, rate)])] = filters
        filters = wide
    return filters


def picked(wide, rates):
    return wide[tuple(slice(None, None, rate) for rate in rates)]


def dilated():
    close = dict(rtol=1e-5, atol=2e-5)
    image, filters = Gen((2, 7, 8, 3)), Gen((3, 2, 3, 4), seed=2)
    plain = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    attrs, rates = dict(plain, dilations=[1, 2, 3, 1]), (2, 3)
    gradient, shape = Gen((2, 7, 8, 4), seed=3), np.array([2, 7, 8, 3], I)
    wide = spread(filters.numpy(), rates)
    for op, of, grad in (("Conv2D", filters, gradient), ("DepthwiseConv2dNative", Gen((3, 2, 3, 2), seed=2), Gen((2, 7, 8, 6), seed=3))):
        wide = spread(of.numpy(), rates)
        [answer], _, _ = run_tensorflow(Case("x", op, [image, wide], plain))
        if op != "Conv2D":
            yield Case(f"{op}_dilated", op, [image, of], attrs, expected=[answer], **close)
        [answer], _, _ = run_tensorflow(Case("x", f"{op}BackpropInput", [shape, wide, grad], plain))
        yield Case(f"{op}BackpropInput_dilated", f"{op}BackpropInput", [shape, of, grad], attrs, expected=[answer], **close)
        [answer], _, _ = run_tensorflow(Case("x", f"{op}BackpropFilter", [image, np.array(wide.shape, I), grad], plain))
        yield Case(f"{op}BackpropFilter_dilated", f"{op}BackpropFilter", [image, np.array(of.shape, I), grad], attrs,
                   expected=[picked(answer, rates)], **close)
    volume, weights, rates = Gen((1, 4, 5, 4, 2)), Gen((2, 2, 2, 2, 3), seed=2), (2, 1, 2)
    plain = {"strides": [1] * 5, "padding": "SAME"}
    attrs, wide = dict(plain, dilations=[1, 2, 1, 2, 1]), spread(weights.numpy(), rates)
    gradient, shape = Gen((1, 4, 5, 4, 3), seed=3), np.array([1, 4, 5, 4, 2], I)
    [answer], _, _ = run_tensorflow(Case("x", "Conv3D", [volume, wide], plain))
    yield Case("Conv3D_dilated", "Conv3D", [volume, weights], attrs, expected=[answer], **close)
    [answer], _, _ = run_tensorflow(Case("x", "Conv3DBackpropInputV2", [shape, wide, gradient], plain))
    yield Case("Conv3DBackpropInputV2_dilated", "Conv3DBackpropInputV2", [shape, weights, gradient], attrs, expected=[answer], **close)
    [answer], _, _ = run_tensorflow(Case("x", "Conv3DBackpropFilterV2", [volume, np.array(wide.shape, I), gradient], plain))
    yield Case("Conv3DBackpropFilterV2_dilated", "Conv3DBackpropFilterV2", [volume, np.array(weights.shape, I), gradient], attrs,
               expected=[picked(answer, rates)], **close)


def pooling():
    image = Gen((2, 5, 6, 3))
    attrs = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}
    size, close = (2, 3, 6, 3), dict(rtol=1e-6, atol=1e-6)
    gradient = Gen(size, seed=3)
    yield channels_first("AvgPool_NCHW", "AvgPool", [image], attrs, {0}, **close)
    yield channels_first("AvgPoolGrad_NCHW", "AvgPoolGrad", [np.array([2, 5, 6, 3], I), gradient], attrs, {1}, {0}, **close)
    yield channels_first("MaxPool_NCHW", "MaxPool", [image], attrs, {0})
    [best], _, _ = run_tensorflow(Case("x", "MaxPool", [image], attrs))
    yield channels_first("MaxPoolGrad_NCHW", "MaxPoolGrad", [image, best, gradient], attrs, {0, 1, 2}, **close)
    yield channels_first("MaxPoolGradGrad_NCHW", "MaxPoolGradGrad", [image, best, Gen((2, 5, 6, 3), seed=4)], attrs, {0, 1, 2}, **close)
    windows = [np.array(attrs["ksize"], I), np.array(attrs["strides"], I)]
    for padding in ("SAME", "VALID"):
        [best], _, _ = run_tensorflow(Case("x", "MaxPoolV2", [image] + windows, {"padding": padding}))
        dy = Gen(best.shape, seed=3)
        yield Case(f"MaxPoolV2_{padding}", "MaxPoolV2", [image] + windows, {"padding": padding})
        yield Case(f"MaxPoolGradV2_{padding}", "MaxPoolGradV2", [image, best, dy] + windows, {"padding": padding}, **close)
        for op, inputs, images in (("MaxPoolV2", [image] + windows, {0}), ("MaxPoolGradV2", [image, best, dy] + windows, {0, 1, 2})):
            at = len(inputs)
            case = channels_first(f"{op}_NCHW_{padding}", op, inputs, {"padding": padding}, images, {at - 2, at - 1}, **close)
            yield case
    yield Case("MaxPoolGradWithArgmax_SAME", "MaxPoolGradWithArgmax",
               [image, Gen((2, 3, 3, 3), seed=3), Gen((2, 3, 3, 3), np.int64, 0, 90, 5)],
               {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}, **close)
    volume = Gen((1, 4, 5, 4, 2))
    attrs = {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 1, 2, 1], "padding": "VALID"}
    gradient = Gen((1, 2, 3, 2, 2), seed=3)
    yield channels_first("AvgPool3D_NCDHW", "AvgPool3D", [volume], attrs, {0}, **close)
    yield channels_first("AvgPool3DGrad_NCDHW", "AvgPool3DGrad", [np.array([1, 4, 5, 4, 2], I), gradient], attrs, {1}, {0}, **close)
    yield channels_first("MaxPool3D_NCDHW", "MaxPool3D", [volume], attrs, {0})
    [best], _, _ = run_tensorflow(Case("x", "MaxPool3D", [volume], attrs))
    yield channels_first("MaxPool3DGrad_NCDHW", "MaxPool3DGrad", [volume, best, gradient], attrs, {0, 1, 2}, **close)
    yield channels_first("MaxPool3DGradGrad_NCDHW", "MaxPool3DGradGrad", [volume, best, Gen((1, 4, 5, 4, 2), seed=4)], attrs, {0, 1, 2}, **close)


def normalisation():
    image, scale, offset = Gen((2, 3, 4, 5)), Gen((5,), low=0.5, high=2, seed=2), Gen((5,), seed=3)
    none, close = np.zeros(0, F), dict(rtol=1e-4, atol=1e-5)
    for op in ("FusedBatchNorm", "FusedBatchNormV2"):
        case = channels_first(f"{op}_NCHW", op, [image, scale, offset, none, none], {}, {0}, **close)
        case.skip = {3, 4}  # of which only the gradient makes use
        yield case
    for op in ("FusedBatchNormGrad", "FusedBatchNormGradV2"):
        inputs = [Gen((2, 3, 4, 5), seed=4), image, scale, Gen((5,), seed=5), Gen((5,), low=0.5, high=2, seed=6)]
        case = channels_first(f"{op}_NCHW", op, inputs, {"is_training": False}, {0, 1}, **close)
        case.skip = {3, 4}
        yield case


def leftovers():
    """Cells without elements or with special numbers of which other variants are of no use."""
    image, shape = np.zeros((0, 5, 6, 3), F), np.array([0, 5, 6, 3], I)
    plain = {"strides": [1, 1, 1, 1], "padding": "VALID"}
    yield Case("DepthwiseConv2dNativeBackpropInput_no_batch", "DepthwiseConv2dNativeBackpropInput",
               [shape, Gen((3, 2, 3, 1)), np.zeros((0, 3, 5, 3), F)], plain)
    # TensorFlow leaves the memory as it was.
    yield Case("DepthwiseConv2dNativeBackpropFilter_no_batch", "DepthwiseConv2dNativeBackpropFilter",
               [image, np.array([3, 2, 3, 1], I), np.zeros((0, 3, 5, 3), F)], plain, expected=[np.zeros((3, 2, 3, 1), F)])
    yield Case("DepthwiseConv2dNative_no_batch", "DepthwiseConv2dNative", [image, Gen((3, 2, 3, 1))], plain)
    yield Case("FusedBatchNormV2_no_batch", "FusedBatchNormV2", [np.zeros((0, 4, 4, 5), F), np.ones(5, F), np.ones(5, F), np.zeros(0, F), np.zeros(0, F)],
               skip=(1, 2, 3, 4))  # statistics of nothing
    rates = dict(plain, rates=[1, 1, 1, 1])
    for part in ("Input", "Filter"):
        yield Case(f"Dilation2DBackprop{part}_no_batch", f"Dilation2DBackprop{part}",
                   [image, Gen((3, 2, 3)), np.zeros((0, 3, 5, 3), F)], rates)
    for dims in (2, 3):
        inner = (0, 5) if dims == 2 else (2, 0, 3)
        lengths, half = ((3, 5), (3, 3)) if dims == 2 else ((2, 3, 4), (2, 3, 3))
        # TensorFlow's real transform pads what is not there with zeros; the inverse leaves the memory as it was.
        yield Case(f"IRFFT{dims}D_no_rows", f"IRFFT{dims}D", [np.zeros((2,) + inner[:-1] + half[-1:], np.complex64), np.array(lengths, I)],
                   {"Treal": F}, expected=[np.zeros((2,) + lengths, F)])
    yield Case("ParallelDynamicStitch_scalars", "ParallelDynamicStitch",
               [L([np.array(1, I), np.array(0, I)]), L([np.array([2., 3.], F), np.array([4., 5.], F)])])
    yield Case("ParallelDynamicStitch_no_rows", "ParallelDynamicStitch",
               [L([np.zeros(0, I), np.array([1, 0], I)]), L([np.zeros((0, 2), F), Gen((2, 2))])])
    for small, name in ((np.float16, "half"), (bfloat16, "bfloat16")):
        yield Case(f"Bitcast_{name}", "Bitcast", [Gen((2, 3), small)], {"type": np.int16})
    yield Case("BatchMatMulV2_special", "BatchMatMulV2", [np.array([[[np.nan, 1], [2, np.inf]]], F), Gen((1, 2, 3))], rtol=1e-6)
    yield Case("Mod_special", "Mod", [np.array([np.nan, 1, 5, -np.inf], F), np.array([2, np.nan, np.inf, 3], F)])
    yield Case("ParallelDynamicStitch_special", "ParallelDynamicStitch",
               [L([np.array([1, 0], I)]), L([np.array([[np.nan, 1], [np.inf, -np.inf]], F)])])
    yield Case("ResizeNearestNeighborGrad_special", "ResizeNearestNeighborGrad",
               [np.array([np.nan, 1, np.inf, 2], F).reshape(1, 2, 2, 1), np.array([1, 2], I)])
    for dtype in (F, np.float64, np.int32, np.bool_):
        yield Case(f"GuaranteeConst_{np.dtype(dtype).name}", "GuaranteeConst", [np.array([[0, 1, 1]], dtype)])
    yield Case("Snapshot_special", "Snapshot", [np.array([np.nan, np.inf, -np.inf], F)])
    order = np.array([[1, 0], [0, 2], [0, 1]], np.int64)
    yield Case("SparseReorder_special", "SparseReorder", [order, np.array([np.nan, np.inf, 3], F), np.array([2, 3], np.int64)])
    yield Case("SparseSoftmax_special", "SparseSoftmax", [order[::-1].copy(), np.array([np.nan, 1, 3], F), np.array([2, 3], np.int64)], rtol=1e-6)


    yield Case("MatrixTriangularSolve_singular", "MatrixTriangularSolve", [np.array([[1, 0], [2, 0]], F), Gen((2, 1))])
    odd = np.array([np.nan, 7, -np.inf, 5, -7.5], F)
    for op in ("TruncateDiv", "TruncateMod"):
        yield Case(f"{op}_special", op, [odd, np.array([1, np.nan, 2, np.inf, 2], F)])
    yield Case("UniqueWithCountsV2_special", "UniqueWithCountsV2", [np.array([np.nan, 1, np.inf, 1, np.inf], F), np.array([0], np.int64)])


def seldom():
    """Old names, and ops that pass their input on."""
    for op in ("Identity", "StopGradient", "PreventGradient", "DeepCopy"):
        yield Case(op, op, [np.array([[1, -2, np.inf], [np.nan, 0, 3]], F)])
    # Names that TensorFlow knows no more, and one that it rewrites before it runs.
    for op, inputs in (("MatrixDiag", [Gen((2, 3))]), ("MatrixDiagPart", [Gen((2, 3, 3))]),
                       ("MatrixSetDiag", [Gen((2, 3, 3)), Gen((2, 3), seed=2)]),
                       ("MatrixBandPart", [Gen((2, 3, 4)), np.int64(1), np.int64(0)])):
        yield Case(f"Batch{op}", f"Batch{op}", inputs, expected=run_tensorflow(Case("x", op, inputs))[0])
    terms = [L([Gen((2, 3)), Gen((2, 3), seed=2), Gen((2, 3), seed=3)])]
    yield Case("AccumulateNV2", "AccumulateNV2", terms, {"shape": [2, 3]}, expected=run_tensorflow(Case("x", "AddN", terms))[0])
    image, attrs = Gen((2, 5, 6, 3)).numpy(), {"padding": "SAME"}
    windows = [np.array([1, 3, 2, 1], I), np.array([1, 2, 1, 1], I)]
    [best], _, _ = run_tensorflow(Case("x", "MaxPoolV2", [image] + windows, attrs))
    inputs = [image, best, Gen((2, 5, 6, 3), seed=4)] + windows
    yield Case("MaxPoolGradGradV2", "MaxPoolGradGradV2", inputs, attrs)
    yield channels_first("MaxPoolGradGradV2_NCHW", "MaxPoolGradGradV2", inputs, attrs, {0, 1, 2}, {3, 4})


def cases():
    for family in (convolutions, dilated, pooling, normalisation, leftovers, seldom):
        yield from family()
