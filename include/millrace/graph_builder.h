// Builds a training graph in C++: TensorFlow's ops, whose shapes are inferred at every call. A placeholder's dimensions may be -1, known when it
// is fed: one graph for batches of any size. The session makes a plan for each size that comes.
//
//   using namespace millrace;
//   GraphBuilder b;
//   Output x = b.Placeholder("x", DataType::kFloat, {32, 784});
//   Output labels = b.Placeholder("labels", DataType::kInt32, {32});
//   Variable w = b.AddVariable("w", {784, 10}, init::GlorotUniform());
//   Variable bias = b.AddVariable("bias", {10}, init::Zeros());
//   Output logits = ops::BiasAdd(ops::MatMul(x, w), bias);
//   Output loss = ops::Mean(ops::SparseSoftmaxCrossEntropy(logits, labels).loss, {}, "loss");
//   Minimize(b, Sgd(0.1), loss, "train");
//   b.AddInit("init");
//   absl::StatusOr<Graph> graph = std::move(b).Build();
//
// The op's shape rule runs at the call. The first error is kept, names the node and the types of its inputs, and
// comes out of status() and Build(); calls after it do nothing and return outputs that are not valid().
// Functions that emit common ops are in graph_ops.h, gradients in gradients.h, optimizers in optimizers.h.
// One thread at a time may use a builder. Outputs and Variables refer to it and must not outlive it.
#ifndef MILLRACE_GRAPH_BUILDER_H_
#define MILLRACE_GRAPH_BUILDER_H_

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/graph.h"
#include "millrace/op.h"
#include "millrace/tensor.h"

namespace millrace {

class GraphBuilder;

// A tensor of the graph under construction.
class Output {
 public:
  Output() = default;
  Output(GraphBuilder* builder, OutputRef ref, TensorType type)
      : builder_(builder), ref_(ref), type_(std::move(type)) {}

  // False for a default Output and for what calls return after an error.
  bool valid() const { return ref_.node.valid(); }
  GraphBuilder* builder() const { return builder_; }
  OutputRef ref() const { return ref_; }
  NodeId node() const { return ref_.node; }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DataType dtype() const { return type_.dtype; }
  int rank() const { return type_.shape.rank(); }
  // Dimension `i`, from the end when negative; -1 (unknown) when there is no such dimension.
  int64_t dim(int i) const;

 private:
  GraphBuilder* builder_ = nullptr;
  OutputRef ref_;
  TensorType type_;
};

// A node of the graph under construction. Converts to its first output.
class Operation {
 public:
  Operation() = default;
  Operation(GraphBuilder* builder, NodeId id) : builder_(builder), id_(id) {}

  bool valid() const { return id_.valid(); }
  NodeId id() const { return id_; }
  GraphBuilder* builder() const { return builder_; }
  // Output `i`, not valid() when there is none.
  Output output(int i) const;
  std::vector<Output> outputs() const;
  operator Output() const { return output(0); }  // NOLINT: a node with one output reads as a tensor

 private:
  GraphBuilder* builder_ = nullptr;
  NodeId id_;
};

// A resource variable: VarHandleOp, its initial value's AssignVariableOp, and a ReadVariableOp for every use.
class Variable {
 public:
  Variable() = default;
  Variable(GraphBuilder* builder, std::string name, Output handle, TensorType type)
      : builder_(builder), name_(std::move(name)), handle_(std::move(handle)), type_(std::move(type)) {}

  bool valid() const { return handle_.valid(); }
  const std::string& name() const { return name_; }  // shared_name: the variable's name in reports and files
  const Output& handle() const { return handle_; }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  // A new ReadVariableOp.
  Output Read() const;
  operator Output() const { return Read(); }  // NOLINT: a variable reads as a tensor
  // Nodes that write it. A default Variable is an error of the value's builder.
  Operation Assign(const Output& value, std::string_view name = {}) const;
  Operation AssignAdd(const Output& value, std::string_view name = {}) const;
  Operation AssignSub(const Output& value, std::string_view name = {}) const;

 private:
  Operation Write(const char* op, const Output& value, std::string_view name) const;

  GraphBuilder* builder_ = nullptr;
  std::string name_;
  Output handle_;
  TensorType type_;
};

// Emits the initial value of a variable of this type. An exception becomes the builder's error.
using Initializer = std::function<Output(GraphBuilder&, const TensorType&)>;

namespace init {
Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);
// The tensor itself goes into the graph: for small ones.
Initializer Value(Tensor value);
Initializer Uniform(double low, double high);
Initializer Normal(double stddev);
// Normal, values beyond two standard deviations drawn again.
Initializer TruncatedNormal(double stddev);
// fan_in: product of all dimensions but the last; fan_out: the last times the receptive field.
Initializer GlorotUniform();
Initializer HeNormal();  // truncated normal of variance 2 / fan_in
}  // namespace init

class GraphBuilder {
 public:
  // `ops` null: the built-in ops.
  explicit GraphBuilder(std::shared_ptr<const OpRegistry> ops = nullptr);
  // Goes on with a graph, an imported one for example. Types that are not established yet are inferred. Of calls, loops and
  // conditionals (of tf.function, tf.while_loop, tf.cond) they cannot be: one whose types are not established is an
  // error. Nor are gradients taken through them: export such a graph with its gradients.
  explicit GraphBuilder(Graph graph, std::shared_ptr<const OpRegistry> ops = nullptr);
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  // A graph of more nodes is an error: for sizes that a user may mistype.
  void LimitNodes(int64_t most) { most_nodes_ = most; }
  // Keeps `status` if it is the first error.
  void Fail(absl::Status status);
  // For functions that emit ops: fails as an op's shape rule does, naming the node that would be added and its inputs' types.
  void FailOp(std::string_view op, absl::Span<const Output> inputs, std::string_view name, std::string_view message);
  // The graph, or the first error. The builder is done for then: what is called on it and its outputs fails.
  absl::StatusOr<Graph> Build() &&;
  const Graph& graph() const { return graph_; }
  const OpRegistry& ops() const { return *ops_; }

  // ---- Nodes. A name is relative to the scope, or to no scope when it begins with "/"; without one a node is
  // called as its op. Names that are taken get a suffix "_1", "_2", …, but for those of variables, where it is an error; so are names that
  // TensorFlow does not allow. Attributes that follow from the inputs (T, N, Tidx) need not be given; one that TensorFlow's op does not have, one of
  // another kind than it has, and one missing that has no default are errors. An int for a float becomes one: {"alpha", 1}.
  Operation Op(std::string_view op, absl::Span<const Output> inputs, AttrMap attrs = {}, std::string_view name = {});
  Output Placeholder(std::string_view name, DataType dtype, Shape shape);
  Output Const(Tensor value, std::string_view name = {});
  // One node per value, in no scope and without control edges: small constants that many nodes share.
  Output SharedConst(Tensor value);
  Output Scalar(DataType dtype, double value);         // of an integer type or bool only what the type holds exactly
  Output Ints(absl::Span<const int64_t> values);       // int32, rank 1; what does not fit is an error
  Output Int(int64_t value);                           // int32, rank 0
  // A NoOp that runs after `operations`.
  Operation Group(absl::Span<const Operation> operations, std::string_view name);
  // An error when the two are one, and, from Build(), when `after` leads to `before` otherwise.
  void AddControlEdge(const Operation& before, const Operation& after);

  // ---- Variables, in creation order
  Variable AddVariable(std::string_view name, Shape shape, const Initializer& initializer,
                       DataType dtype = DataType::kFloat);
  // One that optimizers leave alone (moving averages, slots).
  Variable AddState(std::string_view name, Shape shape, const Initializer& initializer,
                    DataType dtype = DataType::kFloat);
  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<Variable>& trainable() const { return trainable_; }
  // A NoOp that initialises every variable added so far.
  Operation AddInit(std::string_view name = "init");
  // Operations that AddUpdate collected (moving averages): Minimize runs them with the step.
  void AddUpdate(const Operation& update) { updates_.push_back(update); }
  const std::vector<Operation>& updates() const { return updates_; }

  // Seed of the random ops emitted from now on: TensorFlow's graph seed; the op's own seed counts up.
  void set_seed(int64_t seed) { seed_ = seed; }
  // The next pair (seed, seed2).
  std::pair<int64_t, int64_t> NextSeeds();

  // A variable of the graph that this builder goes on with: listed in variables() and, when `trainable`, in trainable().
  void Adopt(const Variable& variable, bool trainable);

  // ---- What is known of a tensor
  Output OutputOf(OutputRef ref);
  // The value of a Const (through Identity), or one that FoldWith computed, else nullptr. Valid until the next node is
  // added.
  const Tensor* ConstantValue(const Output& output) const;
  // From now on, small outputs of nodes whose inputs have known values (or whose outputs follow from types) are computed
  // with `evaluate` as they are added: ConstantValue knows them, and so do the shape rules of later nodes. The nodes stay
  // in the graph. What `evaluate` refuses, or throws at, stays unknown.
  using Evaluate = std::function<absl::StatusOr<std::vector<Tensor>>(const OpDef& def, const OpInstance& instance,
                                                                     std::vector<Tensor> inputs)>;
  void FoldWith(Evaluate evaluate) { evaluate_ = std::move(evaluate); }
  // Whether the shape may turn out smaller when running (of what came out of a Where, say).
  bool HasBoundShape(const Output& output) const { return partial_.count(output.ref()) > 0; }
  // "scope/name:0".
  std::string TensorName(const Output& output) const;

 private:
  friend Output Alike(const Output& output, const Output& like);
  friend class NameScope;
  friend class DeviceScope;
  friend class ControlScope;

  // Attributes that follow from the inputs; then whether all are what the op takes.
  absl::Status CompleteAttrs(Node& node) const;
  // Sets node.outputs; `bounded` gets the outputs whose shapes are bounds.
  absl::Status InferTypes(Node& node, std::vector<int>* bounded) const;
  void MarkBounded(NodeId id, const std::vector<int>& outputs);
  // What is known of the shape of `like` is known of `output`, too.
  void MakeAlike(OutputRef output, OutputRef like);
  absl::Status InferMissingTypes();
  Operation Add(Node node);
  bool ExpectInt32(absl::Span<const int64_t> values);
  bool ExpectOwn(const Operation& operation, std::string_view where);
  std::string FullName(std::string_view name, std::string_view op) const;
  void Fold(NodeId id);

  std::shared_ptr<const OpRegistry> ops_;
  Graph graph_;
  absl::Status status_;
  std::string scope_;   // "" or "a/b/"
  std::string device_;
  std::vector<NodeId> control_;
  std::vector<Variable> variables_;
  std::vector<Variable> trainable_;
  std::vector<Operation> initializers_;
  std::vector<Operation> updates_;
  std::map<std::string, NodeId> cached_consts_;
  Evaluate evaluate_;
  std::map<OutputRef, Tensor> folded_;
  // Of tensors whose shape is a bound: what is certain, -1 elsewhere.
  std::map<OutputRef, Shape> partial_;
  int64_t most_nodes_ = std::numeric_limits<int32_t>::max();
  int64_t seed_ = 0;
  int64_t next_op_seed_ = 1;  // seed and seed2 both 0 would mean a random seed
  bool has_unknown_shapes_ = false;  // of placeholders: values that follow from them are not known here
  bool edges_point_back_ = false;  // some control edge goes to an older node: there may be a cycle
};

// Names of nodes made while it lives begin with "outer/name/", or with "name/" when given as "/name"; "/" alone
// leaves all scopes.
class NameScope {
 public:
  NameScope(GraphBuilder& builder, std::string_view name);
  ~NameScope() { builder_.scope_ = std::move(outer_); }
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;

 private:
  GraphBuilder& builder_;
  std::string outer_;
};

// Nodes made while it lives ask for this device ("/device:GPU:1").
class DeviceScope {
 public:
  DeviceScope(GraphBuilder& builder, std::string device);
  ~DeviceScope() { builder_.device_ = std::move(outer_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  GraphBuilder& builder_;
  std::string outer_;
};

// Nodes made while it lives run after `operations`. Constants and initial values do not wait.
class ControlScope {
 public:
  ControlScope(GraphBuilder& builder, absl::Span<const Operation> operations);
  ~ControlScope();
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;

 private:
  GraphBuilder& builder_;
  size_t outer_size_;
};

}  // namespace millrace

#endif  // MILLRACE_GRAPH_BUILDER_H_
