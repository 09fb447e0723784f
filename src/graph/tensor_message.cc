#include "graph/tensor_message.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/message_fields.h"
#include "millrace/quantized_types.h"
#include "millrace/status.h"

namespace millrace {
namespace {

// Fields of TensorProto.
enum : uint64_t {
  kTypeField = 1,
  kShapeField = 2,
  kContentField = 4,
  kFloatsField = 5,
  kDoublesField = 6,
  kIntsField = 7,
  kStringsField = 8,
  kComplex64sField = 9,
  kInt64sField = 10,
  kBoolsField = 11,
  kComplex128sField = 12,
  kHalfsField = 13,
  kUint32sField = 16,
  kUint64sField = 17,
  kFloat8sField = 18
};
constexpr int kMostRank = 254;                            // TensorFlow's
constexpr int64_t kMostRepeatedBytes = int64_t{1} << 31;  // or strings, that a message's last value may stand for

void AppendNumber(uint64_t field, uint64_t value, std::string& to) {
  AppendVarint(field << 3, to);
  AppendVarint(value, to);
}

// The field that has the values of a type one by one.
uint64_t FieldOf(DataType type) {
  switch (HeldIn(type)) {
    case DataType::kFloat: return kFloatsField;
    case DataType::kDouble: return kDoublesField;
    case DataType::kString: return kStringsField;
    case DataType::kComplex64: return kComplex64sField;
    case DataType::kInt64: return kInt64sField;
    case DataType::kBool: return kBoolsField;
    case DataType::kComplex128: return kComplex128sField;
    case DataType::kUint32: return kUint32sField;
    case DataType::kUint64: return kUint64sField;
    case DataType::kHalf:
    case DataType::kBfloat16: return kHalfsField;
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E4M3fn: return kFloat8sField;
    default: return kIntsField;
  }
}

// What a message says, its values as they come: numbers by their bits.
struct TensorFields {
  uint64_t type = 0;
  std::vector<int64_t> dims;
  std::string content;
  std::vector<uint64_t> numbers[kFloat8sField + 1];  // by field
  std::vector<std::string> strings;
};

bool ReadDim(std::string_view bytes, TensorFields* message) {
  int64_t size = 0;
  MessageFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == 1 && fields.is_varint()) size = static_cast<int64_t>(fields.varint());
  }
  message->dims.push_back(size);
  return fields.right();
}

// TensorFlow's does not look at whether the rank is said to be unknown.
bool ReadShape(std::string_view bytes, TensorFields* message) {
  MessageFields fields(bytes);
  while (fields.Next()) {
    if (fields.is_message(2) && !ReadDim(fields.bytes(), message)) return false;
  }
  return fields.right();
}

uint64_t FixedAt(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, size);
  return value;
}

// Numbers of this field: one by one, or packed into bytes.
bool ReadNumbers(const MessageFields& fields, TensorFields* message) {
  const uint64_t field = fields.number();
  std::vector<uint64_t>& numbers = message->numbers[field];
  const bool wide = field == kDoublesField || field == kComplex128sField, fixed = wide || field == kFloatsField || field == kComplex64sField;
  const size_t size = wide ? 8 : 4;
  if (!fields.is_bytes()) {
    if (fixed ? wide ? fields.is_fixed64() : fields.is_fixed32() : fields.is_varint()) {
      numbers.push_back(fixed ? FixedAt(fields.bytes(), 0, size) : fields.varint());
    }
    return true;
  }
  if (fixed) {
    for (size_t at = 0; at + size <= fields.bytes().size(); at += size) numbers.push_back(FixedAt(fields.bytes(), at, size));
    return fields.bytes().size() % size == 0;
  }
  uint64_t value = 0;
  for (MessageFields packed(fields.bytes()); !packed.empty(); numbers.push_back(value)) {
    if (!packed.Varint(&value)) return false;
  }
  return true;
}

const uint8_t* BytesOf(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

bool ReadMessage(std::string_view bytes, TensorFields* message) {
  MessageFields fields(bytes);
  while (fields.Next()) {
    const uint64_t field = fields.number();
    if (field == 0) return false;
    if (field == kTypeField && fields.is_varint()) message->type = fields.varint() & 0xffffffff;
    if (fields.is_message(kShapeField) && !ReadShape(fields.bytes(), message)) return false;
    if (fields.is_message(kContentField)) message->content = fields.bytes();
    if (fields.is_message(kStringsField)) message->strings.emplace_back(fields.bytes());
    if (fields.is_message(kFloat8sField)) message->numbers[field].assign(BytesOf(fields.bytes()), BytesOf(fields.bytes()) + fields.bytes().size());
    const bool has_numbers = (field >= kFloatsField && field <= kHalfsField && field != kStringsField) || field == kUint32sField || field == kUint64sField;
    if (has_numbers && !ReadNumbers(fields, message)) return false;
  }
  return fields.right();
}

std::optional<Shape> ShapeOfFields(const TensorFields& message) {
  if (message.dims.size() > kMostRank || std::any_of(message.dims.begin(), message.dims.end(), [](int64_t dim) { return dim < 0; })) return std::nullopt;
  return Shape(message.dims);
}

// The lengths of all strings, then the bytes of all.
bool TakeStrings(std::string_view content, Tensor& strings) {
  MessageFields lengths(content);
  std::vector<uint64_t> sizes(strings.num_elements());
  for (uint64_t& size : sizes) {
    if (!lengths.Varint(&size)) return false;
  }
  std::string_view rest = lengths.rest();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > rest.size()) return false;
    strings.mutable_strings()[i] = std::string(rest.substr(0, sizes[i]));
    rest.remove_prefix(sizes[i]);
  }
  return rest.empty();
}

bool TakeContent(std::string_view content, Tensor& tensor) {
  if (tensor.dtype() == DataType::kString) return TakeStrings(content, tensor);
  if (static_cast<int64_t>(content.size()) != tensor.size_bytes()) return false;
  const auto is_bool = [](char c) { return c == 0 || c == 1; };
  if (tensor.dtype() == DataType::kBool && !std::all_of(content.begin(), content.end(), is_bool)) return false;
  std::memcpy(tensor.mutable_data(), content.data(), content.size());
  return true;
}

void TakeValues(const TensorFields& message, Tensor& tensor) {
  const int64_t count = tensor.num_elements();
  if (tensor.dtype() == DataType::kString) {
    const auto given = static_cast<int64_t>(message.strings.size());
    for (int64_t i = 0; i < count && given > 0; ++i) tensor.mutable_strings()[i] = message.strings[std::min(i, given - 1)];
    return;
  }
  const std::vector<uint64_t>& numbers = message.numbers[FieldOf(tensor.dtype())];
  const int64_t parts = tensor.dtype() == DataType::kComplex64 || tensor.dtype() == DataType::kComplex128 ? 2 : 1;
  const int64_t given = static_cast<int64_t>(numbers.size()) / parts, size = DataTypeSize(tensor.dtype()) / parts;
  char* to = static_cast<char*>(tensor.mutable_data());
  for (int64_t i = 0; i < count * parts && given > 0; ++i, to += size) {
    uint64_t number = numbers[std::min(i / parts, given - 1) * parts + i % parts];
    if (tensor.dtype() == DataType::kBool) number = number != 0 ? 1 : 0;
    std::memcpy(to, &number, size);
  }
}

}  // namespace

std::string TensorMessage(const Tensor& tensor) {
  std::string shape, message;
  for (int64_t size : tensor.shape().dims()) {
    std::string dim;
    if (size > 0) AppendNumber(1, static_cast<uint64_t>(size), dim);
    AppendBytes(2, dim, shape);
  }
  AppendNumber(kTypeField, static_cast<uint64_t>(tensor.dtype()), message);
  AppendBytes(kShapeField, shape, message);
  if (tensor.dtype() == DataType::kString) {
    for (const std::string& text : tensor.strings()) AppendBytes(kStringsField, text, message);
  } else if (tensor.size_bytes() > 0) {
    AppendBytes(kContentField, std::string_view(static_cast<const char*>(tensor.data()), tensor.size_bytes()), message);
  }
  return message;
}

absl::StatusOr<Tensor> TensorOfMessage(std::string_view bytes, DataType type) {
  TensorFields message;
  if (!ReadMessage(bytes, &message)) {
    const std::string code = absl::Base64Escape(absl::string_view(bytes.data(), bytes.size()));
    return absl::InvalidArgumentError(absl::StrCat("Could not parse `serialized` as TensorProto, base64: ", code));
  }
  const auto cannot = [](const std::string& why) { return absl::InvalidArgumentError(absl::StrCat("Cannot parse tensor from proto: ", why)); };
  const auto given = static_cast<DataType>(message.type);
  if (given == DataType::kInvalid || DataTypeName(given) == "invalid") return cannot(absl::StrCat("it is of type ", message.type));
  const std::optional<Shape> shape = ShapeOfFields(message);
  if (!shape.has_value()) return cannot("its shape is not known");
  if (given != type) {
    return absl::InvalidArgumentError(absl::StrCat("Type mismatch between parsed tensor (", std::string(DataTypeName(given)), ") and dtype (",
                                                   std::string(DataTypeName(type)), ")"));
  }
  if (type != DataType::kString && DataTypeSize(type) == 0) {
    return absl::UnimplementedError(absl::StrCat("tensors of type ", std::string(DataTypeName(type)), " are not parsed"));
  }
  if (shape->num_elements() == 0) return Tensor(type, *shape);
  const TensorType whole{type, *shape};
  const bool from_content = !message.content.empty();
  // An element of content has a byte or more; of values, the last one is repeated.
  const auto text_bytes = static_cast<int64_t>(sizeof(std::string) + (message.strings.empty() ? 0 : message.strings.back().size()));
  const int64_t element_bytes = type == DataType::kString ? text_bytes : DataTypeSize(type);
  const int64_t most = from_content ? static_cast<int64_t>(message.content.size()) : kMostRepeatedBytes / element_bytes;
  if (shape->num_elements() > most) return cannot(absl::StrCat("it is ", whole.ToString(), " with ", bytes.size(), " bytes"));
  Tensor tensor(type, *shape);
  if (from_content && !TakeContent(message.content, tensor)) {
    return cannot(absl::StrCat("it is ", whole.ToString(), " with ", message.content.size(), " bytes of content"));
  }
  if (!from_content) TakeValues(message, tensor);
  return tensor;
}

}  // namespace millrace
