#include "passes/control_flow/lower_sparse_matrices.h"

#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"

namespace millrace {
namespace {

// A matrix. Indices are [n,2].
struct Parts {
  OutputRef indices, values, shape;
  DataType dtype = DataType::kFloat;
};

class Lowering {
 public:
  explicit Lowering(Graph& graph) : graph_(graph) {}

  absl::StatusOr<bool> Run() {
    if (!HoldsNode(graph_, [](const Node& node) { return IsSparseMatrixOp(node.op); })) return false;
    MR_ASSIGN_OR_RETURN(const std::vector<NodeId> order, CreationOrder(graph_));
    for (NodeId id : order) MR_RETURN_IF_ERROR(Visit(id));
    places_.Renumber(graph_);
    return true;
  }

 private:
  absl::Status Visit(NodeId id) {
    const std::string op = graph_.node(id).op;
    if (op == "SparseTensorToCSRSparseMatrix") return OfSparseTensor(id);
    if (op == "DenseToCSRSparseMatrix") return OfDense(id);
    if (op == "CSRSparseMatrixToSparseTensor") return ToSparseTensor(id);
    if (op == "CSRSparseMatrixToDense") return ToDense(id);
    if (op == "SparseMatrixMatMul") return TimesDense(id);
    if (op == "SparseMatrixSparseMatMul") return TimesSparse(id);
    if (op == "SparseMatrixTranspose") return Transposed(id);
    if (op == "SparseMatrixNNZ") return Count(id);
    if (op == "SparseMatrixAdd") return Sum(id);
    if (op == "SparseMatrixMul") return Scaled(id);
    if (op == "SparseMatrixSoftmax") return Softmax(id);
    if (op == "SparseMatrixZeros") return Zeros(id);
    bool takes = false;
    for (const OutputRef& input : graph_.node(id).inputs) takes = takes || parts_.count(input) > 0;
    return takes ? PassOn(id) : absl::OkStatus();
  }

  absl::Status Refuse(NodeId id, const std::string& what) const {
    return absl::UnimplementedError(absl::StrCat("node '", graph_.node(id).name, "' (", graph_.node(id).op, "): ", what));
  }

  absl::StatusOr<Parts> MatrixAt(NodeId id, size_t input) const {
    const Node& node = graph_.node(id);
    const auto found = input < node.inputs.size() ? parts_.find(node.inputs[input]) : parts_.end();
    if (found != parts_.end()) return found->second;
    return Refuse(id, absl::StrCat("input ", input, " is no sparse matrix that was made outside of loops and conditionals"));
  }

  // Of real numbers, by this attribute.
  absl::StatusOr<DataType> TypeOf(NodeId id, const char* attribute) const {
    const DataType dtype = graph_.node(id).attrs.GetOr<DataType>(attribute, DataType::kFloat);
    if (dtype == DataType::kFloat || dtype == DataType::kDouble) return dtype;
    return Refuse(id, absl::StrCat("sparse matrices of ", std::string(DataTypeName(dtype)), " are not supported"));
  }

  OutputRef Before(NodeId id, const char* op, const std::vector<OutputRef>& inputs, AttrMap attrs) {
    Node node;
    node.name = absl::StrCat(graph_.node(id).name, "/", op);
    node.op = op;
    node.requested_device = graph_.node(id).requested_device;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.control_inputs = graph_.node(id).control_inputs;
    node.attrs = std::move(attrs);
    return {places_.AddBefore(graph_, id, std::move(node)), 0};
  }

  void Become(NodeId id, const char* op, const std::vector<OutputRef>& inputs, AttrMap attrs) {
    Node& node = graph_.mutable_node(id);
    node.op = op;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
  }

  OutputRef Constant(NodeId id, const Tensor& value) {
    AttrMap attrs;
    attrs.Set("dtype", value.dtype());
    attrs.Set("value", value);
    return Before(id, "Const", {}, std::move(attrs));
  }

  // What batches of matrices do not pass.
  static AttrMap ShapeOfMatrix() { return {{"T", DataType::kInt64}, {"shape", Shape({2})}}; }

  absl::Status ExpectInputs(NodeId id, size_t count) const {
    if (graph_.node(id).inputs.size() == count) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("node '", graph_.node(id).name, "' (", graph_.node(id).op, ") has ",
                                                   graph_.node(id).inputs.size(), " inputs, expected ", count));
  }

  // (indices, values, dense shape)
  absl::Status OfSparseTensor(NodeId id) {
    MR_RETURN_IF_ERROR(ExpectInputs(id, 3));
    MR_ASSIGN_OR_RETURN(const DataType dtype, TypeOf(id, "T"));
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    Become(id, "EnsureShape", {inputs[2]}, ShapeOfMatrix());
    parts_[{id, 0}] = {inputs[0], inputs[1], {id, 0}, dtype};
    return absl::OkStatus();
  }

  // (dense, indices)
  absl::Status OfDense(NodeId id) {
    MR_RETURN_IF_ERROR(ExpectInputs(id, 2));
    MR_ASSIGN_OR_RETURN(const DataType dtype, TypeOf(id, "T"));
    const OutputRef dense = graph_.node(id).inputs[0], indices = graph_.node(id).inputs[1];
    const OutputRef shape = Before(id, "Shape", {dense}, {{"T", dtype}, {"out_type", DataType::kInt64}});
    const OutputRef of_matrix = Before(id, "EnsureShape", {shape}, ShapeOfMatrix());
    Become(id, "GatherNd", {dense, indices}, {{"Tparams", dtype}, {"Tindices", DataType::kInt64}});
    parts_[{id, 0}] = {indices, {id, 0}, of_matrix, dtype};
    return absl::OkStatus();
  }

  // Outputs: indices, values, dense shape
  absl::Status ToSparseTensor(NodeId id) {
    MR_ASSIGN_OR_RETURN(const Parts matrix, MatrixAt(id, 0));
    Become(id, "IdentityN", {matrix.indices, matrix.values, matrix.shape},
           {{"T", std::vector<DataType>{DataType::kInt64, matrix.dtype, DataType::kInt64}}});
    return absl::OkStatus();
  }

  absl::Status ToDense(NodeId id) {
    MR_ASSIGN_OR_RETURN(const Parts matrix, MatrixAt(id, 0));
    const OutputRef zero = Constant(id, Tensor(matrix.dtype, Shape()));
    Become(id, "SparseToDense", {matrix.indices, matrix.shape, matrix.values, zero}, {{"T", matrix.dtype}, {"Tindices", DataType::kInt64}});
    return absl::OkStatus();
  }

  bool Flag(NodeId id, const char* name) const { return graph_.node(id).attrs.GetOr<bool>(name, false); }

  // (a, dense b). Of real numbers the adjoint is the transpose.
  absl::Status TimesDense(NodeId id) {
    MR_RETURN_IF_ERROR(ExpectInputs(id, 2));
    MR_ASSIGN_OR_RETURN(const DataType dtype, TypeOf(id, "T"));
    MR_ASSIGN_OR_RETURN(const Parts a, MatrixAt(id, 0));
    const OutputRef b = graph_.node(id).inputs[1];
    const AttrMap attrs{{"T", dtype}, {"Tindices", DataType::kInt64},
                        {"adjoint_a", Flag(id, "transpose_a") || Flag(id, "adjoint_a")},
                        {"adjoint_b", Flag(id, "transpose_b") || Flag(id, "adjoint_b")}};
    const std::vector<OutputRef> inputs = {a.indices, a.values, a.shape, b};
    if (!Flag(id, "transpose_output")) {
      Become(id, "SparseTensorDenseMatMul", inputs, attrs);
      return absl::OkStatus();
    }
    const OutputRef product = Before(id, "SparseTensorDenseMatMul", inputs, attrs);
    const OutputRef turned = Constant(id, Tensor::Vector<int32_t>({1, 0}));
    Become(id, "Transpose", {product, turned}, {{"T", dtype}, {"Tperm", DataType::kInt32}});
    return absl::OkStatus();
  }

  absl::Status TimesSparse(NodeId id) {
    MR_ASSIGN_OR_RETURN(const DataType dtype, TypeOf(id, "type"));
    MR_ASSIGN_OR_RETURN(const Parts a, MatrixAt(id, 0));
    MR_ASSIGN_OR_RETURN(const Parts b, MatrixAt(id, 1));
    const bool turn_a = Flag(id, "transpose_a") || Flag(id, "adjoint_a"), turn_b = Flag(id, "transpose_b") || Flag(id, "adjoint_b");
    const OutputRef axis = Constant(id, Tensor::Scalar<int32_t>(0));
    const OutputRef shapes = Before(id, "ConcatV2", {a.shape, b.shape, axis}, {{"T", DataType::kInt64}, {"N", int64_t{2}}, {"Tidx", DataType::kInt32}});
    const OutputRef which = Constant(id, Tensor::Vector<int32_t>({turn_a ? 1 : 0, turn_b ? 2 : 3}));
    const OutputRef shape = Before(id, "GatherV2", {shapes, which, axis},
                                   {{"Tparams", DataType::kInt64}, {"Tindices", DataType::kInt32}, {"Taxis", DataType::kInt32}});
    Become(id, "_SparseMatrixProduct", {a.indices, a.values, a.shape, b.indices, b.values, b.shape},
           {{"T", dtype}, {"transpose_a", turn_a}, {"transpose_b", turn_b}});
    parts_[{id, 0}] = {{id, 0}, {id, 1}, shape, dtype};
    return absl::OkStatus();
  }

  absl::Status Transposed(NodeId id) {
    MR_ASSIGN_OR_RETURN(const Parts matrix, MatrixAt(id, 0));
    const OutputRef columns = Constant(id, Tensor::Vector<int32_t>({1})), rows = Constant(id, Tensor::Vector<int32_t>({0}));
    const AttrMap reversed{{"T", DataType::kInt64}, {"Tidx", DataType::kInt32}};
    const OutputRef indices = Before(id, "ReverseV2", {matrix.indices, columns}, reversed);
    const OutputRef shape = Before(id, "ReverseV2", {matrix.shape, rows}, reversed);
    Become(id, "SparseReorder", {indices, matrix.values, shape}, {{"T", matrix.dtype}});
    parts_[{id, 0}] = {{id, 0}, {id, 1}, shape, matrix.dtype};
    return absl::OkStatus();
  }

  absl::Status Count(NodeId id) {
    MR_ASSIGN_OR_RETURN(const Parts matrix, MatrixAt(id, 0));
    Become(id, "Size", {matrix.values}, {{"T", matrix.dtype}, {"out_type", DataType::kInt32}});
    return absl::OkStatus();
  }

  // The values times a scalar.
  OutputRef Times(NodeId id, const Parts& matrix, OutputRef factor) {
    const OutputRef scalar = Before(id, "EnsureShape", {factor}, {{"T", matrix.dtype}, {"shape", Shape()}});
    return Before(id, "Mul", {matrix.values, scalar}, {{"T", matrix.dtype}});
  }

  // By a threshold of 0 alone, sums that are NaN would fall out.
  static AttrMap OfSum(DataType dtype) { return {{"T", dtype}, {"Treal", dtype}, {"_keep_all", true}}; }

  // (a, b, alpha, beta): alpha a + beta b, with the places of both
  absl::Status Sum(NodeId id) {
    MR_RETURN_IF_ERROR(ExpectInputs(id, 4));
    MR_ASSIGN_OR_RETURN(const DataType dtype, TypeOf(id, "T"));
    MR_ASSIGN_OR_RETURN(const Parts a, MatrixAt(id, 0));
    MR_ASSIGN_OR_RETURN(const Parts b, MatrixAt(id, 1));
    const OutputRef alpha = graph_.node(id).inputs[2], beta = graph_.node(id).inputs[3];
    const OutputRef of_a = Times(id, a, alpha), of_b = Times(id, b, beta), least = Constant(id, Tensor(dtype, Shape()));
    Become(id, "SparseAdd", {a.indices, of_a, a.shape, b.indices, of_b, b.shape, least}, OfSum(dtype));
    parts_[{id, 0}] = {{id, 0}, {id, 1}, a.shape, dtype};
    return absl::OkStatus();
  }

  // (a, scalar b); TensorFlow takes no other b for one matrix.
  absl::Status Scaled(NodeId id) {
    MR_RETURN_IF_ERROR(ExpectInputs(id, 2));
    MR_ASSIGN_OR_RETURN(const Parts matrix, MatrixAt(id, 0));
    const OutputRef product = Times(id, matrix, graph_.node(id).inputs[1]);
    Become(id, "Identity", {product}, {{"T", matrix.dtype}});
    parts_[{id, 0}] = {matrix.indices, {id, 0}, matrix.shape, matrix.dtype};
    return absl::OkStatus();
  }

  // Of each row, over the places that it has.
  absl::Status Softmax(NodeId id) {
    MR_ASSIGN_OR_RETURN(const Parts matrix, MatrixAt(id, 0));
    Become(id, "SparseSoftmax", {matrix.indices, matrix.values, matrix.shape}, {{"T", matrix.dtype}});
    parts_[{id, 0}] = {matrix.indices, {id, 0}, matrix.shape, matrix.dtype};
    return absl::OkStatus();
  }

  // (dense shape)
  absl::Status Zeros(NodeId id) {
    MR_RETURN_IF_ERROR(ExpectInputs(id, 1));
    MR_ASSIGN_OR_RETURN(const DataType dtype, TypeOf(id, "type"));
    const OutputRef indices = Constant(id, Tensor(DataType::kInt64, Shape({0, 2}))), values = Constant(id, Tensor(dtype, Shape({0})));
    Become(id, "EnsureShape", {graph_.node(id).inputs[0]}, ShapeOfMatrix());
    parts_[{id, 0}] = {indices, values, {id, 0}, dtype};
    return absl::OkStatus();
  }

  // Ops of any type that hand a matrix on, and sums of gradients.
  absl::Status PassOn(NodeId id) {
    static const auto& same = *new std::set<std::string>{"Identity", "StopGradient", "Conj"};
    const std::string op = graph_.node(id).op;
    const bool sums = op == "AddN";
    if (!sums && same.count(op) == 0) return Refuse(id, "takes a sparse matrix, which is supported by ops of sparse matrices only");
    MR_ASSIGN_OR_RETURN(Parts matrix, MatrixAt(id, 0));
    const size_t terms = graph_.node(id).inputs.size();
    for (size_t i = 1; i < terms; ++i) {
      MR_ASSIGN_OR_RETURN(const Parts other, MatrixAt(id, i));
      const OutputRef least = Constant(id, Tensor(matrix.dtype, Shape()));
      const OutputRef sum = Before(id, "SparseAdd", {matrix.indices, matrix.values, matrix.shape, other.indices, other.values, other.shape, least},
                                   OfSum(matrix.dtype));
      matrix.indices = sum;
      matrix.values = {sum.node, 1};
    }
    Become(id, "Identity", {matrix.values}, {{"T", matrix.dtype}});
    parts_[{id, 0}] = {matrix.indices, {id, 0}, matrix.shape, matrix.dtype};
    return absl::OkStatus();
  }

  Graph& graph_;
  CreationPlaces places_;
  std::map<OutputRef, Parts> parts_;
};

}  // namespace

bool IsSparseMatrixOp(const std::string& op) {
  static const auto& ops = *new std::set<std::string>{
      "SparseTensorToCSRSparseMatrix", "DenseToCSRSparseMatrix", "CSRSparseMatrixToSparseTensor", "CSRSparseMatrixToDense",
      "SparseMatrixMatMul", "SparseMatrixSparseMatMul", "SparseMatrixTranspose", "SparseMatrixNNZ", "SparseMatrixAdd", "SparseMatrixMul",
      "SparseMatrixSoftmax", "SparseMatrixZeros"};
  return ops.count(op) > 0;
}

absl::StatusOr<bool> LowerSparseMatrices(Graph& graph) { return Lowering(graph).Run(); }

}  // namespace millrace
