// Ops that move and select: shapes, parts, gathers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "builder/emit.h"
#include "builder/tensors.h"
#include "millrace/graph_ops.h"

namespace millrace::ops {
namespace {

constexpr DataType kInt32 = DataType::kInt32;

// Whether x has that axis; fails if not. Any that x of a rank that is not known may have.
bool HasAxis(const char* op, const Output& x, int64_t axis, Name name) {
  const int rank = x.rank();
  if (x.shape().unknown_rank() || (axis >= -rank && axis < rank)) return true;
  Refuse(op, {x}, name, absl::StrCat("axis ", axis, " is out of range, expected [", -rank, ", ", rank, ")"));
  return false;
}

// The outputs of a node that splits `x`; after an error as many that are not valid(), unless `count` is absurd.
std::vector<Output> Parts(const Output& x, const Operation& split, int64_t count) {
  constexpr int64_t kMostParts = 1 << 20;  // the ops' rules refuse more
  std::vector<Output> parts = split.outputs();
  parts.resize(std::clamp<int64_t>(count, 0, kMostParts), Output(x.builder(), OutputRef{}, TensorType{}));
  return parts;
}

}  // namespace

Output Reshape(const Output& x, IntList shape, Name name) {
  return Emit("Reshape", {x, Ints("Reshape", x, shape, name)}, {{"T", x.dtype()}, {"Tshape", kInt32}}, name);
}

Output ExpandDims(const Output& x, int64_t axis, Name name) {
  return Emit("ExpandDims", {x, Int("ExpandDims", x, axis, name)}, {{"T", x.dtype()}, {"Tdim", kInt32}}, name);
}

Output Squeeze(const Output& x, IntList axes, Name name) {
  return Emit("Squeeze", {x}, {{"T", x.dtype()}, {"squeeze_dims", std::move(axes)}}, name);
}

Output Transpose(const Output& x, IntList permutation, Name name) {
  return Emit("Transpose", {x, Ints("Transpose", x, permutation, name, "an axis")}, {{"T", x.dtype()}, {"Tperm", kInt32}}, name);
}

Output BroadcastTo(const Output& x, IntList shape, Name name) {
  return Emit("BroadcastTo", {x, Ints("BroadcastTo", x, shape, name)}, {{"T", x.dtype()}, {"Tidx", kInt32}}, name);
}

Output Concat(absl::Span<const Output> values, int64_t axis, Name name) {
  if (values.empty()) return Output();
  // ConcatV2 takes two and more.
  if (values.size() == 1) {
    const Output& only = values[0];
    if (only.valid() && !HasAxis("ConcatV2", only, axis, name)) return Output(only.builder(), OutputRef{}, TensorType{});
    return name.empty() ? only : Identity(only, name);
  }
  std::vector<Output> inputs(values.begin(), values.end());
  inputs.push_back(Int("ConcatV2", values[0], axis, name));
  return Emit("ConcatV2", inputs,
              {{"T", values[0].dtype()}, {"N", static_cast<int64_t>(values.size())}, {"Tidx", kInt32}}, name);
}

std::vector<Output> Split(const Output& x, int64_t count, int64_t axis, Name name) {
  return Parts(x, Emit("Split", {Int("Split", x, axis, name), x}, {{"T", x.dtype()}, {"num_split", count}}, name), count);
}

std::vector<Output> SplitV(const Output& x, IntList sizes, int64_t axis, Name name) {
  const int64_t count = static_cast<int64_t>(sizes.size());
  return Parts(x,
               Emit("SplitV", {x, Ints("SplitV", x, sizes, name), Int("SplitV", x, axis, name)},
                    {{"T", x.dtype()}, {"Tlen", kInt32}, {"num_split", count}}, name),
               count);
}

Output Pack(absl::Span<const Output> values, int64_t axis, Name name) {
  if (values.empty()) return Output();
  return Emit("Pack", values,
              {{"T", values[0].dtype()}, {"N", static_cast<int64_t>(values.size())}, {"axis", axis}}, name);
}

std::vector<Output> Unpack(const Output& x, int64_t axis, Name name) {
  // Of an axis that is not there the op's rule says so.
  const bool there = axis >= -x.rank() && axis < x.rank();
  const int64_t count = there ? x.dim(static_cast<int>(axis)) : 0;
  return Parts(x, Emit("Unpack", {x}, {{"T", x.dtype()}, {"num", count}, {"axis", axis}}, name), count);
}

Output Slice(const Output& x, IntList begin, IntList size, Name name) {
  return Emit("Slice", {x, Ints("Slice", x, begin, name, "a begin"), Ints("Slice", x, size, name)}, {{"T", x.dtype()}, {"Index", kInt32}}, name);
}

Output Index(const Output& x, int64_t index, int64_t axis, Name name) {
  if (!x.valid()) return x;
  if (x.shape().unknown_rank()) return Refuse("StridedSlice", {x}, name, "needs a known rank");
  if (!HasAxis("StridedSlice", x, axis, name) || !FitInt32("StridedSlice", x, {index}, name, "an index")) {
    return Output(x.builder(), OutputRef{}, TensorType{});
  }
  if (axis < 0) axis += x.rank();
  IntList begin(axis + 1, 0), end(axis + 1, 0), strides(axis + 1, 1);
  begin[axis] = index;
  end[axis] = index + 1;
  const int64_t whole_axes = (int64_t{1} << axis) - 1;
  const int64_t shrunk_axis = int64_t{1} << axis;
  return Emit("StridedSlice", {x, Ints("StridedSlice", x, begin, name), Ints("StridedSlice", x, end, name, "an end"), Ints("StridedSlice", x, strides, name)},
              {{"T", x.dtype()},
               {"Index", kInt32},
               {"begin_mask", whole_axes},
               {"end_mask", index == -1 ? whole_axes | shrunk_axis : whole_axes},
               {"ellipsis_mask", 0},
               {"new_axis_mask", 0},
               {"shrink_axis_mask", shrunk_axis}},
              name);
}

Output Pad(const Output& x, absl::Span<const std::pair<int64_t, int64_t>> paddings, Name name) {
  if (!x.valid()) return x;
  Tensor tensor(kInt32, Shape({static_cast<int64_t>(paddings.size()), 2}));
  for (size_t i = 0; i < 2 * paddings.size(); ++i) {
    const int64_t padding = i % 2 == 0 ? paddings[i / 2].first : paddings[i / 2].second;
    if (!FitInt32("Pad", x, {padding}, name, "a padding")) return Output(x.builder(), OutputRef{}, TensorType{});
    tensor.mutable_as<int32_t>()[i] = static_cast<int32_t>(padding);
  }
  return Emit("Pad", {x, x.builder()->SharedConst(std::move(tensor))}, {{"T", x.dtype()}, {"Tpaddings", kInt32}},
              name);
}

Output Tile(const Output& x, IntList multiples, Name name) {
  return Emit("Tile", {x, Ints("Tile", x, multiples, name, "a multiple")}, {{"T", x.dtype()}, {"Tmultiples", kInt32}}, name);
}

Output Reverse(const Output& x, IntList axes, Name name) {
  return Emit("ReverseV2", {x, Ints("ReverseV2", x, axes, name, "an axis")}, {{"T", x.dtype()}, {"Tidx", kInt32}}, name);
}

Output Gather(const Output& params, const Output& indices, int64_t axis, Name name) {
  return Emit("GatherV2", {params, indices, Int("GatherV2", params, axis, name)},
              {{"Tparams", params.dtype()}, {"Tindices", indices.dtype()}, {"Taxis", kInt32}, {"batch_dims", 0}},
              name);
}

Output OneHot(const Output& indices, int64_t depth, DataType dtype, Name name) {
  const Output size = Int("OneHot", indices, depth, name, "a depth");
  const Output on = Constant("OneHot", indices, dtype, 1, name), off = Constant("OneHot", indices, dtype, 0, name);
  return Emit("OneHot", {indices, size, on, off}, {{"T", dtype}, {"TI", indices.dtype()}, {"axis", -1}}, name);
}

Output UnsortedSegmentSum(const Output& data, const Output& ids, int64_t segments, Name name) {
  return Emit("UnsortedSegmentSum", {data, ids, Int("UnsortedSegmentSum", data, segments, name, "a number of segments")},
              {{"T", data.dtype()}, {"Tindices", ids.dtype()}, {"Tnumsegments", kInt32}}, name);
}

TopKResult TopK(const Output& x, int64_t k, Name name) {
  const Operation op = Emit("TopKV2", {x, Int("TopKV2", x, k, name, "a k")}, {{"T", x.dtype()}, {"sorted", true}}, name);
  return {op.output(0), op.output(1)};
}

}  // namespace millrace::ops
