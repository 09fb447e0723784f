"""Colours, projections and crops of images; max pooling with places."""
import numpy as np

from case_builder import Case, Gen, bfloat16

CLOSE = {"rtol": 2e-6, "atol": 2e-6}
COLOURS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0], [.5, .5, .5], [.2, .7, .4], [.9, .1, .6],
                    [.3, .3, .8], [.6, .6, .1], [.1, .5, .5], [.7, .2, .2]], np.float32).reshape(1, 3, 4, 3)


def colour_cases():
    for dtype in (np.float32, np.float64, np.float16, bfloat16):
        tolerance = CLOSE if dtype in (np.float32, np.float64) else {"rtol": 2e-2, "atol": 2e-2}
        name = np.dtype(dtype).name
        yield Case(f"RGBToHSV_{name}", "RGBToHSV", [COLOURS.astype(dtype)], **tolerance)
        yield Case(f"HSVToRGB_{name}", "HSVToRGB", [COLOURS.astype(dtype)], **tolerance)
    for op in ("RGBToHSV", "HSVToRGB"):
        yield Case(f"{op}_large", op, [Gen((3, 200, 200, 3), low=0)], **CLOSE)
        yield Case(f"{op}_empty", op, [np.zeros((0, 3), np.float32)])
        yield Case(f"{op}_vector", op, [np.array([.2, .4, .6], np.float32)], **CLOSE)
        yield Case(f"{op}_two_channels", op, [np.zeros((4, 2), np.float32)], error="")
    nan = np.nan
    special = np.array([[nan, .5, .2], [.5, nan, .2], [.5, .2, nan], [nan, .3, .3], [nan, nan, nan], [np.inf, .2, .3], [-np.inf, 1, 2]])
    for dtype in (np.float32, np.float64):
        yield Case(f"RGBToHSV_nan_{np.dtype(dtype).name}", "RGBToHSV", [special.astype(dtype)], **CLOSE)
    for delta in (0.0, 0.1, -0.3, 0.9, -1.0, 1.0):
        yield Case(f"AdjustHue_{delta}", "AdjustHue", [COLOURS, np.float32(delta)], **CLOSE)
    for scale in (0.0, 0.5, 1.7):
        yield Case(f"AdjustSaturation_{scale}", "AdjustSaturation", [COLOURS, np.float32(scale)], **CLOSE)
        yield Case(f"AdjustContrast_{scale}", "AdjustContrastv2", [Gen((2, 5, 6, 3)), np.float32(scale)], **CLOSE)
    yield Case("AdjustHue_large", "AdjustHue", [Gen((2, 200, 200, 3), low=0), np.float32(0.2)], rtol=1e-5, atol=1e-5)
    yield Case("AdjustContrast_rank5", "AdjustContrastv2", [Gen((2, 2, 4, 4, 2)), np.float32(2)], **CLOSE)


def projection_cases():
    images = np.arange(2 * 5 * 6 * 2, dtype=np.float32).reshape(2, 5, 6, 2)
    turn = np.array([[.8, -.5, 1.2, .5, .8, -1.1, 0, 0], [1.1, .1, -3, .05, .9, 2, .01, -.02]], np.float32)
    far = np.array([[1, 0, -17.3, 0, 1, 23.4, 0, 0]], np.float32)
    for interpolation in ("NEAREST", "BILINEAR"):
        for fill in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
            for what, transform in (("turn", turn), ("far", far)):
                yield Case(f"Project_{interpolation}_{fill}_{what}", "ImageProjectiveTransformV3",
                           [images, transform, np.array([4, 7], np.int32), np.float32(-1)],
                           {"interpolation": interpolation, "fill_mode": fill}, rtol=1e-5, atol=1e-4)
        yield Case(f"ProjectV2_{interpolation}", "ImageProjectiveTransformV2",
                   [images, turn, np.array([5, 6], np.int32)], {"interpolation": interpolation}, rtol=1e-5, atol=1e-4)
    yield Case("Project_uint8", "ImageProjectiveTransformV3", [images.astype(np.uint8), turn, np.array([5, 6], np.int32),
               np.float32(7)], {"interpolation": "NEAREST"})
    yield Case("Project_large", "ImageProjectiveTransformV3",
               [Gen((2, 150, 150, 3)), turn, np.array([150, 150], np.int32), np.float32(0)],
               {"interpolation": "BILINEAR"}, rtol=1e-4, atol=1e-4)


def crop_cases():
    image = Gen((2, 6, 7, 3))
    boxes = np.array([[0, 0, 1, 1], [.2, .3, .7, .8], [.8, .9, .1, .2], [-.5, -.2, 1.2, 1.4], [.5, .5, .5, .5]], np.float32)
    owners = np.array([0, 1, 1, 0, 1], np.int32)
    for method in ("bilinear", "nearest"):
        for size in ((4, 5), (1, 3), (1, 1)):
            yield Case(f"Crop_{method}_{size[0]}x{size[1]}", "CropAndResize",
                       [image, boxes, owners, np.array(size, np.int32)],
                       {"method": method, "extrapolation_value": -2.0}, rtol=1e-5, atol=1e-5)
        yield Case(f"CropGradImage_{method}", "CropAndResizeGradImage",
                   [Gen((5, 4, 5, 3)), boxes, owners, np.array([2, 6, 7, 3], np.int32)],
                   {"method": method, "T": np.float32}, rtol=1e-5, atol=1e-5)
    yield Case("CropGradBoxes", "CropAndResizeGradBoxes", [Gen((5, 4, 5, 3)), image, boxes, owners],
               rtol=1e-4, atol=1e-4)
    yield Case("Crop_uint8", "CropAndResize", [(np.arange(60) % 251).astype(np.uint8).reshape(1, 4, 5, 3), boxes[:2],
               np.zeros(2, np.int32), np.array([3, 3], np.int32)], rtol=1e-5, atol=1e-4)
    yield Case("Crop_no_boxes", "CropAndResize", [image, np.zeros((0, 4), np.float32), np.zeros(0, np.int32),
               np.array([3, 3], np.int32)])
    yield Case("Crop_outside", "CropAndResize", [image, boxes, np.array([0, 1, 2, 0, 0], np.int32),
               np.array([3, 3], np.int32)], error="box_index has values outside [0, batch_size)")
    for bad in (np.nan, np.inf, -np.inf):
        wrong = boxes.copy()
        wrong[3, 2] = bad
        yield Case(f"Crop_{bad}", "CropAndResize", [image, wrong, owners, np.array([3, 3], np.int32)],
                   error="Boxes contains at least one element that is not finite")
    yield Case("Crop_large", "CropAndResize", [Gen((2, 40, 40, 8)), np.tile(boxes, (8, 1)), np.tile(owners, 8),
               np.array([24, 24], np.int32)], rtol=1e-4, atol=1e-4)


def drawing_cases():
    boxes = np.array([[[.1, .2, .6, .7], [-.5, .1, .4, 1.5], [.3, -2, 3, .9], [.2, .2, .2, .2], [-1, -1, 2, 2], [0, 0, 1, 1]],
                      [[.6, .2, .1, .7], [.1, .7, .6, .2], [1.5, 0, 2, 1], [0, 1.5, 1, 2], [-2, 0, -1, 1], [np.nan, 0, 1, 1]]], np.float32)
    huge = np.array([[[-1e30, 0, .5, .5], [0, 0, 1e30, .5], [0, -np.inf, .5, np.inf], [0, 0, np.nan, 1], [.5, .25, .75, 1]]], np.float32)
    colours = np.array([[.25, .5, .75, 1], [7, -3, 0, .5], [.1, .2, .3, .4]], np.float32)
    for dtype in (np.float32, np.float16):
        name = np.dtype(dtype).name
        for depth in (1, 3, 4):
            images = np.linspace(0, 1, 2 * 8 * 11 * depth).reshape(2, 8, 11, depth).astype(dtype)
            yield Case(f"DrawBoxes_{name}_{depth}", "DrawBoundingBoxes", [images, boxes])
            yield Case(f"DrawBoxesV2_{name}_{depth}", "DrawBoundingBoxesV2", [images, boxes, colours])
            yield Case(f"DrawBoxesV2_default_{name}_{depth}", "DrawBoundingBoxesV2", [images, boxes, np.zeros((0, 4), np.float32)])
    images = np.zeros((1, 9, 5, 3), np.float32)
    yield Case("DrawBoxes_huge", "DrawBoundingBoxes", [images, huge])
    yield Case("DrawBoxesV2_three_channels", "DrawBoundingBoxesV2", [images, boxes[:1], colours[:, :3]])
    many = np.sort(np.random.default_rng(5).uniform(-.2, 1.2, (2, 2, 23, 2)), axis=1).transpose(0, 2, 1, 3).reshape(2, 23, 4).astype(np.float32)
    yield Case("DrawBoxes_many", "DrawBoundingBoxes", [np.zeros((2, 20, 30, 3), np.float32), many])
    yield Case("DrawBoxes_no_boxes", "DrawBoundingBoxes", [images, np.zeros((1, 0, 4), np.float32)])
    yield Case("DrawBoxes_no_images", "DrawBoundingBoxes", [images[:0], boxes[:0]])
    yield Case("DrawBoxes_one_pixel", "DrawBoundingBoxes", [images[:, :1, :1], boxes[:1]])
    yield Case("DrawBoxes_large", "DrawBoundingBoxes", [Gen((8, 90, 70, 3)), np.tile(boxes, (4, 1, 1))])
    for name, inputs, error in (("rank", [images[0], boxes[:1]], "rank"),
                                ("box_rank", [images, boxes[0]], "rank"),
                                ("batch", [images, boxes], "The batch sizes should be the same"),
                                ("depth", [images[..., :2], boxes[:1]], "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)"),
                                ("corners", [images, boxes[:1, :, :3]], "must be 4")):
        yield Case(f"DrawBoxes_wrong_{name}", "DrawBoundingBoxes", inputs, error=error)
    yield Case("DrawBoxesV2_wrong_colours", "DrawBoundingBoxesV2", [images, boxes[:1], colours[:, :2]],
               error="colors must have equal or more channels than the image provided")
    yield Case("DrawBoxesV2_wrong_rank", "DrawBoundingBoxesV2", [images, boxes[:1], colours[0]], error="colors must be a 2-D matrix")


def argmax_cases():
    for padding in ("SAME", "VALID"):
        for batch in (False, True):
            for places in (np.int64, np.int32):
                yield Case(f"Argmax_{padding}_{batch}_{np.dtype(places).name}", "MaxPoolWithArgmax", [Gen((2, 7, 6, 3))],
                           {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "padding": padding, "Targmax": places,
                            "include_batch_in_index": batch})
    ties = np.array([1, 1, 2, 2, 2, 1, 0, 0], np.float32).reshape(1, 2, 4, 1)
    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    yield Case("Argmax_ties", "MaxPoolWithArgmax", [ties], window)
    yield Case("Argmax_half", "MaxPoolWithArgmax", [np.arange(16, dtype=np.float16).reshape(1, 4, 4, 1)], window)
    yield Case("Argmax_large", "MaxPoolWithArgmax", [Gen((4, 60, 60, 8))], window)
    for batch in (False, True):
        places = np.array([5, 2, 5, 7], np.int64).reshape(2, 1, 2, 1) + (np.array([0, 8]).reshape(2, 1, 1, 1) if batch else 0)
        yield Case(f"ArgmaxGrad_{batch}", "MaxPoolGradWithArgmax",
                   [np.zeros((2, 2, 4, 1), np.float32), np.array([1, 2, 3, 4], np.float32).reshape(2, 1, 2, 1), places],
                   {**window, "include_batch_in_index": batch})
    # TensorFlow has a kernel of this for GPUs alone.
    for batch in (False, True):
        for index in (np.int32, np.int64):
            for dtype in (np.float32, np.float16, np.int32):
                grad = np.arange(16).astype(dtype).reshape(2, 2, 4, 1)
                places = np.array([5, 2, 0, 7], index).reshape(2, 1, 2, 1) + (np.array([0, 8], index).reshape(2, 1, 1, 1) if batch else index(0))
                yield Case(f"ArgmaxGradGrad_{batch}_{np.dtype(index).name}_{np.dtype(dtype).name}", "MaxPoolGradGradWithArgmax",
                           [np.zeros_like(grad), grad, places], {**window, "include_batch_in_index": batch},
                           expected=[np.array([5, 2, 8, 15], dtype).reshape(2, 1, 2, 1)])
    grad = np.arange(9, dtype=np.float64).reshape(1, 3, 3, 1)
    yield Case("ArgmaxGradGrad_same", "MaxPoolGradGradWithArgmax", [grad, grad, np.array([4, 2, 7, 8]).reshape(1, 2, 2, 1)], {**window, "padding": "SAME"},
               expected=[np.array([4, 2, 7, 8], np.float64).reshape(1, 2, 2, 1)])
    yield Case("ArgmaxGradGrad_empty", "MaxPoolGradGradWithArgmax", [grad[:0], grad[:0], np.zeros((0, 1, 1, 1), np.int64)], window,
               expected=[np.zeros((0, 1, 1, 1))])
    grad, places = Gen((4, 120, 120, 8)), Gen((4, 60, 60, 8), np.int64, 0, 120 * 120 * 8)
    moved = np.stack([grad.numpy()[i].reshape(-1)[places.numpy()[i]] for i in range(4)])
    yield Case("ArgmaxGradGrad_large", "MaxPoolGradGradWithArgmax", [Gen((4, 120, 120, 8), seed=2), grad, places], window, expected=[moved])


def cases():
    yield from colour_cases()
    yield from projection_cases()
    yield from crop_cases()
    yield from drawing_cases()
    yield from argmax_cases()
