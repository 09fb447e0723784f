#include "import/graph_import.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/verify.h"
#include "graph/with_message.h"
#include "import/tensor_proto.h"
#include "millrace/status.h"
#include "ops/op_attrs.h"
#include "proto/parse.h"

namespace millrace {
namespace {

// Attributes of so many bytes, and so many of them, are looked for among those of the nodes before.
constexpr size_t kMostSharedBytes = 512;
constexpr size_t kMostShared = 1 << 16;

// Where the attributes begin in a node's message, if they are what it ends with; its end otherwise.
size_t BeginOfAttrs(std::string_view bytes) {
  constexpr uint8_t kLengthDelimited = 2;
  constexpr uint8_t kAttr = proto::NodeDef::kAttrFieldNumber << 3 | kLengthDelimited;
  size_t begin = bytes.size();
  for (size_t at = 0; at < bytes.size();) {
    const auto tag = static_cast<uint8_t>(bytes[at]);
    if ((tag & 0x87) != kLengthDelimited || (begin < bytes.size() && tag != kAttr)) return bytes.size();
    if (tag == kAttr) begin = std::min(begin, at);
    uint64_t length = 0;
    uint8_t byte = 0x80;
    ++at;
    for (int shift = 0; (byte & 0x80) != 0; shift += 7) {
      if (at == bytes.size() || shift > 28) return bytes.size();
      byte = static_cast<uint8_t>(bytes[at++]);
      length |= static_cast<uint64_t>(byte & 0x7f) << shift;
    }
    if (length > bytes.size() - at) return bytes.size();
    at += length;
  }
  return begin;
}

bool IsNodeName(std::string_view name) {
  static constexpr auto kAllowed = [] {
    std::array<bool, 256> allowed{};
    for (int c = 0; c < 256; ++c) {
      allowed[c] = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                   c == '.' || c == '>' || c == '/' || c == '\\' || c == '-';
    }
    return allowed;
  }();
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return kAllowed[static_cast<unsigned char>(c)]; });
}

absl::Status MissingNode(const std::string& consumer, const std::string& input, const std::string& producer) {
  return absl::InvalidArgumentError(
      absl::StrCat("node '", consumer, "' takes input '", input, "', but there is no node '", producer, "'"));
}

// Up to this version of a GraphDef TensorFlow wrote an unknown shape as that of a scalar, and so it reads it in such files.
constexpr int32_t kLastWithoutUnknownShapes = 21;

void ForgetShapeOfOldPlaceholder(Node& node) {
  if (node.op == "Placeholder" && node.attrs.GetOr("shape", Shape::UnknownRank()) == Shape()) node.attrs.Set("shape", Shape::UnknownRank());
}

// Name, op and device.
absl::StatusOr<Node> NodeWithoutAttrs(const proto::NodeDef& proto) {
  if (!IsNodeName(proto.name())) {
    return absl::InvalidArgumentError(absl::StrCat("a node is named '", absl::CHexEscape(proto.name()),
                                                   "', expected letters, digits and _ . - / \\ >"));
  }
  if (proto.op().empty()) return absl::InvalidArgumentError(absl::StrCat("node '", proto.name(), "' has no op"));
  Node node;
  node.name = proto.name();
  node.op = proto.op();
  node.requested_device = proto.device();
  return node;
}

// Once its attributes are there.
absl::Status CheckAndSimplify(Node& node) {
  MR_RETURN_IF_ERROR(CheckAttrs(node));
  const auto is_float = [&](const char* type) { return node.attrs.GetOr<DataType>(type, DataType::kFloat) == DataType::kFloat; };
  if (node.op == "SparseMatMul" && is_float("Ta") && is_float("Tb")) {
    // A product whose factors hold many zeros: the same numbers.
    node.op = "MatMul";
    node.attrs.Set("T", DataType::kFloat);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Node> NodeFromProto(const proto::NodeDef& proto) {
  MR_ASSIGN_OR_RETURN(Node node, NodeWithoutAttrs(proto));
  absl::StatusOr<AttrMap> attrs = AttrMapFromProto(proto.attr());
  if (!attrs.ok()) {
    return WithPrefix(attrs.status(), absl::StrCat("node '", node.name, "' (", absl::CHexEscape(node.op), ")"));
  }
  node.attrs = *std::move(attrs);
  MR_RETURN_IF_ERROR(CheckAndSimplify(node));
  return node;
}

absl::Status GraphImporter::SetLibrary(const proto::FunctionDefLibrary& proto) {
  MR_ASSIGN_OR_RETURN(std::shared_ptr<const Graph::Library> library, LibraryFromProto(proto));
  if (!library->empty()) graph_.set_library(std::move(library));
  return absl::OkStatus();
}

absl::Status GraphImporter::AddInput(const std::string& input, Node& node) {
  const NodeId consumer{graph_.num_ids()};
  if (!input.empty() && input[0] == '^') {
    std::string producer = input.substr(1);
    const NodeId id = graph_.Find(producer);
    if (!id.valid()) {
      forward_.push_back({consumer, static_cast<int32_t>(node.control_inputs.size()), true, std::move(producer)});
    }
    node.control_inputs.push_back(id);
    return absl::OkStatus();
  }
  OutputRef ref;
  const size_t colon = input.rfind(':');
  const std::string_view producer = std::string_view(input).substr(0, colon);
  const bool good_index =
      colon == std::string::npos || (absl::SimpleAtoi(input.substr(colon + 1), &ref.index) && ref.index >= 0);
  ref.node = graph_.Find(producer);
  if (!good_index || (!ref.node.valid() && !IsNodeName(producer))) {
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' takes input '", absl::CHexEscape(input),
                                                   "', expected 'node', 'node:number' or '^node'"));
  }
  if (!ref.node.valid()) {
    forward_.push_back({consumer, static_cast<int32_t>(node.inputs.size()), false, std::string(producer)});
  }
  node.inputs.push_back(ref);
  return absl::OkStatus();
}

absl::Status GraphImporter::AddNode(const proto::NodeDef& proto, Node node) {
  for (const std::string& input : proto.input()) MR_RETURN_IF_ERROR(AddInput(input, node));
  return graph_.AddNode(std::move(node)).status();
}

absl::Status GraphImporter::AddNode(const proto::NodeDef& proto) {
  MR_ASSIGN_OR_RETURN(Node node, NodeFromProto(proto));
  return AddNode(proto, std::move(node));
}

absl::Status GraphImporter::AddNode(std::string_view bytes, google::protobuf::Arena* arena,
                                    absl::FunctionRef<absl::Status(const absl::Status&)> located) {
  const size_t begin = BeginOfAttrs(bytes);
  const std::string_view attrs = bytes.substr(begin);
  const auto known = attrs.empty() ? attrs_.end() : attrs_.find(attrs);
  auto* proto = google::protobuf::Arena::CreateMessage<proto::NodeDef>(arena);
  const absl::Status parsed = ParseBinary(known == attrs_.end() ? bytes : bytes.substr(0, begin), proto);
  if (!parsed.ok()) return located(parsed);
  if (known != attrs_.end()) {
    MR_ASSIGN_OR_RETURN(Node node, NodeWithoutAttrs(*proto));
    node.attrs = known->second;
    MR_RETURN_IF_ERROR(CheckAndSimplify(node));
    return AddNode(*proto, std::move(node));
  }
  MR_ASSIGN_OR_RETURN(Node node, NodeFromProto(*proto));
  if (!attrs.empty() && attrs.size() <= kMostSharedBytes && attrs_.size() < kMostShared) attrs_.emplace(attrs, node.attrs);
  return AddNode(*proto, std::move(node));
}

absl::StatusOr<Graph> GraphImporter::Finish() {
  for (const Forward& edge : forward_) {
    const NodeId producer = graph_.Find(edge.producer);
    Node& consumer = graph_.mutable_node(edge.consumer);
    if (edge.control) {
      if (!producer.valid()) return MissingNode(consumer.name, absl::StrCat("^", edge.producer), edge.producer);
      consumer.control_inputs[edge.slot] = producer;
    } else {
      OutputRef& ref = consumer.inputs[edge.slot];
      if (!producer.valid()) {
        return MissingNode(consumer.name, absl::StrCat(edge.producer, ":", ref.index), edge.producer);
      }
      ref.node = producer;
    }
  }
  forward_.clear();
  if (graph_.producer_version > 0 && graph_.producer_version <= kLastWithoutUnknownShapes) {
    for (int32_t i = 0; i < graph_.num_ids(); ++i) ForgetShapeOfOldPlaceholder(graph_.mutable_node(NodeId{i}));
  }
  MR_RETURN_IF_ERROR(VerifyEdges(graph_));
  return std::move(graph_);
}

absl::StatusOr<Graph> GraphFromProto(const proto::GraphDef& proto) {
  GraphImporter importer(proto.node_size());
  importer.SetProducer(proto.versions().producer());
  MR_RETURN_IF_ERROR(importer.SetLibrary(proto.library()));
  for (const proto::NodeDef& node : proto.node()) MR_RETURN_IF_ERROR(importer.AddNode(node));
  return importer.Finish();
}

}  // namespace millrace
