// Ragged tensors as variants: how map_fn and its like hand rows of different lengths to the turns of a loop. A ragged tensor is a list
// of its rows, which are lists themselves where they are ragged, else tensors; a batch of ragged tensors is a list of them.
//
//   splits 0 2 5, values a b c d e ──► RaggedTensorToVariant ──► list [a b | c d e] ──► RaggedTensorFromVariant ──► 0 2 5, a … e
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/unroll/alternatives.h"
#include "passes/unroll/lists.h"

namespace millrace {
namespace {

// Where rows begin, and where the last one ends.
absl::StatusOr<std::vector<int64_t>> SplitsAt(StraightGraph& out, const NodeCall& call, size_t input) {
  MR_ASSIGN_OR_RETURN(std::vector<int64_t> splits, KnownNumbers(out, call, input, "the row splits"));
  if (splits.empty() || splits[0] != 0 || !std::is_sorted(splits.begin(), splits.end())) {
    return CallError(call, "has row splits that do not grow from 0");
  }
  return splits;
}

struct Ragged {
  std::vector<std::vector<int64_t>> splits;  // from the outermost rows to the innermost
  OutputRef values;
};

// Rows [begin, end) of those whose splits are at `level`; behind the last ones those of the values.
absl::StatusOr<Value> RowsOf(StraightGraph& out, const StraightGraph::Origin& origin, const Ragged& ragged, size_t level, int64_t begin, int64_t end) {
  if (level == ragged.splits.size()) {
    MR_ASSIGN_OR_RETURN(const OutputRef rows, out.Rows(origin, ragged.values, begin, end));
    return Value::Of(rows);
  }
  ListValue list;
  list.dtype = DataType::kVariant;
  list.element_shape = Shape();
  list.ragged = true;
  const std::vector<int64_t>& splits = ragged.splits[level];
  for (int64_t i = begin; i < end; ++i) {
    StraightGraph::Origin of_row = origin;
    of_row.name = absl::StrCat(origin.name, "/row_", i - begin);
    MR_ASSIGN_OR_RETURN(Value row, RowsOf(out, of_row, ragged, level + 1, splits[i], splits[i + 1]));
    list.items.PushBack(std::move(row));
  }
  return ListOf(std::move(list));
}

absl::StatusOr<std::vector<Value>> ToVariant(StraightGraph& out, const NodeCall& call) {
  const int64_t rank = call.node.attrs.GetOr<int64_t>("RAGGED_RANK", static_cast<int64_t>(call.inputs.size()) - 1);
  const bool batched = call.node.attrs.GetOr<bool>("batched_input", false);
  if (rank < (batched ? 1 : 0) || static_cast<int64_t>(call.inputs.size()) != rank + 1) {
    return CallError(call, absl::StrCat("takes ", call.inputs.size(), " inputs for ", batched ? "a batch of " : "", "ragged rank ", rank));
  }
  if (rank == 0) return std::vector<Value>{call.inputs[0]};
  Ragged ragged;
  for (int64_t level = 0; level < rank; ++level) {
    MR_ASSIGN_OR_RETURN(std::vector<int64_t> splits, SplitsAt(out, call, level));
    const auto rows = static_cast<int64_t>(splits.size()) - 1;
    if (level > 0 && ragged.splits.back().back() != rows) {
      return CallError(call, absl::StrCat("has ", ragged.splits.back().back(), " rows by one row splits, and ", rows, " by the next"));
    }
    ragged.splits.push_back(std::move(splits));
  }
  MR_ASSIGN_OR_RETURN(ragged.values, TensorOf(out, call, call.inputs[rank]));
  MR_ASSIGN_OR_RETURN(const Value rows, RowsOf(out, call.origin, ragged, 0, 0, static_cast<int64_t>(ragged.splits[0].size()) - 1));
  ListValue list = *rows.list;
  list.ragged_batch = batched;
  return std::vector<Value>{ListOf(std::move(list))};
}

// What RowsOf took apart: all splits but those of the innermost rows, and these rows.
struct Flat {
  std::vector<std::vector<int64_t>> splits;
  std::vector<Value> rows;
};

absl::Status AddRows(StraightGraph& out, const NodeCall& call, const ListValue& list, size_t level, Flat& flat) {
  MR_ASSIGN_OR_RETURN(const std::vector<Value> items, AllItems(out, call, list.items));
  for (const Value& item : items) {
    MR_ASSIGN_OR_RETURN(Value row, AsOne(out, call, item));
    const bool innermost = level == flat.splits.size();
    const bool expected = innermost ? row.kind == Value::Kind::kTensor || row.kind == Value::Kind::kRow : row.kind == Value::Kind::kList;
    if (!expected) return CallError(call, absl::StrCat("takes a row that is no ragged tensor of rank ", flat.splits.size() - level));
    if (innermost) {
      flat.rows.push_back(std::move(row));
      continue;
    }
    MR_RETURN_IF_ERROR(AddRows(out, call, *row.list, level + 1, flat));
    const size_t end = level + 1 == flat.splits.size() ? flat.rows.size() : flat.splits[level + 1].size() - 1;
    flat.splits[level].push_back(static_cast<int64_t>(end));
  }
  return absl::OkStatus();
}

// Of values of no rows: what the node says of them, or as in TensorFlow, to which that says nothing.
Shape ShapeOfNone(const NodeCall& call, size_t output) {
  const auto shapes = call.node.attrs.GetOr<std::vector<Shape>>("_output_shapes", {});
  if (output >= shapes.size() || shapes[output].unknown_rank() || shapes[output].rank() < 1) return Shape({0});
  Shape none = shapes[output];
  none.set_dim(0, 0);
  return none.fully_known() ? none : Shape({0});
}

absl::StatusOr<std::vector<Value>> FromVariant(StraightGraph& out, const NodeCall& call) {
  const int64_t rank = call.node.attrs.GetOr<int64_t>("output_ragged_rank", 0);
  const Value& encoded = call.inputs[0];
  const bool batched = encoded.kind == Value::Kind::kList;
  if (rank == 0 && !batched) return std::vector<Value>{encoded};
  constexpr int64_t kMostRank = 32;
  if (rank < 1 || rank > kMostRank || !batched) {
    return CallError(call, absl::StrCat("makes ragged rank ", rank, " of ", batched ? "rows" : "a tensor"));
  }
  Flat flat;
  flat.splits.assign(rank - 1, {0});
  MR_RETURN_IF_ERROR(AddRows(out, call, *encoded.list, 0, flat));
  const DataType dtype = call.node.attrs.GetOr<DataType>("Tvalues", DataType::kInvalid);
  MR_ASSIGN_OR_RETURN(const auto joined, ConcatItems(out, call, flat.rows, dtype, ShapeOfNone(call, rank)));
  std::vector<int64_t>& innermost = flat.splits.emplace_back(1, 0);
  for (int64_t i = 0; i < joined.second.num_elements(); ++i) innermost.push_back(innermost.back() + joined.second.IntAt(i));
  const bool narrow = call.node.attrs.GetOr<DataType>("Tsplits", DataType::kInt64) == DataType::kInt32;
  std::vector<Value> values;
  for (const std::vector<int64_t>& splits : flat.splits) {
    const std::vector<int32_t> small(splits.begin(), splits.end());
    MR_ASSIGN_OR_RETURN(const OutputRef of_splits, out.Constant(narrow ? Tensor::Vector<int32_t>(absl::MakeConstSpan(small))
                                                                       : Tensor::Vector<int64_t>(absl::MakeConstSpan(splits))));
    values.push_back(Value::Of(of_splits));
  }
  values.push_back(Value::Of(joined.first));
  return values;
}

// The innermost rows of `item` one behind the other, however deep they lie.
absl::Status AddInnermost(StraightGraph& out, const NodeCall& call, const Value& item, std::vector<Value>& rows) {
  MR_ASSIGN_OR_RETURN(Value row, AsOne(out, call, item));
  if (row.kind != Value::Kind::kList) {
    rows.push_back(std::move(row));
    return absl::OkStatus();
  }
  MR_ASSIGN_OR_RETURN(const std::vector<Value> items, AllItems(out, call, row.list->items));
  for (const Value& inner : items) MR_RETURN_IF_ERROR(AddInnermost(out, call, inner, rows));
  return absl::OkStatus();
}

// Whether the rows are values, not ragged themselves. Those that nobody took do not tell.
absl::StatusOr<bool> AreOfValues(StraightGraph& out, const NodeCall& call, const std::vector<Value>& rows) {
  bool some = false;
  for (const Value& item : rows) {
    MR_ASSIGN_OR_RETURN(const Value row, AsOne(out, call, item));
    if (row.kind == Value::Kind::kList) return false;
    some = some || !row.missing();
  }
  return some;
}

// How many values the rows hold that are there.
absl::StatusOr<int64_t> NumValues(StraightGraph& out, const NodeCall& call, const std::vector<Value>& rows) {
  int64_t count = 0;
  for (const Value& row : rows) {
    if (row.missing()) continue;
    MR_ASSIGN_OR_RETURN(const OutputRef ref, TensorOf(out, call, row));
    const std::optional<TensorType> type = out.Type(ref);
    if (!type || type->shape.rank() < 1) return CallError(call, "takes rows whose shapes are not known");
    count += type->shape.dim(0);
  }
  return count;
}

// Zeros in the place of missing rows that lie side by side: together as many as all others leave of `shape`.
absl::Status FillGap(StraightGraph& out, const NodeCall& call, DataType dtype, Shape shape, std::vector<Value>& rows) {
  const auto missing = [](const Value& row) { return row.missing(); };
  const auto begin = std::find_if(rows.begin(), rows.end(), missing), end = std::find_if_not(begin, rows.end(), missing);
  if (std::any_of(end, rows.end(), missing)) {
    return CallError(call, "has rows without a gradient in several places among rows that are ragged themselves: how many values each has is not known");
  }
  MR_ASSIGN_OR_RETURN(const int64_t there, NumValues(out, call, rows));
  const int64_t left = shape.dim(0) - there;
  if (left < 0 || (left > 0 && begin == end)) return CallError(call, absl::StrCat("has ", there, " rows of values, expected ", shape.dim(0)));
  if (begin == end) return absl::OkStatus();
  shape.set_dim(0, left);
  MR_ASSIGN_OR_RETURN(*begin, MissingItem(out, call, dtype, shape));
  rows.erase(begin + 1, end);
  return absl::OkStatus();
}

// The gradient of the values: those of the rows one behind the other. Rows that nobody took have none. The row splits are the outermost
// ones: they tell how many values such a row has only where rows are not ragged themselves, or where it has no rows.
absl::StatusOr<std::vector<Value>> Gradient(StraightGraph& out, const NodeCall& call) {
  const Value& encoded = call.inputs[0];
  if (encoded.kind != Value::Kind::kList) return std::vector<Value>{encoded};
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> splits, SplitsAt(out, call, 1));
  MR_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, KnownNumbers(out, call, 2, "the shape of the values"));
  MR_ASSIGN_OR_RETURN(const std::vector<Value> items, AllItems(out, call, encoded.list->items));
  if (splits.size() != items.size() + 1 || dims.empty()) {
    return CallError(call, absl::StrCat(items.size(), " rows, ", splits.size(), " row splits"));
  }
  const DataType dtype = call.node.attrs.GetOr<DataType>("Tvalues", DataType::kInvalid);
  MR_ASSIGN_OR_RETURN(const bool of_values, AreOfValues(out, call, items));
  std::vector<Value> rows;
  for (size_t i = 0; i < items.size(); ++i) {
    Shape shape(dims);
    shape.set_dim(0, splits[i + 1] - splits[i]);
    Value item = items[i];
    if (item.missing() && (of_values || shape.dim(0) == 0)) {
      MR_ASSIGN_OR_RETURN(item, MissingItem(out, call, dtype, shape));
    }
    MR_RETURN_IF_ERROR(AddInnermost(out, call, item, rows));
  }
  MR_RETURN_IF_ERROR(FillGap(out, call, dtype, Shape(dims), rows));
  MR_ASSIGN_OR_RETURN(const auto joined, ConcatItems(out, call, rows, dtype, Shape(dims)));
  return std::vector<Value>{Value::Of(joined.first)};
}

}  // namespace

bool HoldsRaggedRows(const Items& items) { return items.size() > 0 && items.at(0).kind == Value::Kind::kList && items.at(0).list->ragged; }

absl::StatusOr<std::vector<Value>> RunRaggedVariantOp(StraightGraph& out, const NodeCall& call) {
  if (call.node.op == "RaggedTensorToVariant") return ToVariant(out, call);
  if (call.node.op == "RaggedTensorFromVariant") return FromVariant(out, call);
  return Gradient(out, call);
}

}  // namespace millrace
