// GraphDef -> Graph. Nodes keep their order, names, attributes (absent ones stay absent: defaults are the ops'
// matter) and device strings; functions of the library become graphs of their own.
#ifndef MILLRACE_SRC_IMPORT_GRAPH_IMPORT_H_
#define MILLRACE_SRC_IMPORT_GRAPH_IMPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "proto/graph.pb.h"

namespace millrace {

// Takes a graph node by node, so that a reader need not hold all messages at once. Nodes may come in any order.
class GraphImporter {
 public:
  explicit GraphImporter(int64_t expected_nodes) { graph_.Reserve(expected_nodes); }

  // Before any node of the main graph that calls its functions, or after: they are looked up later.
  absl::Status SetLibrary(const proto::FunctionDefLibrary& library);
  void SetProducer(int32_t version) { graph_.producer_version = version; }
  absl::Status AddNode(const proto::NodeDef& proto);
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

  Graph graph_;
  std::vector<Forward> forward_;
};

absl::StatusOr<Graph> GraphFromProto(const proto::GraphDef& proto);

// Name, op, device and attributes; not the inputs.
absl::StatusOr<Node> NodeFromProto(const proto::NodeDef& proto);
absl::StatusOr<std::shared_ptr<const Graph::Library>> LibraryFromProto(const proto::FunctionDefLibrary& proto);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_GRAPH_IMPORT_H_
