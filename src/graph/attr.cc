#include "millrace/attr.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/attr_kind.h"
#include "xxhash.h"

namespace millrace {
namespace {

constexpr const char* kKindNames[] = {
    "nothing",    "int",         "float",      "bool",          "string",     "type",
    "shape",      "tensor",      "func",       "list(int)",     "list(float)", "list(bool)",
    "list(string)", "list(type)", "list(shape)", "list(tensor)", "list(func)",
    "parameter"};
static_assert(std::size(kKindNames) == std::variant_size_v<AttrVariant>);

struct LowerName {
  bool operator()(const AttrMap::Entry& entry, std::string_view name) const {
    return std::string_view(entry.first) < name;
  }
};

struct Printer {
  std::string* out;
  void operator()(std::monostate) const {}
  void operator()(int64_t value) const { absl::StrAppend(out, value); }
  void operator()(float value) const { absl::StrAppendFormat(out, "%.9g", value); }  // as many digits as tell floats apart
  void operator()(bool value) const { absl::StrAppend(out, value ? "true" : "false"); }
  void operator()(const std::string& value) const { absl::StrAppend(out, "\"", absl::CHexEscape(value), "\""); }
  void operator()(DataType value) const { out->append(DataTypeName(value)); }
  void operator()(const Shape& value) const { absl::StrAppend(out, value.ToString()); }
  void operator()(const Tensor& value) const {
    uint64_t digest = 0;
    if (value.dtype() == DataType::kString) {
      for (const std::string& s : value.strings()) digest = XXH3_64bits_withSeed(s.data(), s.size(), digest);
    } else if (!value.empty()) {
      digest = XXH3_64bits(value.data(), value.size_bytes());
    }
    absl::StrAppend(out, value.type().ToString(), "#", absl::Hex(digest));
  }
  void operator()(const FunctionRef& value) const {
    absl::StrAppend(out, value.name);
    if (value.attrs == nullptr || value.attrs->empty()) return;
    out->append("{");
    for (const auto& [name, attr] : *value.attrs) absl::StrAppend(out, name, "=", AttrToString(attr), ";");
    out->append("}");
  }
  void operator()(const AttrParameter& value) const { absl::StrAppend(out, "$", value.name); }
  template <typename T>
  void operator()(const std::vector<T>& values) const {
    out->append("[");
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out->append(",");
      (*this)(static_cast<const T&>(values[i]));
    }
    out->append("]");
  }
  void operator()(const std::vector<bool>& values) const {
    out->append("[");
    for (size_t i = 0; i < values.size(); ++i) {
      absl::StrAppend(out, i > 0 ? "," : "", values[i] ? "true" : "false");
    }
    out->append("]");
  }
};

}  // namespace

AttrValue::AttrValue() = default;
AttrValue::AttrValue(const char* value) : AttrVariant(std::string(value)) {}
AttrValue::AttrValue(const AttrValue& other) = default;
AttrValue::AttrValue(AttrValue&& other) noexcept = default;
AttrValue& AttrValue::operator=(const AttrValue& other) = default;
AttrValue& AttrValue::operator=(AttrValue&& other) noexcept = default;
AttrValue::~AttrValue() = default;

template <typename T>
  requires kIsAlternative<T, AttrVariant>
AttrValue::AttrValue(T value) : AttrVariant(std::in_place_type<T>, std::move(value)) {}
template AttrValue::AttrValue(std::monostate);
template AttrValue::AttrValue(int64_t);
template AttrValue::AttrValue(float);
template AttrValue::AttrValue(bool);
template AttrValue::AttrValue(std::string);
template AttrValue::AttrValue(DataType);
template AttrValue::AttrValue(Shape);
template AttrValue::AttrValue(Tensor);
template AttrValue::AttrValue(FunctionRef);
template AttrValue::AttrValue(std::vector<int64_t>);
template AttrValue::AttrValue(std::vector<float>);
template AttrValue::AttrValue(std::vector<bool>);
template AttrValue::AttrValue(std::vector<std::string>);
template AttrValue::AttrValue(std::vector<DataType>);
template AttrValue::AttrValue(std::vector<Shape>);
template AttrValue::AttrValue(std::vector<Tensor>);
template AttrValue::AttrValue(std::vector<FunctionRef>);
template AttrValue::AttrValue(AttrParameter);

AttrMap::AttrMap(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) Set(entry.first, entry.second);
}
AttrMap::AttrMap(const AttrMap& other) = default;
AttrMap& AttrMap::operator=(const AttrMap& other) = default;
AttrMap& AttrMap::operator=(AttrMap&& other) noexcept = default;
AttrMap::~AttrMap() = default;

const AttrValue* AttrMap::Find(std::string_view name) const {
  const Entries& entries = *entries_;
  const auto it = std::lower_bound(entries.begin(), entries.end(), name, LowerName());
  return it != entries.end() && it->first == name ? &it->second : nullptr;
}

void AttrMap::Set(std::string_view name, AttrValue value) {
  Entries& entries = entries_.Own();
  const auto it = std::lower_bound(entries.begin(), entries.end(), name, LowerName());
  if (it != entries.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    entries.emplace(it, std::string(name), std::move(value));
  }
}

void AttrMap::Reserve(size_t entries) { entries_.Own().reserve(entries); }

void AttrMap::Erase(std::string_view name) {
  if (!Has(name)) return;
  Entries& entries = entries_.Own();
  entries.erase(std::lower_bound(entries.begin(), entries.end(), name, LowerName()));
}

bool IsEmptyList(const AttrValue& value) {
  return std::visit(
      [](const auto& alternative) {
        if constexpr (kIsAttrList<std::decay_t<decltype(alternative)>>) {
          return alternative.empty();
        } else {
          return false;
        }
      },
      value);
}

std::optional<size_t> AttrKindFromName(std::string_view name) {
  const auto found = std::find(std::begin(kKindNames), std::end(kKindNames), name);
  return found == std::end(kKindNames) ? std::nullopt : std::optional<size_t>(found - std::begin(kKindNames));
}

std::string AttrToString(const AttrValue& value) {
  std::string text = absl::StrCat(kKindNames[value.index()], " ");
  std::visit(Printer{&text}, value);
  return text;
}

absl::Status AttrTypeError(std::string_view name, const AttrValue* found, size_t expected_index) {
  return absl::InvalidArgumentError(absl::StrCat(
      "attribute '", std::string(name), "' is ", found == nullptr ? "missing" : AttrToString(*found),
      ", expected ", kKindNames[expected_index]));
}

}  // namespace millrace
