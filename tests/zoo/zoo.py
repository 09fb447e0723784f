#!/usr/bin/env python3
"""Training graphs of many kinds, run by TensorFlow and by the program, and compared.

  zoo.py BINARY [NAME|FAMILY ...] [--out=FOLDER] [--flags='FLAG ...'] [--grappler]

Without names every case runs. FOLDER keeps graph.pb and feeds.npz of each. With --grappler the program gets the graphs as
TensorFlow's optimizers leave them: calls inlined, control flow lowered, ops folded and fused. Needs TensorFlow 2.21 with Keras 3.
A case is a function in a file of this folder that adds a model to the default graph and returns a Net. One that is
marked `eager` is called outside any graph and returns such a function. The program must support every op of it, give
the losses of every step, and every variable after the last one.
"""
import argparse
import collections
import dataclasses
import importlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2  # noqa: E402
from tensorflow.python.grappler import tf_optimizer  # noqa: E402

tf1 = tf.compat.v1

FAMILIES = ("optimizers", "keras_nets", "text_nets", "image_nets", "other_nets", "world_nets", "wild_nets", "branch_nets", "loop_nets",
            "hangers_on", "unseen_nets", "unseen_old_nets", "far_nets", "far_keras", "random_effects", "branched_loops", "written_nets", "stranger_nets", "kept_tables",
            "sized_nets", "guest_vision", "guest_text", "guest_learning", "guest_science", "guest_graphs", "guest_chances", "guest_keras", "guest_steps", "guest_numbers", "unequal_sides",
            "old_branches", "late_known", "asked_sizes", "turns_by_chance", "unread_effects", "resource_effects", "lists_by_chance", "arrays_by_chance",
            "loops_in_parts", "references_by_chance")
STEPS = 3
NUDGES = 8


@dataclasses.dataclass
class Net:
    """What a case built. feeds: by placeholder name. check_variables: False where rounding decides (Adam of noise)."""

    loss: tf.Tensor
    train: object
    feeds: dict = dataclasses.field(default_factory=dict)
    fetches: tuple = ()
    rtol: float = 1e-3
    check_variables: bool = True
    steps: int = STEPS


def eager(case):
    case.eager = True
    return case


def keras_net(model, loss, optimizer, feeds, inputs, **more):
    """What adds one training step of a Keras model to a graph and returns its Net.

    loss(outputs, **feeds) -> scalar; `inputs` names the feeds that the model takes.
    """
    optimizer.build(model.trainable_variables)

    def step(**values):
        with tf.GradientTape() as tape:
            outputs = model([values[name] for name in inputs] if len(inputs) > 1 else values[inputs[0]], training=True)
            value = loss(outputs, **values)
            if model.losses:
                value += tf.add_n(model.losses)
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return value

    return function_net(step, feeds, **more)


def function_net(step, feeds, **more):
    """As keras_net for any Python function over eager variables; the graph gets its body and variables of its own."""
    specs = {name: tf.TensorSpec(value.shape, value.dtype, name=name) for name, value in feeds.items()}
    body = tf.function(step).get_concrete_function(**specs).graph
    handles = {variable.handle.ref(): variable for variable in body.variables}
    captures = []  # (name in the body, value, the variable's name or None)
    for outside, inside in body.captures:
        variable = handles.get(outside.ref())
        if variable is not None:
            name, value = variable.name.split(":")[0].replace(" ", "_"), variable.numpy()
        elif outside.dtype == tf.resource:  # an optimizer's slot, which a graph captures without its Python object
            dtype = outside._handle_data.shape_and_type[0].dtype
            name, value = inside.op.name, tf.raw_ops.ReadVariableOp(resource=outside, dtype=dtype).numpy()
        else:
            name, value = None, outside.numpy()
        captures.append((inside.name, value, name))
    return lambda: _import(body, captures, specs, feeds, more)


def _import(body, captures, specs, feeds, more):
    mapping = {}
    for inside, value, variable in captures:
        mapping[inside] = tf.constant(value) if variable is None else _own_variable(variable, value).handle
    for name, spec in specs.items():
        inside = next(tensor for tensor in body.inputs if tensor.op.name == name)
        mapping[inside.name] = tf1.placeholder(spec.dtype, spec.shape, name=name)
    wanted = [output.name for output in body.outputs] + [op.name for op in body.control_outputs]
    got = tf.graph_util.import_graph_def(body.as_graph_def(), input_map=mapping, return_elements=wanted, name="step")
    count = len(body.outputs)  # the loss and, where the function returns more, fetches
    fetches = tuple(tf.identity(output) for output in got[1:count])
    return Net(tf.identity(got[0]), tf.group(*got[count:]), feeds, **{"fetches": fetches, **more})


def _own_variable(name, value):
    if value.size <= 20000 or value.dtype.kind not in "f":
        return tf1.Variable(value, use_resource=True, name=name)
    if value.std() == 0:
        return tf1.Variable(tf.fill(value.shape, value.flat[0]), use_resource=True, name=name)
    seed = [len(tf1.global_variables()), 7]
    initial = tf.random.stateless_normal(value.shape, seed, float(value.mean()), float(value.std()))
    return tf1.Variable(tf.cast(initial, value.dtype), use_resource=True, name=name)


def variable_readers(graph):
    readers = {}
    with graph.as_default():
        for op in graph.get_operations():
            if op.type in ("VariableV2", "Variable"):
                readers[op.name] = op.outputs[0]
            elif op.type == "VarHandleOp":
                readers[op.get_attr("shared_name").decode()] = tf.raw_ops.ReadVariableOp(
                    resource=op.outputs[0], dtype=op.get_attr("dtype"))
    return readers


def run_tensorflow(graph, net, first=None):
    """(losses, variables before, variables after, last fetches); `first` replaces what variables are initialised to."""
    readers = variable_readers(graph)
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, allow_soft_placement=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf1.Session(graph=graph, config=config) as session:
        session.run("init_all")
        if first is not None:
            set_variables(session, graph, first)
        before = session.run(readers)
        losses, fetched = [], {}
        feeds = {name if ":" in name else f"{name}:0": value for name, value in net.feeds.items()}
        for _ in range(net.steps):
            fetched, loss, _ = session.run([{t.name: t for t in net.fetches}, net.loss, net.train], feeds)
            losses.append(float(loss))
        return losses, before, session.run(readers), fetched


def nudged(arrays, seed=0):
    """Every number of the floating arrays moved to a neighbour, up or down by chance."""
    rng = np.random.default_rng(seed)
    return {name: np.nextafter(value, np.where(rng.integers(0, 2, value.shape), np.inf, -np.inf).astype(value.dtype))
            if value.dtype in (np.float32, np.float64) else value for name, value in arrays.items()}


def own_movement(graph, net, wanted, seed=0):
    """How far TensorFlow's own results move when feeds and first weights do by one rounding: losses, variables, fetches."""
    losses, _, after, fetched = run_tensorflow(graph, dataclasses.replace(net, feeds=nudged(net.feeds, seed)), nudged(wanted[1], seed))
    moved = {name: np.linalg.norm((np.asarray(value, np.float64) - after[name]).ravel()) for name, value in wanted[2].items()
             if value.dtype.kind == "f"}
    farthest = {name: np.max(np.abs(np.asarray(value, np.float64) - fetched[name]), initial=0.0)
                for name, value in wanted[3].items() if value.dtype.kind == "f"}
    return [abs(a - b) for a, b in zip(losses, wanted[0])], moved, farthest


def farther(one, other):
    """The larger of two results of own_movement, number by number."""
    losses = [max(pair) for pair in zip(one[0], other[0])]
    return [losses, *({name: max(far, b[name]) for name, far in a.items()} for a, b in zip(one[1:], other[1:]))]


def set_variables(session, graph, values):
    updates, given = [], {}
    with graph.as_default():
        for op in list(graph.get_operations()):
            name = op.get_attr("shared_name").decode() if op.type == "VarHandleOp" else op.name
            if op.type not in ("VarHandleOp", "VariableV2") or values[name].dtype not in (np.float32, np.float64):
                continue
            value = tf1.placeholder(values[name].dtype, values[name].shape)
            given[value] = values[name]
            target = op.outputs[0]
            updates.append(tf.raw_ops.AssignVariableOp(resource=target, value=value) if op.type == "VarHandleOp"
                           else tf1.assign(target, value).op)
    session.run(updates, given)


def command_of(binary, folder, net):
    """What trains the net with the program, and writes variables.npz and fetches.npz into the folder."""
    return [binary, "run", f"--graph={folder}/graph.pb", f"--feeds={folder}/feeds.npz", f"--steps={net.steps}",
            f"--fetches={','.join(['loss:0'] + [t.name for t in net.fetches])}", "--targets=train", "--init_targets=init_all",
            f"--variables_out={folder}/variables.npz", f"--fetches_out={folder}/fetches.npz"]


def run_program(binary, folder, net, flags):
    command = [*command_of(binary, folder, net), f"--report_out={folder}/report.json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"exit status {done.returncode}: {done.stderr.strip()[-600:]}"
    return json.loads((folder / "report.json").read_text())["runs"][0]["losses"]


def differences(net, folder, losses, wanted, own=None):
    """Lines that say what differs by more than the case allows, and by more than a few of TensorFlow's own movements."""
    want_losses, before, after, fetched = wanted
    own_losses, own_variables, own_fetches = own or ([0.0] * len(want_losses), {}, {})
    for step, (got, want, own_loss) in enumerate(zip(losses, want_losses, own_losses, strict=True)):
        if not abs(float(got) - want) <= max(net.rtol * max(abs(want), 1e-3), 8 * own_loss):
            yield f"loss of step {step}: {got!r}, TensorFlow has {want!r}"
    with np.load(folder / "fetches.npz") as arrays:
        for name, want in fetched.items():
            allowed = max(net.rtol, 8 * own_fetches.get(name, 0.0))
            wide = np.complex128 if np.iscomplexobj(want) else np.float64
            if not np.allclose(arrays[name].astype(wide), want.astype(wide), net.rtol, allowed):
                yield f"fetch {name}: {arrays[name].ravel()[:4]}, TensorFlow has {want.ravel()[:4]}"
    if not net.check_variables:
        return
    with np.load(folder / "variables.npz") as arrays:
        for name, want in after.items():
            if name not in arrays:
                yield f"no variable {name}"
                continue
            wide = np.complex128 if np.iscomplexobj(want) else np.float64
            want, first, got = (v.astype(wide) for v in (want, before[name], arrays[name]))
            off, moved, norm = (np.linalg.norm((v).ravel()) for v in (got - want, want - first, want))
            allowed = 50 * net.rtol * moved + 2e-5 * norm + 1e-7 * want.size ** 0.5
            if not off <= max(allowed, 8 * own_variables.get(name, 0.0)):
                yield f"variable {name}: off by {off:.3g} of a change of {moved:.3g}, norm {norm:.3g}"


def optimised(graph, net):
    """What Grappler makes of the graph, with the names that the program is asked for."""
    meta = tf1.train.export_meta_graph(graph_def=graph.as_graph_def(add_shapes=True), graph=graph)
    for collection in list(meta.collection_def):
        del meta.collection_def[collection]
    kept = ["loss:0", "train", "init_all"] + [tensor.name for tensor in net.fetches]
    meta.collection_def["train_op"].node_list.value.extend(kept)
    config = config_pb2.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    rewriting.min_graph_nodes = -1  # small graphs, too
    rewriting.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.TWO
    return tf_optimizer.OptimizeGraph(config, meta, verbose=False)


def build(case, folder, grappler=False):
    """The case's graph and Net; graph.pb and feeds.npz are written to the folder."""
    graph = tf.Graph()
    if getattr(case, "eager", False):
        tf.keras.utils.set_random_seed(5)
        case = case()
    with graph.as_default():
        tf1.set_random_seed(11)
        net = case()
        tf.identity(net.loss, name="loss")
        tf.group(net.train, name="train")
        tf.group(tf1.global_variables_initializer(), tf1.local_variables_initializer(), tf1.tables_initializer(), name="init_all")
    definition = optimised(graph, net) if grappler else graph.as_graph_def()
    (folder / "graph.pb").write_bytes(definition.SerializeToString(deterministic=True))
    np.savez(folder / "feeds.npz", **net.feeds)
    return graph, net


def check(binary, case, folder, flags, grappler=False):
    """Lines that say what is wrong."""
    graph, net = build(case, folder, grappler)
    losses = run_program(binary, folder, net, flags)
    if isinstance(losses, str):
        unsupported = subprocess.run([binary, "inspect", f"--graph={folder}/graph.pb", "--fetches=loss:0",
                                      "--targets=train,init_all"], capture_output=True, text=True, check=False).stdout
        lines = [line for line in unsupported.splitlines() if "nsupported" in line]
        return [losses] + lines
    return remaining_differences(graph, net, folder, losses, run_tensorflow(graph, net))


def remaining_differences(graph, net, folder, losses, wanted):
    """As differences; where TensorFlow itself would go elsewhere for one rounding of its feeds, agreement cannot be closer than that."""
    wrong = list(differences(net, folder, losses, wanted))
    if not wrong:
        return []
    # A net may do so for some roundings only: where a number is next to a kink of ReLU or a tie of pooling.
    own, left = None, wrong
    for seed in range(NUDGES):
        moved = own_movement(graph, net, wanted, seed)
        own = moved if own is None else farther(own, moved)
        left = list(differences(net, folder, losses, wanted, own))
        if not left:
            print(f"ill-conditioned: {len(wrong)} results differ, but within 8 times what TensorFlow's move by with one rounding "
                  f"of feeds and weights, {seed + 1} tried; its losses move by {max(own[0]):.3g}", flush=True)
            break
    return left


def cases_of(names):
    """Every case, or those of the given names and families."""
    for family in FAMILIES:
        for short, case in importlib.import_module(family).cases():
            name = f"{family}.{short}"
            if not names or any(name.startswith(wanted) or short == wanted for wanted in names):
                yield name, case


def check_all(cases, out, check_one):
    """How many cases are right (True) and wrong; check_one(name, case, folder) gives lines that say what is wrong."""
    results = collections.Counter()
    for name, case in cases:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(out or temporary) / name
            folder.mkdir(parents=True, exist_ok=True)
            try:
                wrong = list(check_one(name, case, folder))
            except Exception:  # one case that TensorFlow cannot build must not stop the others
                wrong = [traceback.format_exc()[-900:]]
        print(f"{'FAIL' if wrong else 'ok  '} {name}" + "".join(f"\n     {line}" for line in wrong[:6]), flush=True)
        results[not wrong] += 1
    return results


def main(description, find_cases):
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--flags", default="")
    parser.add_argument("--grappler", action="store_true")
    arguments = parser.parse_args()
    results = check_all(find_cases(arguments.names), arguments.out, lambda _, case, folder: check(
        arguments.binary, case, folder, shlex.split(arguments.flags), arguments.grappler))
    print(f"{results[True]} passed, {results[False]} failed")
    return 1 if results[False] else 0


if __name__ == "__main__":
    sys.exit(main(__doc__, cases_of))
