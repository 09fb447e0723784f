"""Records in strings: comma-separated values, serialized SequenceExamples, serialized tensors; names of a checkpoint's files."""
import gzip
import zlib

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from case_builder import Case, Gen, L, bfloat16
from cases.string_codes import field, strings

F, I, I32 = np.float32, np.int64, np.int32
NONE = np.zeros([0], object)


def csv(name, records, defaults, error=None, **attrs):
    return Case(f"CSV_{name}", "DecodeCSV", [strings(records), L(defaults)], attrs, error=error)


def csv_cases():
    f, d, i, n, s = np.array([1.5], F), np.array([2.5], np.float64), np.array([7], I32), np.array([8], I), strings(["none"])
    required, scalar = np.zeros([0], F), np.array(4, F)
    yield csv("types", ["1,2,3,4,five", "-1e3,.5,+6,-9223372036854775808,", "nan,inf,0,0, x "], [f, d, i, n, s])
    yield csv("defaults", [",,,,", "1,,3,,b"], [f, d, i, n, s])
    yield csv("scalar", "1,x", [f, s])
    yield csv("matrix", [["1,a", "2,b", "3,c"], ["4,d", "5,e", "6,f"]], [f, s])
    yield csv("rank8", np.array(["1,2", "3,4"], object).reshape(1, 1, 1, 2, 1, 1, 1, 1), [f, i])
    yield csv("no_records", np.zeros([0, 3], object), [f, s])
    yield csv("scalar_default", [",2", "3,"], [scalar, i])
    yield csv("required", ["1,2", "3,4"], [required, np.zeros([0], I)])
    yield csv("floats", [f"{t},{t}" for t in ("inf", "-Infinity", "0x1p3", "1e400", "-1e400", "1e-46", " 1 ", "nan(123)", "+5", "5.", "-0")], [f, d])
    yield csv("integers", ["+5,-5", " 7 ,\t8", "007,-0", "2147483647,9223372036854775807"], [i, n])
    yield csv("quotes", ['"a""b,c","x"', '"","y"', '"a\nb",z', '"""",""""""', '",",","', '"x"""," "'], [s, s])
    yield csv("quoted_numbers", ['"1","2"', '"",3'], [f, i])
    yield csv("crlf", ["\r\n1,2", "1,\n2", "\n\n1,\r2"], [f, i])
    yield csv("no_quotes", ['"a",b"c', 'a"",""'], [s, s], use_quote_delim=False)
    for label, delimiter in (("semicolon", ";"), ("tab", "\t"), ("space", " "), ("newline", "\n")):
        yield csv(label, [f"a{delimiter}2", f"{delimiter}3" if delimiter != "\n" else "b\n\n3"], [s, i], field_delim=delimiter)
    yield csv("quote_for_delimiter", ['a"b'], [s, s], field_delim='"')
    yield csv("not_available", ["NA,NA,NA", '"NA",1,'], [f, i, s], na_value="NA")
    yield csv("unicode", ["Gr\u00fc\u00dfe,\u65e5\u672c", "\u00e9,\U0001F600"], [s, s])
    yield csv("bytes", [b"a\0b,\xff\xfe"], [s, s])
    yield csv("selected", ["1,2,x,3", ",,,", '5,"b""c",,"d'], [f, s], select_cols=[0, 2])
    yield csv("selected_stops", ['1,2"x,3', '2,"a'], [f], select_cols=[0])
    yield csv("selected_last", ["1,2,", "1,2,3"], [f, i], select_cols=[1, 2])
    yield csv("selected_empty", ["1,2"], [f, i], select_cols=[])
    yield csv("many", [",".join(str(k) for k in range(100))] * 3, [i] * 100)
    for label, records, defaults, error, attrs in (
            ("few", ["1,2", "1"], [f, i], "Expect 2 fields but have 1 in record 1", {}), ("empty", [""], [f], "Expect 1 fields but have 0 in record 0", {}),
            ("newline_alone", ["\n"], [s], "Expect 1 fields but have 0 in record 0", {}),
            ("more", ["1,2,3"], [f, i], "Expect 2 fields but have 3 in record 0", {}), ("trailing", ["1,"], [f], "Expect 1 fields but have 2 in record 0", {}),
            ("trailing_newline", ["1,2\n"], [f, i], "Unquoted fields cannot have quotes/CRLFs inside", {}),
            ("plain_newline", ["1,a\nb"], [f, s], "Unquoted fields cannot have quotes/CRLFs inside", {"use_quote_delim": False}),
            ("quote_inside", ['1,a"b'], [f, s], "Unquoted fields cannot have quotes/CRLFs inside", {}),
            ("space_quote", ['1, "a"'], [f, s], "Unquoted fields cannot have quotes/CRLFs inside", {}),
            ("single_quote", ['1,"a"b'], [f, s], "Quote inside a string has to be escaped by another quote", {}),
            ("after_quote", ['"a"\r\n'], [s], "Quote inside a string has to be escaped by another quote", {}),
            ("open", ['1,"a'], [f, s], "Quoted field has to end with quote followed by delim or end", {}),
            ("quote_alone", ['"'], [s], "Quoted field has to end with quote followed by delim or end", {}),
            ("three_quotes", ['"""'], [s], "Quoted field has to end with quote followed by delim or end", {}),
            ("float", ["1", "a"], [f], "Field 0 in record 1 is not a valid float: a", {}), ("float_end", ["1f"], [f], "is not a valid float: 1f", {}),
            ("double", ["1,x"], [f, d], "Field 1 in record 0 is not a valid double: x", {}), ("int32", ["2.0"], [i], "is not a valid int32: 2.0", {}),
            ("int32_range", ["2147483648"], [i], "is not a valid int32: 2147483648", {}), ("int32_hex", ["0x10"], [i], "is not a valid int32: 0x10", {}),
            ("int64_range", ["9223372036854775808"], [n], "is not a valid int64: 9223372036854775808", {}),
            ("missing", ["1", '""'], [required], "Field 0 is required but missing in record 1!", {}),
            ("missing_na", ["1", "-"], [required], "Field 0 is required but missing in record 1!", {"na_value": "-"}),
            ("missing_text", [",1"], [NONE, i], "Field 0 is required but missing in record 0!", {}),
            ("two_defaults", ["1"], [np.array([1, 2], F)], "Shape of a default must be a length-0 or length-1 vector, or a scalar.", {}),
            ("default_rank", ["1"], [np.array([[1]], F)], "at most rank 1", {}),
            ("delimiter", ["1"], [f], "field_delim should be only 1 char", {"field_delim": ";;"}),
            ("no_delimiter", ["1"], [f], "field_delim should be only 1 char", {"field_delim": ""}),
            ("select_size", ["1,2"], [f], "select_cols should match output size", {"select_cols": [0, 1]}),
            ("select_order", ["1,2"], [f, i], "select_cols should be strictly increasing indices", {"select_cols": [1, 0]}),
            ("select_twice", ["1,2"], [f, i], "select_cols should be strictly increasing indices", {"select_cols": [1, 1]}),
            ("select_negative", ["1,2"], [f, i], "select_cols should be non-negative indices", {"select_cols": [-1, 1]}),
            ("select_beyond", ["1,2"], [f, i], "Expect 2 fields but have 1 in record 0", {"select_cols": [0, 5]}),
            ("select_short", ["1,2"], [f, s], "Expect 2 fields but have 1 in record 0", {"select_cols": [0, 2]})):
        yield csv(f"wrong_{label}", records, defaults, error, **attrs)


def tensor_message(dtype, shape, content=None, **values):
    proto = tensor_pb2.TensorProto(dtype=dtype)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    for name, numbers in values.items():
        getattr(proto, name).extend(numbers)
    if content is not None:
        proto.tensor_content = content
    return proto.SerializeToString()


def parse_tensor(name, message, dtype, error=None):
    return Case(f"ParseTensor_{name}", "ParseTensor", [strings(message)], {"out_type": dtype}, error=error)


def tensor_cases():
    types = (np.float16, bfloat16, F, np.float64, np.int8, np.uint8, np.int16, np.uint16, I32, np.uint32, I, np.uint64, np.bool_, np.complex64, np.complex128)
    for t in types:
        value = np.array([[0, 1, 2], [3, 4, 100]]).astype(t)
        yield Case(f"SerializeTensor_{np.dtype(t).name}", "SerializeTensor", [value])
        yield parse_tensor(np.dtype(t).name, tf.io.serialize_tensor(tf.constant(value)).numpy(), tf.as_dtype(t))
    for label, value in (("scalar", np.array(1.5, F)), ("empty", np.zeros([2, 0, 3], F)), ("nan", np.array([np.nan, -np.inf], F)), ("rank8", np.ones([1] * 8, I32)),
                         ("texts", strings([["a", ""], ["Gr\u00fc\u00dfe", b"\0\xff"]])), ("text", strings("x" * 200)), ("no_texts", NONE)):
        yield Case(f"SerializeTensor_{label}", "SerializeTensor", [value])
        dtype = tf.string if value.dtype == object else tf.as_dtype(value.dtype)
        yield parse_tensor(label, tf.io.serialize_tensor(tf.constant(value, dtype)).numpy(), dtype)
    m = tensor_message
    for label, message, dtype in (
            ("fewer", m(1, [3], float_val=[1, 2]), F), ("more", m(1, [2], float_val=[1, 2, 3]), F), ("no_values", m(1, [2]), F), ("no_shape", m(1, [], float_val=[5]), F),
            ("other_field", m(3, [2], float_val=[3, 4]), I32), ("content_first", m(1, [1], b"1234", float_val=[9]), F), ("zero_with_content", m(1, [0], b"12"), F),
            ("half_val", m(19, [3], half_val=[0x3c00, 0x4000]), np.float16), ("bfloat16_val", m(14, [2], half_val=[0x3f80, 0x4000]), bfloat16),
            ("double_val", m(2, [2], double_val=[-0.5]), np.float64), ("uint8_val", m(4, [2], int_val=[300, -1]), np.uint8), ("int8_val", m(6, [2], int_val=[200, -1]), np.int8),
            ("int16_val", m(5, [2], int_val=[-3]), np.int16), ("uint16_val", m(17, [2], int_val=[200, -1]), np.uint16), ("int32_val", m(3, [2], int_val=[-7, 1 << 30]), I32),
            ("int64_val", m(9, [2], int64_val=[-5]), I), ("uint32_val", m(22, [2], uint32_val=[4000000000]), np.uint32), ("uint64_val", m(23, [2], uint64_val=[1 << 63]), np.uint64),
            ("bool_val", m(10, [2], bool_val=[True]), np.bool_), ("complex64_val", m(8, [2], scomplex_val=[1, 2, 3, 4]), np.complex64),
            ("complex64_odd", m(8, [2], scomplex_val=[1, 2, 3]), np.complex64), ("complex128_val", m(18, [3], dcomplex_val=[1, 2, 3, 4]), np.complex128),
            ("float8_val", m(24, [3]) + b"\x92\x01\x02\x38\x3c", tf.dtypes.experimental.float8_e5m2),
            ("float8_more", m(25, [1]) + b"\x92\x01\x02\x38\x3c", tf.dtypes.experimental.float8_e4m3fn),
            ("float8_twice", m(24, [3]) + b"\x92\x01\x02\x38\x3c" + b"\x92\x01\x01\x40", tf.dtypes.experimental.float8_e5m2),
            ("string_val", m(7, [2], string_val=[b"x"]), tf.string), ("string_content", m(7, [2], b"\1\2abb"), tf.string), ("no_strings", m(7, [2]), tf.string),
            ("unknown_field", m(1, [1], float_val=[1]) + b"\xa8\x1f\x05", F), ("unpacked", m(1, [1]) + b"\x2d\x00\x00\x80\x3f", F),
            ("partly_packed", m(1, [2]) + b"\x2d\x00\x00\x80\x3f" + field(5, b"\0\0\0\x40"), F), ("other_wire_type", m(1, [1]) + b"\x28\x05", F),
            ("type_twice", m(1, [1], int_val=[2]) + b"\x08\x03", I32), ("shape_in_parts", m(1, [1], float_val=[2, 3]) + field(2, field(2, b"\x08\2")), F),
            ("rank_unknown", b"\x08\1" + field(2, b"\x18\1") + field(5, b"\0\0\x80\x3f"), F)):
        yield parse_tensor(label, message, dtype)
    for label, message, dtype, error in (
            ("nothing", b"", F, "Cannot parse tensor from proto"), ("no_type", m(0, [1]), F, "Cannot parse tensor from proto"),
            ("broken", b"\xff", F, "Could not parse `serialized` as TensorProto, base64: /w=="), ("text", b"abc", F, "Could not parse `serialized` as TensorProto, base64: YWJj"),
            ("end", b"\x08", F, "Could not parse `serialized` as TensorProto"), ("field_0", m(1, [1]) + b"\0", F, "Could not parse `serialized` as TensorProto"),
            ("odd_floats", m(1, [1]) + field(5, b"abc"), F, "Could not parse `serialized` as TensorProto"),
            ("type", m(3, [1], int_val=[3]), F, "Type mismatch between parsed tensor (int32) and dtype (float)"),
            ("type_text", m(7, [1], string_val=[b"3"]), I, "Type mismatch between parsed tensor (string) and dtype (int64)"),
            ("resource", m(20, [1]), F, "Type mismatch between parsed tensor (resource) and dtype (float)"),
            ("content", m(1, [2], b"1234"), F, "Cannot parse tensor from proto"), ("content_long", m(1, [1], b"12345"), F, "Cannot parse tensor from proto"),
            ("string_content", m(7, [2], b"\1\2ab"), tf.string, "Cannot parse tensor from proto"), ("string_content_long", m(7, [2], b"\1\2abbx"), tf.string, "Cannot parse tensor"),
            ("dimension", m(1, [-1], float_val=[1]), F, "Cannot parse tensor from proto"), ("huge", m(1, [1 << 40, 1 << 40]), F, "Cannot parse tensor from proto"),
            ("content_huge", m(1, [1 << 40], b"1234"), F, "Cannot parse tensor from proto"), ("type_99", b"\x08\x63", F, "Cannot parse tensor from proto"),
            ("bools", m(10, [2], b"\2\0"), np.bool_, "Cannot parse tensor from proto"), ("rank", m(1, [1] * 255, float_val=[1]), F, "Cannot parse tensor from proto"),
            ("vector", [m(1, [1], float_val=[1])], F, "")):
        yield parse_tensor(f"wrong_{label}", message, dtype, error)
    yield Case("SerializeTensor_large", "SerializeTensor", [Gen((40, 50))])


def compressed(name, content, kind, error=None):
    return Case(f"DecodeCompressed_{name}", "DecodeCompressed", [strings(content)], {"compression_type": kind}, error=error)


def compressed_cases():
    texts = [b"hello world" * 3, b"", bytes(range(256)) * 20]
    z, g = zlib.compress(texts[0]), gzip.compress(b"hello", mtime=0)
    for kind, pack in (("", bytes), ("ZLIB", zlib.compress), ("GZIP", lambda text: gzip.compress(text, mtime=0))):
        yield compressed(f"all_{kind or 'none'}", [[pack(text)] for text in texts], kind)
        yield compressed(f"one_{kind or 'none'}", pack(texts[0]), kind)
        yield compressed(f"no_strings_{kind or 'none'}", np.zeros([0, 2], object), kind)
    yield compressed("nothing", [b"", b""], "ZLIB")
    yield compressed("nothing_gzip", b"", "GZIP")
    yield compressed("large", zlib.compress(b"abc" * 5000), "ZLIB")
    yield compressed("ends_early", [z[:-6], z[:5], z[:-2]], "ZLIB")
    yield compressed("gzip_ends_early", g[:-3], "GZIP")
    yield compressed("more_behind", [z + b"xyz", z + z], "ZLIB")
    yield compressed("two_of_gzip", g + gzip.compress(b" more", mtime=0), "GZIP")
    for label, content, kind, error in (
            ("kind", b"a", "BZ2", "Only ZLIB, ZSTD, GZIP or NONE are supported compressions"), ("none", b"a", "NONE", "Only ZLIB, ZSTD, GZIP or NONE"),
            ("header", g, "ZLIB", "inflate() failed with error -3: incorrect header check"), ("zlib", z, "GZIP", "inflate() failed with error -3: incorrect header check"),
            ("text", b"garbage", "ZLIB", "inflate() failed with error -3"), ("sum", z[:-1] + b"\0", "ZLIB", "inflate() failed with error -3: incorrect data check"),
            ("behind_gzip", g + b"xyz", "GZIP", "inflate() failed with error -3")):
        yield compressed(f"wrong_{label}", content, kind, error)


def file_name_cases():
    yield Case("ReadFile_none", "ReadFile", [strings("/nowhere/at/all")], error="/nowhere/at/all; No such file or directory")
    yield Case("ReadFile_folder", "ReadFile", [strings("/")], error="/; Is a directory")
    yield Case("ReadFile_vector", "ReadFile", [strings(["/nowhere"])], error="")
    for label, base, shard, count in (("", "a/b", 3, 10), ("_zeros", "", 0, 0), ("_wide", "x", 100000, 123456), ("_negative", "x", -3, 5)):
        yield Case(f"ShardedFilename{label}", "ShardedFilename", [strings(base), I32(shard), I32(count)])
        yield Case(f"ShardedFilespec{label}", "ShardedFilespec", [strings(base), I32(count)])
    yield Case("ShardedFilename_vector", "ShardedFilename", [strings(["a"]), I32(1), I32(2)], error="")
    yield Case("ShardedFilespec_vector", "ShardedFilespec", [strings("a"), np.array([1, 2], I32)], error="")


def sequence(context=(), lists=()):
    """A serialized SequenceExample. context: key -> values, lists: key -> values of each step; None is a feature that says nothing."""
    record = tf.train.SequenceExample()
    for key, values in dict(context).items():
        fill(record.context.feature[key], values)
    for key, steps in dict(lists).items():
        record.feature_lists.feature_list[key].SetInParent()
        for values in steps:
            fill(record.feature_lists.feature_list[key].feature.add(), values)
    return record.SerializeToString()


def fill(feature, values):
    if values is None:
        feature.SetInParent()
    elif isinstance(values, tf.train.Feature):
        feature.CopyFrom(values)
    elif values and isinstance(values[0], float):
        feature.float_list.value.extend(values)
    elif values and isinstance(values[0], bytes):
        feature.bytes_list.value.extend(values)
    else:
        feature.int64_list.value.extend(values)


FEW_FLOATS, FEW_BYTES = tf.train.Feature(float_list=tf.train.FloatList()), tf.train.Feature(bytes_list=tf.train.BytesList())


def parse_sequence(name, op, records, sparse=(), dense=(), ragged=(), list_sparse=(), list_dense=(), list_ragged=(), names=(), missing=(), **case):
    """sparse, ragged: (key, type[, type of its splits]); dense: (key, default, shape) or (key, type, shape) in lists."""
    def keys(features):
        return [feature[0].encode() for feature in features]
    def types(features, at=1):
        return [tf.as_dtype(feature[at]) for feature in features]
    def vector(texts):
        return strings(list(texts)) if texts else NONE
    defaults = L([default for _, default, _ in dense])
    attrs = {"context_sparse_types": types(sparse), "context_dense_shapes": [shape for _, _, shape in dense], "feature_list_sparse_types": types(list_sparse),
             "feature_list_dense_types": types(list_dense), "feature_list_dense_shapes": [shape for _, _, shape in list_dense],
             "Ncontext_sparse": len(sparse), "Nfeature_list_sparse": len(list_sparse), "Nfeature_list_dense": len(list_dense)}
    records = records if isinstance(records, np.ndarray) else strings(records)
    if op == "ParseSingleSequenceExample":
        attrs["Ncontext_dense"] = len(dense)
        scalars = [L([strings(key) for key in keys(features)]) for features in (sparse, dense, list_sparse, list_dense)]
        return Case(name, op, [records, vector([key.encode() for key in missing]), *scalars, defaults, strings(names[0] if names else "")], attrs, **case)
    if op == "ParseSequenceExample":
        attrs.update(Ncontext_dense=len(dense), feature_list_dense_missing_assumed_empty=[key.encode() for key in missing], context_sparse_keys=keys(sparse),
                     context_dense_keys=keys(dense), feature_list_sparse_keys=keys(list_sparse), feature_list_dense_keys=keys(list_dense))
        return Case(name, op, [records, vector(names), defaults], attrs, **case)
    attrs.update(context_ragged_value_types=types(ragged), context_ragged_split_types=types(ragged, 2),
                 feature_list_ragged_value_types=types(list_ragged), feature_list_ragged_split_types=types(list_ragged, 2))
    may_miss = np.array([key in missing for key, _, _ in list_dense], np.bool_)
    all_keys = [vector(keys(features)) for features in (sparse, dense, ragged, list_sparse, list_dense, list_ragged)]
    return Case(name, op, [records, vector(names), *all_keys, may_miss, defaults], attrs, **case)


def sequence_cases():
    no_floats, no_ints, one = np.zeros([0], F), np.zeros([0], I), np.array([1], I)
    first = sequence({"a": [1.5, -2.0], "n": [7, -8, 9], "w": [3], "t": [b"x", b""]}, {"s": [[1, 2], [], [3]], "d": [[0.5, 1.5], [2.5, 3.5]], "b": [[b"p"], [b"q"]]})
    second = sequence({"a": [0.25, 4.0], "w": [-5], "t": [b"Gr\xc3\xbc\xc3\x9fe"]}, {"s": [], "d": [[np.nan, np.inf]], "b": [[b"r"], [b""], [b"s"]]})
    third = sequence({"a": [8.0, 9.0], "n": [1 << 62], "w": [0]}, {"s": [[4, 5, 6]], "d": [], "b": []})
    context = [("n", I), ("t", tf.string), ("absent", F)], [("a", no_floats, [2]), ("w", no_ints, [])]
    lists = [("s", I), ("absent", tf.string)], [("d", F, [2]), ("b", tf.string, [])]
    batch = ("ParseSequenceExample", "ParseSequenceExampleV2")
    for op in batch + ("ParseSingleSequenceExample",):
        single = op == "ParseSingleSequenceExample"
        def case(name, records, *features, op=op, **options):
            return parse_sequence(f"{op}_{name}", op, records, *features, **options)
        def both(name, record, *features, **options):
            """Of one record, and in a batch of one."""
            if op != "ParseSequenceExample":
                yield case(name, record, *features, **options)
            if not single:
                yield case(f"{name}_batch", [record], *features, **options)
        if not single:
            yield case("mixed", [first, second, third], *context, (), *lists)
            yield case("no_rows", NONE, [("n", I)], (), (), [("s", I)], [("d", F, [2])])
            yield case("no_rows_default", NONE, (), [("w", one, [1])])
            yield case("default", [first, sequence(), third], (), [("w", np.array(4, I), []), ("q", np.array([[1, 2], [3, 4]], F), [2, 2])])
            yield case("padded", [first, sequence(), second], list_dense=lists[1], missing=["d", "b"])
            yield case("wrong_default_size", [sequence({"w": [1]}), sequence({"w": []})], (), [("w", one, [1])], error="Unexpected number of elements in example <unknown>")
            yield case("wrong_names", [first, second], names=["p"], sparse=[("n", I)], error="example_names must be empty or have the correct number of elements")
            yield case("wrong_record", [first, b"movie was good"], [("n", I)], names=["p", "q"], error="Invalid protocol message input, example id: q")
            yield case("wrong_both_kinds", [first], [("n", I)], [("n", no_ints, [3])], error="Context feature n cannot be both dense and sparse")
            yield case("wrong_both_lists", [first], list_sparse=[("s", I)], list_dense=[("s", I, [])], error="Sequence feature s cannot be both dense and sparse")
            yield case("wrong_total", [first], list_dense=[("s", I, [2])], error="Feature list 's' has an unexpected number of values.  Total values size: 3 is not "
                       "consistent with output shape: [?,2]")
            yield case("wrong_matrix", np.array([[first]], object), [("n", I)], error="")
            if op == "ParseSequenceExample":
                yield case("wrong_scalar", first, [("n", I)], error="")
        yield from both("one", first, *context, (), *lists)
        yield from both("second", second, *context, (), *lists)
        yield from both("nothing_asked", first)
        yield from both("one_default", sequence(), [("n", I)], [("w", np.array(4, I), []), ("t", strings(["a", "b"]), [2])])
        yield from both("one_missing_lists", sequence(), list_sparse=[("s", F)], list_dense=[("d", F, [2, 2]), ("b", tf.string, [])], missing=["d", "b", "z"])
        yield from both("no_steps", sequence({}, {"s": [], "d": []}), list_sparse=[("s", I)], list_dense=[("d", F, [2])])
        yield from both("empty_context", sequence({"n": [], "t": None}), [("n", I), ("t", tf.string)])
        yield from both("empty_steps", sequence({}, {"s": [None, [], [5]], "f": [FEW_FLOATS, None, [1.0]], "t": [FEW_BYTES, [b"x"], None]}),
                        list_sparse=[("s", I), ("f", F), ("t", tf.string)])
        yield from both("matrices", sequence({}, {"d": [[1, 2, 3, 4], [5, 6, 7, 8]]}), list_dense=[("d", I, [2, 2])])
        yield from both("texts", sequence({"t": [b"a", b"b"]}, {"b": [[b"c", b""], [b"d", b"e"]]}), (), [("t", NONE, [2])], (), (), [("b", tf.string, [2])])
        # A field per number, as old writers have it.
        yield from both("unpacked", field(1, field(1, field(1, b"n") + field(2, field(3, b"\x08\5\x08\6")))), [("n", I)])
        yield from both("unpacked_steps", field(2, field(1, field(1, b"n") + field(2, field(1, field(3, b"\x08\5\x08\6")) * 2))), list_dense=[("n", I, [2])])
        yield from both("unknown_fields", first + field(9, b"ab") + b"\x50\5", [("n", I)])
        yield from both("two_contexts", sequence({"n": [1]}) + sequence({"t": [b"x"]}), [("n", I), ("t", tf.string)])
        yield from both("key_twice", sequence({"n": [1]}) + sequence({"n": [2, 3]}), [("n", I)])
        missing = "Context feature 'w' is required but could not be found." if single else "Inconsistent max number of elements for feature w: expected 1, but found 0"
        yield from both("wrong_missing", sequence({"a": [1.0]}), (), [("w", no_ints, [])], error=missing)
        yield from both("wrong_context_type", first, [("n", F)], names=["p"], error="Name: p, Context feature: n.  Data types don't match. Expected type: float")
        yield from both("wrong_dense_type", first, (), [("w", no_floats, [])], error="Context feature: w.  Data types don't match. Expected type: float")
        yield from both("wrong_size", first, (), [("n", no_ints, [2])], error="Number of int64 values != expected.  values size: 3 but output shape: [2]" if single else
                        "Inconsistent max number of elements for feature n: expected 2, but found 3")
        yield from both("wrong_list", first, list_dense=[("z", F, [2])], names=["p"], error="Name: p, Feature list 'z' is required but could not be found.")
        yield from both("wrong_list_type", first, list_sparse=[("s", F)], error="Index: 0.  Data types don't match. Expected type: float")
        yield from both("wrong_step_type", sequence({}, {"s": [[1], [2.0]]}), list_dense=[("s", I, [])], error="Feature list: s, Index: 1.  Data types don't match.")
        yield from both("wrong_step_size", sequence({}, {"s": [[1, 2], [3, 4, 5], [6]]}), list_dense=[("s", I, [2])],
                        error="Key: s, Index: 1.  Number of int64 values != expected.  values size: 3 but output shape: [2]" if single else
                        "Key: s, Index: 1.  Number of values != expected.  values size: 3 but output shape: [2]")
        yield from both("wrong_default_shape", first, (), [("a", np.array([1], F), [2])], error="")
        yield from both("wrong_bytes", b"movie was good", [("n", I)], error="")
        yield from both("wrong_entry", field(1, field(1, field(1, b"n") + b"\xff")), [("n", I)], error="")
    yield parse_sequence("ParseSingleSequenceExample_wrong_unset", "ParseSingleSequenceExample", sequence({"w": None}), (), [("w", one, [1])],
                         error="Context feature: w.  Data types don't match.")
    yield parse_sequence("ParseSingleSequenceExample_last_kind", "ParseSingleSequenceExample",
                         field(1, field(1, field(1, b"n") + field(2, field(1, field(1, b"x")) + field(3, field(1, b"\5")) + field(3, b"\x08\6" + field(1, b"\7"))))), [("n", I)])
    yield parse_sequence("ParseSingleSequenceExample_value_first", "ParseSingleSequenceExample", field(1, field(1, field(2, field(3, field(1, b"\5"))) + field(1, b"n"))),
                         [("n", I)])
    yield parse_sequence("ParseSequenceExample_wrong_value_first", "ParseSequenceExample", [field(1, field(1, field(2, field(3, field(1, b"\5"))) + field(1, b"n")))], [("n", I)],
                         error="Invalid protocol message input, example id: <unknown>")
    yield parse_sequence("ParseSequenceExample_wrong_last_step", "ParseSequenceExample", [field(2, field(1, field(1, b"n") + field(2, field(1, field(3, field(1, b"\5"))) +
                         field(1, b"\x18"))))], list_sparse=[("n", I)], error="Error in sequence feature n in example <unknown>")
    for splits in (I32, I):
        for label, records in (("", [first, second, third]), ("_one", first), ("_no_rows", NONE), ("_empty_row", [sequence(), first, sequence({}, {"s": []})])):
            yield parse_sequence(f"ParseSequenceExampleV2_ragged_{np.dtype(splits).name}{label}", "ParseSequenceExampleV2", records, ragged=[("n", I, splits), ("t", tf.string, splits)],
                                 list_ragged=[("s", I, splits), ("absent", F, splits), ("b", tf.string, splits)],
                                 skip=(2, 3, 7, 8, 9) if label == "_one" else ())  # splits of a single record are memory as it was
    for label, shape in (("scalar", ()), ("rank8", (1,) * 8)):
        flag = parse_sequence(f"ParseSequenceExampleV2_flag_{label}", "ParseSequenceExampleV2", [third, sequence()], list_dense=[("s", I, [3])])
        flag.inputs[8] = np.ones(shape, np.bool_)
        yield flag
    yield parse_sequence("ParseSequenceExampleV2_wrong_kinds", "ParseSequenceExampleV2", [first], [("n", I)], (), [("n", I, I)], error="Context feature n cannot be both ragged and sparse")
    yield parse_sequence("ParseSequenceExampleV2_wrong_lists", "ParseSequenceExampleV2", [first], list_sparse=[("s", I)], list_ragged=[("s", I, I)],
                         error="Sequence feature s cannot be both ragged and sparse")


def cases():
    yield from csv_cases()
    yield from sequence_cases()
    yield from tensor_cases()
    yield from compressed_cases()
    yield from file_name_cases()
