#include "ops/input_types.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "millrace/status.h"

namespace millrace {
namespace {

struct Word {
  std::string type;   // an attribute, "=" and a type, "-" or "..."
  std::string count;  // the attribute that says how many inputs it stands for; empty for one
};

const std::vector<Word>* WordsOf(const std::string& op) {
  static const auto& table = *[] {
    auto* built = new std::map<std::string, std::vector<Word>>();
    for (const char* const* line = kInputTypes; *line != nullptr; ++line) {
      const std::vector<std::string> fields = absl::StrSplit(*line, ' ');
      for (size_t i = 1; i < fields.size(); ++i) {
        const std::pair<std::string, std::string> parts = absl::StrSplit(fields[i], absl::MaxSplits('*', 1));
        (*built)[fields[0]].push_back({parts.first, parts.second});
      }
    }
    return built;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

std::string NameOf(DataType dtype) { return std::string(DataTypeName(dtype)); }

absl::Status CheckTypes(const InferenceContext& context, const std::vector<Word>& words) {
  std::map<std::string, int> first;  // input that showed an attribute's type
  int input = 0;
  for (const Word& word : words) {
    if (word.type == "...") return absl::OkStatus();
    const int64_t count = word.count.empty() ? 1 : context.attrs().GetOr<int64_t>(word.count, -1);
    if (count < 0) return absl::OkStatus();  // nobody knows where the next one begins
    for (int64_t i = 0; i < count && input < context.num_inputs(); ++i, ++input) {
      const DataType found = context.dtype(input);
      if (word.type == "-" || found == DataType::kInvalid) continue;
      if (word.type[0] == '=') {
        if (NameOf(found) == word.type.substr(1)) continue;
        return context.Error(absl::StrCat("input ", input, " has type ", NameOf(found), ", expected ", word.type.substr(1)));
      }
      const auto [shown, added] = first.emplace(word.type, input);
      if (added || context.dtype(shown->second) == found) continue;
      return context.Error(absl::StrCat("input ", input, " has type ", NameOf(found), ", input ", shown->second, " type ",
                                        NameOf(context.dtype(shown->second)), "; both are ", word.type));
    }
  }
  return absl::OkStatus();
}

}  // namespace

OpDef::ShapeRule WithTypesChecked(const std::string& op, OpDef::ShapeRule rule) {
  const std::vector<Word>* words = WordsOf(op);
  if (words == nullptr) return rule;
  return [words, rule = std::move(rule)](InferenceContext& context) {
    MR_RETURN_IF_ERROR(rule(context));  // which may have a better word for it
    return CheckTypes(context, *words);
  };
}

}  // namespace millrace
