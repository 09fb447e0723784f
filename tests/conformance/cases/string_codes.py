"""Numbers in the bytes of strings, base 64, Unicode, records of features. Outputs that are strings have no memory: tests/session
(string_codes_test.cc, example_records_test.cc)."""
import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, L

TEXTS = ["", "abc", "Grüße", "日本\U0001F600", "\t x"]


def strings(values):
    return np.array(values, object)


def example(**features):
    """A serialized tf.train.Example; a feature is a list of numbers or of bytes, or None for one that says nothing."""
    record = tf.train.Example()
    for key, values in features.items():
        feature = record.features.feature[key]
        if values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values is not None:
            feature.int64_list.value.extend(values)
    return record.SerializeToString()


def parse(name, op, records, sparse=(), dense=(), ragged=(), names=(), **case):
    """sparse: (key, type); dense: (key, default, shape); ragged: (key, type, type of its splits)."""
    def keys(of):
        return strings([feature[0].encode() for feature in of]) if of else np.zeros([0], object)
    attrs = {"sparse_types": [tf.as_dtype(t) for _, t in sparse], "Tdense": [tf.as_dtype(default.dtype) for _, default, _ in dense],
             "dense_shapes": [shape for _, _, shape in dense]}
    defaults = L([default for _, default, _ in dense])
    names = strings(names) if names else np.zeros([0], object)
    if op == "ParseSingleExample":
        attrs.update(num_sparse=len(sparse), sparse_keys=[k.encode() for k, _ in sparse], dense_keys=[k.encode() for k, _, _ in dense])
        return Case(name, op, [records, defaults], attrs, **case)
    if op == "ParseExample":
        scalars = [L([strings(feature[0].encode()) for feature in of]) for of in (sparse, dense)]
        return Case(name, op, [records, names, *scalars, defaults], attrs, **case)
    attrs.update(num_sparse=len(sparse), ragged_value_types=[tf.as_dtype(t) for _, t, _ in ragged],
                 ragged_split_types=[tf.as_dtype(t) for _, _, t in ragged])
    return Case(name, op, [records, names, keys(sparse), keys(dense), keys(ragged), defaults], attrs, **case)


def parse_cases():
    none, ints, floats = np.zeros([0], np.float32), np.int64, np.float32
    rows = strings([example(a=[1.5, -2.0], n=[7, -8, 9], w=[3], v=[2.5]), example(a=[0.25, 4.0], n=[], w=[-5], other=[b"x"]),
                    example(a=[np.inf, np.nan], w=[1 << 62], v=[1.0, -1.0])])
    dense = [("a", none, [2]), ("w", np.zeros([0], ints), [])]
    for op in ("ParseExample", "ParseExampleV2"):
        yield parse(f"{op}_mixed", op, rows, [("n", ints), ("v", floats), ("absent", floats)], dense)
        yield parse(f"{op}_dense", op, rows, dense=dense)
        yield parse(f"{op}_sparse", op, rows, sparse=[("n", ints)])
        yield parse(f"{op}_defaults", op, rows, dense=[("b", np.array([[1, 2], [3, 4]], floats), [2, 2]), ("c", np.array(6, ints), [])])
        yield parse(f"{op}_padded", op, strings([example(n=[1, 2, 3, 4]), example(), example(n=[5, 6])]),
                    dense=[("n", np.array([9], ints), [None, 2])])
        yield parse(f"{op}_no_rows", op, np.zeros([0], object), [("n", ints)], [("a", none, [2])])
        yield parse(f"{op}_required", op, rows, dense=[("n", np.zeros([0], ints), [3])], error="Values size: 0 but output shape: [3]")
        yield parse(f"{op}_missing", op, rows, dense=[("m", none, [3])], error="Feature: m (data type: float) is required but could not be found.")
        yield parse(f"{op}_named", op, rows, dense=[("m", none, [3])], names=[b"p", b"q", b"r"], error="Name: p, Feature: m")
        yield parse(f"{op}_type", op, rows, dense=[("w", none, [1])], error="Data types don't match. Data type: int64 but expected type: float")
        yield parse(f"{op}_default_shape", op, rows, dense=[("a", np.array([1], floats), [2])], error="is not compatible with dense_shapes_[0]")
        yield parse(f"{op}_stride", op, strings([example(n=[1, 2, 3])]), dense=[("n", np.array([9], ints), [None, 2])], error="is not a multiple of stride length")
        yield parse(f"{op}_wrong", op, strings([b"movie was good"]), sparse=[("n", ints)], error="Could not parse example input, value: 'movie was good'")
    for splits in (np.int32, np.int64):
        yield parse(f"ParseExampleV2_ragged_{np.dtype(splits)}", "ParseExampleV2", rows, (), dense, [("n", ints, splits), ("v", floats, splits), ("absent", ints, splits)])
    for op in ("ParseExampleV2", "ParseSingleExample"):
        one = strings(example(a=[1.5, -2.0], n=[7, -8, 9], w=[3], texts=[b"x", b""]))
        yield parse(f"{op}_one", op, one, [("n", ints), ("absent", floats)], dense)
        yield parse(f"{op}_one_default", op, one, dense=[("b", np.array([1, 2], floats), [2]), ("n", np.array([9], ints), [None])])
        yield parse(f"{op}_one_missing", op, one, dense=[("m", none, [3])], error="Feature: m (data type: float) is required but could not be found.")
    yield parse("ParseExampleV2_one_ragged", "ParseExampleV2", strings(example(n=[4, 5])), ragged=[("n", ints, np.int32)])


def field(number, content):
    """A field of a message: its number, that bytes follow, how many, the bytes (fewer than 128)."""
    return bytes([number << 3 | 2, len(content)]) + content


def feature_records(*features):
    """A record of features n that are these bytes, each with a feature v."""
    v = field(1, field(1, b"v") + field(2, field(2, field(1, np.array([2.5], np.float32).tobytes()))))
    return strings([field(1, field(1, field(1, b"n") + field(2, feature)) + v) for feature in features])


def odd_record_cases():
    """Features that no writer of today makes."""
    ints, floats, none = np.int64, np.float32, np.zeros([0], np.int64)
    one, two = field(3, field(1, b"\5")), field(3, field(1, b"\6"))
    float_list = field(2, field(1, np.array([1.5], np.float32).tobytes()))
    chunks, singles, mixed = field(3, field(1, b"\5") + field(1, b"\6\7")), field(3, b"\x08\5\x08\6"), field(3, b"\x08\5" + field(1, b"\6"))
    broken, entry = field(3, field(1, b"\xff" * 11)), field(1, field(1, b"n") + field(2, one))
    for op in ("ParseExample", "ParseExampleV2"):
        yield parse(f"{op}_first_of_two_lists", op, feature_records(one + two, two + one), [("n", ints)])
        yield parse(f"{op}_first_chunk", op, feature_records(chunks, singles), [("n", ints)])
        yield parse(f"{op}_first_of_two_kinds", op, feature_records(float_list + one), dense=[("n", none, [1])],
                    error="Data types don't match. Data type: float but expected type: int64")
        yield parse(f"{op}_broken_beside", op, feature_records(one, broken, mixed, b"\x18\5"), dense=[("v", np.zeros([0], floats), [1])])
        for label, feature in (("broken", broken), ("mixed", mixed)):
            yield parse(f"{op}_list_{label}", op, feature_records(one, feature), dense=[("n", none, [1])],
                        error="Name: <unknown>, Key: n, Index: 1.  Can't parse serialized Example.")
        yield parse(f"{op}_no_list", op, feature_records(one, b"\x18\5"), dense=[("n", none, [1])], error="")
        yield parse(f"{op}_no_key", op, strings([field(1, field(1, field(2, one)))]), [("n", ints)], error="Could not parse example input")
        for label, fields in (("message", entry + field(2, b"ab")), ("number", b"\x10\5" + entry)):
            yield parse(f"{op}_other_{label}", op, strings([field(1, fields)]), [("n", ints)], error="Could not parse example input")
        yield parse(f"{op}_beside_features", op, strings([field(2, b"ab") + field(1, entry)]), [("n", ints)])
        yield parse(f"{op}_nothing_required", op, strings([example(), example()]), dense=[("n", none, [0])],
                    error="Feature: n (data type: int64) is required but could not be found.")
        yield parse(f"{op}_too_few_names", op, feature_records(one, two), [("n", ints)], names=[b"p"], error="Expected names have the same shape as serialized")
    for label, feature in (("first_of_two_lists", one + two), ("first_chunk", chunks)):
        yield parse(f"ParseSingleExample_{label}", "ParseSingleExample", strings(feature_records(feature)[0]), [("n", ints)])


def script_cases():
    codes = np.array([0, 31, 38, 0x41, 0xe9, 0x3b1, 0x430, 0x5d0, 0x627, 0x905, 0xe01, 0x30ab, 0x3042, 0x4e00, 0xac00, 0x300, 0x2028, 0x378,
                      0xd800, 0xe000, 0xffff, 0x1f600, 0x20000, 0x10ffff, 0x110000, -1, 2**31 - 1, -2**31], np.int32)
    yield Case("UnicodeScript", "UnicodeScript", [codes])
    yield Case("UnicodeScript_matrix", "UnicodeScript", [codes.reshape(4, 7)])
    yield Case("UnicodeScript_scalar", "UnicodeScript", [np.int32(0x416)])
    yield Case("UnicodeScript_empty", "UnicodeScript", [codes[:0]])
    yield Case("UnicodeScript_rank8", "UnicodeScript", [codes[:4].reshape(1, 2, 1, 1, 1, 1, 1, 2)])
    yield Case("UnicodeScript_large", "UnicodeScript", [Gen((300, 400), np.int32, 0x20, 0x300)])


def cases():
    yield from parse_cases()
    yield from script_cases()
    yield from odd_record_cases()
    eight = strings([[bytes(range(8 * k, 8 * k + 8)) for k in range(3)]] * 2)
    for t in ("int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64"):
        yield Case(f"DecodeRaw_{t}", "DecodeRaw", [eight], {"out_type": np.dtype(t)})
    yield Case("DecodeRaw_bool", "DecodeRaw", [strings([b"\0\1\1\0"])], {"out_type": np.bool_})
    for t in ("int16", "float32", "int64", "complex64"):
        yield Case(f"DecodeRaw_big_{t}", "DecodeRaw", [eight], {"out_type": np.dtype(t), "little_endian": False})
    yield Case("DecodeRaw_bfloat16", "DecodeRaw", [eight], {"out_type": tf.bfloat16})
    yield Case("DecodePaddedRaw_bfloat16", "DecodePaddedRaw", [strings([b"0123", b"45"]), np.int32(4)], {"out_type": tf.bfloat16})
    yield Case("DecodePaddedRaw_empty", "DecodePaddedRaw", [np.zeros([0], object), np.int32(4)], {"out_type": np.int32})
    yield Case("DecodePaddedRaw_rank8", "DecodePaddedRaw", [strings([b"0123", b"45"]).reshape(1, 1, 1, 1, 1, 1, 1, 2), np.int32(4)], {"out_type": np.int16})
    yield Case("DecodePaddedRaw_nan", "DecodePaddedRaw", [strings([np.array([np.nan, 1], np.float32).tobytes()]), np.int32(8)], {"out_type": np.float32})
    yield Case("DecodeRaw_scalar", "DecodeRaw", [strings(b"\1\2\3\4")], {"out_type": np.int32})
    yield Case("DecodeRaw_empty", "DecodeRaw", [strings(["", ""])], {"out_type": np.int32})
    yield Case("DecodeRaw_sizes", "DecodeRaw", [strings([b"1234", b"12"])], {"out_type": np.int16}, error="DecodeRaw requires input strings to all be the same size")
    yield Case("DecodeRaw_multiple", "DecodeRaw", [strings([b"123"])], {"out_type": np.int16}, error="that is not a multiple of 2, the size of int16")
    for t in ("uint8", "int16", "int32", "float32", "float64", "int64"):
        yield Case(f"DecodePaddedRaw_{t}", "DecodePaddedRaw", [strings([b"0123456789abcdef", b"01234567xyz", b"", b"0123456789abcdefgh"]), np.int32(16)], {"out_type": np.dtype(t)})
    yield Case("DecodePaddedRaw_big", "DecodePaddedRaw", [strings([b"01234567", b"01"]), np.int32(8)], {"out_type": np.int32, "little_endian": False})
    yield Case("DecodePaddedRaw_multiple", "DecodePaddedRaw", [strings([b"0123"]), np.int32(6)], {"out_type": np.int32}, error="must be a multiple of the size of out_type (4)")
    wrong = [b"a\xffb", b"\xe6\x97", b"\xed\xa0\x80z", b"\xf0\x9f\x98\x80\xf0\x9f", b"\xc0\x80", b"\x01ok", b"\xf4\x90\x80\x80"]
    for op in ("UnicodeDecode", "UnicodeDecodeWithOffsets"):
        yield Case(op, op, [strings([t.encode() for t in TEXTS])], {"input_encoding": "UTF-8"})
        for encoding in ("UTF-16-BE", "UTF-16-LE", "UTF-32-BE", "UTF-32-LE"):
            coded = strings([t.encode(encoding.replace("-BE", "be").replace("-LE", "le")) for t in TEXTS])
            yield Case(f"{op}_{encoding}".replace("-", "_"), op, [coded], {"input_encoding": encoding})
        yield Case(f"{op}_latin1", op, [strings([b"Gr\xfc\xdfe"])], {"input_encoding": "ISO-8859-1"})
        yield Case(f"{op}_ascii", op, [strings([b"plain \xfc"])], {"input_encoding": "US-ASCII"})
        for errors in ("replace", "ignore"):
            yield Case(f"{op}_{errors}", op, [strings(wrong)], {"input_encoding": "UTF-8", "errors": errors})
            yield Case(f"{op}_{errors}_control", op, [strings(wrong)], {"input_encoding": "UTF-8", "errors": errors, "replace_control_characters": True,
                                                                       "replacement_char": 63})
        yield Case(f"{op}_utf16_wrong", op, [strings([b"\xd8\x00\x00a", b"\xdc\x00\x00b", b"\x00", b"\xd8\x00"])], {"input_encoding": "UTF-16-BE"})
        yield Case(f"{op}_strict_control", op, [strings([b"\t x\n", b"\x7f\x1f"])], {"input_encoding": "UTF-8", "errors": "strict",
                                                                                  "replace_control_characters": True})
        yield Case(f"{op}_strict", op, [strings([b"a", b"\xff"])], {"input_encoding": "UTF-8", "errors": "strict"}, error="Invalid formatting on input string")
        yield Case(f"{op}_empty", op, [np.zeros([0], object)], {"input_encoding": "UTF-8"})
