// Reductions, arg reductions, cumulative sums.
#include "onnx/lowering.h"

namespace millrace::onnx {
namespace {

struct Reduction {
  Output x;
  IntList axes;
  bool keep_dims = true;
  bool none = false;  // nothing to reduce
};

// Axes come from an attribute, or from input 1 in later opsets.
absl::StatusOr<Reduction> ReadReduction(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 2));
  Reduction reduction{.x = c.in(0), .axes = c.Ints("axes", {}), .keep_dims = c.Int("keepdims", 1) != 0};
  if (c.has(1)) {
    MR_ASSIGN_OR_RETURN(reduction.axes, c.ConstantInts(1));
  }
  if (!reduction.x.valid()) return reduction;
  MR_ASSIGN_OR_RETURN(reduction.axes, c.Axes(std::move(reduction.axes), reduction.x.rank()));
  reduction.none = reduction.axes.empty() && c.Int("noop_with_empty_axes", 0) != 0;
  if (reduction.axes.empty()) reduction.axes = Iota(reduction.x.rank());
  return reduction;
}

Output Reduced(const char* op, const Output& x, const Reduction& r) {
  if (r.none || r.axes.empty()) return x;
  return ops::Reduce(op, x, r.axes, r.keep_dims);
}

// TensorFlow's reductions lack some element types. Numbers of 64 bits without a sign would turn negative in a wider one.
bool NeedsWider(DataType dtype) { return !IsFloating(dtype) && dtype != DataType::kInt32 && dtype != DataType::kInt64 && dtype != DataType::kUint64; }

Output ReducedWide(const char* op, const Output& x, const Reduction& r) {
  if (!NeedsWider(x.dtype())) return Reduced(op, x, r);
  return ops::Cast(Reduced(op, AsWide(x), r), x.dtype());
}

absl::Status Reduce(NodeContext& c, Output (*emit)(const Output& x, const Reduction& r)) {
  MR_ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(c));
  if (reduction.x.valid()) c.Set(0, emit(reduction.x, reduction));
  return absl::OkStatus();
}

absl::Status ReduceSum(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) { return ReducedWide("Sum", x, r); });
}
absl::Status ReduceMean(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) { return ReducedWide("Mean", x, r); });
}
absl::Status ReduceProd(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) { return ReducedWide("Prod", x, r); });
}
// Of nothing the largest is the lowest value of the type, not of the wider one that it is computed in.
Output ReducedExtreme(const char* op, const char* bound, double limit, const Output& x, const Reduction& r) {
  const bool empty = x.shape().num_elements() == 0;
  if (!empty || !NeedsWider(x.dtype())) return ReducedWide(op, x, r);
  return ops::Cast(ops::Binary(bound, Reduced(op, AsWide(x), r), limit), x.dtype());
}
absl::Status ReduceMax(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) { return ReducedExtreme("Max", "Maximum", Lowest(x.dtype()), x, r); });
}
absl::Status ReduceMin(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) { return ReducedExtreme("Min", "Minimum", Highest(x.dtype()), x, r); });
}
absl::Status ReduceL1(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) { return ReducedWide("Sum", Magnitude(x), r); });
}
absl::Status ReduceL2(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) {
    const Output wide = IsFloating(x.dtype()) ? x : ops::Cast(x, DataType::kDouble);
    return ops::Cast(ops::Sqrt(Reduced("Sum", ops::Square(wide), r)), x.dtype());
  });
}
absl::Status ReduceLogSum(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) {
    const Output wide = IsFloating(x.dtype()) ? x : ops::Cast(x, DataType::kDouble);
    return ops::Cast(ops::Log(Reduced("Sum", wide, r)), x.dtype());
  });
}
absl::Status ReduceLogSumExp(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) {
    const Output wide = IsFloating(x.dtype()) ? x : ops::Cast(x, DataType::kDouble);
    if (r.none || r.axes.empty()) return x;
    // Less the largest, so that nothing overflows; that one is a constant to gradients. Infinite maxima count as 0.
    Output largest = ops::StopGradient(ops::Reduce("Max", wide, r.axes, true));
    largest = ops::Select(ops::Unary("IsFinite", largest), largest, ops::ZerosLike(largest));
    const Output sum = Reduced("Sum", ops::Exp(wide - largest), r);
    if (!sum.valid()) return sum;
    return ops::Cast(ops::Log(sum) + ops::Reshape(largest, Dims(sum)), x.dtype());
  });
}
absl::Status ReduceSumSquare(NodeContext& c) {
  return Reduce(c, [](const Output& x, const Reduction& r) { return ReducedWide("Sum", ops::Square(x), r); });
}

absl::Status ArgReduce(NodeContext& c, const char* op) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), x.rank()));
  const bool last = c.Int("select_last_index", 0) != 0;
  const int64_t count = x.dim(static_cast<int>(axis));
  if (last) x = ops::Reverse(x, {axis});
  Output index = c.b.Op(op, {x, c.b.Int(axis)},
                        {{"T", x.dtype()}, {"Tidx", DataType::kInt32}, {"output_type", DataType::kInt64}});
  if (last) index = ops::Binary("Sub", c.b.Scalar(DataType::kInt64, static_cast<double>(count - 1)), index);
  if (c.Int("keepdims", 1) != 0) index = ops::ExpandDims(index, axis);
  c.Set(0, index);
  return absl::OkStatus();
}
absl::Status ArgMax(NodeContext& c) { return ArgReduce(c, "ArgMax"); }
absl::Status ArgMin(NodeContext& c) { return ArgReduce(c, "ArgMin"); }

// Cumsum or Cumprod along an axis that is known.
template <const char* kOp>
absl::Status Cumulate(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(2, 2));
  MR_ASSIGN_OR_RETURN(const IntList axis, c.ConstantInts(1));
  const Output x = c.in(0);
  if (!x.valid()) return absl::OkStatus();
  if (axis.size() != 1) return c.Error("expected one axis");
  MR_ASSIGN_OR_RETURN(const int64_t from_front, c.Axis(axis[0], x.rank()));
  c.Set(0, c.b.Op(kOp, {x, c.b.Int(from_front)},
                  {{"T", x.dtype()},
                   {"Tidx", DataType::kInt32},
                   {"exclusive", c.Int("exclusive", 0) != 0},
                   {"reverse", c.Int("reverse", 0) != 0}}));
  return absl::OkStatus();
}

}  // namespace

void AddReductionLowerings(LoweringTable& table) {
  static constexpr char kCumsum[] = "Cumsum", kCumprod[] = "Cumprod";
  for (const auto& [op, lowering] : std::initializer_list<std::pair<const char*, Lowering>>{
           {"ReduceSum", ReduceSum},
           {"ReduceMean", ReduceMean},
           {"ReduceProd", ReduceProd},
           {"ReduceMax", ReduceMax},
           {"ReduceMin", ReduceMin},
           {"ReduceL1", ReduceL1},
           {"ReduceL2", ReduceL2},
           {"ReduceLogSum", ReduceLogSum},
           {"ReduceLogSumExp", ReduceLogSumExp},
           {"ReduceSumSquare", ReduceSumSquare},
           {"ArgMax", ArgMax},
           {"ArgMin", ArgMin},
           {"CumSum", Cumulate<kCumsum>},
           {"CumProd", Cumulate<kCumprod>}}) {
    table.Add(op, lowering);
  }
}

}  // namespace millrace::onnx
