#include "graph/example_records.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Outputs = absl::StatusOr<std::vector<Tensor>>;

// Fields of a message on the wire, one by one.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  // False at the end, and where the bytes are no message.
  bool Next() {
    uint64_t tag = 0;
    if (rest_.empty() || !Varint(&tag)) return false;
    number_ = tag >> 3;
    wire_ = static_cast<int>(tag & 7);
    if (wire_ == 0) return Varint(&varint_);
    uint64_t size = wire_ == 1 ? 8 : 4;
    if (wire_ == 2 && !Varint(&size)) return false;
    if ((wire_ != 1 && wire_ != 2 && wire_ != 5) || size > rest_.size()) return right_ = false;
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return right_ = false;
  }

  bool right() const { return right_; }
  bool empty() const { return rest_.empty(); }
  uint64_t number() const { return number_; }
  bool is_varint() const { return wire_ == 0; }
  bool is_message(uint64_t number) const { return wire_ == 2 && number_ == number; }
  bool is_fixed32() const { return wire_ == 5; }
  uint64_t varint() const { return varint_; }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view rest_, bytes_;
  uint64_t number_ = 0, varint_ = 0;
  int wire_ = 0;
  bool right_ = true;
};

using Texts = std::vector<std::string>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Feature = std::variant<Texts, Floats, Ints>;
using Example = std::map<std::string_view, std::string_view>;  // the bytes of each feature
using Column = std::vector<std::optional<Feature>>;

float FloatAt(const char* bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Numbers that are packed into one field. What is behind it is not read, as TensorFlow does not.
bool ReadPacked(std::string_view bytes, Floats* floats) {
  floats->resize(bytes.size() / sizeof(float));
  if (!floats->empty()) std::memcpy(floats->data(), bytes.data(), floats->size() * sizeof(float));
  return true;
}

bool ReadPacked(std::string_view bytes, Ints* ints) {
  uint64_t value = 0;
  for (Fields packed(bytes); !packed.empty(); ints->push_back(static_cast<int64_t>(value))) {
    if (!packed.Varint(&value)) return false;
  }
  return true;
}

bool ReadNext(const Fields& fields, Texts* texts) {
  if (fields.is_message(1)) texts->emplace_back(fields.bytes());
  return fields.is_message(1);
}

bool ReadNext(const Fields& fields, Floats* floats) {
  if (fields.is_fixed32()) floats->push_back(FloatAt(fields.bytes().data()));
  return fields.is_fixed32();
}

bool ReadNext(const Fields& fields, Ints* ints) {
  if (fields.is_varint()) ints->push_back(static_cast<int64_t>(fields.varint()));
  return fields.is_varint();
}

// Lists of numbers are packed into one field or have a field per number.
template <typename List>
bool ReadList(std::string_view bytes, std::optional<Feature>* feature) {
  List list;
  Fields fields(bytes);
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

// Of a message with lists of several kinds the first counts.
bool ReadFeature(std::string_view bytes, std::optional<Feature>* feature) {
  Fields kinds(bytes);
  if (!kinds.Next()) return kinds.right();
  if (kinds.is_message(1)) return ReadList<Texts>(kinds.bytes(), feature);
  if (kinds.is_message(2)) return ReadList<Floats>(kinds.bytes(), feature);
  return kinds.is_message(3) && ReadList<Ints>(kinds.bytes(), feature);
}

// A key and a value. Of two features of one key the last counts, even an empty one, which TensorFlow passes over.
bool ReadEntry(std::string_view bytes, Example* example) {
  std::string_view key, feature;
  Fields entry(bytes);
  int fields = 0;
  for (; entry.Next(); ++fields) {
    if (!entry.is_message(1) && !entry.is_message(2)) return false;
    (entry.is_message(1) ? key : feature) = entry.bytes();
  }
  (*example)[key] = feature;
  return entry.right() && fields == 2;
}

bool ReadExample(std::string_view bytes, Example* example) {
  Fields records(bytes);
  while (records.Next()) {
    if (!records.is_message(1)) continue;
    Fields entries(records.bytes());
    while (entries.Next()) {
      if (!entries.is_message(1) || !ReadEntry(entries.bytes(), example)) return false;
    }
    if (!entries.right()) return false;
  }
  return records.right();
}

const char* TypeText(DataType type) { return type == DataType::kFloat ? "float" : type == DataType::kInt64 ? "int64" : "string"; }
DataType TypeOf(const Feature& feature) {
  return std::holds_alternative<Texts>(feature) ? DataType::kString : std::holds_alternative<Floats>(feature) ? DataType::kFloat : DataType::kInt64;
}

int64_t SizeOf(const Feature& feature) {
  if (const auto* texts = std::get_if<Texts>(&feature)) return static_cast<int64_t>(texts->size());
  if (const auto* floats = std::get_if<Floats>(&feature)) return static_cast<int64_t>(floats->size());
  return static_cast<int64_t>(std::get<Ints>(feature).size());
}
int64_t SizeOf(const std::optional<Feature>& feature) { return feature.has_value() ? SizeOf(*feature) : 0; }

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

// What an op asks for: keys, types and defaults from its inputs and attributes.
struct Request {
  std::vector<std::string> sparse_keys, dense_keys, ragged_keys;
  std::vector<DataType> sparse_types, dense_types, ragged_types, split_types;
  std::vector<Shape> dense_shapes;
  std::vector<Tensor> defaults;
};

absl::StatusOr<Request> RequestOf(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  using Types = std::vector<DataType>;
  Request request;
  request.sparse_types = attrs.GetOr<Types>("sparse_types", {});
  request.dense_types = attrs.GetOr<Types>("Tdense", {});
  request.ragged_types = attrs.GetOr<Types>("ragged_value_types", {});
  request.split_types = attrs.GetOr<Types>("ragged_split_types", {});
  request.dense_shapes = attrs.GetOr<std::vector<Shape>>("dense_shapes", {});
  size_t at = op == "ParseSingleExample" ? 1 : 2;
  if (op == "ParseSingleExample") {
    request.sparse_keys = attrs.GetOr<std::vector<std::string>>("sparse_keys", {});
    request.dense_keys = attrs.GetOr<std::vector<std::string>>("dense_keys", {});
  } else {
    const bool lists = op == "ParseExampleV2";  // a tensor with all keys of a kind, or a tensor per key
    const size_t keys = lists ? 3 : request.sparse_types.size() + request.dense_types.size();
    if (inputs.size() < at + keys) return absl::InvalidArgumentError(absl::StrCat("has ", inputs.size(), " inputs, expected at least ", at + keys));
    for (size_t k = 0; k < keys; ++k, ++at) {
      const bool sparse = lists ? k == 0 : k < request.sparse_types.size();
      std::vector<std::string>& to = sparse ? request.sparse_keys : lists && k == 2 ? request.ragged_keys : request.dense_keys;
      if (inputs[at].dtype() != DataType::kString) return absl::InvalidArgumentError(absl::StrCat("input ", at, " are keys, expected strings"));
      to.insert(to.end(), inputs[at].strings().begin(), inputs[at].strings().end());
    }
  }
  request.defaults.assign(inputs.begin() + static_cast<int64_t>(std::min(at, inputs.size())), inputs.end());
  const size_t dense = request.dense_keys.size(), ragged = request.ragged_keys.size();
  if (request.sparse_types.size() != request.sparse_keys.size() || request.dense_types.size() != dense || request.dense_shapes.size() != dense ||
      request.defaults.size() != dense || request.ragged_types.size() != ragged || request.split_types.size() != ragged) {
    return absl::InvalidArgumentError("has not as many types, shapes and defaults as keys");
  }
  return request;
}

class Parser {
 public:
  Parser(const Tensor& serialized, std::vector<std::string> names) : batched_(serialized.shape().rank() > 0), names_(std::move(names)) {}

  absl::Status Read(const Tensor& serialized) {
    for (const std::string& bytes : serialized.strings()) {
      Example example;
      if (!ReadExample(bytes, &example)) return absl::InvalidArgumentError(absl::StrCat("Could not parse example input, value: '", bytes, "'"));
      examples_.push_back(std::move(example));
    }
    return absl::OkStatus();
  }

  // The feature of each example, if it has one.
  absl::StatusOr<Column> ColumnOf(const std::string& key, DataType type) const {
    Column column(examples_.size());
    for (size_t row = 0; row < examples_.size(); ++row) {
      const auto found = examples_[row].find(key);
      if (found == examples_[row].end()) continue;
      const auto error = [&](const std::string& what) {
        return absl::InvalidArgumentError(absl::StrCat("Name: ", Name(row), ", Key: ", key, ", Index: ", row, ".  ", what));
      };
      if (!ReadFeature(found->second, &column[row])) return error("Can't parse serialized Example.");
      if (!column[row].has_value() || TypeOf(*column[row]) == type) continue;
      return error(absl::StrCat("Data types don't match. Data type: ", TypeText(TypeOf(*column[row])), " but expected type: ", TypeText(type)));
    }
    return column;
  }

  Outputs Sparse(const std::string& key, DataType type) const {
    MR_ASSIGN_OR_RETURN(const Column column, ColumnOf(key, type));
    const int64_t count = Total(column), rank = batched_ ? 2 : 1, rows = static_cast<int64_t>(column.size());
    Tensor places(DataType::kInt64, Shape({count, rank})), values(type, Shape({count})), shape(DataType::kInt64, Shape({rank}));
    int64_t at = 0, longest = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t size = SizeOf(column[row]);
      if (size > 0) CopyFeature(*column[row], values, at);
      longest = std::max(longest, size);
      for (int64_t k = 0; k < size; ++k, ++at) {
        if (batched_) places.mutable_as<int64_t>()[at * 2] = row;
        places.mutable_as<int64_t>()[at * rank + rank - 1] = k;
      }
    }
    if (batched_) shape.mutable_as<int64_t>()[0] = rows;
    shape.mutable_as<int64_t>()[rank - 1] = longest;
    return std::vector<Tensor>{std::move(places), std::move(values), std::move(shape)};
  }

  absl::StatusOr<Tensor> Dense(const std::string& key, DataType type, Shape shape, const Tensor& given, size_t index) const {
    const bool open = shape.rank() > 0 && shape.dim(0) < 0;
    int64_t stride = 1;
    for (int d = open ? 1 : 0; d < shape.rank() && stride >= 0; ++d) stride = shape.dim(d) < 0 ? -1 : stride * shape.dim(d);
    if (shape.rank() < 0 || stride < 0) {
      return absl::InvalidArgumentError(absl::StrCat("dense_shapes[", index, "] has unknown rank or unknown inner dimensions: ", shape.ToString()));
    }
    if (open && given.num_elements() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("dense_shape[", index, "] is a variable length shape: ", shape.ToString(), ", therefore def_value[",
                                                     index, "] must contain a single element (the padding element)."));
    }
    if (!open && given.num_elements() > 0 && given.shape() != shape) {
      return absl::InvalidArgumentError(absl::StrCat("def_value[", index, "].shape() == ", given.shape().ToString(),
                                                     " is not compatible with dense_shapes_[", index, "] == ", shape.ToString()));
    }
    if (given.dtype() != type) return absl::InvalidArgumentError(absl::StrCat("the default of '", key, "' is of another type than its values"));
    MR_ASSIGN_OR_RETURN(const Column column, ColumnOf(key, type));
    MR_RETURN_IF_ERROR(CheckSizes(key, column, type, shape, open, stride, given.num_elements() > 0));
    int64_t row_size = stride;
    if (open) {
      int64_t longest = 0;
      for (const auto& feature : column) longest = std::max(longest, SizeOf(feature));
      shape.set_dim(0, stride == 0 ? 0 : longest / stride);
      row_size = longest;
    }
    return Filled(column, type, shape, row_size, given);
  }

  absl::StatusOr<std::pair<Tensor, Tensor>> Ragged(const std::string& key, DataType type, DataType split_type) const {
    MR_ASSIGN_OR_RETURN(const Column column, ColumnOf(key, type));
    const int64_t rows = static_cast<int64_t>(column.size());
    Tensor values(type, Shape({Total(column)})), splits(split_type, Shape({batched_ ? rows + 1 : 0}));
    int64_t at = 0;
    for (int64_t row = 0; row < rows; ++row) {
      if (column[row].has_value()) CopyFeature(*column[row], values, at);
      at += SizeOf(column[row]);
      if (!batched_) continue;
      if (split_type == DataType::kInt32) {
        splits.mutable_as<int32_t>()[row + 1] = static_cast<int32_t>(at);
      } else {
        splits.mutable_as<int64_t>()[row + 1] = at;
      }
    }
    return std::make_pair(std::move(values), std::move(splits));
  }

 private:
  std::string Name(size_t row) const { return row < names_.size() ? names_[row] : "<unknown>"; }
  static int64_t Total(const Column& column) {
    int64_t count = 0;
    for (const auto& feature : column) count += SizeOf(feature);
    return count;
  }

  absl::Status CheckSizes(const std::string& key, const Column& column, DataType type, const Shape& shape, bool open,
                          int64_t stride, bool has_default) const {
    for (size_t row = 0; row < column.size(); ++row) {
      if (!column[row].has_value()) {
        if (open || has_default) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("Name: ", Name(row), ", Feature: ", key, " (data type: ", TypeText(type), ") is required but could not be found."));
      }
      const int64_t size = SizeOf(*column[row]);
      if (open ? stride != 0 && size % stride == 0 : size == stride) continue;
      const std::string where = absl::StrCat("Name: ", Name(row), ", Key: ", key, ", Index: ", row, ".  Number of ", TypeText(type), " values ");
      return absl::InvalidArgumentError(
          open ? absl::StrCat(where, "is not a multiple of stride length. Saw ", size, " values but output shape is: ", shape.ToString())
               : absl::StrCat(where, "!= expected.  Values size: ", size, " but output shape: ", shape.ToString()));
    }
    return absl::OkStatus();
  }

  Tensor Filled(const Column& column, DataType type, const Shape& shape, int64_t row_size, const Tensor& given) const {
    Shape whole;
    if (batched_) whole.AddDim(static_cast<int64_t>(column.size()));
    for (int d = 0; d < shape.rank(); ++d) whole.AddDim(shape.dim(d));
    Tensor filled(type, whole);
    for (size_t row = 0; row < column.size(); ++row) {
      const int64_t begin = static_cast<int64_t>(row) * row_size;
      const int64_t size = SizeOf(column[row]);
      if (size > 0) CopyFeature(*column[row], filled, begin);
      for (int64_t k = size; k < row_size; ++k) CopyElement(given, given.num_elements() == 1 ? 0 : k, filled, begin + k);
    }
    return filled;
  }

  bool batched_;
  std::vector<std::string> names_;
  std::vector<Example> examples_;
};

}  // namespace

bool ParsesExamples(std::string_view op) { return op == "ParseExample" || op == "ParseExampleV2" || op == "ParseSingleExample"; }

Outputs ParsedExamples(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  MR_ASSIGN_OR_RETURN(const Request request, RequestOf(op, attrs, inputs));
  if (inputs.empty() || inputs[0].dtype() != DataType::kString) return absl::InvalidArgumentError("input 0 are records, expected strings");
  const int rank = inputs[0].shape().rank();
  if (op == "ParseSingleExample" ? rank != 0 : rank > 1 || (rank == 0 && op == "ParseExample")) {
    const char* const expected = op == "ParseSingleExample" ? "scalar" : op == "ParseExample" ? "vector" : "scalar or vector";
    return absl::InvalidArgumentError(absl::StrCat("Expected serialized to be a ", expected, ", got shape: ", inputs[0].shape().ToString()));
  }
  std::vector<std::string> names;
  if (op != "ParseSingleExample" && inputs[1].dtype() == DataType::kString) {
    if (inputs[1].num_elements() > 0 && inputs[1].shape() != inputs[0].shape()) {
      return absl::InvalidArgumentError(absl::StrCat("Expected names have the same shape as serialized: name.shape=", inputs[1].shape().ToString(),
                                                     ", serialized.shape=", inputs[0].shape().ToString()));
    }
    names = inputs[1].strings();
  }
  Parser parser(inputs[0], std::move(names));
  MR_RETURN_IF_ERROR(parser.Read(inputs[0]));
  const size_t sparse = request.sparse_keys.size(), ragged = request.ragged_keys.size();
  std::vector<Tensor> outputs(sparse * 3), splits;
  for (size_t k = 0; k < sparse; ++k) {
    MR_ASSIGN_OR_RETURN(std::vector<Tensor> parts, parser.Sparse(request.sparse_keys[k], request.sparse_types[k]));
    for (size_t part = 0; part < 3; ++part) outputs[part * sparse + k] = std::move(parts[part]);
  }
  for (size_t k = 0; k < request.dense_keys.size(); ++k) {
    MR_ASSIGN_OR_RETURN(Tensor dense, parser.Dense(request.dense_keys[k], request.dense_types[k], request.dense_shapes[k], request.defaults[k], k));
    outputs.push_back(std::move(dense));
  }
  for (size_t k = 0; k < ragged; ++k) {
    MR_ASSIGN_OR_RETURN(auto rows, parser.Ragged(request.ragged_keys[k], request.ragged_types[k], request.split_types[k]));
    outputs.push_back(std::move(rows.first));
    splits.push_back(std::move(rows.second));
  }
  for (Tensor& split : splits) outputs.push_back(std::move(split));
  return outputs;
}

}  // namespace millrace
