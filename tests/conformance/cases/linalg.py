"""Decompositions and solutions of matrices."""
import numpy as np

from case_builder import Case, Gen

ROOT = Gen((2, 4, 4)).numpy().astype(np.float64)
SPD = ROOT @ ROOT.transpose(0, 2, 1) + 2 * np.eye(4)
GENERAL = ROOT + 3 * np.eye(4)
SIDES = Gen((2, 4, 3), seed=4).numpy().astype(np.float64)


def cases():
    for dtype, close in ((np.float32, {"rtol": 2e-4, "atol": 2e-5}), (np.float64, {"rtol": 1e-9, "atol": 1e-12})):
        name = np.dtype(dtype).name
        spd, general, sides = SPD.astype(dtype), GENERAL.astype(dtype), SIDES.astype(dtype)
        yield Case(f"Cholesky_{name}", "Cholesky", [spd], **close)
        yield Case(f"MatrixDeterminant_{name}", "MatrixDeterminant", [general], **close)
        yield Case(f"LogMatrixDeterminant_{name}", "LogMatrixDeterminant", [general - 6 * np.eye(4, dtype=dtype)], **close)
        for adjoint in (False, True):
            yield Case(f"MatrixInverse_{name}_{adjoint}", "MatrixInverse", [general], {"adjoint": adjoint}, **close)
            yield Case(f"MatrixSolve_{name}_{adjoint}", "MatrixSolve", [general, sides], {"adjoint": adjoint}, **close)
            for lower in (False, True):
                yield Case(f"TriangularSolve_{name}_{adjoint}_{lower}", "MatrixTriangularSolve", [general, sides],
                           {"adjoint": adjoint, "lower": lower}, **close)
        for full in (False, True):
            for what, matrix in (("tall", sides), ("wide", sides.transpose(0, 2, 1).copy()), ("square", general)):
                yield Case(f"Qr_{what}_{name}_{full}", "Qr", [matrix], {"full_matrices": full}, **close)
        yield Case(f"SelfAdjointEig_{name}", "SelfAdjointEigV2", [spd], **close)
        yield Case(f"SelfAdjointEig_values_{name}", "SelfAdjointEigV2", [spd], {"compute_v": False}, skip=[1], **close)
        yield Case(f"Svd_values_{name}", "Svd", [sides], {"compute_uv": False}, skip=[1, 2], **close)
        yield Case(f"Svd_{name}", "Svd", [sides], **close)
    yield Case("TriangularSolve_broadcast", "MatrixTriangularSolve",
               [GENERAL[:1].astype(np.float32), SIDES.astype(np.float32)], rtol=1e-4, atol=1e-5)
    yield Case("Cholesky_empty", "Cholesky", [np.zeros((0, 3, 3), np.float32)])
    yield Case("MatrixInverse_singular", "MatrixInverse", [np.array([[1, 2], [2, 4]], np.float32)],
               error="Input is not invertible")
    yield Case("MatrixInverse_wide", "MatrixInverse", [np.zeros((2, 3), np.float32)], error="")
    yield Case("Qr_batch", "Qr", [Gen((3, 2, 5, 4))], rtol=1e-4, atol=1e-5)
