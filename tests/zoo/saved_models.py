#!/usr/bin/env python3
"""Training steps that come in as SavedModels, or as a MetaGraph with a checkpoint, compared with TensorFlow.

  saved_models.py BINARY [NAME ...] [--out=FOLDER] [--flags='FLAG ...']

A case writes a model to a folder and returns a Saved: what to feed and how TensorFlow runs a step of what was written. The
program must start from the variables of the files and give the losses of every step.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import traceback
from typing import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

from zoo import NUDGES, nudged  # noqa: E402

tf1 = tf.compat.v1
STEPS = 4
RNG = np.random.default_rng(0)


@dataclasses.dataclass
class Saved:
    feeds: dict
    step: Callable  # () -> loss, of TensorFlow
    flags: tuple  # what the program is given
    rtol: float = 1e-3
    restore: Callable = None  # (prefix): TensorFlow goes on from that checkpoint
    nudged_step: Callable = None  # (seed): a step of the same model with its first weights moved by one rounding


class Trained(tf.Module):
    """A Keras model and its optimizer, whose step is a signature."""

    def __init__(self, model, optimizer, loss, inputs):
        super().__init__()
        optimizer.build(model.trainable_variables)
        self.model_variables = [v.value for v in model.variables]
        self.slots = [v.value for v in optimizer.variables]
        self.kept = [w.value for layer in model._flatten_layers() for w in layer.variables]
        self._run = model, optimizer, loss, inputs

    def step(self, **values):
        model, optimizer, loss, inputs = self._run
        with tf.GradientTape() as tape:
            outputs = model([values[name] for name in inputs] if len(inputs) > 1 else values[inputs[0]], training=True)
            value = loss(outputs, **values)
            if model.losses:
                value += tf.add_n(model.losses)
        optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
        return {"loss": value}


def keras_case(make_model, feeds, loss, optimizer, inputs=("x",), free_batch=False):
    def build(folder):
        keras.utils.set_random_seed(3)
        module = Trained(make_model(), optimizer(), loss, list(inputs))
        specs = {name: tf.TensorSpec(((None,) if free_batch else value.shape[:1]) + value.shape[1:], value.dtype, name) for name, value in feeds.items()}
        function = tf.function(lambda **values: module.step(**values), input_signature=None)
        tf.saved_model.save(module, str(folder), signatures={"train_step": function.get_concrete_function(**specs)})
        return loaded(folder, feeds, "train_step")
    return build


def loaded(folder, feeds, signature):
    def step_of(seed=None):
        model = tf.saved_model.load(str(folder))
        run = model.signatures[signature]
        if seed is not None:
            moved = nudged({i: v.numpy() for i, v in enumerate(run.variables)}, seed)
            for i, variable in enumerate(run.variables):
                variable.assign(moved[i])
        return lambda: (model, run(**{name: tf.constant(value) for name, value in feeds.items()})["loss"])[1]
    return Saved(feeds, step_of(), (f"--saved_model={folder}", f"--signature={signature}", "--fetches=loss"), nudged_step=step_of)


def entropy(outputs, y, **_):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=outputs))


def pictures(size=16):
    return {"x": RNG.normal(size=(4, size, size, 3)).astype(np.float32), "y": RNG.integers(0, 5, 4).astype(np.int32)}


def rows(width=6):
    return {"x": RNG.normal(size=(8, width)).astype(np.float32), "y": RNG.integers(0, 5, 8).astype(np.int32)}


def words():
    return {"x": RNG.integers(0, 20, (4, 7)).astype(np.int32), "y": RNG.integers(0, 5, 4).astype(np.int32)}


def sequential(*made, shape, dtype="float32"):
    return keras.Sequential([keras.Input(shape, dtype=dtype), *made])


def plain_module(folder):
    """tf.Module without Keras: tf.Variables, tf.functions that call each other, a counter."""
    class Plain(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(RNG.normal(0, 0.3, (6, 5)).astype(np.float32), name="w")
            self.b = tf.Variable(np.zeros(5, np.float32))  # two variables called "Variable"
            self.m = [tf.Variable(tf.zeros_like(v)) for v in (self.w, self.b)]
            self.count = tf.Variable(0, dtype=tf.int64)

        @tf.function
        def logits(self, x):
            return tf.nn.relu(x) @ self.w + self.b

        @tf.function(input_signature=[tf.TensorSpec([None, 6]), tf.TensorSpec([None], tf.int32)])
        def train(self, x, y):
            with tf.GradientTape() as tape:
                loss = entropy(self.logits(x), y)
            for variable, moment, gradient in zip((self.w, self.b), self.m, tape.gradient(loss, (self.w, self.b))):
                moment.assign(0.9 * moment + gradient)
                variable.assign_sub(0.1 * moment * tf.cond(self.count % 2 == 0, lambda: 1.0, lambda: 0.5))
            self.count.assign_add(1)
            return {"loss": loss}
    module = Plain()
    tf.saved_model.save(module, str(folder), signatures={"train": module.train})
    return loaded(folder, rows(), "train")


def looked_up(make_layer, values):
    """A layer that turns its input into rows of a table, which the loader initialises; fed words are known when a step is planned."""
    def build(folder):
        keras.utils.set_random_seed(3)

        class LookedUp(tf.Module):
            def __init__(self):
                super().__init__()
                self.layer = make_layer()
                self.rows = tf.Variable(RNG.normal(size=(20, 4)).astype(np.float32))

            @tf.function(input_signature=[tf.TensorSpec(values.shape, tf.as_dtype(values.dtype), "x")])
            def train(self, x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.gather(self.rows, self.layer(x)) ** 2)
                self.rows.assign_sub(tf.convert_to_tensor(tape.gradient(loss, self.rows)))
                return {"loss": loss}
        module = LookedUp()
        tf.saved_model.save(module, str(folder), signatures={"train": module.train})
        return loaded(folder, {"x": values}, "train")
    return build


def old_net(resources=False, parts=None):
    feeds = rows()
    x = tf1.placeholder(tf.float32, [None, 6], "x")
    y = tf1.placeholder(tf.int32, [None], "y")
    partitioner = tf1.fixed_size_partitioner(parts) if parts else None
    with tf1.variable_scope("net", use_resource=resources, partitioner=partitioner):
        kernel = tf1.get_variable("kernel", [6, 12], initializer=tf1.glorot_uniform_initializer(seed=1))
        out = tf1.get_variable("out", [12, 5], initializer=tf1.glorot_uniform_initializer(seed=2))
        logits = tf.nn.relu(x @ kernel) @ out
    loss = tf.identity(entropy(logits, y), "loss")
    step = tf1.train.get_or_create_global_step()
    rate = tf1.train.exponential_decay(0.05, step, 2, 0.7)
    optimizer = tf1.train.AdamOptimizer(rate)
    train = optimizer.minimize(loss, step)
    average = tf1.train.ExponentialMovingAverage(0.9, step)
    with tf1.control_dependencies([train]):
        train = tf.group(average.apply(tf1.trainable_variables()), name="train")
    return feeds, loss, train


def session_of(graph):
    return tf1.Session(graph=graph, config=tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1))


def old_saved_model(resources=False, parts=None):
    def build(folder):
        graph = tf.Graph()
        with graph.as_default():
            tf1.set_random_seed(2)
            feeds, loss, train = old_net(resources, parts)
            with session_of(graph) as session:
                session.run(tf1.global_variables_initializer())
                session.run(train, {f"{name}:0": value for name, value in feeds.items()})
                builder = tf1.saved_model.Builder(str(folder))
                info = tf1.saved_model.build_tensor_info
                signature = tf1.saved_model.build_signature_def(
                    {name: info(graph.get_tensor_by_name(f"{name}:0")) for name in feeds}, {"loss": info(loss)}, "train")
                builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, strip_default_attrs=True)
                builder.save()
        again = tf.Graph()
        session = session_of(again)
        with again.as_default():
            tf1.saved_model.load(session, ["serve"], str(folder))
        return Saved(feeds, lambda: session.run(["loss:0", "train"], {f"{name}:0": value for name, value in feeds.items()})[0],
                     (f"--saved_model={folder}", "--signature=serving_default", "--fetches=loss", "--targets=train"))
    return build


def meta_graph(resources=False, sharded=False, parts=None):
    """What a Saver writes: PREFIX.meta and the checkpoint itself; and what a Saver reads."""
    def build(folder):
        graph = tf.Graph()
        prefix = str(folder / "model")
        with graph.as_default():
            tf1.set_random_seed(2)
            feeds, _, train = old_net(resources, parts)
            with session_of(graph) as session:
                session.run(tf1.global_variables_initializer())
                session.run(train, {f"{name}:0": value for name, value in feeds.items()})
                tf1.train.Saver(sharded=sharded).save(session, prefix)
        again = tf.Graph()
        session = session_of(again)
        with again.as_default():
            saver = tf1.train.import_meta_graph(prefix + ".meta")
            saver.restore(session, prefix)
        return Saved(feeds, lambda: session.run(["loss:0", "train"], {f"{name}:0": value for name, value in feeds.items()})[0],
                     (f"--graph={prefix}.meta", f"--checkpoint_in={prefix}", "--fetches=loss:0", "--targets=train"),
                     restore=lambda written: session.run(saver.saver_def.restore_op_name, {saver.saver_def.filename_tensor_name: written}))
    return build


def warm_start(parts=None):
    """Another graph's variables by init_from_checkpoint: RestoreV2 behind the initializers, of slices where they are partitioned."""
    def build(folder):
        prefix, path = str(folder / "first"), folder / "graph.pb"
        with tf.Graph().as_default() as graph, session_of(graph) as session:
            tf1.set_random_seed(2)
            old_net()
            session.run(tf1.global_variables_initializer())
            tf1.train.Saver().save(session, prefix, write_meta_graph=False)
        graph = tf.Graph()
        session = session_of(graph)
        with graph.as_default():
            feeds, _, _ = old_net(parts=parts)
            tf1.train.init_from_checkpoint(prefix, {"net/": "net/"})
            tf.group(tf1.global_variables_initializer(), name="init")
        path.write_bytes(graph.as_graph_def().SerializeToString())
        session.run("init")
        return Saved(feeds, lambda: session.run(["loss:0", "train"], {f"{name}:0": value for name, value in feeds.items()})[0],
                     (f"--graph={path}", "--fetches=loss:0", "--targets=train", "--init_targets=init"))
    return build


def vocabulary_file(folder):
    """A table that a file initialises, whose name is all that the graph has of it."""
    path, words = folder / "graph.pb", np.array([7, 12, 99, 3, 7], np.int64)
    (folder / "numbers.txt").write_text("3\n7\n12\n")
    graph = tf.Graph()
    session = session_of(graph)
    with graph.as_default():
        index = tf.lookup.TextFileIndex
        table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(folder / "numbers.txt"), tf.int64, index.WHOLE_LINE, tf.int64,
                                                                        index.LINE_NUMBER), 3)
        rows = tf1.get_variable("rows", [4, 2], initializer=tf1.random_normal_initializer(seed=1))
        loss = tf.reduce_mean(tf.gather(rows, table.lookup(tf1.placeholder(tf.int64, [5], "x"))) ** 2, name="loss")
        tf1.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        tf.group(tf1.global_variables_initializer(), tf1.tables_initializer(), name="start")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    session.run("start")
    return Saved({"x": words}, lambda: session.run(["loss:0", "train"], {"x:0": words})[0],
                 (f"--graph={path}", "--fetches=loss:0", "--targets=train", "--init_targets=start"))


def _functional():
    a = keras.Input((16, 16, 3))
    h = layers.Conv2D(8, 3, padding="same", use_bias=False)(a)
    h = layers.BatchNormalization()(h)
    h = layers.Add()([layers.ReLU()(h), layers.Conv2D(8, 1)(a)])
    h = layers.GlobalAveragePooling2D()(layers.DepthwiseConv2D(3, strides=2)(h))
    return keras.Model(a, layers.Dense(5, kernel_regularizer="l2")(h))


def _recurrent():
    return sequential(layers.Embedding(20, 6, mask_zero=True), layers.Bidirectional(layers.LSTM(5, return_sequences=True)), layers.GRU(4),
                      layers.Dense(5), shape=(7,), dtype="int32")


def _attentive():
    a = keras.Input((7,), dtype="int32")
    h = layers.Embedding(20, 8)(a)
    h = layers.LayerNormalization()(h + layers.MultiHeadAttention(2, 4)(h, h))
    return keras.Model(a, layers.Dense(5)(layers.GlobalMaxPooling1D()(h)))


def _dropping():
    return sequential(layers.Dense(12, activation="gelu"), layers.BatchNormalization(), layers.Dense(5), shape=(6,))


def _crossed(x):
    return layers.HashedCrossing(13)((x[:, 0], x[:, 1])) + layers.HashedCrossing(5)((x[:, 0], tf.strings.length(x[:, 1])))


CASES = {
    "plain_module": plain_module,
    "keras_functional": keras_case(_functional, pictures(), entropy, lambda: keras.optimizers.Adam(1e-3)),
    "keras_any_batch": keras_case(_functional, pictures(), entropy, lambda: keras.optimizers.SGD(1e-2, momentum=0.9, nesterov=True), free_batch=True),
    "keras_recurrent": keras_case(_recurrent, words(), entropy, lambda: keras.optimizers.RMSprop(1e-3)),
    "keras_recurrent_any_batch": keras_case(_recurrent, words(), entropy, lambda: keras.optimizers.Adagrad(1e-2), free_batch=True),
    "keras_attentive": keras_case(_attentive, words(), entropy, lambda: keras.optimizers.AdamW(1e-3, clipnorm=1.0), free_batch=True),
    "keras_averaged": keras_case(_dropping, rows(), entropy,
                                 lambda: keras.optimizers.Lion(keras.optimizers.schedules.CosineDecay(1e-2, 10), use_ema=True, gradient_accumulation_steps=2)),
    "numbers_looked_up": looked_up(lambda: layers.IntegerLookup(vocabulary=[3, 5, 11], num_oov_indices=3, mask_token=0), np.array([[3, 5, 7], [0, 11, 900]])),
    "words_looked_up": looked_up(lambda: layers.StringLookup(vocabulary=["a", "b"], num_oov_indices=3), np.array([["a", "x"], ["", "b"]])),
    "numbers_hashed": looked_up(lambda: layers.Hashing(13), np.array([[3, 5, 7], [0, 11, 900]])),
    "words_hashed": looked_up(lambda: layers.Hashing(13, salt=[1, 2]), np.array([["a", "x"], ["", "b"]])),
    "texts_as_numbers": looked_up(lambda: layers.TextVectorization(vocabulary=["some", "words", "of", "it"], output_sequence_length=5),
                                  np.array(["Some words, of it!", "", "it IS some  other text of  many words"])),
    "runs_of_words": looked_up(lambda: layers.TextVectorization(ngrams=2, vocabulary=["some", "some words", "of it"], output_sequence_length=6),
                               np.array(["Some words, of it!", "", "it IS some  other text"])),
    "words_crossed": looked_up(lambda: _crossed, np.array([["a", "x"], ["", "b"], ["a", "b"]])),
    "old": old_saved_model(),
    "old_resources": old_saved_model(resources=True),
    "meta": meta_graph(),
    "meta_resources": meta_graph(resources=True),
    "meta_sharded": meta_graph(sharded=True),
    "old_partitioned": old_saved_model(parts=4),
    "meta_partitioned": meta_graph(parts=4),
    "meta_partitioned_resources": meta_graph(resources=True, parts=5),
    "meta_partitioned_sharded": meta_graph(sharded=True, parts=1),
    "vocabulary_file": vocabulary_file,
    "warm_start": warm_start(),
    "warm_start_partitioned": warm_start(parts=3),
}


def check(binary, build, folder, flags):
    saved = build(folder / "model")
    np.savez(folder / "feeds.npz", **saved.feeds)
    report = folder / "report.json"
    written = str(folder / "written")
    if saved.restore is not None:
        flags = [*flags, f"--checkpoint_out={written}"]
    done = subprocess.run([binary, "run", *saved.flags, f"--feeds={folder}/feeds.npz", f"--steps={STEPS}", f"--report_out={report}", *flags],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [f"exit status {done.returncode}: {done.stderr.strip()[-600:]}"]
    losses = json.loads(report.read_text())["runs"][0]["losses"]
    wanted = [float(saved.step()) for _ in range(STEPS)]
    if saved.restore is not None:  # the step that comes next, from TensorFlow's variables and from the program's
        wanted.append(float(saved.step()))
        saved.restore(written)
        losses.append(saved.step())
    moved = [0.0] * len(wanted)
    wrong = differences(saved, losses, wanted, moved)
    if not wrong or saved.nudged_step is None:
        return wrong
    for seed in range(NUDGES):  # agreement cannot be closer than what TensorFlow's own losses move by
        step = saved.nudged_step(seed)
        moved = [max(most, abs(float(step()) - want)) for most, want in zip(moved, wanted)]
        if not differences(saved, losses, wanted, moved):
            print(f"ill-conditioned: {len(wrong)} losses differ, but within 8 times what TensorFlow's move by with one rounding of weights, "
                  f"{seed + 1} tried; they move by {max(moved):.3g}", flush=True)
            return []
    return wrong


def differences(saved, losses, wanted, moved):
    return [f"loss of step {i}: {got}, TensorFlow has {want}" for i, (got, want, own) in enumerate(zip(losses, wanted, moved, strict=True))
            if not abs(float(got) - want) <= max(saved.rtol * max(abs(want), 1e-3), 8 * own)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--flags", default="")
    arguments = parser.parse_args()
    failed = 0
    for name, build in CASES.items():
        if arguments.names and name not in arguments.names:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(arguments.out or temporary) / name
            (folder / "model").mkdir(parents=True, exist_ok=True)
            if build.__qualname__.startswith("old_saved_model"):
                (folder / "model").rmdir()  # its builder makes the folder
            try:
                wrong = check(arguments.binary, build, folder, shlex.split(arguments.flags))
            except Exception:  # one case that TensorFlow cannot build must not stop the others
                wrong = [traceback.format_exc()[-900:]]
        print(f"{'FAIL' if wrong else 'ok  '} {name}" + "".join(f"\n     {line}" for line in wrong[:6]), flush=True)
        failed += bool(wrong)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
