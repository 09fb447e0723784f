#include "passes/control_flow/expand_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/with_message.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/creation_places.h"
#include "passes/control_flow/sobol_points.h"

namespace millrace {
namespace {

// One op for another of the same inputs, outputs and meaning.
const std::unordered_map<std::string, const char*>& Renamed() {
  static const auto& names = *new std::unordered_map<std::string, const char*>{
      {"BatchCholesky", "Cholesky"},
      {"BatchCholeskyGrad", "CholeskyGrad"},
      {"BatchFFT", "FFT"},
      {"BatchFFT2D", "FFT2D"},
      {"BatchFFT3D", "FFT3D"},
      {"BatchIFFT", "IFFT"},
      {"BatchIFFT2D", "IFFT2D"},
      {"BatchIFFT3D", "IFFT3D"},
      {"BatchMatrixBandPart", "MatrixBandPart"},
      {"BatchMatrixDeterminant", "MatrixDeterminant"},
      {"BatchMatrixDiag", "MatrixDiag"},
      {"BatchMatrixDiagPart", "MatrixDiagPart"},
      {"BatchMatrixInverse", "MatrixInverse"},
      {"BatchMatrixSetDiag", "MatrixSetDiag"},
      {"BatchMatrixSolve", "MatrixSolve"},
      {"BatchMatrixSolveLs", "MatrixSolveLs"},
      {"BatchMatrixTriangularSolve", "MatrixTriangularSolve"},
      {"BatchSelfAdjointEigV2", "SelfAdjointEigV2"},
      {"BatchSvd", "Svd"},
      // Copies that a debugger or a mesh of devices asks for.
      {"Copy", "Identity"},
      {"CopyHost", "Identity"},
      {"CopyToMesh", "Identity"},
      {"DebugGradientIdentity", "Identity"},
      {"DebugIdentity", "Identity"},
      {"DebugIdentityV2", "Identity"},
      {"DebugIdentityV3", "Identity"},
      {"Relayout", "Identity"},
      // Where TensorFlow's optimizers put a constant.
      {"HostConst", "Const"},
      // What speaks to XLA only.
      {"XlaEinsum", "Einsum"},
      {"XlaOptimizationBarrier", "IdentityN"},
      {"XlaSharding", "Identity"},
      // Memory that is lent for a step is a variable that is written before it is read.
      {"TemporaryVariable", "VariableV2"},
      {"DestroyTemporaryVariable", "Identity"},
      {"RandomPoisson", "RandomPoissonV2"},
      {"SegmentMaxV2", "UnsortedSegmentMax"},
      {"SegmentMinV2", "UnsortedSegmentMin"},
      {"SegmentProdV2", "UnsortedSegmentProd"},
      {"SegmentSumV2", "UnsortedSegmentSum"},
      {"Stack", "StackV2"},
      {"StackClose", "StackCloseV2"},
      {"StackPop", "StackPopV2"},
      {"StackPush", "StackPushV2"},
  };
  return names;
}

// Sums of strings are one behind the other.
bool JoinsStrings(const Node& node) {
  return (node.op == "Add" || node.op == "AddV2") && node.attrs.GetOr("T", DataType::kFloat) == DataType::kString;
}

class Expansion {
 public:
  explicit Expansion(Graph& graph) : graph_(graph) {}

  absl::StatusOr<bool> Run() {
    bool changed = false;
    const int32_t nodes = graph_.num_ids();
    for (int32_t i = 0; i < nodes; ++i) {
      if (!graph_.alive(NodeId{i}) || !IsExpanded(graph_.node(NodeId{i}))) continue;
      changed = true;
      MR_RETURN_IF_ERROR(Expand(NodeId{i}));
    }
    for (int32_t i = 0; i < graph_.num_ids() && !(redirected_.empty() && without_index_.empty()); ++i) {
      if (!graph_.alive(NodeId{i})) continue;
      for (OutputRef& input : graph_.mutable_node(NodeId{i}).inputs) {
        if (input.index == 1 && without_index_.count(input.node.value) > 0) return Refuse(input.node, "is asked which of more than two inputs it took");
        const auto found = redirected_.find(input);
        // What was put behind takes the result itself.
        if (found != redirected_.end() && own_.count(i) == 0) input = found->second;
      }
    }
    if (!places_.empty()) places_.Renumber(graph_);
    return changed;
  }

 private:
  absl::Status Expand(NodeId id) {
    MR_RETURN_IF_ERROR(CheckLeastInputs(graph_.node(id)));
    const std::string op = graph_.node(id).op;
    if (const auto renamed = Renamed().find(op); renamed != Renamed().end()) {
      Node& node = graph_.mutable_node(id);
      node.op = renamed->second;
      if (op == "XlaEinsum") node.attrs.Set("N", static_cast<int64_t>(node.inputs.size()));
      return absl::OkStatus();
    }
    if (op == "_FusedConv2D") return FusedProduct(id, "Conv2D");
    if (op == "_FusedConv3D") return FusedProduct(id, "Conv3D");
    if (op == "_FusedDepthwiseConv2dNative") return FusedProduct(id, "DepthwiseConv2dNative");
    if (op == "_FusedMatMul") return FusedProduct(id, "MatMul");
    if (op == "FusedPadConv2D" || op == "FusedResizeAndPadConv2D") return PaddedConvolution(id);
    if (op == "QuantizeAndDequantize") return OldRoundTrip(id);
    if (op == "SelfAdjointEig" || op == "BatchSelfAdjointEig") return OldEigenvalues(id);
    if (op == "ApproxTopK") return LargestOnes(id);
    if (op == "FakeParam") return NeverRead(id);
    if (op == "DeviceIndex") return IndexOfDevice(id);
    if (op == "_FusedBatchNormEx") return FusedNorm(id);
    if (op == "_FusedBatchNormGradEx") return FusedNormGradient(id);
    if (op == "_UnaryOpsComposition") return Composition(id);
    if (op == "BatchNormWithGlobalNormalization") return OldNorm(id);
    if (op == "Merge") return MergeOfMany(id);
    if (JoinsStrings(graph_.node(id))) return Joined(id);
    if (op == "_SwitchN") return SwitchToMany(id);
    if (op == "XlaDynamicSlice" || op == "XlaDynamicUpdateSlice") return SliceWithin(id);
    if (op == "RefSelect") return ChosenReference(id);
    if (op == "SobolSample") return PointsOfSobol(id);
    if (op == "MutexV2" || op == "MutexLock" || op == "ConsumeMutexLock") return Unlocked(id);
    return BackpropWithShape(id, absl::StrContains(op, "Input") ? 0 : 1);
  }

  absl::Status Refuse(NodeId id, const std::string& what) const {
    return absl::UnimplementedError(absl::StrCat("node '", graph_.node(id).name, "' (", graph_.node(id).op, "): ", what));
  }

  DataType TypeOf(NodeId id) const { return graph_.node(id).attrs.GetOr<DataType>("T", DataType::kFloat); }

  Node Part(NodeId id, const std::string& name, const std::string& op, const std::vector<OutputRef>& inputs, AttrMap attrs) const {
    Node node;
    node.name = absl::StrCat(graph_.node(id).name, "/", name);
    node.op = op;
    node.requested_device = graph_.node(id).requested_device;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
    node.attrs.Set("T", TypeOf(id));
    return node;
  }

  OutputRef Before(NodeId id, const std::string& op, const std::vector<OutputRef>& inputs, AttrMap attrs = {}) {
    Node node = Part(id, op, op, inputs, std::move(attrs));
    // What the node waited for it may have waited for with all that it did.
    node.control_inputs = graph_.node(id).control_inputs;
    return {places_.AddBefore(graph_, id, std::move(node)), 0};
  }

  void Become(NodeId id, const std::string& op, const std::vector<OutputRef>& inputs, AttrMap attrs = {}) {
    attrs.Set("T", TypeOf(id));
    Node& node = graph_.mutable_node(id);
    node.op = op;
    node.inputs.assign(inputs.begin(), inputs.end());
    node.attrs = std::move(attrs);
  }

  // An op of one argument that may follow in fused_ops.
  static bool IsActivation(const std::string& name) {
    static constexpr const char* kNames[] = {"Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Tanh", "Sigmoid", "Softplus"};
    return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* known) { return name == known; });
  }

  absl::Status FusedProduct(NodeId id, const char* op) {
    const AttrMap attrs = graph_.node(id).attrs;
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const auto fused = attrs.GetOr<std::vector<std::string>>("fused_ops", {});
    if (inputs.size() < 2 || fused.empty()) return Refuse(id, "fuses nothing");
    AttrMap product;
    const bool matrices = std::string_view(op) == "MatMul";
    const std::vector<const char*> own = matrices ? std::vector<const char*>{"transpose_a", "transpose_b"}
                                                  : std::vector<const char*>{"strides", "padding", "explicit_paddings", "data_format", "dilations"};
    for (const char* name : own) {
      if (const AttrValue* value = attrs.Find(name); value != nullptr) product.Set(name, *value);
    }
    const auto format = attrs.GetOr<std::string>("data_format", absl::StrContains(op, "3D") ? "NDHWC" : "NHWC");
    OutputRef value = Before(id, op, {inputs[0], inputs[1]}, std::move(product));
    size_t next = 2;
    for (size_t k = 0; k < fused.size(); ++k) {
      AttrMap more;
      std::vector<OutputRef> operands = {value};
      const auto take = [&](size_t count) {
        for (size_t i = 0; i < count && next < inputs.size(); ++i) operands.push_back(inputs[next++]);
        return operands.size() == count + 1;
      };
      std::string next_op = fused[k];
      bool enough = true;
      if (next_op == "BiasAdd") {
        enough = take(1);
        // TensorFlow names four dimensions; the last, or the second, is what five have, too.
        more.Set("data_format", format[1] == 'C' ? "NCHW" : "NHWC");
      } else if (next_op == "Add") {
        enough = take(1);
        next_op = "AddV2";
      } else if (next_op == "FusedBatchNorm") {
        enough = take(4);
        next_op = "FusedBatchNormV3";
        more = {{"U", DataType::kFloat}, {"is_training", false}, {"data_format", format}};
        more.Set("epsilon", attrs.GetOr<float>("epsilon", 0.0001f));
      } else if (next_op == "LeakyRelu") {
        more.Set("alpha", attrs.GetOr<float>("leakyrelu_alpha", 0.2f));
      } else if (!IsActivation(next_op)) {
        return Refuse(id, absl::StrCat("fuses ", absl::StrJoin(fused, ", "), ", of which '", next_op, "' is not known"));
      }
      if (!enough) return Refuse(id, absl::StrCat("has ", inputs.size(), " inputs for ", absl::StrJoin(fused, ", ")));
      const bool last = k + 1 == fused.size();
      if (!last) value = Before(id, next_op, operands, std::move(more));
      if (last) Become(id, next_op, operands, std::move(more));
    }
    return absl::OkStatus();
  }

  // (x[, size], paddings, filter): resized where there is a size, mirrored at its borders, convolved.
  absl::Status PaddedConvolution(NodeId id) {
    const AttrMap attrs = graph_.node(id).attrs;
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const bool resizes = graph_.node(id).op == "FusedResizeAndPadConv2D";
    if (inputs.size() != (resizes ? 4 : 3)) return Refuse(id, absl::StrCat("has ", inputs.size(), " inputs, expected ", resizes ? 4 : 3));
    OutputRef value = inputs[0];
    if (resizes) {
      value = Before(id, "ResizeBilinear", {value, inputs[1]}, {{"align_corners", attrs.GetOr("resize_align_corners", false)}});
      if (TypeOf(id) != DataType::kFloat) value = Before(id, "Cast", {value}, {{"SrcT", DataType::kFloat}, {"DstT", TypeOf(id)}});
    }
    const OutputRef padded = Before(id, "MirrorPad", {value, inputs[inputs.size() - 2]},
                                    {{"Tpaddings", DataType::kInt32}, {"mode", attrs.GetOr<std::string>("mode", "REFLECT")}});
    Become(id, "Conv2D", {padded, inputs.back()}, Without(attrs, {"mode", "resize_align_corners"}));
    return absl::OkStatus();
  }

  // The range was two attributes.
  absl::Status OldRoundTrip(NodeId id) {
    AttrMap attrs = graph_.node(id).attrs;
    const DataType dtype = TypeOf(id);
    if (dtype != DataType::kFloat && dtype != DataType::kDouble) return Refuse(id, "is of numbers other than float and double");
    std::vector<OutputRef> inputs = {graph_.node(id).inputs[0]};
    for (const char* name : {"input_min", "input_max"}) {
      const float bound = attrs.GetOr<float>(name, 0.0f);
      inputs.push_back(Constant(id, name, dtype == DataType::kFloat ? Tensor::Scalar<float>(bound) : Tensor::Scalar<double>(bound)));
    }
    Become(id, "QuantizeAndDequantizeV2", inputs, Without(attrs, {"input_min", "input_max"}));
    return absl::OkStatus();
  }

  // Eigenvalues were the row before the eigenvectors.
  absl::Status OldEigenvalues(NodeId id) {
    const OutputRef values = Before(id, "SelfAdjointEigV2", {graph_.node(id).inputs[0]}, {{"compute_v", true}});
    const OutputRef axis = Constant(id, "axis", Tensor::Scalar<int32_t>(-2));
    const OutputRef row = Before(id, "ExpandDims", {values, axis}, {{"Tdim", DataType::kInt32}});
    Become(id, "ConcatV2", {row, {values.node, 1}, axis}, {{"N", int64_t{2}}, {"Tidx", DataType::kInt32}});
    return absl::OkStatus();
  }

  // (x, scale, offset, mean, variance[, side input]); then the activation.
  absl::Status FusedNorm(NodeId id) {
    const AttrMap attrs = graph_.node(id).attrs;
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const auto activation = attrs.GetOr<std::string>("activation_mode", "Identity");
    if (inputs.size() < 5) return Refuse(id, absl::StrCat("has ", inputs.size(), " inputs, expected 5 or 6"));
    if (activation != "Identity" && activation != "Relu") return Refuse(id, absl::StrCat("activation '", activation, "' is not known"));
    AttrMap norm = Without(attrs, {"activation_mode", "num_side_inputs"});
    Become(id, "FusedBatchNormV3", {inputs.begin(), inputs.begin() + 5}, std::move(norm));
    OutputRef value{id, 0};
    if (inputs.size() > 5) value = Behind(id, "AddV2", {value, inputs[5]});
    if (activation == "Relu") value = Behind(id, "Relu", {value});
    if (!(value == OutputRef{id, 0})) redirected_[{id, 0}] = value;
    return absl::OkStatus();
  }

  // (gradient, x, scale, three reserved, offset, y) -> (of x, of scale, of offset, two reserved[, of the side input])
  absl::Status FusedNormGradient(NodeId id) {
    const AttrMap attrs = graph_.node(id).attrs;
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    if (inputs.size() != 8) return Refuse(id, absl::StrCat("has ", inputs.size(), " inputs, expected 8"));
    OutputRef gradient = inputs[0];
    if (attrs.GetOr<std::string>("activation_mode", "Identity") == "Relu") gradient = Before(id, "ReluGrad", {gradient, inputs[7]});
    std::vector<OutputRef> of_norm(inputs.begin(), inputs.begin() + 6);
    of_norm[0] = gradient;
    Become(id, "FusedBatchNormGradV3", of_norm, Without(attrs, {"activation_mode", "num_side_inputs"}));
    redirected_[{id, 5}] = gradient;
    return absl::OkStatus();
  }

  OutputRef Constant(NodeId id, const char* name, const Tensor& value) {
    Node constant = Part(id, name, "Const", {}, {});
    constant.attrs = AttrMap();
    constant.attrs.Set("dtype", value.dtype());
    constant.attrs.Set("value", value);
    return {places_.AddBefore(graph_, id, std::move(constant)), 0};
  }

  // On a CPU TensorFlow's approximation of the largest elements along the last dimension is exact.
  absl::Status LargestOnes(NodeId id) {
    const AttrMap attrs = graph_.node(id).attrs;
    if (!attrs.GetOr("is_max_k", true) || attrs.GetOr<int64_t>("reduction_dimension", -1) != -1 || !attrs.GetOr("aggregate_to_topk", true)) {
      return Refuse(id, "takes other elements than the largest along the last dimension");
    }
    const OutputRef count = Constant(id, "k", Tensor::Scalar<int32_t>(static_cast<int32_t>(attrs.GetOr<int64_t>("k", 0))));
    Become(id, "TopKV2", {graph_.node(id).inputs[0], count}, {{"sorted", true}});
    return absl::OkStatus();
  }

  // Which implementation is for this device: the CPU's on every one, so that results are the same; behind the last where none is.
  absl::Status IndexOfDevice(NodeId id) {
    Node& node = graph_.mutable_node(id);
    const auto names = node.attrs.GetOr<std::vector<std::string>>("device_names", {});
    const auto index = std::find(names.begin(), names.end(), "CPU") - names.begin();
    node.op = "Const";
    node.attrs = AttrMap();
    node.attrs.Set("dtype", DataType::kInt32);
    node.attrs.Set("value", Tensor::Scalar<int32_t>(static_cast<int32_t>(index)));
    return absl::OkStatus();
  }

  // What stands in for a result of the branch that was not taken.
  absl::Status NeverRead(NodeId id) {
    const DataType dtype = graph_.node(id).attrs.GetOr<DataType>("dtype", DataType::kFloat);
    const Shape given = graph_.node(id).attrs.GetOr<Shape>("shape", Shape::UnknownRank());
    if (DataTypeSize(dtype) == 0) return Refuse(id, "has no value to stand in for");
    std::vector<int64_t> dims;
    for (int d = 0; !given.unknown_rank() && d < given.rank(); ++d) dims.push_back(std::max<int64_t>(given.dim(d), 1));
    const OutputRef shape = Constant(id, "shape", Tensor::Vector<int64_t>(absl::MakeConstSpan(dims)));
    const OutputRef zero = Constant(id, "value", Tensor(dtype, Shape()));
    Node& node = graph_.mutable_node(id);
    node.op = "Fill";
    node.inputs.assign({shape, zero});
    node.attrs = AttrMap();
    node.attrs.Set("T", dtype);
    node.attrs.Set("index_type", DataType::kInt64);
    return absl::OkStatus();
  }

  absl::Status Composition(NodeId id) {
    const auto names = graph_.node(id).attrs.GetOr<std::vector<std::string>>("op_names", {});
    if (names.empty() || graph_.node(id).inputs.size() != 1) return Refuse(id, "composes nothing");
    OutputRef value = graph_.node(id).inputs[0];
    for (size_t k = 0; k + 1 < names.size(); ++k) value = Before(id, names[k], {value});
    Become(id, names.back(), {value});
    return absl::OkStatus();
  }

  // (x, mean, variance, offset, scale): what batch normalisation was before it had a form for training.
  absl::Status OldNorm(NodeId id) {
    const AttrMap attrs = graph_.node(id).attrs;
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    if (inputs.size() != 5) return Refuse(id, absl::StrCat("has ", inputs.size(), " inputs, expected 5"));
    const OutputRef small = Constant(id, "epsilon", Tensor::Scalar<float>(attrs.GetOr<float>("variance_epsilon", 0.0f)));
    OutputRef scale = Before(id, "Rsqrt", {Before(id, "AddV2", {inputs[2], small})});
    if (attrs.GetOr("scale_after_normalization", false)) scale = Before(id, "Mul", {scale, inputs[4]});
    const OutputRef scaled = Before(id, "Mul", {Before(id, "Sub", {inputs[0], inputs[1]}), scale});
    Become(id, "AddV2", {scaled, inputs[3]});
    return absl::OkStatus();
  }

  // (data, index): output i is there where the index is i, the last one where it is any other. A Switch for each but the last.
  absl::Status SwitchToMany(NodeId id) {
    const OutputRef data = graph_.node(id).inputs[0], index = graph_.node(id).inputs[1];
    const int64_t outputs = graph_.node(id).attrs.GetOr<int64_t>("num_outs", 0);
    if (outputs < 1) return Refuse(id, "has no outputs");
    if (outputs == 1) {
      Become(id, "Identity", {data});
      return absl::OkStatus();
    }
    OutputRef rest;
    for (int64_t k = 0; k + 1 < outputs; ++k) {
      const OutputRef number = Constant(id, "number", Tensor::Scalar<int32_t>(static_cast<int32_t>(k)));
      const OutputRef asked = Before(id, "Equal", {index, number});
      graph_.mutable_node(asked.node).attrs.Set("T", DataType::kInt32);
      if (k == 0) {
        Become(id, "Switch", {data, asked});
        rest = {id, 0};
      } else {
        rest = Behind(id, "Switch", {rest, asked});
      }
      redirected_[{id, static_cast<int32_t>(k)}] = {rest.node, 1};
    }
    redirected_[{id, static_cast<int32_t>(outputs - 1)}] = rest;
    return absl::OkStatus();
  }

  // The inputs are those of a _SwitchN's branches, in order: the last two are the sides of one predicate, and so on.
  absl::Status MergeOfMany(NodeId id) {
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const AttrMap two{{"N", int64_t{2}}};
    OutputRef rest = inputs.back();
    for (size_t k = inputs.size() - 2; k > 0; --k) rest = Before(id, "Merge", {inputs[k], rest}, two);
    Become(id, "Merge", {inputs[0], rest}, two);
    without_index_.insert(id.value);
    return absl::OkStatus();
  }

  // XLA moves a slice that would reach over the end back, so that it ends there.
  absl::Status SliceWithin(NodeId id) {
    const bool updates = graph_.node(id).op == "XlaDynamicUpdateSlice";
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin(), graph_.node(id).inputs.end());
    const DataType index = graph_.node(id).attrs.GetOr<DataType>("Tindices", DataType::kInt32);
    const OutputRef start = inputs[updates ? 2 : 1];
    const auto of_indices = [&](const char* op, const std::vector<OutputRef>& of) {
      const OutputRef made = Before(id, op, of);
      graph_.mutable_node(made.node).attrs.Set("T", index);
      return made;
    };
    const AttrMap as_index{{"out_type", index}};
    const OutputRef size = updates ? Before(id, "Shape", {inputs[1]}, as_index) : inputs[2];
    const OutputRef last = of_indices("Sub", {Before(id, "Shape", {inputs[0]}, as_index), size});
    const OutputRef begin = of_indices("Maximum", {of_indices("Minimum", {start, last}), of_indices("ZerosLike", {last})});
    if (!updates) {
      Become(id, "Slice", {inputs[0], begin, size}, {{"Index", index}});
      return absl::OkStatus();
    }
    const OutputRef end = of_indices("AddV2", {begin, size});
    Become(id, "TensorStridedSliceUpdate", {inputs[0], begin, end, of_indices("OnesLike", {last}), inputs[1]}, {{"Index", index}});
    return absl::OkStatus();
  }

  // (index, references): each but the last comes through a side of its own, as the branches of a Case do.
  absl::Status ChosenReference(NodeId id) {
    const std::vector<OutputRef> inputs(graph_.node(id).inputs.begin() + 1, graph_.node(id).inputs.end());
    const OutputRef index = graph_.node(id).inputs[0];
    const auto ask = [&](const char* op, int64_t number) {
      const OutputRef asked = Before(id, op, {index, Constant(id, "number", Tensor::Scalar<int32_t>(static_cast<int32_t>(number)))});
      graph_.mutable_node(asked.node).attrs.Set("T", DataType::kInt32);
      return asked;
    };
    const auto count = static_cast<int64_t>(inputs.size());
    constexpr int64_t kMostReferences = 64;  // each has the sides of all before it
    if (count > kMostReferences) return Refuse(id, absl::StrCat("chooses one of ", count, " references, expected at most ", kMostReferences));
    const OutputRef in_range = Before(id, "LogicalAnd", {ask("GreaterEqual", 0), ask("Less", count)});
    graph_.mutable_node(in_range.node).attrs.Erase("T");
    const OutputRef check = Before(id, "Assert", {in_range, index});
    graph_.mutable_node(check.node).attrs.Set("T", std::vector<DataType>{DataType::kInt32});
    graph_.mutable_node(id).control_inputs.push_back(check.node);
    std::vector<OutputRef> sides = inputs;
    for (int64_t k = 0; k + 1 < count; ++k) {
      const OutputRef taken = ask("Equal", k);
      for (int64_t i = k; i < count; ++i) {
        sides[i] = Before(id, "RefSwitch", {sides[i], taken});
        sides[i].index = i == k ? 1 : 0;
      }
    }
    const AttrMap two{{"N", int64_t{2}}};
    OutputRef rest = sides.back();
    for (int64_t k = count - 2; k > 0; --k) rest = Before(id, "RefMerge", {rest, sides[k]}, two);
    if (count > 1) Become(id, "RefMerge", {rest, sides[0]}, two);
    if (count == 1) Become(id, "RefIdentity", {sides[0]});
    return absl::OkStatus();
  }

  // (dimensions, points, points left out)
  absl::Status PointsOfSobol(NodeId id) {
    int64_t numbers[3];
    for (int i = 0; i < 3; ++i) {
      const Tensor* value = ConstantAt(graph_.node(id).inputs[i]);
      const bool is_number = value != nullptr && value->dtype() == DataType::kInt32 && value->num_elements() == 1;
      if (!is_number) return Refuse(id, "takes dimensions and counts that are computed, expected constants");
      numbers[i] = value->IntAt(0);
    }
    absl::StatusOr<Tensor> points = SobolPoints(numbers[0], numbers[1], numbers[2], graph_.node(id).attrs.GetOr("dtype", DataType::kFloat));
    if (!points.ok()) return WithPrefix(points.status(), absl::StrCat("node '", graph_.node(id).name, "' (SobolSample)"));
    Node& node = graph_.mutable_node(id);
    node.op = "Const";
    node.inputs.clear();
    node.attrs = AttrMap{{"dtype", points->dtype()}, {"value", *std::move(points)}};
    return absl::OkStatus();
  }

  // nullptr where it is computed.
  const Tensor* ConstantAt(OutputRef ref) const {
    while (graph_.node(ref.node).op == "Identity" && !graph_.node(ref.node).inputs.empty()) ref = graph_.node(ref.node).inputs[0];
    const AttrValue* value = graph_.node(ref.node).op == "Const" ? graph_.node(ref.node).attrs.Find("value") : nullptr;
    return value == nullptr ? nullptr : std::get_if<Tensor>(value);
  }

  absl::Status Joined(NodeId id) {
    Node& node = graph_.mutable_node(id);
    node.op = "StringJoin";
    node.attrs.Set("N", static_cast<int64_t>(node.inputs.size()));
    node.attrs.Set("_broadcast", true);  // as sums are, and joined strings are not
    return absl::OkStatus();
  }

  // A section under a lock excludes others by the order of variables' accesses, which is that of a run of one thread.
  absl::Status Unlocked(NodeId id) {
    Node& node = graph_.mutable_node(id);
    for (OutputRef input : node.inputs) node.control_inputs.push_back(input.node);
    node.inputs.clear();
    node.op = "NoOp";
    node.attrs = AttrMap();
    return absl::OkStatus();
  }

  // Conv2DBackprop*V2 and the first Conv3DBackprop* take a tensor where the others take its shape.
  absl::Status BackpropWithShape(NodeId id, size_t input) {
    if (graph_.node(id).inputs.size() != 3) return Refuse(id, "has not three inputs");
    const OutputRef of = graph_.node(id).inputs[input];
    const OutputRef shape = Before(id, "Shape", {of}, {{"out_type", DataType::kInt32}});
    Node& node = graph_.mutable_node(id);
    const bool younger = absl::EndsWith(node.op, "V2");
    node.op = younger ? node.op.substr(0, node.op.size() - 2) : node.op + "V2";
    node.inputs[input] = shape;
    return absl::OkStatus();
  }

  OutputRef Behind(NodeId id, const std::string& op, const std::vector<OutputRef>& inputs) {
    const NodeId added = places_.AddAfter(graph_, id, Part(id, op, op, inputs, {}));
    own_.insert(added.value);
    return {added, 0};
  }

  static AttrMap Without(AttrMap attrs, std::initializer_list<const char*> names) {
    for (const char* name : names) attrs.Erase(name);
    return attrs;
  }

  Graph& graph_;
  CreationPlaces places_;
  std::map<OutputRef, OutputRef> redirected_;
  std::set<int32_t> own_;            // nodes put behind one that they take
  std::set<int32_t> without_index_;  // Merge nodes of more than two inputs
};

}  // namespace

bool IsExpanded(const std::string& op) {
  static const auto& fused = *new std::set<std::string>{
      "_FusedConv2D",          "_FusedConv3D",          "_FusedDepthwiseConv2dNative",     "_FusedBatchNormEx", "_FusedBatchNormGradEx",
      "Conv2DBackpropInputV2", "Conv2DBackpropFilterV2", "BatchNormWithGlobalNormalization", "_UnaryOpsComposition",
      "Conv3DBackpropInput",   "Conv3DBackpropFilter",   "ApproxTopK",  "FakeParam", "DeviceIndex", "_SwitchN", "MutexV2", "MutexLock", "ConsumeMutexLock",
      "XlaDynamicSlice",       "XlaDynamicUpdateSlice", "FusedPadConv2D", "FusedResizeAndPadConv2D", "QuantizeAndDequantize", "SelfAdjointEig",
      "BatchSelfAdjointEig", "RefSelect", "SobolSample"};
  return fused.count(op) > 0 || Renamed().count(op) > 0;
}

bool IsExpandedForInputs(const Node& node) {
  const bool adds_to_product = node.op == "_FusedMatMul" && node.inputs.size() > 3;
  const bool merges_many = node.op == "Merge" && node.inputs.size() > 2;
  return adds_to_product || merges_many || JoinsStrings(node);
}

bool IsExpanded(const Node& node) { return IsExpandedForInputs(node) || IsExpanded(node.op); }

absl::StatusOr<bool> ExpandOps(Graph& graph) { return Expansion(graph).Run(); }

}  // namespace millrace
