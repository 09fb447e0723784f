"""Assert and Print; the outputs of summaries are strings and are not compared."""
import numpy as np

from case_builder import Case, Gen, L

i32, f32 = np.int32, np.float32


def cases():
    yes, no = np.array(True), np.array(False)
    x = np.arange(12, dtype=f32).reshape(3, 4) / 4
    yield Case("Assert_true", "Assert", [yes, L(["fine"])])
    yield Case("Assert_message", "Assert", [no, L(["x must be positive", x])],
               error="assertion failed: [x must be positive] [[0 0.25 0.5...")
    yield Case("Assert_all", "Assert", [no, L([np.array([1, 2], i32), np.array(True), x])], {"summarize": 20},
               error="assertion failed: [1 2] [1] [[0 0.25 0.5 0.75][1 1.25 1.5 1.75][2 2.25 2.5 2.75]]")
    yield Case("Assert_row", "Assert", [no, L([x, f32(1e-9), np.array([], f32)])], {"summarize": 4},
               error="assertion failed: [[0 0.25 0.5 0.75]...] [1e-09] []")
    yield Case("Assert_strings", "Assert", [no, L([np.array(["a", "b"], object)])], error="assertion failed: [a b]")
    yield Case("Print", "Print", [x, L([x, i32(3)])], {"message": "x: ", "first_n": 1})
    yield Case("Print_int32", "Print", [np.arange(3), L([])])
    yield Case("ScalarSummary", "ScalarSummary", ["loss", f32(2)])
    yield Case("HistogramSummary", "HistogramSummary", ["h", x])
    method = np.array("farmhash64", object)
    for dtype in (np.float32, np.int64, np.uint8, np.bool_, np.float16):
        yield Case(f"Fingerprint_{np.dtype(dtype).name}", "Fingerprint", [Gen((5, 3, 2), dtype, 0, 2), method])
    yield Case("Fingerprint_vector", "Fingerprint", [np.arange(4, dtype=i32), method])
    texts = np.array([["ab", "c"], ["a", "bc"], ["", "a text of more than sixty-four bytes, so that every branch of the hash is taken"]], object)
    yield Case("Fingerprint_strings", "Fingerprint", [texts[:, 1], method])
    yield Case("Fingerprint_rows_of_strings", "Fingerprint", [texts, method])
    yield Case("Fingerprint_no_strings", "Fingerprint", [texts[:0], method])
    yield Case("Fingerprint_empty", "Fingerprint", [x[:0], method])
    yield Case("Fingerprint_empty_rows", "Fingerprint", [x[:, :0], method])
    yield Case("Fingerprint_large", "Fingerprint", [Gen((2000, 100)), method])
    yield Case("Fingerprint_method", "Fingerprint", [x, np.array("md5", object)], error="Unsupported fingerprint method: md5")
    yield Case("Fingerprint_scalar", "Fingerprint", [i32(3), method], error="")
    yield Case("StringFormat", "StringFormat", [L([x])], {"template": "x is %s"})
    for template in ("none", "%s and %s"):
        yield Case(f"StringFormat_{len(template)}", "StringFormat", [L([x])], {"template": template},
                   error="num placeholders in template and num inputs must match: ")
    for template in ("", "a", "ab", "abc"):
        numbers = [i32(k) for k in range(len(template) - 1)]
        yield Case(f"StringFormat_{len(template)}_characters", "StringFormat", [L(numbers)], {"template": template, "placeholder": ""})
    yield Case("StringFormat_too_few_characters", "StringFormat", [L([x])], {"template": "a", "placeholder": ""},
               error="num placeholders in template and num inputs must match: 0 vs. 1")
    for op in ("StringLower", "StringUpper"):
        yield Case(f"{op}_encoding", op, [np.array(["aB"], object)], {"encoding": "UTF-8"},
                   error="only utf-8 or '' (no encoding) is supported, received UTF-8")
    for label, attrs in (("fill", {"fill": "x"}), ("precision", {"precision": 0}), ("scientific", {"scientific": True}), ("shortest", {"shortest": True})):
        yield Case(f"AsString_bool_{label}", "AsString", [np.array([True])], attrs, error="")
    yield Case("AsString", "AsString", [x])
    words = np.array(["a", "b"], object)
    yield Case("Pack_strings", "Pack", [L([words, words])])
    yield Case("StridedSlice_strings", "StridedSlice", [words] + [np.array([k], i32) for k in (0, 1, 1)])
    yield Case("Reshape_strings", "Reshape", [words, np.array([2, 1], i32)])
    yield Case("StringJoin", "StringJoin", [L([np.array(["a", "b"], object), "c"])])
    numbers = [np.array([0, -7, 123], t) for t in (np.int8, np.int16, i32, np.int64)] + [np.array([0, 250], np.uint8), np.array([True, False])]
    for value in numbers:
        yield Case(f"AsString_{value.dtype}", "AsString", [value])
    yield Case("AsString_width", "AsString", [np.array([3, -45], i32)], {"width": 5, "fill": "0"})
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64, np.int8):
        for fill in ("+", " "):
            yield Case(f"AsString_sign_{np.dtype(dtype).name}_{ord(fill)}", "AsString", [np.array([0, 5, 100], dtype)], {"fill": fill})
    yield Case("AsString_precision", "AsString", [np.array([3.14159, 1e-5], np.float64)], {"precision": 2})
    yield Case("AsString_shortest", "AsString", [np.array([0.1, 1e10], f32)], {"shortest": True})
    yield Case("AsString_scientific", "AsString", [np.array([0.1, 1e10], f32)], {"scientific": True, "precision": 3})
    yield Case("AsString_fill", "AsString", [np.array([1], i32)], {"fill": "x"}, error="Fill argument not supported")
    texts = np.array([["Some", " WORDS\t"], ["", "a text of more than sixty-four bytes, so that every branch of the hash is taken by it"]], object)
    for op in ("StringLower", "StringUpper", "StringStrip", "StringLength"):
        yield Case(op, op, [texts])
    yield Case("StringJoin_separator", "StringJoin", [L([texts, "-", texts])], {"separator": ", "})
    hashed = np.array(["x" * k for k in (0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 200)], object)
    yield Case("StringToHashBucket", "StringToHashBucket", [hashed], {"num_buckets": 1 << 62})
    yield Case("StringToHashBucket_small", "StringToHashBucket", [texts], {"num_buckets": 7})
    yield Case("StringToHashBucketFast", "StringToHashBucketFast", [hashed], {"num_buckets": 1 << 62})
    yield Case("StringToHashBucketFast_small", "StringToHashBucketFast", [texts], {"num_buckets": 7})
    yield Case("StringToHashBucketStrong", "StringToHashBucketStrong", [hashed], {"num_buckets": 1 << 62, "key": [123, -4]})
    yield Case("StringToHashBucketStrong_key", "StringToHashBucketStrong", [hashed], {"num_buckets": 5, "key": [1]}, error="Key must have 2 elements")
    for t in ("float32", "float64", "int32", "int64"):
        yield Case(f"StringToNumber_{t}", "StringToNumber", [np.array(["3", "-12"], object)], {"out_type": getattr(np, t)})
    yield Case("StringToNumber_fraction", "StringToNumber", [np.array(["2.5e-3"], object)])
    yield Case("StringToNumber_wrong", "StringToNumber", [np.array(["four"], object)], error="could not correctly convert string: four")
    yield Case("GatherV2_strings", "GatherV2", [texts, np.array([1, 0, 1], i32), i32(1)])
    yield Case("ConcatV2_strings", "ConcatV2", [L([texts, texts]), i32(1)])
    yield from pieces()
    yield from patterns()


def pieces():
    """Strings that are cut and put together; texts are bytes."""
    texts = np.array([["Some", " WORDS\t"], ["xyz", "\u00e4\u00f6"]], object)
    rows = np.array(["a,b,,c", "", ",", "a b\t c ", "   ", ", a"], object)
    for dtype in (i32, np.int64):
        yield Case(f"Substr_{np.dtype(dtype).name}", "Substr", [texts, dtype(1), dtype(2)])
    yield Case("Substr_from_the_end", "Substr", [texts, i32(-2), i32(9)])
    yield Case("Substr_none", "Substr", [texts, i32(3), i32(0)])
    yield Case("Substr_negative_size", "Substr", [texts, i32(1), i32(-1)])
    yield Case("Substr_each", "Substr", [texts, np.array([[0, 1], [2, 3]], i32), np.array([[1, 2], [0, 9]], i32)])
    yield Case("Substr_rows", "Substr", [texts, np.array([1, 2], i32), np.array([2, 1], i32)])
    yield Case("Substr_of_one", "Substr", ["a long text", np.array([1, 2, 3], i32), np.array([2, 1, 5], i32)])
    yield Case("Substr_empty", "Substr", [texts[:0], i32(1), i32(2)])
    yield Case("Substr_outside", "Substr", [texts, i32(4), i32(1)], error="pos 4 out of range for string b'xyz' at index 2")
    yield Case("Substr_before", "Substr", [texts, i32(-5), i32(1)], error="pos -5 out of range for string b'Some' at index 0")
    yield Case("Substr_shapes", "Substr", [texts, np.array([1, 2], i32), i32(1)], error="")
    for separator in ("", ",", " ", ", "):
        name = {"": "space", ",": "comma", " ": "blank", ", ": "both"}[separator]
        yield Case(f"StringSplitV2_{name}", "StringSplitV2", [rows, separator])
        for most in (0, 1, 2):
            yield Case(f"StringSplitV2_{name}_{most}", "StringSplitV2", [rows, separator], {"maxsplit": most})
        for skip in (True, False):
            yield Case(f"StringSplit_{name}_{skip}", "StringSplit", [rows, separator], {"skip_empty": skip})
    yield Case("StringSplitV2_empty", "StringSplitV2", [rows[:0], ","])
    yield Case("StringSplitV2_matrix", "StringSplitV2", [texts, ","], error="")
    yield Case("StringSplit_empty", "StringSplit", [rows[:0], ","])
    yield Case("StringSplit_matrix", "StringSplit", [texts, ","], error="")
    cube = np.array([[["a", "b", "c"], ["d", "e", "f"]], [["g", "h", "i"], ["j", "", "l"]]], object)
    for axes in ([0], [1], [-1], [0, 1], [1, 0], [2, 0], [0, 1, 2], []):
        name = "_".join(str(a).replace("-", "m") for a in axes) or "none"
        yield Case(f"ReduceJoin_{name}", "ReduceJoin", [cube, np.array(axes, i32)], {"separator": "-"})
    words, splits = np.array(["a", "b", "c", "", "e", "f"], object), np.array([0, 3, 3, 4, 6], np.int64)
    for name, more in {"pairs": {"ngram_widths": [2]}, "both": {"ngram_widths": [1, 3], "separator": "|"},
                       "padded": {"ngram_widths": [2, 4], "pad_width": -1, "left_pad": "<", "right_pad": ">"},
                       "padded_once": {"ngram_widths": [3, 1], "pad_width": 1, "left_pad": "<", "right_pad": ">"},
                       "short": {"ngram_widths": [3], "preserve_short_sequences": True},
                       "short_padded": {"ngram_widths": [5], "pad_width": 1, "left_pad": "<", "right_pad": ">", "preserve_short_sequences": True}}.items():
        attrs = {"separator": " ", "left_pad": "", "right_pad": "", "pad_width": 0, "preserve_short_sequences": False, **more}
        yield Case(f"StringNGrams_{name}", "StringNGrams", [words, splits], attrs)
        yield Case(f"StringNGrams_{name}_int32", "StringNGrams", [words, splits.astype(i32)], attrs)
    yield Case("StringNGrams_empty", "StringNGrams", [words[:0], np.array([0, 0], np.int64)], attrs)
    yield Case("StringNGrams_falling", "StringNGrams", [words, np.array([0, 4, 3, 6], np.int64)], attrs, error="Invalid split value 3, must be in [4, 6]")
    yield Case("StringNGrams_first", "StringNGrams", [words, np.array([1, 6], np.int64)], attrs, error="First split value must be 0, got 1")
    yield Case("StringNGrams_last", "StringNGrams", [words, np.array([0, 5], np.int64)], attrs, error="Last split value must be data size. Expected 6, got 5")
    yield Case("ReduceJoin_kept", "ReduceJoin", [cube, np.array([2, 0], i32)], {"keep_dims": True})
    yield Case("ReduceJoin_scalar_axis", "ReduceJoin", [cube, i32(1)])
    yield Case("ReduceJoin_empty", "ReduceJoin", [cube[:, :0], np.array([1], i32)], {"separator": "-"})
    yield Case("ReduceJoin_outside", "ReduceJoin", [cube, np.array([3], i32)], error="")
    yield Case("ReduceJoin_twice", "ReduceJoin", [cube, np.array([1, -2], i32)], error="Duplicate reduction dimension")


def patterns():
    texts = np.array([["Hello, World!", "a.b-c"], ["", "\u00e4\u00f6 123 45"]], object)
    for k, (pattern, rewrite) in enumerate((("[!-/]", ""), (r"(\w+), (\w+)", r"\2 \1"), (r"[[:digit:]]+", "#"), ("", "-"), (r"\s", ""), (".", "x"))):
        for all_ in (True, False):
            yield Case(f"StaticRegexReplace_{k}_{all_}", "StaticRegexReplace", [texts], {"pattern": pattern, "rewrite": rewrite, "replace_global": all_})
            yield Case(f"RegexReplace_{k}_{all_}", "RegexReplace", [texts, pattern, rewrite], {"replace_global": all_})
    for k, pattern in enumerate(("H.*", r".*\d\d", "", "(?i)hello.*", r"\pL\pL 123 45")):
        yield Case(f"StaticRegexFullMatch_{k}", "StaticRegexFullMatch", [texts], {"pattern": pattern})
        yield Case(f"RegexFullMatch_{k}", "RegexFullMatch", [texts, pattern])
    yield Case("RegexReplace_wrong", "RegexReplace", [texts, "(", ""], error="Invalid pattern: (, error: ")
    yield Case("RegexReplace_patterns", "RegexReplace", [texts, np.array(["a", "b"], object), ""], error="")
    yield Case("StaticRegexReplace_wrong", "StaticRegexReplace", [texts], {"pattern": "(", "rewrite": ""}, error="Invalid pattern: (, error: ")
    yield Case("RegexFullMatch_wrong", "RegexFullMatch", [texts, "["], error="Invalid pattern: [, error: ")
    yield Case("RegexFullMatch_empty", "RegexFullMatch", [texts[:0], "a"])
    yield Case("StaticRegexFullMatch_empty", "StaticRegexFullMatch", [texts[:0]], {"pattern": "a"})
