"""Numbers in the bytes of strings, base 64, Unicode. Outputs that are strings have no memory: tests/session/string_codes_test.cc."""
import numpy as np
import tensorflow as tf

from case_builder import Case

TEXTS = ["", "abc", "Grüße", "日本\U0001F600", "\t x"]


def strings(values):
    return np.array(values, object)


def cases():
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
        yield Case(f"{op}_strict", op, [strings([b"a", b"\xff"])], {"input_encoding": "UTF-8", "errors": "strict"}, error="Invalid formatting on input string")
        yield Case(f"{op}_empty", op, [np.zeros([0], object)], {"input_encoding": "UTF-8"})
