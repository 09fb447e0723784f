"""Slice, StridedSlice with all masks, its gradient and updates."""
import numpy as np

from case_builder import Case, Gen, L, RefVar, Var

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16


def iota(shape, dtype=f32, start=0):
    return (np.arange(start, start + int(np.prod(shape))) % 251).astype(dtype).reshape(shape)


def ints(*values, dtype=i32):
    return np.array(values, dtype)


# name, shape, begin, end, strides, masks
SPECS = [
    ("plain", (5, 6), (1, 2), (4, 5), (1, 1), {}),
    ("strides", (7, 8), (0, 1), (7, 8), (2, 3), {}),
    ("negative_bounds", (5, 6), (-4, -3), (-1, -1), (1, 1), {}),
    ("backwards", (5, 6), (4, 5), (0, 0), (-1, -2), {}),
    ("backwards_masked", (5, 6), (0, 0), (0, 0), (-1, -2), {"begin_mask": 3, "end_mask": 3}),
    ("bounds_beyond", (5, 6), (-10, 2), (10, 100), (1, 1), {}),
    ("begin_mask", (5, 6), (3, 3), (4, 5), (1, 1), {"begin_mask": 1}),
    ("end_mask", (5, 6), (3, 3), (0, 0), (1, 2), {"end_mask": 3}),
    ("shrink", (5, 6), (2, 1), (3, 4), (1, 1), {"shrink_axis_mask": 1}),
    ("shrink_negative", (5, 6), (-1, 0), (0, 0), (1, 1), {"shrink_axis_mask": 1, "begin_mask": 2, "end_mask": 2}),
    ("shrink_last", (2, 3, 4), (0, 0, 2), (0, 0, 3), (1, 1, 1), {"shrink_axis_mask": 4, "begin_mask": 3, "end_mask": 3}),
    ("shrink_to_scalar", (5, 6), (2, 3), (3, 4), (1, 1), {"shrink_axis_mask": 3}),
    ("new_axis", (5, 6), (0, 1), (0, 3), (1, 1), {"new_axis_mask": 1}),
    ("new_axis_last", (5, 6), (0, 0), (0, 0), (1, 1), {"ellipsis_mask": 1, "new_axis_mask": 2}),
    ("ellipsis_first", (2, 3, 4), (0, 1), (0, 3), (1, 1), {"ellipsis_mask": 1}),
    ("ellipsis_middle", (2, 3, 4, 5), (1, 0, 2), (2, 0, 4), (1, 1, 1), {"ellipsis_mask": 2}),
    ("ellipsis_empty", (2, 3), (0, 0, 1), (1, 0, 3), (1, 1, 1), {"ellipsis_mask": 2}),
    ("all_masks", (3, 4, 5, 6), (1, 0, 0, -2, 0), (2, 0, 0, 0, 4), (1, 1, 1, 1, 2),
     {"shrink_axis_mask": 9, "new_axis_mask": 2, "ellipsis_mask": 4, "begin_mask": 16}),
    ("short_spec", (2, 3, 4), (1,), (2,), (1,), {}),
    ("no_spec", (2, 3), (), (), (), {}),
    ("empty_result", (5, 6), (3, 0), (3, 6), (1, 1), {}),
    ("empty_wrong_way", (5, 6), (3, 0), (1, 6), (1, 1), {}),
    ("empty_input", (0, 6), (0, 1), (0, 4), (1, 1), {"end_mask": 1}),
    ("rank8", (2, 1, 2, 1, 3, 1, 2, 2), (0, 0, 1, 0, 0, 0, 0, 1), (2, 1, 2, 1, 3, 1, 2, 2), (1, 1, 1, 1, 2, 1, 1, 1), {}),
    ("uneven_stride", (10,), (1,), (10,), (4,), {}),
    ("long_stride", (4,), (0,), (4,), (9,), {}),
]


def cases():
    for name, shape, begin, end, strides, masks in SPECS:
        args = [ints(*begin), ints(*end), ints(*strides)]
        x = iota(shape)
        yield Case(f"StridedSlice_{name}", "StridedSlice", [x] + args, masks)
        yield Case(f"StridedSlice_{name}_int64", "StridedSlice",
                   [x.astype(i64)] + [a.astype(i64) for a in args], masks)
        spec = []
        for k in range(len(begin)):
            bit = lambda mask: masks.get(mask, 0) >> k & 1
            spec.append(Ellipsis if bit("ellipsis_mask") else None if bit("new_axis_mask") else begin[k]
                        if bit("shrink_axis_mask") else
                        slice(None if bit("begin_mask") else begin[k], None if bit("end_mask") else end[k], strides[k]))
        dy = 1 + iota(x[tuple(spec)].shape)
        yield Case(f"StridedSliceGrad_{name}", "StridedSliceGrad", [np.array(shape, i32)] + args + [dy], masks)
        if dy.size:
            yield Case(f"TensorStridedSliceUpdate_{name}", "TensorStridedSliceUpdate", [x] + args + [dy], masks)
            yield Case(f"ResourceStridedSliceAssign_{name}", "ResourceStridedSliceAssign", [Var(x)] + args + [dy], masks)
    yield Case("StridedSliceAssign", "StridedSliceAssign",
               [RefVar(iota((4, 3))), ints(1, 0), ints(3, 2), ints(1, 1), 100 + iota((2, 2))])
    yield Case("TensorStridedSliceUpdate_broadcast", "TensorStridedSliceUpdate",
               [iota((4, 3)), ints(1, 0), ints(3, 3), ints(1, 1), iota((1, 3)) + 50])
    yield Case("TensorStridedSliceUpdate_scalar", "TensorStridedSliceUpdate",
               [iota((4, 3)), ints(1, 0), ints(3, 3), ints(1, 1), f32(9)])
    for dtype in (f64, i32, np.bool_, f16):
        x = iota((3, 4), dtype)
        name = np.dtype(dtype).name
        yield Case(f"StridedSlice_{name}", "StridedSlice", [x, ints(0, 3), ints(3, 0), ints(2, -2)])
        yield Case(f"StridedSliceGrad_{name}", "StridedSliceGrad",
                   [ints(3, 4), ints(0, 3), ints(3, 0), ints(2, -2), iota((2, 2), dtype, 1)])
    yield Case("StridedSlice_nan", "StridedSlice", [np.array([np.nan, 1, -np.inf], f32), ints(2), ints(0), ints(-1)])
    yield Case("StridedSlice_large", "StridedSlice", [Gen((300, 401)), ints(1, 400), ints(300, 0), ints(1, -1)])
    yield Case("StridedSliceGrad_large", "StridedSliceGrad",
               [ints(300, 401), ints(1, 0), ints(300, 401), ints(2, 1), Gen((150, 401))])
    yield Case("StridedSlice_out_of_bounds", "StridedSlice", [iota((3,)), ints(3), ints(4), ints(1)],
               {"shrink_axis_mask": 1}, error="slice index 3 of dimension 0 out of bounds.")
    yield Case("StridedSlice_zero_stride", "StridedSlice", [iota((3,)), ints(0), ints(2), ints(0)],
               error="strides[0] must be non-zero")
    yield Case("StridedSlice_too_many", "StridedSlice", [iota((3,)), ints(0, 0), ints(2, 2), ints(1, 1)],
               error="Index out of range using input dim 1; input has only 1 dims")
    yield Case("StridedSlice_two_ellipses", "StridedSlice", [iota((3, 3)), ints(0, 0), ints(2, 2), ints(1, 1)],
               {"ellipsis_mask": 3}, error="ultiple ellipses")
    yield Case("StridedSlice_shrink_backwards", "StridedSlice", [iota((3, 3)), ints(1), ints(0), ints(-1)],
               {"shrink_axis_mask": 1}, error="only stride 1 allowed on non-range indexing")
    yield Case("StridedSliceGrad_wrong_dy", "StridedSliceGrad", [ints(5), ints(1), ints(4), ints(1), iota((2,))], error="")

    yield Case("Slice_whole", "Slice", [iota((2, 3)), ints(0, 0), ints(-1, -1)])
    yield Case("Slice_int64", "Slice", [iota((2, 3, 4)), ints(1, 0, 2, dtype=i64), ints(1, 2, 2, dtype=i64)])
    yield Case("Slice_empty", "Slice", [iota((2, 3)), ints(2, 0), ints(0, 3)])
    yield Case("Slice_scalar", "Slice", [f32(3), ints(), ints()])
    yield Case("Slice_rank8", "Slice", [iota((2, 1, 2, 1, 3, 1, 2, 2)), ints(1, 0, 0, 0, 1, 0, 0, 0),
                                        ints(1, 1, 2, 1, 2, 1, 1, 2)])
    yield Case("Slice_large", "Slice", [Gen((300, 401)), ints(17, 3), ints(250, 390)])
    yield Case("Slice_beyond", "Slice", [iota((2, 3)), ints(1, 1), ints(1, 3)], error="")
    yield Case("Slice_negative_begin", "Slice", [iota((2, 3)), ints(-1, 1), ints(1, 1)], error="")
    yield Case("Slice_wrong_length", "Slice", [iota((2, 3)), ints(0), ints(1)], error="")
