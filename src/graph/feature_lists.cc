#include "graph/feature_lists.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "graph/message_fields.h"

namespace millrace {
namespace {

using Texts = std::vector<std::string>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

float FloatAt(const char* bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Numbers that are packed into one field, behind those of the list. What is behind the last whole one is not read, as TensorFlow does not.
bool ReadPacked(std::string_view bytes, Floats* floats) {
  const size_t had = floats->size(), more = bytes.size() / sizeof(float);
  floats->resize(had + more);
  if (more > 0) std::memcpy(floats->data() + had, bytes.data(), more * sizeof(float));
  return true;
}

bool ReadPacked(std::string_view bytes, Ints* ints) {
  uint64_t value = 0;
  for (MessageFields packed(bytes); !packed.empty(); ints->push_back(static_cast<int64_t>(value))) {
    if (!packed.Varint(&value)) return false;
  }
  return true;
}

bool ReadNext(const MessageFields& fields, Texts* texts) {
  if (fields.is_message(1)) texts->emplace_back(fields.bytes());
  return fields.is_message(1);
}

bool ReadNext(const MessageFields& fields, Floats* floats) {
  if (fields.is_fixed32()) floats->push_back(FloatAt(fields.bytes().data()));
  return fields.is_fixed32();
}

bool ReadNext(const MessageFields& fields, Ints* ints) {
  if (fields.is_varint()) ints->push_back(static_cast<int64_t>(fields.varint()));
  return fields.is_varint();
}

// Lists of numbers are packed into one field or have a field per number.
template <typename List>
bool ReadList(std::string_view bytes, std::optional<Feature>* feature) {
  List list;
  MessageFields fields(bytes);
  bool right = true;
  while (right && fields.Next()) {
    if constexpr (!std::is_same_v<List, Texts>) {
      if (list.empty() && fields.is_message(1)) {
        right = ReadPacked(fields.bytes(), &list);
        break;
      }
    }
    right = fields.number() == 1 && ReadNext(fields, &list);
  }
  *feature = std::move(list);
  return right && fields.right();
}

// Behind what the feature has of this kind of list; fields of other numbers and kinds are passed over.
template <typename List>
bool AppendList(std::string_view bytes, std::optional<Feature>* feature) {
  if (!feature->has_value() || !std::holds_alternative<List>(**feature)) *feature = List();
  List& list = std::get<List>(**feature);
  MessageFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() != 1) continue;
    if constexpr (!std::is_same_v<List, Texts>) {
      if (std::is_same_v<List, Floats> && fields.is_bytes() && fields.bytes().size() % sizeof(float) != 0) return false;
      if (fields.is_bytes() && !ReadPacked(fields.bytes(), &list)) return false;
    }
    ReadNext(fields, &list);
  }
  return fields.right();
}

}  // namespace

bool ReadFirstList(std::string_view bytes, std::optional<Feature>* feature) {
  MessageFields kinds(bytes);
  if (!kinds.Next()) return kinds.right();
  if (kinds.is_message(1)) return ReadList<Texts>(kinds.bytes(), feature);
  if (kinds.is_message(2)) return ReadList<Floats>(kinds.bytes(), feature);
  return kinds.is_message(3) && ReadList<Ints>(kinds.bytes(), feature);
}

bool ReadAllLists(std::string_view bytes, std::optional<Feature>* feature) {
  MessageFields kinds(bytes);
  while (kinds.Next()) {
    if (kinds.number() == 0) return false;
    if (kinds.is_message(1) && !AppendList<Texts>(kinds.bytes(), feature)) return false;
    if (kinds.is_message(2) && !AppendList<Floats>(kinds.bytes(), feature)) return false;
    if (kinds.is_message(3) && !AppendList<Ints>(kinds.bytes(), feature)) return false;
  }
  return kinds.right();
}

const char* FeatureTypeText(DataType type) { return type == DataType::kFloat ? "float" : type == DataType::kInt64 ? "int64" : "string"; }
DataType TypeOf(const Feature& feature) {
  return std::holds_alternative<Texts>(feature) ? DataType::kString : std::holds_alternative<Floats>(feature) ? DataType::kFloat : DataType::kInt64;
}

int64_t SizeOf(const Feature& feature) {
  return std::visit([](const auto& list) { return static_cast<int64_t>(list.size()); }, feature);
}
int64_t SizeOf(const std::optional<Feature>& feature) { return feature.has_value() ? SizeOf(*feature) : 0; }
int64_t TotalSizeOf(const FeatureColumn& column) {
  int64_t count = 0;
  for (const auto& feature : column) count += SizeOf(feature);
  return count;
}

void CopyFeature(const Feature& feature, Tensor& to, int64_t at) {
  if (const auto* texts = std::get_if<Texts>(&feature)) std::copy(texts->begin(), texts->end(), to.mutable_strings().begin() + at);
  if (const auto* floats = std::get_if<Floats>(&feature)) std::copy(floats->begin(), floats->end(), to.mutable_as<float>().begin() + at);
  if (const auto* ints = std::get_if<Ints>(&feature)) std::copy(ints->begin(), ints->end(), to.mutable_as<int64_t>().begin() + at);
}

void CopyElement(const Tensor& from, int64_t element, Tensor& to, int64_t at) {
  if (to.dtype() == DataType::kString) to.mutable_strings()[at] = from.strings()[element];
  if (to.dtype() == DataType::kFloat) to.mutable_as<float>()[at] = from.as<float>()[element];
  if (to.dtype() == DataType::kInt64) to.mutable_as<int64_t>()[at] = from.as<int64_t>()[element];
}

std::vector<Tensor> SparseOf(const FeatureColumn& column, DataType type, bool batched) {
  const int64_t count = TotalSizeOf(column), rank = batched ? 2 : 1, rows = static_cast<int64_t>(column.size());
  Tensor places(DataType::kInt64, Shape({count, rank})), shape(DataType::kInt64, Shape({rank}));
  int64_t at = 0, longest = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t size = SizeOf(column[row]);
    longest = std::max(longest, size);
    for (int64_t k = 0; k < size; ++k, ++at) {
      if (batched) places.mutable_as<int64_t>()[at * 2] = row;
      places.mutable_as<int64_t>()[at * rank + rank - 1] = k;
    }
  }
  if (batched) shape.mutable_as<int64_t>()[0] = rows;
  shape.mutable_as<int64_t>()[rank - 1] = longest;
  return {std::move(places), ValuesOf(column, type), std::move(shape)};
}

Tensor ValuesOf(const FeatureColumn& column, DataType type) {
  Tensor values(type, Shape({TotalSizeOf(column)}));
  int64_t at = 0;
  for (const auto& feature : column) {
    if (feature.has_value()) CopyFeature(*feature, values, at);
    at += SizeOf(feature);
  }
  return values;
}

Tensor SplitsOf(const FeatureColumn& column, DataType split_type, bool batched) {
  if (!batched) return Tensor(split_type, Shape({0}));
  std::vector<int64_t> splits = {0};
  for (const auto& feature : column) splits.push_back(splits.back() + SizeOf(feature));
  return IntegersOf(split_type, splits);
}

Tensor IntegersOf(DataType type, absl::Span<const int64_t> values) {
  Tensor tensor(type, Shape({static_cast<int64_t>(values.size())}));
  if (type == DataType::kInt32) {
    std::transform(values.begin(), values.end(), tensor.mutable_as<int32_t>().begin(), [](int64_t v) { return static_cast<int32_t>(v); });
  } else {
    std::copy(values.begin(), values.end(), tensor.mutable_as<int64_t>().begin());
  }
  return tensor;
}

}  // namespace millrace
