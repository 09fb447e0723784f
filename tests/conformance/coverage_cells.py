"""The cells of the coverage table: which of them an op has by its definition in TensorFlow, and which a case covers."""
import math

import numpy as np

import data_files
from case_builder import Case, Gen, L, RefVar, Var  # sets what TensorFlow is started with

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import kernels, op_def_registry

TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "bool", "int8", "int16", "uint8", "uint16", "uint32", "uint64", "complex64",
         "complex128")
FLOATS, COMMON = TYPES[:4], TYPES[:7]
AXES = ("axis", "axes", "dim", "reduction_indices", "concat_dim", "split_dim", "dimension", "reduction_axes", "seq_dim",
        "batch_dim", "batch_dims")


def name_of(dtype):
    return tf.as_dtype(dtype).name


def type_attributes(op_def):
    """The names of attributes that are one type: the first is that of the data."""
    names = [arg.type_attr or arg.type_list_attr for arg in list(op_def.input_arg) + list(op_def.output_arg)]
    names += [attr.name for attr in op_def.attr if attr.type == "type"]
    kinds = {attr.name: attr.type for attr in op_def.attr}
    return [name for name in dict.fromkeys(names) if kinds.get(name) == "type"]


def cpu_kernels(op):
    return [k for k in kernels.get_registered_kernels_for_op(op).kernel if k.device_type == "CPU"]


def types_of_kernels(op, op_def, attribute):
    """Those of TYPES that TensorFlow has a CPU kernel for, by this attribute."""
    allowed = next(a for a in op_def.attr if a.name == attribute).allowed_values.list.type
    found = set()
    for kernel in cpu_kernels(op):
        limits = [c.allowed_values.list.type for c in kernel.constraint if c.name == attribute]
        found.update(name_of(t) for t in limits[0]) if limits else found.update(TYPES)
    if allowed:
        found &= {name_of(t) for t in allowed}
    return [t for t in TYPES if t in found]


def allowed_strings(op_def, attribute):
    for attr in op_def.attr:
        if attr.name == attribute and attr.type == "string":
            return [s.decode() for s in attr.allowed_values.list.s]
    return []


def cells_of(op):
    """All cells that the definition of `op` has."""
    op_def = op_def_registry.get(op)
    cells = []
    attributes = type_attributes(op_def)
    for i, attribute in enumerate(attributes):
        types = types_of_kernels(op, op_def, attribute)
        others = [t for t in types if t in COMMON]
        cells += types if i == 0 else [f"{attribute}={t}" for t in others] if len(others) <= 3 else []
    data = data_arguments(op_def)
    if data:
        cells += ["empty", "scalar", "rank8"]
        fixed = {name_of(op_def.input_arg[i].type) for i in data if op_def.input_arg[i].type}
        if set(cells) & set(FLOATS) or fixed & set(FLOATS):
            cells.append("nan")
    if len([i for i in data if op_def.input_arg[i].type_attr]) >= 2:
        cells.append("broadcast")
    if any(arg.name in AXES for arg in op_def.input_arg) or any(a.name in AXES for a in op_def.attr):
        cells.append("negative_axis")
    cells += [p for p in ("SAME", "VALID", "EXPLICIT") if p in allowed_strings(op_def, "padding")]
    names = {a.name for a in op_def.attr}
    cells += [n for n in ("strides", "dilations") if n in names]
    formats = allowed_strings(op_def, "data_format") or (["NDHWC", "NCDHW"] if "data_format" in names else [])
    cells += [f for f in ("NHWC", "NCHW", "NDHWC", "NCDHW") if f in formats]
    return cells


def data_arguments(op_def):
    """Indices of inputs that are tensors of data: those of the type of the data, or of fixed numeric type."""
    attributes = type_attributes(op_def)
    first = attributes[:1]
    result = []
    for i, arg in enumerate(op_def.input_arg):
        if arg.name in AXES or arg.type_list_attr:
            continue
        if arg.type == tf.resource.as_datatype_enum or arg.type == tf.string.as_datatype_enum:
            continue
        if arg.type_attr in first and arg.type_attr or arg.type:
            result.append(i)
    return result


def values_of(tensor_node):
    """The value of an input node of a case: an array or a Gen."""
    attr = tensor_node.attr
    if "_seed" in attr:
        low, high = tf.make_ndarray(attr["value"].tensor)
        shape = tuple(d.size for d in attr["_shape"].shape.dim)
        dtype = tf.as_dtype(attr["_dtype"].type).as_numpy_dtype
        whole = np.dtype(dtype).kind in "iub"
        return Gen(shape, dtype, int(low) if whole else low, int(high) if whole else high, attr["_seed"].i)
    return tf.make_ndarray(attr["value"].tensor)


def python_value(attr):
    kind = attr.WhichOneof("value")
    if kind == "list":
        for field in ("i", "f", "s", "b", "type"):
            if getattr(attr.list, field):
                return list(getattr(attr.list, field))
        return []
    if kind == "shape":
        return [d.size for d in attr.shape.dim]
    if kind == "tensor":
        return tf.make_ndarray(attr.tensor)
    return getattr(attr, kind)


def load_cases(path):
    """The cases of a data file again as Case objects; `.stored` of each has the nodes of its answers by name."""
    yield from load_graph(data_files.read(path), data_files.family_of(path))


def load_graph(data, family):
    graph = graph_pb2.GraphDef.FromString(data)
    nodes = {node.name: node for node in graph.node}
    for node in graph.node:
        if not node.name.endswith("/op"):
            continue
        name = node.name[:-3]
        flat = []
        for source in node.input:
            value = values_of(nodes[source])
            kind = nodes[source].attr["_variable"].s.decode() if "_variable" in nodes[source].attr else ""
            flat.append(RefVar(value) if kind == "ref" else Var(value) if kind else value)
        attrs = {k: python_value(v) for k, v in node.attr.items() if not k.startswith("_")}
        case = Case(name, node.op, grouped(node, flat), attrs, rtol=node.attr["_rtol"].f if "_rtol" in node.attr else 0.0,
                    atol=node.attr["_atol"].f if "_atol" in node.attr else 0.0,
                    error=node.attr["_error"].s.decode() if "_error" in node.attr else None,
                    runs=node.attr["_runs"].i if "_runs" in node.attr else 1)
        case.skip = set(range(64))  # outputs that are not compared
        case.family = family
        case.flat = flat
        case.out_shapes = {}
        for key in range(64):
            out = nodes.get(f"{name}/out{key}")
            if out is None:
                continue
            holder = out.attr["_shape"].shape if "_shape" in out.attr else out.attr["value"].tensor.tensor_shape
            case.skip.discard(key)
            case.out_shapes[key] = [d.size for d in holder.dim]
        yield case


def grouped(node, flat):
    """The flat inputs as the definition's arguments: lists are L."""
    op_def, inputs, at = op_def_registry.get(node.op), [], 0
    for arg in op_def.input_arg:
        if arg.number_attr:
            count = node.attr[arg.number_attr].i
        elif arg.type_list_attr:
            count = len(node.attr[arg.type_list_attr].list.type)
        else:
            inputs.append(flat[at])
            at += 1
            continue
        inputs.append(L(flat[at:at + count]))
        at += count
    return inputs


def shape_of(value):
    if isinstance(value, Gen):
        return value.shape
    return np.shape(value.value if isinstance(value, Var) else value)


def array_of(value):
    if isinstance(value, Gen):
        return value.numpy() if math.prod(value.shape) < 5000 else None
    return value.value if isinstance(value, Var) else np.asarray(value)


def covered_by(case):
    """The cells that a case covers."""
    if case.error is not None:
        return set()
    op_def = op_def_registry.get(case.op)
    cells = set()
    for i, attribute in enumerate(type_attributes(op_def)):
        if attribute in case.attrs:
            dtype = name_of(case.attrs[attribute])
        else:
            default = next(a for a in op_def.attr if a.name == attribute).default_value.type
            dtype = name_of(default) if default else None
        cells.add(dtype if i == 0 else f"{attribute}={dtype}")
    data, shapes = data_arguments(op_def), []
    for i, (arg, value) in enumerate(zip(op_def.input_arg, case.inputs)):
        values = value if isinstance(value, L) else [value]
        for one in values:
            shape, array = shape_of(one), array_of(one)
            if i in data or isinstance(one, Var):
                cells.update(["empty"] if 0 in shape else [], ["rank8"] if len(shape) >= 8 else [],
                             ["scalar"] if not shape and i == (data or [i])[0] else [])
                if i in data and arg.type_attr:
                    shapes.append(tuple(shape))
                if array is not None and array.dtype.kind in "fV" and not np.isfinite(array.astype(np.float64)).all():
                    cells.add("nan")
            if arg.name in AXES and array is not None and array.dtype.kind in "i" and (array < 0).any():
                cells.add("negative_axis")
    if any(0 in shape for shape in case.out_shapes.values()):
        cells.add("empty")
    if any(len(shape) >= 8 for shape in case.out_shapes.values()):
        cells.add("rank8")
    if len(shapes) >= 2 and len(set(shapes)) > 1:
        cells.add("broadcast")
    attrs = case.attrs
    if any(isinstance(v, int) and v < 0 for k, v in attrs.items() if k in AXES):
        cells.add("negative_axis")
    if any(isinstance(v, list) and any(isinstance(x, int) and x < 0 for x in v) for k, v in attrs.items() if k in AXES):
        cells.add("negative_axis")
    if "padding" in attrs and isinstance(attrs["padding"], bytes):
        cells.add(attrs["padding"].decode())
    for name in ("strides", "dilations"):
        if name in attrs and any(x > 1 for x in np.atleast_1d(attrs[name])):
            cells.add(name)
    if any(a.name == "data_format" for a in op_def.attr):
        default = next(a for a in op_def.attr if a.name == "data_format").default_value.s
        cells.add(attrs.get("data_format", default).decode())
    return cells


def all_cases():
    for path in data_files.paths():
        yield from load_cases(path)


def coverage():
    """{op: covered cells}, of all committed cases."""
    table = {}
    for case in all_cases():
        table.setdefault(case.op, set()).update(covered_by(case))
    return table
