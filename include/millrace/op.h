// What Millrace knows of an op besides its kernel: shape rule, cost rule, in-place rule, variable accesses,
// gradient. Built-in ops are listed in src/ops; a program adds its own with OpRegistry::Register.
#ifndef MILLRACE_OP_H_
#define MILLRACE_OP_H_

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "millrace/attr.h"
#include "millrace/tensor.h"
#include "millrace/types.h"

namespace millrace {

// One node with everything that is known before it runs. Plain data: cost rules, kernel factories and the
// plan see a node only through this.
struct OpInstance {
  std::string name;  // the node's, for messages
  std::string op;
  AttrMap attrs;
  std::vector<TensorType> inputs;   // of a variable (handle or reference): the variable's type
  std::vector<TensorType> outputs;
  // One per input where the shape rule asks for the value of any (InferenceContext::value), else none. The value of input i is empty()
  // when it is not known before the node runs, or when the rule does not ask for it.
  std::vector<Tensor> input_values;
};

// The shape rule's view of a node.
class InferenceContext {
 public:
  InferenceContext(std::string_view node_name, std::string_view op, const AttrMap& attrs,
                   absl::Span<const TensorType> inputs, absl::Span<const Tensor* const> values)
      : node_name_(node_name), op_(op), attrs_(attrs), inputs_(inputs), values_(values) {}

  std::string_view node_name() const { return node_name_; }
  std::string_view op() const { return op_; }
  const AttrMap& attrs() const { return attrs_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  // A handle or reference input has the variable's dtype and shape. An input that the node does not have reads as a
  // scalar without dtype, and OpDef::InferShapes refuses the node whatever its rule says.
  const TensorType& input(int i) const { return Has(i) ? inputs_[i] : NoInput(); }
  const Shape& shape(int i) const { return input(i).shape; }
  DataType dtype(int i) const { return input(i).dtype; }
  // The input's value when the constant folder knows it, else nullptr.
  // A rule that asks for it declares that the kernel takes the input by value (an axis or a shape). Where the value is known before the
  // node runs it is in OpInstance::input_values, and perhaps nowhere in device memory. Else it is in KernelContext::inputs like any other,
  // and input_values[i] is empty().
  const Tensor* value(int i) const {
    if (!Has(i)) return nullptr;
    if (i < 64) by_value_ |= uint64_t{1} << i;
    return values_[i];
  }
  // Bit i: the rule asked for input i's value.
  uint64_t by_value() const { return by_value_; }

  void AddOutput(DataType dtype, Shape shape);
  // The output's real shape may turn out smaller in any dimension (Unique, Where): the shape given is a bound.
  void MarkBound(int output) { bound_outputs_.push_back(output); }
  absl::Span<const TensorType> outputs() const { return outputs_; }
  absl::Span<const int> bound_outputs() const { return bound_outputs_; }

  // InvalidArgument "node (op): message".
  absl::Status Error(std::string_view message) const;
  // OK when the node has `count` inputs, else Error.
  absl::Status ExpectInputs(int count) const;
  // OK unless an input was read that the node does not have.
  absl::Status ExpectInputsRead() const;

 private:
  bool Has(int i) const {
    if (i >= 0 && i < num_inputs()) return true;
    missing_input_ = i;
    return false;
  }
  static const TensorType& NoInput();

  std::string_view node_name_;
  std::string_view op_;
  const AttrMap& attrs_;
  absl::Span<const TensorType> inputs_;
  absl::Span<const Tensor* const> values_;
  std::vector<TensorType> outputs_;
  std::vector<int> bound_outputs_;
  mutable uint64_t by_value_ = 0;
  mutable std::optional<int> missing_input_;  // the last one read that the node does not have
};

// Work of one run of a node, for planning before anything is measured.
struct Cost {
  double flops = 0;
  double bytes = 0;           // read and written by the kernel
  int64_t scratch_bytes = 0;  // estimate; a device's kernel has the last word
  bool convolution = false;   // its flops go at Machine::convolution_flops_per_second
};

// kPresence asks only whether it is initialised.
enum class VariableAccess { kRead, kWrite, kReadWrite, kPresence };

// Input `input` is a variable (a resource handle or a reference), accessed in this way.
struct VariableUse {
  int input = 0;
  VariableAccess access = VariableAccess::kRead;
  bool writes() const { return access == VariableAccess::kWrite || access == VariableAccess::kReadWrite; }
};

class GradientContext;  // millrace/gradients.h

struct OpDef {
  using ShapeRule = std::function<absl::Status(InferenceContext&)>;
  using CostRule = std::function<Cost(const OpInstance&)>;
  using GradientRule = std::function<absl::Status(GradientContext&)>;
  // Variable uses may depend on the node (a list of handles); most ops have a fixed list.
  std::string name;
  ShapeRule shape;  // run it by InferShapes
  CostRule cost;  // finite numbers from 0 on, all three of them; when empty: bytes of inputs and outputs, one flop per output element
  GradientRule gradient;  // when empty: the built-in rule of an op of this name; where there is none, either, a gradient is an error

  // Pairs {output, input}: the kernel computes right when the output overwrites the input.
  std::vector<std::pair<int, int>> in_place;
  // Output 0 is input 0 under another shape or name: no kernel, no memory, no copy. It has no more bytes than input 0.
  bool is_view = false;
  std::vector<VariableUse> variables;
  // Output 0 is the variable of input 0 itself (Assign, ApplyAdam on references).
  bool returns_variable = false;
  // Writes rows of its variable one after another, chosen by an input: an input that is the variable's own memory is read
  // from a copy, or it would be found half written.
  bool writes_chosen_rows = false;
  // The node declares a variable (VariableV2, VarHandleOp).
  bool is_variable = false;
  // Has effects or state beyond its outputs: never folded, merged or recomputed.
  bool stateful = false;
  // The outputs follow from the types of the inputs alone (Shape, Size, Rank): known without their values.
  bool from_types = false;
  // Runs for its control edges only (NoOp, ControlTrigger).
  bool is_no_op = false;
  // Bytes of state that persists over steps per node (the Philox counter of a random op).
  int64_t state_bytes = 0;

  bool WritesVariables() const { return std::any_of(variables.begin(), variables.end(), [](const VariableUse& use) { return use.writes(); }); }
  bool Writes(int input) const {
    return std::any_of(variables.begin(), variables.end(), [&](const VariableUse& use) { return use.input == input && use.writes(); });
  }
  // Runs the shape rule. InvalidArgument when the rule says so, when it read an input that the node does not have, or when a view is
  // larger than its input; also when the node has fewer inputs or outputs than the rest of this takes for granted (variables, is_view,
  // returns_variable).
  absl::Status InferShapes(InferenceContext& context) const;
};

class OpRegistry {
 public:
  // Every op of src/ops. The object is built once and shared; copy it to add to it.
  static const OpRegistry& Builtin();

  OpRegistry() = default;
  // AlreadyExists when the name is taken; InvalidArgument without a name or a shape rule, for inputs and outputs of negative number, and
  // less than no state.
  absl::Status Register(OpDef def);
  // nullptr when unknown.
  const OpDef* Find(std::string_view name) const;
  std::vector<std::string> Names() const;  // sorted

 private:
  std::unordered_map<std::string, std::shared_ptr<const OpDef>> defs_;
};

}  // namespace millrace

#endif  // MILLRACE_OP_H_
