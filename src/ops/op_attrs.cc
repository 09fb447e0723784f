#include "ops/op_attrs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "graph/attr_kind.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// An attribute of an op by its definition.
struct AttrSpec {
  std::string name;
  size_t kind = 0;          // index of AttrValue's alternative
  int64_t minimum = 0;      // of an int, or of the elements of a list
  bool has_minimum = false;
  bool has_default = false;
  uint64_t types = 0;  // bit i: DataType i is allowed; 0: all are
  std::vector<std::string> words;  // allowed ones; empty: all are
};
using AttrSpecs = std::vector<AttrSpec>;  // sorted by name, as AttrMap is

uint64_t BitOf(DataType dtype) {
  const auto number = static_cast<uint32_t>(dtype);
  return number < 64 ? uint64_t{1} << number : 0;
}

uint64_t TypeSet(std::string_view number) {
  int index = 0;
  CHECK(absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &index));
  uint64_t types = 0;
  for (const absl::string_view type : absl::StrSplit(kTypeSets[index], ' ')) types |= BitOf(DataTypeFromName({type.data(), type.size()}));
  return types;
}

// "NAME:KIND", then ">=MINIMUM", then "#SET" or "{WORD,WORD}", then "?".
AttrSpec ParseSpec(std::string text) {
  AttrSpec spec;
  spec.has_default = text.back() == '?';
  if (spec.has_default) text.pop_back();
  if (const size_t brace = text.find('{'); brace != std::string::npos) {
    spec.words = absl::StrSplit(text.substr(brace + 1, text.size() - brace - 2), ',');
    text.resize(brace);
  }
  if (const size_t set = text.find('#'); set != std::string::npos) {
    spec.types = TypeSet(std::string_view(text).substr(set + 1));
    text.resize(set);
  }
  if (const size_t minimum = text.find(">="); minimum != std::string::npos) {
    spec.has_minimum = absl::SimpleAtoi(text.substr(minimum + 2), &spec.minimum);
    text.resize(minimum);
  }
  const size_t colon = text.find(':');
  spec.name = text.substr(0, colon);
  const std::optional<size_t> kind = AttrKindFromName(std::string_view(text).substr(colon + 1));
  CHECK(kind.has_value()) << text;
  spec.kind = *kind;
  return spec;
}

const AttrSpecs* SpecsOf(const std::string& op) {
  static const auto& table = *[] {
    auto* built = new std::unordered_map<std::string, const AttrSpecs*>();
    for (const char* const* line = kOpAttrs; *line != nullptr; ++line) {
      auto* specs = new AttrSpecs();
      const std::pair<std::string, std::string> halves = absl::StrSplit(*line, absl::MaxSplits(" | ", 1));
      for (const absl::string_view spec : absl::StrSplit(halves.first, ' ')) specs->push_back(ParseSpec(std::string(spec)));
      for (const absl::string_view name : absl::StrSplit(halves.second, ' ')) built->emplace(std::string(name), specs);
    }
    return built;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

std::string NamesOf(uint64_t types) {
  std::vector<std::string> names;
  for (int number = 0; number < 64; ++number) {
    if ((types >> number & 1) != 0) names.emplace_back(DataTypeName(static_cast<DataType>(number)));
  }
  return absl::StrJoin(names, ", ");
}

std::string WordsOf(const AttrSpec& spec) {
  return absl::StrJoin(spec.words, ", ", [](std::string* out, const std::string& word) { absl::StrAppend(out, "\"", word, "\""); });
}

// No attribute is of a reference type, or of none.
bool Allows(const AttrSpec& spec, DataType dtype) {
  const auto number = static_cast<int32_t>(dtype);
  if (spec.types != 0) return (spec.types & BitOf(dtype)) != 0;
  return number > 0 && number < kRefTypeOffset;
}

bool IsList(size_t kind) { return kind >= AttrValue(std::vector<int64_t>()).index(); }

// How many elements a list has.
int64_t LengthOf(const AttrValue& value) {
  return std::visit(
      [](const auto& alternative) -> int64_t {
        if constexpr (kIsAttrList<std::decay_t<decltype(alternative)>>) {
          return static_cast<int64_t>(alternative.size());
        } else {
          return 0;
        }
      },
      value);
}

// What was expected, where the value is of the right kind but not among those allowed.
std::optional<std::string> Expected(const AttrSpec& spec, const AttrValue& value) {
  const auto allows = [&](DataType dtype) { return Allows(spec, dtype); };
  const auto* type = std::get_if<DataType>(&value);
  const auto* types = std::get_if<std::vector<DataType>>(&value);
  if ((type != nullptr && !allows(*type)) || (types != nullptr && !std::all_of(types->begin(), types->end(), allows))) {
    return spec.types == 0 ? "a type that is no reference" : absl::StrCat(types == nullptr ? "one of " : "each one of ", NamesOf(spec.types));
  }
  const auto knows = [&](const std::string& word) { return spec.words.empty() || std::find(spec.words.begin(), spec.words.end(), word) != spec.words.end(); };
  const auto* word = std::get_if<std::string>(&value);
  const auto* words = std::get_if<std::vector<std::string>>(&value);
  if ((word != nullptr && !knows(*word)) || (words != nullptr && !std::all_of(words->begin(), words->end(), knows))) {
    return absl::StrCat(words == nullptr ? "one of " : "each one of ", WordsOf(spec));
  }
  const auto* number = std::get_if<int64_t>(&value);
  if (!spec.has_minimum || (number == nullptr ? LengthOf(value) : *number) >= spec.minimum) return std::nullopt;
  return absl::StrCat("at least ", spec.minimum, number != nullptr ? "" : spec.minimum == 1 ? " element" : " elements");
}

absl::Status AttrError(const Node& node, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' (", absl::CHexEscape(node.op), "): ", message));
}

absl::Status CheckKind(const Node& node, const AttrSpec& spec, const AttrValue& value) {
  // Files do not say of which kind an empty list is, and an empty message is one, too.
  const bool is_empty = IsEmptyList(value) || std::holds_alternative<std::monostate>(value);
  if (value.index() == spec.kind || (is_empty && IsList(spec.kind))) return absl::OkStatus();
  return AttrError(node, AttrTypeError(spec.name, &value, spec.kind).message());
}

absl::Status CheckAttr(const Node& node, const AttrSpec& spec, const AttrValue& value) {
  MR_RETURN_IF_ERROR(CheckKind(node, spec, value));
  if (const std::optional<std::string> expected = Expected(spec, value)) {
    return AttrError(node, absl::StrCat("attribute '", spec.name, "' is ", AttrToString(value), ", expected ", *expected));
  }
  return absl::OkStatus();
}

// A tensor, of the type that the node says.
absl::Status CheckConst(const Node& node) {
  const AttrValue* const attr = node.attrs.Find("value");
  const auto* value = attr == nullptr ? nullptr : std::get_if<Tensor>(attr);
  if (value == nullptr) return absl::OkStatus();
  if (value->empty()) return AttrError(node, "attribute 'value' is no tensor");
  const DataType dtype = node.attrs.GetOr<DataType>("dtype", value->dtype());
  if (dtype == value->dtype()) return absl::OkStatus();
  return AttrError(node, absl::StrCat("attribute 'value' is ", value->type().ToString(), ", expected ", std::string(DataTypeName(dtype)), " by attribute dtype"));
}

enum class Expect {
  kKinds,  // of those that are given
  kAll,    // these, values that are allowed, and that none is missing
};

absl::Status Check(const Node& node, const AttrSpecs& specs, Expect expect) {
  auto attr = node.attrs.begin();
  for (const AttrSpec& spec : specs) {
    while (attr != node.attrs.end() && attr->first < spec.name) ++attr;
    const bool found = attr != node.attrs.end() && attr->first == spec.name;
    if (!found && expect == Expect::kAll && !spec.has_default) return AttrError(node, AttrTypeError(spec.name, nullptr, spec.kind).message());
    if (!found || std::holds_alternative<AttrParameter>(attr->second)) continue;
    MR_RETURN_IF_ERROR(expect == Expect::kKinds ? CheckKind(node, spec, attr->second) : CheckAttr(node, spec, attr->second));
  }
  return node.op == "Const" ? CheckConst(node) : absl::OkStatus();
}

}  // namespace

absl::Status CheckAttrKinds(const Node& node) {
  const AttrSpecs* specs = SpecsOf(node.op);
  return specs == nullptr ? absl::OkStatus() : Check(node, *specs, Expect::kKinds);
}

absl::Status CheckAttrs(const Node& node) {
  const AttrSpecs* specs = SpecsOf(node.op);
  return specs == nullptr ? absl::OkStatus() : Check(node, *specs, Expect::kAll);
}

AttrMap KnownAttrs(const std::string& op, const AttrMap& attrs) {
  const AttrSpecs* specs = SpecsOf(op);
  if (specs == nullptr) return attrs;
  AttrMap known;
  for (const auto& [name, value] : attrs) {
    const bool has = std::any_of(specs->begin(), specs->end(), [&](const AttrSpec& each) { return each.name == name; });
    if (has || name.starts_with('_')) known.Set(name, value);
  }
  return known;
}

absl::Status CheckWrittenAttrs(Node& node) {
  const AttrSpecs* specs = SpecsOf(node.op);
  if (specs == nullptr) return absl::OkStatus();
  for (const auto& [name, value] : AttrMap(node.attrs)) {
    if (name.starts_with('_')) continue;
    const auto spec = std::find_if(specs->begin(), specs->end(), [&](const AttrSpec& each) { return each.name == name; });
    if (spec == specs->end()) {
      const auto append = [](std::string* out, const AttrSpec& each) { out->append(each.name); };
      return AttrError(node, absl::StrCat("has no attribute '", name, "', only ", absl::StrJoin(*specs, ", ", append)));
    }
    const auto* number = std::get_if<int64_t>(&value);
    if (number != nullptr && spec->kind == AttrValue(float{}).index()) node.attrs.Set(name, static_cast<float>(*number));
  }
  return Check(node, *specs, Expect::kKinds);
}

}  // namespace millrace
