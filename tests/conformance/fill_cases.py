#!/usr/bin/env python3
"""Fills holes of the coverage table: varies committed cases until TensorFlow accepts one that covers the cell.

  fill_cases.py                   all ops: writes data/more_FAMILY.pb.gz and refused.txt
  fill_cases.py OP ... [--write]  prints what it would do for some ops, or does it

Cells that TensorFlow refuses in every variant go to refused.txt with its words. See README.md.
"""
import multiprocessing
import os
import pathlib
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

MOST_SEEDS = 5
MOST_BYTES = 5000
# Cells that TensorFlow answers but that no result is promised for, and why ours is another one.
EXPLAINED = {
    ("Round", "int32"): "TensorFlow 2.21 gives zeros for integers; here they stay what they are",
    ("Round", "int64"): "TensorFlow 2.21 gives zeros for integers; here they stay what they are",
    ("CTCLoss", "nan"): "a sequence that no alignment fits has an infinite loss here whatever its numbers are",
    ("LRN", "nan"): "TensorFlow's sum over channels is a product with a band of zeros: a NaN reaches all channels of a pixel",
    ("NonMaxSuppressionV3", "nan"): "TensorFlow's queue of scores has no order of NaN",
    ("DepthwiseConv2dNativeBackpropFilter", "empty"): "TensorFlow leaves memory as it was; zeros by case DepthwiseConv2dNativeBackpropFilter_no_batch",
    ("AdjustHue", "nan"): "a pixel with NaN has no hue: the answer depends on the order of comparisons",
    ("RFFT2D", "empty"): "TensorFlow leaves memory as it was; zeros here",
    ("RFFT3D", "empty"): "TensorFlow leaves memory as it was; zeros here",
    ("RFFT2D", "nan"): "which parts of the numbers are NaN depends on the order of sums",
    ("RFFT3D", "nan"): "which parts of the numbers are NaN depends on the order of sums",
    ("ScaleAndTranslateGrad", "nan"): "TensorFlow adds pixels of weight zero too",
    ("Assert", "empty"): "the condition is a scalar",
    ("RaggedBincount", "rank8"): "splits are a vector",
    ("RaggedCountSparseOutput", "rank8"): "splits are a vector, sorted",
    ("Empty", "nan"): "without init the value is what memory held",
    ("RaggedCross", "scalar"): "rows of features have two dimensions",
    ("RaggedCross", "rank8"): "rows of features have two dimensions",
    ("SparseCrossV2", "scalar"): "rows of features have two dimensions",
    ("SparseCrossV2", "rank8"): "rows of features have two dimensions",
    ("SparseCrossHashed", "scalar"): "rows of features have two dimensions",
    ("SparseCrossHashed", "rank8"): "rows of features have two dimensions",
    ("ShardedFilename", "empty"): "numbers are scalars",
    ("ShardedFilename", "rank8"): "numbers are scalars",
    ("ShardedFilespec", "empty"): "numbers are scalars",
    ("ShardedFilespec", "rank8"): "numbers are scalars",
    ("LinSpace", "empty"): "at least one number",
    ("RandomShuffle", "nan"): "rows are moved whatever they hold",
    ("ScalarSummary", "empty"): "dropped with other summaries",
    ("StatefulStandardNormalV2", "nan"): "no input of floats",
    ("StatefulTruncatedNormal", "nan"): "no input of floats",
    ("StatefulUniform", "nan"): "no input of floats",
    ("StatefulUniformFullInt", "nan"): "no input of floats",
    ("StatefulUniformInt", "nan"): "no input of floats",
    ("IRFFT2D", "empty"): "TensorFlow leaves memory as it was; zeros here",
    ("IRFFT3D", "empty"): "TensorFlow leaves memory as it was; zeros here",
}
QUANTIZED = [f"Quantized{rest}" for rest in ("Add", "AvgPool", "BiasAdd", "Concat", "Conv2D", "MatMul", "MaxPool", "Mul", "Relu", "Relu6", "Reshape")]
EXPLAINED.update({(op, "nan"): "a range with NaN has no steps: whatever NaN becomes as an integer decides"
                  for op in QUANTIZED + ["QuantizeDownAndShrinkRange", "RequantizationRange", "Requantize"]})
CUDNN = [f"CudnnRNN{rest}" for rest in ("", "V2", "V3", "Backprop", "BackpropV2", "BackpropV3", "ParamsSize", "ParamsToCanonical",
                                        "ParamsToCanonicalV2", "CanonicalToParams", "CanonicalToParamsV2")]
EXPLAINED.update({(op, cell): "only on GPUs in TensorFlow" for op in CUDNN for cell in ("empty", "scalar", "rank8")})
EXPLAINED.update({(op, cell): "the maximum that is given belongs to signed inputs" for op in ("MaxPoolGradGrad", "MaxPoolGradGradV2")
                  for cell in ("uint8", "uint16", "uint32", "uint64")})
ABORTED = "TensorFlow aborts"


def answer(case):
    """What TensorFlow makes of a case, as bytes of its nodes, or its message."""
    from tensorflow.core.framework import graph_pb2
    from case_builder import nodes_of
    try:
        return graph_pb2.GraphDef(node=nodes_of(case)).SerializeToString(deterministic=True), None
    except Exception as error:  # noqa: BLE001: whatever TensorFlow says is the reason
        return None, f"{type(error).__name__}: {error}"


def serve(pipe):
    while True:
        pipe.send(answer(pipe.recv()))


class Worker:
    """A process that asks TensorFlow, so that one that aborts takes nobody with it."""

    def __init__(self):
        self.process = None

    def ask(self, case):
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.pipe.send(case)
            if self.pipe.poll(60):
                return self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass
        self.process.kill()
        self.process = None
        return None, ABORTED


def short(message):
    """What TensorFlow says, without where."""
    if "Node: 'op'" in message:
        message = message.split("Node: 'op'", 1)[1]
    message = re.sub(r"\[\[.*|Original stack.*| for '.*", "", message.replace("\n", " ").replace("\t", " "))
    message = re.sub(r"^(?:\w+: )*", "", message)
    return re.sub(r"\s+", " ", message).strip()[:120]


def size_of(case):
    from coverage_cells import shape_of
    import numpy as np
    return sum(int(np.prod(shape_of(v), dtype=np.int64)) for v in case.flat)


def has_nothing(case):
    return any(0 in shape_key(value) for value in case.flat)


def name_for(op, cell):
    return f"{op}_{cell.replace('=', '_')}"


def fill(op, seeds, holes, worker):
    """(cases with their bytes, {cell: reason}) for the holes of one op."""
    from coverage_cells import covered_by, load_graph
    from mutate import variants
    found, refused, holes = [], {}, list(holes)
    order = sorted(seeds, key=lambda c: (has_nothing(c), size_of(c) < 2, size_of(c)))
    covered = set()
    for cell in holes:
        if cell in covered:
            continue
        if (op, cell) in EXPLAINED:
            refused[cell] = EXPLAINED[(op, cell)]
            continue
        reasons = []
        # A window that reaches over the edge multiplies padding by NaN in TensorFlow: without padding first.
        ordered = sorted(order, key=lambda c: c.attrs.get("padding") not in (None, b"VALID")) if cell == "nan" else order
        for case in seed_choice(ordered):
            for new in variants(case, cell):
                if reasons.count(ABORTED) >= 2:
                    break
                new.name = name_for(op, cell)
                try:
                    data, message = worker.ask(new)
                except Exception as error:  # noqa: BLE001
                    data, message = None, f"{type(error).__name__}: {error}"
                if data is None:
                    reasons.append(message)
                    continue
                made = next(load_graph(data, case.family))
                if cell in covered_by(made) and len(data) <= MOST_BYTES:
                    found.append((made, data))
                    covered |= covered_by(made)
                    break
            if cell in covered:
                break
        if cell not in covered:
            words = [short(r) for r in reasons]
            refused[cell] = next((w for w in words if w), "no variant covers it")
    return found, refused


def seed_choice(order):
    """A few seeds, unlike each other."""
    chosen, seen = [], set()
    for case in order:
        key = (str(sorted(case.attrs.items(), key=str)), tuple(len(s) for s in map(shape_key, case.flat)))
        if key in seen:
            continue
        seen.add(key)
        chosen.append(case)
        if len(chosen) == MOST_SEEDS:
            break
    return chosen


def shape_key(value):
    from coverage_cells import shape_of
    return shape_of(value)


def main():
    from coverage_cells import all_cases, cells_of, covered_by
    wanted = set(sys.argv[1:]) - {"--write"}
    seeds, covered = {}, {}
    for case in all_cases():
        if case.family.startswith("more_"):
            continue
        covered.setdefault(case.op, set()).update(covered_by(case))
        if case.error is None:
            seeds.setdefault(case.op, []).append(case)
    worker, families, reasons = Worker(), {}, []
    for op in sorted(seeds):
        if wanted and op not in wanted:
            continue
        holes = [cell for cell in cells_of(op) if cell not in covered[op]]
        try:
            found, refused = fill(op, seeds[op], holes, worker)
        except Exception as error:  # noqa: BLE001: the other ops' answers are worth having
            print(f"{op}: {type(error).__name__}: {error}", flush=True)
            continue
        for made, data in found:
            families.setdefault(made.family, []).append(data)
        reasons += [f"{op} {cell}: {why}" for cell, why in refused.items()]
        print(f"{op}: {len(found)} cases for {len(holes)} holes, {sum(len(d) for _, d in found)} bytes; refused {refused}", flush=True)
    if wanted and "--write" not in sys.argv:
        return
    write(families, reasons, wanted)


def write(families, reasons, wanted):
    """The cases of all ops, or with `wanted` those of some in place of what the files have of them."""
    import data_files
    from tensorflow.core.framework import graph_pb2
    for path in [path for path in data_files.paths() if wanted and path.name.startswith("more_")]:
        graph, family = graph_pb2.GraphDef(), data_files.family_of(path)
        old = graph_pb2.GraphDef.FromString(data_files.read(path))
        gone = {n.name[:-3] for n in old.node if n.name.endswith("/op") and n.op in wanted}
        graph.node.extend(n for n in old.node if n.name.rsplit("/", 1)[0] not in gone)
        for part in families.pop(family.removeprefix("more_"), []):
            graph.MergeFromString(part)
        data_files.write(family, graph.SerializeToString(deterministic=True))
    for family, parts in families.items():
        graph = graph_pb2.GraphDef()
        for part in parts:
            graph.MergeFromString(part)
        data_files.write(f"more_{family}", graph.SerializeToString(deterministic=True))
    path = HERE / "refused.txt"
    kept = [line for line in path.read_text().splitlines() if line.split(" ")[0] not in wanted] if wanted else []
    path.write_text("".join(line + "\n" for line in sorted(kept + reasons)))


if __name__ == "__main__":
    main()
