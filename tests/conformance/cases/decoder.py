"""Greedy decoding, distances between sequences, windows of changing size, ragged rows as a tensor."""
import numpy as np

from case_builder import Case, Gen, L

I64 = np.int64


def decoding():
    lengths = np.array([8, 5, 0], np.int32)
    for dtype in (np.float32, np.float64):
        for merge in (False, True):
            for blank in (-1, 0, 2):
                yield Case(f"Greedy_{np.dtype(dtype).name}_{merge}_{blank}".replace("-", "m"), "CTCGreedyDecoder", [Gen((8, 3, 4), dtype), lengths],
                           {"merge_repeated": merge, "blank_index": blank}, rtol=1e-6)
    yield Case("Greedy_ties", "CTCGreedyDecoder", [np.ones((4, 2, 3), np.float32), np.array([4, 2], np.int32)], {"merge_repeated": True})
    yield Case("Greedy_too_long", "CTCGreedyDecoder", [Gen((4, 1, 3)), np.array([5], np.int32)], error="")
    for dtype in (np.float32, np.float64):
        for merge in (False, True):
            for width, paths in ((1, 1), (3, 1), (5, 3), (50, 4)):
                yield Case(f"Beam_{np.dtype(dtype).name}_{merge}_{width}_{paths}", "CTCBeamSearchDecoder", [Gen((8, 3, 4), dtype, -3, 3), np.array([8, 5, 6], np.int32)],
                           {"merge_repeated": merge, "beam_width": width, "top_paths": paths}, rtol=2e-6, atol=2e-6)
    yield Case("Beam_long", "CTCBeamSearchDecoder", [Gen((40, 2, 20), np.float32, -2, 2), np.array([40, 33], np.int32)],
               {"beam_width": 20, "top_paths": 2}, rtol=1e-5, atol=1e-5)
    yield Case("Beam_nothing", "CTCBeamSearchDecoder", [Gen((4, 2, 3)), np.array([0, 0], np.int32)], {"beam_width": 4, "top_paths": 1})
    yield Case("Beam_too_few", "CTCBeamSearchDecoder", [Gen((4, 1, 3)), np.array([0], np.int32)], {"beam_width": 4, "top_paths": 2}, error="Less leaves in the beam search than requested")
    yield Case("Beam_too_long", "CTCBeamSearchDecoder", [Gen((4, 1, 3)), np.array([5], np.int32)], {"beam_width": 4, "top_paths": 1}, error="")
    yield Case("Beam_batch", "CTCBeamSearchDecoder", [Gen((4, 2, 3)), np.array([4], np.int32)], {"beam_width": 4, "top_paths": 1}, error="")
    a = (np.array([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]], I64), np.array([1, 2, 3, 1, 1], I64), np.array([4, 3], I64))
    b = (np.array([[0, 0], [0, 1], [1, 0], [2, 0]], I64), np.array([1, 3, 1, 9], I64), np.array([3, 2], I64))
    for normalize in (True, False):
        yield Case(f"EditDistance_{normalize}", "EditDistance", [*a, *b], {"normalize": normalize})
        yield Case(f"EditDistance_turned_{normalize}", "EditDistance", [*b, *a], {"normalize": normalize})
        for dtype in (np.int32, np.float32, np.uint8):
            yield Case(f"EditDistance_{np.dtype(dtype).name}_{normalize}", "EditDistance",
                       [a[0], a[1].astype(dtype), a[2], b[0], b[1].astype(dtype), b[2]], {"normalize": normalize})
    none = (np.zeros((0, 2), I64), np.zeros(0, I64), np.array([3, 2], I64))
    below = [np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.array([-1, 3], np.int64)]
    yield Case("EditDistance_negative", "EditDistance", [*below, *b], error="")
    yield Case("EditDistance_empty", "EditDistance", [*none, *b])
    yield Case("EditDistance_both_empty", "EditDistance", [*none, *none])
    deep = (np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 1]], I64), np.array([1, 2, 3, 4], I64), np.array([2, 2, 3], I64))
    yield Case("EditDistance_rank3", "EditDistance", [*deep, deep[0][:2], deep[1][:2], deep[2]])


def pooling():
    for op in ("Max", "Avg"):
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            for pseudo in (False, True):
                for overlapping in (False, True):
                    yield Case(f"Fractional{op}_{np.dtype(dtype).name}_{pseudo}_{overlapping}", f"Fractional{op}Pool", [Gen((2, 9, 8, 3), dtype, -20, 20)],
                               {"pooling_ratio": [1.0, 1.5, 1.7, 1.0], "pseudo_random": pseudo, "overlapping": overlapping, "deterministic": True,
                                "seed": 7, "seed2": 11}, rtol=1e-6)
        yield Case(f"Fractional{op}_whole", f"Fractional{op}Pool", [Gen((1, 8, 6, 2))], {"pooling_ratio": [1.0, 2.0, 1.0, 1.0]}, rtol=1e-6)
        # Windows that need no samples take some all the same.
        for pseudo in (False, True):
            for rows, ratio in ((3, 1.0), (6, 3.0), (7, 1.9)):
                yield Case(f"Fractional{op}_{rows}_rows_{pseudo}", f"Fractional{op}Pool", [Gen((1, rows, 7, 1))],
                           {"pooling_ratio": [1.0, ratio, 1.9, 1.0], "pseudo_random": pseudo, "deterministic": True, "seed": 5, "seed2": 7}, rtol=1e-6)
        yield Case(f"Fractional{op}_batch", f"Fractional{op}Pool", [Gen((2, 8, 6, 2))], {"pooling_ratio": [2.0, 2.0, 1.0, 1.0]}, error="")
    rows, columns = np.array([0, 2, 3, 5, 6, 8], I64), np.array([0, 1, 3, 5, 7], I64)
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        name = np.dtype(dtype).name
        for overlapping in (False, True):
            x, g = Gen((2, 8, 7, 3), dtype, -9, 9), Gen((2, 5, 4, 3), dtype, -9, 9, seed=2)
            out = pooled_max(x.numpy(), rows, columns, overlapping)
            yield Case(f"MaxGrad_{name}_{overlapping}", "FractionalMaxPoolGrad", [x, out, g, rows, columns], {"overlapping": overlapping})
            yield Case(f"AvgGrad_{name}_{overlapping}", "FractionalAvgPoolGrad", [np.array([2, 8, 7, 3], I64), g, rows, columns],
                       {"overlapping": overlapping}, rtol=1e-6, atol=1e-6)


def pooled_max(x, rows, columns, overlapping):
    more = 1 if overlapping else 0
    return np.stack([np.stack([x[:, r:r2 + more, c:c2 + more].max((1, 2)) for c, c2 in zip(columns, columns[1:])], 1)
                     for r, r2 in zip(rows, rows[1:])], 1)


def ragged():
    splits, ids = np.array([0, 2, 2, 5], I64), np.array([0, 0, 2, 2, 2], I64)
    splits_attrs, ids_attrs = {"row_partition_types": ["ROW_SPLITS"]}, {"row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.bool_, np.uint8):
        values, fill = Gen((5,), dtype, 0, 2), np.array(1).astype(dtype)
        yield Case(f"Ragged_{np.dtype(dtype).name}", "RaggedTensorToTensor", [np.array([-1, -1], I64), values, fill, L([splits])], splits_attrs)
    for label, shape in (("given", [3, 4]), ("cut", [2, 2]), ("more", [5, 2]), ("rows", [4, -1]), ("columns", [-1, 4])):
        for what, parts, attrs in (("splits", [splits], splits_attrs), ("ids", [I64(3), ids], ids_attrs)):
            yield Case(f"Ragged_{label}_{what}", "RaggedTensorToTensor", [np.array(shape, I64), Gen((5,)), np.float32(-1), L(parts)], attrs)
    yield Case("Ragged_inner", "RaggedTensorToTensor", [np.array([-1, -1, 2], I64), Gen((5, 2)), np.array([7, 8], np.float32), L([splits])], splits_attrs)
    yield Case("Ragged_nested", "RaggedTensorToTensor", [np.array([-1, -1, -1], I64), Gen((5,)), np.float32(0), L([np.array([0, 1, 3], I64), splits])],
               {"row_partition_types": ["ROW_SPLITS", "ROW_SPLITS"]})
    lengths = np.arange(2000) * 7 % 25
    long_splits = np.concatenate([[0], np.cumsum(lengths)])
    yield Case("Ragged_large", "RaggedTensorToTensor", [np.array([-1, 20, 2], I64), Gen((lengths.sum(), 2)), np.float32(3), L([long_splits])], splits_attrs)
    yield Case("Ragged_rows_left_out", "RaggedTensorToTensor", [np.array([-1, -1], I64), Gen((5,)), np.float32(-1), L([I64(6), ids])], ids_attrs)
    levels = {"splits": ([np.array([0, 1, 3, 3], I64), splits], ["ROW_SPLITS", "ROW_SPLITS"]),
              "ids": ([I64(3), np.array([0, 1, 1], I64), ids], ["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"]),
              "both": ([I64(3), np.array([0, 1, 1], I64), splits], ["FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS"])}
    for shape in ((-1, -1, -1, 2), (2, 1, 2, 2), (4, 3, 4, 2)):
        for what, (parts, types) in levels.items():
            yield Case(f"Ragged_nested_{what}_{shape[0]}", "RaggedTensorToTensor", [np.array(shape, I64), Gen((5, 2)), np.array([7, 8], np.float32), L(parts)],
                       {"row_partition_types": types})
    far = np.array([0, 0, 7, 9000, 9998], I64)  # rows that the shape leaves out
    yield Case("Ragged_far_rows", "RaggedTensorToTensor", [np.array([4, 3], I64), Gen((5,)), np.float32(-1), L([I64(10000), far])], ids_attrs)
    yield Case("Ragged_empty", "RaggedTensorToTensor", [np.array([-1, 2], I64), np.zeros(0, np.float32), np.float32(0), L([np.array([0, 0, 0], I64)])], splits_attrs)


def cases():
    yield from decoding()
    yield from pooling()
    yield from ragged()
