"""Sizes at which a device's kernels take whole warps and blocks, several tiles or another way; inputs are generated, so that they cost few bytes."""
import numpy as np

from case_builder import Case, Gen

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
SEEDS = {"seed": 3, "seed2": 4}


def definite(n, dtype):
    """A matrix of few different numbers, far from singular."""
    i, j = np.indices((n, n))
    return ((1 + (i + j) % 3) / 4 ** np.minimum(np.abs(i - j), 12) + np.eye(n)).astype(dtype)[None]


def general(n, dtype, seed):
    """Its determinant is neither very large nor very small."""
    bound = np.sqrt(3 * np.e / n)
    return Gen((2 if n < 40 else 1, n, n), dtype, -bound, bound, seed)


def matrix_cases():
    close = {f32: {"rtol": 2e-3, "atol": 2e-3}, f64: {"rtol": 1e-7, "atol": 1e-9}}
    for n, dtype in ((20, f32), (48, f32), (48, f64), (70, f32), (130, f32)):
        name, matrix = f"{n}_{np.dtype(dtype).name}", general(n, dtype, seed=n)
        yield Case(f"Cholesky_{name}", "Cholesky", [definite(n, dtype)], **close[dtype])
        yield Case(f"Lu_{name}", "Lu", [matrix], {"output_idx_type": i32}, **close[dtype])
        for lower in (False, True):
            yield Case(f"MatrixTriangularSolve_{name}_{lower}", "MatrixTriangularSolve", [definite(n, dtype), Gen((1, n, 37), dtype, seed=n)],
                       {"lower": lower, "adjoint": n == 48}, **close[dtype])
        if n == 130:  # the faked device takes seconds for each
            continue
        yield Case(f"MatrixInverse_{name}", "MatrixInverse", [matrix], {"adjoint": n == 48}, **close[dtype])
        yield Case(f"MatrixDeterminant_{name}", "MatrixDeterminant", [matrix], **close[dtype])
        yield Case(f"LogMatrixDeterminant_{name}", "LogMatrixDeterminant", [matrix], **close[dtype])
        yield Case(f"MatrixSolve_{name}", "MatrixSolve", [matrix, Gen((matrix.shape[0], n, 5), dtype, seed=n + 1)], {"adjoint": n == 70}, **close[dtype])


def random_cases():
    for rows in (8193, 20000):
        yield Case(f"RandomShuffle_{rows}", "RandomShuffle", [Gen((rows, 2), i32, 0, 1 << 20)], SEEDS)
    for dtype in (f32, f64):
        yield Case(f"Multinomial_classes_{np.dtype(dtype).name}", "Multinomial", [Gen((3, 3000), dtype), i32(50)], SEEDS)
    yield Case("StatelessMultinomial_classes", "StatelessMultinomial", [Gen((2, 2050)), i32(30), np.array([3, 4], i32)])


def segment_cases():
    data, places = Gen((5000, 37), seed=5), Gen((5000,), i32, 0, 5000, seed=6)
    unsorted, ascending = Gen((5000,), i32, -1, 5, seed=7), (np.arange(5000) // 833).astype(i32)
    for op in ("Max", "Min", "Sum"):
        yield Case(f"UnsortedSegment{op}_long", f"UnsortedSegment{op}", [data, unsorted, i32(7)], rtol=1e-4, atol=1e-4)
    yield Case("UnsortedSegmentProd_long", "UnsortedSegmentProd", [Gen((5000, 37), low=0.999, high=1.001), unsorted, i32(7)], rtol=1e-4)
    for op in ("Sum", "Mean", "SqrtN"):
        yield Case(f"SparseSegment{op}_long", f"SparseSegment{op}WithNumSegments", [data, places, ascending, i32(8)], rtol=1e-4, atol=1e-4)
        yield Case(f"SparseSegment{op}Grad_long", f"SparseSegment{op}Grad", [Gen((6, 37), seed=8), places, np.minimum(ascending, 5), i32(5000)],
                   rtol=1e-4, atol=1e-4)


def row_cases():
    for dtype in (f32, i32):
        yield Case(f"TopKV2_300_{np.dtype(dtype).name}", "TopKV2", [Gen((5, 4000), dtype, -1000, 1000), i32(300)])
        yield Case(f"TopKV2_pieces_{np.dtype(dtype).name}", "TopKV2", [Gen((2, 30000), dtype, -1000, 1000), i32(900)])
    holes = (np.arange(3 * 5000) * 37 % 101).astype(f32).reshape(3, 5000)
    holes[1, 4::41] = holes[1, 17] = holes[2, 0] = np.nan
    yield Case("TopKV2_nan_1", "TopKV2", [holes, i32(1)])
    for k in (2, 40):  # of rows with NaN, and unsorted ones, the order is a heap's
        yield Case(f"TopKV2_nan_{k}", "TopKV2", [holes, i32(k)])
        yield Case(f"TopKV2_nan_unsorted_{k}", "TopKV2", [holes[:, :30].copy(), i32(max(k // 2, 2))], {"sorted": False})
        yield Case(f"TopKV2_unsorted_{k}", "TopKV2", [Gen((4, 9000), i32, -1000, 1000), i32(k)], {"sorted": False})
    rows = Gen((3, 9000, 2), seed=9)
    for exclusive, reverse in ((False, False), (True, True)):
        flags = {"exclusive": exclusive, "reverse": reverse}
        yield Case(f"Cumsum_long_{exclusive}", "Cumsum", [rows, i32(1)], flags, rtol=1e-4, atol=1e-3)
        yield Case(f"CumulativeLogsumexp_long_{exclusive}", "CumulativeLogsumexp", [rows, i32(1)], flags, rtol=1e-4, atol=1e-4)
    yield Case("Cumprod_long", "Cumprod", [Gen((3, 9000, 2), low=0.999, high=1.001), i32(1)], rtol=1e-4)


def picture_cases():
    images, pool = Gen((2, 40, 40, 8), seed=10), {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    yield Case("MaxPoolWithArgmax_tiles", "MaxPoolWithArgmax", [images], pool)
    yield Case("MaxPoolGradWithArgmax_strays", "MaxPoolGradWithArgmax",
               [images, Gen((2, 20, 20, 8), seed=11), Gen((2, 20, 20, 8), i64, 0, 40 * 40 * 8, seed=12)], pool, rtol=1e-5, atol=1e-5)
    boxes, owners, close = Gen((100, 4), low=0, high=1, seed=13), Gen((100,), i32, 0, 2, seed=14), {"rtol": 1e-4, "atol": 1e-4}
    gradients = Gen((100, 5, 5, 8), seed=15)
    yield Case("CropAndResize_boxes_100", "CropAndResize", [images, boxes, owners, np.array([5, 5], i32)], **close)
    yield Case("CropAndResizeGradImage_boxes_100", "CropAndResizeGradImage",
               [gradients, boxes, owners, np.array([2, 40, 40, 8], i32)], {"T": f32}, rtol=1e-4, atol=1e-3)
    yield Case("CropAndResizeGradImage_fours", "CropAndResizeGradImage",
               [gradients, boxes, owners, np.array([2, 50, 45, 8], i32)], {"T": f32}, rtol=1e-4, atol=1e-3)
    yield Case("CropAndResizeGradBoxes_boxes_100", "CropAndResizeGradBoxes", [gradients, images, boxes, owners], rtol=1e-3, atol=2e-2)
    yield Case("ScaleAndTranslate_rows", "ScaleAndTranslate",
               [images, np.array([90, 11], i32), np.array([2.2, 0.3], f32), np.array([0.3, -1], f32)],
               {"kernel_type": "lanczos3", "antialias": True}, **close)


def fourier_cases():
    def wave(*shape):
        numbers = np.arange(np.prod(shape, dtype=i64)).reshape(shape)
        return (numbers ** 3 % 101 / 64 - 0.75 + 1j * (numbers ** 2 % 89 / 64 - 0.625)).astype(np.complex64)

    close = {"rtol": 1e-4, "atol": 2e-3}
    yield Case("RFFT_4099", "RFFT", [Gen((3, 4099), seed=16), np.array([4099], i32)], **close)
    yield Case("FFT_4099", "FFT", [wave(1, 4099)], **close)
    yield Case("IFFT_4099", "IFFT", [wave(1, 4099)], rtol=1e-4, atol=1e-5)
    yield Case("FFT2D_96x30", "FFT2D", [wave(1, 96, 30)], **close)
    yield Case("RFFT3D_96x30", "RFFT3D", [Gen((4, 96, 30), seed=17), np.array([4, 96, 30], i32)], **close)


def cases():
    yield from matrix_cases()
    yield from random_cases()
    yield from segment_cases()
    yield from row_cases()
    yield from picture_cases()
    yield from fourier_cases()
