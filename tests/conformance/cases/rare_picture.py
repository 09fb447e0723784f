"""Non-maximum suppression, antialiased scaling, morphology."""
import numpy as np

from case_builder import Case, Gen

BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1], [0, 100, 1, 101],
                  [0, 100, 1, 100]], np.float32)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3, 0.3], np.float32)


def suppression():
    for most in (0, 2, 3, 30):
        for overlap in (0.0, 0.5, 1.0):
            where = f"{most}_{int(10 * overlap)}"
            yield Case(f"V1_{where}", "NonMaxSuppression", [BOXES, SCORES, np.int32(most)], {"iou_threshold": overlap})
            yield Case(f"V2_{where}", "NonMaxSuppressionV2", [BOXES, SCORES, np.int32(most), np.float32(overlap)])
            yield Case(f"V3_{where}", "NonMaxSuppressionV3", [BOXES, SCORES, np.int32(most), np.float32(overlap), np.float32(0.4)])
            for pad in (False, True):
                yield Case(f"V4_{where}_{pad}", "NonMaxSuppressionV4",
                           [BOXES, SCORES, np.int32(most), np.float32(overlap), np.float32(0.4)], {"pad_to_max_output_size": pad})
            for sigma in (0.0, 0.5):
                yield Case(f"V5_{where}_{int(10 * sigma)}", "NonMaxSuppressionV5",
                           [BOXES, SCORES, np.int32(most), np.float32(overlap), np.float32(0.1), np.float32(sigma)], rtol=1e-6)
    yield Case("V3_half", "NonMaxSuppressionV3", [BOXES.astype(np.float16), SCORES.astype(np.float16), np.int32(3), np.float16(0.5), np.float16(0)])
    yield Case("V3_many", "NonMaxSuppressionV3", [Gen((300, 4), low=0, high=1), Gen((300,), seed=2), np.int32(40), np.float32(0.3), np.float32(-2)])
    yield Case("V3_empty", "NonMaxSuppressionV3", [np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.int32(3), np.float32(0.5), np.float32(0)])
    yield Case("V3_threshold", "NonMaxSuppressionV3", [BOXES, SCORES, np.int32(3), np.float32(1.5), np.float32(0)], error="iou_threshold must be in [0, 1]")
    yield Case("V3_shapes", "NonMaxSuppressionV3", [BOXES[:3], SCORES, np.int32(3), np.float32(0.5), np.float32(0)], error="")


def given_overlaps():
    overlaps = np.random.default_rng(3).uniform(-0.2, 1.5, (7, 7)).astype(np.float32)
    for most in (0, 2, 30):
        for overlap in (-0.1, 0.5, 1.2):
            yield Case(f"Overlaps_{most}_{int(10 * overlap)}", "NonMaxSuppressionWithOverlaps",
                       [overlaps, SCORES, np.int32(most), np.float32(overlap), np.float32(0.4)])
    yield Case("Overlaps_most", "NonMaxSuppressionWithOverlaps", [overlaps, SCORES, np.int32(-1), np.float32(0.5), np.float32(0.4)],
               error="output size must be non-negative")
    yield Case("Overlaps_empty", "NonMaxSuppressionWithOverlaps", [np.zeros((0, 0), np.float32), np.zeros(0, np.float32), np.int32(3), np.float32(0.5), np.float32(0)])
    yield Case("Overlaps_shapes", "NonMaxSuppressionWithOverlaps", [overlaps[:3], SCORES, np.int32(3), np.float32(0.5), np.float32(0)], error="")


def scaling():
    image, two = Gen((2, 7, 6, 3)), lambda a, b, t=np.float32: np.array([a, b], t)
    for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"):
        for antialias in (False, True):
            for scale in (0.5, 1.7):
                attrs, where = {"kernel_type": kernel, "antialias": antialias}, f"{kernel}_{antialias}_{int(10 * scale)}"
                yield Case(f"Scale_{where}", "ScaleAndTranslate", [image, two(5, 8, np.int32), two(scale, scale), two(0.3, -1)], attrs, rtol=1e-4, atol=1e-5)
                yield Case(f"ScaleGrad_{where}", "ScaleAndTranslateGrad", [Gen((2, 5, 8, 3)), image, two(scale, scale), two(0.3, -1)],
                           attrs, rtol=1e-4, atol=1e-5)
    yield Case("Scale_uint8", "ScaleAndTranslate", [Gen((1, 7, 6, 2), np.uint8, 0, 255), two(3, 3, np.int32), two(0.4, 0.5), two(0, 0)], rtol=1e-4, atol=1e-3)
    yield Case("Scale_outside", "ScaleAndTranslate", [image, two(4, 4, np.int32), two(1, 1), two(50, 0)], rtol=1e-5, atol=1e-5)
    yield Case("Scale_large", "ScaleAndTranslate", [Gen((2, 64, 80, 8)), two(100, 120, np.int32), two(1.5, 1.5), two(0, 0)], rtol=1e-4, atol=1e-4)
    yield Case("Scale_kernel", "ScaleAndTranslate", [image, two(4, 4, np.int32), two(1, 1), two(0, 0)], {"kernel_type": "none"}, error="nrecognized kernel type")
    yield Case("Scale_zero", "ScaleAndTranslate", [image, two(4, 4, np.int32), two(0, 1), two(0, 0)], error="")


def morphology():
    for dtype in (np.float32, np.float64, np.int32, np.uint8):
        x, f = Gen((2, 7, 6, 3), dtype, 0, 20), Gen((3, 2, 3), dtype, 0, 5, seed=2)
        for padding in ("SAME", "VALID"):
            for stride, rate in ((1, 1), (2, 1), (1, 2), (2, 3)):
                if padding == "VALID" and rate == 3:
                    continue
                size = [-(-n // stride) if padding == "SAME" else (n - (k - 1) * rate - 1) // stride + 1 for n, k in ((7, 3), (6, 2))]
                attrs = {"strides": [1, stride, stride, 1], "rates": [1, rate, rate, 1], "padding": padding}
                where = f"{np.dtype(dtype).name}_{padding}_{stride}{rate}"
                yield Case(f"Dilation_{where}", "Dilation2D", [x, f], attrs)
                g = Gen((2, *size, 3), dtype, 0, 4, seed=3)
                yield Case(f"DilationInput_{where}", "Dilation2DBackpropInput", [x, f, g], attrs, rtol=1e-5)
                yield Case(f"DilationFilter_{where}", "Dilation2DBackpropFilter", [x, f, g], attrs, rtol=1e-5)
    attrs = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
    yield Case("Dilation_equal", "Dilation2DBackpropInput", [np.ones((1, 3, 3, 1), np.float32), np.zeros((2, 2, 1), np.float32),
                                                            np.ones((1, 2, 2, 1), np.float32)], attrs)
    yield Case("Dilation_small", "Dilation2D", [Gen((1, 1, 2, 1)), Gen((3, 3, 1))], attrs, error="")
    yield Case("Dilation_nothing", "Dilation2D", [Gen((1, 2, 2, 1)), Gen((3, 3, 1))], attrs)
    yield Case("Dilation_depth", "Dilation2D", [Gen((1, 5, 5, 2)), Gen((3, 3, 1))], attrs, error="")


def combined():
    boxes = np.array([[0, 0, .5, .5], [0, .1, .5, .6], [.4, .4, 1.2, 1], [.5, .5, 1, .9], [-.1, 0, .3, .9]], np.float32)
    scores = np.array([[.9, .2], [.8, .3], [.7, .6], [.1, .5], [.75, .55]], np.float32)
    both, own = np.stack([boxes, boxes[::-1]])[:, :, None], np.stack([boxes, boxes[::-1]])[:, :, None].repeat(2, 2) * np.array([[1], [.9]], np.float32)
    many = np.stack([scores, scores])
    for label, given in (("shared", both), ("own", own)):
        for each, most in ((1, 3), (3, 4), (5, 20)):
            for pad in (False, True):
                yield Case(f"Combined_{label}_{each}_{most}_{pad}", "CombinedNonMaxSuppression",
                           [given, many, np.int32(each), np.int32(most), np.float32(0.5), np.float32(0.25)], {"pad_per_class": pad})
    yield Case("Combined_unclipped", "CombinedNonMaxSuppression",
               [both, many, np.int32(5), np.int32(6), np.float32(0.3), np.float32(0)], {"clip_boxes": False})
    yield Case("Combined_nothing", "CombinedNonMaxSuppression", [both, many, np.int32(5), np.int32(6), np.float32(0.3), np.float32(2)])
    yield Case("Combined_shapes", "CombinedNonMaxSuppression", [both, many[:1], np.int32(5), np.int32(6), np.float32(0.3), np.float32(0)], error="")


def area():
    for dtype in (np.float32, np.float64, np.float16, np.uint8, np.int32):
        for size in ((4, 5), (3, 2), (8, 9), (20, 11)):
            yield Case(f"Area_{np.dtype(dtype).name}_{size[0]}", "ResizeArea", [Gen((2, 8, 10, 3), dtype, 0, 9), np.array(size, np.int32)], rtol=1e-5, atol=1e-5)
    yield Case("Area_corners", "ResizeArea", [Gen((1, 8, 10, 2)), np.array([4, 5], np.int32)], {"align_corners": True}, rtol=1e-5, atol=1e-6)
    for shape, size in (((1, 1, 5, 2), (3, 5)), ((1, 5, 1, 2), (5, 3)), ((2, 1, 1, 1), (2, 3)), ((1, 1, 5, 1), (1, 3))):
        yield Case(f"Area_corners_of_{shape[1]}x{shape[2]}_{size[1]}", "ResizeArea", [Gen(shape), np.array(size, np.int32)],
                   {"align_corners": True}, rtol=1e-5, atol=1e-6)
    for channels in (1, 16, 17, 19):
        yield Case(f"Area_of_{channels}", "ResizeArea", [Gen((1, 8, 10, channels)), np.array([5, 4], np.int32)], rtol=1e-5, atol=1e-6)
    yield Case("Area_large", "ResizeArea", [Gen((4, 64, 64, 8)), np.array([50, 45], np.int32)], rtol=1e-4, atol=1e-5)
    yield Case("Area_size", "ResizeArea", [Gen((1, 8, 10, 2)), np.array([0, 5], np.int32)], error="")


def glimpses():
    images = np.random.default_rng(0).normal(size=(3, 7, 9, 2)).astype(np.float32)
    zero = {"uniform_noise": False, "noise": "zero"}
    for op in ("ExtractGlimpse", "ExtractGlimpseV2"):
        for centered in (False, True):
            for normalized in (False, True):
                reach = 1.3 if normalized else 6
                places = (np.array([[.4, -.9], [-.3, 1], [.95, .1]]) * reach).astype(np.float32)
                for rows, columns in ((3, 4), (10, 3), (2, 12)):
                    yield Case(f"{op}_{rows}_{columns}_{centered}_{normalized}", op, [images, np.array([rows, columns], np.int32), places],
                               {"centered": centered, "normalized": normalized, **zero})
        # Inside there is no noise.
        yield Case(f"{op}_inside", op, [images, np.array([3, 4], np.int32), np.zeros((3, 2), np.float32)], {"noise": "uniform"})
        far = np.array([[1e20, 0], [np.nan, 1], [-np.inf, 0]], np.float32)
        yield Case(f"{op}_far", op, [images, np.array([3, 4], np.int32), far], {"normalized": False, **zero})
        small = np.array([3, 4], np.int32)
        places = np.zeros((3, 2), np.float32)
        yield Case(f"{op}_none", op, [images[:0], small, places[:0]], zero)
        yield Case(f"{op}_no_size", op, [images, np.array([0, 4], np.int32), places], zero)
        for name, inputs, attrs in (("size", [images, np.array([-1, 4], np.int32), places], zero), ("batch", [images, small, places[:1]], zero),
                                    ("sizes", [images, small[:1], places], zero), ("places", [images, small, places[:, :1]], zero),
                                    ("rank", [images[0], small, places], zero), ("noise", [images, small, places], {"noise": "gaussian"})):
            yield Case(f"{op}_error_{name}", op, inputs, attrs, error="")


def cases():
    yield from glimpses()
    yield from combined()
    yield from given_overlaps()
    yield from area()
    for family in (suppression, scaling, morphology):
        yield from family()
