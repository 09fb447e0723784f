// Reverse-mode gradients over a graph, built or imported, but not through calls, loops and conditionals (of tf.function,
// tf.while_loop, tf.cond): a graph with these has to be exported with its gradients.
//
// Rules emit ordinary ops, so gradients of gradients come from calling AddGradients again. Contributions to one
// tensor are added in a fixed order (AddN). An op of one's own brings its rule in OpDef::gradient, which wins over
// the built-in one.
#ifndef MILLRACE_GRADIENTS_H_
#define MILLRACE_GRADIENTS_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/graph_builder.h"

namespace millrace {

// What a gradient rule sees of the node that it differentiates, and where it leaves its results.
class GradientContext {
 public:
  GraphBuilder& builder() const { return builder_; }
  NodeId node() const { return node_; }
  // Copies: nodes that the rule adds do not disturb them.
  const std::string& name() const { return name_; }
  const std::string& op() const { return op_; }
  const AttrMap& attrs() const { return attrs_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  // An input or output that the node does not have is not valid(), and AddGradients fails whatever the rule returns.
  const Output& input(int i) const { return Has("input", i, inputs_) ? inputs_[i] : NoTensor(); }
  const Output& output(int i) const { return Has("output", i, outputs_) ? outputs_[i] : NoTensor(); }
  DataType dtype() const { return inputs_.empty() ? DataType::kInvalid : inputs_[0].dtype(); }
  // The constant value of an input (an axis, a permutation), or an error that names the node.
  absl::StatusOr<std::vector<int64_t>> ConstantInts(int input) const;

  // Whether a gradient flows into output i.
  bool has_gradient(int i) const { return Has("output", i, outputs_) && gradients_[i].valid(); }
  // The gradient of output i; zeros when none flows.
  Output gradient(int i = 0);
  // Whether the gradient of input i is asked for: rules skip the work otherwise.
  bool wants(int i) const { return Has("input", i, inputs_) && wanted_[i]; }
  // Leaves the gradient of input i, a tensor of this graph and of the input's shape. Inputs that are left alone get none.
  void Set(int i, const Output& gradient) {
    if (Has("input", i, inputs_)) results_[i] = gradient;
  }
  // InvalidArgument that names the node.
  absl::Status Error(std::string_view message) const;

 private:
  friend class GradientBuilder;
  GradientContext(GraphBuilder& builder, NodeId node);
  bool Has(const char* what, int i, const std::vector<Output>& of) const {
    if (i >= 0 && i < static_cast<int>(of.size())) return true;
    missing_ = {what, i};
    return false;
  }
  static const Output& NoTensor();

  GraphBuilder& builder_;
  NodeId node_;
  std::string name_;
  std::string op_;
  AttrMap attrs_;
  std::vector<Output> inputs_;
  std::vector<Output> outputs_;
  std::vector<Output> gradients_;
  std::vector<Output> results_;
  std::vector<bool> wanted_;
  mutable std::optional<std::pair<const char*, int>> missing_;  // the last one asked for that the node does not have
};

struct GradientOptions {
  // Gradients that flow into `ys`, one each; ones when empty.
  std::vector<Output> y_gradients;
  // Called with the index of an x as soon as its gradient is complete, in the middle of the backward pass: what is
  // emitted here (an optimizer's update) stands right behind the gradient in creation order. An exception becomes an error.
  std::function<absl::Status(int index, const Output& gradient)> on_ready;
  std::string scope = "gradients";
};

// Gradients of the sum of `ys` with respect to `xs`: tensors, or variables (handles, references), whose reads all
// count. An x that the ys do not depend on gets an Output that is not valid(). Errors name a node on the way whose
// op has no gradient.
absl::StatusOr<std::vector<Output>> AddGradients(GraphBuilder& builder, absl::Span<const Output> ys,
                                                 absl::Span<const Output> xs, const GradientOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_GRADIENTS_H_
