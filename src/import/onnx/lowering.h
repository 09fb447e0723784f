// How one ONNX node becomes TensorFlow's ops: what a lowering sees of the node, and the table of lowerings.
//
// A lowering runs when all inputs are there, emits nodes into the builder (under a scope of the node's name) and sets the
// outputs. Shapes are fully known. Errors of the builder are found by the importer after the call.
#ifndef MILLRACE_SRC_IMPORT_ONNX_LOWERING_H_
#define MILLRACE_SRC_IMPORT_ONNX_LOWERING_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph_builder.h"
#include "millrace/graph_ops.h"
#include "millrace/status.h"
#include "millrace/proto/onnx.pb.h"

namespace millrace::onnx {

using IntList = std::vector<int64_t>;

// What a name of the model stands for: a tensor, or a sequence of tensors whose number is known.
using Sequence = std::vector<Output>;
struct ModelValue {
  Output tensor;
  std::shared_ptr<const Sequence> sequence;  // nullptr: a tensor
  const char* missing = nullptr;  // there is neither: what it would come from, an error once it is used
  bool valid() const { return sequence != nullptr || tensor.valid(); }
};
inline ModelValue ValueOf(Output tensor) { return {std::move(tensor), nullptr, nullptr}; }
inline ModelValue ValueOf(Sequence tensors) { return {Output(), std::make_shared<const Sequence>(std::move(tensors)), nullptr}; }
inline ModelValue NoValue(const char* source) { return {Output(), nullptr, source}; }

// Where a node's inputs come from. The importer's side of a lowering.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  // The tensor of that name; initialisers become variables here.
  virtual Output Use(const std::string& name) = 0;
  // The same, but an initialiser becomes a variable that does not train.
  virtual Output UseState(const std::string& name) = 0;
  // The same, where sequences are welcome, too.
  virtual ModelValue UseAny(const std::string& name) = 0;
  // Its value when it is known before the graph runs, else an error; an initialiser does not become a variable.
  virtual absl::StatusOr<Tensor> Value(const std::string& name) = 0;
  // The same of a tensor in the graph; the error says what it is computed from.
  virtual absl::StatusOr<Tensor> Known(const Output& output) = 0;
  // A variable that an initialiser became, or nullptr.
  virtual const Variable* FindVariable(const std::string& name) = 0;
  // Lowers a nested graph, which sees the names of this one, with these inputs; its outputs in order. May be called
  // many times, once for every step of a loop.
  virtual absl::StatusOr<std::vector<ModelValue>> Lower(const onnx_proto::GraphProto& graph,
                                                        const std::vector<ModelValue>& inputs) = 0;
  // Where external data of attributes lies; empty: nowhere.
  virtual const std::string& folder() const = 0;
  // True when gradients and updates will be added.
  virtual bool training() const = 0;
  // Whether what only values decide, when running, is selected of all that it may be; else it must be known.
  virtual bool selects() const = 0;
};

class NodeContext {
 public:
  NodeContext(GraphBuilder& builder, const onnx_proto::NodeProto& node, int64_t opset, ValueSource& source);

  GraphBuilder& b;
  const onnx_proto::NodeProto& node() const { return node_; }
  int64_t opset() const { return opset_; }
  ValueSource& source() const { return source_; }

  // ---- Inputs. Requires has(i) unless said otherwise.
  int num_inputs() const { return node_.input_size(); }
  bool has(int i) const { return i < node_.input_size() && !node_.input(i).empty(); }
  Output in(int i);
  Output state(int i);
  ModelValue any(int i);
  absl::StatusOr<Sequence> sequence(int i);
  // Error when absent or not known before the graph runs.
  absl::StatusOr<Tensor> Constant(int i);
  absl::StatusOr<IntList> ConstantInts(int i);
  absl::StatusOr<std::vector<double>> ConstantFloats(int i);
  absl::Status ExpectInputs(int least, int most) const;

  // ---- Outputs
  int num_outputs() const { return node_.output_size(); }
  bool wants(int i) const { return i < node_.output_size() && !node_.output(i).empty(); }
  void Set(int i, const Output& output) { Set(i, ValueOf(output)); }
  void Set(int i, ModelValue value);
  const std::vector<ModelValue>& outputs() const { return outputs_; }

  // ---- Attributes, with the op's default
  const onnx_proto::AttributeProto* Attribute(std::string_view name) const;  // nullptr when absent
  int64_t Int(std::string_view name, int64_t fallback) const;
  float Float(std::string_view name, float fallback) const;
  std::string String(std::string_view name, std::string_view fallback) const;
  IntList Ints(std::string_view name, IntList fallback) const;
  std::vector<float> Floats(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;

  // An axis of a tensor of this rank counted from the front; an error when there is none.
  absl::StatusOr<int64_t> Axis(int64_t axis, int rank) const;
  absl::StatusOr<IntList> Axes(IntList axes, int rank) const;
  absl::Status Error(std::string_view message) const;
  absl::Status Unsupported(std::string_view message) const;
  std::string Describe() const;  // "node 'name' (Op)"

 private:
  const onnx_proto::NodeProto& node_;
  const int64_t opset_;
  ValueSource& source_;
  std::vector<ModelValue> outputs_;
};

using Lowering = absl::Status (*)(NodeContext& c);

class LoweringTable {
 public:
  static const LoweringTable& Builtin();
  // "Relu", or "domain.Op" for other domains than ONNX's own.
  void Add(std::string_view op, Lowering lowering);
  Lowering Find(const std::string& op) const;  // nullptr when there is none

 private:
  std::map<std::string, Lowering> lowerings_;
};
std::string QualifiedOp(const onnx_proto::NodeProto& node);

void AddActivationLowerings(LoweringTable& table);
void AddArrayLowerings(LoweringTable& table);      // Concat, Split, Slice, Tile, Expand, …
void AddAttentionLowerings(LoweringTable& table);  // attention, its caches and positions
void AddControlLowerings(LoweringTable& table);    // If, Loop, Scan
void AddConvLowerings(LoweringTable& table);
void AddDetectionLowerings(LoweringTable& table);  // regions, deformed convolutions, boxes
void AddGatherLowerings(LoweringTable& table);     // gathers, scatters, OneHot, TopK
void AddLossLowerings(LoweringTable& table);
void AddMathLowerings(LoweringTable& table);       // elementwise, matrix products
void AddMlLowerings(LoweringTable& table);         // ai.onnx.ml: scaling, encoding, linear models
void AddNormLowerings(LoweringTable& table);
void AddOtherLowerings(LoweringTable& table);      // other domains; results as long as the values say
void AddPadLowerings(LoweringTable& table);
void AddPoolLowerings(LoweringTable& table);
void AddQuantizeLowerings(LoweringTable& table);
void AddRandomLowerings(LoweringTable& table);
void AddRecurrentLowerings(LoweringTable& table);
void AddReductionLowerings(LoweringTable& table);
void AddResizeLowerings(LoweringTable& table);
void AddSamplingLowerings(LoweringTable& table);   // GridSample and its kin
void AddSequenceLowerings(LoweringTable& table);   // sequences, optionals
void AddShapeLowerings(LoweringTable& table);      // shapes, constants, casts
void AddSignalLowerings(LoweringTable& table);     // Fourier transforms
void AddStringLowerings(LoweringTable& table);     // strings joined, split, counted
void AddSvmLowerings(LoweringTable& table);        // ai.onnx.ml: support vectors
void AddTreeLowerings(LoweringTable& table);       // ai.onnx.ml: ensembles of trees

// ---- What lowerings share
inline IntList Dims(const Output& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }
// Saturates.
int64_t Product(const IntList& list);
// 0, 1, …, rank - 1.
IntList Iota(int64_t count);
// The type's TensorFlow counterpart; kInvalid when there is none.
DataType TypeFromOnnx(int32_t type);
// A constant of rank 1 with these elements.
Output Vector(GraphBuilder& b, DataType dtype, const std::vector<double>& values, Shape shape);
// `x` as a type that the op computes in, for types that its kernels do not have; the result is cast back.
Output AsWide(const Output& x);
bool IsUnsigned(DataType dtype);
// |x|: TensorFlow has no Abs of types without a sign.
Output Magnitude(const Output& x);
// What DynamicQuantizeLinear leaves of the floats: multiples of a 255th of their range, zero included.
Output RoundedByRange(const Output& x);
// numpy.matmul, in a wider type where there are no kernels.
Output MatrixProduct(const Output& a, const Output& b);
// The convolution of a Conv-like node, without a bias; window, padding and groups are its attributes.
absl::StatusOr<Output> Convolution(const NodeContext& c, Output x, Output weights);
// The lowest (highest) value of a type, -inf (inf) of floats.
double Lowest(DataType dtype);
double Highest(DataType dtype);
// Where one ONNX padding attribute pair (auto_pad, pads) puts the padding of every spatial dimension.
struct SpatialPads {
  IntList before, after;
  bool any() const;
};
struct SpatialWindow {
  IntList sizes, strides, dilations;
};
// Window attributes of `spatial` dimensions: strides and dilations default to 1.
absl::StatusOr<SpatialWindow> ReadWindow(const NodeContext& c, IntList sizes);
absl::StatusOr<SpatialPads> ReadPads(const NodeContext& c, const IntList& input, const SpatialWindow& window);
// x padded by `value` in all dimensions after the first two.
Output PadSpatial(const Output& x, const SpatialPads& pads, double value);
// Slice with steps of 1 in every dimension.
Output Part(const Output& x, IntList begin, IntList size);
// x[:, :, begin::step] over every dimension: StridedSlice with `count` elements each.
Output Strided(const Output& x, const IntList& begin, const IntList& count, const IntList& step);

}  // namespace millrace::onnx

#endif  // MILLRACE_SRC_IMPORT_ONNX_LOWERING_H_
