"""Variants of a conformance case that cover a given cell of the coverage table: other types, shapes, values, axes."""
import copy
import math

import numpy as np

from case_builder import Case, Gen, L, RefVar, Var, bfloat16
from coverage_cells import AXES, FLOATS, TYPES, data_arguments, name_of, shape_of, type_attributes
from tensorflow.python.framework import op_def_registry

NUMPY_TYPES = {"bfloat16": bfloat16, "bool": np.bool_}
RANK8 = (2, 1, 1, 3, 1, 1, 1, 2)
# Inputs with one entry per dimension of the data, and what a dimension put in front has there.
PER_DIMENSION = {"perm": None, "multiples": 1, "begin": 0, "size": -1, "end": 1, "strides": 1, "paddings": 0, "shape": 1,
                 "dims": 1, "input_shape": 1, "dense_shape": 1, "output_shape": 1, "input_sizes": 1, "orig_input_shape": 1,
                 "sp_shape": 1, "b_shape": 1, "a_shape": 1, "output_dims": 1, "offset": 0, "bounds": 1}
SPECIAL = (np.nan, np.inf, -np.inf)


def numpy_type(name):
    return np.dtype(NUMPY_TYPES.get(name, name))


def cast(value, name):
    """The value in another type; integers of floats keep some of their variety, imaginary parts are the real ones of neighbours."""
    dtype = numpy_type(name)
    if isinstance(value, Var):
        return type(value)(cast(value.generated if value.generated is not None else value.value, name))
    if isinstance(value, Gen):
        low, high = value.low, value.high
        if dtype.kind in "iu":
            low, high = (math.floor(low * 3), math.ceil(high * 3)) if value.dtype.kind not in "iu" else (low, high)
        elif dtype.kind == "b":
            low, high = 0, 2
        elif dtype.kind == "c":
            return cast(value.numpy(), name)
        if dtype.kind == "u":
            low = max(low, 0)
        return Gen(value.shape, dtype, low, max(high, low + 1), value.seed)
    array = np.asarray(value)
    if array.dtype == object:
        return np.arange(array.size).reshape(array.shape).astype(dtype)
    if dtype.kind == "u":
        array = np.abs(array.astype(np.float64))
    if dtype.kind == "c" and array.dtype.kind != "c":
        real = array.astype(np.float64)
        return (real + 0.5j * np.roll(real, 1)).astype(dtype)
    if array.dtype.kind in "fV" and dtype.kind in "iu":
        wide = np.nan_to_num(array.astype(np.float64), nan=0, posinf=3, neginf=-3)
        wide = wide * 3 if wide.size and np.abs(wide).max() <= 4 else wide
        return np.round(np.clip(wide, -2**31, 2**31 - 1)).astype(dtype)
    return (array > 0) if dtype.kind == "b" else array.astype(dtype)


# (relative and absolute) where the table below is too strict: outputs that are float whatever the input is, and rules
# that TensorFlow computes in the 16 bits of the type, step by step.
TOLERANCES = {("ResizeBicubicGrad", "float64"): 1e-5, ("Conv3DBackpropFilterV2", "float16"): 1e-2,
              ("Conv3DBackpropFilterV2", "bfloat16"): 6e-2, ("ApplyFtrl", "bfloat16"): 0.2, ("ApplyFtrlV2", "bfloat16"): 0.2}
FLOAT_RESULTS = {"ScaleAndTranslate", "ResizeBilinear", "ResizeBicubic", "ResizeArea", "CropAndResize"}


def tolerance(case, name):
    if (case.op, name) in TOLERANCES:
        return (TOLERANCES[(case.op, name)],) * 2
    if case.op in FLOAT_RESULTS:
        return max(case.rtol, 1e-5), max(case.atol, 1e-5)
    if name.startswith("complex"):
        return (1e-4, 1e-4) if name == "complex64" else (1e-9, 1e-9)
    exact = case.rtol == 0 and case.atol == 0
    if name not in FLOATS or exact:
        return case.rtol, case.atol
    coarse = {"float32": (1e-5, 1e-5), "float64": (1e-9, 1e-9), "float16": (3e-3, 3e-3), "bfloat16": (2e-2, 2e-2)}[name]
    was = name_of(case.attrs.get("T", case.attrs.get("dtype", np.float32)))
    if was == name:
        return case.rtol, case.atol
    if was in ("float32", "float64") and name in ("float16", "bfloat16", "float32"):
        return max(coarse[0], case.rtol), max(coarse[1], case.atol)
    return coarse


def variant(case, inputs=None, attrs=None, rtol=None, atol=None):
    merged = dict(case.attrs)
    merged.update(attrs or {})
    return Case(case.name, case.op, inputs if inputs is not None else case.inputs, merged,
                rtol=case.rtol if rtol is None else rtol, atol=case.atol if atol is None else atol, runs=case.runs, skip=case.skip)


def map_values(inputs, change):
    """inputs with change(argument index, index in the list, value) in place of each value."""
    return [L([change(i, k, v) for k, v in enumerate(value)]) if isinstance(value, L) else change(i, 0, value)
            for i, value in enumerate(inputs)]


def concrete(value):
    """(array, wrap): the array of a value, and what makes such a value of an array again."""
    if isinstance(value, Var):
        return value.value, type(value)
    return (value.numpy() if isinstance(value, Gen) else np.asarray(value)), lambda array: array


def with_shape(value, shape):
    """The value's elements, repeated or cut, under another shape."""
    array, wrap = concrete(value)
    flat = array.reshape(-1) if array.size else np.ones(1, array.dtype)
    return wrap(np.resize(flat, shape))


def retyped(case, attribute, name, main):
    op_def = op_def_registry.get(case.op)
    arguments = {i for i, arg in enumerate(op_def.input_arg) if arg.type_attr == attribute}
    # The type of a resource's variable is an attribute of the op.
    if attribute == "dtype" or (main and any(a.type == 20 for a in op_def.input_arg)):
        arguments |= {i for i, v in enumerate(case.inputs) if isinstance(v, Var)}
    inputs = map_values(case.inputs, lambda i, k, v: cast(v, name) if i in arguments else v)
    rtol, atol = tolerance(case, name) if main else (case.rtol, case.atol)
    yield variant(case, inputs, {attribute: numpy_type(name)}, rtol, atol)


def data_of(case):
    """(argument, position) of the values that are data, variables among them."""
    data = data_arguments(op_def_registry.get(case.op))
    return [(i, k) for i, value in enumerate(case.inputs)
            for k, v in enumerate(value if isinstance(value, L) else [value]) if i in data or isinstance(v, Var)]


def value_at(case, place):
    value = case.inputs[place[0]]
    return value[place[1]] if isinstance(value, L) else value


# Of these, infinities are left out: which part of a result is then infinite and which NaN depends on the order of sums.
NAN_ALONE = {"ResizeBicubic", "ResizeBilinear", "ResizeBilinearGrad", "LRNGrad", "Svd",
             "UnsortedSegmentMin", "AdjustSaturation", "Conv2DBackpropFilter"}
# Given a result that does not belong to its input, a gradient of a maximum goes anywhere: the upstream gradient alone is changed.
LAST_ALONE = {"MaxPool3DGrad", "MaxPool3DGradGrad", "MaxPoolGradGrad", "MaxPoolGradGradV2"}


def with_special(case):
    places = [p for p in data_of(case) if concrete(value_at(case, p))[0].dtype.kind in "fV" or
              concrete(value_at(case, p))[0].dtype == bfloat16]
    large = [p for p in places if concrete(value_at(case, p))[0].size > 1] or places

    def special_in(wanted):
        def change(i, k, v):
            if (i, k) not in wanted:
                return v
            array, wrap = concrete(v)
            array = array.copy()
            flat, step = array.reshape(-1), max(array.size // 4, 1)
            specials = SPECIAL[:1] if case.op in NAN_ALONE else SPECIAL
            for at, x in zip(range(wanted.index((i, k)) % 2, array.size, step), specials):
                flat[at] = x
            return wrap(flat.reshape(array.shape))
        return variant(case, map_values(case.inputs, change))
    if case.op in LAST_ALONE:
        large = places[-1:]
    yield special_in(large)
    for place in large:
        yield special_in([place])


def all_scalar(case):
    places = data_of(case)
    for wanted in (places, places[:1]):
        yield variant(case, map_values(case.inputs, lambda i, k, v: with_shape(v, ()) if (i, k) in wanted else v))


def without_elements(case):
    places = data_of(case)
    shapes = [tuple(shape_of(value_at(case, p))) for p in places]
    sizes = list(dict.fromkeys(d for shape in shapes for d in shape if d > 0))
    names = [arg.name for arg in op_def_registry.get(case.op).input_arg]

    def zero(size, everywhere):
        def change(i, k, v):
            shape = tuple(shape_of(v))
            array, wrap = concrete(v)
            if not ((i, k) in places or everywhere):
                return v
            if names[i] in PER_DIMENSION and array.dtype.kind in "i" and array.ndim == 1 and everywhere:
                return wrap(np.where(array == size, 0, array).astype(array.dtype))
            return with_shape(v, tuple(0 if d == size else d for d in shape)) if size in shape else v
        return variant(case, map_values(case.inputs, change))
    for size in sizes:
        for everywhere in (False, True):
            yield zero(size, everywhere)
    for axis in (0, -1):
        for wanted in (places, places[:1]):
            def change(i, k, v):
                shape = list(shape_of(v))
                if (i, k) not in wanted or not shape:
                    return v
                shape[axis] = 0
                return with_shape(v, shape)
            yield variant(case, map_values(case.inputs, change))


def of_rank8(case):
    places = data_of(case)
    names = [arg.name for arg in op_def_registry.get(case.op).input_arg]
    shapes = {p: tuple(shape_of(value_at(case, p))) for p in places}
    nonscalar = [p for p in places if shapes[p]]
    first = shapes[nonscalar[0]] if nonscalar else ()
    same = [p for p in nonscalar if shapes[p] == first] or places[:1]
    extra = max(8 - len(first), 0)
    ones = (1, 2) + (1,) * (extra - 2) if extra >= 2 else (1,) * extra

    def reshaped(wanted, shape_for):
        return variant(case, map_values(case.inputs, lambda i, k, v: with_shape(v, shape_for((i, k))) if (i, k) in wanted else v))

    def per_dimension(i, k, v):
        array, wrap = concrete(v)
        if names[i] not in PER_DIMENSION or array.dtype.kind != "i" or array.ndim == 0:
            return with_shape(v, (1,) * extra + shapes[(i, k)]) if (i, k) in nonscalar[:1] else v
        fill = PER_DIMENSION[names[i]]
        if fill is None:
            return wrap(np.concatenate([np.arange(extra), array + extra]).astype(array.dtype))
        return wrap(np.concatenate([np.full((extra,) + array.shape[1:], fill), array]).astype(array.dtype))
    yield reshaped(same, lambda p: RANK8)
    yield reshaped(nonscalar, lambda p: (1,) * max(8 - len(shapes[p]), 0) + shapes[p])
    yield reshaped(nonscalar, lambda p: ones + shapes[p])
    yield reshaped(nonscalar[:1], lambda p: ones + shapes[p])
    yield reshaped(nonscalar[:1], lambda p: shapes[p] + ones)
    yield reshaped(same, lambda p: shapes[p] + ones)
    yield reshaped(nonscalar, lambda p: shapes[p] + ones)
    yield variant(case, map_values(case.inputs, per_dimension))
    yield reshaped(places[:1], lambda p: RANK8)
    if len(first) >= 2:
        yield reshaped(nonscalar[:1], lambda p: shapes[p][:1] + ones + shapes[p][1:])


def broadcasting(case):
    places = data_of(case)
    plans = ([(3, 1), (1, 4), (3, 4)], [(2, 3), (), ()], [(3, 4), (4,), (1,)], [(), (2, 3), (2, 3)], [(3,), (3, 2), (3, 2)])
    for plan in plans:
        order = {p: plan[min(k, 2)] for k, p in enumerate(places)}
        yield variant(case, map_values(case.inputs, lambda i, k, v: with_shape(v, order[(i, k)]) if (i, k) in order else v))


def negative_axes(case):
    op_def = op_def_registry.get(case.op)
    places = data_of(case)
    rank = max([len(shape_of(value_at(case, p))) for p in places] + [len(shape_of(v)) for value in case.inputs
               for v in (value if isinstance(value, L) else [value])])
    names = [arg.name for arg in op_def.input_arg]
    for less in (rank, rank + 1):
        def change(i, k, v):
            array, wrap = concrete(v)
            return wrap((array - less * (array >= 0)).astype(array.dtype)) if names[i] in AXES else v
        inputs = map_values(case.inputs, change)
        given = {a.name: case.attrs.get(a.name, a.default_value.i) for a in op_def.attr if a.name in AXES and a.type == "int"}
        for attrs in [{k: v - less} for k, v in given.items() if v >= 0] + [{}]:
            yield variant(case, inputs, attrs)
    for value in (-1, -2):
        for name in [a.name for a in op_def.attr if a.name in AXES]:
            yield variant(case, attrs={name: value})


def variants(case, cell):
    """Cases like this one of which some cover the cell."""
    attributes = type_attributes(op_def_registry.get(case.op))
    if cell in TYPES:
        yield from retyped(case, attributes[0], cell, True)
    elif "=" in cell:
        attribute, name = cell.split("=")
        yield from retyped(case, attribute, name, False)
    elif cell in ("SAME", "VALID"):
        yield variant(case, attrs={"padding": cell})
    else:
        yield from {"nan": with_special, "scalar": all_scalar, "empty": without_elements, "rank8": of_rank8,
                    "broadcast": broadcasting, "negative_axis": negative_axes}.get(cell, lambda c: ())(case)
