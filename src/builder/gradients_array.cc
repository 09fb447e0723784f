// Gradients of ops that move elements: shapes, concatenation, slices, padding.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;
using ops::IntList;

absl::Status ReshapeGradient(Context& c) {
  // A known result has as many elements as its input, so the bound of the input is its shape.
  const Output &x = c.input(0), &y = c.output(0);
  const bool same_count = x.shape().fully_known() && HasKnownShape(y) && x.shape().num_elements() == y.shape().num_elements();
  c.Set(0, same_count ? ops::Reshape(c.gradient(), Dims(x)) : ReshapeAs(c.gradient(), x));
  return absl::OkStatus();
}

absl::Status TransposeGradient(Context& c) {
  MR_ASSIGN_OR_RETURN(const IntList permutation, c.ConstantInts(1));
  IntList inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[permutation[i] < 0 ? permutation[i] + permutation.size() : permutation[i]] = static_cast<int64_t>(i);
  }
  c.Set(0, ops::Transpose(c.op() == "ConjugateTranspose" ? Conj(c.gradient()) : c.gradient(), inverse));
  return absl::OkStatus();
}

// Slices of the gradient for values whose shapes are not known.
absl::Status SlicesAtOffsets(Context& c, int first, int count, int axis_input) {
  std::vector<Output> inputs = {c.input(axis_input)};
  for (int i = first; i < first + count; ++i) inputs.push_back(ShapeOf(c.input(i)));
  const Operation offsets = Emit("ConcatOffset", inputs, {{"N", static_cast<int64_t>(count)}}, {});
  for (int i = first; i < first + count; ++i) {
    if (!c.wants(i)) continue;
    c.Set(i, Emit("Slice", {c.gradient(), offsets.output(i - first), inputs[i - first + 1]}, {{"T", c.gradient().dtype()}, {"Index", DataType::kInt32}}));
  }
  return absl::OkStatus();
}

// Every value gets its slice of the gradient. Inputs are `first` … `first + count - 1`, the axis is input `axis_input`.
absl::Status ConcatSlices(Context& c, int first, int count, int axis_input) {
  if (!ExpectKnownShapes(c).ok()) return SlicesAtOffsets(c, first, count, axis_input);
  MR_ASSIGN_OR_RETURN(const IntList axis_value, c.ConstantInts(axis_input));
  const Output g = c.gradient();
  const int64_t axis = axis_value[0] < 0 ? axis_value[0] + g.rank() : axis_value[0];
  IntList begin(g.rank(), 0);
  for (int i = first; i < first + count; ++i) {
    if (c.wants(i)) c.Set(i, ops::Slice(g, begin, Dims(c.input(i))));
    begin[axis] += c.input(i).dim(static_cast<int>(axis));
  }
  return absl::OkStatus();
}

absl::Status ConcatV2Gradient(Context& c) { return ConcatSlices(c, 0, c.num_inputs() - 1, c.num_inputs() - 1); }
absl::Status ConcatGradient(Context& c) { return ConcatSlices(c, 1, c.num_inputs() - 1, 0); }

std::vector<Output> AllGradients(Context& c) {
  std::vector<Output> gradients;
  for (int i = 0; i < c.num_outputs(); ++i) gradients.push_back(c.gradient(i));
  return gradients;
}

absl::Status SplitGradient(Context& c) {
  MR_ASSIGN_OR_RETURN(const IntList axis, c.ConstantInts(0));
  c.Set(1, ops::Concat(AllGradients(c), axis[0]));
  return absl::OkStatus();
}

absl::Status SplitVGradient(Context& c) {
  MR_ASSIGN_OR_RETURN(const IntList axis, c.ConstantInts(2));
  c.Set(0, ops::Concat(AllGradients(c), axis[0]));
  return absl::OkStatus();
}

absl::Status PackGradient(Context& c) {
  const std::vector<Output> parts = ops::Unpack(c.gradient(), c.attrs().GetOr<int64_t>("axis", 0));
  for (int i = 0; i < c.num_inputs() && i < static_cast<int>(parts.size()); ++i) c.Set(i, parts[i]);
  return absl::OkStatus();
}

absl::Status UnpackGradient(Context& c) {
  c.Set(0, ops::Pack(AllGradients(c), c.attrs().GetOr<int64_t>("axis", 0)));
  return absl::OkStatus();
}

absl::Status SliceGradient(Context& c) {
  if (!ExpectKnownShapes(c).ok() || c.builder().ConstantValue(c.input(1)) == nullptr) {
    const Output begin = ops::Cast(c.input(1), DataType::kInt32);
    const Output paddings = ops::Pack({begin, ShapeOf(c.input(0)) - begin - ShapeOf(c.output(0))}, 1);
    c.Set(0, Emit("Pad", {c.gradient(), paddings}, {{"T", c.gradient().dtype()}, {"Tpaddings", DataType::kInt32}}));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const IntList begin, c.ConstantInts(1));
  std::vector<std::pair<int64_t, int64_t>> paddings;
  for (int i = 0; i < c.input(0).rank(); ++i) {
    paddings.emplace_back(begin[i], c.input(0).dim(i) - begin[i] - c.output(0).dim(i));
  }
  c.Set(0, ops::Pad(c.gradient(), paddings));
  return absl::OkStatus();
}

absl::Status StridedSliceGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  // Begin, end and strides may be int64; all four must agree.
  const Output shape = ops::Cast(ShapeOf(c.input(0)), c.input(1).dtype());
  c.Set(0, SameAttrs(c, "StridedSliceGrad", {shape, c.input(1), c.input(2), c.input(3), c.gradient()}));
  return absl::OkStatus();
}

absl::Status StridedSliceGradGradient(Context& c) {
  if (c.wants(4)) c.Set(4, SameAttrs(c, "StridedSlice", {c.gradient(), c.input(1), c.input(2), c.input(3)}));
  return absl::OkStatus();
}

absl::Status PadGradient(Context& c) {
  if (!c.wants(0)) return absl::OkStatus();
  if (!ExpectKnownShapes(c).ok() || c.builder().ConstantValue(c.input(1)) == nullptr) {
    const Output begin = ops::Cast(ops::Index(c.input(1), 0, 1), DataType::kInt32);
    c.Set(0, Emit("Slice", {c.gradient(), begin, ShapeOf(c.input(0))}, {{"T", c.gradient().dtype()}, {"Index", DataType::kInt32}}));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const IntList paddings, c.ConstantInts(1));
  IntList begin;
  for (size_t i = 0; i < paddings.size(); i += 2) begin.push_back(paddings[i]);
  c.Set(0, ops::Slice(c.gradient(), begin, Dims(c.input(0))));
  return absl::OkStatus();
}

absl::Status MirrorPadGradient(Context& c) {
  c.Set(0, SameAttrs(c, c.op() == "MirrorPad" ? "MirrorPadGrad" : "MirrorPad", {c.gradient(), c.input(1)}));
  return absl::OkStatus();
}

absl::Status TileGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!ExpectKnownShapes(c).ok() || c.builder().ConstantValue(c.input(1)) == nullptr) {
    const Output multiples = ops::Cast(c.input(1), DataType::kInt32);
    const Output interleaved = ops::Reshape(ops::Pack({multiples, ShapeOf(c.input(0))}, 1), {2 * c.input(0).rank()});
    IntList even;
    for (int i = 0; i < c.input(0).rank(); ++i) even.push_back(2 * i);
    c.Set(0, ops::Sum(Emit("Reshape", {c.gradient(), interleaved}, {{"T", c.gradient().dtype()}, {"Tshape", DataType::kInt32}}), even));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const IntList multiples, c.ConstantInts(1));
  IntList interleaved, axes;
  for (size_t i = 0; i < multiples.size(); ++i) {
    axes.push_back(static_cast<int64_t>(interleaved.size()));
    interleaved.push_back(multiples[i]);
    interleaved.push_back(c.input(0).dim(static_cast<int>(i)));
  }
  c.Set(0, axes.empty() ? c.gradient() : ops::Sum(ops::Reshape(c.gradient(), interleaved), axes));
  return absl::OkStatus();
}

absl::Status BroadcastToGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  c.Set(0, SumAs(c.gradient(), c.input(0)));
  return absl::OkStatus();
}

absl::Status FillGradient(Context& c) {
  if (!c.wants(1)) return absl::OkStatus();
  c.Set(1, ops::Sum(c.gradient(), {}));
  return absl::OkStatus();
}

// The inverse permutation is the op itself (ReverseV2) or another with the same inputs and attributes, except that
// paddings are called crops there.
GradientTable::Rule Inverse(const char* op) {
  return [op](Context& c) {
    std::vector<Output> inputs = {c.gradient()};
    for (int i = 1; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
    AttrMap attrs;
    for (const auto& [name, value] : c.attrs()) {
      attrs.Set(name == "Tpaddings" ? "Tcrops" : name == "Tcrops" ? "Tpaddings" : name, value);
    }
    c.Set(0, Emit(op, inputs, std::move(attrs), {}));
    return absl::OkStatus();
  };
}

absl::Status RollGradient(Context& c) {
  c.Set(0, SameAttrs(c, "Roll", {c.gradient(), ops::Neg(c.input(1)), c.input(2)}));
  return absl::OkStatus();
}

absl::Status DiagonalGradient(Context& c) {
  const bool is_part = c.op() == "MatrixDiagPart" || c.op() == "BatchMatrixDiagPart";
  const Output& x = c.input(0);
  const bool is_square = HasKnownShape(x) && x.dim(-1) == x.dim(-2);
  if (is_part && !is_square) {
    c.Set(0, ops::Binary("MatrixSetDiag", ops::Unary("ZerosLike", x), c.gradient()));
    return absl::OkStatus();
  }
  const char* inverse = c.op() == "Diag" ? "DiagPart" : c.op() == "DiagPart" ? "Diag" : is_part ? "MatrixDiag" : "MatrixDiagPart";
  c.Set(0, ops::Unary(inverse, c.gradient()));
  return absl::OkStatus();
}

}  // namespace

void AddArrayGradients(GradientTable& table) {
  table.Add({"Reshape", "ExpandDims", "Squeeze"}, ReshapeGradient);
  table.Add({"Transpose", "ConjugateTranspose"}, TransposeGradient);
  table.Add("ConcatV2", ConcatV2Gradient);
  table.Add("Concat", ConcatGradient);
  table.Add("Split", SplitGradient);
  table.Add("SplitV", SplitVGradient);
  table.Add("Pack", PackGradient);
  table.Add("Unpack", UnpackGradient);
  table.Add("Slice", SliceGradient);
  table.Add("StridedSlice", StridedSliceGradient);
  table.Add("StridedSliceGrad", StridedSliceGradGradient);
  table.Add({"Pad", "PadV2"}, PadGradient);
  table.Add({"MirrorPad", "MirrorPadGrad"}, MirrorPadGradient);
  table.Add("Tile", TileGradient);
  table.Add("BroadcastTo", BroadcastToGradient);
  table.Add("Fill", FillGradient);
  table.Add("ReverseV2", Inverse("ReverseV2"));
  table.Add("Reverse", Inverse("Reverse"));
  table.Add("ReverseSequence", Inverse("ReverseSequence"));
  table.Add("SpaceToDepth", Inverse("DepthToSpace"));
  table.Add("DepthToSpace", Inverse("SpaceToDepth"));
  table.Add("SpaceToBatchND", Inverse("BatchToSpaceND"));
  table.Add("BatchToSpaceND", Inverse("SpaceToBatchND"));
  table.Add("Roll", RollGradient);
  table.Add({"Diag", "DiagPart", "MatrixDiag", "MatrixDiagPart", "BatchMatrixDiag", "BatchMatrixDiagPart"}, DiagonalGradient);
  table.AddNone({"Shape", "ShapeN", "Size", "Rank", "OneHot", "Range", "LinSpace", "ArgMax", "ArgMin", "InTopK",
                 "InTopKV2", "Unique", "Bitcast", "RandomUniform", "RandomStandardNormal", "TruncatedNormal"});
}

}  // namespace millrace
