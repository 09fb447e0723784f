// The graph that the passes rewrite: TensorFlow's nodes, with the fields that planning adds.
//
// A Graph is a value owned by one thread at a time. Node ids are dense, stable, and never reused; a removed
// node leaves a hole (`removed`), which Compact() closes. Iteration in id order is creation order.
#ifndef MILLRACE_GRAPH_H_
#define MILLRACE_GRAPH_H_

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/attr.h"
#include "millrace/copy_on_write.h"
#include "millrace/types.h"

namespace millrace {

// Index of a node in its graph.
struct NodeId {
  int32_t value = -1;
  bool valid() const { return value >= 0; }
  friend bool operator==(NodeId a, NodeId b) { return a.value == b.value; }
  friend bool operator!=(NodeId a, NodeId b) { return a.value != b.value; }
  friend bool operator<(NodeId a, NodeId b) { return a.value < b.value; }
};

// One output of a node: a tensor.
struct OutputRef {
  NodeId node;
  int32_t index = 0;
  friend bool operator==(OutputRef a, OutputRef b) {
    return a.node == b.node && a.index == b.index;
  }
  friend bool operator<(OutputRef a, OutputRef b) {
    return a.node == b.node ? a.index < b.index : a.node < b.node;
  }
};

// Output `output` shares the memory of input `input` (decided by passes, never by a kernel).
struct InPlace {
  int32_t output = 0;
  int32_t input = 0;
};

inline constexpr int32_t kNoPartition = -1;
inline constexpr int32_t kHostDevice = -1;  // Node::device of Variables and Constants in host memory

struct Node {
  std::string name;
  std::string op;      // TensorFlow's op name; "SwapOut", "SwapIn", "_Feed", "_Fetch" are ours
  SharedText requested_device;  // as written in the graph, "" when none
  absl::InlinedVector<OutputRef, 3> inputs;
  absl::InlinedVector<NodeId, 2> control_inputs;
  AttrMap attrs;

  // Established by the infer_shapes pass: one entry per output.
  absl::InlinedVector<TensorType, 1> outputs;
  // Also by infer_shapes. Bit o (the last one: all outputs from there on): the shape in outputs[o] is a bound, the
  // real one is known only when running.
  uint64_t dynamic_outputs = 0;
  // Bit i: shape rule and kernel take input i by value (op.h), and it is known only when running.
  uint64_t run_time_values = 0;
  bool dynamic_output(int o) const { return (dynamic_outputs >> (o < 63 ? o : 63) & 1) != 0; }
  // Established by passes: placement, partitioning, storage.
  int32_t device = 0;  // index of the device, or kHostDevice
  int32_t partition = kNoPartition;
  absl::InlinedVector<InPlace, 1> in_place;
  // Why this node was inserted or placed here; shown by export and report. Empty for imported nodes.
  SharedText reason;

  bool removed = false;
};

class Graph;

// Ops of the nodes that stand for a function's arguments and results (attributes T and index), TensorFlow's.
inline constexpr const char* kArgOp = "_Arg";
inline constexpr const char* kRetvalOp = "_Retval";

// A function of the library: a graph with kArgOp and kRetvalOp nodes, as TensorFlow inlines it.
struct Function {
  std::string name;
  std::vector<std::string> arg_names;
  std::vector<DataType> arg_types;
  std::vector<std::string> ret_names;
  std::vector<DataType> ret_types;
  // Nodes of the body that run whenever the function is called, whatever is fetched of it (stateful effects).
  std::vector<std::string> control_rets;
  AttrMap attrs;
  std::shared_ptr<const Graph> body;
};

class Graph {
 public:
  Graph() = default;
  // What is moved from is as Graph() is.
  Graph(Graph&& other) noexcept { *this = std::move(other); }
  Graph& operator=(Graph&& other) noexcept;
  Graph Clone() const { return Graph(*this); }

  // Adds a node and returns its id. AlreadyExists when the name is taken, InvalidArgument when empty.
  absl::StatusOr<NodeId> AddNode(Node node);
  // Adds under `name`, or `name_1`, `name_2`, … when taken.
  NodeId AddUnique(Node node);
  // Adds copies of the nodes of `from` that are to be kept, by id; what they take is named by ids of `from` still. Returns
  // old id -> new id (invalid when not kept), or AlreadyExists.
  absl::StatusOr<std::vector<NodeId>> AddNodesOf(const Graph& from, const std::vector<bool>& keep);
  void RemoveNode(NodeId id);
  // Closes the holes of removed nodes; ids change, order stays. Returns old id -> new id (invalid if removed).
  std::vector<NodeId> Compact();
  void Rename(NodeId id, std::string name);
  void Reserve(int64_t nodes);

  // Ids run over [0, num_ids()); removed ones are included.
  int32_t num_ids() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t num_nodes() const { return num_ids() - num_removed_; }
  const Node& node(NodeId id) const { return nodes_[id.value]; }
  Node& mutable_node(NodeId id) { return nodes_[id.value]; }
  bool alive(NodeId id) const { return !nodes_[id.value].removed; }

  // Invalid id when absent.
  NodeId Find(std::string_view name) const;
  // "name" or "name:1" -> the tensor. NotFound names the node and the nearest names there are.
  absl::StatusOr<OutputRef> FindTensor(std::string_view tensor_name) const;
  std::string TensorName(OutputRef ref) const;  // "name:0"
  const TensorType& type(OutputRef ref) const { return node(ref.node).outputs[ref.index]; }

  // Functions by name; shared between graphs of one import.
  using Library = std::unordered_map<std::string, Function>;
  const std::shared_ptr<const Library>& library() const { return library_; }
  void set_library(std::shared_ptr<const Library> library) { library_ = std::move(library); }

  // producer versions of the GraphDef; 0 when built by hand.
  int32_t producer_version = 0;

 private:
  Graph(const Graph&) = default;

  // Node ids by the hash of their names, which live in the nodes alone: open addressing, at most half full.
  struct NameSlot {
    uint32_t hash = 0;
    int32_t id = kFreeSlot;
  };
  static constexpr int32_t kFreeSlot = -1;
  static constexpr int32_t kErasedSlot = -2;
  // The slot of that name, or the free slot that ends the search for it.
  size_t FindSlot(std::string_view name, uint32_t hash) const;
  bool InsertName(std::string_view name, uint32_t hash, int32_t id);  // false when the name is taken
  void EraseName(std::string_view name);
  void RebuildNames(size_t expected_names);

  std::vector<Node> nodes_;
  std::vector<NameSlot> name_slots_;  // a power of two of them
  size_t used_slots_ = 0;             // erased ones included
  std::unordered_map<std::string, int32_t> next_suffix_;
  int32_t num_removed_ = 0;
  std::shared_ptr<const Library> library_;
};

// Consumers of every node, by id, in id order: data edges (one entry per edge) and control edges.
struct Fanout {
  struct Use {
    NodeId consumer;
    int32_t input = 0;  // index of the consumer's input, or -1 for a control edge
    int32_t output = 0;
  };
  std::vector<int64_t> begin;  // uses of node i are uses[begin[i] .. begin[i+1])
  std::vector<Use> uses;
  absl::Span<const Use> of(NodeId id) const {
    return absl::MakeConstSpan(uses).subspan(begin[id.value], begin[id.value + 1] - begin[id.value]);
  }
};
Fanout ComputeFanout(const Graph& graph);

// A topological order that takes the lowest priority[id] first among ready nodes (then the lowest id).
// InvalidArgument names a node on a cycle.
absl::StatusOr<std::vector<NodeId>> TopologicalOrder(const Graph& graph, absl::Span<const int64_t> priority);
// By id: creation order where that is topological.
absl::StatusOr<std::vector<NodeId>> CreationOrder(const Graph& graph);

}  // namespace millrace

#endif  // MILLRACE_GRAPH_H_
