"""Decompositions and solutions of matrices."""
import numpy as np

from case_builder import Case, Gen

ROOT = Gen((2, 4, 4)).numpy().astype(np.float64)
SPD = ROOT @ ROOT.transpose(0, 2, 1) + 2 * np.eye(4)
GENERAL = ROOT + 3 * np.eye(4)
SIDES = Gen((2, 4, 3), seed=4).numpy().astype(np.float64)


SWAPPING = Gen((2, 3, 4), low=0.5, high=2, seed=8).numpy().astype(np.float64) * np.array([[1], [0.2], [1]])
DIAGONALS = Gen((2, 3, 4), seed=9).numpy().astype(np.float64) + np.array([[0], [4], [0]])


def complex_cases():
    for dtype, close in ((np.complex64, {"rtol": 2e-4, "atol": 2e-5}), (np.complex128, {"rtol": 1e-9, "atol": 1e-12})):
        name = np.dtype(dtype).name
        general, sides = (GENERAL + 1j * ROOT[::-1]).astype(dtype), (SIDES + 1j * SIDES[::-1]).astype(dtype)
        own_adjoint = (general @ general.conj().transpose(0, 2, 1) + np.eye(4)).astype(dtype)
        yield Case(f"Cholesky_{name}", "Cholesky", [own_adjoint], **close)
        yield Case(f"SelfAdjointEig_values_{name}", "SelfAdjointEigV2", [own_adjoint], {"compute_v": False}, skip=[1], **close)
        yield Case(f"MatrixDeterminant_{name}", "MatrixDeterminant", [general], **close)
        yield Case(f"LogMatrixDeterminant_{name}", "LogMatrixDeterminant", [general], **close)
        yield Case(f"Lu_{name}", "Lu", [general[:, ::-1].copy()], **close)
        for adjoint in (False, True):
            yield Case(f"MatrixInverse_{name}_{adjoint}", "MatrixInverse", [general], {"adjoint": adjoint}, **close)
            yield Case(f"MatrixSolve_{name}_{adjoint}", "MatrixSolve", [general, sides], {"adjoint": adjoint}, **close)
            for lower in (False, True):
                yield Case(f"TriangularSolve_{name}_{adjoint}_{lower}", "MatrixTriangularSolve", [general, sides],
                           {"adjoint": adjoint, "lower": lower}, **close)
                yield Case(f"BandedTriangularSolve_{name}_{adjoint}_{lower}", "BandedTriangularSolve", [sides.transpose(0, 2, 1).copy() + 2, sides],
                           {"adjoint": adjoint, "lower": lower}, **close)
        tall = np.concatenate([general, own_adjoint], axis=1)[:, :6].copy()
        for full in (False, True):
            yield Case(f"Qr_{name}_{full}", "Qr", [tall], {"full_matrices": full}, **close)
            yield Case(f"Qr_wide_{name}_{full}", "Qr", [tall.transpose(0, 2, 1).copy()], {"full_matrices": full}, **close)
        yield Case(f"Svd_values_{name}", "Svd", [tall], {"compute_uv": False}, skip=[1, 2], **close)
        yield Case(f"MatrixLogarithm_{name}", "MatrixLogarithm", [general], **close)
        yield Case(f"MatrixLogarithm_empty_{name}", "MatrixLogarithm", [np.zeros((0, 2, 2), dtype)])
        # The phases of vectors are free: tests/cpu/singular_values_test.cc multiplies them.
        for full in (False, True):
            yield Case(f"Svd_{name}_{full}", "Svd", [tall], {"full_matrices": full}, skip=[1, 2], **close)
        # In single precision the phases of vectors follow from rounding.
        single = [1] if dtype == np.complex64 else []
        yield Case(f"Eig_{name}", "Eig", [general], {"Tout": dtype}, skip=single, **close)


def eigen_cases():
    turn = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 2]])
    for dtype, out, close in ((np.float32, np.complex64, {"rtol": 2e-4, "atol": 2e-5}), (np.float64, np.complex128, {"rtol": 1e-9, "atol": 1e-12})):
        name, single = np.dtype(dtype).name, [1] if dtype == np.float32 else []
        yield Case(f"Eig_{name}", "Eig", [SPD.astype(dtype)], {"Tout": out}, skip=single, **close)
        yield Case(f"Eig_values_{name}", "Eig", [GENERAL.astype(dtype)], {"Tout": out, "compute_v": False}, skip=[1], **close)
        yield Case(f"Eig_turn_{name}", "Eig", [turn.astype(dtype)], {"Tout": out}, skip=single, **close)
    yield Case("Eig_empty", "Eig", [np.zeros((0, 3, 3), np.float32)], {"Tout": np.complex64})
    yield Case("Eig_wide", "Eig", [np.zeros((2, 3), np.float32)], {"Tout": np.complex64}, error="")


def banded_cases():
    for dtype, close in ((np.float32, {"rtol": 2e-4, "atol": 2e-5}), (np.float64, {"rtol": 1e-9, "atol": 1e-12})):
        name = np.dtype(dtype).name
        bands, sides = (SIDES.transpose(0, 2, 1) + 2).astype(dtype), SIDES.astype(dtype)
        for adjoint in (False, True):
            for lower in (False, True):
                yield Case(f"BandedTriangularSolve_{name}_{adjoint}_{lower}", "BandedTriangularSolve", [bands, sides],
                           {"adjoint": adjoint, "lower": lower}, **close)
        yield Case(f"BandedTriangularSolve_diagonal_{name}", "BandedTriangularSolve", [bands[:, :1].copy(), sides], **close)
        yield Case(f"BandedTriangularSolve_broadcast_{name}", "BandedTriangularSolve", [bands[0], sides], **close)
    for lower in (False, True):
        for adjoint in (False, True):
            for count in (1, 2, 3, 6):
                yield Case(f"BandedTriangularSolve_bands_{count}_{adjoint}_{lower}", "BandedTriangularSolve",
                           [Gen((count, 11), np.float64, 1, 1.01), Gen((11, 9), np.float64)], {"adjoint": adjoint, "lower": lower}, rtol=1e-9, atol=1e-12)
    yield Case("BandedTriangularSolve_singular", "BandedTriangularSolve", [np.zeros((2, 3)), np.ones((3, 1))], error="not invertible")
    yield Case("BandedTriangularSolve_rows", "BandedTriangularSolve", [np.ones((2, 3)), np.ones((4, 1))], error="")
    yield Case("BandedTriangularSolve_too_many", "BandedTriangularSolve", [np.ones((4, 3)), np.ones((3, 1))], error="")


def cases():
    yield from complex_cases()
    yield from eigen_cases()
    yield from banded_cases()
    yield Case("Lu_singular", "Lu", [np.zeros((2, 2), np.float32)], error="not invertible")
    yield Case("Lu_empty", "Lu", [np.zeros((0, 2, 2), np.float32)])
    yield Case("TridiagonalSolve_singular", "TridiagonalSolve", [np.zeros((3, 3), np.float32), np.ones((3, 1), np.float32)])
    yield Case("TridiagonalSolve_singular_plain", "TridiagonalSolve", [np.zeros((3, 3), np.float32), np.ones((3, 1), np.float32)],
               {"partial_pivoting": False})
    yield Case("TridiagonalSolve_one", "TridiagonalSolve", [np.array([[7], [2], [5]], np.float64), np.ones((1, 2))], rtol=1e-12)
    yield Case("TridiagonalSolve_two", "TridiagonalSolve", [np.array([[7, 9], [0.1, 3], [9, 5]], np.float64), np.ones((2, 1))], rtol=1e-9)
    yield Case("TridiagonalMatMul_one", "TridiagonalMatMul", [*(np.full((1, 1), d, np.float64) for d in (1, 2, 3)), np.ones((1, 2))])
    yield Case("TridiagonalSolve_shapes", "TridiagonalSolve", [np.ones((3, 3), np.float32), np.ones((4, 1), np.float32)], error="")
    for dtype, close in ((np.float32, {"rtol": 2e-4, "atol": 2e-5}), (np.float64, {"rtol": 1e-9, "atol": 1e-12})):
        name = np.dtype(dtype).name
        spd, general, sides = SPD.astype(dtype), GENERAL.astype(dtype), SIDES.astype(dtype)
        yield Case(f"Cholesky_{name}", "Cholesky", [spd], **close)
        yield Case(f"MatrixDeterminant_{name}", "MatrixDeterminant", [general], **close)
        yield Case(f"LogMatrixDeterminant_{name}", "LogMatrixDeterminant", [general - 6 * np.eye(4, dtype=dtype)], **close)
        for index in (np.int32, np.int64):
            yield Case(f"Lu_{name}_{np.dtype(index).name}", "Lu", [general[:, ::-1].copy()], {"output_idx_type": index}, **close)
        for pivots in (False, True):
            yield Case(f"TridiagonalSolve_{name}_{pivots}", "TridiagonalSolve", [DIAGONALS.astype(dtype), sides], {"partial_pivoting": pivots}, **close)
        yield Case(f"TridiagonalSolve_swaps_{name}", "TridiagonalSolve", [SWAPPING.astype(dtype), sides], **close)
        yield Case(f"TridiagonalMatMul_{name}", "TridiagonalMatMul", [*(DIAGONALS[:, d:d + 1].astype(dtype) for d in range(3)), sides], **close)
        for adjoint in (False, True):
            yield Case(f"MatrixInverse_{name}_{adjoint}", "MatrixInverse", [general], {"adjoint": adjoint}, **close)
            yield Case(f"MatrixSolve_{name}_{adjoint}", "MatrixSolve", [general, sides], {"adjoint": adjoint}, **close)
            for lower in (False, True):
                yield Case(f"TriangularSolve_{name}_{adjoint}_{lower}", "MatrixTriangularSolve", [general, sides],
                           {"adjoint": adjoint, "lower": lower}, **close)
        yield Case(f"MatrixSquareRoot_{name}", "MatrixSquareRoot", [spd], **close)
        for what, matrix in (("tall", sides), ("wide", sides.transpose(0, 2, 1).copy()), ("square", general)):
            rhs = np.linspace(-1, 2, matrix.shape[0] * matrix.shape[1] * 2).reshape(matrix.shape[0], matrix.shape[1], 2).astype(dtype)
            for fast in (False, True):
                yield Case(f"MatrixSolveLs_{what}_{name}_{fast}", "MatrixSolveLs", [matrix, rhs, np.float64(0.25)], {"fast": fast}, **close)
        for full in (False, True):
            for what, matrix in (("tall", sides), ("wide", sides.transpose(0, 2, 1).copy()), ("square", general)):
                yield Case(f"Qr_{what}_{name}_{full}", "Qr", [matrix], {"full_matrices": full}, **close)
        yield Case(f"SelfAdjointEig_{name}", "SelfAdjointEigV2", [spd], **close)
        yield Case(f"SelfAdjointEig_values_{name}", "SelfAdjointEigV2", [spd], {"compute_v": False}, skip=[1], **close)
        yield Case(f"Svd_values_{name}", "Svd", [sides], {"compute_uv": False}, skip=[1, 2], **close)
        yield Case(f"Svd_{name}", "Svd", [sides], **close)
    for lower in (False, True):
        for adjoint in (False, True):
            # Near to a triangle of ones, whose inverse is small. Around what registers hold of columns, and rows in groups of four.
            for columns in (1, 8, 9, 17, 40):
                yield Case(f"TriangularSolve_columns_{columns}_{adjoint}_{lower}", "MatrixTriangularSolve",
                           [Gen((2, 11, 11), np.float64, 1, 1.01), Gen((2, 11, columns), np.float64)], {"adjoint": adjoint, "lower": lower},
                           rtol=1e-9, atol=1e-12)
            yield Case(f"TriangularSolve_large_{adjoint}_{lower}", "MatrixTriangularSolve", [Gen((70, 70), low=1, high=1.01), Gen((70, 140))],
                       {"adjoint": adjoint, "lower": lower}, rtol=2e-4, atol=2e-5)
            yield Case(f"TriangularSolve_many_{adjoint}_{lower}", "MatrixTriangularSolve",
                       [Gen((600, 13, 13), np.float64, 1, 1.01), Gen((1, 13, 5), np.float64)], {"adjoint": adjoint, "lower": lower}, rtol=1e-9, atol=1e-12)
    yield Case("TriangularSolve_broadcast", "MatrixTriangularSolve",
               [GENERAL[:1].astype(np.float32), SIDES.astype(np.float32)], rtol=1e-4, atol=1e-5)
    yield Case("MatrixSquareRoot_rotation", "MatrixSquareRoot", [np.array([[0.6, -0.8], [0.8, 0.6]])], rtol=1e-9)
    yield Case("MatrixSquareRoot_upper", "MatrixSquareRoot", [np.array([[4, 1, 2], [0, 9, 3], [0, 0, 1]], np.float64)], rtol=1e-9)
    yield Case("MatrixSquareRoot_empty", "MatrixSquareRoot", [np.zeros((0, 3, 3), np.float32)])
    yield Case("MatrixSquareRoot_wide", "MatrixSquareRoot", [np.zeros((2, 3), np.float32)], error="")
    yield Case("MatrixSolveLs_no_columns", "MatrixSolveLs", [np.zeros((3, 0)), np.zeros((3, 2)), np.float64(0)])
    yield Case("MatrixSolveLs_deficient", "MatrixSolveLs", [np.array([[1, 2], [2, 4], [3, 6]], np.float64), np.ones((3, 1)), np.float64(0)],
               {"fast": False}, rtol=1e-9)
    yield Case("MatrixSolveLs_zero", "MatrixSolveLs", [np.zeros((3, 2)), np.ones((3, 1)), np.float64(0)], error="Input matrix was rank deficient")
    yield Case("MatrixSolveLs_rows", "MatrixSolveLs", [np.ones((3, 2)), np.ones((4, 1)), np.float64(0)], error="")
    for dtype, tol in ((np.float32, 1e-5), (np.float64, 1e-12)):
        name, factor = np.dtype(dtype).name, np.linalg.cholesky(SPD).astype(dtype)
        slope = np.random.default_rng(5).normal(size=factor.shape).astype(dtype)
        yield Case(f"CholeskyGrad_{name}", "CholeskyGrad", [factor, slope], rtol=tol, atol=tol)
        yield Case(f"CholeskyGrad_{name}_upper", "CholeskyGrad", [factor + np.triu(np.ones_like(factor), 1), slope], rtol=tol, atol=tol)
    yield Case("CholeskyGrad_one", "CholeskyGrad", [np.array([[2]], np.float32), np.array([[3]], np.float32)], rtol=1e-6)
    yield Case("CholeskyGrad_none", "CholeskyGrad", [np.zeros((2, 0, 0), np.float32)] * 2)
    yield Case("CholeskyGrad_nan", "CholeskyGrad", [np.array([[np.nan]], np.float32), np.array([[3]], np.float32)])
    yield Case("CholeskyGrad_wide", "CholeskyGrad", [np.zeros((2, 3), np.float32)] * 2, error="")
    yield Case("CholeskyGrad_shapes", "CholeskyGrad", [np.eye(2), np.eye(3)], error="must have the same shape")
    for op, sides in (("MatrixInverse", []), ("MatrixSolve", [np.ones((4, 1))])):
        with_nan = GENERAL[0].copy()
        with_nan[3, 3] = np.nan
        yield Case(f"{op}_nan", op, [with_nan, *sides])
    yield Case("Cholesky_two", "Cholesky", [np.array([[2.0]])])
    yield Case("Cholesky_infinity", "Cholesky", [np.array([[np.inf]])])
    yield Case("Cholesky_empty", "Cholesky", [np.zeros((0, 3, 3), np.float32)])
    yield Case("MatrixInverse_singular", "MatrixInverse", [np.array([[1, 2], [2, 4]], np.float32)],
               error="Input is not invertible")
    yield Case("MatrixInverse_wide", "MatrixInverse", [np.zeros((2, 3), np.float32)], error="")
    yield Case("Qr_batch", "Qr", [Gen((3, 2, 5, 4))], rtol=1e-4, atol=1e-5)
    for name, shape in (("columns", (2, 3, 0)), ("rows", (2, 0, 3))):
        yield Case(f"Qr_no_{name}", "Qr", [np.zeros(shape, np.float32)], {"full_matrices": True})
        yield Case(f"Svd_no_{name}", "Svd", [np.zeros(shape, np.float32)], {"full_matrices": True})
