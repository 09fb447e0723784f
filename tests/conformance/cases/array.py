"""Concat, Pack, Split, Pad, Tile, Transpose and their kin."""
import numpy as np

from case_builder import Case, Gen, L, bfloat16

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16
DTYPES = (f32, f64, i32, i64, np.bool_, f16, bfloat16, np.uint8, np.complex64, np.complex128)


def iota(shape, dtype=f32, start=0):
    return (np.arange(start, start + int(np.prod(shape))) % 251).astype(dtype).reshape(shape)


def by_dtype():
    for dtype in DTYPES:
        name = np.dtype(dtype).name
        a, b = iota((2, 3, 2), dtype), iota((2, 1, 2), dtype, 20)
        yield Case(f"ConcatV2_{name}", "ConcatV2", [L([a, b, a]), i32(1)])
        yield Case(f"Pack_{name}", "Pack", [L([a, iota((2, 3, 2), dtype, 7)])], {"axis": 2})
        yield Case(f"Unpack_{name}", "Unpack", [a], {"num": 3, "axis": 1})
        yield Case(f"Split_{name}", "Split", [i32(2), a], {"num_split": 2})
        yield Case(f"Pad_{name}", "Pad", [a, np.array([[1, 0], [0, 2], [1, 1]], i32)])
        yield Case(f"Tile_{name}", "Tile", [a, np.array([2, 1, 3], i32)])
        yield Case(f"Transpose_{name}", "Transpose", [a, np.array([2, 0, 1], i32)])
        yield Case(f"Slice_{name}", "Slice", [a, np.array([0, 1, 0], i32), np.array([2, -1, 1], i32)])


def concat():
    yield Case("ConcatV2_first_axis", "ConcatV2", [L([iota((2, 3)), iota((0, 3)), iota((4, 3), f32, 9)]), i32(0)])
    yield Case("ConcatV2_negative_axis", "ConcatV2", [L([iota((2, 3)), iota((2, 2))]), i64(-1)])
    yield Case("ConcatV2_empty_rows", "ConcatV2", [L([iota((0, 3)), iota((0, 2))]), i32(1)])
    yield Case("ConcatV2_many", "ConcatV2", [L([iota((3, k % 4), i32, k) for k in range(70)]), i32(1)])
    yield Case("ConcatV2_rank8", "ConcatV2", [L([iota((1, 2, 1, 2, 1, 2, 2, 1)), iota((1, 2, 1, 2, 1, 2, 3, 1))]), i32(6)])
    yield Case("ConcatV2_large", "ConcatV2", [L([Gen((200, 300)), Gen((200, 123), seed=2), Gen((200, 700), seed=3)]), i32(1)])
    yield Case("ConcatV2_nan", "ConcatV2", [L([np.array([np.nan, np.inf], f32), np.array([-0.0], f32)]), i32(0)])
    yield Case("ConcatV2_mismatch", "ConcatV2", [L([iota((2, 3)), iota((3, 3))]), i32(1)], error="")
    yield Case("ConcatV2_axis_out_of_range", "ConcatV2", [L([iota((2, 3)), iota((2, 3))]), i32(2)], error="")
    yield Case("Concat", "Concat", [i32(1), L([iota((2, 3)), iota((2, 2))])])
    yield Case("ConcatOffset", "ConcatOffset", [i32(1), L([np.array([2, k, 7], i32) for k in (2, 3, 5)])])
    yield Case("ConcatOffset_negative", "ConcatOffset", [i32(-1), L([np.array([2, k], i64) for k in (2, 3)])])
    yield Case("ConcatOffset_mismatch", "ConcatOffset", [i32(1), L([np.array([2, 3], i32), np.array([4, 3], i32)])], error="")
    yield Case("Pack_scalars", "Pack", [L([i32(1), i32(2), i32(3)])])
    yield Case("Pack_negative_axis", "Pack", [L([iota((2, 3)), iota((2, 3), f32, 9)])], {"axis": -1})
    yield Case("Pack_empty", "Pack", [L([iota((0, 3)), iota((0, 3))])], {"axis": 1})
    yield Case("Pack_mismatch", "Pack", [L([iota((2, 3)), iota((3, 2))])], error="")
    yield Case("ParallelConcat", "ParallelConcat", [L([iota((1, 3)), iota((1, 3), f32, 5)])], {"shape": [2, 3]})
    yield Case("Unpack_vector", "Unpack", [iota((4,), i32)], {"num": 4})
    yield Case("Unpack_negative_axis", "Unpack", [iota((2, 3, 2))], {"num": 2, "axis": -1})
    yield Case("Unpack_none", "Unpack", [iota((0, 3))], {"num": 0})
    yield Case("Unpack_wrong_num", "Unpack", [iota((2, 3))], {"num": 3}, error="")


def split():
    yield Case("Split_first_axis", "Split", [i32(0), iota((6, 2))], {"num_split": 3})
    yield Case("Split_negative_axis", "Split", [i32(-1), iota((2, 6))], {"num_split": 2})
    yield Case("Split_one", "Split", [i32(1), iota((2, 6))], {"num_split": 1})
    yield Case("Split_empty", "Split", [i32(1), iota((0, 6))], {"num_split": 3})
    yield Case("Split_large", "Split", [i32(1), Gen((333, 400))], {"num_split": 4})
    yield Case("Split_uneven", "Split", [i32(1), iota((2, 5))], {"num_split": 2}, error="")
    yield Case("SplitV", "SplitV", [iota((2, 6)), np.array([1, 3, 2], i32), i32(1)], {"num_split": 3})
    yield Case("SplitV_rest", "SplitV", [iota((7, 2)), np.array([1, -1, 2], i64), i32(0)], {"num_split": 3})
    yield Case("SplitV_zero", "SplitV", [iota((2, 4)), np.array([0, 4], i32), i32(-1)], {"num_split": 2})
    yield Case("SplitV_wrong_sum", "SplitV", [iota((2, 6)), np.array([1, 3, 3], i32), i32(1)], {"num_split": 3}, error="")


def pad():
    yield Case("Pad_none", "Pad", [iota((2, 3)), np.zeros((2, 2), i32)])
    yield Case("Pad_scalar", "Pad", [f32(3), np.zeros((0, 2), i32)])
    yield Case("Pad_int64_paddings", "Pad", [iota((2, 3)), np.array([[0, 1], [2, 0]], i64)])
    yield Case("Pad_rows", "Pad", [iota((2, 3, 2)), np.array([[0, 0], [1, 2], [0, 0]], i32)])
    yield Case("Pad_empty", "Pad", [iota((0, 3)), np.array([[1, 1], [0, 1]], i32)])
    # TensorFlow pads up to rank 6.
    x, paddings = iota((1, 2, 1, 2, 1, 1, 2, 1)), np.array([[0, 1], [1, 0]] * 4, i32)
    yield Case("Pad_rank8", "Pad", [x, paddings], expected=[np.pad(x, paddings)])
    yield Case("Pad_large", "Pad", [Gen((2, 150, 150, 3)), np.array([[0, 0], [3, 3], [3, 3], [0, 0]], i32)])
    yield Case("Pad_negative", "Pad", [iota((2, 3)), np.array([[0, -1], [0, 0]], i32)], error="")
    yield Case("Pad_wrong_rank", "Pad", [iota((2, 3)), np.array([[0, 1]], i32)], error="")
    yield Case("PadV2", "PadV2", [iota((2, 3)), np.array([[1, 0], [0, 2]], i32), f32(-7)])
    yield Case("PadV2_nan", "PadV2", [iota((2,)), np.array([[1, 1]], i32), f32(np.nan)])
    yield Case("PadV2_bool", "PadV2", [np.array([True, False]), np.array([[1, 1]], i64), np.bool_(True)])
    for mode in ("REFLECT", "SYMMETRIC"):
        yield Case(f"MirrorPad_{mode}", "MirrorPad", [iota((3, 4)), np.array([[2, 1], [1, 2]], i32)], {"mode": mode})
        yield Case(f"MirrorPad_{mode}_int32_3d", "MirrorPad",
                   [iota((2, 3, 2), i32), np.array([[0, 0], [2, 2], [1, 0]], i64)], {"mode": mode})
        yield Case(f"MirrorPadGrad_{mode}", "MirrorPadGrad", [iota((6, 7)), np.array([[2, 1], [1, 2]], i32)],
                   {"mode": mode})
        yield Case(f"MirrorPadGrad_{mode}_double", "MirrorPadGrad",
                   [iota((5, 2, 4), f64), np.array([[1, 1], [0, 0], [0, 1]], i64)], {"mode": mode})
        for what, shape, paddings in (("channels", (2, 9, 10, 3), ((0, 0), (1, 2), (2, 1), (0, 0))), ("all", (6, 9, 7), ((1, 2), (2, 2), (1, 1))),
                                      ("images", (8, 34, 34, 8), ((0, 0), (1, 1), (1, 1), (0, 0))), ("outer", (9, 4), ((2, 2), (0, 0))),
                                      ("leading", (1, 1, 7, 5), ((0, 0), (0, 0), (2, 1), (1, 0))), ("none", (3, 4), ((0, 0), (0, 0)))):
            yield Case(f"MirrorPadGrad_{mode}_{what}", "MirrorPadGrad", [Gen(shape), np.array(paddings, i32)], {"mode": mode}, rtol=1e-6, atol=1e-6)
        yield Case(f"MirrorPad_{mode}_too_far", "MirrorPad", [iota((3, 4)), np.array([[4, 1], [1, 2]], i32)],
                   {"mode": mode}, error="")
    yield Case("MirrorPad_SYMMETRIC_whole", "MirrorPad", [iota((3,)), np.array([[3, 3]], i32)], {"mode": "SYMMETRIC"})


def tile_transpose():
    yield Case("Tile_scalar", "Tile", [f32(3), np.zeros((0,), i32)])
    yield Case("Tile_none", "Tile", [iota((2, 3)), np.array([1, 0], i32)])
    yield Case("Tile_vector", "Tile", [iota((3,)), np.array([4], i64)])
    yield Case("Tile_rank8", "Tile", [iota((1, 2, 1, 2, 1, 1, 2, 1)), np.array([2, 1, 2, 1, 1, 3, 1, 2], i32)])
    yield Case("Tile_empty", "Tile", [iota((0, 2)), np.array([2, 3], i32)])
    yield Case("Tile_large", "Tile", [Gen((20, 100)), np.array([30, 4], i32)])
    yield Case("Tile_wrong_length", "Tile", [iota((2, 3)), np.array([1], i32)], error="")
    yield Case("Tile_negative", "Tile", [iota((2, 3)), np.array([1, -1], i32)], error="")
    for perm in ([0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [0, 3, 1, 2], [0, 2, 3, 1], [1, 0, 3, 2]):
        text = "".join(map(str, perm))
        yield Case(f"Transpose_4d_{text}", "Transpose", [iota((2, 3, 4, 5)), np.array(perm, i32)])
        yield Case(f"Transpose_large_{text}", "Transpose", [Gen((3, 37, 41, 33)), np.array(perm, i64)])
    for dtype in (np.uint8, f16, f64, np.complex128):
        yield Case(f"Transpose_blocks_{np.dtype(dtype).name}", "Transpose", [iota((50, 67), dtype), np.array([1, 0], i32)])
    yield Case("Transpose_scalar", "Transpose", [f32(3), np.zeros((0,), i32)])
    yield Case("Transpose_vector", "Transpose", [iota((3,)), np.array([0], i32)])
    yield Case("Transpose_empty", "Transpose", [iota((3, 0, 2)), np.array([2, 0, 1], i32)])
    yield Case("Transpose_ones", "Transpose", [iota((1, 5, 1)), np.array([2, 1, 0], i32)])
    yield Case("Transpose_rank8", "Transpose", [iota((1, 2, 3, 2, 1, 2, 2, 3)), np.array([7, 5, 6, 3, 4, 2, 0, 1], i32)])
    yield Case("Transpose_wrong_length", "Transpose", [iota((2, 3)), np.array([0], i32)], error="")
    yield Case("Transpose_repeated", "Transpose", [iota((2, 3)), np.array([1, 1], i32)], error="")
    yield Case("ConjugateTranspose", "ConjugateTranspose",
               [np.array([[1 + 2j, 3 - 1j], [0.5j, 4]], np.complex64), np.array([1, 0], i32)])
    yield Case("ConjugateTranspose_real", "ConjugateTranspose", [iota((2, 3)), np.array([1, 0], i32)])


def cases():
    for part in (by_dtype, concat, split, pad, tile_transpose):
        yield from part()
