"""Random ops: uniform and integer streams bit for bit, normal ones to rounding."""
import numpy as np

from case_builder import Case, Gen, bfloat16

i32, i64, u64, f32, f64, f16 = np.int32, np.int64, np.uint64, np.float32, np.float64, np.float16
SEEDS = {"seed": 87654321, "seed2": 12}
NORMAL = {f32: 2e-6, f64: 1e-13, f16: 4e-3, bfloat16: 4e-2}


def stateful():
    for elements in (1, 7, 70001):
        shape = np.array([elements], i32)
        for dtype in (f32, f64, f16, bfloat16):
            tag = f"{np.dtype(dtype).name}_{elements}"
            attrs, near = SEEDS | {"dtype": dtype}, {"rtol": NORMAL[dtype], "atol": NORMAL[dtype]}
            for runs in (1, 3):
                yield Case(f"RandomUniform_{tag}_run{runs}", "RandomUniform", [shape], attrs, runs=runs)
                yield Case(f"RandomStandardNormal_{tag}_run{runs}", "RandomStandardNormal", [shape], attrs, runs=runs, **near)
                yield Case(f"TruncatedNormal_{tag}_run{runs}", "TruncatedNormal", [shape], attrs, runs=runs, **near)
        for dtype in (i32, i64):
            yield Case(f"RandomUniformInt_{np.dtype(dtype).name}_{elements}", "RandomUniformInt",
                       [shape, dtype(-7), dtype(100)], SEEDS, runs=2)
    for i, seeds in enumerate(({"seed": 0, "seed2": 3}, {"seed": 5, "seed2": 0}, {"seed": -1, "seed2": 2**40})):
        yield Case(f"RandomUniform_seeds{i}", "RandomUniform", [np.array([3, 5], i64)], seeds | {"dtype": f32}, runs=2)
    yield Case("RandomUniform_empty", "RandomUniform", [np.array([3, 0], i32)], SEEDS | {"dtype": f32})
    yield Case("RandomUniform_scalar", "RandomUniform", [np.zeros(0, i32)], SEEDS | {"dtype": f32})
    yield Case("RandomUniformInt_no_range", "RandomUniformInt", [np.array([3], i32), i32(4), i32(4)], SEEDS,
               error="minval < maxval")
    yield Case("RandomUniform_negative_shape", "RandomUniform", [np.array([-3], i32)], SEEDS | {"dtype": f32}, error="")
    for shape in ((9,), (9, 5, 2), (1, 4), (300,)):
        yield Case(f"RandomShuffle_{'x'.join(map(str, shape))}", "RandomShuffle", [Gen(shape, i32, 0, 1000)], SEEDS, runs=2)
    logits = np.log(np.array([[1, 2, 3], [5, 1, 1], [0, 4, 4]], f32) + f32(1e-9))
    for samples in (1, 6):
        yield Case(f"Multinomial_{samples}", "Multinomial", [logits, i32(samples)], SEEDS, runs=2)
    yield Case("Multinomial_int32", "Multinomial", [logits, i32(5)], SEEDS | {"output_dtype": i32})


def stateless():
    for i, seed in enumerate((np.array([1, 2], i32), np.array([-5, 2**40], i64), np.array([0, 0], i64))):
        yield Case(f"GetKeyCounter_{i}", "StatelessRandomGetKeyCounter", [seed])
        yield Case(f"GetKeyCounterAlg_{i}", "StatelessRandomGetKeyCounterAlg", [seed])
        for elements in (7, 15001):
            shape = np.array([elements], i32)
            for dtype in (f32, f64, f16, bfloat16):
                tag, attrs = f"{np.dtype(dtype).name}_{elements}_{i}", {"dtype": dtype}
                near = {"rtol": NORMAL[dtype], "atol": NORMAL[dtype]}
                yield Case(f"StatelessUniform_{tag}", "StatelessRandomUniform", [shape, seed], attrs)
                yield Case(f"StatelessNormal_{tag}", "StatelessRandomNormal", [shape, seed], attrs, **near)
                yield Case(f"StatelessTruncated_{tag}", "StatelessTruncatedNormal", [shape, seed], attrs, **near)
            for dtype in (i32, i64, np.uint32, u64):
                tag = f"{np.dtype(dtype).name}_{elements}_{i}"
                yield Case(f"StatelessFullInt_{tag}", "StatelessRandomUniformFullInt", [shape, seed], {"dtype": dtype})
            for dtype in (i32, i64):
                yield Case(f"StatelessInt_{np.dtype(dtype).name}_{elements}_{i}", "StatelessRandomUniformInt",
                           [shape, seed, dtype(-3), dtype(1003)])
    key, counter = np.array([0x123456789ABCDEF], u64), np.array([2**64 - 3, 77], u64)
    for alg in (1, 3):
        given = [np.array([15001], i32), key, counter, i32(alg)]
        yield Case(f"StatelessUniformV2_alg{alg}", "StatelessRandomUniformV2", given, {"dtype": f32})
        yield Case(f"StatelessNormalV2_alg{alg}", "StatelessRandomNormalV2", given, {"dtype": f32}, rtol=2e-6, atol=2e-6)
        yield Case(f"StatelessTruncatedV2_alg{alg}", "StatelessTruncatedNormalV2", given, {"dtype": f32}, rtol=2e-6, atol=2e-6)
        yield Case(f"StatelessIntV2_alg{alg}", "StatelessRandomUniformIntV2", [*given, i32(-3), i32(1003)])
        yield Case(f"StatelessFullIntV2_alg{alg}", "StatelessRandomUniformFullIntV2", given, {"dtype": u64})
    given = [np.array([7], i32), key, counter, i32(2)]  # ThreeFry
    for op, attrs in (("RandomUniform", {"dtype": f32}), ("RandomNormal", {"dtype": f32}), ("TruncatedNormal", {"dtype": f32}),
                      ("RandomUniformInt", None), ("RandomUniformFullInt", {"dtype": u64})):
        bounds = [i32(-3), i32(9)] if op == "RandomUniformInt" else []
        yield Case(f"Stateless{op}V2_algorithm", f"Stateless{op}V2", given + bounds, attrs, error="algorithm")
    yield Case("GetAlg", "StatelessRandomGetAlg", [])
    yield Case("StatelessUniform_bad_seed", "StatelessRandomUniform", [np.array([3], i32), np.array([1, 2, 3], i32)],
               {"dtype": f32}, error="")
    yield Case("StatelessMultinomial", "StatelessMultinomial",
               [Gen((3, 11), f32, -2, 2), i32(5), np.array([3, 4], i32)])


def cases():
    yield from stateful()
    yield from stateless()
