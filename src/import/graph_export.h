// Graph -> GraphDef.
#ifndef MILLRACE_SRC_IMPORT_GRAPH_EXPORT_H_
#define MILLRACE_SRC_IMPORT_GRAPH_EXPORT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "millrace/graph.h"
#include "millrace/proto/graph.pb.h"

namespace millrace {

// Live nodes in id order, with what the passes decided as attributes (millrace/import.h), and the function library.
absl::StatusOr<proto::GraphDef> GraphToProto(const Graph& graph);

// The producer version to write: the graph's own, or for one built here that of the TensorFlow whose ops these are.
int32_t ProducerVersion(const Graph& graph);
void NodeToProto(const Graph& graph, NodeId id, proto::NodeDef* proto);
absl::Status LibraryToProto(const Graph::Library& library, proto::FunctionDefLibrary* proto);

}  // namespace millrace

#endif  // MILLRACE_SRC_IMPORT_GRAPH_EXPORT_H_
