// Ensembles of decision trees (ai.onnx.ml.TreeEnsemble, TreeEnsembleRegressor, TreeEnsembleClassifier): all rows go down all trees at once, a level at a time.
//
//   at [rows, trees]  ──► Gather feature, threshold ──► compare ──► Gather child ──► at, as often as the deepest tree has levels
//   at a leaf the child is the leaf itself; Gather weights ──► reduce over trees ──► scores [rows, targets]
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "onnx/lowering.h"
#include "onnx/ml.h"
#include "onnx/tensors.h"

namespace millrace::onnx {
namespace {

struct TreeMode {
  const char* name;
  const char* op;
};
// In the order of TreeEnsemble's numbers for them.
constexpr TreeMode kTreeModes[] = {{"BRANCH_LEQ", "LessEqual"}, {"BRANCH_LT", "Less"},   {"BRANCH_GTE", "GreaterEqual"},
                                   {"BRANCH_GT", "Greater"},    {"BRANCH_EQ", "Equal"}, {"BRANCH_NEQ", "NotEqual"}};
constexpr int64_t kMember = std::size(kTreeModes);  // among the numbers of a set

using NodeKey = std::pair<int64_t, int64_t>;  // tree, node

struct Forest {
  std::map<NodeKey, int64_t> index;
  IntList features, modes, tracks;  // per node; the mode of a leaf is -1
  std::vector<double> thresholds;
  std::vector<std::array<int64_t, 2>> children;  // where the comparison fails, where it holds
  IntList roots;
  std::map<int64_t, std::vector<double>> members;  // of nodes whose mode is kMember
  int64_t levels = 0;

  bool is_leaf(int64_t node) const { return modes[node] < 0; }
  int64_t size() const { return static_cast<int64_t>(features.size()); }
  int64_t LargestSet() const {
    size_t most = 1;
    for (const auto& [node, set] : members) most = std::max(most, set.size());
    return static_cast<int64_t>(most);
  }
};

// Those in an attribute that is a tensor; none without it.
absl::StatusOr<std::vector<double>> TensorNumbers(const NodeContext& c, const std::string& name) {
  const onnx_proto::AttributeProto* given = c.Attribute(name);
  if (given == nullptr) return std::vector<double>();
  MR_ASSIGN_OR_RETURN(const Tensor tensor, TensorFromOnnx(given->t(), c.source().folder()));
  if (!IsFloating(tensor.dtype())) return c.Error(absl::StrCat(name, " is ", tensor.type().ToString()));
  std::vector<double> numbers(tensor.num_elements());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = tensor.DoubleAt(static_cast<int64_t>(i));
  return numbers;
}

// Numbers in a list of floats, or in a tensor NAME_as_tensor.
absl::StatusOr<std::vector<double>> TreeNumbers(const NodeContext& c, const std::string& name) {
  const std::vector<float> floats = c.Floats(name);
  if (!floats.empty()) return std::vector<double>(floats.begin(), floats.end());
  return TensorNumbers(c, name + "_as_tensor");
}

// Below the roots: how many parents there nodes have; -1 of nodes that no root reaches.
IntList CountParents(const Forest& forest) {
  IntList parents(forest.size(), -1), reached;
  const auto reach = [&](int64_t node) {
    if (parents[node] >= 0) return;
    parents[node] = 0;
    reached.push_back(node);
  };
  for (int64_t root : forest.roots) reach(root);
  for (size_t i = 0; i < reached.size(); ++i) {
    const int64_t node = reached[i];
    if (forest.is_leaf(node)) continue;
    for (int64_t child : forest.children[node]) {
      reach(child);
      ++parents[child];
    }
  }
  return parents;
}

// As many as the longest way from a root has. Where nodes may be shared, trees have parts in common, and nodes may be in none.
absl::Status FindLevels(const NodeContext& c, Forest& forest, bool may_share) {
  constexpr int64_t kMostLevels = 20000;
  IntList parents = CountParents(forest), depths(forest.size(), 0), ready;
  if (!may_share && *std::max_element(parents.begin(), parents.end()) > 1) return c.Error("a node of a tree has two parents");
  for (int64_t node = 0; node < forest.size(); ++node) {
    if (parents[node] == 0) ready.push_back(node);
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    const int64_t node = ready[i];
    forest.levels = std::max(forest.levels, depths[node]);
    if (forest.is_leaf(node)) continue;
    for (int64_t child : forest.children[node]) {
      depths[child] = std::max(depths[child], depths[node] + 1);
      if (--parents[child] == 0) ready.push_back(child);
    }
  }
  const int64_t outside = may_share ? std::count(parents.begin(), parents.end(), -1) : 0;
  if (static_cast<int64_t>(ready.size()) + outside < forest.size()) return c.Error("nodes of a tree are on a cycle");
  return forest.levels <= kMostLevels ? absl::OkStatus() : c.Unsupported(absl::StrCat("a tree of ", forest.levels, " levels"));
}

absl::StatusOr<Forest> ReadForest(const NodeContext& c, int64_t columns) {
  Forest forest;
  forest.features = c.Ints("nodes_featureids", {});
  const int64_t count = forest.size();
  const IntList trees = c.Ints("nodes_treeids", {}), ids = c.Ints("nodes_nodeids", {}), yes = c.Ints("nodes_truenodeids", {}),
                no = c.Ints("nodes_falsenodeids", {});
  const std::vector<std::string> modes = c.Strings("nodes_modes");
  MR_ASSIGN_OR_RETURN(forest.thresholds, TreeNumbers(c, "nodes_values"));
  forest.tracks = c.Ints("nodes_missing_value_tracks_true", IntList(count, 0));
  if (forest.tracks.empty()) forest.tracks.resize(count, 0);
  for (size_t size : {trees.size(), ids.size(), yes.size(), no.size(), modes.size(), forest.thresholds.size(), forest.tracks.size()}) {
    if (static_cast<int64_t>(size) != count || count == 0) return c.Error("attributes of nodes are of different lengths, or none");
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!forest.index.emplace(NodeKey(trees[i], ids[i]), i).second) {
      return c.Error(absl::StrCat("two nodes ", ids[i], " of tree ", trees[i]));
    }
  }
  std::vector<bool> has_parent(count, false);
  for (int64_t i = 0; i < count; ++i) {
    const auto mode = std::find_if(std::begin(kTreeModes), std::end(kTreeModes), [&](const TreeMode& known) { return known.name == modes[i]; });
    if (mode == std::end(kTreeModes) && modes[i] != "LEAF") return c.Unsupported(absl::StrCat("mode '", modes[i], "' of a node"));
    forest.modes.push_back(mode == std::end(kTreeModes) ? -1 : mode - std::begin(kTreeModes));
    forest.children.push_back({i, i});
    if (forest.is_leaf(i)) {
      forest.features[i] = 0;
      continue;
    }
    if (forest.features[i] < 0 || forest.features[i] >= columns) {
      return c.Error(absl::StrCat("feature ", forest.features[i], " of ", columns));
    }
    for (int side = 0; side < 2; ++side) {
      const auto child = forest.index.find({trees[i], side == 0 ? no[i] : yes[i]});
      if (child == forest.index.end()) return c.Error(absl::StrCat("node ", ids[i], " of tree ", trees[i], " has a child that is not there"));
      forest.children[i][side] = child->second;
      has_parent[child->second] = true;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!has_parent[i]) forest.roots.push_back(i);
  }
  MR_RETURN_IF_ERROR(FindLevels(c, forest, false));
  return forest;
}

// What every level looks up, per node. Those that no node needs are not valid.
struct Tables {
  std::set<int64_t> used;  // modes
  Output features, children, thresholds, modes, tracks;
  Output sets, set_of;  // a row for each set and one of none; the nodes' rows
};

void SetMembers(const NodeContext& c, const Forest& forest, DataType dtype, Tables& tables) {
  const int64_t most = forest.LargestSet(), count = static_cast<int64_t>(forest.members.size());
  std::vector<double> sets((count + 1) * most, std::numeric_limits<double>::quiet_NaN());
  IntList set_of(forest.size(), count);
  int64_t row = 0;
  for (const auto& [node, members] : forest.members) {
    std::copy(members.begin(), members.end(), sets.begin() + row * most);
    set_of[node] = row++;
  }
  tables.sets = Vector(c.b, dtype, sets, {count + 1, most});
  tables.set_of = LongVector(c.b, set_of);
}

Tables TablesOf(const NodeContext& c, const Forest& forest, DataType dtype) {
  Tables tables;
  tables.used.insert(forest.modes.begin(), forest.modes.end());
  tables.used.erase(-1);
  IntList next;
  for (const std::array<int64_t, 2>& pair : forest.children) next.insert(next.end(), pair.begin(), pair.end());
  tables.features = LongVector(c.b, forest.features);
  tables.children = LongVector(c.b, next);
  tables.thresholds = Vector(c.b, dtype, forest.thresholds, {forest.size()});
  if (tables.used.size() > 1) tables.modes = LongVector(c.b, forest.modes);
  if (std::count(forest.tracks.begin(), forest.tracks.end(), 0) < forest.size()) tables.tracks = LongVector(c.b, forest.tracks);
  if (tables.used.count(kMember) > 0) SetMembers(c, forest, dtype, tables);
  return tables;
}

// Whether the values are in the sets of the nodes.
Output IsMember(const Tables& tables, const Output& at, const Output& values) {
  const Output sets = ops::Gather(tables.sets, ops::Gather(tables.set_of, at));
  return ops::Reduce("Any", ops::Binary("Equal", ops::ExpandDims(values, 2), sets), {2});
}

// Whether the values go to the child "true".
Output Holds(const NodeContext& c, const Tables& tables, const Output& at, const Output& values) {
  const Output thresholds = ops::Gather(tables.thresholds, at);
  Output holds;
  for (int64_t mode : tables.used) {
    const Output compared = mode == kMember ? IsMember(tables, at, values) : ops::Binary(kTreeModes[mode].op, values, thresholds);
    if (!holds.valid()) {
      holds = compared;
      continue;
    }
    holds = ops::Select(ops::Binary("Equal", ops::Gather(tables.modes, at), static_cast<double>(mode)), compared, holds);
  }
  if (!tables.tracks.valid()) return holds;
  const Output tracks = ops::Binary("NotEqual", ops::Gather(tables.tracks, at), 0);
  const Output missing = c.b.Op("LogicalAnd", {ops::Unary("IsNan", values), tracks});
  return c.b.Op("LogicalOr", {holds, missing});
}

// The leaves [rows, trees] at which rows of x arrive.
Output LeavesOf(const NodeContext& c, const Forest& forest, const Output& x) {
  const int64_t rows = x.dim(0), columns = x.dim(1), trees = static_cast<int64_t>(forest.roots.size());
  Output at = ops::BroadcastTo(ops::Reshape(LongVector(c.b, forest.roots), {1, trees}), {rows, trees});
  if (forest.levels == 0) return at;
  const Output flat = ops::Reshape(x, {rows * columns});
  const Output row = ops::Reshape(ops::Cast(ops::Range(c.b.Int(0), c.b.Int(rows), c.b.Int(1)), DataType::kInt64), {rows, 1});
  const Output first = row * static_cast<double>(columns);
  const Tables tables = TablesOf(c, forest, x.dtype());
  for (int64_t level = 0; level < forest.levels && c.b.ok(); ++level) {
    const Output values = ops::Gather(flat, first + ops::Gather(tables.features, at));
    at = ops::Gather(tables.children, at * 2.0 + ops::Cast(Holds(c, tables, at, values), DataType::kInt64));
  }
  return at;
}

// Weights of leaves [nodes, targets].
struct LeafWeights {
  int64_t targets = 0;
  std::vector<double> values;
  std::vector<bool> given;
  std::set<int64_t> ids;  // targets that some leaf has
  bool all_positive = true;
  bool complete = true;  // every leaf has every target
};

absl::StatusOr<LeafWeights> ReadWeights(const NodeContext& c, const Forest& forest, const std::string& kind, int64_t targets) {
  LeafWeights weights{.targets = targets};
  const IntList trees = c.Ints(kind + "_treeids", {}), nodes = c.Ints(kind + "_nodeids", {}), ids = c.Ints(kind + "_ids", {});
  MR_ASSIGN_OR_RETURN(const std::vector<double> numbers, TreeNumbers(c, kind + "_weights"));
  if (trees.size() != nodes.size() || ids.size() != nodes.size() || numbers.size() != nodes.size() || nodes.empty()) {
    return c.Error(absl::StrCat("attributes ", kind, "_… are of different lengths, or none"));
  }
  weights.values.resize(forest.size() * targets, 0);
  weights.given.resize(weights.values.size(), false);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto node = forest.index.find({trees[i], nodes[i]});
    if (node == forest.index.end() || ids[i] < 0 || ids[i] >= targets) {
      return c.Error(absl::StrCat("a weight of node ", nodes[i], " of tree ", trees[i], " for target ", ids[i], " of ", targets));
    }
    weights.values[node->second * targets + ids[i]] += numbers[i];
    weights.given[node->second * targets + ids[i]] = true;
    weights.ids.insert(ids[i]);
    weights.all_positive = weights.all_positive && numbers[i] >= 0;
  }
  for (int64_t node = 0; node < forest.size(); ++node) {
    for (int64_t k = 0; k < targets && forest.is_leaf(node); ++k) weights.complete = weights.complete && weights.given[node * targets + k];
  }
  return weights;
}

Output WeightTable(const NodeContext& c, const LeafWeights& weights, DataType dtype, const std::vector<double>& values) {
  return Vector(c.b, dtype, values, {static_cast<int64_t>(values.size()) / weights.targets, weights.targets});
}

// Which targets [rows, targets] the leaves have.
Output Given(const NodeContext& c, const LeafWeights& weights, const Output& leaves) {
  const std::vector<double> marks(weights.given.begin(), weights.given.end());
  return ops::Binary("Greater", ops::Max(ops::Gather(WeightTable(c, weights, DataType::kFloat, marks), leaves), {1}), 0);
}

// Scores [rows, targets] of the trees together; a target that no leaf has is zero.
absl::StatusOr<Output> Aggregated(const NodeContext& c, const LeafWeights& weights, const Output& leaves, DataType dtype, const std::string& how) {
  if (how == "SUM" || how == "AVERAGE") {
    const Output sum = ops::Sum(ops::Gather(WeightTable(c, weights, dtype, weights.values), leaves), {1});
    return how == "SUM" ? sum : sum / static_cast<double>(leaves.dim(1));
  }
  if (how != "MIN" && how != "MAX") return c.Error(absl::StrCat("aggregate_function is '", how, "'"));
  std::vector<double> values = weights.values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!weights.given[i]) values[i] = how == "MIN" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  }
  const Output most = ops::Reduce(how == "MIN" ? "Min" : "Max", ops::Gather(WeightTable(c, weights, dtype, values), leaves), {1});
  return weights.complete ? most : ops::Select(Given(c, weights, leaves), most, ops::ZerosLike(most));
}

absl::Status ExpectBase(const NodeContext& c, const std::vector<double>& base, int64_t count) {
  if (base.empty() || static_cast<int64_t>(base.size()) == count) return absl::OkStatus();
  return c.Error(absl::StrCat("base_values has ", base.size(), " numbers, expected ", count));
}

absl::Status ExpectTargets(const NodeContext& c, int64_t targets, const Forest& forest) {
  constexpr int64_t kMostWeights = int64_t{1} << 28;
  if (targets >= 1 && targets <= kMostWeights / forest.size()) return absl::OkStatus();
  return c.Error(absl::StrCat("n_targets is ", targets, " for ", forest.size(), " nodes"));
}

absl::Status TreeEnsembleRegressor(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Forest forest, ReadForest(c, x.dim(1)));
  const int64_t targets = c.Int("n_targets", 1);
  MR_RETURN_IF_ERROR(ExpectTargets(c, targets, forest));
  MR_ASSIGN_OR_RETURN(const LeafWeights weights, ReadWeights(c, forest, "target", targets));
  MR_ASSIGN_OR_RETURN(Output scores, Aggregated(c, weights, LeavesOf(c, forest, x), x.dtype(), c.String("aggregate_function", "SUM")));
  MR_ASSIGN_OR_RETURN(const std::vector<double> base, TreeNumbers(c, "base_values"));
  MR_RETURN_IF_ERROR(ExpectBase(c, base, targets));
  if (!base.empty()) scores = scores + Vector(c.b, scores.dtype(), base, {targets});
  MR_ASSIGN_OR_RETURN(const Output y, PostTransformed(c, scores));
  c.Set(0, ops::Cast(y, DataType::kFloat));
  return absl::OkStatus();
}

constexpr const char *kLabelStrings = "classlabels_strings", *kLabelInts = "classlabels_int64s";

// Two classes, and the leaves have a weight for the one `column`: weights that are all positive are probabilities, others are on both sides
// of 0. In the first column they are of the second class, too, as converters have it.
absl::Status SetOneScore(NodeContext& c, Output score, int64_t column, const LeafWeights& weights, const std::vector<double>& base) {
  if (!base.empty()) score = score + base[0];
  const Output positive = ops::Reshape(ops::Binary("Greater", score, weights.all_positive ? 0.5 : 0.0), {-1});
  MR_ASSIGN_OR_RETURN(const Output labels, LabelsOf(c, ops::Cast(positive, DataType::kInt64), kLabelStrings, kLabelInts));
  c.Set(0, labels);
  Output both;
  if (column == 0) {
    MR_ASSIGN_OR_RETURN(both, BothScores(c, score, weights.all_positive));
  } else {
    const Output none = ops::ZerosLike(score);
    MR_ASSIGN_OR_RETURN(both, PostTransformed(c, ops::Concat({none, score}, 1)));
  }
  c.Set(1, ops::Cast(both, DataType::kFloat));
  return absl::OkStatus();
}

absl::Status TreeEnsembleClassifier(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  const int64_t classes = CountLabels(c, kLabelStrings, kLabelInts);
  if (classes < 2) return c.Unsupported(absl::StrCat("a classifier of ", classes, " labels"));
  MR_ASSIGN_OR_RETURN(const Forest forest, ReadForest(c, x.dim(1)));
  MR_ASSIGN_OR_RETURN(const LeafWeights weights, ReadWeights(c, forest, "class", classes));
  MR_ASSIGN_OR_RETURN(const std::vector<double> base, TreeNumbers(c, "base_values"));
  const Output leaves = LeavesOf(c, forest, x);
  MR_ASSIGN_OR_RETURN(Output scores, Aggregated(c, weights, leaves, x.dtype(), "SUM"));
  const bool one_score = classes == 2 && weights.ids.size() == 1 && base.size() < 2;  // two bases make two scores
  const int64_t column = *weights.ids.begin();
  const int64_t expected = one_score && column == 0 && base.size() == 1 ? 1 : classes;
  MR_RETURN_IF_ERROR(ExpectBase(c, base, expected));
  if (one_score) {
    return SetOneScore(c, ops::Slice(scores, {0, column}, {-1, 1}), column, weights, base);
  }
  Output ranked = scores;
  if (!base.empty()) {
    ranked = scores = scores + Vector(c.b, scores.dtype(), base, {classes});
  } else if (!weights.complete && !weights.all_positive) {
    const Output lowest = ops::Full(c.b, scores.type(), Lowest(scores.dtype()));
    ranked = ops::Select(Given(c, weights, leaves), scores, lowest);
  }
  MR_ASSIGN_OR_RETURN(const Output labels, LabelsOf(c, ops::ArgMax(ranked, 1), kLabelStrings, kLabelInts));
  c.Set(0, labels);
  MR_ASSIGN_OR_RETURN(const Output y, PostTransformed(c, scores));
  c.Set(1, ops::Cast(y, DataType::kFloat));
  return absl::OkStatus();
}

// Integers in an attribute of every node of a TreeEnsemble.
absl::StatusOr<IntList> OfNodes(const NodeContext& c, const char* name, int64_t count) {
  IntList list = c.Ints(name, {});
  if (static_cast<int64_t>(list.size()) == count) return list;
  return c.Error(absl::StrCat(name, " has ", list.size(), " numbers, expected one for each of ", count, " nodes"));
}

// Sets of numbers, one after another, each behind it a NaN, for the nodes of mode kMember in order.
absl::Status ReadMembers(const NodeContext& c, Forest& forest) {
  MR_ASSIGN_OR_RETURN(const std::vector<double> numbers, TensorNumbers(c, "membership_values"));
  auto at = numbers.begin();
  for (int64_t node = 0; node < forest.size(); ++node) {
    if (forest.modes[node] != kMember) continue;
    if (at == numbers.end()) return c.Error("membership_values has fewer sets than there are nodes of mode BRANCH_MEMBER");
    const auto end = std::find_if(at, numbers.end(), [](double value) { return std::isnan(value); });
    forest.members[node].assign(at, end);
    at = end == numbers.end() ? end : end + 1;
  }
  if (at != numbers.end()) return c.Error("membership_values has more sets than there are nodes of mode BRANCH_MEMBER");
  constexpr int64_t kMostMembers = int64_t{1} << 28;
  const int64_t sets = static_cast<int64_t>(forest.members.size()), most = forest.LargestSet();
  if (sets + 1 > kMostMembers / most) return c.Unsupported(absl::StrCat(sets, " sets of up to ", most, " numbers"));
  return absl::OkStatus();
}

// Opset 5's lists: nodes that branch, and leaves; `leaves` gets the number of the leaf at every node behind those that branch.
absl::StatusOr<Forest> ReadBranches(const NodeContext& c, int64_t columns, int64_t leaf_count, IntList& leaves) {
  Forest forest;
  forest.features = c.Ints("nodes_featureids", {});
  const int64_t count = forest.size();
  const onnx_proto::AttributeProto* modes = c.Attribute("nodes_modes");
  if (count == 0 || modes == nullptr) return c.Error("has no nodes");
  MR_ASSIGN_OR_RETURN(const Tensor numbers, TensorFromOnnx(modes->t(), c.source().folder()));
  if (!IsInteger(numbers.dtype())) return c.Error(absl::StrCat("nodes_modes is ", numbers.type().ToString(), ", expected uint8"));
  MR_ASSIGN_OR_RETURN(forest.thresholds, TensorNumbers(c, "nodes_splits"));
  if (numbers.num_elements() != count || static_cast<int64_t>(forest.thresholds.size()) != count) {
    return c.Error("attributes of nodes are of different lengths");
  }
  MR_ASSIGN_OR_RETURN(const IntList no, OfNodes(c, "nodes_falsenodeids", count));
  MR_ASSIGN_OR_RETURN(const IntList no_leaf, OfNodes(c, "nodes_falseleafs", count));
  MR_ASSIGN_OR_RETURN(const IntList yes, OfNodes(c, "nodes_truenodeids", count));
  MR_ASSIGN_OR_RETURN(const IntList yes_leaf, OfNodes(c, "nodes_trueleafs", count));
  forest.tracks.resize(count, 0);
  if (!c.Ints("nodes_missing_value_tracks_true", {}).empty()) {
    MR_ASSIGN_OR_RETURN(forest.tracks, OfNodes(c, "nodes_missing_value_tracks_true", count));
  }
  for (int64_t i = 0; i < count; ++i) {
    forest.modes.push_back(numbers.IntAt(i));
    if (forest.modes[i] < 0 || forest.modes[i] > kMember) return c.Unsupported(absl::StrCat("mode ", forest.modes[i], " of a node"));
    if (forest.features[i] < 0 || forest.features[i] >= columns) return c.Error(absl::StrCat("feature ", forest.features[i], " of ", columns));
  }
  // A leaf that several nodes have in common is as many leaves.
  forest.children.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    for (int side = 0; side < 2; ++side) {
      const int64_t child = side == 0 ? no[i] : yes[i];
      const bool leaf = (side == 0 ? no_leaf : yes_leaf)[i] != 0;
      if (child < 0 || child >= (leaf ? leaf_count : count)) return c.Error(absl::StrCat("node ", i, " has a child that is not there"));
      forest.children[i][side] = leaf ? forest.size() : child;
      if (!leaf) continue;
      leaves.push_back(child);
      forest.features.push_back(0);
      forest.modes.push_back(-1);
      forest.thresholds.push_back(0);
      forest.tracks.push_back(0);
      forest.children.push_back({forest.size() - 1, forest.size() - 1});
    }
  }
  forest.roots = c.Ints("tree_roots", {});
  for (int64_t root : forest.roots) {
    if (root < 0 || root >= count) return c.Error(absl::StrCat("tree_roots has ", root, ", there are ", count, " nodes"));
  }
  if (forest.roots.empty()) return c.Error("tree_roots has no numbers");
  MR_RETURN_IF_ERROR(FindLevels(c, forest, true));
  MR_RETURN_IF_ERROR(ReadMembers(c, forest));
  return forest;
}

absl::Status TreeEnsemble(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  constexpr const char* kHow[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t how = c.Int("aggregate_function", 1), transform = c.Int("post_transform", 0);
  if (how < 0 || how >= std::ssize(kHow)) return c.Error(absl::StrCat("aggregate_function is ", how));
  if (transform < 0 || transform >= std::ssize(kTransforms)) return c.Error(absl::StrCat("post_transform is ", transform));
  const IntList ids = c.Ints("leaf_targetids", {});
  MR_ASSIGN_OR_RETURN(const std::vector<double> numbers, TensorNumbers(c, "leaf_weights"));
  if (ids.size() != numbers.size() || ids.empty()) return c.Error("leaf_targetids and leaf_weights are of different lengths, or none");
  IntList leaves;
  MR_ASSIGN_OR_RETURN(const Forest forest, ReadBranches(c, x.dim(1), static_cast<int64_t>(ids.size()), leaves));
  const int64_t targets = c.Int("n_targets", 1), branches = forest.size() - static_cast<int64_t>(leaves.size());
  MR_RETURN_IF_ERROR(ExpectTargets(c, targets, forest));
  LeafWeights weights{.targets = targets};
  weights.values.resize(forest.size() * targets, 0);
  weights.given.resize(weights.values.size(), false);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const int64_t id = ids[leaves[i]];
    if (id < 0 || id >= targets) return c.Error(absl::StrCat("a leaf for target ", id, " of ", targets));
    const int64_t place = (branches + static_cast<int64_t>(i)) * targets + id;
    weights.values[place] = numbers[leaves[i]];
    weights.given[place] = true;
  }
  weights.complete = targets == 1;
  MR_ASSIGN_OR_RETURN(const Output scores, Aggregated(c, weights, LeavesOf(c, forest, x), x.dtype(), kHow[how]));
  MR_ASSIGN_OR_RETURN(const Output y, PostTransformed(c, scores, kTransforms[transform]));
  c.Set(0, ops::Cast(y, c.in(0).dtype()));
  return absl::OkStatus();
}

}  // namespace

void AddTreeLowerings(LoweringTable& table) {
  table.Add("ai.onnx.ml.TreeEnsemble", TreeEnsemble);
  table.Add("ai.onnx.ml.TreeEnsembleRegressor", TreeEnsembleRegressor);
  table.Add("ai.onnx.ml.TreeEnsembleClassifier", TreeEnsembleClassifier);
}

}  // namespace millrace::onnx
