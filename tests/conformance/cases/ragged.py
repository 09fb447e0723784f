"""Rows of different lengths: as sparse tensors, counted, as ranges; crossed features."""
import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, L

I64 = np.int64
SPLITS = np.array([0, 2, 2, 5], I64)


def to_sparse():
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.bool_, np.uint8, np.float16):
        yield Case(f"ToSparse_{np.dtype(dtype).name}", "RaggedTensorToSparse", [L([SPLITS]), Gen((5,), dtype, 0, 9)])
    yield Case("ToSparse_int32_splits", "RaggedTensorToSparse", [L([SPLITS.astype(np.int32)]), Gen((5,))])
    yield Case("ToSparse_inner", "RaggedTensorToSparse", [L([SPLITS]), Gen((5, 2, 3))])
    yield Case("ToSparse_nested", "RaggedTensorToSparse", [L([np.array([0, 1, 3], I64), SPLITS]), Gen((5, 2))])
    yield Case("ToSparse_empty", "RaggedTensorToSparse", [L([np.array([0], I64)]), np.zeros(0, np.float32)])
    yield Case("ToSparse_empty_rows", "RaggedTensorToSparse", [L([np.array([0, 0, 0], I64)]), np.zeros(0, np.float32)])
    yield Case("ToSparse_begin", "RaggedTensorToSparse", [L([np.array([1, 5], I64)]), Gen((5,))], error="")
    yield Case("ToSparse_end", "RaggedTensorToSparse", [L([np.array([0, 4], I64)]), Gen((5,))], error="")
    yield Case("ToSparse_falls", "RaggedTensorToSparse", [L([np.array([0, 4, 3, 5], I64)]), Gen((5,))], error="")


def gathers():
    one = {"OUTPUT_RAGGED_RANK": 1}
    rows = np.array([2, 0, 1, 2], np.int32)
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.bool_, np.uint8, np.float16):
        yield Case(f"Gather_{np.dtype(dtype).name}", "RaggedGather", [L([SPLITS]), Gen((5,), dtype, 0, 9), rows], one)
    yield Case("Gather_int32_splits", "RaggedGather", [L([SPLITS.astype(np.int32)]), Gen((5, 2)), rows.astype(I64)], one)
    nested = L([np.array([0, 1, 3], I64), SPLITS])
    yield Case("Gather_nested", "RaggedGather", [nested, Gen((5, 2)), np.array([1, 0, 1], I64)], {"OUTPUT_RAGGED_RANK": 2})
    yield Case("Gather_table", "RaggedGather", [L([SPLITS]), Gen((5,)), np.array([[2, 0, 1], [0, 0, 1]], I64)], {"OUTPUT_RAGGED_RANK": 2})
    yield Case("Gather_cube", "RaggedGather", [nested, Gen((5,)), np.array([[[1], [0]], [[1], [1]]], I64)], {"OUTPUT_RAGGED_RANK": 4})
    yield Case("Gather_none", "RaggedGather", [L([SPLITS]), Gen((5,)), np.zeros(0, I64)], one)
    yield Case("Gather_empty", "RaggedGather", [L([np.array([0, 0, 0], I64)]), np.zeros(0, np.float32), np.array([1, 0, 1], I64)], one)
    yield Case("Gather_outside", "RaggedGather", [L([SPLITS]), Gen((5,)), np.array([1, 3], I64)], one, error="indices[1] = 3 is not in [0, 3)")
    yield Case("Gather_scalar_values", "RaggedGather", [L([SPLITS]), np.float32(1), rows], one, error="")


def sets():
    a, b = np.array([[3, 1, 1], [5, 4, 0], [7, 7, 7]]), np.array([[1, 3, 9, 9], [8, 8, 8, 8], [7, 0, 7, 1]])
    indices, dims = np.array([[0, 0], [0, 2], [2, 1]], I64), np.array([3, 4], I64)
    values = np.array([1, 9, 7])
    for operation in ("a-b", "b-a", "intersection", "union"):
        attrs = {"set_operation": operation}
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16):
            name = f"{operation.replace('-', '_less_')}_{np.dtype(dtype).name}"
            sparse = [indices, values.astype(dtype), dims]
            yield Case(f"Sets_dense_{name}", "DenseToDenseSetOperation", [a.astype(dtype), b.astype(dtype)], attrs)
            yield Case(f"Sets_mixed_{name}", "DenseToSparseSetOperation", [a.astype(dtype), *sparse], attrs)
            yield Case(f"Sets_sparse_{name}", "SparseToSparseSetOperation", [indices, (values + 8).astype(dtype), dims, *sparse], attrs)
    for operation in ("A-B", "INTERSECTION", "Union"):
        name = operation.replace("-", "_less_")
        yield Case(f"Sets_{name}", "DenseToDenseSetOperation", [a.astype(np.int32), b.astype(np.int32)], {"set_operation": operation})
    yield Case("Sets_rank3", "DenseToDenseSetOperation", [Gen((2, 3, 4), np.int32, 0, 6), Gen((2, 3, 5), np.int32, 0, 6, seed=4)], {"set_operation": "intersection"})
    yield Case("Sets_groups", "DenseToDenseSetOperation", [Gen((2, 3), np.int32, 0, 6), Gen((3, 3), np.int32, 0, 6)], {"set_operation": "union"}, error="")
    yield Case("Sets_unknown", "DenseToDenseSetOperation", [Gen((2, 3), np.int32, 0, 6), Gen((2, 3), np.int32, 0, 6)], {"set_operation": "xor"}, error="")
    yield Case("Sets_order", "DenseToSparseSetOperation", [a.astype(np.int32), indices[::-1].copy(), values.astype(np.int32), dims], {"set_operation": "union"}, error="order")
    yield Case("SetSize", "SetSize", [indices, np.array([4, 4, 2], np.int32), dims])
    yield Case("SetSize_outside", "SetSize", [indices + 3, np.array([4, 4, 2], np.int32), dims], error="")


def counts():
    values = np.array([1, 3, 3, 0, 9], np.int32)
    indices, dims = np.array([[0, 0], [0, 4], [1, 1], [3, 0], [3, 2]], I64), np.array([4, 5], I64)
    for index in (np.int32, I64):
        for dtype in (np.float32, np.float64, np.int32, I64):
            name = f"{np.dtype(index).name}_{np.dtype(dtype).name}"
            for what, weights in (("plain", np.zeros(0, dtype)), ("weighted", np.array([1, 2, 3, 4, 5], dtype))):
                yield Case(f"RaggedBincount_{name}_{what}", "RaggedBincount", [SPLITS, values.astype(index), index(5), weights])
                yield Case(f"SparseBincount_{name}_{what}", "SparseBincount", [indices, values.astype(index), dims, index(5), weights])
    for what, weights in (("plain", np.zeros(0, np.float32)), ("weighted", np.ones(5, np.float32))):
        yield Case(f"RaggedBincount_binary_{what}", "RaggedBincount", [SPLITS, values, np.int32(5), weights], {"binary_output": True})
        yield Case(f"SparseBincount_binary_{what}", "SparseBincount", [indices, values, dims, np.int32(5), weights], {"binary_output": True})
    none = np.zeros(0, np.float32)
    yield Case("SparseBincount_vector", "SparseBincount", [indices[:, :1].copy(), values, np.array([4], I64), np.int32(5), none])
    for label, at in (("below", [1, -1]), ("above", [1, 5]), ("rows", [4, 0])):
        yield Case(f"SparseBincount_{label}", "SparseBincount", [np.array([[0, 0], at], I64), values[:2], dims, np.int32(5), none], error="is out of bounds")
    yield Case("SparseBincount_empty", "SparseBincount", [np.zeros((0, 2), I64), values[:0], dims, np.int32(5), none])
    yield Case("RaggedBincount_empty", "RaggedBincount", [np.array([0, 0], I64), values[:0], np.int32(5), none])
    yield Case("RaggedBincount_no_bins", "RaggedBincount", [SPLITS, values, np.int32(0), none])
    yield Case("RaggedBincount_negative", "RaggedBincount", [SPLITS, -values, np.int32(5), none], error="")
    yield Case("RaggedBincount_size", "RaggedBincount", [SPLITS, values, np.int32(-1), none], error="")
    yield Case("RaggedBincount_splits", "RaggedBincount", [np.array([0, 2], I64), values, np.int32(5), none], error="")


def counts_there():
    values, weights = np.array([1, 3, 3, 0, 9, 0], np.int32), np.array([1, 2, 3, 4, 5, 6])
    indices, dims = np.array([[0, 0], [0, 4], [1, 1], [3, 0], [3, 2], [3, 3]], I64), np.array([4, 5], I64)
    splits = np.array([0, 2, 2, 6], I64)
    for index in (np.int32, I64):
        for dtype in (np.float32, np.float64, np.int32, I64):
            for what, weight in (("plain", weights[:0].astype(dtype)), ("weighted", weights.astype(dtype))):
                for bounds, attrs in (("open", {}), ("least", {"minlength": 12}), ("most", {"maxlength": 4})):
                    name, attrs = f"{np.dtype(index).name}_{np.dtype(dtype).name}_{what}_{bounds}", {"binary_output": False, **attrs}
                    v = values.astype(index)
                    yield Case(f"DenseCount_{name}", "DenseCountSparseOutput", [v, weight], attrs)
                    yield Case(f"SparseCount_{name}", "SparseCountSparseOutput", [indices, v, dims, weight], attrs)
                    yield Case(f"RaggedCount_{name}", "RaggedCountSparseOutput", [splits, v, weight], attrs)
    none = np.zeros(0, np.float32)
    binary = {"binary_output": True}
    yield Case("DenseCount_rows", "DenseCountSparseOutput", [values.reshape(2, 3), weights.reshape(2, 3).astype(np.float32)], {"binary_output": False})
    yield Case("DenseCount_binary", "DenseCountSparseOutput", [values.reshape(2, 3), none], binary)
    yield Case("SparseCount_binary", "SparseCountSparseOutput", [indices, values, dims, none], binary)
    yield Case("RaggedCount_binary", "RaggedCountSparseOutput", [splits, values, none], binary)
    yield Case("SparseCount_vector", "SparseCountSparseOutput", [indices[:, 1:][:3].copy(), values[:3], np.array([5], I64), none], binary)
    yield Case("DenseCount_empty", "DenseCountSparseOutput", [values[:0], none], binary)
    yield Case("RaggedCount_empty", "RaggedCountSparseOutput", [np.array([0, 0], I64), values[:0], none], binary)
    yield Case("DenseCount_negative", "DenseCountSparseOutput", [-values, none], binary, error="")
    yield Case("RaggedCount_splits", "RaggedCountSparseOutput", [np.array([0, 2], I64), values, none], binary, error="")


def ranges():
    for dtype in (np.float32, np.float64, np.int32, I64):
        for splits in (np.int32, I64):
            name = f"{np.dtype(dtype).name}_{np.dtype(splits).name}"
            yield Case(f"Range_{name}", "RaggedRange", [np.array([0, 5, 8, 4], dtype), np.array([3, 5, 2, 9], dtype), np.array([1, 1, -2, 3], dtype)], {"Tsplits": splits})
    yield Case("Range_scalars", "RaggedRange", [np.int32(0), np.array([3, 0, 2], np.int32), np.int32(1)])
    yield Case("Range_one", "RaggedRange", [np.int32(0), np.int32(4), np.int32(2)])
    yield Case("Range_fractions", "RaggedRange", [np.float32(0), np.array([1, 0.95], np.float32), np.float32(0.1)])
    yield Case("Range_empty", "RaggedRange", [np.zeros(0, np.int32), np.zeros(0, np.int32), np.int32(1)])
    yield Case("Range_still", "RaggedRange", [np.int32(0), np.array([3], np.int32), np.int32(0)], error="Requires delta != 0")
    yield Case("Range_lengths", "RaggedRange", [np.zeros(2, np.int32), np.zeros(3, np.int32), np.int32(1)], error="")


def crosses():
    hashed = {"hashed_output": True, "num_buckets": 100, "hash_key": 956888297470, "out_type": I64, "internal_type": I64}
    a, b = Gen((3, 2), I64, 0, 1000), Gen((3, 3), I64, 0, 1000, seed=2)
    sparse = (np.array([[0, 0], [0, 1], [2, 0]], I64), np.array([5, 7, 11], I64), np.array([3, 2], I64))
    yield Case("Cross_dense", "SparseCross", [L([]), L([]), L([]), L([a, b])], {**hashed, "N": 0})
    yield Case("Cross_large", "SparseCross", [L([]), L([]), L([]), L([a, b])], {**hashed, "N": 0, "num_buckets": 0})
    yield Case("Cross_key", "SparseCross", [L([]), L([]), L([]), L([b, a, b])], {**hashed, "N": 0, "hash_key": 17})
    yield Case("Cross_sparse", "SparseCross", [L([sparse[0]]), L([sparse[1]]), L([sparse[2]]), L([a])], hashed)
    yield Case("Cross_two", "SparseCross", [L([sparse[0]] * 2), L([sparse[1], sparse[1] * 3]), L([sparse[2]] * 2), L([])], hashed)
    words, rare = np.array([["a", "bc"], ["", "a"], ["xyz", "a long text of more than thirty-two bytes"]], object), np.array(["p", "q", "r"], object)
    yield Case("Cross_words", "SparseCross", [L([]), L([]), L([]), L([words, a])], {**hashed, "N": 0})
    yield Case("Cross_words_alone", "SparseCross", [L([]), L([]), L([]), L([words])], {**hashed, "N": 0, "num_buckets": 0})
    yield Case("Cross_sparse_words", "SparseCross", [L([sparse[0]] * 2), L([rare, sparse[1]]), L([sparse[2]] * 2), L([words])], hashed)
    yield Case("Cross_batches", "SparseCross", [L([]), L([]), L([]), L([a, Gen((2, 3), I64, 0, 9)])], {**hashed, "N": 0}, error="")
    other_flag = {**hashed, "hashed_output": False}
    yield Case("Cross_hash_not_flagged", "SparseCross", [L([sparse[0]]), L([sparse[1]]), L([sparse[2]]), L([])], other_flag)
    yield Case("Cross_internal_text", "SparseCross", [L([sparse[0]]), L([rare]), L([sparse[2]]), L([words])], {**hashed, "internal_type": tf.string})
    for op in ("SparseCross", "SparseCrossV2", "SparseCrossHashed"):
        yield from sparse_crosses(op, sparse, rare, words)


def sparse_crosses(op, sparse, rare, words):
    """Of SparseCross those that make texts."""
    more = {"SparseCross": [], "SparseCrossV2": [np.array("_X_", object)], "SparseCrossHashed": [np.array(0, I64), np.array(False), np.array([3, -5], I64)]}[op]
    attrs = {"hashed_output": False, "num_buckets": 0, "hash_key": 1, "out_type": tf.string, "internal_type": I64} if op == "SparseCross" else {}
    dense = np.array([[1, -2], [3, 1 << 40], [5, 6]], I64)

    def cross(name, features=(), of_dense=(), last=more, error=None, **given):
        lists = [L([feature[k] for feature in features]) for k in range(3)]
        return Case(f"{op}_{name}", op, [*lists, L(list(of_dense)), *last], {**attrs, "N": len(features), **given}, error=error)
    texts = (sparse[0], rare, sparse[2])
    yield cross("all", [sparse, texts], [dense, words])
    yield cross("sparse", [sparse])
    yield cross("texts", [texts])
    yield cross("dense", of_dense=[dense, words])
    yield cross("numbers", of_dense=[dense])
    yield cross("none")
    yield cross("no_values", [(np.zeros([0, 2], I64), np.zeros(0, I64), np.array([3, 2], I64))], [words])
    yield cross("no_rows", [(np.zeros([0, 2], I64), np.zeros(0, I64), np.array([0, 2], I64))])
    yield cross("no_columns", of_dense=[dense[:, :0], words])
    if op == "SparseCross":
        yield cross("text_only", [texts], [words], internal_type=tf.string)
        yield cross("text_flagged", [texts], [words], hashed_output=True)
        for out in (tf.string, I64):
            label = f"{tf.as_dtype(out).name}_out"
            yield cross(f"wrong_values_{label}", [sparse], [words], internal_type=tf.string, out_type=out, error="Input values should be of internal type 7 but received 9")
            yield cross(f"wrong_dense_{label}", [texts], [dense], internal_type=tf.string, out_type=out, error="Dense inputs should be of internal type 7 but received 9")
    if op == "SparseCrossV2":
        for separator in ("", "-", "\u00e9\0"):
            yield cross(f"separator_{len(separator)}", [sparse], [words], [np.array(separator, object)])
        yield cross("wrong_separator", [sparse], last=[np.array(["a"], object)], error="")
    if op == "SparseCrossHashed":
        for buckets in (1, 10, 1 << 62, -7):
            yield cross(f"buckets_{buckets}", [sparse, texts], [dense, words], [np.array(buckets, I64), *more[1:]])
        # TensorFlow falls over numbers of dense features with a strong hash.
        for salt in ([0, 0], [137, 173]):
            yield cross(f"strong_{salt[0]}", [sparse, texts], [words], [np.array(1000, I64), np.array(True), np.array(salt, I64)])
        yield cross("strong_one", [sparse], last=[more[0], np.array(True), more[2]])
        yield cross("half_numbers", [(sparse[0], np.array([1 << 40 | 5, 5, 1 << 33], I64), sparse[2])])
        yield cross("wrong_salt", [sparse], last=[*more[:2], np.array([1, 2, 3], I64)], error="")
    if op != "SparseCrossHashed":
        unordered = np.array([[2, 0], [0, 0], [1, 0]], I64)
        yield cross("unordered", [(unordered, sparse[1], np.array([3, 1], I64))])
        yield cross("beyond", [(np.array([[0, 0], [1, 0], [5, 0]], I64), sparse[1], np.array([3, 1], I64))])
        yield cross("negative", [(np.array([[-1, 0], [0, 0], [1, 0]], I64), sparse[1], np.array([3, 1], I64))])
        for label, feature, error in (
                ("vector", (sparse[0][:, 0], sparse[1], sparse[2]), "Input indices should be a matrix but received shape [3] at position 0"),
                ("columns", (np.zeros([3, 3], I64), sparse[1], sparse[2]), "Expected D2 of index to be 2 got 3 at position 0"),
                ("matrix", (sparse[0], sparse[1].reshape(3, 1), sparse[2]), "Input values should be a vector but received shape [3,1] at position 0"),
                ("count", (sparse[0], sparse[1][:2], sparse[2]), "Expected size of values to be 3 got 2 at position 0"),
                ("shape", (sparse[0], sparse[1], np.array([[3, 2]], I64)), "Input shapes should be a vector but received shape [1,2] at position 0"),
                ("shape_3", (sparse[0], sparse[1], np.array([3, 2, 1], I64)), "shape should imply a 2D tensor, but got [3] at position 0")):
            yield cross(f"wrong_{label}", [feature], error=error)
        yield cross("wrong_batch", [sparse, (sparse[0], sparse[1], np.array([4, 2], I64))], error="Expected batch size 3 got 4 at position 1")
        yield cross("wrong_dense_batch", [sparse], [dense[:2]], error="Expected batch size 3 got 2 at dense tensor 0")
        yield cross("wrong_dense", of_dense=[dense[0]], error="Dense inputs should be a matrix but received shape [2] at position 0")


def ragged_crosses():
    def cross(name, order, ragged=(), sparse=(), dense=(), rows=I64, error=None, **attrs):
        attrs = {"input_order": order, "hashed_output": True, "num_buckets": 0, "hash_key": 956888297470, "out_values_type": I64,
                 "out_row_splits_type": rows, **attrs}
        lists = [[r[0] for r in ragged], [r[1] for r in ragged], [s[0] for s in sparse], [s[1] for s in sparse], [s[2] for s in sparse], dense]
        return Case(f"RaggedCross_{name}", "RaggedCross", [L(values) for values in lists], attrs, error=error)
    a, b = (np.array([3, 1, 4, 1, 5], I64), np.array([0, 2, 2, 5], I64)), (np.array([9, -2, 6], I64), np.array([0, 1, 2, 3], I64))
    small = (a[0], a[1].astype(np.int32))
    words = (np.array(["a", "", "a long text of more than thirty-two bytes"], object), np.array([0, 2, 2, 3], I64))
    dense, texts = np.array([[1, 2], [3, 4], [5, 6]], I64), np.array([["x", "yz"], ["", "x"], ["p", "q"]], object)
    sparse = (np.array([[0, 0], [0, 1], [2, 0]], I64), np.array([5, 7, 11], I64), np.array([3, 2], I64))
    yield cross("ragged", "RR", [a, b])
    yield cross("buckets", "RR", [a, b], num_buckets=7)
    yield cross("key", "RR", [b, a], hash_key=-3)
    yield cross("one", "R", [a])
    yield cross("small_rows", "RR", [small, small], rows=np.int32)
    yield cross("dense", "DD", dense=[dense, texts])
    yield cross("all", "SRDR", [a, words], [sparse], [dense])
    yield cross("order", "DRSR", [words, a], [sparse], [dense], num_buckets=100)
    yield cross("sparse", "SS", sparse=[sparse, (sparse[0], words[0], sparse[2])])
    yield cross("empty", "RD", [(a[0][:0], np.zeros(4, I64))], dense=[dense])
    yield cross("no_rows", "R", [(a[0][:0], np.zeros(1, I64))])
    yield cross("batches", "RD", [a], dense=[dense[:2]], error="same batch dimension size")
    yield cross("splits", "R", [(a[0], np.array([0, 3, 2, 5], I64))], error="")
    yield cross("too_few_values", "R", [(a[0], np.array([0, 2, 2, 9], I64))], error="")
    yield cross("kinds", "RS", [a], dense=[dense], error="")
    text = {"hashed_output": False, "out_values_type": tf.string}
    for rows in (np.int32, I64):
        of_rows = [(v, s.astype(rows)) for v, s in (a, b, words)]
        yield cross(f"text_{np.dtype(rows).name}", "RR", of_rows[:2], rows=rows, **text)
        yield cross(f"text_all_{np.dtype(rows).name}", "SRDR", [of_rows[0], of_rows[2]], [sparse], [texts], rows=rows, **text)
    yield cross("text_order", "DRSR", [words, a], [sparse], [dense], **text)
    yield cross("text_one", "R", [words], **text)
    yield cross("text_dense", "DD", dense=[dense, texts], **text)
    yield cross("text_sparse", "SS", sparse=[sparse, (sparse[0], words[0], sparse[2])], **text)
    yield cross("text_empty", "RD", [(a[0][:0], np.zeros(4, I64))], dense=[dense], **text)
    yield cross("text_no_rows", "R", [(a[0][:0], np.zeros(1, I64))], **text)
    yield cross("text_no_features", "", **text)
    # Which of texts and hashes is made follows from the output's type.
    yield cross("text_flagged", "R", [a], **{**text, "hashed_output": True})
    yield cross("hash_not_flagged", "R", [a], hashed_output=False)
    earlier = np.array([[1, 0], [0, 0], [7, 0]], I64)
    yield cross("text_earlier", "S", sparse=[(earlier, sparse[1], np.array([3, 1], I64))], **text)
    for label, order, ragged, of_sparse, of_dense, error in (
            ("batches", "RD", [a], [], [dense[:2]], "inputs must all have the same batch dimension size."),
            ("batches_sparse", "RS", [a], [(sparse[0], sparse[1], np.array([4, 2], I64))], [], "inputs must all have the same batch dimension size."),
            ("order", "X", [a], [], [], "Unexpected input_order value."), ("order_length", "RR", [a], [], [], "Invalid length for input_order"),
            ("order_kind", "S", [a], [], [], "input_order \"S\""),
            ("splits_fall", "R", [(a[0], np.array([0, 3, 2, 5], I64))], [], [], "ragged splits must be monotonically increasing, but ragged_splits[2]=2 is smaller than row_splits[1]=3"),
            ("splits_begin", "R", [(a[0], np.array([1, 2, 2, 5], I64))], [], [], "first element of ragged splits  must be 0 but is 1"),
            ("splits_end", "R", [(a[0], np.array([0, 2, 2, 9], I64))], [], [], "last element of ragged splits must be the number of ragged values(5) but is 9"),
            ("no_splits", "R", [(a[0], np.zeros(0, I64))], [], [], "ragged splits must have at least one splits, but is empty"),
            ("rank", "R", [(a[0].reshape(5, 1), a[1])], [], [], "tf.ragged.cross only supports inputs with rank=2."),
            ("dense_rank", "D", [], [], [dense[0]], "tf.ragged.cross only supports inputs with rank=2"),
            ("sparse", "S", [], [(sparse[0][0], sparse[1], sparse[2])], [], "Invalid SparseTensor 0"),
            ("sparse_rank", "S", [], [(sparse[0], sparse[1], np.array([3, 2, 2], I64))], [], "tf.ragged.cross only supports inputs with rank=2.")):
        yield cross(f"text_wrong_{label}", order, ragged, of_sparse, of_dense, error=error, **text)


def cases():
    yield from ragged_crosses()
    yield from to_sparse()
    yield from counts()
    yield from counts_there()
    yield from gathers()
    yield from sets()
    yield from ranges()
    yield from crosses()
