"""Conv2D, Conv3D, DepthwiseConv2dNative and their gradients.

TensorFlow's own CPU kernels take neither channels first nor dilated or grouped gradients nor dilated depthwise layers;
tests/cpu/conv_test.cc holds those to a direct sum.
"""
import numpy as np

from case_builder import Case, Gen, L, bfloat16, run_tensorflow

f32, f64, f16 = np.float32, np.float64, np.float16
CLOSE = {f32: dict(rtol=1e-5, atol=2e-5), f64: dict(rtol=1e-13, atol=1e-13), f16: dict(rtol=1e-2, atol=2e-2),
         bfloat16: dict(rtol=5e-2, atol=2e-1)}


def output_size(size, window, stride, dilation, padding, pads):
    extent = (window - 1) * dilation + 1
    if padding == "SAME":
        return -(-size // stride)
    return (size + sum(pads) - extent) // stride + 1


def layer(name, size, kernel, channels, outputs, batch=2, strides=None, dilations=None, padding="SAME", pads=None,
          dtype=f32, depthwise=False, kinds="fiw", groups=1, atol=None):
    """The layer and its gradients: f(orward), i(nput), w (filter)."""
    n = len(size)
    strides, dilations, pads = strides or (1,) * n, dilations or (1,) * n, pads or ((0, 0),) * n
    out = tuple(output_size(*dims, padding, p) for *dims, p in zip(size, kernel, strides, dilations, pads))
    x, y = (batch, *size, channels), (batch, *out, channels * outputs if depthwise else outputs)
    w = (*kernel, channels // groups, outputs)
    attrs = {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "padding": padding}
    if padding == "EXPLICIT":
        attrs["explicit_paddings"] = [0, 0, *(p for pair in pads for p in pair), 0, 0]
    op = "DepthwiseConv2dNative" if depthwise else f"Conv{n}D"
    suffix = "V2" if n == 3 else ""
    inputs, filters, gradients = Gen(x, dtype, seed=1), Gen(w, dtype, seed=2), Gen(y, dtype, seed=3)
    label = f"{op}_{name}"
    close = dict(CLOSE[dtype], **({} if atol is None else {"atol": atol}))
    if "f" in kinds:
        yield Case(label, op, [inputs, filters], attrs, **close)
    if "i" in kinds:
        yield Case(f"{label}_input", f"{op}BackpropInput{suffix}", [np.array(x, np.int32), filters, gradients], attrs,
                   **close)
    if "w" in kinds:
        yield Case(f"{label}_filter", f"{op}BackpropFilter{suffix}", [inputs, np.array(w, np.int32), gradients], attrs,
                   **close)


def conv2d_cases():
    for padding in ("SAME", "VALID"):
        for kernel in ((1, 1), (2, 3), (3, 3), (5, 4)):
            for strides in ((1, 1), (2, 2), (3, 2)):
                name = f"{padding}_{kernel[0]}x{kernel[1]}_by_{strides[0]}x{strides[1]}"
                yield from layer(name, (7, 8), kernel, 3, 4, strides=strides, padding=padding)
    yield from layer("explicit", (7, 6), (3, 3), 2, 5, strides=(2, 1), padding="EXPLICIT", pads=((1, 2), (0, 2)))
    yield from layer("explicit_padding_alone", (0, 4), (2, 2), 2, 3, padding="EXPLICIT", pads=((2, 1), (1, 0)))
    yield from layer("explicit_wide", (5, 4), (2, 2), 2, 3, padding="EXPLICIT", pads=((1, 1), (1, 0)))
    for padding in ("SAME", "VALID"):
        yield from layer(f"dilated_{padding}", (9, 10), (3, 3), 3, 4, dilations=(2, 3), padding=padding, kinds="f")
    yield from layer("grouped", (6, 7), (3, 3), 8, 12, groups=4, kinds="f")
    for dtype in (f64, f16, bfloat16):
        yield from layer(np.dtype(dtype).name, (6, 7), (3, 2), 3, 4, strides=(2, 2), dtype=dtype)
    for dtype in (f16, bfloat16):
        name = np.dtype(dtype).name
        yield from layer(f"vectors_{name}", (6, 7), (3, 3), 16, 32, dtype=dtype, kinds="fi")
        yield from layer(f"explicit_{name}", (7, 6), (3, 3), 2, 5, strides=(2, 1), padding="EXPLICIT", pads=((1, 2), (0, 2)), dtype=dtype)
    yield from layer("vectors_float64", (6, 7), (3, 3), 16, 32, dtype=f64)
    yield from layer("one_image", (30, 31), (3, 3), 16, 32, batch=1)
    yield from layer("many_channels", (7, 7), (3, 3), 64, 96, batch=2, strides=(2, 2))
    yield from layer("large", (28, 28), (3, 3), 32, 32, batch=8)
    yield from layer("empty_batch", (5, 6), (3, 3), 2, 3, batch=0, kinds="fw")
    x, w = Gen((1, 5, 6, 3)), Gen((3, 3, 2, 4))
    same = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    yield Case("Conv2D_wrong_channels", "Conv2D", [x, w], same, error="")
    yield Case("Conv2D_stride_over_batch", "Conv2D", [x, Gen((3, 3, 3, 4))], {**same, "strides": [2, 1, 1, 1]}, error="")
    yield Case("Conv2D_window_too_large", "Conv2D", [x, Gen((9, 9, 3, 4))], {**same, "padding": "VALID"}, error="")
    yield Case("Conv2DBackpropInput_wrong_gradient", "Conv2DBackpropInput",
               [np.array((1, 5, 6, 3), np.int32), Gen((3, 3, 3, 4)), Gen((1, 4, 6, 4))], same, error="")
    yield Case("Conv2DBackpropInput_spatial_sizes", "Conv2DBackpropInput",
               [np.array((5, 6), np.int32), Gen((3, 3, 3, 4)), Gen((2, 5, 6, 4))], same, **CLOSE[f32])


def conv3d_cases():
    for padding in ("SAME", "VALID"):
        for kernel, strides in (((3, 3, 3), (1, 1, 1)), ((2, 2, 2), (2, 2, 2)), ((1, 3, 2), (1, 2, 1))):
            yield from layer(f"{padding}_{'x'.join(map(str, kernel))}", (5, 6, 7), kernel, 3, 4, strides=strides,
                             padding=padding)
    yield from layer("float64", (4, 5, 6), (3, 2, 2), 2, 3, dtype=f64)
    yield from layer("large", (16, 16, 16), (3, 3, 3), 8, 16, batch=2, atol=2e-4)


def depthwise_cases():
    for multiplier in (1, 2):
        for padding in ("SAME", "VALID"):
            for stride in (1, 2):
                yield from layer(f"{padding}_by_{stride}_times_{multiplier}", (7, 8), (3, 3), 5, multiplier,
                                 strides=(stride, stride), padding=padding, depthwise=True)
    for dtype in (f64, f16, bfloat16):
        yield from layer(np.dtype(dtype).name, (6, 7), (3, 3), 4, 1, dtype=dtype, depthwise=True)
    for dtype in (f32, f16, bfloat16):
        yield from layer(f"one_channel_times_9_{np.dtype(dtype).name}", (6, 7), (3, 3), 1, 9, dtype=dtype, depthwise=True)
        yield from layer(f"times_8_{np.dtype(dtype).name}", (6, 7), (3, 3), 3, 8, dtype=dtype, depthwise=True)
    yield from layer("explicit", (7, 8), (3, 3), 17, 1, padding="EXPLICIT", pads=((1, 0), (2, 1)), depthwise=True)
    yield from layer("large", (28, 28), (3, 3), 40, 1, batch=4, depthwise=True)


def by_parts(inputs, attrs, volume=False):
    """A fused convolution's answer where TensorFlow has its ops on the CPU, but not all of them as one."""
    def ask(op, given, attrs):
        [answer], _, _ = run_tensorflow(Case("x", op, given, attrs))
        return answer
    x, w, args = inputs[:3]
    plain = {k: v for k, v in attrs.items() if k not in ("fused_ops", "num_args")}
    y = ask("BiasAdd", [ask("Conv3D" if volume else "Conv2D", [x, w], plain), args[0]], {})
    if "Add" in attrs["fused_ops"]:
        y = ask("AddV2", [y, args[1]], {})
    return ask("Relu", [y], {}) if "Relu" in attrs["fused_ops"] else y


def fused_cases():
    """With a bias and perhaps a Relu as grappler makes them; with a sum in between, in halves and in three dimensions, where
    TensorFlow's CPU has no kernel, by its parts."""
    def attrs_of(ops, strides=(1, 1), padding="SAME", **more):
        return {"strides": [1, *strides, 1], "padding": padding, "fused_ops": ops, "num_args": 2 if "Add" in ops else 1, **more}

    def inputs_of(size, kernel, dtype, side=None):
        args = [Gen(kernel[-1:], dtype, seed=3)] + ([] if side is None else [Gen(side, dtype, seed=4)])
        return [Gen(size, dtype, seed=1), Gen(kernel, dtype, seed=2), L(args)]

    x, w = (2, 6, 7, 3), (3, 2, 3, 4)
    for name, ops in (("bias", ["BiasAdd"]), ("relu", ["BiasAdd", "Relu"])):
        for dtype in (f32, f64):
            yield Case(f"FusedConv2D_{name}_{np.dtype(dtype).name}", "_FusedConv2D", inputs_of(x, w, dtype) + [L([])], attrs_of(ops, (2, 1)),
                       **CLOSE[dtype])
        yield Case(f"FusedConv2D_{name}_VALID", "_FusedConv2D", inputs_of(x, w, f32) + [L([])], attrs_of(ops, padding="VALID"), **CLOSE[f32])
        explicit = attrs_of(ops, (1, 2), "EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
        yield Case(f"FusedConv2D_{name}_EXPLICIT", "_FusedConv2D", inputs_of(x, w, f32) + [L([])], explicit, **CLOSE[f32])
        yield Case(f"FusedConv2D_{name}_dilated", "_FusedConv2D", inputs_of(x, w, f32) + [L([])], attrs_of(ops, dilations=[1, 2, 3, 1]), **CLOSE[f32])
        yield Case(f"FusedConv2D_{name}_large", "_FusedConv2D", inputs_of((8, 28, 28, 16), (3, 3, 16, 32), f32) + [L([])], attrs_of(ops), **CLOSE[f32])
    yield Case("FusedConv2D_empty_batch", "_FusedConv2D", inputs_of((0, 6, 7, 3), w, f32) + [L([])], attrs_of(["BiasAdd", "Relu"]))
    # The sum goes through float32 once where the parts of halves are rounded each.
    for dtype in (f32, f64, f16, bfloat16):
        for ops in (["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Add"], ["BiasAdd", "Add", "Relu"]):
            if "Add" not in ops and dtype in (f32, f64):
                continue
            label, attrs = "_".join(ops[1:]).lower() or "bias", attrs_of(ops, (2, 2))
            inputs = inputs_of((2, 6, 8, 3), (3, 3, 3, 4), dtype, side=(2, 3, 4, 4) if "Add" in ops else None)
            yield Case(f"FusedConv2D_{label}_{np.dtype(dtype).name}", "_FusedConv2D", inputs + [L([])], attrs, expected=[by_parts(inputs, attrs)], **CLOSE[dtype])
    for dtype in (f32, f16, bfloat16):
        for ops in (["BiasAdd"], ["BiasAdd", "Relu"], ["BiasAdd", "Add", "Relu"]):
            label, attrs = "_".join(ops[1:]).lower() or "bias", attrs_of(ops, (1, 2, 1))
            inputs = inputs_of((1, 4, 6, 5, 3), (2, 3, 2, 3, 4), dtype, side=(1, 4, 3, 5, 4) if "Add" in ops else None)
            answer = by_parts(inputs, attrs, volume=True)
            yield Case(f"FusedConv3D_{label}_{np.dtype(dtype).name}", "_FusedConv3D", inputs, attrs, expected=[answer], **CLOSE[dtype])
            if dtype == f32:
                first = [np.moveaxis(v.numpy(), -1, 1) for v in (inputs[0], *inputs[2][1:])]
                yield Case(f"FusedConv3D_{label}_NCDHW", "_FusedConv3D", [first[0], inputs[1], L([inputs[2][0], *first[1:]])],
                           {**attrs, "strides": [1, 1, 1, 2, 1], "data_format": "NCDHW"}, expected=[np.moveaxis(answer, -1, 1)], **CLOSE[f32])
    inputs, attrs = inputs_of((1, 4, 6, 5, 3), (2, 3, 2, 3, 4), f32), attrs_of(["BiasAdd", "Relu"], (1, 2, 1), "VALID")
    yield Case("FusedConv3D_VALID", "_FusedConv3D", inputs, attrs, expected=[by_parts(inputs, attrs, volume=True)], **CLOSE[f32])
    empty = inputs_of((0, 4, 6, 5, 3), (2, 3, 2, 3, 4), f32)
    yield Case("FusedConv3D_empty", "_FusedConv3D", empty, attrs, expected=[np.zeros((0, 3, 2, 4, 4), f32)])


def cases():
    yield from conv2d_cases()
    yield from fused_cases()
    yield from conv3d_cases()
    yield from depthwise_cases()
