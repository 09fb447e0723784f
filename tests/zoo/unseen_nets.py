"""Loops that end by their own results: halting, fixed points, iterative solvers, decoders, suppression; and what no other family
has of transforms, matrix functions and ragged rows."""
import numpy as np
import tensorflow as tf

from world_nets import F32, _Built, integers, numbers
from zoo import eager


def matrix_functions(v, x):
    """The exponential squares as often as the norm of its argument says."""
    a = v["w"] @ tf.transpose(v["w"]) + 2.0 * tf.eye(3)
    grown = tf.linalg.expm(3.0 * v["w"])
    fit = tf.linalg.lstsq(x, x @ a, fast=True) + tf.linalg.pinv(a)
    solved = tf.linalg.cholesky_solve(tf.linalg.cholesky(a), grown)
    return tf.reduce_mean(fit * grown) + tf.reduce_mean(solved) + tf.math.log(tf.linalg.eigvalsh(a)[0] + 3.0)


def cosines(v, x):
    y = tf.signal.dct(x * v["w"], 2, norm="ortho")
    y = tf.signal.idct(y[..., :8], 2) + tf.signal.dct(x, 3)
    m = tf.signal.mdct(tf.reshape(x * v["w"], [4, 64]), 16)
    back = tf.signal.inverse_mdct(m)
    framed = tf.signal.overlap_and_add(tf.signal.frame(tf.reshape(x * v["w"], [4, 64]), 16, 8) * tf.signal.hann_window(16), 8)
    return tf.reduce_mean(y ** 2) + tf.reduce_mean(back ** 2) + tf.reduce_mean(framed ** 2)


def ragged_rows(v, ids, lengths, y):
    rows = tf.RaggedTensor.from_row_lengths(ids, lengths)
    embedded = tf.ragged.map_flat_values(tf.nn.embedding_lookup, v["table"], rows)
    mean = tf.reduce_mean(embedded, 1)
    most = tf.reduce_max(embedded, 1)
    place = tf.gather(v["place"], tf.range(8) - tf.cast(tf.gather(rows.row_starts(), rows.value_rowids()), tf.int32))
    both = rows.with_values(embedded.values + place)
    dense = both.to_tensor(shape=[3, 4, 4])
    return tf.reduce_mean((mean + most - y) ** 2) + tf.reduce_mean(tf.tanh(dense))


def overlaps_given(v, x, y):
    score = tf.reduce_sum(x @ v["w"], 1)
    overlap = tf.abs(tf.matmul(x, x, transpose_b=True)) / 10.0
    keep = tf.image.non_max_suppression_overlaps(overlap, score, 2, 0.3)
    return tf.reduce_mean((tf.gather(x, keep) @ v["w"]) ** 2)


def padded_suppression(v, x, boxes, y):
    scores = tf.nn.sigmoid(tf.reduce_sum(x @ v["w"], -1))
    index, valid = tf.image.non_max_suppression_padded(boxes, tf.stop_gradient(scores), 3, 0.4, 0.1, pad_to_max_output_size=True, sorted_input=False, canonicalized_coordinates=True, tile_size=8)
    picked = tf.gather(scores, index, batch_dims=1)
    return tf.reduce_mean(picked ** 2) + 0.01 * tf.cast(tf.reduce_sum(valid), tf.float32)


def sparse_operand(v, x, y):
    h = tf.matmul(tf.nn.relu(x), v["w"], a_is_sparse=True)
    return tf.reduce_mean((tf.matmul(h, v["w"], b_is_sparse=True, transpose_b=True) - y) ** 2)


def halting(v, x, y):
    """Adaptive computation time: turns until every row has halted, at most six."""
    def turn(n, state, total, out, ponder):
        state = tf.tanh(state @ v["w"] + x)
        p = tf.sigmoid(tf.squeeze(state @ v["halt"], 1))
        running = tf.cast(total < 0.95, tf.float32)
        last = tf.cast(total + p * running > 0.95, tf.float32) * running
        weight = tf.where(last > 0, 1.0 - total, p * running)
        return n + 1, state, total + weight, out + weight[:, None] * state, ponder + running
    _, _, _, out, ponder = tf.while_loop(lambda n, s, total, *_: (n < 6) & tf.reduce_any(total < 0.95), turn,
                                         (0, x, tf.zeros([4]), tf.zeros_like(x), tf.zeros([4])))
    return tf.reduce_mean((out - y) ** 2) + 0.01 * tf.reduce_mean(ponder)


def fixed_point(v, x, y):
    """A layer that is iterated until it rests, with its implicit gradient."""
    @tf.custom_gradient
    def rest(w, x):
        step = lambda z, w, x: tf.tanh(0.3 * z @ w + x)
        _, z, _ = tf.while_loop(lambda i, z, off: off > 1e-4, lambda i, z, off: (i + 1, step(z, w, x), tf.reduce_max(tf.abs(step(z, w, x) - z))),
                                (0, tf.zeros_like(x), tf.constant(1.0)), maximum_iterations=30)
        def grad(g):
            with tf.GradientTape(persistent=True) as tape:
                tape.watch([z, w, x])
                out = step(z, w, x)
            u = g
            for _ in range(5):
                u = g + tape.gradient(out, z, u)
            return tape.gradient(out, w, u), tape.gradient(out, x, u)
        return z, grad
    return tf.reduce_mean((rest(v["w"], x) - y) ** 2)


def conjugate_gradients(v, x, y):
    a = tf.linalg.matmul(v["w"], v["w"], transpose_a=True) + tf.eye(3)
    operator = tf.linalg.LinearOperatorFullMatrix(a, is_self_adjoint=True, is_positive_definite=True)
    solution = tf.linalg.experimental.conjugate_gradient(operator, tf.stop_gradient(tf.reduce_mean(y, 0)), tol=1e-5, max_iter=8)
    return tf.reduce_mean((x @ tf.stop_gradient(solution.x)[:, None] - y) ** 2) + tf.reduce_mean((x @ v["w"]) ** 2)


def sampled_decoder(v, x, y):
    """Greedy decoding until every row has ended, at most seven words; its score is trained on."""
    def turn(t, word, state, ended, score):
        state = tf.tanh(tf.gather(v["table"], word) + state @ v["w"])
        logits = tf.nn.log_softmax(state @ v["out"])
        word = tf.argmax(logits, -1, tf.int32)
        score += tf.where(ended, 0.0, tf.reduce_max(logits, -1))
        return t + 1, word, state, ended | tf.equal(word, 0), score
    _, _, _, _, score = tf.while_loop(lambda t, w, s, ended, c: ~tf.reduce_all(ended), turn,
                                      (0, tf.ones([4], tf.int32), x, tf.zeros([4], tf.bool), tf.zeros([4])), maximum_iterations=7)
    return tf.reduce_mean((score - y[:, 0]) ** 2)


def einsums(v, x, y):
    e = tf.einsum
    a = e("...ij,jk->...ik", x, v["w"]) + e("bij->bji", x)[:, :, :]
    b = e("bii->bi", a) + e("bij->bi", a) + e("ij,ij->", v["w"], v["w"])
    c = e("bij,bkj,jl->bikl", x, x, v["w"])
    d = e("ab,cd,bc->ad", v["w"], v["w"], v["w"])
    f = e("ijj->i", x) + e("i...->...i", x)[0, 0, :]
    return tf.reduce_mean(b ** 2) + tf.reduce_mean(c) + tf.reduce_mean(d) + tf.reduce_mean(f) + tf.reduce_mean((a - y) ** 2)


def _table():
    w = lambda *shape, seed=5: numbers(*shape, seed=seed) * 0.4
    image = {"x": np.abs(numbers(2, 8, 8, 3))}
    xy = {"x": numbers(4, 3), "y": numbers(4, 3)}
    yield matrix_functions, {"w": w(3, 3)}, {"x": numbers(5, 3)}
    yield cosines, {"w": w(4, 8, 8)}, {"x": numbers(4, 8, 8)}
    yield ragged_rows, {"table": w(6, 4), "place": w(4, 4)}, {"ids": integers(6, 8), "lengths": np.array([3, 1, 4], np.int64), "y": numbers(3, 4)}
    yield overlaps_given, {"w": w(3, 3)}, xy
    yield padded_suppression, {"w": w(3, 2)}, {"x": numbers(2, 6, 3), "boxes": np.sort(np.random.default_rng(1).uniform(size=(2, 6, 2, 2)), 2).transpose(0, 1, 2, 3).reshape(2, 6, 4).astype(F32), "y": numbers(2)}
    yield sparse_operand, {"w": w(3, 3)}, xy
    yield halting, {"w": w(3, 3), "halt": w(3, 1)}, xy
    yield fixed_point, {"w": w(3, 3)}, xy
    yield conjugate_gradients, {"w": w(3, 3)}, {"x": numbers(5, 3), "y": numbers(5, 3)}
    yield sampled_decoder, {"table": w(5, 3), "w": w(3, 3), "out": w(3, 5)}, xy
    yield einsums, {"w": w(3, 3)}, {"x": numbers(3, 3, 3), "y": numbers(3, 3, 3)}


def cases():
    for loss, variables, feeds in _table():
        variables = {key: np.asarray(value) for key, value in variables.items()}
        yield loss.__name__, eager(_Built(variables, loss, feeds, 0.05, None, {}))
