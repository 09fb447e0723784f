// GraphDef -> Graph. Nodes keep their order, names, attributes (absent ones stay absent: defaults are the ops'
// matter) and device strings; functions of the library become graphs of their own.
#ifndef MILLRACE_SRC_IMPORT_GRAPH_IMPORT_H_
#define MILLRACE_SRC_IMPORT_GRAPH_IMPORT_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <google/protobuf/arena.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/proto/graph.pb.h"

namespace millrace {

// Takes a graph node by node, so that a reader need not hold all messages at once. Nodes may come in any order.
class GraphImporter {
 public:
  explicit GraphImporter(int64_t expected_nodes) { graph_.Reserve(expected_nodes); }

  // Before any node of the main graph that calls its functions, or after: they are looked up later.
  absl::Status SetLibrary(const proto::FunctionDefLibrary& library);
  void SetProducer(int32_t version) { graph_.producer_version = version; }
  absl::Status AddNode(const proto::NodeDef& proto);
  // The same from a message's bytes, which live as long as the importer. Nodes of equal attributes share them. `located`
  // says where bytes are that are no message.
  absl::Status AddNode(std::string_view bytes, google::protobuf::Arena* arena,
                       absl::FunctionRef<absl::Status(const absl::Status&)> located);
  // Resolves inputs and verifies the graph (graph/verify.h). The importer is empty afterwards.
  absl::StatusOr<Graph> Finish();

 private:
  // An input that named a node not read yet.
  struct Forward {
    NodeId consumer;
    int32_t slot = 0;
    bool control = false;
    std::string producer;
  };
  absl::Status AddInput(const std::string& input, Node& node);
  absl::Status AddNode(const proto::NodeDef& proto, Node node);

  Graph graph_;
  std::unordered_map<std::string_view, AttrMap> attrs_;  // by the bytes they were read from, which the caller keeps
  std::vector<Forward> forward_;
};

absl::StatusOr<Graph> GraphFromProto(const proto::GraphDef& proto);

// Name, op, device and attributes; not the inputs.
absl::StatusOr<Node> NodeFromProto(const proto::NodeDef& proto);
absl::StatusOr<std::shared_ptr<const Graph::Library>> LibraryFromProto(const proto::FunctionDefLibrary& proto);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_GRAPH_IMPORT_H_
