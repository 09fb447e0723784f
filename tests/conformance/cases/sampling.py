"""Generators kept in variables, gamma and Poisson numbers, candidate samplers."""
import numpy as np

from case_builder import Case, Gen, Var

STATE = np.array([5, 7, 11], np.int64)
SEEDS = {"seed": 3, "seed2": 9}


def generator_cases():
    yield Case("ReadAndSkip", "RngReadAndSkip", [Var(STATE), np.int32(1), np.uint64(10)])
    yield Case("ReadAndSkip_carries", "RngReadAndSkip", [Var(np.array([-1, 7, 11], np.int64)), np.int32(1), np.uint64(10)])
    yield Case("ReadAndSkip_auto", "RngReadAndSkip", [Var(STATE), np.int32(3), np.uint64(1)])
    yield Case("RngSkip", "RngSkip", [Var(STATE), np.int64(1), np.int64(3)])
    shape = np.array([3, 7], np.int64)
    for dtype in (np.float32, np.float64):
        name = np.dtype(dtype).name
        for op in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
            yield Case(f"{op}_{name}", op, [Var(STATE), np.int64(1), shape], {"dtype": dtype}, rtol=1e-5, atol=1e-6, runs=2)
    yield Case("StatefulUniformInt", "StatefulUniformInt", [Var(STATE), np.int64(1), shape, np.int64(-5), np.int64(100)])
    yield Case("StatefulUniformFullInt", "StatefulUniformFullInt", [Var(STATE), np.int64(1), shape], {"dtype": np.uint64})
    yield Case("Stateful_unknown_algorithm", "StatefulUniform", [Var(STATE), np.int64(77), shape], {"dtype": np.float32},
               error="")


def parameter_cases():
    alphas = np.array([.1, .5, 1, 1.5, 30], np.float32)
    for dtype in (np.float32, np.float64, np.float16):
        close = {"rtol": 1e-5 if dtype != np.float16 else 2e-3}
        yield Case(f"RandomGamma_{np.dtype(dtype).name}", "RandomGamma", [np.array([6], np.int32), alphas.astype(dtype)],
                   SEEDS, runs=2, **close)
    yield Case("RandomGamma_scalar", "RandomGamma", [np.zeros(0, np.int32), np.float32(2)], SEEDS, rtol=1e-5)
    yield Case("RandomGamma_empty", "RandomGamma", [np.array([0], np.int32), alphas], SEEDS)
    yield Case("RandomGamma_large", "RandomGamma", [np.array([3000], np.int32), alphas], SEEDS, rtol=1e-5)
    yield Case("StatelessRandomGammaV2", "StatelessRandomGammaV2", [np.array([6, 5], np.int32), np.array([1, 2], np.int64),
               alphas], rtol=1e-5)
    yield Case("StatelessRandomGammaV3", "StatelessRandomGammaV3",
               [np.array([6, 5], np.int32), np.array([3], np.uint64), np.array([4, 5], np.uint64), np.int32(1), alphas],
               {"dtype": np.float32}, rtol=1e-5)
    yield Case("RandomGammaGrad", "RandomGammaGrad", [np.array([.5, 1, 2, 10], np.float32), np.array([.3, .7, 2.5, 9], np.float32)],
               rtol=1e-4)
    rates = np.array([.5, 3, 9.9, 10, 40, 1000], np.float32)
    for dtype in (np.int64, np.int32, np.float32):
        yield Case(f"RandomPoisson_{np.dtype(dtype).name}", "RandomPoissonV2", [np.array([8], np.int32), rates],
                   {**SEEDS, "dtype": dtype}, runs=2)
    yield Case("StatelessRandomPoisson", "StatelessRandomPoisson",
               [np.array([8, 6], np.int32), np.array([1, 2], np.int64), rates], {"dtype": np.int32})


def candidate_cases():
    classes = np.array([[3, 90], [0, 17], [55, 55]], np.int64)
    for op in ("LogUniformCandidateSampler", "UniformCandidateSampler"):
        for unique in (False, True):
            for limit in (100, 128):
                yield Case(f"{op}_{unique}_{limit}", op, [classes],
                           {"num_true": 2, "num_sampled": 20, "unique": unique, "range_max": limit, **SEEDS}, rtol=1e-5,
                           runs=2)
    common = {"num_true": 2, "num_sampled": 20, **SEEDS}
    counts = [float(1 + 7 * k % 13) for k in range(100)]
    for unique in (False, True):
        yield Case(f"FixedUnigramCandidateSampler_{unique}", "FixedUnigramCandidateSampler", [classes],
                   {**common, "unique": unique, "range_max": 100, "unigrams": counts}, rtol=1e-5, runs=2)
        yield Case(f"FixedUnigramCandidateSampler_distorted_{unique}", "FixedUnigramCandidateSampler", [classes],
                   {**common, "unique": unique, "range_max": 103, "unigrams": counts, "distortion": 0.75, "num_reserved_ids": 3}, rtol=1e-5, runs=2)
    yield Case("FixedUnigramCandidateSampler_part", "FixedUnigramCandidateSampler", [classes % 33],
               {**common, "unique": False, "range_max": 33, "unigrams": counts, "num_reserved_ids": 1, "num_shards": 3, "shard": 1}, rtol=1e-5, runs=2)
    yield Case("FixedUnigramCandidateSampler_range", "FixedUnigramCandidateSampler", [classes],
               {**common, "unique": False, "range_max": 99, "unigrams": counts}, error="range is 99 must be equal to weights size")
    for op in ("LogUniformCandidateSampler", "FixedUnigramCandidateSampler"):
        yield Case(f"{op}_true_outside", op, [classes], {**common, "unique": False, "range_max": 90, **({"unigrams": counts[:90]} if op[0] == "F" else {})},
                   error="`true_candidate` out of range [0, 90), received 90")
    yield Case("AllCandidateSampler", "AllCandidateSampler", [classes], {**common, "unique": True, "num_sampled": 91})
    yield Case("ComputeAccidentalHits", "ComputeAccidentalHits", [classes, np.array([17, 4, 55, 3, 1], np.int64)],
               {"num_true": 2})
    yield Case("ComputeAccidentalHits_none", "ComputeAccidentalHits", [classes, np.array([1, 4, 5], np.int64)],
               {"num_true": 2})


def cases():
    yield from generator_cases()
    yield from parameter_cases()
    yield from candidate_cases()
