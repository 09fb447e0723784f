"""MatMul, BatchMatMul and Einsum."""
import math

import numpy as np

from case_builder import Case, Gen, L, bfloat16

f32, f64, f16 = np.float32, np.float64, np.float16
# Allowed differences: sums in another order, and for 16-bit types of another width.
CLOSE = {f32: dict(rtol=1e-5, atol=1e-5), f64: dict(rtol=1e-13, atol=1e-13), f16: dict(rtol=5e-3, atol=5e-3),
         bfloat16: dict(rtol=4e-2, atol=4e-2), np.int32: {}, np.int64: {}}


def gen(shape, dtype, seed):
    whole = np.dtype(dtype).kind == "i"
    return Gen(shape, dtype, low=-9 if whole else -1, high=9 if whole else 1, seed=seed)


def product(name, op, a, b, attrs, dtype=f32, **kwargs):
    return Case(name, op, [gen(a, dtype, 1), gen(b, dtype, 2)], attrs, **{**CLOSE[dtype], **kwargs})


def fused_cases():
    """As grappler makes them: a product, a bias, an activation."""
    def fused(name, a, b, bias, ops, attrs=None, dtype=f32, **kwargs):
        return Case(f"FusedMatMul_{name}", "_FusedMatMul", [gen(a, dtype, 1), gen(b, dtype, 2), L([gen((bias,), dtype, 3)])],
                    {"fused_ops": ops, **(attrs or {})}, **{**CLOSE[dtype], **kwargs})
    for ta in (False, True):
        for tb in (False, True):
            a, b = ((17, 20) if ta else (20, 17)), ((50, 17) if tb else (17, 50))
            yield fused(f"bias_{'t' if ta else 'n'}{'t' if tb else 'n'}", a, b, 50, ["BiasAdd"], {"transpose_a": ta, "transpose_b": tb})
            yield fused(f"relu_{'t' if ta else 'n'}{'t' if tb else 'n'}", a, b, 50, ["BiasAdd", "Relu"], {"transpose_a": ta, "transpose_b": tb})
    for op in ("Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"):
        yield fused(op, (5, 9), (9, 20), 20, ["BiasAdd", op])
        yield fused(f"{op}_three_rows", (3, 9), (9, 20), 20, ["BiasAdd", op])
        yield fused(f"{op}_one_row", (1, 9), (9, 20), 20, ["BiasAdd", op])
    yield fused("leak", (5, 9), (9, 20), 20, ["BiasAdd", "LeakyRelu"], {"leakyrelu_alpha": 0.4})
    # TensorFlow has kernels of these on GPUs alone.
    a, b, bias = (gen(shape, f32, seed).numpy().astype(f64) for shape, seed in (((5, 9), 1), ((9, 20), 2), ((20,), 3)))
    x = a @ b + bias
    gelus = {"GeluApproximate": np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)), "GeluExact": np.vectorize(math.erf)(x / np.sqrt(2))}
    for op, y in gelus.items():
        yield fused(op, (5, 9), (9, 20), 20, ["BiasAdd", op], expected=[(x / 2 * (1 + y)).astype(f32)])
    for dtype in (f16, bfloat16):
        yield fused(f"bias_{np.dtype(dtype).name}", (5, 9), (9, 20), 20, ["BiasAdd"], dtype=dtype)
        yield fused(f"relu_{np.dtype(dtype).name}", (5, 9), (9, 20), 20, ["BiasAdd", "Relu"], dtype=dtype)
    yield fused("no_rows", (0, 3), (3, 4), 4, ["BiasAdd", "Relu"])
    yield fused("large", (300, 200), (200, 400), 400, ["BiasAdd", "Relu"])
    yield fused("unknown", (5, 9), (9, 20), 20, ["BiasAdd", "Exp"], error="")


def matmul_cases():
    for ta in (False, True):
        for tb in (False, True):
            attrs = {"transpose_a": ta, "transpose_b": tb}
            for m, n, k in ((3, 4, 5), (1, 7, 6), (7, 1, 6), (20, 50, 17), (9, 130, 70)):
                a, b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
                yield product(f"MatMul_{m}x{n}x{k}_{'t' if ta else 'n'}{'t' if tb else 'n'}", "MatMul", a, b, attrs)
    for dtype in (f64, f16, bfloat16, np.int32, np.int64):
        yield product(f"MatMul_{np.dtype(dtype).name}", "MatMul", (5, 9), (9, 20), {}, dtype)
        yield product(f"MatMul_{np.dtype(dtype).name}_transposed", "MatMul", (9, 5), (20, 9),
                      {"transpose_a": True, "transpose_b": True}, dtype)
    # Few columns, many rows or many terms.
    for dtype in (f32, f64):
        for m, k, n in ((1030, 3, 1), (1024, 2, 2), (1111, 3, 3), (1100, 4, 5), (1060, 8, 7), (1025, 16, 4)):
            for tb in (False, True):
                yield product(f"MatMul_narrow_{m}x{k}x{n}_{np.dtype(dtype).name}_{tb}", "MatMul", (m, k), (n, k) if tb else (k, n),
                              {"transpose_b": tb}, dtype)
        for m, k, n in ((3, 1200, 1), (7, 1031, 3), (2, 5000, 4), (16, 1024, 3), (21, 1500, 2), (70, 1100, 5)):
            yield product(f"MatMul_many_terms_{m}x{k}x{n}_{np.dtype(dtype).name}", "MatMul", (k, m), (k, n), {"transpose_a": True}, dtype,
                          **({"rtol": 1e-4, "atol": 1e-4} if dtype is f32 else {"rtol": 1e-12, "atol": 1e-12}))
    yield product("MatMul_no_rows", "MatMul", (0, 3), (3, 4), {})
    yield product("MatMul_no_columns", "MatMul", (2, 3), (3, 0), {})
    yield product("MatMul_no_terms", "MatMul", (2, 0), (0, 4), {})
    yield product("MatMul_large", "MatMul", (300, 200), (200, 400), {})
    yield product("MatMul_large_transposed", "MatMul", (700, 300), (310, 700), {"transpose_a": True, "transpose_b": True},
                  rtol=1e-4, atol=1e-4)
    special = np.array([[np.nan, 1], [np.inf, 2], [3, -np.inf]], f32)
    yield Case("MatMul_nan_and_infinity", "MatMul", [special, np.ones((2, 3), f32)])
    yield product("MatMul_unequal_inner", "MatMul", (2, 3), (4, 5), {}, error="")
    yield product("MatMul_of_rank_3", "MatMul", (2, 3, 4), (4, 5), {}, error="")


def batch_cases():
    yield product("BatchMatMul", "BatchMatMul", (2, 3, 4, 5), (2, 3, 5, 6), {})
    yield product("BatchMatMul_adj", "BatchMatMul", (4, 5, 3), (4, 6, 5), {"adj_x": True, "adj_y": True})
    for ax in (False, True):
        for ay in (False, True):
            x, y = ((5, 4) if ax else (4, 5)), ((6, 5) if ay else (5, 6))
            name = f"BatchMatMulV2_{'t' if ax else 'n'}{'t' if ay else 'n'}"
            attrs = {"adj_x": ax, "adj_y": ay}
            yield product(f"{name}_equal", "BatchMatMulV2", (3, *x), (3, *y), attrs)
            yield product(f"{name}_broadcast", "BatchMatMulV2", (2, 1, *x), (3, *y), attrs)
            yield product(f"{name}_one_matrix", "BatchMatMulV2", (2, 3, *x), y, attrs)
    for dtype in (f64, f16, bfloat16, np.int32, np.int64):
        yield product(f"BatchMatMulV2_{np.dtype(dtype).name}", "BatchMatMulV2", (2, 3, 9), (2, 9, 20), {}, dtype)
    yield product("BatchMatMulV2_empty_batch", "BatchMatMulV2", (0, 3, 4), (0, 4, 5), {})
    yield product("BatchMatMulV2_attention", "BatchMatMulV2", (8, 4, 50, 16), (8, 4, 50, 16), {"adj_y": True})
    yield product("BatchMatMulV2_does_not_broadcast", "BatchMatMulV2", (2, 3, 4), (3, 4, 5), {}, error="")
    for one, other in ((np.int8, np.int8), (np.int8, np.uint8), (np.uint8, np.int8), (np.uint8, np.uint8)):
        whole = [Gen(shape, dtype, 0 if dtype is np.uint8 else -128, 127, seed) for shape, dtype, seed in (((2, 3, 70), one, 1), ((70, 5), other, 2))]
        yield Case(f"BatchMatMulV3_{np.dtype(one).name}_{np.dtype(other).name}", "BatchMatMulV3", whole, {"Tout": np.int32})
    yield Case("BatchMatMulV3_int8_adjoint", "BatchMatMulV3", [gen((4, 3, 2), np.int8, 1), gen((5, 3), np.int8, 2)], {"adj_x": True, "adj_y": True, "Tout": np.int32})
    yield Case("BatchMatMulV3", "BatchMatMulV3", [gen((2, 3, 4), f32, 1), gen((2, 4, 5), f32, 2)],
               {"Tout": f32}, **CLOSE[f32])


EQUATIONS = [
    ("ij->ji", (4, 5)), ("ij->", (4, 5)), ("ii->i", (4, 4)), ("i->ii", (4,)), ("ijk->k", (2, 3, 4)),
    ("...ij->...ji", (2, 3, 4, 5)), ("ij...->...", (2, 3, 4)), ("iij->ji", (3, 3, 4)),
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk->ki", (3, 4), (4, 5)), ("ij,kj->ik", (3, 4), (5, 4)),
    ("ij,ij->ij", (3, 4), (3, 4)), ("ij,ij->", (3, 4), (3, 4)), ("i,j->ij", (3,), (4,)), ("ij,kl->", (2, 3), (4, 5)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)), ("...ij,...jk->ik...", (5, 1, 2, 3), (4, 3, 4)),
    ("abc,cde->abde", (2, 5, 6), (6, 3, 4)), ("aecd,abcd->acbe", (2, 7, 3, 4), (2, 5, 3, 4)),
    ("acbe,aecd->abcd", (2, 3, 5, 7), (2, 7, 3, 4)), ("abde,cde->abc", (2, 5, 3, 4), (6, 3, 4)),
    ("abc,abde->cde", (2, 5, 6), (2, 5, 3, 4)), ("ii,i->i", (3, 3), (3,)), ("ijk,ikj->i", (2, 3, 4), (2, 4, 3)),
    ("iI,Ij->ji", (2, 3), (3, 4)),
]


def einsum(name, equation, shapes, dtype=f32, **kwargs):
    inputs = L([gen(shape, dtype, i + 1) for i, shape in enumerate(shapes)])
    return Case(name, "Einsum", [inputs], {"equation": equation}, **{**CLOSE[dtype], **kwargs})


def einsum_cases():
    for i, (equation, *shapes) in enumerate(EQUATIONS):
        yield einsum(f"Einsum_{i}", equation, shapes)
    for dtype in (f64, bfloat16, np.int32, np.int64):
        yield einsum(f"Einsum_product_{np.dtype(dtype).name}", "aecd,abcd->acbe", ((2, 7, 3, 4), (2, 5, 3, 4)), dtype)
        yield einsum(f"Einsum_transpose_{np.dtype(dtype).name}", "ij->ji", ((4, 5),), dtype)
    yield einsum("Einsum_no_terms", "ij,jk->ik", ((2, 0), (0, 4)))
    yield einsum("Einsum_empty", "ij,jk->ik", ((0, 3), (3, 4)))
    yield einsum("Einsum_large", "abcd,aecd->acbe", ((4, 64, 8, 32), (4, 48, 8, 32)))
    yield einsum("Einsum_without_arrow", "ij,jk", ((2, 3), (3, 4)), error="'->'")
    yield einsum("Einsum_of_three", "i,j,k->ijk", ((2,), (3,), (4,)), error="")
    yield einsum("Einsum_unequal_labels", "ij,jk->ik", ((2, 3), (5, 4)), error="")
    yield einsum("Einsum_wrong_rank", "i->i", ((2, 3),), error="")


def cases():
    yield from matmul_cases()
    yield from fused_cases()
    yield from batch_cases()
    yield from einsum_cases()
