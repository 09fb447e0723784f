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
    for dtype in (np.int32, np.float32):
        yield Case(f"Poisson_negative_{np.dtype(dtype).name}", "StatelessRandomPoisson",
                   [np.array([3, 3], np.int32), np.array([1, 2], np.int64), np.array([-1, -20, -1e4], np.float32)], {"dtype": dtype})


def binomial_cases():
    counts, probs = np.array([0, 1, 5, 20, 40, 1000]), np.array([.1, .5, .7, .05, .5, .93])
    seed = np.array([3, 4], np.int32)
    for dtype in (np.float32, np.float64):
        for out in (np.int32, np.int64, np.float32, np.float64):
            yield Case(f"Binomial_{np.dtype(dtype).name}_{np.dtype(out).name}", "StatelessRandomBinomial",
                       [np.array([30, 6], np.int32), seed, counts.astype(dtype), probs.astype(dtype)], {"dtype": out})
        yield Case(f"StatefulBinomial_{np.dtype(dtype).name}", "StatefulRandomBinomial",
                   [Var(STATE), np.int64(1), np.array([30, 6], np.int32), counts.astype(dtype), probs.astype(dtype)], {"dtype": np.int32}, runs=2)
    yield Case("StatefulBinomial_broadcast", "StatefulRandomBinomial",
               [Var(STATE), np.int64(1), np.array([5, 2, 3], np.int32), np.array([[9], [60]], np.float32), np.array([.2, .5, .9], np.float32)])
    yield Case("StatefulBinomial_unknown_algorithm", "StatefulRandomBinomial",
               [Var(STATE), np.int64(77), np.array([2], np.int32), np.float32(9), np.float32(.5)], error="")
    yield Case("Binomial_certain", "StatelessRandomBinomial", [np.array([4, 3], np.int32), seed, np.float32(9), np.array([0, 1, -1], np.float32)])
    yield Case("Binomial_broadcast", "StatelessRandomBinomial",
               [np.array([5, 2, 3], np.int32), seed, np.array([[9], [60]], np.float32), np.array([.2, .5, .9], np.float32)], {"dtype": np.int32})
    yield Case("Binomial_many", "StatelessRandomBinomial", [np.array([2000], np.int32), seed, np.float32(50), np.float32(.4)], {"dtype": np.int32})
    # The mean is rounded to 10, which decides how is drawn.
    for dtype in (np.float16, np.float32, np.float64):
        yield Case(f"Binomial_limit_{np.dtype(dtype).name}", "StatelessRandomBinomial",
                   [np.array([25, 3], np.int32), seed, np.array([1000, 50, 100], dtype), np.array([.01, .2, .9], dtype)], {"dtype": np.float64})
    yield Case("Binomial_empty", "StatelessRandomBinomial", [np.array([0], np.int32), seed, np.float32(9), np.float32(.5)])
    yield Case("Binomial_shapes", "StatelessRandomBinomial", [np.array([5, 4], np.int32), seed, np.ones(3, np.float32), np.float32(.5)], error="")
    yield Case("Binomial_parameters", "StatelessRandomBinomial", [np.array([5, 3], np.int32), seed, np.ones(3, np.float32), np.ones(2, np.float32)], error="")


def truncated_cases():
    seed, shape = np.array([3, 4], np.int32), np.array([40, 5], np.int32)
    parameters = np.array([[0, 1, 0, -5, 2], [1, 2, 1, 1, .5], [-1, 3, -np.inf, -1, 1.9], [3, 9, -2.5, np.inf, 2]])
    op = "StatelessParameterizedTruncatedNormal"
    for dtype, close in ((np.float32, 1e-4), (np.float64, 1e-9)):
        yield Case(f"Truncated_{np.dtype(dtype).name}", op, [shape, seed, *parameters.astype(dtype)], rtol=close, atol=close)
    one = [np.float32(x) for x in (0, 1, -2, 2)]
    yield Case("Truncated_scalars", op, [np.array([70], np.int32), seed, *one], rtol=1e-4, atol=1e-5)
    yield Case("Truncated_broadcast", op, [np.array([9, 2, 3], np.int32), seed, np.zeros((2, 1), np.float32), np.array([1, 2, 3], np.float32), *one[2:]],
               rtol=1e-4, atol=1e-5)
    yield Case("Truncated_empty", op, [np.array([0], np.int32), seed, *one])
    yield Case("Truncated_bounds", op, [np.array([3], np.int32), seed, *one[:2], np.float32(2), np.float32(-2)], error="Invalid parameters")
    yield Case("Truncated_endless", op, [np.array([3], np.int32), seed, *one[:2], np.float32(-np.inf), np.float32(np.inf)], error="Invalid parameters")
    yield Case("Truncated_shapes", op, [np.array([3, 2], np.int32), seed, np.zeros(3, np.float32), *one[1:]], error="")


def truncated_batch_cases():
    op = "ParameterizedTruncatedNormal"
    f = np.float32
    for dtype, close in ((np.float32, 1e-4), (np.float64, 1e-9), (np.float16, 2e-3)):
        means, deviations = np.array([0, 1, -2], dtype), np.array([1, .5, 3], dtype)
        low, high = np.array([-3, 1.2, -np.inf], dtype), np.array([3, 1.5, -4], dtype)
        name = np.dtype(dtype).name
        yield Case(f"Batches_{name}", op, [np.array([3, 9], np.int32), means, deviations, low, high], SEEDS, rtol=close, atol=close, runs=2)
        yield Case(f"Batches_scalars_{name}", op, [np.array([3, 90], np.int64), *(dtype(v) for v in (0, 1, -1.6, 1.6))], SEEDS, rtol=close, atol=close, runs=2)
    one = [np.array([v], np.float32) for v in (0, 1, -1.6, 1.6)]
    yield Case("Batches_one", op, [np.array([7, 50], np.int32), *one], SEEDS, rtol=1e-4, atol=1e-5)
    yield Case("Batches_mixed", op, [np.array([2, 5], np.int32), f(0), np.array([1, 4], np.float32), one[2], f(9)], SEEDS, rtol=1e-4, atol=1e-5)
    yield Case("Batches_empty", op, [np.array([0, 3], np.int32), *one], SEEDS)
    yield Case("Batches_bounds", op, [np.array([3], np.int32), f(0), f(1), f(2), f(-2)], SEEDS, error="Invalid parameters")
    yield Case("Batches_shapes", op, [np.array([3, 2], np.int32), np.zeros(2, np.float32), f(1), f(-1), f(1)], SEEDS, error="")


def shuffle_cases():
    key, counter = np.array([5], np.uint64), np.array([1, 2], np.uint64)
    for dtype in (np.float32, np.int64, np.uint8, np.float64, np.bool_):
        yield Case(f"Shuffle_{np.dtype(dtype).name}", "StatelessShuffle", [Gen((9, 2), dtype, 0, 100), key, counter, np.int32(1)])
    yield Case("Shuffle_auto", "StatelessShuffle", [Gen((40,)), key, counter, np.int32(1)])
    yield Case("Shuffle_one", "StatelessShuffle", [Gen((1, 3)), key, counter, np.int32(1)])
    yield Case("Shuffle_empty", "StatelessShuffle", [np.zeros((0, 3), np.float32), key, counter, np.int32(1)])
    yield Case("Shuffle_algorithm", "StatelessShuffle", [Gen((9,)), key, counter, np.int32(77)], error="")


def box_cases():
    objects = np.array([[[.1, .2, .5, .6], [0, 0, .1, .1]]], np.float32)
    for dtype in (np.uint8, np.int8, np.int16, np.int32, np.int64):
        size = np.array([90, 120, 3]).astype(dtype)
        yield Case(f"Box_{np.dtype(dtype).name}", "SampleDistortedBoundingBoxV2", [size, objects, np.float32(.3)], SEEDS, runs=3)
        yield Case(f"Stateless_box_{np.dtype(dtype).name}", "StatelessSampleDistortedBoundingBox", [size, objects, np.float32(.3), np.array([5, 6], np.int64)])
    size = np.array([64, 48, 3], np.int32)
    for what, attrs in (("small", {"area_range": [.05, .2]}), ("tall", {"aspect_ratio_range": [.2, .4]}), ("once", {"max_attempts": 1})):
        yield Case(f"Box_{what}", "SampleDistortedBoundingBox", [size, objects], {**SEEDS, "min_object_covered": .2, **attrs}, runs=2)
    none = np.zeros((1, 0, 4), np.float32)
    yield Case("Box_whole", "SampleDistortedBoundingBoxV2", [size, none, np.float32(.1)], {**SEEDS, "use_image_if_no_bounding_boxes": True})
    yield Case("Box_none", "SampleDistortedBoundingBoxV2", [size, none, np.float32(.1)], SEEDS, error="No bounding boxes")
    yield Case("Box_outside", "SampleDistortedBoundingBoxV2", [size, objects * 3, np.float32(.1)], SEEDS, error="must be in [0.0, 1.0]")
    yield Case("Box_area", "SampleDistortedBoundingBoxV2", [size, objects, np.float32(.1)], {**SEEDS, "area_range": [.5, 2.]}, error="")


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
    yield from binomial_cases()
    yield from truncated_cases()
    yield from shuffle_cases()
    yield from box_cases()
    yield from truncated_batch_cases()
