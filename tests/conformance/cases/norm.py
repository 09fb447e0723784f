"""Batch normalisation and local response normalisation."""
import numpy as np

from case_builder import Case, Gen, bfloat16

f32, f16 = np.float32, np.float16
EMPTY = np.zeros(0, f32)
ROUNDING = {"rtol": 2e-5, "atol": 2e-6}
WIDE = {f16: {"rtol": 2e-3, "atol": 2e-3}, bfloat16: {"rtol": 2e-2, "atol": 2e-2}}


def per_channel(channels, seed, low=0.5, high=2):
    return Gen((channels,), f32, low, high, seed)


def channels_of(shape, data_format):
    return shape[1] if data_format[1] == "C" else shape[-1]


LAYOUTS = (((4, 5, 6, 3), "NHWC"), ((2, 3, 4, 65), "NHWC"), ((4, 3, 5, 6), "NCHW"), ((2, 3, 4, 5, 6), "NDHWC"),
           ((2, 6, 3, 4, 5), "NCDHW"), ((1, 1, 1, 4), "NHWC"), ((8, 28, 28, 32), "NHWC"))


def forward():
    for shape, data_format in LAYOUTS:
        c = channels_of(shape, data_format)
        x = Gen(shape, f32, -1, 3)
        tag = f"{data_format}_{'x'.join(map(str, shape))}"
        attrs = {"data_format": data_format, "epsilon": 1e-3}
        scale, offset, mean, variance = (per_channel(c, seed) for seed in (2, 3, 4, 5))
        yield Case(f"V3_train_{tag}", "FusedBatchNormV3", [x, scale, offset, EMPTY, EMPTY], attrs, **ROUNDING)
        yield Case(f"V3_average_{tag}", "FusedBatchNormV3", [x, scale, offset, mean, variance],
                   attrs | {"exponential_avg_factor": 0.1}, **ROUNDING)
        # TensorFlow leaves the reserve outputs unset when it does not train.
        yield Case(f"V3_given_{tag}", "FusedBatchNormV3", [x, scale, offset, mean, variance],
                   attrs | {"is_training": False}, skip=(3, 4), **ROUNDING)
    for version in ("", "V2"):
        yield Case(f"{version or 'V1'}_defaults", f"FusedBatchNorm{version}",
                   [Gen((3, 4, 4, 5)), per_channel(5, 2), per_channel(5, 3), EMPTY, EMPTY], **ROUNDING)
    for dtype in (f16, bfloat16):
        yield Case(f"V3_{np.dtype(dtype).name}", "FusedBatchNormV3",
                   [Gen((3, 4, 4, 5), dtype), per_channel(5, 2), per_channel(5, 3), EMPTY, EMPTY], **WIDE[dtype])
    yield Case("V3_empty", "FusedBatchNormV3",
               [np.zeros((0, 2, 2, 3), f32), per_channel(3, 2), per_channel(3, 3), EMPTY, EMPTY], skip=(3, 4))
    yield Case("V3_wrong_scale", "FusedBatchNormV3",
               [Gen((3, 4, 4, 5)), per_channel(4, 2), per_channel(5, 3), EMPTY, EMPTY], error="")


def backward():
    for shape, data_format in LAYOUTS:
        c = channels_of(shape, data_format)
        tag = f"{data_format}_{'x'.join(map(str, shape))}"
        inputs = [Gen(shape, seed=7), Gen(shape, f32, -1, 3), *(per_channel(c, seed) for seed in (2, 4, 5)), EMPTY]
        # TensorFlow's gradient by given statistics knows channels last only.
        for training in (True, False) if data_format[1] != "C" else (True,):
            yield Case(f"GradV3_{'train' if training else 'given'}_{tag}", "FusedBatchNormGradV3", inputs,
                       {"data_format": data_format, "epsilon": 1e-3, "is_training": training}, rtol=1e-4, atol=1e-4)
    for version in ("", "V2"):
        yield Case(f"Grad{version or 'V1'}_defaults", f"FusedBatchNormGrad{version}",
                   [Gen((3, 4, 4, 5), seed=7), Gen((3, 4, 4, 5)), *(per_channel(5, seed) for seed in (2, 4, 5))],
                   rtol=1e-4, atol=1e-5)
    for dtype in (f16, bfloat16):
        yield Case(f"GradV3_{np.dtype(dtype).name}", "FusedBatchNormGradV3",
                   [Gen((3, 4, 4, 5), dtype, seed=7), Gen((3, 4, 4, 5), dtype),
                    *(per_channel(5, seed) for seed in (2, 4, 5)), EMPTY], **WIDE[dtype])
    yield Case("GradV3_empty", "FusedBatchNormGradV3",
               [np.zeros((0, 2, 2, 3), f32)] * 2 + [per_channel(3, seed) for seed in (2, 4, 5)] + [EMPTY])


def lrn():
    settings = ({}, {"depth_radius": 2, "bias": 2.0, "alpha": 1e-2, "beta": 0.75}, {"depth_radius": 0, "beta": 1.0},
                {"depth_radius": 20, "beta": 0.6})
    for i, attrs in enumerate(settings):
        for shape in ((2, 3, 3, 7), (2, 30, 30, 64)):
            tag = f"{i}_{shape[-1]}"
            yield Case(f"LRN_{tag}", "LRN", [Gen(shape, f32, -3, 3)], attrs, **ROUNDING)
            yield Case(f"LRNGrad_{tag}", "LRNGrad",
                       [Gen(shape, seed=2), Gen(shape, f32, -3, 3), Gen(shape, f32, -1, 1, 3)], attrs, rtol=1e-4, atol=1e-5)
    # Positions of few channels are computed several at a time.
    for channels in (1, 3, 16, 63):
        attrs = {"depth_radius": 2, "beta": 0.75}
        yield Case(f"LRN_few_{channels}", "LRN", [Gen((1, 7, 9, channels), f32, -3, 3)], attrs, **ROUNDING)
        yield Case(f"LRNGrad_few_{channels}", "LRNGrad", [Gen((1, 7, 9, channels), seed=2), Gen((1, 7, 9, channels), f32, -3, 3),
                                                          Gen((1, 7, 9, channels), f32, -1, 1, 3)], attrs, rtol=1e-4, atol=1e-5)
    yield Case("LRN_float16", "LRN", [Gen((1, 2, 3, 9), f16)], rtol=4e-3, atol=4e-3)
    yield Case("LRN_empty", "LRN", [np.zeros((0, 2, 3, 4), f32)])
    yield Case("LRN_rank", "LRN", [Gen((2, 3, 4))], error="")


def cases():
    yield from forward()
    yield from backward()
    yield from lrn()
