#include "import/op_outputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// One output of an op: a tensor, or a list as long as an attribute says (an int, or a list of types).
struct Output {
  std::string name;
  std::string length_attr;  // empty: one tensor
};
using OutputTable = std::unordered_map<std::string, std::vector<Output>>;

const OutputTable& Table() {
  static const OutputTable& table = *[] {
    auto* built = new OutputTable();
    for (const char* const* line = kOpsWithSeveralOutputs; *line != nullptr; ++line) {
      const std::vector<std::string> words = absl::StrSplit(*line, ' ');
      for (size_t i = 1; i < words.size(); ++i) {
        const std::vector<std::string> parts = absl::StrSplit(words[i], '*');
        (*built)[words[0]].push_back({parts[0], parts.size() > 1 ? parts[1] : ""});
      }
    }
    for (const char* const* line = kOpsByOutputName; *line != nullptr; ++line) {
      const std::vector<std::string> words = absl::StrSplit(*line, ' ');
      for (size_t i = 1; i < words.size(); ++i) (*built)[words[i]].push_back({words[0], ""});
    }
    return built;
  }();
  return table;
}

absl::StatusOr<int64_t> Length(const Node& node, const Output& output) {
  if (output.length_attr.empty()) return 1;
  const AttrValue* value = node.attrs.Find(output.length_attr);
  if (value != nullptr) {
    if (const int64_t* count = std::get_if<int64_t>(value)) return *count;
    if (const auto* types = std::get_if<std::vector<DataType>>(value)) return types->size();
    if (IsEmptyList(*value)) return 0;
  }
  return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", node.op, ") has no attribute '",
                                                 output.length_attr, "', which says how many outputs '", output.name,
                                                 "' it has"));
}

}  // namespace

absl::StatusOr<int32_t> OutputNumber(const Node& node, const Graph::Library& library, const std::string& name,
                                     int32_t index) {
  if (auto function = library.find(node.op); function != library.end()) {
    const std::vector<std::string>& names = function->second.ret_names;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end() && index == 0) return found - names.begin();
    return absl::InvalidArgumentError(
        absl::StrCat("node '", node.name, "' calls '", node.op, "', which has no result '", name, ":", index, "'"));
  }
  const auto row = Table().find(node.op);
  if (row == Table().end() || row->second.size() == 1) return index;
  int64_t number = 0;
  for (const Output& output : row->second) {
    MR_ASSIGN_OR_RETURN(const int64_t length, Length(node, output));
    if (output.name == name && index < length) return static_cast<int32_t>(number + index);
    number += length;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("node '", node.name, "' (", node.op, ") has no output '", name, ":", index, "'"));
}

absl::StatusOr<std::string> OutputName(const Node& node, const Graph::Library& library, int32_t number) {
  if (auto function = library.find(node.op); function != library.end()) {
    const std::vector<std::string>& names = function->second.ret_names;
    if (number < static_cast<int32_t>(names.size())) return absl::StrCat(names[number], ":0");
  } else {
    const auto row = Table().find(node.op);
    if (row == Table().end()) return absl::StrCat("output:", number);
    if (row->second.size() == 1) return absl::StrCat(row->second[0].name, ":", number);
    int64_t rest = number;
    for (const Output& output : row->second) {
      MR_ASSIGN_OR_RETURN(const int64_t length, Length(node, output));
      if (rest < length) return absl::StrCat(output.name, ":", rest);
      rest -= length;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("node '", node.name, "' (", node.op, ") has no output number ", number));
}

}  // namespace millrace
