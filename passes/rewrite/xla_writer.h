// Writes the nodes that stand in for one node of XLA's (lower_xla). All shapes are known, so what changes nothing is not written.
#ifndef MILLRACE_PASSES_REWRITE_XLA_WRITER_H_
#define MILLRACE_PASSES_REWRITE_XLA_WRITER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "millrace/graph.h"
#include "passes/control_flow/creation_places.h"

namespace millrace {

// A tensor with what is known of it.
struct XlaValue {
  OutputRef ref;
  DataType dtype = DataType::kInvalid;
  std::vector<int64_t> dims;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t num_elements() const {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return count;
  }
};

class XlaWriter {
 public:
  using Ints = std::vector<int64_t>;

  XlaWriter(Graph& graph, CreationPlaces& places, NodeId id) : graph_(graph), places_(places), id_(id) {}

  const Node& node() const { return graph_.node(id_); }
  const Graph& graph() const { return graph_; }
  NodeId id() const { return id_; }
  // "node 'a' (XlaDotV2): what"
  absl::Status Refuse(const std::string& what) const;

  XlaValue Input(int input) const;
  XlaValue Output(int output = 0) const;  // what is to be made; no tensor
  Ints Numbers(int input) const;          // of a constant input
  // The only element of a constant; nullopt where it is computed.
  std::optional<double> Known(const XlaValue& value) const;

  // A node before the one that is lowered. T is the first operand's type unless `attrs` say otherwise.
  XlaValue Add(const std::string& op, const std::vector<XlaValue>& inputs, DataType dtype, Ints dims, AttrMap attrs = {});
  // Of the type and shape of the first operand.
  XlaValue Same(const std::string& op, const std::vector<XlaValue>& inputs, AttrMap attrs = {}) {
    return Add(op, inputs, inputs[0].dtype, inputs[0].dims, std::move(attrs));
  }
  XlaValue Constant(const Ints& values);                         // an int32 vector, of int64 where a number needs it
  XlaValue Constant(const Tensor& value);
  XlaValue Scalar(double value, DataType dtype);                 // any type that a Cast makes of a double
  XlaValue Cast(const XlaValue& value, DataType dtype);
  XlaValue Reshape(const XlaValue& value, const Ints& dims);
  XlaValue Broadcast(const XlaValue& value, const Ints& dims);
  XlaValue Transpose(const XlaValue& value, const Ints& perm);   // a view where only dimensions of 1 move
  XlaValue Reverse(const XlaValue& value, const Ints& axes);
  XlaValue Slice(const XlaValue& value, const Ints& begin, const Ints& size);
  // Nothing is cut off where a number is negative: Crop does that.
  XlaValue Pad(const XlaValue& value, const Ints& low, const Ints& high, const XlaValue& with);
  // As XlaPad does: negative numbers cut off, `interior` of them between any two elements.
  XlaValue PadAny(const XlaValue& value, const Ints& low, const Ints& high, const Ints& interior, const XlaValue& with);
  XlaValue Zero(DataType dtype) { return Scalar(0, dtype); }

  // The node makes this value from now on.
  void Finish(const XlaValue& value);
  void Finish(const std::vector<XlaValue>& values);

 private:
  Node Part(const std::string& op, AttrMap attrs) const;

  Graph& graph_;
  CreationPlaces& places_;
  NodeId id_;
  std::vector<NodeId> added_;
};

// values[perm[0]], values[perm[1]], ...
std::vector<int64_t> PermutedBy(const std::vector<int64_t>& values, const std::vector<int64_t>& perm);
// Of the values that follow one another, the product.
int64_t ProductOf(const std::vector<int64_t>& values, size_t begin, size_t end);

}  // namespace millrace

#endif  // MILLRACE_PASSES_REWRITE_XLA_WRITER_H_
