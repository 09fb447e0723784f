// Ensembles of decision trees (ai.onnx.ml.TreeEnsembleRegressor, TreeEnsembleClassifier): all rows go down all trees at once, a level at a time.
//
//   at [rows, trees]  ──► Gather feature, threshold ──► compare ──► Gather child ──► at, as often as the deepest tree has levels
//   at a leaf the child is the leaf itself; Gather weights ──► reduce over trees ──► scores [rows, targets]
#include <algorithm>
#include <array>
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
constexpr TreeMode kTreeModes[] = {{"BRANCH_LEQ", "LessEqual"}, {"BRANCH_LT", "Less"},   {"BRANCH_GTE", "GreaterEqual"},
                                   {"BRANCH_GT", "Greater"},    {"BRANCH_EQ", "Equal"}, {"BRANCH_NEQ", "NotEqual"}};

using NodeKey = std::pair<int64_t, int64_t>;  // tree, node

struct Forest {
  std::map<NodeKey, int64_t> index;
  IntList features, modes, tracks;  // per node; the mode of a leaf is -1
  std::vector<double> thresholds;
  std::vector<std::array<int64_t, 2>> children;  // where the comparison fails, where it holds
  IntList roots;
  int levels = 0;

  bool is_leaf(int64_t node) const { return modes[node] < 0; }
  int64_t size() const { return static_cast<int64_t>(features.size()); }
};

// Numbers in a list of floats, or in a tensor NAME_as_tensor.
absl::StatusOr<std::vector<double>> TreeNumbers(const NodeContext& c, const std::string& name) {
  const std::vector<float> floats = c.Floats(name);
  const onnx_proto::AttributeProto* given = c.Attribute(name + "_as_tensor");
  if (given == nullptr || !floats.empty()) return std::vector<double>(floats.begin(), floats.end());
  MR_ASSIGN_OR_RETURN(const Tensor tensor, TensorFromOnnx(given->t(), c.source().folder()));
  if (!IsFloating(tensor.dtype())) return c.Error(absl::StrCat(name, "_as_tensor is ", tensor.type().ToString()));
  std::vector<double> numbers(tensor.num_elements());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = tensor.DoubleAt(static_cast<int64_t>(i));
  return numbers;
}

// Trees are walked from their roots: every node is reached once.
absl::Status FindLevels(const NodeContext& c, Forest& forest) {
  IntList level = forest.roots;
  std::vector<bool> seen(forest.size(), false);
  for (forest.levels = -1; !level.empty(); ++forest.levels) {
    IntList next;
    for (int64_t node : level) {
      if (seen[node]) return c.Error("a node of a tree has two parents");
      seen[node] = true;
      if (!forest.is_leaf(node)) next.insert(next.end(), forest.children[node].begin(), forest.children[node].end());
    }
    level = std::move(next);
  }
  if (std::count(seen.begin(), seen.end(), false) > 0) return c.Error("nodes of a tree are on a cycle");
  return absl::OkStatus();
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
  MR_RETURN_IF_ERROR(FindLevels(c, forest));
  return forest;
}

// Whether the values go to the child "true".
Output Holds(const NodeContext& c, const Forest& forest, const Output& at, const Output& values) {
  const Output thresholds = ops::Gather(Vector(c.b, values.dtype(), forest.thresholds, {forest.size()}), at);
  std::set<int64_t> used(forest.modes.begin(), forest.modes.end());
  used.erase(-1);
  Output holds;
  for (int64_t mode : used) {
    const Output compared = ops::Binary(kTreeModes[mode].op, values, thresholds);
    const Output own = used.size() == 1 ? Output() : ops::Binary("Equal", ops::Gather(LongVector(c.b, forest.modes), at), static_cast<double>(mode));
    holds = holds.valid() ? ops::Select(own, compared, holds) : compared;
  }
  if (std::count(forest.tracks.begin(), forest.tracks.end(), 0) == forest.size()) return holds;
  const Output tracks = ops::Binary("NotEqual", ops::Gather(LongVector(c.b, forest.tracks), at), 0);
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
  IntList next;
  for (const std::array<int64_t, 2>& pair : forest.children) next.insert(next.end(), pair.begin(), pair.end());
  const Output features = LongVector(c.b, forest.features), children = LongVector(c.b, next);
  for (int level = 0; level < forest.levels; ++level) {
    const Output values = ops::Gather(flat, first + ops::Gather(features, at));
    at = ops::Gather(children, at * 2.0 + ops::Cast(Holds(c, forest, at, values), DataType::kInt64));
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

absl::Status TreeEnsembleRegressor(NodeContext& c) {
  MR_RETURN_IF_ERROR(c.ExpectInputs(1, 1));
  MR_ASSIGN_OR_RETURN(const Output x, FeatureRows(c));
  if (!x.valid()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const Forest forest, ReadForest(c, x.dim(1)));
  const int64_t targets = c.Int("n_targets", 1);
  constexpr int64_t kMostWeights = int64_t{1} << 28;
  if (targets < 1 || targets > kMostWeights / forest.size()) return c.Error(absl::StrCat("n_targets is ", targets, " for ", forest.size(), " nodes"));
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
    MR_ASSIGN_OR_RETURN(both, PostTransformed(c, column == 0 ? ops::Concat({score, none}, 1) : ops::Concat({none, score}, 1)));
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

}  // namespace

void AddTreeLowerings(LoweringTable& table) {
  table.Add("ai.onnx.ml.TreeEnsembleRegressor", TreeEnsembleRegressor);
  table.Add("ai.onnx.ml.TreeEnsembleClassifier", TreeEnsembleClassifier);
}

}  // namespace millrace::onnx
