"""Recurrent layers as cuDNN has them. TensorFlow has kernels of them on GPUs only: the answers are those of their equations, written
with TensorFlow's matmul, sigmoid and tanh, step by step, and of its gradient tape."""
import numpy as np
import tensorflow as tf

from case_builder import Case, L

GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


class Net:
    """Layers with random weights and inputs. Everything is [steps, batch, ...] and float64 here."""

    def __init__(self, mode, layers=1, both=False, steps=5, batch=3, inputs=4, units=2, lengths=None, seed=0):
        self.mode, self.layers, self.directions = mode, layers, 2 if both else 1
        self.steps, self.batch, self.inputs, self.units = steps, batch, inputs, units
        self.lengths = np.array(lengths if lengths is not None else [steps] * batch, np.int32)
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(steps, batch, inputs))
        self.h, self.c = (rng.normal(size=(layers * self.directions, batch, units)) for _ in range(2))
        shapes, gates = [], GATES[mode]
        for layer in range(layers):
            for _ in range(self.directions):
                shapes += [(units, inputs if layer == 0 else units * self.directions)] * gates + [(units, units)] * gates
        self.parts = [rng.normal(size=s) * 0.7 for s in shapes] + [rng.normal(size=units) * 0.5 for _ in shapes]
        self.params = np.concatenate([p.reshape(-1) for p in self.parts])
        self.gradients = [rng.normal(size=(steps, batch, units * self.directions)), rng.normal(size=self.h.shape), rng.normal(size=self.h.shape)]

    def run(self, x, h, c, params):
        """(output, state h, state c, what is kept)"""
        gates, units, at = GATES[self.mode], self.units, 0
        split = []
        for part in self.parts:
            split.append(tf.reshape(params[at:at + part.size], part.shape))
            at += part.size
        weights, biases = split[:len(split) // 2], split[len(split) // 2:]
        hs, cs, kept = [], [], []
        for layer in range(self.layers):
            outputs, kept_here = [], []
            for direction in range(self.directions):
                k = layer * self.directions + direction
                w, b = weights[2 * gates * k:2 * gates * (k + 1)], biases[2 * gates * k:2 * gates * (k + 1)]
                state, cell, rows = h[k], c[k] if self.mode == "lstm" else tf.zeros_like(h[k]), [None] * self.steps
                for t in range(self.steps) if direction == 0 else reversed(range(self.steps)):
                    by_x = [tf.matmul(x[t], w[g], transpose_b=True) + b[g] for g in range(gates)]
                    by_h = [tf.matmul(state, w[gates + g], transpose_b=True) + b[gates + g] for g in range(gates)]
                    new_cell = cell
                    if self.mode == "lstm":
                        i, f, o = (tf.sigmoid(by_x[g] + by_h[g]) for g in (0, 1, 3))
                        made = tf.tanh(by_x[2] + by_h[2])
                        more = new_cell = f * cell + i * made
                        values, new = [i, f, made, o], o * tf.tanh(new_cell)
                    elif self.mode == "gru":
                        r, z = (tf.sigmoid(by_x[g] + by_h[g]) for g in (0, 1))
                        more = by_h[2]
                        made = tf.tanh(by_x[2] + r * more)
                        values, new = [r, z, made], (1 - z) * made + z * state
                    else:
                        new = more = (tf.nn.relu if self.mode == "rnn_relu" else tf.tanh)(by_x[0] + by_h[0])
                        values = [new]
                    on = (t < self.lengths)[:, None]
                    zero = tf.zeros_like(new)
                    rows[t] = (tf.where(on, new, zero), tf.concat([tf.where(on, v, zero) for v in values], 1), tf.where(on, more, zero))
                    state, cell = tf.where(on, new, state), tf.where(on, new_cell, cell)
                hs.append(state)
                cs.append(cell)
                outputs.append(tf.stack([r[0] for r in rows]))
                kept_here += [tf.stack([r[1] for r in rows]), tf.stack([r[2] for r in rows])]
            x = tf.concat(outputs, 2)
            kept += [x] + kept_here
        return x, tf.stack(hs), tf.stack(cs), tf.concat([tf.reshape(k, [-1]) for k in kept], 0)

    def answers(self):
        """Outputs and kept; gradients of x, h, c and params."""
        given = [tf.constant(v) for v in (self.x, self.h, self.c, self.params)]
        with tf.GradientTape() as tape:
            tape.watch(given)
            out = self.run(*given)
            loss = sum(tf.reduce_sum(o * g) for o, g in zip(out[:2 + (self.mode == "lstm")], self.gradients))
        gradients = tape.gradient(loss, given, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [o.numpy() for o in out], [g.numpy() for g in gradients]

    def cases(self, name, version="V3", time_major=True, dtype=np.float32, training=True, close=CLOSE):
        out, gradients = self.answers()
        lstm = self.mode == "lstm"

        def ours(value):
            value = np.asarray(value).astype(dtype)
            return value if time_major or value.ndim != 3 else value.swapaxes(0, 1).copy()

        no_c = np.zeros((), dtype)
        attrs = {"rnn_mode": self.mode, "direction": "bidirectional" if self.directions == 2 else "unidirectional"}
        nothing = [np.zeros(0, np.int8)] if version else []
        inputs = [ours(self.x), ours(self.h), ours(self.c) if lstm else no_c, ours(self.params)]
        if version == "V3":
            inputs.append(self.lengths)
            attrs["time_major"] = time_major
        outputs = [ours(out[0]), ours(out[1]), ours(out[2]) if lstm else no_c]
        kept = ours(out[3]) if training else np.zeros(0, dtype)
        yield Case(f"CudnnRNN{version}_{name}", "CudnnRNN" + version, inputs, {**attrs, "is_training": training},
                   expected=outputs + [kept] + nothing, **close)
        if training:
            back = inputs + outputs + [ours(g) for g in self.gradients[:2]] + [ours(self.gradients[2]) if lstm else no_c, kept] + nothing
            expected = [ours(gradients[0]), ours(gradients[1]), ours(gradients[2]) if lstm else no_c, ours(gradients[3])]
            yield Case(f"CudnnRNNBackprop{version}_{name}", "CudnnRNNBackprop" + version, back, attrs, expected=expected, **close)


def layer_cases():
    for mode in GATES:
        yield from Net(mode).cases(f"{mode}_one", "")
        yield from Net(mode, 2, True).cases(f"{mode}_both_ways", "V2")
        yield from Net(mode, 3, True, lengths=[5, 1, 3], seed=1).cases(f"{mode}_lengths")
        yield from Net(mode, 2, lengths=[2, 4, 5], seed=2).cases(f"{mode}_batch_major", time_major=False)
    yield from Net("lstm", 2).cases("lstm_answers", training=False)
    yield from Net("gru", 2, lengths=[5, 0, 2]).cases("gru_no_steps")
    yield from Net("lstm", 2, True).cases("lstm_double", dtype=np.float64, close={"rtol": 1e-12, "atol": 1e-12})
    yield from Net("gru", 1).cases("gru_half", dtype=np.float16, close={"rtol": 2e-2, "atol": 2e-2})
    yield from Net("gru", steps=2, batch=66, units=64).cases("gru_wide")
    yield from Net("lstm", batch=0).cases("lstm_empty")
    # With an even number of layers, and inputs that are wider than what the layers give.
    for mode in ("lstm", "gru"):
        yield from Net(mode, 2, True, inputs=9, seed=3).cases(f"{mode}_wide_inputs")


def weight_cases():
    sizes = [np.int32(2), np.int32(3), np.int32(4)]
    for mode, both in (("lstm", False), ("gru", True)):
        net = Net(mode, 2, both, inputs=4, units=3)
        attrs = {"rnn_mode": mode, "direction": "bidirectional" if both else "unidirectional"}
        params, parts = net.params.astype(np.float32), [p.astype(np.float32) for p in net.parts]
        weights, biases = L(parts[:len(parts) // 2]), L(parts[len(parts) // 2:])
        for out in (np.int32, np.int64):
            yield Case(f"ParamsSize_{mode}_{np.dtype(out).name}", "CudnnRNNParamsSize", sizes, {**attrs, "T": np.float32, "S": out},
                       expected=[np.array([params.size], out)])
        yield Case(f"ToCanonical_{mode}", "CudnnRNNParamsToCanonical", sizes + [params], {**attrs, "num_params": len(weights)}, expected=parts)
        yield Case(f"ToCanonicalV2_{mode}", "CudnnRNNParamsToCanonicalV2", sizes + [params],
                   {**attrs, "num_params_weights": len(weights), "num_params_biases": len(biases)}, expected=parts)
        yield Case(f"ToParams_{mode}", "CudnnRNNCanonicalToParams", sizes + [weights, biases], attrs, expected=[params])
        yield Case(f"ToParamsV2_{mode}", "CudnnRNNCanonicalToParamsV2", sizes + [weights, biases], attrs, expected=[params])


def cases():
    yield from layer_cases()
    yield from weight_cases()
