// ModelProto -> graph. LoadOnnx is declared in millrace/onnx.h.
#ifndef MILLRACE_SRC_IMPORT_ONNX_IMPORTER_H_
#define MILLRACE_SRC_IMPORT_ONNX_IMPORTER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/onnx.h"
#include "onnx/lowering.h"

namespace millrace::onnx {

// The model in the bytes of a ModelProto; external data is read from `folder` (empty: there is none).
absl::StatusOr<OnnxModel> OnnxFromBytes(std::string_view bytes, const std::string& folder, const OnnxOptions& options);

// A Loop without a condition whose body computes one, which does not end it; "" where there is none.
std::string LoopPastItsCondition(const onnx_proto::ModelProto& model);

constexpr int kMostNested = 32;  // graphs and calls

// The version of ONNX's own operators.
int64_t MainOpset(const google::protobuf::RepeatedPtrField<onnx_proto::OperatorSetIdProto>& sets, int64_t fallback);

// One attempt at importing. When it fails because values of inputs or initialisers decide shapes or turns, `missing_values`
// names them: another attempt with these among `baked` may succeed. `selects`: ValueSource::selects.
class Importer final : public ValueSource {
 public:
  Importer(const onnx_proto::ModelProto& model, const std::string& folder, const OnnxOptions& options,
           const std::set<std::string>& baked, bool selects);

  absl::StatusOr<OnnxModel> Run();
  const std::set<std::string>& missing_values() const { return missing_values_; }

  Output Use(const std::string& name) override { return UseAs(name, true); }
  Output UseState(const std::string& name) override { return UseAs(name, false); }
  ModelValue UseAny(const std::string& name) override;
  absl::StatusOr<Tensor> Value(const std::string& name) override;
  absl::StatusOr<Tensor> Known(const Output& output) override;
  const Variable* FindVariable(const std::string& name) override;
  absl::StatusOr<std::vector<ModelValue>> Lower(const onnx_proto::GraphProto& graph,
                                                const std::vector<ModelValue>& inputs) override;
  const std::string& folder() const override { return folder_; }
  bool training() const override { return options_.training.has_value(); }
  bool selects() const override { return selects_; }

 private:
  // What a name stands for.
  struct Entry {
    Output output;                             // of nodes and inputs
    std::shared_ptr<const Sequence> sequence;  // in its place
    const char* missing = nullptr;             // in its place: what it would come from
    const onnx_proto::TensorProto* initializer = nullptr;
  };
  // What an initialiser became when it was first used; the same for all names and steps of loops that stand for it.
  struct Initializer {
    std::string name;  // its own, with a number where another initialiser has that
    Output constant;
    Variable variable;
  };
  // What names stood for before a nested graph gave them its own meaning, in order.
  using Shadowed = std::vector<std::pair<std::string, std::optional<Entry>>>;
  using Symbols = std::map<std::string, std::pair<int64_t, std::string>>;  // sizes of dimensions by name, -1 where inputs say several, and who says so
  using Names = std::map<std::string, Entry>;

  Output UseAs(const std::string& name, bool trainable);
  absl::Status CheckOps() const;
  void CountUnsupported(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& nodes,
                        std::map<std::string, int64_t>& counts, std::vector<const onnx_proto::FunctionProto*>& called) const;
  absl::Status AddInitializers(const onnx_proto::GraphProto& graph);
  std::string NameOutsideScopes(const std::string& name, const char* kind) const;  // of a node for a tensor of the model
  absl::Status AddInputs();
  absl::StatusOr<Output> AddInput(const std::string& name, const TensorType& type);
  absl::Status AddSequenceInput(const onnx_proto::ValueInfoProto& input);
  absl::Status CheckShapesAreOfInputs() const;
  Entry EntryOf(const ModelValue& value) const;
  void Bind(const std::string& name, Entry entry);
  absl::StatusOr<Shape> InputShape(const onnx_proto::ValueInfoProto& input, Symbols& symbols) const;
  absl::Status AddNodes(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& nodes);
  absl::StatusOr<std::vector<int>> Order(const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& nodes) const;
  absl::Status AddNode(const onnx_proto::NodeProto& node);
  absl::Status AddCall(const onnx_proto::NodeProto& node, const onnx_proto::FunctionProto& function);
  // The function's nodes with the call's attributes. Kept, so that every step of a loop lowers the same.
  const google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>& BodyOf(const onnx_proto::NodeProto& node,
                                                                          const onnx_proto::FunctionProto& function);
  const onnx_proto::FunctionProto* FindFunction(const onnx_proto::NodeProto& node) const;
  Variable AddVariable(const std::string& name, const Tensor& value, bool trainable);
  absl::Status AddOutput(const std::string& name, const Output& value, OnnxModel& result);
  absl::Status AddOutputs(OnnxModel& result);
  // Nodes `loss`, `train`, `init` (training.cc).
  absl::Status AddTraining(OnnxModel& result);
  absl::StatusOr<Output> LossTerm(const std::string& text);
  size_t EndOfTensorName(const std::string& text) const;
  absl::StatusOr<Output> LossInput(const std::string& name, TensorType type);
  absl::StatusOr<Output> FindTensor(const std::string& name);

  const onnx_proto::ModelProto& model_;
  const std::string& folder_;
  const OnnxOptions& options_;
  const std::set<std::string>& baked_;
  const bool selects_;
  GraphBuilder b_;
  Names names_;
  Shadowed* shadowed_ = nullptr;  // of the nested graph that is lowered
  std::map<const onnx_proto::TensorProto*, Initializer> initializers_;
  std::set<std::string> initializer_names_;  // that are taken
  std::map<std::string, int> next_numbers_;  // behind them, by what they are called in the file
  std::map<const onnx_proto::NodeProto*, Output> constants_;  // of Constant nodes
  std::map<const onnx_proto::NodeProto*, google::protobuf::RepeatedPtrField<onnx_proto::NodeProto>> bodies_;  // by call
  int64_t opset_ = 0;
  bool reads_narrow_ = false;  // the node that is lowered takes initialisers of 4-bit integers and 8-bit floats
  int depth_ = 0;  // of nested graphs and calls
  std::map<std::string, std::string> inputs_;   // ONNX name -> placeholder
  std::map<int32_t, std::string> placeholders_;  // node id -> ONNX name
  std::map<int32_t, std::string> small_weights_;  // of variables that initialisers of few elements became
  std::map<std::string, Tensor> variables_;
  std::set<std::string> missing_values_;
};

}  // namespace millrace::onnx

#endif  // MILLRACE_SRC_IMPORT_ONNX_IMPORTER_H_
