"""Resizing of images."""
import numpy as np

from case_builder import Case, Gen, bfloat16

i32, f32, f64, f16 = np.int32, np.float32, np.float64, np.float16
ALIGNMENTS = {"legacy": {}, "corners": {"align_corners": True}, "centers": {"half_pixel_centers": True}}
SIZES = (((2, 5, 7, 3), (9, 13)), ((1, 8, 8, 16), (3, 4)), ((2, 4, 4, 1), (4, 4)), ((1, 1, 1, 2), (3, 5)),
         ((1, 6, 5, 4), (1, 1)), ((3, 16, 16, 70), (33, 31)), ((0, 4, 4, 2), (8, 8)))
ROUNDING = {"rtol": 1e-5, "atol": 4e-6}


def cases():
    for shape, size in SIZES:
        for alignment, attrs in ALIGNMENTS.items():
            tag = f"{'x'.join(map(str, shape))}_{size[0]}x{size[1]}_{alignment}"
            images, grads = Gen(shape), Gen((shape[0], *size, shape[3]), seed=2)
            for method in ("Bilinear", "Bicubic"):
                yield Case(f"{method}_{tag}", f"Resize{method}", [images, np.array(size, i32)], attrs, **ROUNDING)
                yield Case(f"{method}Grad_{tag}", f"Resize{method}Grad", [grads, images], attrs, rtol=1e-5, atol=4e-5)
            yield Case(f"Nearest_{tag}", "ResizeNearestNeighbor", [images, np.array(size, i32)], attrs)
            yield Case(f"NearestGrad_{tag}", "ResizeNearestNeighborGrad", [grads, np.array(shape[1:3], i32)], attrs,
                       rtol=1e-5, atol=4e-5)
    size = np.array([5, 9], i32)
    for dtype in (f64, f16, bfloat16, np.uint8, i32, np.int64, np.int8, np.int16, np.uint16):
        images = Gen((1, 4, 6, 3), i32, 0, 100).numpy().astype(dtype)
        for method in ("Bilinear", "Bicubic", "NearestNeighbor"):
            yield Case(f"{method}_{np.dtype(dtype).name}", f"Resize{method}", [images, size], rtol=1e-5, atol=1e-4)
    for dtype, tolerance in ((f64, 1e-6), (f16, 4e-3), (bfloat16, 4e-2)):
        yield Case(f"BilinearGrad_{np.dtype(dtype).name}", "ResizeBilinearGrad",
                   [Gen((1, 5, 9, 3)), Gen((1, 4, 6, 3), dtype)], rtol=tolerance, atol=tolerance)
    images = Gen((1, 4, 6, 3))
    for channels in (1, 2, 4, 5):
        for method in ("Bilinear", "Bicubic"):
            yield Case(f"{method}_of_{channels}", f"Resize{method}", [Gen((1, 4, 6, channels)), size], {"half_pixel_centers": True},
                       rtol=1e-5, atol=1e-5)
    yield Case("Bilinear_no_size", "ResizeBilinear", [images, np.array([0, 3], i32)], error="")
    yield Case("Bilinear_both_alignments", "ResizeBilinear", [images, size],
               {"align_corners": True, "half_pixel_centers": True}, error="")
    both = {"align_corners": True, "half_pixel_centers": True}
    yield Case("Nearest_both_alignments", "ResizeNearestNeighbor", [images, size], both, error="")
    for shape, original in (((1, 5, 7, 2), (3, 4)), ((2, 3, 4, 1), (6, 9)), ((1, 2, 2, 1), (1, 1)), ((1, 1, 1, 1), (3, 3))):
        yield Case(f"NearestGrad_both_alignments_{original[0]}x{original[1]}", "ResizeNearestNeighborGrad", [Gen(shape), np.array(original, i32)],
                   both, rtol=1e-6, atol=1e-6)
    yield Case("Bilinear_rank", "ResizeBilinear", [Gen((4, 6, 3)), size], error="")
