#include <string>

#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/graph_ops.h"

namespace millrace::testing {
namespace {

using Inputs = const std::vector<Output>&;
using Cases = std::vector<GradientCase>;
constexpr DataType kInt32 = DataType::kInt32;

Output Raw(GraphBuilder& b, const char* op, std::vector<Output> inputs, AttrMap attrs, int output = 0) {
  return b.Op(op, inputs, std::move(attrs), op).output(output);
}

// Int32 values of any shape.
Output Indices(GraphBuilder& b, Shape shape, std::initializer_list<int32_t> values) {
  Tensor tensor(kInt32, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.mutable_as<int32_t>().begin());
  return b.Const(std::move(tensor));
}

void AddShapeCases(Cases& cases) {
  cases.push_back({"Reshape", {{{2, 6}}}, [](GraphBuilder&, Inputs x) { return ops::Reshape(x[0], {3, -1}); }});
  cases.push_back({"ExpandDims", {{{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::ExpandDims(x[0], 1); }});
  cases.push_back({"Squeeze", {{{2, 1, 3}}}, [](GraphBuilder&, Inputs x) { return ops::Squeeze(x[0], {1}); }});
  cases.push_back({"Transpose", {{{2, 3, 4}}}, [](GraphBuilder&, Inputs x) { return ops::Transpose(x[0], {2, 0, 1}); }});
  cases.push_back({"BroadcastTo", {{{3, 1}}}, [](GraphBuilder&, Inputs x) { return ops::BroadcastTo(x[0], {2, 3, 4}); }});
  cases.push_back({"Tile", {{{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::Tile(x[0], {2, 3}); }});
  cases.push_back({"Fill", {{{}}}, [](GraphBuilder& b, Inputs x) { return ops::Fill(b.Ints({2, 3}), x[0]); }});
  cases.push_back({"ReverseV2", {{{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::Reverse(x[0], {1}); }});
  cases.push_back({"Roll", {{{2, 4}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "Roll", {x[0], b.Int(1), b.Int(1)},
                                {{"T", x[0].dtype()}, {"Tshift", kInt32}, {"Taxis", kInt32}});
                   }});
  cases.push_back({"ReverseSequence", {{{2, 4}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "ReverseSequence", {x[0], Indices(b, {2}, {3, 4})},
                                {{"T", x[0].dtype()}, {"Tlen", kInt32}, {"seq_dim", 1}, {"batch_dim", 0}});
                   }});
  for (const char* op : {"SpaceToDepth", "DepthToSpace"}) {
    cases.push_back({op, {{{1, 4, 4, 4}}}, [op](GraphBuilder& b, Inputs x) {
                       return Raw(b, op, {x[0]}, {{"T", x[0].dtype()}, {"block_size", 2}, {"data_format", "NHWC"}});
                     }});
  }
  cases.push_back({"SpaceToBatchND", {{{1, 3, 4, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "SpaceToBatchND", {x[0], b.Ints({2, 2}), Indices(b, {2, 2}, {0, 1, 0, 0})},
                                {{"T", x[0].dtype()}, {"Tblock_shape", kInt32}, {"Tpaddings", kInt32}});
                   }});
  cases.push_back({"BatchToSpaceND", {{{4, 2, 2, 1}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "BatchToSpaceND", {x[0], b.Ints({2, 2}), Indices(b, {2, 2}, {0, 1, 0, 0})},
                                {{"T", x[0].dtype()}, {"Tblock_shape", kInt32}, {"Tcrops", kInt32}});
                   }});
  for (const char* op : {"Diag", "MatrixDiag"}) {
    cases.push_back({op, {{{3}}}, [op](GraphBuilder&, Inputs x) { return ops::Unary(op, x[0]); }});
  }
  for (const char* op : {"DiagPart", "MatrixDiagPart"}) {
    cases.push_back({op, {{{3, 3}}}, [op](GraphBuilder&, Inputs x) { return ops::Unary(op, x[0]); }});
  }
  cases.push_back({"MatrixDiagPart_wide", {{{2, 2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::Unary("MatrixDiagPart", x[0]); }});
}

void AddPartCases(Cases& cases) {
  cases.push_back({"ConcatV2", {{{2, 3}}, {{2, 1}}, {{2, 2}}}, [](GraphBuilder&, Inputs x) { return ops::Concat(x, -1); }});
  cases.push_back({"Concat", {{{2, 3}}, {{2, 1}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "Concat", {b.Int(1), x[0], x[1]}, {{"T", x[0].dtype()}, {"N", 2}});
                   }});
  cases.push_back({"Split", {{{2, 6}}}, [](GraphBuilder&, Inputs x) {
                     const std::vector<Output> parts = ops::Split(x[0], 3, 1);
                     return parts[0] * parts[2];  // nothing flows into part 1
                   }});
  cases.push_back({"SplitV", {{{2, 5}}}, [](GraphBuilder&, Inputs x) {
                     const std::vector<Output> parts = ops::SplitV(x[0], {2, 1, 2}, 1);
                     return parts[0] * parts[2];
                   }});
  cases.push_back({"Pack", {{{2, 3}}, {{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::Pack(x, 1); }});
  cases.push_back({"Unpack", {{{2, 3}}}, [](GraphBuilder&, Inputs x) {
                     const std::vector<Output> parts = ops::Unpack(x[0], 1);
                     return parts[0] * parts[2];
                   }});
  cases.push_back({"Slice", {{{3, 4}}}, [](GraphBuilder&, Inputs x) { return ops::Slice(x[0], {1, 0}, {2, -1}); }});
  cases.push_back({"StridedSlice_index", {{{3, 4}}}, [](GraphBuilder&, Inputs x) { return ops::Index(x[0], -1, 1); }});
  cases.push_back({"StridedSlice_stride", {{{5, 4}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "StridedSlice", {x[0], b.Ints({4, 1}), b.Ints({0, 3}), b.Ints({-2, 1})},
                                {{"T", x[0].dtype()}, {"Index", kInt32}, {"begin_mask", 0}, {"end_mask", 1},
                                 {"ellipsis_mask", 0}, {"new_axis_mask", 0}, {"shrink_axis_mask", 0}});
                   }});
  cases.push_back({"Pad", {{{2, 3}}}, [](GraphBuilder&, Inputs x) { return ops::Pad(x[0], {{1, 0}, {0, 2}}); }});
  cases.push_back({"PadV2", {{{2, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "PadV2", {x[0], Indices(b, {2, 2}, {1, 0, 0, 2}), b.Scalar(x[0].dtype(), 7)},
                                {{"T", x[0].dtype()}, {"Tpaddings", kInt32}});
                   }});
  for (const char* mode : {"REFLECT", "SYMMETRIC"}) {
    cases.push_back({absl::StrCat("MirrorPad_", mode), {{{3, 4}}}, [mode](GraphBuilder& b, Inputs x) {
                       return Raw(b, "MirrorPad", {x[0], Indices(b, {2, 2}, {1, 2, 0, 2})},
                                  {{"T", x[0].dtype()}, {"Tpaddings", kInt32}, {"mode", mode}});
                     }});
  }
}

void AddGatherCases(Cases& cases) {
  cases.push_back({"GatherV2", {{{4, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return ops::Gather(x[0], Indices(b, {2, 2}, {3, 0, 3, 1}));
                   }});
  cases.push_back({"GatherV2_axis", {{{2, 4, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return ops::Gather(x[0], Indices(b, {3}, {3, 0, 3}), 1);
                   }});
  cases.push_back({"GatherV2_batch", {{{2, 2, 3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "GatherV2", {x[0], Indices(b, {2, 2}, {2, 0, 1, 1}), b.Int(2)},
                                {{"Tparams", x[0].dtype()}, {"Tindices", kInt32}, {"Taxis", kInt32}, {"batch_dims", 1}});
                   }});
  cases.push_back({"GatherNd", {{{3, 4, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "GatherNd", {x[0], Indices(b, {3, 2}, {2, 3, 0, 1, 2, 3})},
                                {{"Tparams", x[0].dtype()}, {"Tindices", kInt32}});
                   }});
  cases.push_back({"GatherNd_int64", {{{3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     const Output rows = ops::Cast(Indices(b, {2, 1}, {2, 0}), DataType::kInt64);
                     return Raw(b, "GatherNd", {x[0], rows}, {{"Tparams", x[0].dtype()}, {"Tindices", rows.dtype()}});
                   }});
  cases.push_back({"ScatterNd", {{{3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "ScatterNd", {Indices(b, {3, 1}, {3, 0, 3}), x[0], b.Ints({4, 2})},
                                {{"T", x[0].dtype()}, {"Tindices", kInt32}});
                   }});
  // One of the rows names no slice, and is left out.
  cases.push_back({"GatherNd_ignore", {{{3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "GatherNd", {x[0], Indices(b, {2, 1}, {2, 7})},
                                {{"Tparams", x[0].dtype()}, {"Tindices", kInt32}, {"bad_indices_policy", "IGNORE"}});
                   }});
  cases.push_back({"ScatterNd_ignore", {{{3, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "ScatterNd", {Indices(b, {3, 1}, {3, -1, 3}), x[0], b.Ints({4, 2})},
                                {{"T", x[0].dtype()}, {"Tindices", kInt32}, {"bad_indices_policy", "IGNORE"}});
                   }});
  cases.push_back({"TensorScatterAdd_ignore", {{{4, 2}}, {{2, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "TensorScatterAdd", {x[0], Indices(b, {2, 1}, {9, 0}), x[1]},
                                {{"T", x[0].dtype()}, {"Tindices", kInt32}, {"bad_indices_policy", "IGNORE"}});
                   }});
  for (const char* op : {"TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub"}) {
    cases.push_back({op, {{{4, 2}}, {{2, 2}}}, [op](GraphBuilder& b, Inputs x) {
                       return Raw(b, op, {x[0], Indices(b, {2, 1}, {3, 0}), x[1]},
                                  {{"T", x[0].dtype()}, {"Tindices", kInt32}});
                     }});
  }
  cases.push_back({"UnsortedSegmentSum", {{{5, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return ops::UnsortedSegmentSum(x[0], Indices(b, {5}, {2, -1, 0, 2, 0}), 4);
                   }});
  cases.push_back({"SegmentSum", {{{4, 2}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "SegmentSum", {x[0], Indices(b, {4}, {0, 0, 1, 2})},
                                {{"T", x[0].dtype()}, {"Tindices", kInt32}});
                   }});
  cases.push_back({"TopKV2", {{{2, 2, 5}}}, [](GraphBuilder&, Inputs x) { return ops::TopK(x[0], 3).values; }});
  cases.push_back({"DynamicStitch", {{{2, 3}}, {{1, 3}}}, [](GraphBuilder& b, Inputs x) {
                     return Raw(b, "DynamicStitch", {Indices(b, {2}, {2, 0}), Indices(b, {1}, {1}), x[0], x[1]},
                                {{"T", x[0].dtype()}, {"N", 2}});
                   }});
}

}  // namespace

void AddArrayCases(std::vector<GradientCase>& cases) {
  AddShapeCases(cases);
  AddPartCases(cases);
  AddGatherCases(cases);
}

}  // namespace millrace::testing
