#include "cli/checkpoint_tables.h"

#include <bit>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/keep_tables.h"

namespace millrace::cli {
namespace {

constexpr int64_t kFirstBuckets = 256;  // of tables that TensorFlow exports without their buckets

Tensor ConstantAt(const Graph& graph, const Node& node, size_t input) {
  if (input >= node.inputs.size()) return Tensor();
  const Node& source = graph.node(SourceOfHandle(graph, node.inputs[input]).node);
  return source.op == "Const" ? source.attrs.GetOr<Tensor>("value", Tensor()) : Tensor();
}

// Nothing of a table that cannot be kept, which planning refuses.
std::optional<CheckpointTable> Describe(const Graph& graph, const Node& node) {
  if (!IsChangingTable(node) || !CanKeepTable(node)) return std::nullopt;
  absl::StatusOr<TableLayout> layout = TableLayout::Of(node.attrs);
  if (!layout.ok()) return std::nullopt;
  CheckpointTable table{.table = NameOfResource(node), .layout = *std::move(layout)};
  if (!IsDenseTable(node)) return table;
  table.layout.tensorflow_places = true;
  table.empty_key = ConstantAt(graph, node, 0);
  table.deleted_key = ConstantAt(graph, node, 1);
  if (table.empty_key.dtype() != table.layout.key_dtype) return std::nullopt;
  if (table.deleted_key.type() != table.empty_key.type()) table.deleted_key = table.empty_key;
  table.layout.key_shape = table.empty_key.shape();
  return table;
}

// `rows` keys or values. TensorFlow exports those of a dense table as matrices, whatever their shape.
TensorType RowsOf(const TableLayout& layout, DataType dtype, const Shape& shape, int64_t rows) {
  if (layout.tensorflow_places) return {dtype, Shape({rows, shape.num_elements()})};
  Shape of_all({rows});
  for (const int64_t dim : shape.dims()) of_all.AddDim(dim);
  return {dtype, of_all};
}

bool IsKey(const CheckpointTable& table, const uint8_t* key) {
  const size_t bytes = static_cast<size_t>(table.layout.key_bytes());
  for (const Tensor* mark : {&table.empty_key, &table.deleted_key}) {
    if (!mark->empty() && std::memcmp(key, mark->data(), bytes) == 0) return false;
  }
  return true;
}

Tensor BytesOf(const TableLayout& layout, int64_t buckets) { return Tensor(DataType::kUint8, Shape({buckets * layout.bucket_bytes()})); }

}  // namespace

std::map<std::string, CheckpointTable> CheckpointTables(const Graph& graph, const std::map<std::string, SavedTable>& names, bool names_by_default) {
  std::map<std::string, CheckpointTable> tables;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed) continue;
    std::optional<CheckpointTable> table = Describe(graph, node);
    if (!table.has_value()) continue;
    const auto saved = names.find(table->table);
    if (saved == names.end() && !names_by_default) continue;
    table->saved = saved != names.end() ? saved->second : SavedTable{node.name + "-keys", node.name + "-values"};
    tables.emplace(NameOfKeptState(node), *std::move(table));
  }
  return tables;
}

absl::StatusOr<Tensor> TableFrom(const CheckpointTable& table, const Tensor& keys, const Tensor& values) {
  const TableLayout& layout = table.layout;
  const int64_t rows = keys.shape().rank() > 0 ? keys.shape().dim(0) : 0;
  const TensorType of_keys = RowsOf(layout, layout.key_dtype, layout.key_shape, rows);
  const TensorType of_values = RowsOf(layout, layout.value_dtype, layout.value_shape, rows);
  if (keys.type() != of_keys || values.type() != of_values) {
    return absl::InvalidArgumentError(absl::StrCat("table '", table.table, "': keys are ", keys.type().ToString(), " and values ", values.type().ToString(),
                                                   ", expected ", of_keys.ToString(), " and ", of_values.ToString()));
  }
  const uint8_t* const key_bytes = static_cast<const uint8_t*>(keys.data());
  const uint8_t* const value_bytes = static_cast<const uint8_t*>(values.data());
  const bool has_buckets = layout.tensorflow_places && std::has_single_bit(static_cast<uint64_t>(rows));
  Tensor bytes = BytesOf(layout, layout.BucketsFor(rows, kFirstBuckets));
  if (has_buckets) {
    int64_t held = 0;
    for (int64_t i = 0; i < rows; ++i) held += IsKey(table, key_bytes + i * layout.key_bytes()) ? 1 : 0;
    bytes = BytesOf(layout, layout.BucketsFor(held, rows));
  }
  MutableTable made(layout, bytes.mutable_data(), bytes.size_bytes());
  for (int64_t i = 0; i < rows; ++i) {
    const uint8_t* const key = key_bytes + i * layout.key_bytes();
    if (IsKey(table, key)) made.Insert(key, value_bytes + i * layout.value_bytes());
  }
  return bytes;
}

absl::StatusOr<std::pair<Tensor, Tensor>> KeysAndValues(const CheckpointTable& table, Tensor bytes) {
  const TableLayout& layout = table.layout;
  if (bytes.dtype() != DataType::kUint8 || !layout.is_size(bytes.size_bytes())) {
    return absl::InvalidArgumentError(absl::StrCat("table '", table.table, "' is ", bytes.type().ToString(), ", expected the bytes of a table"));
  }
  const MutableTable held(layout, bytes.mutable_data(), bytes.size_bytes());
  const bool all = layout.tensorflow_places;
  const int64_t rows = all ? held.buckets() : held.size(), key_bytes = layout.key_bytes(), value_bytes = layout.value_bytes();
  const TensorType of_keys = RowsOf(layout, layout.key_dtype, layout.key_shape, rows);
  const TensorType of_values = RowsOf(layout, layout.value_dtype, layout.value_shape, rows);
  Tensor keys(of_keys.dtype, of_keys.shape), values(of_values.dtype, of_values.shape);
  uint8_t* to_key = static_cast<uint8_t*>(keys.mutable_data());
  uint8_t* to_value = static_cast<uint8_t*>(values.mutable_data());
  for (int64_t i = 0; i < held.buckets(); ++i) {
    if (!held.holds(i) && !all) continue;
    const Tensor& mark = held.removed(i) ? table.deleted_key : table.empty_key;
    std::memcpy(to_key, held.holds(i) ? held.key(i) : mark.data(), static_cast<size_t>(key_bytes));
    if (value_bytes > 0) std::memcpy(to_value, held.value(i), static_cast<size_t>(value_bytes));
    to_key += key_bytes;
    to_value += value_bytes;
  }
  return std::pair(std::move(keys), std::move(values));
}

Tensor EmptyTable(const CheckpointTable& table) { return BytesOf(table.layout, table.layout.BucketsFor(0, kFirstBuckets)); }

}  // namespace millrace::cli
