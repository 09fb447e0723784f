#include "passes/rewrite/keep_tables.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/mutable_table.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/kept_state.h"

namespace millrace {
namespace {

constexpr int64_t kFirstBuckets = 256;       // of tables that grow as they are filled
constexpr int64_t kDefaultBuckets = 131072;   // of dense ones: TensorFlow's
constexpr int64_t kMostBuckets = int64_t{1} << 32;

absl::Status ErrorAt(const Node& table, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("node '", table.name, "' (", table.op, "): ", what));
}

// A dense table is told the keys of empty and of removed buckets as constants.
absl::Status TakeMarks(const Graph& graph, const Node& table, KeptState& kept, TableLayout& layout) {
  const char* const names[] = {"empty_key", "deleted_key"};
  for (size_t i = 0; i < table.inputs.size() && i < 2; ++i) {
    const Node& source = graph.node(SourceOfHandle(graph, table.inputs[i]).node);
    const Tensor key = source.op == "Const" ? source.attrs.GetOr<Tensor>("value", Tensor()) : Tensor();
    if (key.empty()) {
      return absl::UnimplementedError(absl::StrCat("node '", table.name, "' (", table.op, "): ", names[i], " comes from node '", source.name, "' (",
                                                   source.op, "), expected a constant"));
    }
    if (key.dtype() != layout.key_dtype) return ErrorAt(table, absl::StrCat(names[i], " is ", key.type().ToString()));
    if (i == 1 && key.shape() != layout.key_shape) {
      return ErrorAt(table, absl::StrCat("Empty and deleted keys must have same shape, got shapes: ", layout.key_shape.ToString(), " and ",
                                         key.shape().ToString()));
    }
    layout.key_shape = key.shape();
    kept.attrs.Set(names[i], key);
  }
  if (kept.attrs.Has("empty_key")) return absl::OkStatus();
  return ErrorAt(table, "has no key for empty buckets");
}

absl::StatusOr<KeptState> Describe(const Graph& graph, const Node& table) {
  KeptState kept;
  absl::StatusOr<TableLayout> layout = TableLayout::Of(table.attrs);
  if (!layout.ok()) return ErrorAt(table, std::string(layout.status().message()));
  int64_t buckets = kFirstBuckets;
  if (IsDenseTable(table)) {
    layout->tensorflow_places = true;
    buckets = table.attrs.GetOr<int64_t>("initial_num_buckets", kDefaultBuckets);
    if (buckets < layout->least_buckets() || (buckets & (buckets - 1)) != 0 || buckets > kMostBuckets) {
      return ErrorAt(table, absl::StrCat("initial_num_buckets must be at least ", layout->least_buckets(), " and a power of 2, got: ", buckets,
                                         ", expected at most ", kMostBuckets));
    }
    MR_RETURN_IF_ERROR(TakeMarks(graph, table, kept, *layout));
  }
  layout->WriteTo(kept.attrs);
  kept.bytes = layout->BucketsFor(0, buckets) * layout->bucket_bytes();
  return kept;
}

const char* NewOp(const Node& user) {
  if (IsTableFind(user)) return "_TableFind";
  if (IsTableSize(user)) return "_TableSize";
  if (IsTableRemove(user)) return "_TableRemove";
  if (IsTableExport(user)) return "_TableExport";
  return "_TableInsert";
}

void RewriteUser(const KeptState& kept, Node& user) {
  const bool replaces = user.op == "LookupTableImport" || user.op == "LookupTableImportV2";
  user.op = NewOp(user);
  user.attrs = kept.attrs;
  if (replaces) user.attrs.Set("replaces", true);
}

}  // namespace

bool CanKeepTable(const Node& table) {
  const DataType key = table.attrs.GetOr<DataType>("key_dtype", DataType::kInvalid);
  const DataType value = table.attrs.GetOr<DataType>("value_dtype", DataType::kInvalid);
  return (key == DataType::kInt32 || key == DataType::kInt64) && DataTypeSize(value) > 0;
}

absl::Status KeepTables(Graph& graph, const std::set<std::string>& names) {
  std::vector<std::pair<NodeId, KeptState>> tables, users;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const NodeId id{i};
    if (!graph.alive(id)) continue;
    const Node& node = graph.node(id);
    const bool uses = UsesTable(node) && !node.inputs.empty();
    const NodeId source = uses ? SourceOfHandle(graph, node.inputs[0]).node : id;
    const Node& table = graph.node(source);
    if (!IsChangingTable(table) || names.count(NameOfResource(table)) == 0) continue;
    MR_ASSIGN_OR_RETURN(KeptState kept, Describe(graph, table));
    (uses ? users : tables).emplace_back(id, std::move(kept));
  }
  for (const auto& [id, kept] : users) RewriteUser(kept, graph.mutable_node(id));
  for (const auto& [id, kept] : tables) BecomeKeptState(kept, graph.mutable_node(id));
  return absl::OkStatus();
}

}  // namespace millrace
