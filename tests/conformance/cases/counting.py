"""Histograms and counts, flat indices, data formats, updates of rows by value, fake quantisation."""
import numpy as np

from case_builder import Case, Gen

NONE = np.zeros(0, np.float32)


def count_cases():
    values = np.array([3, 0, 1, 3, 9, 1, 3], np.int32)
    weights = np.array([.5, 1, 2, 3, 4, 5, 6], np.float32)
    yield Case("Bincount_weighted", "Bincount", [values, np.int32(5), weights])
    yield Case("Bincount_plain", "Bincount", [values, np.int32(12), np.zeros(0, np.int32)])
    yield Case("Bincount_nothing", "Bincount", [np.zeros(0, np.int32), np.int32(3), NONE])
    yield Case("Bincount_negative", "Bincount", [np.array([1, -1], np.int32), np.int32(3), NONE], error="negative")
    for index in (np.int32, np.int64):
        name = np.dtype(index).name
        yield Case(f"DenseBincount_{name}", "DenseBincount", [values.astype(index), index(5), weights])
        rows = np.array([[0, 2, 2], [1, 1, 7]], index)
        for binary in (False, True):
            yield Case(f"DenseBincount_rows_{name}_{binary}", "DenseBincount", [rows, index(4), NONE],
                       {"binary_output": binary})
        yield Case(f"DenseBincount_rows_weighted_{name}", "DenseBincount",
                   [rows, index(4), np.array([[1, 2, 3], [4, 5, 6]], np.float64)])
    yield Case("Histogram", "HistogramFixedWidth",
               [np.array([-1, 0, 1.5, 2, 5, 15], np.float32), np.array([0, 5], np.float32), np.int32(5)])
    yield Case("Histogram_infinite", "HistogramFixedWidth",
               [np.array([1, np.inf, -np.inf], np.float32), np.array([0, 5], np.float32), np.int32(3)])
    yield Case("Histogram_no_end", "HistogramFixedWidth", [np.array([1, 2], np.float32), np.array([0, np.inf], np.float32), np.int32(3)])
    yield Case("Histogram_int", "HistogramFixedWidth",
               [np.array([3, 4, 5, 100, -2], np.int32), np.array([0, 10], np.int32), np.int32(4)], {"dtype": np.int32})
    yield Case("Histogram_large", "HistogramFixedWidth", [Gen((120000,)), np.array([-1, 1], np.float32), np.int32(7)])
    for index in (np.int32, np.int64):
        yield Case(f"Unravel_{np.dtype(index).name}", "UnravelIndex",
                   [np.array([22, 3, 7], index), np.array([3, 4, 2], index)])
    yield Case("Unravel_scalar", "UnravelIndex", [np.int32(5), np.array([2, 3], np.int32)])
    yield Case("Unravel_outside", "UnravelIndex", [np.array([6], np.int32), np.array([2, 3], np.int32)], error="out of bound")


def array_cases():
    yield Case("Empty_float", "Empty", [np.array([2, 3], np.int32)], {"dtype": np.float32, "init": True})
    yield Case("Empty_scalar", "Empty", [np.zeros(0, np.int32)], {"dtype": np.int64, "init": True})
    yield Case("Empty_bool", "Empty", [np.array([0, 3], np.int32)], {"dtype": np.bool_, "init": True})
    x = Gen((4, 3))  # TensorFlow writes over an array that it is given
    v = np.array([[1, 2, 3], [10, 20, 30], [5, 5, 5]], np.float32)
    for op in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
        yield Case(f"{op}", op, [x, np.array([2, 0, 2], np.int32), v])
    for dtype in (np.float32, np.float64, np.int32):
        yield Case(f"Cross_{np.dtype(dtype).name}", "Cross", [Gen((4, 2, 3), dtype, -5, 5), Gen((4, 2, 3), dtype, -5, 5, 2)],
                   rtol=1e-6, atol=1e-6)
    for exclusive in (False, True):
        for reverse in (False, True):
            yield Case(f"CumulativeLogsumexp_{exclusive}_{reverse}", "CumulativeLogsumexp",
                       [Gen((3, 5, 2), low=-30, high=30), np.int32(1)], {"exclusive": exclusive, "reverse": reverse},
                       rtol=1e-5, atol=1e-5)
    yield Case("CumulativeLogsumexp_negative_axis", "CumulativeLogsumexp", [Gen((3, 5), np.float64), np.int64(-1)],
               rtol=1e-9)
    yield Case("CumulativeLogsumexp_infinite", "CumulativeLogsumexp",
               [np.array([-np.inf, -np.inf, 1, np.inf, 2, -np.inf], np.float32), np.int32(0)], rtol=1e-6)
    yield Case("CumulativeLogsumexp_long", "CumulativeLogsumexp", [Gen((5000,), np.float64, -30, 30), np.int32(0)], {"reverse": True}, rtol=1e-12)
    for index in (np.int32, np.int64):
        name = np.dtype(index).name
        yield Case(f"DimMap_{name}", "DataFormatDimMap", [np.array([0, 1, 2, 3, -1, -3], index)])
        yield Case(f"DimMap_back_{name}", "DataFormatDimMap", [np.array([[1], [-2]], index)],
                   {"src_format": "NCHW", "dst_format": "NHWC"})
        yield Case(f"VecPermute_{name}", "DataFormatVecPermute", [np.array([7, 4, 9, 3], index)])
        yield Case(f"VecPermute_pairs_{name}", "DataFormatVecPermute", [np.array([[1, 2], [3, 4], [5, 6], [7, 8]], index)],
                   {"src_format": "NCHW", "dst_format": "NHWC"})
        yield Case(f"VecPermute_window_{name}", "DataFormatVecPermute", [np.array([7, 4], index)])
        yield Case(f"VecPermute_volume_{name}", "DataFormatVecPermute", [np.array([1, 2, 3, 4, 5], index)],
                   {"src_format": "NDHWC", "dst_format": "NCDHW"})


def quantize_cases():
    x = np.array([-7.5, -6, -1.1, -.02, 0, .01, .5, 2.25, 5.99, 6.2, 100], np.float32)
    g = np.arange(1, 12, dtype=np.float32)
    for bits in (8, 4, 2):
        for narrow in (False, True):
            more = {"num_bits": bits, "narrow_range": narrow}
            name = f"{bits}_{narrow}"
            yield Case(f"FakeQuantArgs_{name}", "FakeQuantWithMinMaxArgs", [x], {"min": -3.3, "max": 5.1, **more}, rtol=1e-6)
            yield Case(f"FakeQuantArgsGradient_{name}", "FakeQuantWithMinMaxArgsGradient", [g, x],
                       {"min": -3.3, "max": 5.1, **more})
            yield Case(f"FakeQuantVars_{name}", "FakeQuantWithMinMaxVars", [x, np.float32(-.7), np.float32(5.1)], more,
                       rtol=1e-6)
            yield Case(f"FakeQuantVarsGradient_{name}", "FakeQuantWithMinMaxVarsGradient",
                       [g, x, np.float32(-.7), np.float32(5.1)], more)
            channels = [np.array([-1, 0, -5], np.float32), np.array([1, 2, -1e-3], np.float32)]
            data = Gen((4, 3), low=-3, high=3)
            yield Case(f"FakeQuantChannels_{name}", "FakeQuantWithMinMaxVarsPerChannel", [data, *channels], more, rtol=1e-6)
            yield Case(f"FakeQuantChannelsGradient_{name}", "FakeQuantWithMinMaxVarsPerChannelGradient",
                       [Gen((4, 3), seed=5), data, *channels], more, rtol=1e-6, atol=1e-6)
    yield Case("FakeQuantVars_empty_range", "FakeQuantWithMinMaxVars", [x, np.float32(0), np.float32(0)])
    yield Case("FakeQuantVarsGradient_empty_range", "FakeQuantWithMinMaxVarsGradient", [g, x, np.float32(0), np.float32(0)])
    for n in (15, 16, 33, 8192, 8193, 70001):
        yield Case(f"FakeQuantVarsGradient_of_{n}", "FakeQuantWithMinMaxVarsGradient",
                   [Gen((n,), seed=n), Gen((n,), low=-8, high=8), np.float32(-6), np.float32(5)], rtol=2e-5, atol=2e-4)
    yield Case("FakeQuantArgs_large", "FakeQuantWithMinMaxArgs", [Gen((120000,), low=-8, high=8)], rtol=1e-6)


def cases():
    yield from count_cases()
    yield from array_cases()
    yield from quantize_cases()
