"""Assignments, queries and scatter updates of variables; optimizer updates, dense and sparse."""

import numpy as np
import tensorflow as tf

from case_builder import Case, Gen, RefVar, Var, bfloat16

COMPLEX = (np.complex64, np.complex128)
ROUNDING = {np.float32: 4e-6, np.float64: 2e-14, np.float16: 8e-3, bfloat16: 5e-2, np.complex64: 4e-6, np.complex128: 2e-14}


def name_of(dtype):
    return tf.as_dtype(dtype).name


def values(dtype, shape, low=-2, high=2, seed=1):
    if dtype in COMPLEX:
        real, imag = Gen(shape, np.float64, low, high, seed).numpy(), Gen(shape, np.float64, -1, 1, seed + 100).numpy()
        return (real + 1j * imag).astype(dtype)
    return Gen(shape, dtype, low, high, seed)


def assignment_cases():
    forms = [
        ("Assign", RefVar),
        ("AssignAdd", RefVar),
        ("AssignSub", RefVar),
        ("AssignVariableOp", Var),
        ("AssignAddVariableOp", Var),
        ("AssignSubVariableOp", Var),
    ]
    for op, kind in forms:
        for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64):
            yield Case(f"{op}_{name_of(dtype)}", op, [kind(values(dtype, (3, 40), 0, 9)), Gen((3, 40), dtype, 0, 9, 2)])
        for dtype in COMPLEX:
            yield Case(f"{op}_{name_of(dtype)}", op, [kind(values(dtype, (3, 5))), values(dtype, (3, 5), seed=2)])
            yield Case(f"{op}_{name_of(dtype)}_scalar", op, [kind(dtype(2 + 1j)), dtype(3 - 4j)])
            yield Case(f"{op}_{name_of(dtype)}_rank8", op, [kind(np.ones((1,) * 7 + (2,), dtype)), np.full((1,) * 7 + (2,), 3j, dtype)])
            yield Case(f"{op}_{name_of(dtype)}_empty", op, [kind(np.zeros((0, 3), dtype)), np.zeros((0, 3), dtype)])
            yield Case(f"{op}_{name_of(dtype)}_nan", op, [kind(np.ones((2,), dtype)), np.array([complex(np.nan, 1), complex(2, np.inf)], dtype)])
        yield Case(f"{op}_scalar", op, [kind(np.float32(2)), np.float32(3)])
        yield Case(f"{op}_large", op, [kind(values(np.float32, (400, 400))), Gen((400, 400), seed=2)])
        yield Case(f"{op}_empty", op, [kind(np.zeros((0, 3), np.float32)), np.zeros((0, 3), np.float32)])
        yield Case(f"{op}_nan", op, [kind(np.ones((2,), np.float32)), np.array([np.nan, np.inf], np.float32)])
    yield Case(
        "AssignVariableOp_bool", "AssignVariableOp", [Var(np.zeros((3,), np.bool_)), np.array([True, False, True])]
    )
    yield Case("VarIsInitializedOp", "VarIsInitializedOp", [Var(np.ones((2,), np.float32))])
    yield Case("IsVariableInitialized", "IsVariableInitialized", [RefVar(np.ones((2,), np.float32))])
    for dtype in (np.int32, np.int64):
        name = np.dtype(dtype).name
        yield Case(f"CountUpTo_{name}", "CountUpTo", [RefVar(np.array(3, dtype))], {"limit": 5})
        yield Case(f"ResourceCountUpTo_{name}", "ResourceCountUpTo", [Var(np.array(-3, dtype))], {"limit": 5, "T": dtype})
        yield Case(f"CountUpTo_end_{name}", "CountUpTo", [RefVar(np.array(5, dtype))], {"limit": 5}, error="Reached limit of 5")
        yield Case(f"ResourceCountUpTo_end_{name}", "ResourceCountUpTo", [Var(np.array(6, dtype))], {"limit": 5, "T": dtype}, error="Reached limit of 5")
    yield Case("VariableShape", "VariableShape", [Var(np.ones((2, 3), np.float32))])
    yield Case("VariableShape_int64", "VariableShape", [Var(np.ones((2, 3), np.float32))], {"out_type": np.int64})
    yield Case(
        "AssignSub_shapes", "AssignSubVariableOp", [Var(np.ones((2,), np.float32)), np.ones((3,), np.float32)], error=""
    )


def scatter_cases():
    for name in ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min"):
        for prefix, kind in (("Scatter", RefVar), ("ResourceScatter", Var)):
            op = prefix + name
            for dtype in (np.float32, np.float64, np.float16, np.int64):
                rtol = 0 if dtype is np.int64 else 4 * ROUNDING[dtype]
                for index in (np.int32, np.int64):
                    yield Case(
                        f"{op}_{name_of(dtype)}_{name_of(index)}",
                        op,
                        [kind(values(dtype, (6, 5), 1, 5)), np.array([3, 0, 3, 5], index), Gen((4, 5), dtype, 1, 4, 2)],
                        rtol=rtol,
                        atol=rtol,
                    )
            yield Case(
                f"{op}_scalar",
                op,
                [kind(values(np.float32, (6, 5))), np.array([2, 4], np.int32), np.float32(1.5)],
                rtol=1e-6,
            )
            yield Case(
                f"{op}_nested",
                op,
                [kind(values(np.float32, (6, 5))), np.array([[2, 4], [0, 1]], np.int32), Gen((2, 2, 5), low=1, high=2)],
                rtol=1e-6,
            )
            yield Case(f"{op}_one_index", op, [kind(values(np.float32, (6,))), np.int32(2), np.float32(1.5)], rtol=1e-6)
            yield Case(
                f"{op}_none",
                op,
                [kind(values(np.float32, (6, 5))), np.zeros((0,), np.int32), np.zeros((0, 5), np.float32)],
            )
            text = "indices[1] = 6 is not in [0, 6)" if kind is RefVar else ""
            yield Case(
                f"{op}_outside",
                op,
                [kind(values(np.float32, (6,))), np.array([1, 6], np.int32), np.ones((2,), np.float32)],
                error=text,
            )
            yield Case(
                f"{op}_negative",
                op,
                [kind(values(np.float32, (6,))), np.array([-1], np.int32), np.ones((1,), np.float32)],
                error="",
            )
            yield Case(
                f"{op}_shapes",
                op,
                [kind(values(np.float32, (6, 5))), np.array([1], np.int32), np.ones((1, 4), np.float32)],
                error="",
            )
    yield Case(
        "ResourceScatterAdd_large",
        "ResourceScatterAdd",
        [Var(values(np.float32, (500, 64))), Gen((3000,), np.int32, 0, 500), Gen((3000, 64), seed=3)],
        rtol=1e-5,
        atol=1e-5,
    )


# op: (slots besides the variable, inputs after them in order; "g" is the gradient). Slots named "+" are positive.
RULES = {
    "GradientDescent": ("", [0.1, "g"]),
    "Momentum": ("+", [0.1, "g", 0.9]),
    "KerasMomentum": ("+", [0.1, "g", 0.9]),
    "Adam": ("s+", [0.9, 0.75, 0.1, 0.8, 0.95, 1e-2, "g"]),
    "AdamWithAmsgrad": ("s++", [0.9, 0.75, 0.1, 0.8, 0.95, 1e-2, "g"]),
    "AdaMax": ("s+", [0.9, 0.1, 0.8, 0.95, 1e-2, "g"]),
    "Adagrad": ("+", [0.1, "g"]),
    "AdagradV2": ("+", [0.1, 0.05, "g"]),
    "AdagradDA": ("s+", ["g", 0.1, 0.2, 0.3, np.int64(4)]),
    "ProximalGradientDescent": ("", [0.1, 0.2, 0.3, "g"]),
    "ProximalAdagrad": ("+", [0.1, 0.2, 0.3, "g"]),
    "Adadelta": ("++", [0.1, 0.9, 0.05, "g"]),
    "Ftrl": ("+s", ["g", 0.1, 0.2, 0.3, -0.5]),
    "FtrlV2": ("+s", ["g", 0.1, 0.2, 0.3, 0.05, -0.5]),
    "RMSProp": ("+s", [0.1, 0.9, 0.8, 0.05, "g"]),
    "CenteredRMSProp": ("0+s", [0.1, 0.9, 0.8, 2.0, "g"]),
    "AddSign": ("s", [0.1, 1.5, 0.7, 0.9, "g"]),
    "PowerSign": ("s", [0.1, 1.5, 0.7, 0.9, "g"]),
}
SPARSE = [
    "Momentum",
    "KerasMomentum",
    "Adagrad",
    "AdagradV2",
    "AdagradDA",
    "ProximalGradientDescent",
    "ProximalAdagrad",
    "Adadelta",
    "Ftrl",
    "FtrlV2",
    "RMSProp",
    "CenteredRMSProp",
]
RESOURCE_ONLY = ["KerasMomentum", "AdamWithAmsgrad"]
ATTRS = {
    "Momentum": [{"use_nesterov": True}],
    "KerasMomentum": [{"use_nesterov": True}],
    "Adam": [{"use_nesterov": True}],
    "Adagrad": [{"update_slots": False}],
    "AdagradV2": [{"update_slots": False}],
    "Ftrl": [{"multiply_linear_by_lr": True}],
    "FtrlV2": [{"multiply_linear_by_lr": True}],
}


def update_inputs(rule, dtype, shape, kind, gradient, indices=None):
    slots, rest = RULES[rule]
    inputs = [kind(values(dtype, shape))]
    ranges = {"+": (0.5, 2), "s": (-1, 1), "0": (-0.1, 0.1)}
    for k, slot in enumerate(slots):
        inputs.append(kind(values(dtype, shape, *ranges[slot], seed=10 + k)))
    for item in rest:
        if isinstance(item, str):
            inputs.append(gradient)
            if indices is not None:
                inputs.append(indices)
        else:
            inputs.append(item if isinstance(item, np.int64) else np.array(item, dtype))
    return inputs


def optimizer_cases():
    for rule in RULES:
        for prefix, kind in (("ResourceApply", Var), ("Apply", RefVar)):
            if kind is RefVar and rule in RESOURCE_ONLY:
                continue
            op = prefix + rule
            # TensorFlow has no half kernels of the proximal rules and of AdagradDA.
            for dtype in (
                (np.float32, np.float64)
                if rule in ("AdagradDA",) or "Proximal" in rule
                else (np.float32, np.float64, np.float16)
            ):
                tolerance = ROUNDING[dtype] * 2
                gradient = Gen((3, 20), dtype, -1, 1, 3)
                yield Case(
                    f"{op}_{name_of(dtype)}",
                    op,
                    update_inputs(rule, dtype, (3, 20), kind, gradient),
                    rtol=tolerance,
                    atol=tolerance,
                )
            for attrs in ATTRS.get(rule, []):
                yield Case(
                    f"{op}_{next(iter(attrs))}",
                    op,
                    update_inputs(rule, np.float32, (3, 20), kind, Gen((3, 20), seed=3)),
                    attrs,
                    rtol=8e-6,
                    atol=8e-6,
                )
            if kind is Var:
                yield Case(
                    f"{op}_large",
                    op,
                    update_inputs(rule, np.float32, (150, 300), kind, Gen((150, 300), seed=3)),
                    rtol=8e-6,
                    atol=8e-6,
                )
                yield Case(
                    f"{op}_scalar", op, update_inputs(rule, np.float32, (), kind, np.float32(0.5)), rtol=8e-6, atol=8e-6
                )
                yield Case(
                    f"{op}_empty", op, update_inputs(rule, np.float32, (0, 3), kind, np.zeros((0, 3), np.float32))
                )
                yield Case(
                    f"{op}_shapes", op, update_inputs(rule, np.float32, (3,), kind, np.ones((4,), np.float32)), error=""
                )
                locked = {"use_locking": True}
                yield Case(
                    f"{op}_locked",
                    op,
                    update_inputs(rule, np.float32, (7,), kind, Gen((7,), seed=4)),
                    locked,
                    rtol=8e-6,
                    atol=8e-6,
                )
    # The bias correction of a first step, with powers close to 1.
    for step in (1, 2, 1000):
        inputs = update_inputs("Adam", np.float32, (60,), Var, Gen((60,), seed=3))
        inputs[3:9] = [np.float32(v) for v in (0.9**step, 0.999**step, 1e-3, 0.9, 0.999, 1e-7)]
        yield Case(f"Adam_step{step}", "ResourceApplyAdam", inputs, rtol=1e-6, atol=1e-7)


# Rules that TensorFlow has kernels of complex numbers for.
COMPLEX_RULES = ["GradientDescent", "Momentum", "KerasMomentum", "Adam", "Adagrad", "AdagradV2", "Adadelta", "RMSProp", "CenteredRMSProp"]


def complex_cases():
    for name in ("Update", "Add", "Sub", "Mul", "Div"):
        for prefix, kind in (("Scatter", RefVar), ("ResourceScatter", Var)):
            for dtype in COMPLEX:
                case, tolerance = f"{prefix}{name}_{name_of(dtype)}", ROUNDING[dtype]
                variable, indices = values(dtype, (6, 5), 1, 5), np.array([3, 0, 3, 5], np.int32)
                yield Case(case, prefix + name, [kind(variable), indices, values(dtype, (4, 5), 1, 4, 2)], rtol=tolerance, atol=tolerance)
                yield Case(f"{case}_scalar", prefix + name, [kind(variable), indices, dtype(1.5 - 2j)], rtol=tolerance, atol=tolerance)
    for rule in COMPLEX_RULES:
        for prefix, kind in (("ResourceApply", Var), ("Apply", RefVar), ("ResourceSparseApply", Var), ("SparseApply", RefVar)):
            sparse = "Sparse" in prefix
            if (kind is RefVar and rule in RESOURCE_ONLY) or (sparse and rule not in SPARSE):
                continue
            for dtype in COMPLEX:
                case, tolerance = f"{prefix}{rule}_{name_of(dtype)}", ROUNDING[dtype] * 2
                indices = np.array([5, 0, 5, 2], np.int64) if sparse else None
                gradient = values(dtype, (4, 3) if sparse else (6, 3), -1, 1, 3)
                inputs = update_inputs(rule, dtype, (6, 3), kind, gradient, indices)
                for attrs in [{}] + ATTRS.get(rule, []):
                    yield Case("_".join([case, *attrs]), prefix + rule, inputs, attrs, rtol=tolerance, atol=tolerance)
                # Scalars with imaginary parts.
                turned = [dtype(x * (1 + 0.3j)) if isinstance(x, np.ndarray) and x.dtype == dtype and x.ndim == 0 else x for x in inputs]
                yield Case(f"{case}_turned", prefix + rule, turned, rtol=tolerance * 2, atol=tolerance * 2)
                if sparse:
                    continue
                for element, shape in (("scalar", ()), ("empty", (0, 3))):
                    inputs = update_inputs(rule, dtype, shape, kind, values(dtype, shape, -1, 1, 3))
                    yield Case(f"{case}_{element}", prefix + rule, inputs, rtol=tolerance, atol=tolerance)
                special = np.array([complex(np.inf, 1), complex(0, -np.inf), complex(np.nan, 2), 0], dtype)
                yield Case(f"{case}_nan", prefix + rule, update_inputs(rule, dtype, (4,), kind, special), rtol=tolerance, atol=tolerance)
    # Where nothing has been summed up yet the reciprocal root is infinite, and that of a number below 0 is imaginary.
    for dtype in COMPLEX:
        slot, gradient = np.array([0, 0, -4, -4j], dtype), np.array([0, 2, 1 + 1j, 1], dtype)
        for rule in ("Adagrad", "AdagradV2"):
            inputs = update_inputs(rule, dtype, (4,), Var, gradient)
            inputs[1] = Var(slot)
            yield Case(f"{rule}_{name_of(dtype)}_roots", f"ResourceApply{rule}", inputs, {"update_slots": False}, rtol=1e-6, atol=1e-6)
    # Enough for two shards.
    inputs = update_inputs("GradientDescent", np.complex64, (16384,), Var, values(np.complex64, (16384,), -1, 1, 3))
    yield Case("ResourceApplyGradientDescent_complex64_large", "ResourceApplyGradientDescent", inputs, rtol=8e-6, atol=8e-6)


def sparse_cases():
    for rule in SPARSE:
        for prefix, kind in (("ResourceSparseApply", Var), ("SparseApply", RefVar)):
            if kind is RefVar and rule in RESOURCE_ONLY:
                continue
            op = prefix + rule
            for dtype in (np.float32, np.float64):
                for index in (np.int32, np.int64):
                    inputs = update_inputs(
                        rule, dtype, (9, 7), kind, Gen((4, 7), dtype, -1, 1, 3), np.array([5, 0, 8, 2], index)
                    )
                    yield Case(
                        f"{op}_{name_of(dtype)}_{name_of(index)}",
                        op,
                        inputs,
                        rtol=ROUNDING[dtype] * 2,
                        atol=ROUNDING[dtype] * 2,
                    )
            for attrs in ATTRS.get(rule, []):
                inputs = update_inputs(
                    rule, np.float32, (9, 7), kind, Gen((4, 7), seed=3), np.array([5, 0, 8, 2], np.int32)
                )
                yield Case(f"{op}_{next(iter(attrs))}", op, inputs, attrs, rtol=8e-6, atol=8e-6)
            inputs = update_inputs(rule, np.float32, (9, 7), kind, Gen((3, 7), seed=3), np.array([5, 1, 5], np.int32))
            yield Case(f"{op}_repeated", op, inputs, rtol=1e-5, atol=1e-5)
            inputs = update_inputs(
                rule, np.float32, (9, 7), kind, np.zeros((0, 7), np.float32), np.zeros((0,), np.int32)
            )
            yield Case(f"{op}_none", op, inputs)
            inputs = update_inputs(rule, np.float32, (9, 7), kind, Gen((1, 7), seed=3), np.array([9], np.int32))
            yield Case(f"{op}_outside", op, inputs, error="")
        inputs = update_inputs(
            rule,
            np.float32,
            (700, 40),
            Var,
            Gen((2000, 40), seed=3),
            np.random.RandomState(0).permutation(700).repeat(3)[:2000].astype(np.int32),
        )
        yield Case(f"ResourceSparseApply{rule}_large", f"ResourceSparseApply{rule}", inputs, rtol=2e-5, atol=2e-5)


def cases():
    yield from assignment_cases()
    yield from scatter_cases()
    yield from optimizer_cases()
    yield from sparse_cases()
    yield from complex_cases()
