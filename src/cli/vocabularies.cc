#include "cli/vocabularies.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/partitioned_variables.h"
#include "glog/logging.h"
#include "graph/unread_file.h"
#include "graph/with_message.h"
#include "millrace/op.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"
#include "passes/control_flow/kept_state.h"
#include "passes/rewrite/known_tables.h"

namespace millrace::cli {
namespace {

constexpr int64_t kWholeLine = -2, kLineNumber = -1;

// Lines without their ends, as TensorFlow reads them: carriage returns are left out.
std::vector<std::string> LinesOf(std::istream& file) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    std::erase(line, '\r');
    lines.push_back(std::move(line));
  }
  return lines;
}

// Element i of `tensor` from its text.
bool SetFromText(const std::string& text, int64_t i, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DataType::kString: tensor.mutable_strings()[i] = text; return true;
    case DataType::kInt32: return absl::SimpleAtoi(text, &tensor.mutable_as<int32_t>()[i]);
    case DataType::kInt64: return absl::SimpleAtoi(text, &tensor.mutable_as<int64_t>()[i]);
    case DataType::kFloat: return absl::SimpleAtof(text, &tensor.mutable_as<float>()[i]);
    case DataType::kDouble: return absl::SimpleAtod(text, &tensor.mutable_as<double>()[i]);
    default: return false;
  }
}

// A column of the lines: all of each, their numbers from `first` on, or what is between delimiters.
absl::StatusOr<Tensor> Column(const std::vector<std::string>& lines, int64_t index, int64_t first, const std::string& delimiter, DataType dtype) {
  Tensor column(dtype, Shape({static_cast<int64_t>(lines.size())}));
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string text = index == kLineNumber ? absl::StrCat(first + static_cast<int64_t>(i)) : lines[i];
    if (index >= 0) {
      const std::vector<std::string> words = absl::StrSplit(lines[i], absl::ByString(delimiter));
      if (index >= static_cast<int64_t>(words.size())) {
        return absl::InvalidArgumentError(absl::StrCat("line ", i, " has ", words.size(), " columns, expected more than ", index));
      }
      text = words[index];
    }
    if (!SetFromText(text, static_cast<int64_t>(i), column)) {
      return absl::InvalidArgumentError(absl::StrCat("line ", i, ": '", text, "' is no ", std::string(DataTypeName(dtype))));
    }
  }
  return column;
}

NodeId AddConstant(Graph& graph, std::string name, Tensor value) {
  Node node;
  node.name = std::move(name);
  node.op = "Const";
  node.attrs.Set("dtype", value.dtype());
  node.attrs.Set("value", std::move(value));
  return graph.AddUnique(std::move(node));
}

struct Vocabulary {
  Tensor keys, values;
};

// What a text file says that `node` reads into `table`. Errors name the line.
absl::StatusOr<Vocabulary> VocabularyOf(const Node& node, const Node& table, std::istream& file) {
  const DataType key_type = table.attrs.GetOr<DataType>("key_dtype", DataType::kInvalid);
  const DataType value_type = table.attrs.GetOr<DataType>("value_dtype", DataType::kInvalid);
  std::vector<std::string> lines = LinesOf(file);
  const auto number = [&](const char* attr, int64_t fallback) { return node.attrs.GetOr<int64_t>(attr, fallback); };
  const int64_t first = number("offset", 0), size = number("vocab_size", -1);
  if (size > static_cast<int64_t>(lines.size())) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid vocab_size: expected ", size, " but got ", lines.size()));
  }
  if (size >= 0) lines.resize(size);
  if (const auto empty = std::find(lines.begin(), lines.end(), ""); empty != lines.end()) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid content: line ", empty - lines.begin(), " is empty"));
  }
  const std::string delimiter = node.attrs.GetOr<std::string>("delimiter", "\t");
  Vocabulary vocabulary;
  MR_ASSIGN_OR_RETURN(vocabulary.keys, Column(lines, number("key_index", kWholeLine), first, delimiter, key_type));
  MR_ASSIGN_OR_RETURN(vocabulary.values, Column(lines, number("value_index", kLineNumber), first, delimiter, value_type));
  return vocabulary;
}

// The strings of an input: of a constant, or of a variable that one is assigned to and nothing else, as SavedModels keep the paths of
// their assets.
Tensor PathAt(const Graph& graph, OutputRef ref) {
  const Node& read = graph.node(SourceOfHandle(graph, ref).node);
  if (read.op != "ReadVariableOp" || read.inputs.size() != 1) return StringsAt(graph, ref);
  const Node& variable = graph.node(SourceOfHandle(graph, read.inputs[0]).node);
  Tensor path;
  for (int32_t i = 0; i < graph.num_ids(); ++i) {
    const Node& assign = graph.node(NodeId{i});
    if (assign.removed || assign.op != "AssignVariableOp" || assign.inputs.size() != 2) continue;
    if (&graph.node(SourceOfHandle(graph, assign.inputs[0]).node) != &variable) continue;
    if (!path.empty()) return Tensor();
    path = StringsAt(graph, assign.inputs[1]);
  }
  return path;
}

// What the file says that `node` names; nothing where the graph does not tell it. NotFound where it cannot be read or is empty.
absl::StatusOr<std::optional<Vocabulary>> ReadVocabulary(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  const Node& table = graph.node(SourceOfHandle(graph, node.inputs[0]).node);
  const Tensor path = PathAt(graph, node.inputs[1]);
  if (!IsTable(table) || path.num_elements() != 1) return std::nullopt;
  std::ifstream file(path.strings()[0], std::ios::binary);
  const bool empty = file && file.peek() == std::ifstream::traits_type::eof() && !file.bad();  // folders open, and are bad then
  if (!file || empty) return absl::NotFoundError(absl::StrCat(path.strings()[0], ": ", empty ? "the file is empty" : std::strerror(errno)));
  absl::StatusOr<Vocabulary> vocabulary = VocabularyOf(node, table, file);
  if (vocabulary.ok()) return *std::move(vocabulary);
  return WithPrefix(vocabulary.status(), absl::StrCat("node '", node.name, "' (", node.op, "): ", path.strings()[0]));
}

// `import` fills `table` with the vocabulary.
void SetImport(Graph& graph, NodeId import, OutputRef table, Vocabulary vocabulary) {
  const std::string prefix = graph.node(import).name;
  const DataType key_type = vocabulary.keys.dtype(), value_type = vocabulary.values.dtype();
  const NodeId keys = AddConstant(graph, prefix + "/keys", std::move(vocabulary.keys));
  const NodeId values = AddConstant(graph, prefix + "/values", std::move(vocabulary.values));
  Node& node = graph.mutable_node(import);
  node.op = "LookupTableImportV2";
  node.inputs.assign({table, {keys, 0}, {values, 0}});
  node.attrs = AttrMap();
  node.attrs.Set("Tin", key_type);
  node.attrs.Set("Tout", value_type);
}

// Of the graph without its functions.
absl::Status ReadVocabulariesOfNodes(Graph& graph) {
  const int32_t nodes = graph.num_ids();
  for (int32_t i = 0; i < nodes; ++i) {
    const Node& node = graph.node(NodeId{i});
    if (node.removed || !IsTableFromFile(node)) continue;
    absl::StatusOr<std::optional<Vocabulary>> vocabulary = ReadVocabulary(graph, node);
    if (absl::IsNotFound(vocabulary.status())) {
      // Planning says so where the table is needed.
      graph.mutable_node(NodeId{i}).attrs.Set(std::string(kWhyUnread), std::string(vocabulary.status().message()));
      continue;
    }
    MR_RETURN_IF_ERROR(vocabulary.status());
    if (vocabulary->has_value()) SetImport(graph, NodeId{i}, node.inputs[0], **std::move(vocabulary));
  }
  return absl::OkStatus();
}

// The files' words come into the graph by nodes beside those functions.
void ReadVocabulariesOfFunctions(Graph& graph) {
  if (!HoldsAny(graph, IsTableFromFile)) return;
  const absl::StatusOr<Graph> flat = WhatRunsFor(graph, OpRegistry::Builtin(), IsTableFromFile);
  if (!flat.ok()) return;  // planning says what is wrong with them where they are needed
  for (int32_t i = 0; i < flat->num_ids(); ++i) {
    const Node& node = flat->node(NodeId{i});
    if (node.removed || !IsTableFromFile(node) || node.attrs.Has(kWhyUnread)) continue;
    absl::StatusOr<std::optional<Vocabulary>> vocabulary = ReadVocabulary(*flat, node);
    if (!vocabulary.ok()) LOG(WARNING) << vocabulary.status().message();  // of one table among those of a model
    if (!vocabulary.ok() || !vocabulary->has_value()) continue;
    Node table = flat->node(SourceOfHandle(*flat, node.inputs[0]).node);
    table.attrs.Set("shared_name", NameOfResource(table));
    table.control_inputs.clear();
    const NodeId handle = graph.AddUnique(std::move(table));
    Node import;
    import.name = node.name;
    SetImport(graph, graph.AddUnique(std::move(import)), {handle, 0}, **std::move(vocabulary));
  }
}

}  // namespace

absl::Status ReadVocabularies(Graph& graph) {
  MR_RETURN_IF_ERROR(ReadVocabulariesOfNodes(graph));
  ReadVocabulariesOfFunctions(graph);
  return absl::OkStatus();
}

}  // namespace millrace::cli
