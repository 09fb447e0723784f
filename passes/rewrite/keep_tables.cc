#include "passes/rewrite/keep_tables.h"

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/mutable_table.h"
#include "graph/sip_hash.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"
#include "passes/control_flow/kept_state.h"

namespace millrace {
namespace {

constexpr int64_t kFirstBuckets = 256;       // of tables that grow as they are filled
constexpr int64_t kDefaultBuckets = 131072;   // of dense ones: TensorFlow's
constexpr int64_t kMostBuckets = int64_t{1} << 32;

// Of the two hashes that stand for a word: as many buckets as StringToHashBucketStrong can have, by keys drawn once.
constexpr int64_t kWordBuckets = std::numeric_limits<int64_t>::max();
constexpr std::array<std::array<uint64_t, 2>, 2> kWordKeys = {{{0x243F6A8885A308D3, 0x13198A2E03707344}, {0x2B7E151628AED2A6, 0x3C4F1A7D5E608B92}}};

bool HoldsWords(const Node& table) { return table.attrs.GetOr<DataType>("key_dtype", DataType::kInvalid) == DataType::kString; }
DataType ValuesOf(const Node& table) { return table.attrs.GetOr<DataType>("value_dtype", DataType::kInvalid); }

// What the nodes of HashWords give for one word.
Tensor HashesOfWord(const std::string& word) {
  std::vector<int64_t> hashes;
  for (const std::array<uint64_t, 2>& key : kWordKeys) hashes.push_back(static_cast<int64_t>(SipHash(key, word) % kWordBuckets));
  return Tensor::Vector<int64_t>(hashes);
}

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
    if (HoldsWords(table)) {
      if (key.type() != TensorType{DataType::kString, Shape()}) return ErrorAt(table, absl::StrCat(names[i], " is ", key.type().ToString()));
      kept.attrs.Set(names[i], HashesOfWord(key.strings()[0]));
      continue;
    }
    if (key.dtype() != layout.key_dtype) return ErrorAt(table, absl::StrCat(names[i], " is ", key.type().ToString()));
    if (i == 1 && key.shape() != layout.key_shape) {
      return ErrorAt(table, absl::StrCat("Empty and deleted keys must have same shape, got shapes: ", layout.key_shape.ToString(), " and ",
                                         key.shape().ToString()));
    }
    layout.key_shape = key.shape();
    kept.attrs.Set(names[i], key);
  }
  if (!kept.attrs.Has("empty_key")) return ErrorAt(table, "has no key for empty buckets");
  const Tensor empty = kept.attrs.GetOr<Tensor>("empty_key", Tensor()), deleted = kept.attrs.GetOr<Tensor>("deleted_key", Tensor());
  return empty.BitEqual(deleted) ? ErrorAt(table, "Empty and deleted keys cannot be equal") : absl::OkStatus();
}

absl::StatusOr<KeptState> Describe(const Graph& graph, const Node& table) {
  KeptState kept;
  AttrMap attrs = table.attrs;
  if (HoldsWords(table)) {
    attrs.Set("key_dtype", DataType::kInt64);
    attrs.Set("key_shape", Shape({static_cast<int64_t>(kWordKeys.size())}));
  }
  absl::StatusOr<TableLayout> layout = TableLayout::Of(attrs);
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
    layout->tensorflow_places = !HoldsWords(table);
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

// The words that the node takes become what stands for them.
void HashWords(Graph& graph, NodeId user, CreationPlaces& places) {
  const OutputRef words = graph.node(user).inputs[1];
  const auto before = [&](const char* name, const char* op, AttrMap attrs) {
    Node node;
    node.name = absl::StrCat(graph.node(user).name, "/", name);
    node.op = op;
    node.requested_device = graph.node(user).requested_device;
    node.attrs = std::move(attrs);
    return node;
  };
  const int64_t hashes = static_cast<int64_t>(kWordKeys.size());
  Node pack = before("words", "Pack", {{"T", DataType::kInt64}, {"N", hashes}, {"axis", int64_t{-1}}});
  for (const std::array<uint64_t, 2>& key : kWordKeys) {
    const std::vector<int64_t> secret(key.begin(), key.end());
    Node hash = before("hash", "StringToHashBucketStrong", {{"num_buckets", kWordBuckets}, {"key", secret}});
    hash.inputs = {words};
    pack.inputs.push_back({places.AddBefore(graph, user, std::move(hash)), 0});
  }
  const NodeId packed = places.AddBefore(graph, user, std::move(pack));
  graph.mutable_node(user).inputs[1] = {packed, 0};
}

}  // namespace

bool CanKeepTable(const Node& table) {
  const DataType key = table.attrs.GetOr<DataType>("key_dtype", DataType::kInvalid);
  return (key == DataType::kInt32 || key == DataType::kInt64) && DataTypeSize(ValuesOf(table)) > 0;
}

bool CanKeepTableOfWords(const Node& table) { return HoldsWords(table) && DataTypeSize(ValuesOf(table)) > 0; }

absl::Status KeepTables(Graph& graph, const std::set<std::string>& names) {
  std::vector<std::pair<NodeId, KeptState>> tables, users;
  std::vector<NodeId> takers;  // of words
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const NodeId id{i};
    if (!graph.alive(id)) continue;
    const Node& node = graph.node(id);
    const bool uses = UsesTable(node) && !node.inputs.empty();
    const NodeId source = uses ? SourceOfHandle(graph, node.inputs[0]).node : id;
    const Node& table = graph.node(source);
    if (!IsChangingTable(table) || names.count(NameOfResource(table)) == 0) continue;
    MR_ASSIGN_OR_RETURN(KeptState kept, Describe(graph, table));
    if (uses && HoldsWords(table) && node.inputs.size() > 1) takers.push_back(id);
    if (uses && HoldsWords(table) && IsTableExport(node)) {
      return absl::UnimplementedError(absl::StrCat("node '", node.name, "' (", node.op, "): table '", table.name, "' (", table.op,
                                                   ") changes from step to step and knows its words by their hashes only"));
    }
    (uses ? users : tables).emplace_back(id, std::move(kept));
  }
  for (const auto& [id, kept] : users) RewriteUser(kept, graph.mutable_node(id));
  for (const auto& [id, kept] : tables) BecomeKeptState(kept, graph.mutable_node(id));
  CreationPlaces places;
  for (NodeId taker : takers) HashWords(graph, taker, places);
  if (!places.empty()) places.Renumber(graph);
  return absl::OkStatus();
}

}  // namespace millrace
