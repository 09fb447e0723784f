#include "import/graph_file.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/text_format.h>

#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "glog/logging.h"
#include "graph/dot.h"
#include "graph/one_line.h"
#include "graph/verify.h"
#include "graph/with_message.h"
#include "import/graph_export.h"
#include "import/graph_import.h"
#include "import/saved_model.h"
#include "millrace/import.h"
#include "millrace/options.h"
#include "millrace/status.h"
#include "proto/parse.h"

namespace millrace {
namespace {

using google::protobuf::Arena;
using proto::GraphDef;
using proto::MetaGraphDef;
using proto::NodeDef;

constexpr const char* kExpected = "expected a GraphDef or MetaGraphDef, binary or text";
constexpr size_t kArenaBytes = 1 << 18;
constexpr size_t kWriteBytes = 1 << 20;

absl::Status Stop() { return absl::CancelledError(); }

absl::Status WrongFile() {
  return absl::InvalidArgumentError(
      absl::StrCat("not a graph (a saved_model.pb or an ONNX model?), ", kExpected));
}

// "not a graph" for what no graph or meta graph can be. Field 2 of a GraphDef is its library, of a MetaGraphDef its
// graph: the latter holds a node, and a node has an op, which no message of a library has in that place.
absl::StatusOr<bool> IsMetaGraph(std::string_view bytes) {
  int64_t first_fields = 0;
  bool meta = false;
  const absl::Status status = ForEachField(bytes, [&](const WireField& field) {
    if (!field.is_bytes && field.number == GraphDef::kNodeFieldNumber) return WrongFile();
    first_fields += field.number == GraphDef::kNodeFieldNumber;
    meta = meta || field.number > GraphDef::kDebugInfoFieldNumber ||
           (field.is_bytes && field.number == MetaGraphDef::kSaverDefFieldNumber);
    if (field.number != MetaGraphDef::kGraphDefFieldNumber || !field.is_bytes) return absl::OkStatus();
    ForEachField(field.payload, [&](const WireField& inner) {
      if (inner.number != GraphDef::kNodeFieldNumber || !inner.is_bytes) return absl::OkStatus();
      ForEachField(inner.payload, [&](const WireField& node) {
        const bool is_op = node.number == NodeDef::kOpFieldNumber && node.is_bytes && !node.payload.empty();
        meta = meta || (is_op && (absl::ascii_isalpha(node.payload[0]) || node.payload[0] == '_'));
        return absl::OkStatus();
      }).IgnoreError();
      return Stop();
    }).IgnoreError();
    return absl::OkStatus();
  });
  MR_RETURN_IF_ERROR(status);
  return meta && first_fields <= 1;
}

absl::Status AtNode(int64_t number, int64_t offset, const absl::Status& status) {
  return WithPrefix(status, absl::StrCat("node number ", number, " at byte ", offset));
}

// Reads nodes one by one: the messages of a graph take several times the room of its bytes.
absl::StatusOr<Graph> ImportGraphBytes(std::string_view bytes) {
  int64_t nodes = 0;
  MR_RETURN_IF_ERROR(ForEachField(bytes, [&](const WireField& field) {
    nodes += field.number == GraphDef::kNodeFieldNumber && field.is_bytes;
    return absl::OkStatus();
  }));
  GraphImporter importer(nodes);
  const std::unique_ptr<char[]> block(new char[kArenaBytes]);
  google::protobuf::ArenaOptions options;
  options.initial_block = block.get();
  options.initial_block_size = kArenaBytes;
  Arena arena(options);
  proto::FunctionDefLibrary library;
  nodes = 0;
  MR_RETURN_IF_ERROR(ForEachField(bytes, [&](const WireField& field) {
    if (!field.is_bytes) return absl::OkStatus();
    if (field.number == GraphDef::kNodeFieldNumber) {
      if (arena.SpaceUsed() > kArenaBytes / 2) arena.Reset();
      ++nodes;
      return importer.AddNode(field.payload, &arena, [&](const absl::Status& status) {
        return AtNode(nodes - 1, field.offset, status);
      });
    }
    if (field.number == GraphDef::kLibraryFieldNumber) {
      proto::FunctionDefLibrary part;
      MR_RETURN_IF_ERROR(ParseBinary(field.payload, &part));
      library.MergeFrom(part);
    } else if (field.number == GraphDef::kVersionsFieldNumber) {
      proto::VersionDef versions;
      MR_RETURN_IF_ERROR(ParseBinary(field.payload, &versions));
      importer.SetProducer(versions.producer());
    }
    return absl::OkStatus();
  }));
  if (nodes == 0) return absl::InvalidArgumentError(absl::StrCat("no nodes, ", kExpected));
  MR_RETURN_IF_ERROR(importer.SetLibrary(library));
  return importer.Finish();
}

absl::StatusOr<GraphWithSaver> ImportBinary(std::string_view bytes) {
  MR_ASSIGN_OR_RETURN(const bool meta, IsMetaGraph(bytes));
  std::optional<std::string_view> graph;
  absl::StatusOr<proto::SaverDef> saver = proto::SaverDef();
  if (!meta) graph = bytes;
  if (meta) {
    MR_RETURN_IF_ERROR(ForEachField(bytes, [&](const WireField& field) {
      if (field.number == MetaGraphDef::kGraphDefFieldNumber && field.is_bytes) graph = field.payload;
      const bool is_saver = field.number == MetaGraphDef::kSaverDefFieldNumber && field.is_bytes && saver.ok();
      const absl::Status parsed = is_saver ? ParseBinary(field.payload, &*saver) : absl::OkStatus();
      if (!parsed.ok()) saver = parsed;
      return absl::OkStatus();
    }));
  }
  if (!graph.has_value()) return absl::InvalidArgumentError("a MetaGraphDef without graph_def");
  MR_ASSIGN_OR_RETURN(Graph imported, ImportGraphBytes(*graph));
  return GraphWithSaver{std::move(imported), std::move(saver)};
}

// The first word of a text message: the name of its first field.
std::string FirstField(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size() && (absl::ascii_isspace(bytes[i]) || bytes[i] == '#')) {
    if (bytes[i] == '#') {
      while (i < bytes.size() && bytes[i] != '\n') ++i;
    } else {
      ++i;
    }
  }
  const size_t begin = i;
  while (i < bytes.size() && (absl::ascii_isalnum(bytes[i]) || bytes[i] == '_')) ++i;
  return std::string(bytes.substr(begin, i - begin));
}

absl::StatusOr<GraphWithSaver> ImportText(std::string_view bytes) {
  Arena arena;
  const std::string first = FirstField(bytes);
  const GraphDef* graph = nullptr;
  proto::SaverDef saver;
  if (MetaGraphDef::descriptor()->FindFieldByName(first) != nullptr) {
    MetaGraphDef* meta = Arena::CreateMessage<MetaGraphDef>(&arena);
    MR_RETURN_IF_ERROR(ParseText(bytes, /*skip_unknown_fields=*/true, meta));
    graph = &meta->graph_def();
    saver = meta->saver_def();
  } else if (GraphDef::descriptor()->FindFieldByName(first) != nullptr) {
    GraphDef* parsed = Arena::CreateMessage<GraphDef>(&arena);
    MR_RETURN_IF_ERROR(ParseText(bytes, /*skip_unknown_fields=*/false, parsed));
    graph = parsed;
  } else {
    return WrongFile();
  }
  if (graph->node_size() == 0) return absl::InvalidArgumentError(absl::StrCat("no nodes, ", kExpected));
  MR_ASSIGN_OR_RETURN(Graph imported, GraphFromProto(*graph));
  return GraphWithSaver{std::move(imported), std::move(saver)};
}

// Appends `message` as field `number` of an enclosing message.
absl::Status AppendField(int number, const google::protobuf::Message& message, std::string* buffer) {
  const size_t size = message.ByteSizeLong();
  if (size > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError("a node of more than 2 GiB, which protobuf cannot hold; keep weights in variables");
  }
  buffer->push_back(static_cast<char>(number << 3 | 2));
  for (size_t rest = size; ; rest >>= 7) {
    buffer->push_back(static_cast<char>(rest < 0x80 ? rest : (rest & 0x7f) | 0x80));
    if (rest < 0x80) break;
  }
  message.AppendToString(buffer);
  return absl::OkStatus();
}

// Nodes are written one by one, as they are read.
absl::Status WriteBinary(const Graph& graph, AtomicFile& file) {
  std::string buffer;
  int64_t written = 0;
  auto flush = [&]() -> absl::Status {
    written += static_cast<int64_t>(buffer.size());
    if (written > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("more than 2 GiB, which protobuf cannot read; keep weights in "
                                                     "variables"));
    }
    MR_RETURN_IF_ERROR(file.Append(buffer));
    buffer.clear();
    return absl::OkStatus();
  };
  proto::GraphDef rest;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    if (!graph.alive(NodeId{i})) continue;
    NodeDef node;
    NodeToProto(graph, NodeId{i}, &node);
    MR_RETURN_IF_ERROR(AppendField(GraphDef::kNodeFieldNumber, node, &buffer));
    if (buffer.size() >= kWriteBytes) MR_RETURN_IF_ERROR(flush());
  }
  if (graph.library() != nullptr) MR_RETURN_IF_ERROR(LibraryToProto(*graph.library(), rest.mutable_library()));
  rest.mutable_versions()->set_producer(ProducerVersion(graph));
  rest.AppendToString(&buffer);
  return flush();
}

absl::StatusOr<std::string> GraphText(const Graph& graph) {
  MR_ASSIGN_OR_RETURN(const GraphDef proto, GraphToProto(graph));
  std::string text;
  google::protobuf::TextFormat::PrintToString(proto, &text);
  return text;
}

absl::Status WriteGraph(const Graph& graph, const std::string& path, AtomicFile& file) {
  if (absl::EndsWith(path, ".dot")) return file.Append(GraphToDot(graph));
  if (!absl::EndsWith(path, ".pbtxt")) return WriteBinary(graph, file);
  MR_ASSIGN_OR_RETURN(const std::string text, GraphText(graph));
  return file.Append(text);
}

}  // namespace

absl::StatusOr<GraphWithSaver> GraphWithSaverFromBytes(std::string_view bytes) {
  if (bytes.empty()) return absl::InvalidArgumentError(absl::StrCat("empty, ", kExpected));
  if (bytes.size() > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(FormatBytes(static_cast<int64_t>(bytes.size())),
                                                   ", expected at most 2 GiB (protobuf's limit); keep weights in "
                                                   "variables and checkpoints"));
  }
  absl::StatusOr<GraphWithSaver> graph = LooksLikeText(bytes) ? ImportText(bytes) : ImportBinary(bytes);
  if (!graph.ok()) return OneLine(graph.status());
  return graph;
}

absl::StatusOr<Graph> GraphFromBytes(std::string_view bytes) {
  MR_ASSIGN_OR_RETURN(GraphWithSaver loaded, GraphWithSaverFromBytes(bytes));
  return std::move(loaded.graph);
}

absl::StatusOr<Graph> LoadGraph(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<Graph> graph = GraphFromBytes(file->bytes());
  if (!graph.ok()) return WithPrefix(graph.status(), path);
  return graph;
}

absl::StatusOr<CheckpointNames> SaverNames(const GraphWithSaver& of) {
  MR_RETURN_IF_ERROR(of.saver.status());
  if (of.graph.Find(of.saver->restore_op_name()).valid()) return NamesOfSaver(of.graph, *of.saver);
  return CheckpointNames{.tables = RestoredIn(of.graph).tables};
}

absl::StatusOr<MetaGraph> LoadMetaGraph(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<GraphWithSaver> loaded = GraphWithSaverFromBytes(file->bytes());
  if (!loaded.ok()) return WithPrefix(loaded.status(), path);
  absl::StatusOr<CheckpointNames> names = SaverNames(*loaded);
  MetaGraph meta = std::move(loaded->graph);
  if (names.ok()) {
    meta.names = *std::move(names);
  } else {
    LOG(WARNING) << path << ": variables go by their own names in checkpoints; what its saver calls them is not known: "
                 << OnOneLine(std::string(names.status().message()));
  }
  return meta;
}

absl::Status SaveGraph(const Graph& graph, const std::string& path) {
  MR_RETURN_IF_ERROR(CheckNodeIds(graph));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  if (absl::Status status = WriteGraph(graph, path, *file); !status.ok()) return WithPrefix(status, path);
  return file->Commit();
}

}  // namespace millrace
