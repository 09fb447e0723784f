"""Ops that move rows by index."""
import numpy as np

from case_builder import Case, Gen, L, RefVar, Var, bfloat16

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16


def iota(shape, dtype=f32, start=0):
    return (np.arange(start, start + int(np.prod(shape))) % 251).astype(dtype).reshape(shape)


def ints(values, dtype=i32):
    return np.array(values, dtype)


def gather():
    for dtype in (f32, f64, i32, i64, np.bool_, f16, bfloat16, np.complex128):
        yield Case(f"GatherV2_{np.dtype(dtype).name}", "GatherV2", [iota((4, 3), dtype), ints([3, 0, 3]), i32(0)])
    yield Case("Gather", "Gather", [iota((4, 3)), ints([[1, 2], [0, 3]], i64)])
    yield Case("Gather_scalar_index", "Gather", [iota((4, 3)), i32(2)])
    for axis in (0, 1, 2, -1):
        yield Case(f"GatherV2_axis{axis}", "GatherV2", [iota((3, 4, 5)), ints([[2, 0], [1, 1]]), i32(axis)])
    for batch_dims, axis in ((1, 1), (1, 2), (2, 2), (-1, 1)):
        yield Case(f"GatherV2_batch{batch_dims}_axis{axis}", "GatherV2",
                   [iota((2, 3, 4, 5)), ints([[2, 0, 1], [1, 1, 0]]), i32(axis)], {"batch_dims": batch_dims})
    yield Case("GatherV2_no_indices", "GatherV2", [iota((4, 3)), ints([]), i64(0)])
    yield Case("GatherV2_no_inner", "GatherV2", [iota((4, 0)), ints([1, 2]), i32(0)])
    yield Case("GatherV2_rank8", "GatherV2", [iota((1, 2, 1, 2, 3, 2, 1, 2)), ints([2, 0]), i32(4)])
    yield Case("GatherV2_large", "GatherV2", [Gen((1000, 129)), Gen((40, 30), i32, 0, 1000, 5), i32(0)])
    yield Case("GatherV2_large_scalars", "GatherV2", [Gen((5000,)), Gen((200, 300), i64, 0, 5000, 5), i32(0)])
    yield Case("GatherV2_out_of_range", "GatherV2", [iota((5, 3)), ints([[0, 1], [2, 7]]), i32(0)],
               error="indices[1,1] = 7 is not in [0, 5)")
    yield Case("GatherV2_negative_index", "GatherV2", [iota((5, 3)), ints([0, -1]), i32(0)],
               error="indices[1] = -1 is not in [0, 5)")
    yield Case("GatherV2_of_empty", "GatherV2", [iota((0, 3)), ints([0]), i32(0)], error="is not in [0, 0)")
    yield Case("GatherV2_axis_out_of_range", "GatherV2", [iota((5, 3)), ints([0]), i32(2)], error="")
    yield Case("ResourceGather", "ResourceGather", [Var(iota((4, 3))), ints([3, 1, 1])])
    yield Case("ResourceGather_batch", "ResourceGather", [Var(iota((2, 4, 3))), ints([[3, 1], [0, 2]])], {"batch_dims": 1})
    yield Case("ResourceGather_out_of_range", "ResourceGather", [Var(iota((4, 3))), ints([3, 4])], error="is not in [0, 4)")
    yield Case("ResourceGatherNd", "ResourceGatherNd", [Var(iota((4, 3))), ints([[3, 1], [0, 2]], i64)])
    yield Case("GatherNd_rows", "GatherNd", [iota((4, 3)), ints([[3], [0]])])
    yield Case("GatherNd_elements", "GatherNd", [iota((4, 3), i64), ints([[[3, 1], [0, 2]]], i64)])
    yield Case("GatherNd_whole", "GatherNd", [iota((4, 3)), np.zeros((2, 0), i32)])
    yield Case("GatherNd_empty", "GatherNd", [iota((4, 3)), np.zeros((0, 1), i32)])
    yield Case("GatherNd_rank8", "GatherNd", [iota((1, 2, 1, 2, 3, 2, 1, 2)), ints([[0, 1, 0, 1, 2], [0, 0, 0, 1, 1]])])
    yield Case("GatherNd_large", "GatherNd", [Gen((50, 60, 70)), Gen((2000, 2), i32, 0, 50, 3)])
    yield Case("GatherNd_out_of_range", "GatherNd", [iota((4, 3)), ints([[3, 1], [0, 3]])],
               error="indices[1] = [0, 3] does not index into")


def one_hot():
    for dtype in (f32, f64, i32, i64, np.bool_, f16):
        yield Case(f"OneHot_{np.dtype(dtype).name}", "OneHot", [ints([1, 0, -1, 3]), i32(3), dtype(1), dtype(0)])
    yield Case("OneHot_int64_axis0", "OneHot", [ints([[1, 0], [2, 2]], i64), i32(3), f32(5), f32(-1)], {"axis": 0})
    yield Case("OneHot_axis1", "OneHot", [ints([[1, 0], [2, 2]], i64), i32(4), f32(5), f32(-1)], {"axis": 1})
    yield Case("OneHot_uint8", "OneHot", [ints([1, 200], np.uint8), i32(3), f32(1), f32(0)])
    yield Case("OneHot_scalar", "OneHot", [i32(2), i32(4), f32(1), f32(0)])
    yield Case("OneHot_no_depth", "OneHot", [ints([1, 0]), i32(0), f32(1), f32(0)])
    yield Case("OneHot_empty", "OneHot", [ints([]), i32(3), f32(1), f32(0)])
    yield Case("OneHot_large", "OneHot", [Gen((700,), i32, 0, 301, 2), i32(301), f32(1), f32(0)])
    yield Case("OneHot_negative_depth", "OneHot", [ints([1, 0]), i32(-1), f32(1), f32(0)], error="depth must be non-negative")


def stitch():
    yield Case("DynamicStitch", "DynamicStitch",
               [L([ints(4), ints([0, 2]), ints([[1], [3]])]), L([iota((2,), f32, 9), iota((2, 2)), iota((2, 1, 2), f32, 4)])])
    yield Case("DynamicStitch_overwrites", "DynamicStitch", [L([ints([0, 1]), ints([1, 0])]), L([iota((2,)), iota((2,), f32, 7)])])
    yield Case("DynamicStitch_shapes", "DynamicStitch",
               [L([ints([0, 1, 2]), ints([1])]), L([ints([4, 5, 6]), ints([1])])])
    yield Case("DynamicStitch_empty", "DynamicStitch", [L([ints([])]), L([iota((0, 3))])])
    yield Case("ParallelDynamicStitch", "ParallelDynamicStitch", [L([ints([2, 0]), ints([1])]), L([iota((2, 2), i64), iota((1, 2), i64, 8)])])
    yield Case("DynamicPartition", "DynamicPartition", [iota((5, 2)), ints([1, 0, 1, 2, 1])], {"num_partitions": 4})
    yield Case("DynamicPartition_int64", "DynamicPartition", [iota((2, 2), i64), ints([[1, 0], [1, 1]])], {"num_partitions": 2})
    yield Case("DynamicPartition_empty", "DynamicPartition", [iota((0, 2)), ints([])], {"num_partitions": 2})
    yield Case("DynamicPartition_out_of_range", "DynamicPartition", [iota((2, 2)), ints([0, 2])], {"num_partitions": 2},
               error="= 2 is not in [0, 2)")


def scatter_nd():
    a = iota((4, 3)) + 1
    for dtype in (f32, f64, i32, i64, f16):
        name = np.dtype(dtype).name
        yield Case(f"ScatterNd_{name}", "ScatterNd", [ints([[1], [3], [1]]), iota((3, 2), dtype, 1), ints([5, 2])])
        for op in ("Add", "Sub", "Update", "Max", "Min"):
            indices = ints([[1], [3], [1]]) if op != "Update" else ints([[1], [3], [0]])
            yield Case(f"TensorScatter{op}_{name}", f"TensorScatter{op}", [a.astype(dtype), indices, iota((3, 3), dtype, 3)])
    yield Case("ScatterNd_bool", "ScatterNd", [ints([[1], [3]]), np.array([True, True]), ints([4])])
    yield Case("ScatterNd_elements", "ScatterNd", [ints([[0, 1], [2, 0]], i64), iota((2,), f32, 1), ints([3, 2], i64)])
    yield Case("ScatterNd_empty", "ScatterNd", [np.zeros((0, 1), i32), iota((0, 2)), ints([5, 2])])
    yield Case("ScatterNd_large", "ScatterNd", [Gen((4000, 1), i32, 0, 500, 3), Gen((4000, 40)), ints([500, 40])], rtol=1e-5, atol=1e-5)
    yield Case("ScatterNd_out_of_range", "ScatterNd", [ints([[1], [5]]), iota((2, 2)), ints([5, 2])], error="does not index into")
    yield Case("GatherNd_ignore", "GatherNd", [a, ints([[1], [9], [-1]])], {"bad_indices_policy": "IGNORE"})
    yield Case("ScatterNd_ignore", "ScatterNd", [ints([[1], [5], [-1]]), iota((3, 2)), ints([5, 2])], {"bad_indices_policy": "IGNORE"})
    for op in ("Update", "Add", "Max"):
        yield Case(f"TensorScatter{op}_ignore", f"TensorScatter{op}", [a, ints([[0, 1], [9, 1], [3, 2], [3, -1]]), iota((4,))],
                   {"bad_indices_policy": "IGNORE"})
    yield Case("ResourceScatterNdAdd_ignore", "ResourceScatterNdAdd", [Var(a), ints([[7], [1]]), iota((2, 3))], {"bad_indices_policy": "IGNORE"})
    yield Case("ScatterNd_wrong_updates", "ScatterNd", [ints([[1], [2]]), iota((2, 3)), ints([5, 2])], error="")
    yield Case("TensorScatterAdd_out_of_range", "TensorScatterAdd", [a, ints([[1], [-1]]), iota((2, 3))], error="does not index into")
    yield Case("TensorScatterAdd_elements", "TensorScatterAdd", [a, ints([[0, 1], [0, 1], [3, 2]]), iota((3,))])
    yield Case("TensorScatterUpdate_bool", "TensorScatterUpdate", [np.zeros((4,), bool), ints([[2]]), np.array([True])])
    yield Case("TensorScatterMax_nan", "TensorScatterMax", [np.array([1, np.nan, 2], f32), ints([[0], [2]]), np.array([5, 1], f32)])
    yield Case("ScatterNdNonAliasingAdd", "ScatterNdNonAliasingAdd", [a, ints([[0], [0]]), iota((2, 3))])
    for op in ("Update", "Add", "Sub", "Max", "Min"):
        indices = ints([[1], [3]])
        yield Case(f"ResourceScatterNd{op}", f"ResourceScatterNd{op}", [Var(a), indices, iota((2, 3), f32, 4)])
        yield Case(f"ScatterNd{op}_ref", f"ScatterNd{op}", [RefVar(a), indices, iota((2, 3), f32, 4)])
    yield Case("SparseToDense_vector", "SparseToDense", [ints([1, 3]), ints([5]), iota((2,), f32, 4), f32(-1)])
    yield Case("SparseToDense_matrix", "SparseToDense", [ints([[0, 1], [2, 0]], i64), ints([3, 2], i64), iota((2,), i32, 4), i32(9)])
    yield Case("SparseToDense_scalar_value", "SparseToDense", [ints([1, 3]), ints([5]), f32(4), f32(0)])
    yield Case("SparseToDense_scalar_index", "SparseToDense", [i32(2), ints([5]), f32(4), f32(0)])
    yield Case("SparseToDense_unchecked", "SparseToDense", [ints([3, 1, 1]), ints([5]), iota((3,), f32, 4), f32(0)], {"validate_indices": False})
    yield Case("SparseToDense_unordered", "SparseToDense", [ints([3, 1]), ints([5]), iota((2,)), f32(0)], error="out of order")
    yield Case("SparseToDense_repeated", "SparseToDense", [ints([1, 1]), ints([5]), iota((2,)), f32(0)], error="is repeated")
    yield Case("SparseToDense_outside", "SparseToDense", [ints([1, 5]), ints([5]), iota((2,)), f32(0)], error="out of bounds")


def cases():
    for part in (gather, one_hot, stitch, scatter_nd):
        yield from part()
