"""Recurrent cells and sequences as single ops, with their gradients on any numbers."""
import numpy as np

from case_builder import Case, Gen

B, I, C, T = 3, 4, 5, 6


def sizes(*shape, seed=1, low=-1, high=1):
    return Gen(shape, low=low, high=high, seed=seed)


def lstm(sequence, batch=B, cells=C, steps=T):
    lead = (steps,) if sequence else ()
    return [sizes(*lead, batch, I), sizes(batch, cells, seed=2), sizes(batch, cells, seed=3), sizes(I + cells, 4 * cells, seed=4),
            sizes(cells, seed=5), sizes(cells, seed=6), sizes(cells, seed=7), sizes(4 * cells, seed=8)]


def cases():
    tight = {"rtol": 2e-5, "atol": 2e-6}
    for peephole in (False, True):
        for clip in (-1.0, 0.5):
            attrs = {"use_peephole": peephole, "cell_clip": clip}
            where = f"{peephole}_{clip > 0}"
            yield Case(f"LSTMBlockCell_{where}", "LSTMBlockCell", lstm(False), attrs, **tight)
            yield Case(f"BlockLSTM_{where}", "BlockLSTM", [np.int64(T)] + lstm(True), dict(attrs, forget_bias=0.5), **tight)
            yield Case(f"BlockLSTMV2_{where}", "BlockLSTMV2", [np.int64(T)] + lstm(True), attrs, **tight)
        states = [sizes(B, C, seed=20 + k, low=0, high=1) for k in range(6)] + [sizes(B, C, seed=k) for k in (30, 31)]
        yield Case(f"LSTMBlockCellGrad_{peephole}", "LSTMBlockCellGrad", lstm(False) + states, {"use_peephole": peephole}, **tight)
        states = [sizes(T, B, C, seed=20 + k, low=0, high=1) for k in range(7)] + [sizes(T, B, C, seed=k) for k in (30, 31)]
        for op in ("BlockLSTMGrad", "BlockLSTMGradV2"):
            for steps in (T, 2):
                yield Case(f"{op}_{peephole}_{steps}", op, [np.int64(steps)] + lstm(True) + states, {"use_peephole": peephole},
                           rtol=1e-4, atol=1e-5)
    yield Case("BlockLSTM_defaults", "BlockLSTM", [np.int64(T)] + lstm(True), **tight)
    # TensorFlow sets only cs and h of the steps that are left out.
    yield Case("BlockLSTM_short", "BlockLSTM", [np.int64(2)] + lstm(True), skip=(0, 2, 3, 4, 5), **tight)
    yield Case("BlockLSTM_none", "BlockLSTM", [np.int64(0)] + lstm(True), skip=(0, 2, 3, 4, 5), **tight)
    yield Case("BlockLSTM_large", "BlockLSTM", [np.int64(2)] + lstm(True, batch=64, cells=96, steps=2), rtol=1e-4, atol=1e-5)
    yield Case("LSTMBlockCell_wrong", "LSTMBlockCell", lstm(False)[:3] + [sizes(I, 4 * C)] + lstm(False)[4:], error="")
    gru = [sizes(B, I), sizes(B, C, seed=2), sizes(I + C, 2 * C, seed=3), sizes(I + C, C, seed=4), sizes(2 * C, seed=5), sizes(C, seed=6)]
    yield Case("GRUBlockCell", "GRUBlockCell", gru, **tight)
    states = [sizes(B, C, seed=20 + k, low=0, high=1) for k in range(3)] + [sizes(B, C, seed=30)]
    yield Case("GRUBlockCellGrad", "GRUBlockCellGrad", gru + states, rtol=1e-4, atol=1e-5)
    yield Case("GRUBlockCell_wrong", "GRUBlockCell", gru[:2] + [sizes(I, 2 * C)] + gru[3:], error="")
