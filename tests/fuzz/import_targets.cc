#include "import_targets.h"

#include <glog/logging.h>

#include "graph/text.h"
#include "graph/verify.h"
#include "import/graph_export.h"
#include "import/graph_file.h"
#include "import/graph_import.h"
#include "import/npz.h"

namespace millrace {
namespace {

constexpr int64_t kManyElements = 1 << 20;

// A status that refuses: one line, not empty, not our own fault.
void CheckRefusal(const absl::Status& status) {
  CHECK(!status.message().empty());
  CHECK(status.message().find('\n') == absl::string_view::npos) << status;
  CHECK(status.code() != absl::StatusCode::kInternal) << status;
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

void FuzzGraphFile(std::string_view bytes) {
  absl::StatusOr<Graph> graph = GraphFromBytes(bytes);
  if (!graph.ok()) return CheckRefusal(graph.status());
  CHECK(VerifyGraph(*graph).ok()) << VerifyGraph(*graph);
  const absl::StatusOr<proto::GraphDef> proto = GraphToProto(*graph);
  if (!proto.ok() || !IsSmall(*graph)) return;  // an output number that the op does not have
  const absl::StatusOr<Graph> again = GraphFromProto(*proto);
  CHECK(again.ok()) << again.status();
  const GraphTextOptions options{.max_tensor_elements = kManyElements};
  CHECK_EQ(GraphToText(*again, options), GraphToText(*graph, options));
}

void FuzzGraphText(std::string_view bytes) {
  const absl::StatusOr<Graph> graph = ParseGraphText(bytes);
  if (!graph.ok()) return CheckRefusal(graph.status());
  const GraphTextOptions options{.max_tensor_elements = kManyElements};
  const std::string text = GraphToText(*graph, options);
  const absl::StatusOr<Graph> again = ParseGraphText(text);
  if (!again.ok() && !IsSmall(*graph)) return;
  CHECK(again.ok()) << again.status() << "\n" << text;
  CHECK_EQ(GraphToText(*again, options), text);
}

void FuzzArrays(std::string_view bytes) {
  const absl::StatusOr<std::map<std::string, Tensor>> arrays = ArraysFromNpz(bytes);
  if (!arrays.ok()) CheckRefusal(arrays.status());
  const absl::StatusOr<Tensor> array = ArrayFromNpy(bytes);
  if (!array.ok()) CheckRefusal(array.status());
}

}  // namespace millrace
