#include "import_targets.h"

#include <algorithm>

#include <glog/logging.h>

#include "graph/text.h"
#include "graph/verify.h"
#include "import/checkpoint.h"
#include "import/graph_export.h"
#include "import/graph_file.h"
#include "import/graph_import.h"
#include "import/npz.h"
#include "import/saved_model.h"
#include "onnx/importer.h"
#include "proto/parse.h"

namespace millrace {
namespace {

constexpr int64_t kManyElements = 1 << 20;

// A status that refuses: one line, not empty, not our own fault. Returns false.
bool CheckRefusal(const absl::Status& status) {
  CHECK(!status.message().empty());
  CHECK(status.message().find('\n') == absl::string_view::npos) << status;
  CHECK(status.code() != absl::StatusCode::kInternal) << status;
  return false;
}

// Whether printing all elements of every tensor is cheap.
bool IsSmall(const Graph& graph) {
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    for (const auto& [name, value] : graph.node(NodeId{i}).attrs) {
      const Tensor* tensor = std::get_if<Tensor>(&value);
      if (tensor != nullptr && tensor->num_elements() > kManyElements) return false;
    }
  }
  return true;
}

}  // namespace

bool FuzzGraphFile(std::string_view bytes) {
  absl::StatusOr<Graph> graph = GraphFromBytes(bytes);
  if (!graph.ok()) return CheckRefusal(graph.status());
  CHECK(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  const absl::StatusOr<proto::GraphDef> proto = GraphToProto(*graph);
  if (!proto.ok() || !IsSmall(*graph)) return true;  // an output number that the op does not have
  const absl::StatusOr<Graph> again = GraphFromProto(*proto);
  CHECK(again.ok()) << again.status();
  const GraphTextOptions options{.max_tensor_elements = kManyElements};
  CHECK_EQ(GraphToText(*again, options), GraphToText(*graph, options));
  return true;
}

bool FuzzGraphText(std::string_view bytes) {
  const absl::StatusOr<Graph> graph = ParseGraphText(bytes);
  if (!graph.ok()) return CheckRefusal(graph.status());
  const GraphTextOptions options{.max_tensor_elements = kManyElements};
  const std::string text = GraphToText(*graph, options);
  const absl::StatusOr<Graph> again = ParseGraphText(text);
  if (!again.ok() && !IsSmall(*graph)) return true;
  CHECK(again.ok()) << again.status() << "\n" << text;
  CHECK_EQ(GraphToText(*again, options), text);
  return true;
}

bool FuzzArrays(std::string_view bytes) {
  const absl::StatusOr<std::map<std::string, Tensor>> arrays = ArraysFromNpz(bytes);
  if (!arrays.ok()) CheckRefusal(arrays.status());
  const absl::StatusOr<Tensor> array = ArrayFromNpy(bytes);
  if (!array.ok()) CheckRefusal(array.status());
  return arrays.ok() || array.ok();
}

bool FuzzSavedModel(std::string_view bytes) {
  const absl::StatusOr<SavedModel> model = SavedModelFromBytes(bytes, {"serve"}, "");
  if (!model.ok()) return CheckRefusal(model.status());
  CHECK(VerifyGraph(model->graph).ok());
  for (const auto& [name, signature] : model->signatures) {
    for (const auto& [key, info] : signature.inputs) CHECK(model->graph.FindTensor(info.tensor).ok());
    for (const auto& [key, info] : signature.outputs) CHECK(model->graph.FindTensor(info.tensor).ok());
    for (const std::string& target : signature.targets) CHECK(model->graph.Find(target).valid());
  }
  return true;
}

bool FuzzOnnx(std::string_view bytes) {
  const absl::StatusOr<OnnxModel> model = onnx::OnnxFromBytes(bytes, "", {});
  if (!model.ok()) return CheckRefusal(model.status());
  CHECK(VerifyGraph(model->graph).ok()) << VerifyGraph(model->graph);
  for (const auto& [name, node] : model->inputs) CHECK(model->graph.Find(node).valid()) << name;
  for (const auto& [name, tensor] : model->tensors) CHECK(model->graph.FindTensor(tensor).ok()) << name;
  return true;
}

bool FuzzCheckpointIndex(std::string_view bytes) {
  const absl::StatusOr<CheckpointIndex> index = ParseCheckpointIndex(bytes);
  return index.ok() || CheckRefusal(index.status());
}

bool FuzzCheckpointEntry(std::string_view bytes) {
  if (bytes.empty()) return false;
  const size_t size = std::min<size_t>(static_cast<unsigned char>(bytes[0]), bytes.size() - 1);
  proto::BundleEntryProto entry;
  if (!ParseBinary(bytes.substr(1, size), &entry).ok()) return false;
  const absl::StatusOr<Tensor> tensor = TensorFromEntry(entry, bytes.substr(1 + size));
  if (!tensor.ok()) return CheckRefusal(tensor.status());
  CHECK(tensor->shape().fully_known());
  return true;
}

}  // namespace millrace
