// Ragged tensors as variants: how map_fn and its like hand rows of different lengths to the turns of a loop. A row without
// rows of its own is its tensor, a batch of rows is a list of them, and rows that are ragged themselves are not supported.
//
//   splits 0 2 5, values a b c d e ──► RaggedTensorToVariant ──► list [a b | c d e] ──► RaggedTensorFromVariant ──► 0 2 5, a … e
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/unroll/lists.h"

namespace millrace {
namespace {

absl::Status RaggedRows(const NodeCall& call) {
  return absl::UnimplementedError(absl::StrCat("node '", call.node.name, "' (", call.node.op,
                                               "): rows that are ragged themselves are not supported as variants"));
}

// Where rows begin, and where the last one ends.
absl::StatusOr<std::vector<int64_t>> SplitsAt(StraightGraph& out, const NodeCall& call, size_t input) {
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> splits, KnownNumbers(out, call, input, "the row splits"));
  if (splits.empty() || splits[0] != 0 || !std::is_sorted(splits.begin(), splits.end())) {
    return CallError(call, "has row splits that do not grow from 0");
  }
  return splits;
}

absl::StatusOr<std::vector<Value>> ToVariant(StraightGraph& out, const NodeCall& call) {
  const int64_t rank = call.node.attrs.GetOr<int64_t>("RAGGED_RANK", static_cast<int64_t>(call.inputs.size()) - 1);
  const bool batched = call.node.attrs.GetOr<bool>("batched_input", false);
  if (rank == 0 && !batched) return std::vector<Value>{call.inputs[0]};
  if (rank != 1 || !batched || call.inputs.size() != 2) return RaggedRows(call);
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> splits, SplitsAt(out, call, 0));
  MR_ASSIGN_OR_RETURN(const OutputRef values, TensorOf(out, call, call.inputs[1]));
  ListValue list;
  list.dtype = DataType::kVariant;
  list.element_shape = Shape();
  for (size_t i = 0; i + 1 < splits.size(); ++i) {
    StraightGraph::Origin origin = call.origin;
    origin.name = absl::StrCat(origin.name, "/row_", i);
    MR_ASSIGN_OR_RETURN(const OutputRef row, out.Rows(origin, values, splits[i], splits[i + 1]));
    list.items.PushBack(Value::Of(row));
  }
  return std::vector<Value>{ListOf(std::move(list))};
}

absl::StatusOr<std::vector<Value>> FromVariant(StraightGraph& out, const NodeCall& call) {
  const int64_t rank = call.node.attrs.GetOr<int64_t>("output_ragged_rank", 0);
  const Value& encoded = call.inputs[0];
  const bool batched = encoded.kind == Value::Kind::kList;
  if (rank == 0 && !batched) return std::vector<Value>{encoded};
  if (rank != 1 || !batched) return RaggedRows(call);
  MR_ASSIGN_OR_RETURN(const std::vector<Value> rows, AllItems(out, call, encoded.list->items));
  for (const Value& row : rows) {
    if (row.kind != Value::Kind::kTensor && row.kind != Value::Kind::kRow) return RaggedRows(call);
  }
  const DataType dtype = call.node.attrs.GetOr<DataType>("Tvalues", DataType::kInvalid);
  MR_ASSIGN_OR_RETURN(const auto joined, ConcatItems(out, call, rows, dtype, Shape::UnknownRank()));
  std::vector<int64_t> splits = {0};
  for (int64_t i = 0; i < joined.second.num_elements(); ++i) splits.push_back(splits.back() + joined.second.IntAt(i));
  const bool narrow = call.node.attrs.GetOr<DataType>("Tsplits", DataType::kInt64) == DataType::kInt32;
  const std::vector<int32_t> small(splits.begin(), splits.end());
  MR_ASSIGN_OR_RETURN(const OutputRef of_splits, out.Constant(narrow ? Tensor::Vector<int32_t>(absl::MakeConstSpan(small))
                                                                     : Tensor::Vector<int64_t>(absl::MakeConstSpan(splits))));
  return std::vector<Value>{Value::Of(of_splits), Value::Of(joined.first)};
}

// The gradient of the values: those of the rows one behind the other. Rows that nobody took have none.
absl::StatusOr<std::vector<Value>> Gradient(StraightGraph& out, const NodeCall& call) {
  const Value& encoded = call.inputs[0];
  if (encoded.kind != Value::Kind::kList) return std::vector<Value>{encoded};
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> splits, SplitsAt(out, call, 1));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownNumbers(out, call, 2, "the shape of the values"));
  MR_ASSIGN_OR_RETURN(std::vector<Value> rows, AllItems(out, call, encoded.list->items));
  if (splits.size() != rows.size() + 1 || dims.empty()) {
    return CallError(call, absl::StrCat(rows.size(), " rows, ", splits.size(), " row splits"));
  }
  const DataType dtype = call.node.attrs.GetOr<DataType>("Tvalues", DataType::kInvalid);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].missing()) continue;
    Shape shape({splits[i + 1] - splits[i]});
    for (size_t d = 1; d < dims.size(); ++d) shape.AddDim(dims[d]);
    MR_ASSIGN_OR_RETURN(rows[i], MissingItem(out, call, dtype, shape));
  }
  MR_ASSIGN_OR_RETURN(const auto joined, ConcatItems(out, call, rows, dtype, Shape(dims)));
  return std::vector<Value>{Value::Of(joined.first)};
}

}  // namespace

bool IsRaggedVariantOp(const Node& node) {
  return node.op == "RaggedTensorToVariant" || node.op == "RaggedTensorFromVariant" || node.op == "RaggedTensorToVariantGradient";
}

absl::StatusOr<std::vector<Value>> RunRaggedVariantOp(StraightGraph& out, const NodeCall& call) {
  if (call.node.op == "RaggedTensorToVariant") return ToVariant(out, call);
  if (call.node.op == "RaggedTensorFromVariant") return FromVariant(out, call);
  return Gradient(out, call);
}

}  // namespace millrace
