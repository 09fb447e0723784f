"""What a conformance case is, and how TensorFlow's answer to it is made. See README.md."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry

bfloat16 = tf.bfloat16.as_numpy_dtype
# Larger outputs are stored as every k-th element.
MOST_STORED_ELEMENTS = 512


class Var:
    """A resource variable with this initial value, an array or a Gen."""

    kind = "resource"

    def __init__(self, value):
        self.generated = value if isinstance(value, Gen) else None
        self.value = value.numpy() if isinstance(value, Gen) else np.asarray(value)


class RefVar(Var):
    """A reference variable (VariableV2)."""

    kind = "ref"


class Gen:
    """A generated input: uniform in [low, high), the same in Python and C++, so that large inputs cost no bytes."""

    def __init__(self, shape, dtype=np.float32, low=-1, high=1, seed=1):
        self.shape, self.dtype, self.low, self.high, self.seed = tuple(shape), np.dtype(dtype), low, high, seed

    def numpy(self):
        x = np.arange(int(np.prod(self.shape)), dtype=np.uint64)
        with np.errstate(over="ignore"):  # splitmix64
            x = (x + np.uint64(self.seed) * np.uint64(1 << 40) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x = x ^ (x >> np.uint64(31))
        if self.dtype.kind in "iub":
            x = self.low + (x % np.uint64(self.high - self.low)).astype(np.int64)
        else:
            x = self.low + (x >> np.uint64(40)).astype(np.float64) * 2.0**-24 * (self.high - self.low)
            if self.dtype != np.float64:
                x = x.astype(np.float32)
        return x.astype(self.dtype).reshape(self.shape)


class Case:
    """One node with its inputs.

    inputs: per input of the op a NumPy array (or scalar with a dtype, or nested list: float32/int32), Var, RefVar or
      Gen; for an input that is a list (N * T), a Python list wrapped in L(...).
    attrs: those that do not follow from the inputs. Types may be NumPy dtypes or tf.DType.
    rtol, atol: allowed difference |a - b| <= atol + rtol * |b| of floating outputs; 0 means the same value.
    error: the case must fail, in TensorFlow and here, with this text in the message ("" : any message).
    skip: indices of outputs that are not compared (unspecified by the op).
    runs: the node runs so often (its state goes on) and the last run's outputs are compared.
    expected: the outputs, where TensorFlow has no kernel for this rank or type on the CPU; say why at the case.
    """

    def __init__(self, name, op, inputs, attrs=None, rtol=0.0, atol=0.0, error=None, skip=(), runs=1, expected=None):
        self.name, self.op, self.inputs, self.attrs = name, op, inputs, dict(attrs or {})
        self.rtol, self.atol, self.error, self.skip, self.runs = rtol, atol, error, set(skip), runs
        self.expected = expected


class L(list):
    """The values of an input that is a list."""


def to_input(value):
    if isinstance(value, (Var, Gen)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    if isinstance(value, (str, bytes)):
        return np.array(value, dtype=object)
    array = np.asarray(value)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    elif array.dtype == np.int64:
        array = array.astype(np.int32)
    elif array.dtype.kind in "US":
        array = array.astype(object)
    return array


def dtype_of(value):
    if isinstance(value, Gen):
        return tf.as_dtype(value.dtype)
    array = value.value if isinstance(value, Var) else value
    return tf.string if array.dtype == object else tf.as_dtype(array.dtype)


def attr_value(value, kind):
    """A Python value as an AttrValue of the kind that the op's definition names ("int", "list(type)", …)."""
    result = attr_value_pb2.AttrValue()

    def set_one(target, v, base, many):
        if base == "tensor":
            item = tf.make_tensor_proto(v)
            target.tensor.add().CopyFrom(item) if many else target.tensor.CopyFrom(item)
        elif base == "shape":
            item = tf.TensorShape(v).as_proto()
            target.shape.add().CopyFrom(item) if many else target.shape.CopyFrom(item)
        else:
            field = {"string": "s", "int": "i", "float": "f", "bool": "b", "type": "type"}[base]
            if base == "type":
                v = tf.as_dtype(v).as_datatype_enum
            elif base == "string":
                v = v.encode() if isinstance(v, str) else v
            getattr(target, field).append(v) if many else setattr(target, field, v)

    if kind.startswith("list("):
        result.list.SetInParent()
        for v in value:
            set_one(result.list, v, kind[5:-1], True)
    else:
        set_one(result, value, kind, False)
    return result


def build_node(case, input_names):
    """The NodeDef, attributes of types and counts filled in, and the inputs as one flat list."""
    op_def = op_def_registry.get(case.op)
    if op_def is None:
        raise ValueError(f"TensorFlow has no op {case.op}")
    kinds = {a.name: a.type for a in op_def.attr}
    node = node_def_pb2.NodeDef(op=case.op)
    attrs, flat = dict(case.attrs), []
    if len(case.inputs) != len(op_def.input_arg):
        raise ValueError(f"{case.name}: {len(case.inputs)} inputs, {case.op} has {len(op_def.input_arg)}")
    for arg, value in zip(op_def.input_arg, case.inputs):
        if arg.number_attr or arg.type_list_attr:
            if not isinstance(value, L):
                raise ValueError(f"{case.name}: input {arg.name} is a list, give it as L([...])")
            values = [to_input(v) for v in value]
        else:
            values = [to_input(value)]
        if arg.number_attr:
            attrs.setdefault(arg.number_attr, len(values))
        if arg.type_list_attr:
            attrs.setdefault(arg.type_list_attr, [dtype_of(v) for v in values])
        if arg.type_attr and values:
            attrs.setdefault(arg.type_attr, dtype_of(values[0]))
        # The type of a resource's variable is an attribute of most ops that take one.
        if arg.type == tf.resource.as_datatype_enum and isinstance(values[0], Var) and "dtype" in kinds:
            attrs.setdefault("dtype", dtype_of(values[0]))
        flat.extend(values)
    for name, value in attrs.items():
        if name not in kinds:
            raise ValueError(f"{case.op} has no attribute {name}")
        node.attr[name].CopyFrom(attr_value(value, kinds[name]))
    node.input.extend(input_names(i) for i in range(len(flat)))
    return node, flat, op_def


def const_node(name, array):
    array = np.asarray(array)
    node = node_def_pb2.NodeDef(name=name, op="Const")
    tensor = tf.make_tensor_proto(array) if array.dtype != object else tf.make_tensor_proto(array, dtype=tf.string)
    if array.dtype in (np.float16, bfloat16):  # as bytes: a third of the size
        tensor.ClearField("half_val")
        tensor.tensor_content = array.tobytes()
    node.attr["value"].tensor.CopyFrom(tensor)
    node.attr["dtype"].type = tensor.dtype
    return node


def run_tensorflow(case):
    """(outputs, {input index: variable's value after}, error message or None)."""
    tf.compat.v1.reset_default_graph()
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    try:
        with tf.Graph().as_default() as graph:
            node, flat, op_def = build_node(case, lambda i: f"in{i}")
            tensors, reads, feeds, initial = {}, {}, {}, []
            for i, value in enumerate(flat):
                if isinstance(value, RefVar):
                    variable = tf.compat.v1.Variable(value.value, use_resource=False, name=f"v{i}")
                    tensors[f"in{i}"], reads[i] = variable._variable, variable
                    initial.append(variable.initializer)
                elif isinstance(value, Var):
                    variable = tf.compat.v1.Variable(value.value, use_resource=True, name=f"v{i}")
                    tensors[f"in{i}"], reads[i] = variable.handle, variable
                    initial.append(variable.initializer)
                else:
                    array = value.numpy() if isinstance(value, Gen) else value
                    tensors[f"in{i}"] = tf.compat.v1.placeholder(dtype_of(value), array.shape)
                    feeds[tensors[f"in{i}"]] = array
            node.name = "op"
            # Inputs are fed, not constant, so that the message is the kernel's; the type of `graph_def` inputs is
            # taken from the map.
            graph_def = graph_pb2.GraphDef(node=[node])
            graph_def.versions.producer = tf.compat.v1.GraphDef().versions.producer or 1882
            tf.import_graph_def(graph_def, input_map={k: v for k, v in tensors.items()}, name="")
            op = graph.get_operation_by_name("op")
            fetches = [o for i, o in enumerate(op.outputs) if i not in case.skip]
            with tf.compat.v1.Session(config=config) as session:
                session.run(initial)
                if case.op == "StatefulRandomBinomial" and flat[0].value.size:
                    # TensorFlow loses its first write where the variable shares memory with its initial value; a skip by 0 ends that.
                    session.run(tf.raw_ops.RngSkip(resource=tensors["in0"], algorithm=1, delta=0))
                for _ in range(case.runs):
                    values = session.run(fetches + [op], feeds)[:-1]
                after = {i: session.run(v.read_value() if v.dtype._is_ref_dtype is False else v)
                         for i, v in reads.items()}
            outputs, values = [], iter(values)
            for i in range(len(op.outputs)):
                # As bytes NumPy would drop zeros at the end of a single string.
                of_strings = op.outputs[i].dtype == tf.string
                output = None if i in case.skip else np.asarray(next(values), object if of_strings else None)
                if output is not None and op.outputs[i].dtype.is_quantized:  # fetched as plain integers
                    output = output.astype(op.outputs[i].dtype.as_numpy_dtype)
                outputs.append(output)
            return outputs, after, None
    except (tf.errors.OpError, ValueError) as error:
        if case.error is None:
            raise
        return [], {}, str(error)


def input_node(name, value):
    if isinstance(value, Gen):
        node = const_node(name, np.array([value.low, value.high], dtype=np.float64))
        node.attr["_shape"].shape.CopyFrom(tf.TensorShape(value.shape).as_proto())
        node.attr["_dtype"].type = dtype_of(value).as_datatype_enum
        node.attr["_seed"].i = value.seed
        return node
    if isinstance(value, Var):
        node = const_node(name, value.value) if value.generated is None else input_node(name, value.generated)
        node.attr["_variable"].s = value.kind.encode()
        return node
    return const_node(name, value)


def expected_node(name, array):
    flat = array.reshape(-1)
    stride = 1 if flat.size <= MOST_STORED_ELEMENTS else flat.size // (MOST_STORED_ELEMENTS // 2) | 1
    node = const_node(name, array if stride == 1 else flat[::stride])
    if stride > 1:
        node.attr["_shape"].shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
        node.attr["_stride"].i = stride
    return node


def nodes_of(case):
    """The case as nodes of the family's GraphDef."""
    if case.expected is None:
        outputs, after, message = run_tensorflow(case)
    else:
        outputs, after, message = [np.asarray(value) for value in case.expected], {}, None
    if case.error is not None:
        if message is None:
            raise AssertionError(f"{case.name}: expected an error, TensorFlow gave {outputs}")
        if case.error not in message:
            raise AssertionError(f"{case.name}: expected '{case.error}', TensorFlow said '{message}'")
    node, flat, _ = build_node(case, lambda i: f"{case.name}/in{i}")
    node.name = f"{case.name}/op"
    nodes = [input_node(f"{case.name}/in{i}", value) for i, value in enumerate(flat)] + [node]
    if case.error is not None:
        node.attr["_error"].s = case.error.encode()
    if case.rtol:
        node.attr["_rtol"].f = case.rtol
    if case.atol:
        node.attr["_atol"].f = case.atol
    if case.runs > 1:
        node.attr["_runs"].i = case.runs
    nodes += [expected_node(f"{case.name}/out{i}", out) for i, out in enumerate(outputs) if out is not None]
    nodes += [expected_node(f"{case.name}/var{i}", value) for i, value in after.items()]
    return nodes
