"""Reverse, Roll, space and batch, depth, TopK, bounds, patches."""
import numpy as np

from case_builder import Case, Gen, bfloat16

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16
DTYPES = (f32, f64, i32, i64, np.bool_, f16)


def iota(shape, dtype=f32, start=0):
    return (np.arange(start, start + int(np.prod(shape))) % 251).astype(dtype).reshape(shape)


def ints(*values, dtype=i32):
    return np.array(values, dtype)


def reverse():
    for dtype in DTYPES:
        name = np.dtype(dtype).name
        yield Case(f"ReverseV2_{name}", "ReverseV2", [iota((2, 3, 2), dtype), ints(0, 1)])
        yield Case(f"Roll_{name}", "Roll", [iota((2, 5), dtype), i32(2), i32(1)])
        yield Case(f"ReverseSequence_{name}", "ReverseSequence", [iota((3, 4), dtype), ints(2, 0, 4, dtype=i64)], {"seq_dim": 1})
    yield Case("Reverse", "Reverse", [iota((2, 3)), np.array([False, True])])
    yield Case("ReverseV2_last", "ReverseV2", [iota((3, 5)), ints(-1, dtype=i64)])
    yield Case("ReverseV2_none", "ReverseV2", [iota((3, 5)), ints()])
    yield Case("ReverseV2_empty", "ReverseV2", [iota((3, 0)), ints(0)])
    yield Case("ReverseV2_scalar", "ReverseV2", [f32(1), ints()])
    yield Case("ReverseV2_rank8", "ReverseV2", [iota((1, 2, 1, 2, 1, 3, 2, 2)), ints(1, 5, 7)])
    yield Case("ReverseV2_large", "ReverseV2", [Gen((300, 500)), ints(1)])
    yield Case("ReverseV2_repeated", "ReverseV2", [iota((3, 5)), ints(0, -2)], error="")
    yield Case("ReverseV2_out_of_range", "ReverseV2", [iota((3, 5)), ints(2)], error="")
    yield Case("ReverseSequence_inner", "ReverseSequence", [iota((2, 4, 3, 2)), ints(3, 1, 4)], {"seq_dim": 1, "batch_dim": 2})
    yield Case("ReverseSequence_time_major", "ReverseSequence", [iota((4, 3, 2)), ints(3, 1, 4)], {"seq_dim": 0, "batch_dim": 1})
    yield Case("ReverseSequence_large", "ReverseSequence", [Gen((8, 200, 90)), ints(1, 200, 0, 7, 50, 199, 33, 2)], {"seq_dim": 1})
    yield Case("ReverseSequence_too_long", "ReverseSequence", [iota((2, 4)), ints(5, 1)], {"seq_dim": 1}, error="")
    yield Case("ReverseSequence_negative", "ReverseSequence", [iota((2, 4)), ints(-1, 1)], {"seq_dim": 1}, error="")
    yield Case("ReverseSequence_wrong_lengths", "ReverseSequence", [iota((2, 4)), ints(1, 1, 1)], {"seq_dim": 1}, error="")
    yield Case("Roll_two_axes", "Roll", [iota((3, 5)), ints(1, -2), ints(0, 1)])
    yield Case("Roll_same_axis", "Roll", [iota((7,)), ints(3, 6), ints(0, 0)])
    yield Case("Roll_around", "Roll", [iota((3, 5)), ints(-13, dtype=i64), ints(-1, dtype=i64)])
    yield Case("Roll_first", "Roll", [iota((3, 2, 2)), i32(1), i32(0)])
    yield Case("Roll_empty", "Roll", [iota((3, 0)), i32(1), i32(1)])
    yield Case("Roll_large", "Roll", [Gen((300, 401)), ints(17, 200), ints(0, 1)])
    yield Case("Roll_out_of_range", "Roll", [iota((3, 5)), i32(1), i32(2)], error="out of range")


def blocks():
    for dtype in (f32, f64, i32, i64, f16):
        name = np.dtype(dtype).name
        yield Case(f"SpaceToBatchND_{name}", "SpaceToBatchND",
                   [iota((2, 3, 4, 2), dtype, 1), ints(2, 2), np.array([[1, 0], [0, 2]], i32)])
        yield Case(f"BatchToSpaceND_{name}", "BatchToSpaceND",
                   [iota((8, 2, 3, 2), dtype, 1), ints(2, 2), np.array([[1, 0], [0, 2]], i32)])
        yield Case(f"SpaceToDepth_{name}", "SpaceToDepth", [iota((2, 4, 6, 2), dtype)], {"block_size": 2})
        yield Case(f"DepthToSpace_{name}", "DepthToSpace", [iota((2, 2, 3, 8), dtype)], {"block_size": 2})
    yield Case("SpaceToBatchND_1d", "SpaceToBatchND", [iota((2, 6)), ints(3, dtype=i64), np.array([[0, 0]], i64)])
    yield Case("SpaceToBatchND_3d", "SpaceToBatchND", [iota((1, 2, 4, 2, 3)), ints(2, 1, 2), np.array([[0, 0], [1, 1], [2, 0]], i32)])
    yield Case("SpaceToBatchND_empty", "SpaceToBatchND", [iota((0, 4, 4, 1)), ints(2, 2), np.zeros((2, 2), i32)])
    wide = np.array([[0, 29999], [0, 29999]], i32)
    yield Case("SpaceToBatchND_empty_large_blocks", "SpaceToBatchND", [iota((0, 1, 1, 1)), ints(30000, 30000), wide])
    yield Case("SpaceToBatchND_large", "SpaceToBatchND", [Gen((2, 60, 60, 32)), ints(2, 3), np.array([[1, 1], [2, 1]], i32)])
    yield Case("SpaceToBatchND_not_divisible", "SpaceToBatchND", [iota((1, 3, 4, 1)), ints(2, 2), np.zeros((2, 2), i32)], error="")
    yield Case("BatchToSpaceND_1d", "BatchToSpaceND", [iota((6, 2)), ints(3), np.array([[1, 1]], i32)])
    yield Case("BatchToSpaceND_large", "BatchToSpaceND", [Gen((8, 60, 60, 32)), ints(2, 2), np.array([[1, 1], [2, 1]], i32)])
    yield Case("BatchToSpaceND_not_divisible", "BatchToSpaceND", [iota((3, 3, 4, 1)), ints(2, 2), np.zeros((2, 2), i32)], error="")
    yield Case("SpaceToBatch", "SpaceToBatch", [iota((1, 4, 3, 2)), np.array([[0, 0], [1, 0]], i32)], {"block_size": 2})
    yield Case("BatchToSpace", "BatchToSpace", [iota((4, 2, 2, 2)), np.array([[0, 1], [1, 0]], i32)], {"block_size": 2})
    # TensorFlow has no NCHW kernels on the CPU; the definition is a reshape and a transpose.
    x = iota((2, 3, 4, 6))
    deep = x.reshape(2, 3, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3)
    yield Case("SpaceToDepth_nchw", "SpaceToDepth", [x], {"block_size": 2, "data_format": "NCHW"}, expected=[deep])
    yield Case("DepthToSpace_nchw", "DepthToSpace", [deep], {"block_size": 2, "data_format": "NCHW"}, expected=[x])
    yield Case("SpaceToDepth_3", "SpaceToDepth", [iota((1, 6, 3, 2))], {"block_size": 3})
    yield Case("SpaceToDepth_large", "SpaceToDepth", [Gen((2, 80, 80, 16))], {"block_size": 2})
    yield Case("SpaceToDepth_not_divisible", "SpaceToDepth", [iota((1, 3, 4, 1))], {"block_size": 2}, error="")
    yield Case("DepthToSpace_not_divisible", "DepthToSpace", [iota((1, 3, 4, 6))], {"block_size": 2}, error="")


def picks():
    for dtype in (f32, f64, i32, i64, f16, bfloat16):
        x = (iota((3, 7), dtype).astype(f32) * 37 % 11).astype(dtype)
        yield Case(f"TopKV2_{np.dtype(dtype).name}", "TopKV2", [x, i32(4)])
    # TensorFlow runs TopK only in graphs of its first versions.
    yield Case("TopK", "TopK", [iota((2, 5))], {"k": 2}, expected=[np.array([[4, 3], [9, 8]], f32), np.array([[4, 3]] * 2, i32)])
    yield Case("TopKV2_all", "TopKV2", [np.array([1, 5, 5, -2], f32), i32(4)])
    yield Case("TopKV2_one", "TopKV2", [np.array([[1, 5, 5, -2], [7, 7, 8, 7]], f32), i32(1)])
    yield Case("TopKV2_none", "TopKV2", [np.array([1, 5, 5, -2], f32), i32(0)])
    yield Case("TopKV2_inf", "TopKV2", [np.array([1, np.inf, -np.inf, 3], f32), i32(3)])
    yield Case("TopKV2_no_rows", "TopKV2", [iota((0, 5)), i32(3)])
    yield Case("TopKV2_rank8", "TopKV2", [iota((1, 2, 1, 2, 1, 1, 2, 4)) % 5, i32(2)])
    yield Case("TopKV2_int64_indices", "TopKV2", [iota((2, 5)), i64(3)], {"Tk": i64, "index_type": i64})
    for size in (32767, 32768):
        more = {"error": f"must be <= 32767, got {size}"} if size > 32767 else {}
        yield Case(f"TopKV2_int16_indices_{size}", "TopKV2", [Gen((2, size)), i32(3)], {"index_type": np.int16}, **more)
    yield Case("TopKV2_large", "TopKV2", [Gen((300, 700)), i32(5)])
    yield Case("TopKV2_long_row", "TopKV2", [Gen((1, 50000), seed=3), i32(100)])
    # Whole rows sorted, short ones and long ones, with and without many equal elements.
    for dtype in (f32, f64, i32, i64, f16, bfloat16, np.uint8, np.int8, np.int16, np.uint16):
        for size, k in ((60, 40), (1023, 200), (1024, 1024), (5000, 1000)):
            low = 0 if np.dtype(dtype).kind == "u" else -100
            yield Case(f"TopKV2_whole_{np.dtype(dtype).name}_{size}", "TopKV2", [Gen((2, size), dtype, low, 100), i32(k)])
    zeros = np.tile(np.array([0.0, -0.0, 1, -0.0, -np.inf, np.inf], f32), 300)
    yield Case("TopKV2_whole_zeros", "TopKV2", [zeros, i32(1800)])
    yield Case("TopKV2_too_many", "TopKV2", [iota((2, 3)), i32(4)], error="input must have at least k columns. Had 3, needed 4")
    for op in ("LowerBound", "UpperBound"):
        yield Case(op, op, [np.array([[1, 3, 3, 7], [0, 0, 0, 9]], f32), np.array([[3, 0, 8], [0, 1, 10]], f32)])
        yield Case(f"{op}_int64", op, [np.array([[1, 3, 3, 7]], i64), np.array([[3, 7]], i64)], {"out_type": i64})
        yield Case(f"{op}_empty", op, [np.zeros((2, 0), i32), np.array([[3], [7]], i32)])
        yield Case(f"{op}_rows_differ", op, [np.zeros((2, 1), i32), np.array([[3]], i32)], error="")
    for padding in ("SAME", "VALID"):
        attrs = {"padding": padding}
        yield Case(f"ExtractImagePatches_{padding}", "ExtractImagePatches", [iota((2, 5, 6, 2), f32, 1)],
                   {**attrs, "ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 1, 1]})
        yield Case(f"ExtractImagePatches_{padding}_rates", "ExtractImagePatches", [iota((1, 7, 8, 1), i32, 1)],
                   {**attrs, "ksizes": [1, 3, 2, 1], "strides": [1, 1, 3, 1], "rates": [1, 2, 3, 1]})
        yield Case(f"ExtractVolumePatches_{padding}", "ExtractVolumePatches", [iota((1, 3, 4, 5, 2), f32, 1)],
                   {**attrs, "ksizes": [1, 2, 2, 3, 1], "strides": [1, 1, 2, 2, 1]})
    yield Case("ExtractImagePatches_large", "ExtractImagePatches", [Gen((2, 50, 50, 8))],
               {"padding": "SAME", "ksizes": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1]})


def cases():
    for part in (reverse, blocks, picks):
        yield from part()
