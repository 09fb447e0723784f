// Makes small ONNX models, and runs what they are imported to.
#ifndef MILLRACE_TESTS_ONNX_MODEL_MAKER_H_
#define MILLRACE_TESTS_ONNX_MODEL_MAKER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/onnx.h"
#include "millrace/session.h"
#include "millrace/proto/onnx.pb.h"

namespace millrace::testing {

using Arrays = std::map<std::string, Tensor>;

class ModelMaker {
 public:
  explicit ModelMaker(int64_t opset = 17);

  // A dimension of -1 is open; `symbol` names it.
  ModelMaker& Input(const std::string& name, std::vector<int64_t> dims, int type = onnx_proto::TensorProto::FLOAT,
                    const std::string& symbol = "");
  ModelMaker& Initializer(const std::string& name, std::vector<int64_t> dims, std::vector<float> values);
  ModelMaker& IntInitializer(const std::string& name, std::vector<int64_t> dims, std::vector<int64_t> values);
  onnx_proto::NodeProto& Node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs);
  ModelMaker& Output(const std::string& name);
  // A function of domain "mine" with the body's nodes.
  onnx_proto::FunctionProto& Function(const std::string& name, std::vector<std::string> inputs, std::vector<std::string> outputs,
                                      const ModelMaker& body);
  onnx_proto::NodeProto& Call(const std::string& function, std::vector<std::string> inputs, std::vector<std::string> outputs);
  onnx_proto::ModelProto& proto() { return model_; }
  const onnx_proto::ModelProto& proto() const { return model_; }
  onnx_proto::GraphProto& graph() { return *model_.mutable_graph(); }
  std::string bytes() const { return model_.SerializeAsString(); }

  // Imported without a folder for external data.
  absl::StatusOr<OnnxModel> Import(const OnnxOptions& options = {}) const;

 private:
  onnx_proto::ModelProto model_;
};

void SetInt(onnx_proto::NodeProto& node, const std::string& name, int64_t value);
void SetInts(onnx_proto::NodeProto& node, const std::string& name, std::vector<int64_t> values);
// The body's graph as an attribute.
void SetGraph(onnx_proto::NodeProto& node, const std::string& name, const ModelMaker& body);

Tensor Floats(Shape shape, std::vector<float> values);
Tensor Ints(Shape shape, std::vector<int64_t> values);

// Imports with the feeds as values and fetches every output, by ONNX's names.
absl::StatusOr<Arrays> RunOnce(const std::string& model, const Arrays& feeds);
// Imports without values and runs one session with all feeds in turn.
absl::StatusOr<std::vector<Arrays>> RunWithEach(const std::string& model, const std::vector<Arrays>& feeds);
// Runs `steps` training steps and gives the losses; `session` is left for more.
absl::StatusOr<std::vector<float>> TrainFor(OnnxModel model, const Arrays& feeds, int steps,
                                            std::unique_ptr<Session>* session = nullptr);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_ONNX_MODEL_MAKER_H_
