"""Diagonals of matrices and tensors."""
import numpy as np

from case_builder import Case, Gen

i32, i64, f32, f64, f16 = np.int32, np.int64, np.float32, np.float64, np.float16
ALIGNS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def iota(shape, dtype=f32, start=1):
    return (np.arange(start, start + int(np.prod(shape))) % 251).astype(dtype).reshape(shape)


def ints(*values, dtype=i32):
    return np.array(values, dtype)


def cases():
    for dtype in (f32, f64, i32, i64, np.bool_, f16):
        name = np.dtype(dtype).name
        m = iota((2, 3, 4), dtype)
        yield Case(f"MatrixDiag_{name}", "MatrixDiag", [iota((2, 3), dtype)])
        yield Case(f"MatrixDiagPart_{name}", "MatrixDiagPart", [m])
        yield Case(f"MatrixSetDiag_{name}", "MatrixSetDiag", [m, iota((2, 3), dtype, 50)])
        yield Case(f"MatrixBandPart_{name}", "MatrixBandPart", [m, i64(1), i64(0)])
        if dtype not in (np.bool_,):
            yield Case(f"Diag_{name}", "Diag", [iota((3,), dtype)])
            yield Case(f"DiagPart_{name}", "DiagPart", [iota((3, 3), dtype)])
    yield Case("MatrixDiag_empty", "MatrixDiag", [iota((2, 0))])
    yield Case("MatrixDiag_rank7", "MatrixDiag", [iota((1, 2, 1, 2, 1, 2, 2))])
    yield Case("MatrixDiagPart_tall", "MatrixDiagPart", [iota((4, 2))])
    yield Case("MatrixDiag_scalar", "MatrixDiag", [f32(1)], error="")
    band = np.array([[0, 8, 9], [1, 2, 3], [4, 5, 0]], f32)  # diagonals 1 … -1 of 3x3
    for align in ALIGNS:
        attrs = {"align": align}
        yield Case(f"MatrixDiagV3_{align}", "MatrixDiagV3", [band, ints(-1, 1), i32(-1), i32(-1), f32(9)], attrs)
        yield Case(f"MatrixDiagV3_{align}_tall", "MatrixDiagV3",
                   [iota((2, 3, 3)), ints(-2, 0), i32(5), i32(3), f32(0)], attrs)
        for k in ((-1, 1), (0, 2), (-2, -1), (1, 3)):
            text = f"{align}_{k[0]}_{k[1]}".replace("-", "m")
            yield Case(f"MatrixDiagPartV3_{text}", "MatrixDiagPartV3", [iota((2, 3, 4)), ints(*k), f32(-1)], attrs)
            count, length = k[1] - k[0] + 1, min(3 + min(k[1], 0), 4 - max(k[0], 0))
            yield Case(f"MatrixSetDiagV3_{text}", "MatrixSetDiagV3",
                       [iota((2, 3, 4)), iota((2, count, length), f32, 100), ints(*k)], attrs)
    yield Case("MatrixDiagV2", "MatrixDiagV2", [band, ints(-1, 1), i32(-1), i32(-1), f32(9)])
    yield Case("MatrixDiagV3_one", "MatrixDiagV3", [iota((2, 3)), i32(2), i32(-1), i32(-1), f32(0)])
    yield Case("MatrixDiagV3_one_below", "MatrixDiagV3", [iota((2, 3)), ints(-1), i32(-1), i32(5), f32(0)])
    yield Case("MatrixDiagV3_wide", "MatrixDiagV3", [iota((3,)), i32(0), i32(3), i32(6), f32(0)])
    yield Case("MatrixDiagV3_too_small", "MatrixDiagV3", [iota((3,)), i32(0), i32(2), i32(6), f32(0)], error="")
    yield Case("MatrixDiagV3_inconsistent", "MatrixDiagV3", [iota((3,)), i32(0), i32(4), i32(6), f32(0)], error="")
    yield Case("MatrixDiagV3_wrong_order", "MatrixDiagV3", [band, ints(1, -1), i32(-1), i32(-1), f32(0)], error="")
    yield Case("MatrixDiagPartV2", "MatrixDiagPartV2", [iota((3, 4)), ints(-1, 1), f32(-1)])
    yield Case("MatrixDiagPartV3_one", "MatrixDiagPartV3", [iota((2, 3, 4)), i32(-1), f32(0)])
    yield Case("MatrixDiagPartV3_out_of_bound", "MatrixDiagPartV3", [iota((3, 4)), i32(4), f32(0)], error="")
    yield Case("MatrixDiagPartV3_nan", "MatrixDiagPartV3", [iota((3, 4)), ints(-1, 1), f32(np.nan)])
    yield Case("MatrixSetDiagV2", "MatrixSetDiagV2", [iota((3, 4)), iota((3,), f32, 60), i32(1)])
    yield Case("MatrixSetDiagV3_one", "MatrixSetDiagV3", [iota((2, 3, 4)), iota((2, 2), f32, 60), i32(-1)])
    yield Case("MatrixSetDiag_wrong", "MatrixSetDiag", [iota((2, 3)), iota((3,))], error="")
    yield Case("MatrixDiagPart_large", "MatrixDiagPart", [Gen((200, 30, 30))])
    yield Case("MatrixSetDiag_large", "MatrixSetDiag", [Gen((200, 30, 30)), Gen((200, 30), seed=2)])
    yield Case("MatrixDiag_large", "MatrixDiag", [Gen((200, 30))])
    for lower, upper in ((0, 0), (-1, 0), (0, -1), (1, 1), (3, 2), (-1, -1)):
        text = f"{lower}_{upper}".replace("-", "m")
        yield Case(f"MatrixBandPart_{text}", "MatrixBandPart", [iota((2, 4, 3)), i32(lower), i32(upper)])
    yield Case("MatrixBandPart_empty", "MatrixBandPart", [iota((0, 3)), i64(0), i64(1)])
    yield Case("MatrixBandPart_large", "MatrixBandPart", [Gen((3, 300, 200)), i64(-1), i64(0)])
    yield Case("MatrixBandPart_too_large", "MatrixBandPart", [iota((2, 3)), i64(3), i64(0)], error="num_lower must be negative or less")
    yield Case("MatrixBandPart_vector", "MatrixBandPart", [iota((2,)), i64(0), i64(0)], error="")
    yield Case("Diag_matrix", "Diag", [iota((2, 3))])
    yield Case("DiagPart_4d", "DiagPart", [iota((2, 3, 2, 3))])
    yield Case("DiagPart_not_square", "DiagPart", [iota((2, 3))], error="")
    yield Case("Diag_scalar", "Diag", [f32(1)], error="")
