// Gradients of ops that move elements: diagonals, patches, blocks of space.
#include "builder/emit.h"
#include "builder/gradient_rules.h"

namespace millrace {
namespace {

using Context = GradientContext;

Output ZeroOf(Context& c) { return c.builder().Scalar(c.dtype(), 0); }

// MatrixDiagV2 and V3: (diagonal, k, rows, columns, padding).
absl::Status MatrixDiagGradient(Context& c) {
  if (!c.wants(0)) return absl::OkStatus();
  c.Set(0, SameAttrs(c, c.op() == "MatrixDiagV2" ? "MatrixDiagPartV2" : "MatrixDiagPartV3",
                     {c.gradient(), c.input(1), ZeroOf(c)}));
  return absl::OkStatus();
}

// MatrixDiagPartV2 and V3: (matrix, k, padding).
absl::Status MatrixDiagPartGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Output& x = c.input(0);
  c.Set(0, SameAttrs(c, c.op() == "MatrixDiagPartV2" ? "MatrixDiagV2" : "MatrixDiagV3",
                     {c.gradient(), c.input(1), DimOf(x, -2), DimOf(x, -1), ZeroOf(c)}));
  return absl::OkStatus();
}

// MatrixSetDiag and its versions: (matrix, diagonal[, k]).
absl::Status MatrixSetDiagGradient(Context& c) {
  const Output g = c.gradient(), none = HasKnownShape(c.input(1)) ? ops::Full(c.builder(), c.input(1).type(), 0) : ops::ZerosLike(c.input(1));
  const bool banded = c.num_inputs() == 3;
  if (c.wants(0)) {
    c.Set(0, banded ? SameAttrs(c, c.op(), {g, none, c.input(2)}) : SameAttrs(c, c.op(), {g, none}));
  }
  if (!c.wants(1)) return absl::OkStatus();
  if (banded) {
    const char* part = c.op() == "MatrixSetDiagV2" ? "MatrixDiagPartV2" : "MatrixDiagPartV3";
    c.Set(1, SameAttrs(c, part, {g, c.input(2), ZeroOf(c)}));
  } else {
    c.Set(1, ops::Unary("MatrixDiagPart", g));
  }
  return absl::OkStatus();
}

absl::Status BandPartGradient(Context& c) {
  c.Set(0, SameAttrs(c, c.op(), {c.gradient(), c.input(1), c.input(2)}));
  return absl::OkStatus();
}

// SpaceToBatch(x, paddings) and BatchToSpace(x, crops) undo each other.
absl::Status BlocksGradient(Context& c) {
  const bool to_batch = c.op() == "SpaceToBatch";
  c.Set(0, Emit(to_batch ? "BatchToSpace" : "SpaceToBatch", {c.gradient(), c.input(1)},
                {{"T", c.dtype()},
                 {to_batch ? "Tidx" : "Tpaddings", c.input(1).dtype()},
                 {"block_size", c.attrs().GetOr<int64_t>("block_size", 2)}}));
  return absl::OkStatus();
}

absl::Status ParallelConcatGradient(Context& c) {
  const std::vector<Output> parts = ops::Split(c.gradient(), c.num_inputs(), 0);
  for (int i = 0; i < c.num_inputs(); ++i) c.Set(i, parts[i]);
  return absl::OkStatus();
}

// Patches of an image [batch, space..., channels]. Patches of an image that holds the number of every pixel (from 1; 0 is
// padding) tell where each element came from.
absl::Status PatchesGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  GraphBuilder& b = c.builder();
  const Output& x = c.input(0);
  const std::vector<int64_t> dims = Dims(x), patch_dims = Dims(c.gradient());
  const int64_t batch = dims.front(), channels = dims.back();
  int64_t pixels = 1;
  for (size_t i = 1; i + 1 < dims.size(); ++i) pixels *= dims[i];
  std::vector<int64_t> numbered = dims;
  numbered.front() = numbered.back() = 1;
  const Output numbers = ops::Reshape(ops::Cast(ops::Range(b.Int(1), b.Int(pixels + 1), b.Int(1)), DataType::kDouble), numbered);
  AttrMap attrs = c.attrs();
  attrs.Set("T", DataType::kDouble);
  const Output from = ops::Cast(Emit(c.op(), {numbers}, std::move(attrs), {}), DataType::kInt32);
  if (!from.valid()) return b.status();
  const int64_t places = from.shape().num_elements();
  const Output rows = ops::Transpose(ops::Reshape(c.gradient(), {batch, places, channels}), {1, 0, 2});
  const Output sums = ops::UnsortedSegmentSum(rows, ops::Reshape(from, {places}), pixels + 1);
  const Output image = ops::Transpose(ops::Slice(sums, {1, 0, 0}, {pixels, batch, channels}), {1, 0, 2});
  c.Set(0, ops::Reshape(image, dims));
  return absl::OkStatus();
}

// TensorStridedSliceUpdate(x, begin, end, strides, value).
absl::Status SliceUpdateGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectKnownShapes(c));
  const Output g = c.gradient();
  if (c.wants(0)) {
    c.Set(0, SameAttrs(c, c.op(), {g, c.input(1), c.input(2), c.input(3), ops::Full(c.builder(), c.input(4).type(), 0)}));
  }
  if (c.wants(4)) c.Set(4, SameAttrs(c, "StridedSlice", {g, c.input(1), c.input(2), c.input(3)}));
  return absl::OkStatus();
}

// Elements equal to the n-th one share its gradient.
absl::Status NthElementGradient(Context& c) {
  MR_RETURN_IF_ERROR(ExpectRanks(c));
  if (!c.wants(0)) return absl::OkStatus();
  const Output& x = c.input(0);
  const Output chosen = ops::Cast(ops::Binary("Equal", ops::ExpandDims(c.output(0), -1), x), x.dtype());
  c.Set(0, chosen / ops::Sum(chosen, {-1}, true) * ops::ExpandDims(c.gradient(), -1));
  return absl::OkStatus();
}

}  // namespace

void AddLayoutGradients(GradientTable& table) {
  table.Add({"MatrixDiagV2", "MatrixDiagV3"}, MatrixDiagGradient);
  table.Add({"MatrixDiagPartV2", "MatrixDiagPartV3"}, MatrixDiagPartGradient);
  table.Add({"MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3"}, MatrixSetDiagGradient);
  table.Add("BatchMatrixBandPart", BandPartGradient);
  table.Add({"SpaceToBatch", "BatchToSpace"}, BlocksGradient);
  table.Add("ParallelConcat", ParallelConcatGradient);
  table.Add({"ExtractImagePatches", "ExtractVolumePatches"}, PatchesGradient);
  table.Add("TensorStridedSliceUpdate", SliceUpdateGradient);
  table.Add("NthElement", NthElementGradient);
}

}  // namespace millrace
