#include "graph/example_records.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/feature_lists.h"
#include "graph/message_fields.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Outputs = absl::StatusOr<std::vector<Tensor>>;

using Example = std::map<std::string_view, std::string_view>;  // the bytes of each feature

// A key and a value. Of two features of one key the last counts, even an empty one, which TensorFlow passes over.
bool ReadEntry(std::string_view bytes, Example* example) {
  std::string_view key, feature;
  MessageFields entry(bytes);
  int fields = 0;
  for (; entry.Next(); ++fields) {
    if (!entry.is_message(1) && !entry.is_message(2)) return false;
    (entry.is_message(1) ? key : feature) = entry.bytes();
  }
  (*example)[key] = feature;
  return entry.right() && fields == 2;
}

bool ReadExample(std::string_view bytes, Example* example) {
  MessageFields records(bytes);
  while (records.Next()) {
    if (!records.is_message(1)) continue;
    MessageFields entries(records.bytes());
    while (entries.Next()) {
      if (!entries.is_message(1) || !ReadEntry(entries.bytes(), example)) return false;
    }
    if (!entries.right()) return false;
  }
  return records.right();
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
  absl::StatusOr<FeatureColumn> ColumnOf(const std::string& key, DataType type) const {
    FeatureColumn column(examples_.size());
    for (size_t row = 0; row < examples_.size(); ++row) {
      const auto found = examples_[row].find(key);
      if (found == examples_[row].end()) continue;
      const auto error = [&](const std::string& what) {
        return absl::InvalidArgumentError(absl::StrCat("Name: ", Name(row), ", Key: ", key, ", Index: ", row, ".  ", what));
      };
      if (!ReadFirstList(found->second, &column[row])) return error("Can't parse serialized Example.");
      if (!column[row].has_value() || TypeOf(*column[row]) == type) continue;
      return error(absl::StrCat("Data types don't match. Data type: ", FeatureTypeText(TypeOf(*column[row])), " but expected type: ", FeatureTypeText(type)));
    }
    return column;
  }

  Outputs Sparse(const std::string& key, DataType type) const {
    MR_ASSIGN_OR_RETURN(const FeatureColumn column, ColumnOf(key, type));
    return SparseOf(column, type, batched_);
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
    MR_ASSIGN_OR_RETURN(const FeatureColumn column, ColumnOf(key, type));
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
    MR_ASSIGN_OR_RETURN(const FeatureColumn column, ColumnOf(key, type));
    return std::make_pair(ValuesOf(column, type), SplitsOf(column, split_type, batched_));
  }

 private:
  std::string Name(size_t row) const { return row < names_.size() ? names_[row] : "<unknown>"; }

  absl::Status CheckSizes(const std::string& key, const FeatureColumn& column, DataType type, const Shape& shape, bool open,
                          int64_t stride, bool has_default) const {
    for (size_t row = 0; row < column.size(); ++row) {
      if (!column[row].has_value()) {
        if (open || has_default) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("Name: ", Name(row), ", Feature: ", key, " (data type: ", FeatureTypeText(type), ") is required but could not be found."));
      }
      const int64_t size = SizeOf(*column[row]);
      if (open ? stride != 0 && size % stride == 0 : size == stride) continue;
      const std::string where = absl::StrCat("Name: ", Name(row), ", Key: ", key, ", Index: ", row, ".  Number of ", FeatureTypeText(type), " values ");
      return absl::InvalidArgumentError(
          open ? absl::StrCat(where, "is not a multiple of stride length. Saw ", size, " values but output shape is: ", shape.ToString())
               : absl::StrCat(where, "!= expected.  Values size: ", size, " but output shape: ", shape.ToString()));
    }
    return absl::OkStatus();
  }

  Tensor Filled(const FeatureColumn& column, DataType type, const Shape& shape, int64_t row_size, const Tensor& given) const {
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
