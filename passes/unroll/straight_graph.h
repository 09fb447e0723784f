// The graph that unroll_loops makes: it grows node by node, and what is known of each is known at once (ShapeTracker).
#ifndef MILLRACE_PASSES_UNROLL_STRAIGHT_GRAPH_H_
#define MILLRACE_PASSES_UNROLL_STRAIGHT_GRAPH_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "passes/shapes/infer_shapes.h"
#include "passes/unroll/questions.h"
#include "passes/unroll/value.h"

namespace millrace {

class StraightGraph {
 public:
  StraightGraph(const Graph& original, const OpRegistry& ops, KernelOracle& oracle,
                const std::map<std::string, TensorType>& variable_types, int64_t max_nodes, const QuestionOptions& questions);

  // Adds the node under its name, or one near it. OutOfRange beyond max_nodes.
  absl::StatusOr<NodeId> Add(Node node);
  // What waits for all of these; a trigger for those of them that run, whichever side of a conditional that is.
  absl::StatusOr<NodeId> AddNoOp(const std::string& name, const std::vector<NodeId>& controls) {
    return AddWaiter("NoOp", name, controls);
  }
  absl::StatusOr<NodeId> AddTrigger(const std::string& name, const std::vector<NodeId>& controls) {
    return AddWaiter("ControlTrigger", name, controls);
  }
  // Takes back a node that nothing has taken anything of yet.
  void Remove(NodeId id) { graph_.RemoveNode(id); }
  // The inputs from which follows what is not known of the node: of a search in a table that has no types yet, all but the table, since
  // what is found has the shape of its keys.
  static absl::Span<const OutputRef> InputsOfUnknown(const Node& node);
  // Of a node that has no types: inputs that have none either.
  std::vector<OutputRef> UntypedInputs(NodeId id) const;
  // Of a node that has no types: an input whose value its shape rule asked for in vain, though its type is known.
  std::optional<size_t> MissingValue(NodeId id) const;
  // Without what planning establishes: types are inferred again.
  Graph Take();
  const Graph& graph() const { return graph_; }
  const OpRegistry& ops() const { return ops_; }
  Questions& questions() { return questions_; }
  int64_t max_nodes() const { return max_nodes_; }

  const Tensor* Known(OutputRef ref) const { return tracker_.Value(ref); }
  // nullopt: not known, or only when running.
  std::optional<TensorType> Type(OutputRef ref) const;
  OutputRef Current(OutputRef ref) const { return tracker_.Current(ref); }
  // Whether it depends on a predicate that is known only when running if the node is to have an effect.
  bool guarded(NodeId id) const { return guarded_[id.value]; }
  // Whether what it makes and is not known follows from more than feeds: variables, random numbers, what has no inputs.
  bool beyond_feeds(NodeId id) const { return beyond_feeds_[id.value]; }

  // Whoever waits for this one comes after all writes of variables that the node comes after, or is: the write, or what comes after
  // all of several. Invalid for none.
  NodeId written(NodeId id) const { return written_[id.value]; }
  // Whether the node has become a constant, and as such waits for nobody from now on.
  bool FreeConstant(NodeId id);

  // Of nodes of the pass's own.
  struct Origin {
    std::string name;
    std::string device;
    Waits waits;
  };
  absl::StatusOr<OutputRef> Constant(const Tensor& value);
  absl::StatusOr<OutputRef> Zeros(const TensorType& type);
  bool IsZeros(OutputRef ref) const { return zeros_refs_.count(ref) > 0; }
  // Row `index` along dimension 0, without that dimension.
  absl::StatusOr<OutputRef> Row(OutputRef tensor, int64_t index);
  // Rows [begin, end).
  absl::StatusOr<OutputRef> Rows(const Origin& origin, OutputRef tensor, int64_t begin, int64_t end);
  // `dtype`: of rows whose types are not known.
  absl::StatusOr<OutputRef> Pack(const Origin& origin, const std::vector<OutputRef>& rows, DataType dtype);
  absl::StatusOr<OutputRef> Op(const Origin& origin, const char* op, std::vector<OutputRef> inputs, AttrMap attrs);

 private:
  absl::StatusOr<NodeId> AddWaiter(const char* op, const std::string& name, const std::vector<NodeId>& controls);
  bool TypeByHand(NodeId id);
  bool TypeFound(NodeId id);
  bool TypeHash(NodeId id);
  const TensorType* TypeOrNull(OutputRef ref) const;
  bool FollowsFromMoreThanFeeds(const Node& node) const;
  NodeId WrittenBy(NodeId id) const;
  absl::StatusOr<OutputRef> Slice(const Origin& origin, OutputRef tensor, int64_t begin, int64_t end, bool drop_dimension);

  Graph graph_;
  const OpRegistry& ops_;
  KernelOracle& oracle_;
  ShapeTracker tracker_;
  const int64_t max_nodes_;
  Questions questions_;
  std::vector<bool> guarded_;
  std::vector<bool> beyond_feeds_;
  std::vector<NodeId> written_;
  std::map<std::string, OutputRef> constants_;  // by type and bytes
  std::map<std::string, OutputRef> zeros_;      // by type
  std::set<OutputRef> zeros_refs_;
  std::map<std::pair<OutputRef, int64_t>, OutputRef> rows_;
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_UNROLL_STRAIGHT_GRAPH_H_
