#include "cli/vocabularies.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/partitioned_variables.h"
#include "millrace/status.h"
#include "passes/control_flow/control_flow_ops.h"

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

absl::Status ReadVocabulary(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Tensor name = StringsAt(graph, node.inputs[1]);
  const Node& table = graph.node(node.inputs[0].node);
  const DataType key_type = table.attrs.GetOr<DataType>("key_dtype", DataType::kInvalid);
  const DataType value_type = table.attrs.GetOr<DataType>("value_dtype", DataType::kInvalid);
  if (name.empty() || key_type == DataType::kInvalid || value_type == DataType::kInvalid) return absl::OkStatus();
  std::ifstream file(name.strings()[0], std::ios::binary);
  if (!file) return absl::OkStatus();
  std::vector<std::string> lines = LinesOf(file);
  const auto number = [&](const char* attr, int64_t fallback) { return node.attrs.GetOr<int64_t>(attr, fallback); };
  const auto refuse = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("node '", node.name, "' (", node.op, "): ", name.strings()[0], ": ", status.message()));
  };
  const int64_t first = number("offset", 0), size = number("vocab_size", -1);
  if (size > static_cast<int64_t>(lines.size())) {
    return refuse(absl::InvalidArgumentError(absl::StrCat("Invalid vocab_size: expected ", size, " but got ", lines.size())));
  }
  if (size >= 0) lines.resize(size);
  if (const auto empty = std::find(lines.begin(), lines.end(), ""); empty != lines.end()) {
    return refuse(absl::InvalidArgumentError(absl::StrCat("Invalid content: line ", empty - lines.begin(), " is empty")));
  }
  const std::string delimiter = node.attrs.GetOr<std::string>("delimiter", "\t");
  absl::StatusOr<Tensor> keys = Column(lines, number("key_index", kWholeLine), first, delimiter, key_type);
  if (!keys.ok()) return refuse(keys.status());
  absl::StatusOr<Tensor> values = Column(lines, number("value_index", kLineNumber), first, delimiter, value_type);
  if (!values.ok()) return refuse(values.status());
  const std::string prefix = node.name;
  const NodeId key_node = AddConstant(graph, prefix + "/keys", *std::move(keys)), value_node = AddConstant(graph, prefix + "/values", *std::move(values));
  Node& import = graph.mutable_node(id);
  import.op = "LookupTableImportV2";
  import.inputs.assign({import.inputs[0], {key_node, 0}, {value_node, 0}});
  import.attrs = AttrMap();
  import.attrs.Set("Tin", key_type);
  import.attrs.Set("Tout", value_type);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadVocabularies(Graph& graph) {
  const int32_t nodes = graph.num_ids();
  for (int32_t i = 0; i < nodes; ++i) {
    const Node& node = graph.node(NodeId{i});
    if (!node.removed && IsTableFromFile(node) && node.inputs.size() == 2) MR_RETURN_IF_ERROR(ReadVocabulary(graph, NodeId{i}));
  }
  return absl::OkStatus();
}

}  // namespace millrace::cli
