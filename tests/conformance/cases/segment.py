"""Segment reductions, Unique, Where, ListDiff."""
import numpy as np

from case_builder import Case, Gen, bfloat16

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16


def iota(shape, dtype=f32, start=0):
    return (np.arange(start, start + int(np.prod(shape))) % 251).astype(dtype).reshape(shape)


def ints(values, dtype=i32):
    return np.array(values, dtype)


def unsorted():
    for op in ("Sum", "Prod", "Max", "Min"):
        name = f"UnsortedSegment{op}"
        for dtype in (f32, f64, i32, i64, f16):
            yield Case(f"{name}_{np.dtype(dtype).name}", name, [iota((5, 2), dtype, 1), ints([2, 0, 2, 0, 2]), i32(4)])
        yield Case(f"{name}_dropped", name, [iota((4, 2), f32, 1), ints([-1, 0, 1, -5], i64), i32(2)])
        yield Case(f"{name}_scalar_rows", name, [iota((4,), f32, 1), ints([1, 1, 0, 3]), i64(4)])
        yield Case(f"{name}_rank8", name, [iota((1, 2, 1, 2, 1, 1, 2, 2)), ints([[0, 1]]), i32(2)])
        yield Case(f"{name}_out_of_range", name, [iota((2, 2)), ints([0, 3]), i32(3)], error="= 3 is out of range [0, 3)")
    yield Case("UnsortedSegmentSum_2d_ids", "UnsortedSegmentSum", [iota((2, 3, 2)), ints([[2, 0, 2], [1, 1, 0]]), i32(3)])
    yield Case("UnsortedSegmentSum_no_rows", "UnsortedSegmentSum", [iota((0, 3)), ints([]), i32(2)])
    yield Case("UnsortedSegmentSum_no_segments", "UnsortedSegmentSum", [iota((2, 3)), ints([-1, -1]), i32(0)])
    yield Case("UnsortedSegmentSum_nan", "UnsortedSegmentSum", [np.array([np.nan, 1, np.inf], f32), ints([0, 1, 1]), i32(2)])
    yield Case("UnsortedSegmentSum_large_rows", "UnsortedSegmentSum", [Gen((20000, 9)), Gen((20000,), i32, 0, 700, 3), i32(700)],
               rtol=1e-5, atol=1e-5)
    yield Case("UnsortedSegmentSum_large_columns", "UnsortedSegmentSum", [Gen((40, 5000)), Gen((40,), i32, 0, 5, 3), i32(5)],
               rtol=1e-5, atol=1e-5)
    for width in (1, 2, 7, 16, 24):
        for op in ("Sum", "Max"):
            rows = 100000 // width
            yield Case(f"UnsortedSegment{op}_width_{width}", f"UnsortedSegment{op}", [Gen((rows, width), i32, -9, 9), Gen((rows,), i32, -1, 90, 3), i32(90)])
    yield Case("UnsortedSegmentSum_wrong_ids", "UnsortedSegmentSum", [iota((2, 3)), ints([0, 1, 0]), i32(3)], error="")
    yield Case("UnsortedSegmentSum_negative_count", "UnsortedSegmentSum", [iota((2, 3)), ints([0, 1]), i32(-1)], error="")


def sorted_ids():
    for op in ("Sum", "Prod", "Max", "Min", "Mean"):
        name = f"Segment{op}"
        for dtype in (f32, f64, i32, i64, f16):
            yield Case(f"{name}_{np.dtype(dtype).name}", name, [iota((5, 2), dtype, 1), ints([0, 0, 1, 3, 3])], rtol=1e-3 if dtype == f16 else 0)
        yield Case(f"{name}_int64_ids", name, [iota((3, 2)), ints([1, 1, 2], i64)])
        yield Case(f"{name}_scalar_rows", name, [iota((4,), f32, 1), ints([0, 1, 1, 2])])
    yield Case("SegmentSum_no_rows", "SegmentSum", [iota((0, 3)), ints([])])
    yield Case("SegmentSum_rank8", "SegmentSum", [iota((2, 1, 2, 1, 2, 1, 2, 1)), ints([0, 0])])
    yield Case("SegmentSum_large", "SegmentSum", [Gen((3000, 50)), np.sort(Gen((3000,), i32, 0, 90, 3).numpy())], rtol=1e-5, atol=1e-4)
    # One segment of few, one of many items.
    long = ints([0] * 600 + [1] * 5 + [3] * 895)
    for op in ("Sum", "Mean", "Max", "Min"):
        for columns in (1, 17, 40):
            yield Case(f"Segment{op}_long_{columns}", f"Segment{op}", [Gen((1500, columns)), long], rtol=1e-5, atol=1e-4)
    yield Case("SegmentProd_long", "SegmentProd", [Gen((1500, 3), f64, .98, 1.02), long], rtol=1e-10)
    yield Case("SegmentSum_long_int64", "SegmentSum", [Gen((1500, 3), i64, -9, 9), long])
    yield Case("SegmentSum_not_sorted", "SegmentSum", [iota((3, 2)), ints([0, 2, 1])], error="segment ids are not increasing")
    yield Case("SegmentSum_negative", "SegmentSum", [iota((3, 2)), ints([-1, 0, 1])], error="egment id")
    yield Case("SegmentSum_wrong_size", "SegmentSum", [iota((3, 2)), ints([0, 1])], error="")


def sparse():
    for op in ("Sum", "Mean", "SqrtN"):
        name = f"SparseSegment{op}"
        for dtype in (f32, f64, f16) + ((i32, i64) if op == "Sum" else ()):
            text = np.dtype(dtype).name
            tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}.get(text, 0)
            yield Case(f"{name}_{text}", name, [iota((5, 2), dtype, 1), ints([4, 0, 2, 2]), ints([0, 0, 2, 2])], rtol=tolerance)
            if dtype in (f32, f64):
                yield Case(f"{name}Grad_{text}", f"{name}Grad",
                           [iota((3, 2), dtype, 1), ints([4, 0, 2, 2]), ints([0, 0, 2, 2]), i32(6)], rtol=tolerance)
            if dtype not in (i32, i64):
                yield Case(f"{name}GradV2_{text}", f"{name}GradV2",
                           [iota((3, 2), dtype, 1), ints([4, 0, 2, 2]), ints([0, 0, 2, 2]), i32(6)], rtol=tolerance)
        yield Case(f"{name}_int64_ids", name, [iota((5, 2)), ints([1, 3], i64), ints([0, 1], i64)])
        yield Case(f"{name}WithNumSegments", f"{name}WithNumSegments",
                   [iota((5, 2)), ints([1, 3, 0]), ints([0, 2, 2]), i32(5)], rtol=1e-6)
        yield Case(f"{name}GradV2_int64", f"{name}GradV2", [iota((3, 2)), ints([5, 1, 5], i64), ints([0, 1, 2], i64), i32(6)], rtol=1e-6)
        yield Case(f"{name}GradV2_none", f"{name}GradV2", [iota((0, 2)), ints([]), ints([]), i32(6)])
        yield Case(f"{name}GradV2_bad_index", f"{name}GradV2", [iota((3, 2)), ints([5, 1]), ints([0, 1]), i32(5)], error="5")
        yield Case(f"{name}GradV2_large", f"{name}GradV2",
                   [Gen((300, 120)), Gen((2000,), i32, 0, 400, 7), np.sort(Gen((2000,), i32, 0, 300, 3).numpy()), i32(400)], rtol=1e-5, atol=1e-5)
        yield Case(f"{name}_empty", name, [iota((5, 2)), ints([]), ints([])])
        yield Case(f"{name}_bad_index", name, [iota((5, 2)), ints([1, 5]), ints([0, 1])], error="5")
        yield Case(f"{name}_bad_order", name, [iota((5, 2)), ints([1, 2]), ints([1, 0])], error="segment ids are not increasing")
        yield Case(f"{name}_large", name, [Gen((400, 120)), Gen((2000,), i32, 0, 400, 7), np.sort(Gen((2000,), i32, 0, 300, 3).numpy())],
                   rtol=1e-5, atol=1e-5)


def sparse_of_many():
    """More rows than numbers of 16 bits count one by one."""
    for dtype, count in ((f16, 2600), (bfloat16, 600)):
        text, close = np.dtype(dtype).name, {"rtol": 1e-2 if dtype == bfloat16 else 2e-3}
        data, zeros, numbers = Gen((count, 3), dtype, .5, 1.5), Gen((count,), i32, 0, 1), Gen((count,), i32, 0, count)
        for op in ("Sum", "Mean", "SqrtN"):
            name = f"SparseSegment{op}"
            yield Case(f"{name}_many_{text}", name, [data, numbers, zeros], **close)
            yield Case(f"{name}WithNumSegments_many_{text}", f"{name}WithNumSegments", [data, numbers, zeros, i32(2)], **close)
            yield Case(f"{name}Grad_many_{text}", f"{name}Grad", [data, zeros, numbers, i32(2)], **close)
            yield Case(f"{name}Grad_of_one_{text}", f"{name}Grad", [Gen((1, 3), dtype, .5, 1.5), zeros, zeros, i32(1)], **close)
            yield Case(f"{name}GradV2_many_{text}", f"{name}GradV2", [data, zeros, numbers, i32(2)], **close)
        numbers = np.arange(40, dtype=i32)
        yield Case(f"SparseSegmentSum_wide_{text}", "SparseSegmentSum", [Gen((40, 1100), dtype), numbers, numbers // 20], atol=0.1, **close)


def values():
    for dtype in (f32, f64, i32, i64, f16, np.bool_):
        name = np.dtype(dtype).name
        x = np.array([3, 1, 3, 0, 1, 1, 7]).astype(dtype)
        yield Case(f"Unique_{name}", "Unique", [x])
        yield Case(f"UniqueWithCounts_{name}", "UniqueWithCounts", [x], {"out_idx": i64})
        if dtype != f16:
            yield Case(f"Where_{name}", "Where", [x.reshape(7, 1)])
        if dtype != np.bool_:
            yield Case(f"ListDiff_{name}", "ListDiff", [x, np.array([1, 0]).astype(dtype)])
    yield Case("Unique_int64_out", "Unique", [ints([5, 5, 2])], {"out_idx": i64})
    yield Case("Unique_empty", "Unique", [ints([])])
    yield Case("Unique_zeros", "Unique", [np.array([0.0, -0.0, 1], f32)])
    yield Case("Unique_nan", "Unique", [np.array([np.nan, 1, np.nan], f32)])
    yield Case("Unique_large", "Unique", [Gen((30000,), i32, 0, 900, 3)])
    yield Case("Unique_matrix", "Unique", [ints([[1, 2]])], error="")
    yield Case("UniqueV2_flat", "UniqueV2", [ints([2, 1, 2]), ints([], i64)])
    yield Case("UniqueV2_rows", "UniqueV2", [ints([[1, 2], [3, 4], [1, 2], [1, 3]]), ints([0], i64)])
    yield Case("UniqueV2_columns", "UniqueV2", [ints([[1, 2, 1], [3, 4, 3]]), ints([-1], i32)])
    yield Case("UniqueV2_middle", "UniqueV2", [iota((2, 3, 2)) // 12, ints([1], i64)])
    yield Case("UniqueWithCountsV2", "UniqueWithCountsV2", [ints([[1, 2, 1], [3, 4, 3]]), ints([1], i64)])
    yield Case("Where_3d", "Where", [np.array([[[True, False], [False, True]], [[False, False], [True, True]]])])
    yield Case("Where_none", "Where", [np.zeros((3, 2), bool)])
    yield Case("Where_empty", "Where", [np.zeros((0, 2), bool)])
    yield Case("Where_nan", "Where", [np.array([0.0, np.nan, -0.0, 2], f32)])
    yield Case("Where_rank8", "Where", [iota((1, 2, 1, 2, 1, 1, 2, 2), i32) % 3])
    yield Case("ListDiff_int64_out", "ListDiff", [ints([1, 2, 3, 4, 2]), ints([2])], {"out_idx": i64})
    yield Case("ListDiff_empty", "ListDiff", [ints([]), ints([2])])
    yield Case("ListDiff_all", "ListDiff", [ints([2, 2]), ints([2])])


def cases():
    for part in (unsorted, sorted_ids, sparse, sparse_of_many, values):
        yield from part()
