"""Connectionist temporal classification. TensorFlow computes it in single precision, whatever the type: its gradient
carries the rounding of log probabilities as large as the sequence is long."""
import numpy as np

from case_builder import Case, Gen

i32, i64, f32, f64 = np.int32, np.int64, np.float32, np.float64


def ctc(name, inputs, labels, lengths, attrs=None, tolerance=2e-5, **kw):
    indices = [[b, i] for b, sequence in enumerate(labels) for i in range(len(sequence))]
    values = [v for sequence in labels for v in sequence]
    near = {} if "error" in kw else {"rtol": tolerance, "atol": tolerance}
    return Case(name, "CTCLoss", [inputs, np.array(indices, i64).reshape(-1, 2), np.array(values, i32),
                                  np.array(lengths, i32)], attrs, **near, **kw)


def cases():
    flags = {"plain": {}, "collapse": {"preprocess_collapse_repeated": True}, "no_merge": {"ctc_merge_repeated": False},
             "ignore": {"ignore_longer_outputs_than_inputs": True},
             "both": {"preprocess_collapse_repeated": True, "ctc_merge_repeated": False}}
    for dtype in (f32, f64):
        x = Gen((12, 3, 6), dtype, -3, 3)
        for name, attrs in flags.items():
            yield ctc(f"{name}_{np.dtype(dtype).name}", x, [[1, 1, 2], [0, 1, 0, 1, 0], [2, 2]], [12, 10, 7], attrs)
        yield ctc(f"skipped_{np.dtype(dtype).name}", x, [[1, 1, 2], [0, 1, 0, 1, 0], [2]], [3, 2, 0], flags["ignore"])
        yield ctc(f"no_path_{np.dtype(dtype).name}", x, [[1, 1, 1], [1], [2]], [3, 5, 7])
        yield ctc(f"nulls_{np.dtype(dtype).name}", x, [[1, 5, 9], [1, 5], [2]], [3, 5, 7])
    long = Gen((80, 4, 30), f32, -6, 6)
    labels = [list(Gen((20,), i32, 0, 29, seed).numpy()) for seed in range(4)]
    yield ctc("long", long, labels, [80, 75, 60, 50], tolerance=2e-3)
    x = Gen((12, 3, 6))
    ok = [[1], [2], [3]]
    yield ctc("no_labels", x, [[1], [], [2]], [5, 5, 5], error="")
    yield ctc("too_long", x, [[1, 2, 3], [1], [2]], [2, 5, 5], error="")
    yield ctc("after_null", x, [[1, 5, 2], [1], [2]], [5, 5, 5], error="follow")
    yield ctc("negative_label", x, [[-1], [1], [2]], [5, 5, 5], error="")
    yield ctc("length_over_time", x, ok, [13, 5, 5], error="")
    yield ctc("negative_length", x, ok, [-1, 5, 5], error="")
    yield ctc("fourth_of_three", x, [*ok, [1]], [5, 5, 5], error="")
    yield ctc("lengths_differ", x, ok, [5, 5], error="")
