#!/usr/bin/env python3
"""Training graphs as they lie about: each file's optimizers, run by TensorFlow and by the program, and compared as in zoo.py.

  any_graph.py BINARY FILE ... [--out=FOLDER] [--flags='FLAG ...'] [--seconds=N]

FILE is a MetaGraphDef (model.ckpt.meta) or a GraphDef, binary or text. What trains is found by what it does: a group of updates of
variables is a case, and its loss is the last scalar before its gradients. Devices are taken off, random ops without seeds get seeds, and feeds are
drawn for what is fed, in several sizes until TensorFlow takes them. A file that TensorFlow itself does not run is told, and not counted.
"""
import argparse
import collections
import os
import pathlib
import re
import shlex
import sys
import time
import traceback

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # its kernels end the process where the others say what is wrong
import numpy as np  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from tensorflow.core.framework import graph_pb2, variable_pb2  # noqa: E402
from tensorflow.core.protobuf import meta_graph_pb2  # noqa: E402
from tensorflow.python.framework import op_def_registry  # noqa: E402

import zoo  # noqa: E402
from zoo import tf, tf1  # noqa: E402

UPDATE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]\w*$")
VARIABLES = ("VariableV2", "Variable", "VarHandleOp")
ASSIGNMENTS = ("Assign", "AssignVariableOp")
TABLES = ("InitializeTable", "InitializeTableV2", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2", "LookupTableImportV2")
LOSSES = ("Mean", "Sum", "Add", "AddV2", "AddN", "Mul", "Sub", "Neg", "Div", "RealDiv", "DivNoNan", "Sqrt", "Square", "Log", "L2Loss", "Select", "SelectV2",
          "SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", "CTCLoss", "Max", "Min", "Pow", "Maximum")
GRADIENTS = re.compile(r"(^|/)\w*gradients(_\d+)?/")
NO_LOSS = re.compile(r"(?i)learning_?rate|random_|decay|dropout|initializer|truncated_normal|moments")
FED = ("Placeholder", "IteratorGetNext", "OneShotIterator", "QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "QueueDequeueMany",
       "QueueDequeue", "QueueDequeueUpTo", "PyFunc", "PyFuncStateless", "EagerPyFunc")
BATCHES = (4, 1, 32, 64, 16, 100, 128, 50, 10, 2, 8, 20, 30, 256, 3, 5, 12, 25, 24, 40, 200)
SIZE_ASKED = re.compile(r"requires a multiple of (\d+)|In\[0\]: \[\d+,\d+\], In\[1\]: \[(\d+),")
# Where ops take the indices, values and shape of a sparse tensor.
SPARSE = {"CTCLoss": [(1, 2, None)], "SparseTensorDenseMatMul": [(0, 1, 2)], "SparseToDense": [(0, 2, 1)], "EditDistance": [(0, 1, 2), (3, 4, 5)]}
MAX_CASES = 3


def load(path):
    """(GraphDef, MetaGraphDef or None) of a file in any of the four forms."""
    data = pathlib.Path(path).read_bytes()
    for form in (meta_graph_pb2.MetaGraphDef, graph_pb2.GraphDef):
        message = form()
        try:
            message.ParseFromString(data)
        except Exception:  # not this form; what a wrong form raises depends on protobuf's version
            try:
                text_format.Parse(data.decode("utf-8", "replace"), message)
            except text_format.ParseError:
                continue
        graph = message if form is graph_pb2.GraphDef else message.graph_def
        if len(graph.node) > 0:
            return graph, None if form is graph_pb2.GraphDef else message
    raise ValueError("neither a MetaGraphDef nor a GraphDef with nodes")


def settle(graph_def):
    """Takes off devices and gives random ops without seeds seeds of their own."""
    count = 0
    for node in [*graph_def.node, *(node for function in graph_def.library.function for node in function.node_def)]:
        node.device = ""
        inferred = node.attr.pop("_output_shapes", None)  # by the TensorFlow that wrote the file; another may infer others
        if inferred is not None and inferred.list.shape and node.op == "Placeholder" and not node.attr["shape"].shape.dim:
            node.attr["shape"].shape.CopyFrom(inferred.list.shape[0])  # of old placeholders the only word on it
        if "_class" in node.attr and any(b"loc:@" not in name for name in node.attr["_class"].list.s):
            del node.attr["_class"]
        op = op_def_registry.get(node.op)  # none of functions and of ops from elsewhere
        names = {attribute.name for attribute in op.attr} if op else set()
        if {"seed", "seed2"} <= names and node.attr["seed"].i == 0 and node.attr["seed2"].i == 0:
            count += 1
            node.attr["seed"].i, node.attr["seed2"].i = 7, count


def ancestors(ops):
    """Every op that `ops` need, by data or control."""
    seen, waiting = set(), list(ops)
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return seen


def training_ops(graph):
    """The ops that end a step: what follows updates of variables by control alone, and is followed by nothing."""
    ends = {op: {op} for op in graph.get_operations() if UPDATE.match(op.type)}
    changed = bool(ends)
    followers = collections.defaultdict(set)
    for op in graph.get_operations():
        for before in op.control_inputs:
            followers[before].add(op)
    while changed:
        changed = False
        for op in list(ends):
            after = [follower for follower in followers[op] if follower.type in ("NoOp", "AssignAdd", "AssignAddVariableOp", "Assign")]
            for follower in after:
                ends.setdefault(follower, set()).update(ends[op])
            if after:
                del ends[op]
                changed = True
    return sorted(ends, key=lambda op: -len(ends[op]))[:MAX_CASES]


def loss_of(graph, train):
    """The last scalar of floats, or else the last tensor of floats, before the gradients that `train` applies; None where there is none."""
    needed = ancestors([train])
    order = {op: position for position, op in enumerate(graph.get_operations())}
    first = min((order[op] for op in needed if GRADIENTS.search(op.name)), default=len(order))
    computed = [op for op in needed if order[op] < first and op.type in LOSSES and op.outputs[0].dtype in (tf.float32, tf.float64)
                and not NO_LOSS.search(op.name)]
    scalars = [op for op in computed if op.outputs[0].shape.rank == 0]
    return max(scalars or computed, key=order.get).outputs[0] if computed else None


def reads_variables(assign):
    """Whether an assignment takes its value from another variable."""
    return any(op.type in VARIABLES for op in ancestors([assign.inputs[1].op]))


def initializers(graph, meta, needed):
    """The ops that give the variables and tables of `needed` their first values."""
    declared = {}
    if meta is not None:
        for collection in ("variables", "local_variables"):
            for text in meta.collection_def[collection].bytes_list.value:
                variable = variable_pb2.VariableDef.FromString(text)
                declared[variable.variable_name.split(":")[0]] = variable.initializer_name
    found = []
    for op in needed:
        if op.type not in VARIABLES:
            continue
        if op.name in declared:
            found.append(graph.get_operation_by_name(declared[op.name]))
            continue
        assigned = [user for user in op.outputs[0].consumers() if user.type in ASSIGNMENTS and user.inputs[0].op is op]
        found += sorted(assigned, key=lambda user: (reads_variables(user), not user.name.endswith("/Assign"), user.name.startswith("save")))[:1]
    tables = {op for op in needed if op.outputs and "HashTable" in op.type}
    return found + [op for op in graph.get_operations() if op.type in TABLES and op.inputs[0].op in tables]


def fed_tensors(needed):
    """Tensors that come from outside of `needed`: placeholders, and what input pipelines hand over."""
    fed = {}
    for op in sorted(needed, key=lambda op: op.name):
        if op.type in FED:
            for tensor in op.outputs:
                if tensor.dtype not in (tf.resource, tf.variant) and (tensor.consumers() or op.type == "Placeholder"):
                    fed[tensor.name.removesuffix(":0")] = tensor
    return fed


def shape_of(tensor):
    """The shape of a fed tensor; that of what a queue hands over is what the queue was declared with."""
    op = tensor.op
    if tensor.shape.rank is not None or not op.type.startswith("QueueDequeue") or "shapes" not in op.inputs[0].op.node_def.attr:
        return tensor.shape
    declared = [tf.TensorShape(shape) for shape in op.inputs[0].op.get_attr("shapes")]
    if len(declared) <= tensor.value_index:
        return tensor.shape
    return declared[tensor.value_index] if op.type in ("QueueDequeue", "QueueDequeueV2") else tf.TensorShape([None]).concatenate(declared[tensor.value_index])


def draw(name, tensor, batch, other, high, rank):
    """A value for what is fed; of unknown sizes the first is `batch`, others are `other`; integers are below `high`, or ones where it is 0."""
    rng = np.random.default_rng(sum(name.encode()))
    shape = shape_of(tensor)
    known = [None] * rank if shape.rank is None else shape.as_list()
    sizes = [size if size is not None else (batch if axis == 0 else other) for axis, size in enumerate(known)]
    dtype = tensor.dtype.base_dtype
    if dtype == tf.bool:
        return np.ones(() if shape.rank is None else sizes, bool)
    if dtype == tf.string:
        return np.full(sizes, b"word")
    if dtype.is_floating and not sizes:
        kept = re.search(r"(?i)keep|drop|prob", name)
        return np.asarray(0.75 if kept else 0.01, dtype.as_numpy_dtype)
    if dtype.is_integer and not sizes:
        return np.asarray(min(batch, dtype.max), dtype.as_numpy_dtype)
    if dtype.is_integer:
        longest = re.search(r"(?i)len", name)
        numbers = np.ones(sizes) if high == 0 else rng.integers(0, high, sizes)
        return (np.full(sizes, other) if longest else numbers).astype(dtype.as_numpy_dtype)
    if len(sizes) == 2 and re.search(r"(?i)label|target|\by_?\b|onehot|one_hot", name):
        return np.eye(sizes[1], dtype=dtype.as_numpy_dtype)[rng.integers(0, max(sizes[1], 1), sizes[0])]
    return rng.random(sizes).astype(dtype.as_numpy_dtype)


def sparse_parts(fed):
    """(indices, values, shape) of sparse tensors that are fed, as names in `fed`, by their names or by what takes them; no shape is None."""
    names = {tensor.name: name for name, tensor in fed.items()}
    parts = {(name, f"{name.removesuffix('indices')}values", f"{name.removesuffix('indices')}shape") for name in fed if name.endswith("/indices")}
    for op in {op for tensor in fed.values() for op in tensor.consumers() if op.type in SPARSE}:
        parts.update(tuple(None if at is None else names.get(op.inputs[at].name) for at in places) for places in SPARSE[op.type])
    return sorted(((indices, values, shape) for indices, values, shape in parts if indices in fed and values in fed), key=str)


def with_sparse(feeds, parts, batch, other):
    """The feeds, those of sparse tensors as the first columns of `batch` rows and `other` columns."""
    for indices, values, shape in parts:
        kept = feeds[values].ravel()
        feeds[indices] = np.stack([np.arange(batch), np.zeros(batch)], 1).astype(np.int64)
        feeds[values] = np.resize(kept if kept.size else np.ones(1), batch).astype(kept.dtype)
        if shape in feeds:
            feeds[shape] = np.asarray([batch, other], np.int64)
    return feeds


def with_lengths(feeds, fed, other):
    """The feeds, with the number of frames where CTCLoss takes it."""
    for name, tensor in fed.items():
        if any(op.type == "CTCLoss" and op.inputs[3] is tensor for op in tensor.consumers()):
            feeds[name] = np.full_like(feeds[name], other)
    return feeds


def drawn(fed, sizes):
    """A value for each fed tensor, for `sizes` as draw() takes them."""
    feeds = {name: draw(name, tensor, *sizes) for name, tensor in fed.items()}
    return with_lengths(with_sparse(feeds, sparse_parts(fed), *sizes[:2]), fed, sizes[1])


def find_feeds(graph, loss, train, fed, seconds):
    """(Net, what TensorFlow gave) with the first sizes that TensorFlow takes, or a line that says why not."""
    end, why = time.monotonic() + seconds, "no sizes were tried"
    shapes = [shape_of(tensor) for tensor in fed.values()]
    ranks = (0, 1, 2) if any(shape.rank is None for shape in shapes) else (0,)
    settings = [(batch, other, high, rank) for batch in BATCHES for other, high in ((batch, 2), (8, 2), (28, 2), (1, 1), (1, 0)) for rank in ranks]
    waiting, tried = settings if not all(shape.is_fully_defined() for shape in shapes) else settings[:1], set()
    while waiting and (not tried or time.monotonic() < end):
        sizes = waiting.pop(0)
        if sizes in tried:
            continue
        tried.add(sizes)
        net = zoo.Net(loss, train, drawn(fed, sizes))
        try:
            wanted = zoo.run_tensorflow(graph, net)
            if np.isfinite(wanted[0]).all():
                return net, wanted
            why = f"losses {wanted[0]}"
        except (tf.errors.OpError, ValueError, TypeError) as error:
            why = " ".join(str(error).split())[:300]
            asked = SIZE_ASKED.search(why)
            waiting[:0] = [(sizes[0], int(asked[1] or asked[2]), sizes[2], rank) for rank in ranks[::-1]] if asked and len(ranks) > 1 else []
    return None, why


def cases_of(path):
    """(name, graph with init_all, train, loss, meta) of every group of updates in the file."""
    definition, meta = load(path)
    settle(definition)
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(definition, name="")
    trains = training_ops(graph)
    if not trains:
        raise LookupError("no updates of variables")
    for train in trains:
        loss = loss_of(graph, train)
        yield train.name, *(pruned(graph, meta, train, loss) if loss is not None else (None, "no loss"))


def pruned(graph, meta, train, loss):
    """The part of a graph that a case needs, with init_all, and its train, loss and fed tensors."""
    needed = ancestors([train, loss.op])
    first = initializers(graph, meta, needed)
    while not needed.issuperset(ancestors(first)):  # what variables begin with may be other variables
        needed |= ancestors(first)
        first = initializers(graph, meta, needed)
    wanted = [train.name, loss.op.name] + [op.name for op in first]
    part = tf.Graph()
    with part.as_default():
        tf.graph_util.import_graph_def(tf1.graph_util.extract_sub_graph(graph.as_graph_def(), wanted), name="g")
        tf.group(*(part.get_operation_by_name(f"g/{op.name}") for op in first), name="init_all")
        loss = part.get_tensor_by_name(f"g/{loss.name}")
        loss = tf.identity(loss if loss.shape.rank == 0 else tf.reduce_sum(loss), name="loss")
        train = tf.group(part.get_operation_by_name(f"g/{train.name}"), name="train")
        return part, (train, loss, fed_tensors(ancestors([train, loss.op])))


def compare(binary, folder, flags, net, graph, wanted):
    """Lines that say what is wrong, as in zoo.check."""
    (folder / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
    np.savez(folder / "feeds.npz", **net.feeds)
    losses = zoo.run_program(binary, folder, net, flags)
    return [losses] if isinstance(losses, str) else zoo.remaining_differences(graph, net, folder, losses, wanted)


def check(binary, path, out, flags, seconds):
    """Prints a line for each case of a file, and yields 'agrees', 'differs' or 'not run'."""
    try:
        for name, graph, what in cases_of(path):
            net, wanted = (None, what) if graph is None else find_feeds(graph, what[1], what[0], what[2], seconds)
            if net is None:
                print(f"none {path} {name}: {wanted}", flush=True)
                yield "not run"
                continue
            folder = out / re.sub(r"\W+", "_", f"{path}_{name}")[-120:]
            folder.mkdir(parents=True, exist_ok=True)
            wrong = compare(binary, folder, flags, net, graph, wanted)
            print(f"{'FAIL' if wrong else 'ok  '} {path} {name} ({len(graph.get_operations())} nodes)"
                  + "".join(f"\n     {line}" for line in wrong[:6]), flush=True)
            yield "differs" if wrong else "agrees"
    except Exception as error:  # a file that TensorFlow does not read must not stop the others
        print(f"none {path}: {(str(error).strip() or traceback.format_exc()).splitlines()[0][:300]}", flush=True)
        yield "not run"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", default="any_graph")
    parser.add_argument("--flags", default="")
    parser.add_argument("--seconds", type=float, default=60, help="how long sizes are tried for a case")
    arguments = parser.parse_args()
    results = collections.Counter(result for path in arguments.files for result in
                                  check(arguments.binary, path, pathlib.Path(arguments.out), shlex.split(arguments.flags), arguments.seconds))
    print(f"{results['agrees']} agree, {results['differs']} do not, {results['not run']} not run by TensorFlow")
    return 1 if results["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
