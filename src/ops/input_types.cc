#include "ops/input_types.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "millrace/guard.h"
#include "millrace/status.h"

namespace millrace {
namespace {

enum class Rule {
  kAny,       // not looked at
  kTyped,     // `dtype`
  kAttr,      // what attribute `type` says
  kAttrList,  // one input for each type of attribute `type`
};

// Of this rank, and of any larger one.
constexpr int kAnyRank = 8;

struct Word {
  Rule rule = Rule::kAny;
  std::string type;
  DataType dtype = DataType::kInvalid;
  std::string count;  // the attribute that says how many inputs it stands for; empty for one
  int lowest = 0, highest = kAnyRank;  // its rank
};

Word ParseWord(const std::string& text) {
  Word word;
  if (text[0] == '[') {
    word.rule = Rule::kAttrList;
    word.type = text.substr(1, text.size() - 2);
    return word;
  }
  const std::pair<std::string, std::string> counted = absl::StrSplit(text, absl::MaxSplits('*', 1));
  const std::pair<std::string, std::string> ranked = absl::StrSplit(counted.first, absl::MaxSplits('/', 1));
  word.count = counted.second;
  if (!ranked.second.empty()) {
    word.lowest = ranked.second.front() - '0';
    word.highest = ranked.second.back() - '0';
  }
  if (ranked.first == "-") return word;
  word.rule = ranked.first[0] == '=' ? Rule::kTyped : Rule::kAttr;
  if (word.rule == Rule::kTyped) word.dtype = DataTypeFromName(ranked.first.substr(1));
  if (word.rule == Rule::kAttr) word.type = ranked.first;
  return word;
}

const std::vector<Word>* WordsOf(const std::string& op) {
  static const auto& table = *[] {
    auto* built = new std::map<std::string, const std::vector<Word>*>();
    for (const char* const* line = kInputTypes; *line != nullptr; ++line) {
      const std::pair<std::string, std::string> halves = absl::StrSplit(*line, absl::MaxSplits("| ", 1));
      auto* words = new std::vector<Word>();
      for (const absl::string_view word : absl::StrSplit(halves.first, ' ', absl::SkipEmpty())) words->push_back(ParseWord(std::string(word)));
      for (const absl::string_view name : absl::StrSplit(halves.second, ' ')) built->emplace(std::string(name), words);
    }
    return built;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

std::string NameOf(DataType dtype) { return std::string(DataTypeName(dtype)); }

std::string RankName(const Word& word) {
  if (word.lowest == word.highest) return word.lowest == 0 ? "a scalar" : word.lowest == 1 ? "a vector" : absl::StrCat("rank ", word.lowest);
  if (word.highest == kAnyRank) return absl::StrCat("at least rank ", word.lowest);
  return word.lowest == 0 ? absl::StrCat("at most rank ", word.highest) : absl::StrCat("rank ", word.lowest, " to ", word.highest);
}

// Checks the inputs of one node, word by word.
class InputTypes {
 public:
  explicit InputTypes(const InferenceContext& context) : context_(context) {}

  absl::Status Check(const std::vector<Word>& words) {
    for (const Word& word : words) {
      const std::optional<int64_t> count = word.rule == Rule::kAttrList ? CountTypes(word) : CountInputs(word);
      if (!count.has_value()) return absl::OkStatus();  // nobody knows where the next one begins
      if (*count < 0) return context_.Error(absl::StrCat("attribute '", word.count, "' is ", *count, ", expected how many inputs there are"));
      for (int64_t i = 0; i < *count && next_ < context_.num_inputs(); ++i) MR_RETURN_IF_ERROR(CheckInput(word, i));
      expected_ += *count;
    }
    const int64_t guards = context_.attrs().GetOr(kGuarded, false) ? 1 : 0;
    if (context_.num_inputs() == expected_ + guards) return absl::OkStatus();
    return context_.Error(absl::StrCat("has ", context_.num_inputs() - guards, " inputs, expected ", expected_));
  }

 private:
  std::optional<int64_t> CountInputs(const Word& word) {
    if (word.rule == Rule::kAttr) {
      const AttrValue* type = context_.attrs().Find(word.type);
      said_ = type == nullptr ? nullptr : std::get_if<DataType>(type);
    }
    if (word.count.empty()) return 1;
    if (!context_.attrs().Has(word.count)) return std::nullopt;
    return context_.attrs().GetOr<int64_t>(word.count, 0);
  }

  std::optional<int64_t> CountTypes(const Word& word) {
    const AttrValue* types = context_.attrs().Find(word.type);
    said_ = nullptr;
    if (types == nullptr) return std::nullopt;
    if (const auto* list = std::get_if<std::vector<DataType>>(types)) {
      said_ = list->data();
      return list->size();
    }
    return IsEmptyList(*types) ? std::optional<int64_t>(0) : std::nullopt;
  }

  // `i`: which one of those that the word stands for.
  absl::Status CheckInput(const Word& word, int64_t i) {
    const int input = next_++;
    const int rank = context_.shape(input).rank();
    if (rank >= 0 && (rank < word.lowest || (rank > word.highest && word.highest < kAnyRank))) {
      return context_.Error(absl::StrCat("input ", input, " is ", context_.input(input).ToString(), ", expected ", RankName(word)));
    }
    const DataType found = context_.dtype(input);
    if (word.rule == Rule::kAny || found == DataType::kInvalid) return absl::OkStatus();
    if (word.rule == Rule::kTyped) {
      if (found == word.dtype) return absl::OkStatus();
      return context_.Error(absl::StrCat("input ", input, " has type ", NameOf(found), ", expected ", NameOf(word.dtype)));
    }
    if (said_ != nullptr) {
      const DataType said = word.rule == Rule::kAttrList ? said_[i] : *said_;
      // The type of a handle's input is its variable's.
      if (said == found || said == DataType::kResource || said == DataType::kVariant) return absl::OkStatus();
      return context_.Error(absl::StrCat("input ", input, " has type ", NameOf(found), ", expected ", NameOf(said), " by attribute ", word.type));
    }
    return word.rule == Rule::kAttr ? CheckLikeFirst(word.type, input) : absl::OkStatus();
  }

  // Where the attribute is not given, its inputs are alike.
  absl::Status CheckLikeFirst(const std::string& attr, int input) {
    const auto shown = std::find_if(first_.begin(), first_.end(), [&](const auto& first) { return *first.first == attr; });
    if (shown == first_.end()) {
      first_.emplace_back(&attr, input);
      return absl::OkStatus();
    }
    if (context_.dtype(shown->second) == context_.dtype(input)) return absl::OkStatus();
    return context_.Error(absl::StrCat("input ", input, " has type ", NameOf(context_.dtype(input)), ", input ", shown->second, " type ",
                                       NameOf(context_.dtype(shown->second)), "; both are ", attr));
  }

  const InferenceContext& context_;
  int next_ = 0;                    // input to be looked at
  int64_t expected_ = 0;            // as many inputs
  const DataType* said_ = nullptr;  // by the word's attribute; nullptr: it is not given
  std::vector<std::pair<const std::string*, int>> first_;  // attribute, the first of its inputs
};

// How many inputs each word stands for that does not say so, of as many inputs as there are: nothing where several attributes are missing,
// or the inputs do not come out even.
std::optional<int64_t> MissingCount(const std::vector<Word>& words, const AttrMap& attrs, size_t inputs) {
  int64_t left = static_cast<int64_t>(inputs), times = 0;
  std::string missing;
  for (const Word& word : words) {
    const std::string& attr = word.rule == Rule::kAttrList ? word.type : word.count;
    const AttrValue* const value = attr.empty() ? nullptr : attrs.Find(attr);
    const auto* types = value == nullptr ? nullptr : std::get_if<std::vector<DataType>>(value);
    if (attr.empty() || value != nullptr) {
      left -= attr.empty() ? 1 : types != nullptr ? static_cast<int64_t>(types->size()) : attrs.GetOr<int64_t>(attr, 0);
      continue;
    }
    if (times > 0 && missing != attr) return std::nullopt;
    missing = attr;
    ++times;
  }
  if (times == 0 || left < 0 || left % times != 0) return std::nullopt;
  return left / times;
}

}  // namespace

void FillInputAttrs(absl::Span<const TensorType> inputs, Node& node) {
  const std::vector<Word>* words = WordsOf(node.op);
  if (words == nullptr) return;
  const std::optional<int64_t> missing = MissingCount(*words, node.attrs, inputs.size());
  size_t next = 0;
  for (const Word& word : *words) {
    const std::string& counted = word.rule == Rule::kAttrList ? word.type : word.count;
    int64_t count = 1;
    if (!counted.empty()) {
      const AttrValue* const given = node.attrs.Find(counted);
      const auto* types = given == nullptr ? nullptr : std::get_if<std::vector<DataType>>(given);
      if (given == nullptr && !missing.has_value()) return;
      count = given == nullptr ? *missing : types != nullptr ? static_cast<int64_t>(types->size()) : node.attrs.GetOr<int64_t>(counted, 0);
    }
    if (count < 0 || count > static_cast<int64_t>(inputs.size() - next)) return;
    const absl::Span<const TensorType> of_word = inputs.subspan(next, count);
    next += count;
    if (word.rule == Rule::kAttrList && !node.attrs.Has(word.type)) {
      std::vector<DataType> types;
      for (const TensorType& input : of_word) types.push_back(input.dtype);
      node.attrs.Set(word.type, std::move(types));
    }
    if (!word.count.empty() && !node.attrs.Has(word.count)) node.attrs.Set(word.count, count);
    if (word.rule == Rule::kAttr && !of_word.empty() && !node.attrs.Has(word.type)) node.attrs.Set(word.type, of_word[0].dtype);
  }
}

OpDef::ShapeRule WithTypesChecked(const std::string& op, OpDef::ShapeRule rule) {
  const std::vector<Word>* words = WordsOf(op);
  if (words == nullptr) return rule;
  return [words, rule = std::move(rule)](InferenceContext& context) {
    MR_RETURN_IF_ERROR(rule(context));  // which may have a better word for it
    return InputTypes(context).Check(*words);
  };
}

}  // namespace millrace
