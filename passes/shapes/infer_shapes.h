// Infer shapes and fold constants: one forward walk that gives every output its type, and computes what follows
// from constants and shapes alone (Shape -> StridedSlice -> Pack -> Reshape), since rules need such values.
// Needs: pruned graph, known feed types. Establishes: Node::outputs complete and fully known, a bound where the shape
// depends on values (Node::dynamic_outputs, dynamic_shapes.h); nodes with known small values replaced by Const;
// by_value filled.
#ifndef MILLRACE_PASSES_SHAPES_INFER_SHAPES_H_
#define MILLRACE_PASSES_SHAPES_INFER_SHAPES_H_

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/kernel_oracle.h"

namespace millrace {

// Values larger than this are not folded: they would be stored rather than computed.
inline constexpr int64_t kMaxFoldedBytes = 64 * 1024;

// What a node takes when it runs, by its cost rule or as measured; scratch as the kernel says.
struct RunEstimate {
  double seconds = 0;
  int64_t scratch_bytes = 0;
};

// What a node is to memory, by its op.
enum class NodeRole : uint8_t { kRuns, kNeverRuns, kView, kConst, kFeed, kRecv, kCopiesToHost };

struct InferenceResult {
  bool changed = false;                // a node was folded
  std::vector<uint64_t> by_value;      // per node id: bit i set when input i is taken by value (op.h)
  // By name of nodes with dynamic inputs or outputs: DynamicTypes::possible.
  std::unordered_map<std::string, std::vector<OpInstance>> possible;
  // By EstimateRuns (storage.h), per node id.
  std::vector<RunEstimate> estimates;
  std::vector<const OpDef*> defs;      // nullptr for removed nodes
  std::vector<NodeRole> roles;
  std::vector<int32_t> variable;       // that the node declares, numbered by name; -1 for none
  int32_t num_variables = 0;
};

// `variable_types`: types of variables that already exist, by variable name (for those whose declaration leaves
// the shape open). Errors name the node: an op that is unknown (all of them at once), a rule that does not hold,
// a shape that depends on values and has no bound (with the feeds that would settle it, needed_feeds.h).
absl::StatusOr<InferenceResult> InferShapesAndFold(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
                                                   const std::map<std::string, TensorType>& variable_types);

// The same for a graph that grows node by node, each after those that it takes values from. What has no shape that is
// known stays untyped, and is no error: this is for a pass that looks ahead (unroll_loops).
class ShapeTracker {
 public:
  // Refers to all of them.
  ShapeTracker(Graph& graph, const OpRegistry& ops, KernelOracle& oracle,
               const std::map<std::string, TensorType>& variable_types);
  ShapeTracker(Graph& graph, const OpRegistry& ops, KernelOracle& oracle, std::map<std::string, TensorType>&& variable_types) = delete;
  ~ShapeTracker();
  // Whether the types of the node's outputs are known now. A node whose values are known becomes a Const, or as many as it
  // has outputs, if it may.
  bool Track(NodeId id, bool may_replace);
  // Outputs of a node that has no rule; values may be empty.
  void Declare(NodeId id, std::vector<TensorType> types, std::vector<Tensor> values);
  // Of output `output`, which is one of `sources`, of one type: known only when running is what is so of any of them, or not the same.
  void DeclarePassed(NodeId id, int32_t output, absl::Span<const OutputRef> sources);
  const Tensor* Value(OutputRef ref) const;  // nullptr when not known
  OutputRef Current(OutputRef ref) const;    // what replaces it
  uint64_t by_value(NodeId id) const;        // what its shape rule asked for: of no node that was not looked at

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Of how many inputs of a node it is known whether they are taken by value: the bits of InferenceResult::by_value.
inline constexpr size_t kKnownByValue = 64;

// Whether the node takes this input by value, given its bits of InferenceResult::by_value. Behind so many inputs there is the axis of
// a concatenation.
bool TakenByValue(const std::string& op, size_t num_inputs, size_t input, uint64_t by_value);
inline bool TakenByValue(const Node& node, size_t input, uint64_t by_value) { return TakenByValue(node.op, node.inputs.size(), input, by_value); }

// The description of a node for cost rules and kernels; values only of inputs taken by value.
OpInstance MakeInstance(const Graph& graph, NodeId id, uint64_t by_value);

}  // namespace millrace

#endif  // MILLRACE_PASSES_SHAPES_INFER_SHAPES_H_
