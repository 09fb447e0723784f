// Sparse tensors as variants: how map_fn and its like hand their rows to the turns of a loop, and put together what turns make.
// A sparse tensor is a list of its indices, values and shape, a batch of them a list of such lists.
//
//   indices [0 1] [0 3] [2 0], values a b c ──► SerializeManySparse ──► list [1 3 | a b], [ | ], [0 | c] ──► DeserializeSparse ──► as before
#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/unroll/lists.h"

namespace millrace {
namespace {

constexpr int64_t kParts = 3;

absl::Status OfStrings(const NodeCall& call) {
  return absl::UnimplementedError(absl::StrCat("node '", call.node.name, "' (", call.node.op, "): sparse tensors as strings are not supported"));
}

ListValue VariantList() {
  ListValue list;
  list.dtype = DataType::kVariant;
  list.element_shape = Shape();
  return list;
}

Value SparseOf(const Value& indices, const Value& values, const Value& shape) {
  ListValue list = VariantList();
  for (const Value& part : {indices, values, shape}) list.items.PushBack(part);
  return ListOf(std::move(list));
}

absl::Status ExpectParts(const NodeCall& call) {
  if (call.inputs.size() != kParts) return CallError(call, absl::StrCat("has ", call.inputs.size(), " inputs, expected 3"));
  return call.node.attrs.GetOr<DataType>("out_type", DataType::kString) == DataType::kVariant ? absl::OkStatus() : OfStrings(call);
}

absl::StatusOr<std::vector<Value>> RowsToVariants(StraightGraph& out, const NodeCall& call) {
  MR_RETURN_IF_ERROR(ExpectParts(call));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownNumbers(out, call, 2, "the shape"));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, KnownNumbers(out, call, 0, "the indices"));
  MR_ASSIGN_OR_RETURN(const OutputRef indices, TensorOf(out, call, call.inputs[0]));
  MR_ASSIGN_OR_RETURN(const OutputRef values, TensorOf(out, call, call.inputs[1]));
  const auto rank = static_cast<int64_t>(dims.size()), count = rank == 0 ? 0 : static_cast<int64_t>(numbers.size()) / rank;
  constexpr int64_t kMostRows = 1 << 20;
  if (rank < 2 || dims[0] < 0 || dims[0] > kMostRows) return CallError(call, absl::StrCat("has ", rank, " dimensions, expected rows of one or more"));
  MR_ASSIGN_OR_RETURN(const OutputRef first, out.Constant(Tensor::Vector<int64_t>({0, 1})));
  MR_ASSIGN_OR_RETURN(const OutputRef shape, out.Constant(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims).subspan(1))));
  ListValue list = VariantList();
  int64_t at = 0;
  for (int64_t r = 0; r < dims[0]; ++r) {
    const int64_t begin = at;
    while (at < count && numbers[at * rank] == r) ++at;
    StraightGraph::Origin origin = call.origin;
    origin.name = absl::StrCat(call.origin.name, "/row_", r);
    MR_ASSIGN_OR_RETURN(const OutputRef row, out.Rows(origin, indices, begin, at));
    MR_ASSIGN_OR_RETURN(const OutputRef of_values, out.Rows(origin, values, begin, at));
    MR_ASSIGN_OR_RETURN(const OutputRef size, out.Constant(Tensor::Vector<int64_t>({at - begin, rank - 1})));
    MR_ASSIGN_OR_RETURN(const OutputRef columns, out.Op(origin, "Slice", {row, first, size}, {{"T", DataType::kInt64}, {"Index", DataType::kInt64}}));
    list.items.PushBack(SparseOf(Value::Of(columns), Value::Of(of_values), Value::Of(shape)));
  }
  if (at != count) return CallError(call, "has indices that are not in the order of rows, or of rows that are not there");
  return std::vector<Value>{ListOf(std::move(list))};
}

bool IsSparse(const Value& value) {
  if (value.kind != Value::Kind::kList || value.list->ragged) return false;
  return value.list->items.size() == kParts && value.list->items.at(0).kind != Value::Kind::kList;
}

// Indices of row `r` with that number before them.
absl::StatusOr<OutputRef> WithRow(StraightGraph& out, const NodeCall& call, OutputRef indices, int64_t r) {
  Tensor paddings(DataType::kInt32, Shape({2, 2}));
  for (int i = 0; i < 4; ++i) paddings.mutable_as<int32_t>()[i] = i == 2 ? 1 : 0;
  MR_ASSIGN_OR_RETURN(const OutputRef before, out.Constant(paddings));
  MR_ASSIGN_OR_RETURN(const OutputRef row, out.Constant(Tensor::Scalar<int64_t>(r)));
  return out.Op(call.origin, "PadV2", {indices, before, row}, {{"T", DataType::kInt64}, {"Tpaddings", DataType::kInt32}});
}

absl::StatusOr<OutputRef> Join(StraightGraph& out, const NodeCall& call, std::vector<OutputRef> parts, DataType dtype) {
  if (parts.size() == 1) return parts[0];
  const auto count = static_cast<int64_t>(parts.size());
  MR_ASSIGN_OR_RETURN(const OutputRef axis, out.Constant(Tensor::Scalar<int32_t>(0)));
  parts.push_back(axis);
  return out.Op(call.origin, "ConcatV2", std::move(parts), {{"T", dtype}, {"N", count}, {"Tidx", DataType::kInt32}});
}

// A batch of sparse tensors: as large in every dimension as the largest of them.
absl::StatusOr<std::vector<Value>> Batch(StraightGraph& out, const NodeCall& call, const ListValue& rows, DataType dtype) {
  std::vector<OutputRef> parts[kParts];
  for (int64_t r = 0; r < rows.items.size(); ++r) {
    if (!IsSparse(rows.items.at(r))) return CallError(call, absl::StrCat("row ", r, " is no sparse tensor"));
    for (int64_t p = 0; p < kParts; ++p) {
      MR_ASSIGN_OR_RETURN(parts[p].emplace_back(), TensorOf(out, call, rows.items.at(r).list->items.at(p)));
    }
    MR_ASSIGN_OR_RETURN(parts[0].back(), WithRow(out, call, parts[0].back(), r));
  }
  if (parts[0].empty()) return CallError(call, "takes a batch of no sparse tensors");
  const auto count = static_cast<int64_t>(parts[2].size());
  MR_ASSIGN_OR_RETURN(const OutputRef shapes, out.Op(call.origin, "Pack", parts[2], {{"T", DataType::kInt64}, {"N", count}, {"axis", int64_t{0}}}));
  MR_ASSIGN_OR_RETURN(const OutputRef axis, out.Constant(Tensor::Vector<int32_t>({0})));
  MR_ASSIGN_OR_RETURN(const OutputRef largest, out.Op(call.origin, "Max", {shapes, axis}, {{"T", DataType::kInt64}, {"Tidx", DataType::kInt32}}));
  MR_ASSIGN_OR_RETURN(const OutputRef size, out.Constant(Tensor::Vector<int64_t>({count})));
  MR_ASSIGN_OR_RETURN(const OutputRef indices, Join(out, call, parts[0], DataType::kInt64));
  MR_ASSIGN_OR_RETURN(const OutputRef values, Join(out, call, parts[1], dtype));
  MR_ASSIGN_OR_RETURN(const OutputRef shape, Join(out, call, {size, largest}, DataType::kInt64));
  return std::vector<Value>{Value::Of(indices), Value::Of(values), Value::Of(shape)};
}

absl::StatusOr<std::vector<Value>> FromVariant(StraightGraph& out, const NodeCall& call) {
  const Value& value = call.inputs[0];
  if (value.kind != Value::Kind::kList) return OfStrings(call);
  if (!IsSparse(value)) return Batch(out, call, *value.list, call.node.attrs.GetOr<DataType>("dtype", DataType::kFloat));
  std::vector<Value> parts;
  for (int64_t p = 0; p < kParts; ++p) parts.push_back(value.list->items.at(p));
  return parts;
}

}  // namespace

bool IsSparseBatch(const ListValue& list) {
  return list.dtype == DataType::kVariant && list.items.size() > 0 && IsSparse(list.items.at(0));
}

absl::StatusOr<std::vector<Value>> RunSparseVariantOp(StraightGraph& out, const NodeCall& call) {
  if (call.inputs.empty()) return CallError(call, "has no inputs");
  if (call.node.op == "SerializeManySparse") return RowsToVariants(out, call);
  if (call.node.op == "DeserializeSparse") return FromVariant(out, call);
  MR_RETURN_IF_ERROR(ExpectParts(call));
  return std::vector<Value>{SparseOf(call.inputs[0], call.inputs[1], call.inputs[2])};
}

}  // namespace millrace
