"""First centers of k-means and nearest centers; shuffled indices."""
import numpy as np

from case_builder import Case, Gen

I64, F32 = np.int64, np.float32


def centers():
    points = Gen((40, 3), seed=3)
    for seed in (0, 1, 7, -5):
        for retries in (-1, 0, 3):
            yield Case(f"Kmeans_{seed}_{retries}".replace("-", "m"), "KmeansPlusPlusInitialization", [points, I64(5), I64(seed), I64(retries)])
    yield Case("Kmeans_power_of_two", "KmeansPlusPlusInitialization", [Gen((16, 2)), I64(4), I64(9), I64(-1)])
    yield Case("Kmeans_all", "KmeansPlusPlusInitialization", [Gen((6, 2)), I64(6), I64(9), I64(0)])
    yield Case("Kmeans_one", "KmeansPlusPlusInitialization", [Gen((1, 2)), I64(1), I64(9), I64(2)])
    yield Case("Kmeans_same", "KmeansPlusPlusInitialization", [np.ones((5, 2), F32), I64(3), I64(1), I64(0)])
    yield Case("Kmeans_flat", "KmeansPlusPlusInitialization", [np.zeros((5, 0), F32), I64(3), I64(1), I64(0)])
    yield Case("Kmeans_power_of_two_more", "KmeansPlusPlusInitialization", [Gen((32, 4)), I64(8), I64(2**40 + 3), I64(1)])
    yield Case("Kmeans_many", "KmeansPlusPlusInitialization", [points, I64(41), I64(1), I64(0)], error="Expected num_to_sample <= points.rows()")
    yield Case("Kmeans_none", "KmeansPlusPlusInitialization", [points, I64(0), I64(1), I64(0)], error="Expected num_to_sample > 0.")
    yield Case("Kmeans_no_points", "KmeansPlusPlusInitialization", [np.zeros((0, 2), F32), I64(1), I64(1), I64(0)], error="Expected points.rows() > 0.")
    for seed in (0, 1, 2, 12):
        yield Case(f"Chain_{seed}", "KMC2ChainInitialization", [Gen((50,), low=0, high=4, seed=seed), I64(seed)])
    yield Case("Chain_one", "KMC2ChainInitialization", [np.ones(1, F32), I64(1)])
    yield Case("Chain_nan", "KMC2ChainInitialization", [np.array([1, np.nan, 2, 3], F32), I64(1)])
    yield Case("Chain_empty", "KMC2ChainInitialization", [np.zeros(0, F32), I64(1)], error="Expected distances_tensor.size() > 0.")


def nearest():
    for k in (0, 1, 2, 5, 9):
        yield Case(f"Nearest_{k}", "NearestNeighbors", [Gen((7, 3)), Gen((5, 3), seed=2), I64(k)], rtol=1e-5, atol=1e-6)
    yield Case("Nearest_large", "NearestNeighbors", [Gen((3001, 8)), Gen((70, 8), seed=2), I64(3)], rtol=1e-4, atol=1e-5)
    yield Case("Nearest_none", "NearestNeighbors", [Gen((7, 3)), np.zeros((0, 3), F32), I64(2)])
    yield Case("Nearest_flat", "NearestNeighbors", [np.zeros((3, 0), F32), np.zeros((2, 0), F32), I64(1)])
    yield Case("Nearest_dims", "NearestNeighbors", [Gen((7, 3)), Gen((5, 2)), I64(1)], error="")


def shuffles():
    seed = np.array([1, 2, 3])
    for dtype in (np.int32, I64, np.uint32, np.uint64):
        for kind in (np.int32, I64, np.uint32, np.uint64):
            yield Case(f"IndexShuffle_{np.dtype(dtype).name}_{np.dtype(kind).name}", "RandomIndexShuffle", [np.arange(11).astype(dtype), seed.astype(kind), dtype(10)])
    for most in (0, 1, 255, 65535, 65536, 65537, 1 << 20, (1 << 31) - 1):
        yield Case(f"IndexShuffle_{most}", "RandomIndexShuffle", [np.int32(most // 3), seed, np.int32(most)])
    for most in ((1 << 32) - 1, 1 << 40, (1 << 63) - 1):
        yield Case(f"IndexShuffle_{most}", "RandomIndexShuffle", [np.array([0, most // 5, most], I64), -seed, I64(most)])
    yield Case("IndexShuffle_widest", "RandomIndexShuffle", [np.uint64(12345), seed, np.uint64((1 << 64) - 1)])
    yield Case("IndexShuffle_scalar", "RandomIndexShuffle", [np.int32(4), seed, np.int32(9)], {"rounds": 8})
    yield Case("IndexShuffle_seeds", "RandomIndexShuffle", [np.int32(4), np.arange(12).reshape(4, 3), np.int32(9)], {"rounds": 6})
    yield Case("IndexShuffle_most", "RandomIndexShuffle", [np.int32(4), seed, np.array([4, 5, 6, 700], np.int32)])
    yield Case("IndexShuffle_rows", "RandomIndexShuffle", [np.arange(4).astype(np.int32), np.arange(12).reshape(4, 3), np.array([4, 5, 6, 700], np.int32)])
    yield Case("IndexShuffle_empty", "RandomIndexShuffle", [np.zeros(0, np.int32), np.zeros((0, 3), np.int32), np.zeros(0, np.int32)])
    yield Case("IndexShuffle_above", "RandomIndexShuffle", [np.int32(12), seed, np.int32(10)], error="max_index must be >= index, but 10 < 12")
    yield Case("IndexShuffle_below", "RandomIndexShuffle", [np.int32(-1), seed, np.int32(10)], error="index must be >= 0 but was -1")
    yield Case("IndexShuffle_seed", "RandomIndexShuffle", [np.int32(1), seed[:2], np.int32(10)], error="")


def cases():
    yield from centers()
    yield from nearest()
    yield from shuffles()
