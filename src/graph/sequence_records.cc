#include "graph/sequence_records.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/feature_lists.h"
#include "graph/message_fields.h"
#include "millrace/status.h"

namespace millrace {
namespace {

using Outputs = absl::StatusOr<std::vector<Tensor>>;
using Texts = std::vector<std::string>;
using Types = std::vector<DataType>;
using Bytes = std::map<std::string_view, std::string_view>;  // of each feature, or of each list of them

constexpr char kSingle[] = "ParseSingleSequenceExample";
constexpr char kV2[] = "ParseSequenceExampleV2";

// What an op asks of the context, or of lists.
struct Wanted {
  Texts sparse_keys, dense_keys, ragged_keys;
  Types sparse_types, dense_types, ragged_types, split_types;
  std::vector<Shape> dense_shapes;

  bool fits() const {
    return sparse_keys.size() == sparse_types.size() && dense_keys.size() == dense_types.size() && dense_keys.size() == dense_shapes.size() &&
           ragged_keys.size() == ragged_types.size() && ragged_keys.size() == split_types.size();
  }
};

struct SequenceRequest {
  Wanted context, lists;
  std::vector<Tensor> defaults;      // of the context's dense features
  std::vector<bool> may_be_missing;  // each dense list
  Texts names;                       // of the records
};

void TakeTypes(const AttrMap& attrs, SequenceRequest* request) {
  request->context.sparse_types = attrs.GetOr<Types>("context_sparse_types", {});
  request->context.dense_types = attrs.GetOr<Types>("Tcontext_dense", {});
  request->context.ragged_types = attrs.GetOr<Types>("context_ragged_value_types", {});
  request->context.split_types = attrs.GetOr<Types>("context_ragged_split_types", {});
  request->context.dense_shapes = attrs.GetOr<std::vector<Shape>>("context_dense_shapes", {});
  request->lists.sparse_types = attrs.GetOr<Types>("feature_list_sparse_types", {});
  request->lists.dense_types = attrs.GetOr<Types>("feature_list_dense_types", {});
  request->lists.ragged_types = attrs.GetOr<Types>("feature_list_ragged_value_types", {});
  request->lists.split_types = attrs.GetOr<Types>("feature_list_ragged_split_types", {});
  request->lists.dense_shapes = attrs.GetOr<std::vector<Shape>>("feature_list_dense_shapes", {});
}

// The inputs of a node, one after another.
class SequenceInputs {
 public:
  explicit SequenceInputs(absl::Span<const Tensor> inputs) : inputs_(inputs) {}

  absl::StatusOr<Texts> Strings() {
    if (at_ >= inputs_.size() || inputs_[at_].dtype() != DataType::kString) {
      return absl::InvalidArgumentError(absl::StrCat("has no strings as input ", at_));
    }
    return inputs_[at_++].strings();
  }
  // A key per input.
  absl::StatusOr<Texts> Keys(const char* name, size_t count) {
    Texts keys;
    for (size_t k = 0; k < count; ++k) {
      MR_ASSIGN_OR_RETURN(const Texts one, Strings());
      const Shape& shape = inputs_[at_ - 1].shape();
      if (shape.rank() != 0) return absl::InvalidArgumentError(absl::StrCat("Expected ", name, "[", k, "] to be a scalar, got shape: ", shape.ToString()));
      keys.push_back(one[0]);
    }
    return keys;
  }
  absl::StatusOr<std::vector<bool>> Bools() {
    if (at_ >= inputs_.size() || inputs_[at_].dtype() != DataType::kBool) {
      return absl::InvalidArgumentError(absl::StrCat("has no bools as input ", at_));
    }
    const auto values = inputs_[at_++].as<bool>();
    return std::vector<bool>(values.begin(), values.end());
  }
  std::vector<Tensor> Tensors(size_t count) {
    const size_t end = std::min(at_ + count, inputs_.size());
    std::vector<Tensor> tensors(inputs_.begin() + static_cast<int64_t>(at_), inputs_.begin() + static_cast<int64_t>(end));
    at_ = end;
    return tensors;
  }
  bool at_end() const { return at_ == inputs_.size(); }

 private:
  absl::Span<const Tensor> inputs_;
  size_t at_ = 1;  // behind the records
};

std::vector<bool> AreIn(const Texts& keys, const Texts& chosen) {
  const std::set<std::string> names(chosen.begin(), chosen.end());
  std::vector<bool> are_in;
  for (const std::string& key : keys) are_in.push_back(names.count(key) > 0);
  return are_in;
}

absl::StatusOr<SequenceRequest> SingleRequest(const AttrMap& attrs, SequenceInputs& inputs) {
  SequenceRequest request;
  TakeTypes(attrs, &request);
  MR_ASSIGN_OR_RETURN(const Texts may_be_missing, inputs.Strings());
  MR_ASSIGN_OR_RETURN(request.context.sparse_keys, inputs.Keys("context_sparse_keys", request.context.sparse_types.size()));
  MR_ASSIGN_OR_RETURN(request.context.dense_keys, inputs.Keys("context_dense_keys", request.context.dense_types.size()));
  MR_ASSIGN_OR_RETURN(request.lists.sparse_keys, inputs.Keys("feature_list_sparse_keys", request.lists.sparse_types.size()));
  MR_ASSIGN_OR_RETURN(request.lists.dense_keys, inputs.Keys("feature_list_dense_keys", request.lists.dense_types.size()));
  request.may_be_missing = AreIn(request.lists.dense_keys, may_be_missing);
  request.defaults = inputs.Tensors(request.context.dense_types.size());
  MR_ASSIGN_OR_RETURN(request.names, inputs.Strings());
  return request;
}

absl::StatusOr<SequenceRequest> BatchRequest(std::string_view op, const AttrMap& attrs, SequenceInputs& inputs) {
  SequenceRequest request;
  TakeTypes(attrs, &request);
  MR_ASSIGN_OR_RETURN(request.names, inputs.Strings());
  if (op == kV2) {
    for (Wanted* wanted : {&request.context, &request.lists}) {
      MR_ASSIGN_OR_RETURN(wanted->sparse_keys, inputs.Strings());
      MR_ASSIGN_OR_RETURN(wanted->dense_keys, inputs.Strings());
      MR_ASSIGN_OR_RETURN(wanted->ragged_keys, inputs.Strings());
    }
    MR_ASSIGN_OR_RETURN(request.may_be_missing, inputs.Bools());
  } else {
    request.context.sparse_keys = attrs.GetOr<Texts>("context_sparse_keys", {});
    request.context.dense_keys = attrs.GetOr<Texts>("context_dense_keys", {});
    request.lists.sparse_keys = attrs.GetOr<Texts>("feature_list_sparse_keys", {});
    request.lists.dense_keys = attrs.GetOr<Texts>("feature_list_dense_keys", {});
    request.may_be_missing = AreIn(request.lists.dense_keys, attrs.GetOr<Texts>("feature_list_dense_missing_assumed_empty", {}));
  }
  request.defaults = inputs.Tensors(request.context.dense_types.size());
  return request;
}

absl::Status CheckKinds(const Wanted& wanted, const char* what) {
  const std::set<std::string> sparse(wanted.sparse_keys.begin(), wanted.sparse_keys.end());
  const std::set<std::string> ragged(wanted.ragged_keys.begin(), wanted.ragged_keys.end());
  for (const std::string& key : wanted.ragged_keys) {
    if (sparse.count(key) > 0) return absl::InvalidArgumentError(absl::StrCat(what, " feature ", key, " cannot be both ragged and sparse"));
  }
  for (const std::string& key : wanted.dense_keys) {
    if (sparse.count(key) + ragged.count(key) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, " feature ", key, " cannot be both dense and sparse"));
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(std::string_view op, const SequenceRequest& request) {
  const Wanted& context = request.context;
  if (!context.fits() || !request.lists.fits() || request.defaults.size() != context.dense_keys.size() ||
      request.may_be_missing.size() != request.lists.dense_keys.size()) {
    return absl::InvalidArgumentError("has not as many types, shapes and defaults as keys");
  }
  for (const Wanted* wanted : {&context, &request.lists}) {
    for (const Shape& shape : wanted->dense_shapes) {
      if (shape.fully_known()) continue;
      return absl::InvalidArgumentError(absl::StrCat("a dense shape is ", shape.ToString(), ", expected a fully defined one"));
    }
  }
  for (size_t d = 0; d < request.defaults.size(); ++d) {
    const Tensor& given = request.defaults[d];
    if (given.dtype() != context.dense_types[d]) {
      return absl::InvalidArgumentError(absl::StrCat("context_dense_defaults[", d, "] is of another type than context_dense_types[", d, "]"));
    }
    if (given.num_elements() == 0 || given.shape() == context.dense_shapes[d]) continue;
    return absl::InvalidArgumentError(absl::StrCat(op == kSingle ? "def_value[" : "default_value[", d, "].shape() == ", given.shape().ToString(),
                                                   op == kSingle ? " != context_dense_shapes_[" : " != context_dense_shapes[", d,
                                                   "] == ", context.dense_shapes[d].ToString()));
  }
  if (op == kSingle) return absl::OkStatus();
  MR_RETURN_IF_ERROR(CheckKinds(context, "Context"));
  return CheckKinds(request.lists, "Sequence");
}

// A key and a value: both, in this order, for TensorFlow's fast parser; as protobuf reads a map otherwise. The last one of a key counts.
bool ReadMapEntry(std::string_view bytes, bool fast, Bytes* features) {
  std::string_view key, value;
  MessageFields entry(bytes);
  int fields = 0;
  for (; entry.Next(); ++fields) {
    if (fast && !entry.is_message(fields + 1)) return false;
    if (entry.is_message(1)) key = entry.bytes();
    if (entry.is_message(2)) value = entry.bytes();
  }
  (*features)[key] = value;
  return entry.right() && (!fast || fields == 2);
}

bool ReadMap(std::string_view bytes, bool fast, Bytes* features) {
  MessageFields entries(bytes);
  while (entries.Next()) {
    if (entries.is_message(1) ? !ReadMapEntry(entries.bytes(), fast, features) : fast) return false;
  }
  return entries.right();
}

struct SequenceRecord {
  Bytes context, lists;
};

bool ReadSequence(std::string_view bytes, bool fast, SequenceRecord* record) {
  MessageFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == 0) return false;
    if (fields.is_message(1) && !ReadMap(fields.bytes(), fast, &record->context)) return false;
    if (fields.is_message(2) && !ReadMap(fields.bytes(), fast, &record->lists)) return false;
  }
  return fields.right();
}

// A list of features, if the record has it.
using FeatureList = std::optional<FeatureColumn>;

int64_t SizeOfList(const FeatureList& list) { return list.has_value() ? TotalSizeOf(*list) : 0; }

class SequenceParser {
 public:
  SequenceParser(bool single, bool batched, Texts names) : single_(single), batched_(batched), names_(std::move(names)) {}

  absl::Status Read(const Tensor& serialized) {
    for (const std::string& bytes : serialized.strings()) {
      SequenceRecord record;
      if (!ReadSequence(bytes, !single_, &record)) {
        return absl::InvalidArgumentError(single_ ? absl::StrCat("Could not parse example input, value: '", bytes, "'")
                                                  : absl::StrCat("Invalid protocol message input, example id: ", Name(records_.size())));
      }
      records_.push_back(std::move(record));
    }
    return absl::OkStatus();
  }

  Outputs ContextSparse(const std::string& key, DataType type) const {
    MR_ASSIGN_OR_RETURN(const FeatureColumn column, Context(key, type, /*dense=*/false));
    return SparseOf(column, type, batched_);
  }

  absl::StatusOr<Tensor> ContextDense(const std::string& key, DataType type, const Shape& shape, const Tensor& given) const {
    MR_ASSIGN_OR_RETURN(const FeatureColumn column, Context(key, type, /*dense=*/true));
    MR_RETURN_IF_ERROR(CheckContextSizes(key, column, type, shape, given));
    Tensor values(type, Batched(shape));
    const int64_t size = shape.num_elements();
    for (size_t e = 0; e < column.size(); ++e) {
      const int64_t at = static_cast<int64_t>(e) * size;
      if (column[e].has_value()) CopyFeature(*column[e], values, at);
      for (int64_t k = 0; k < size && records_[e].context.count(key) == 0; ++k) CopyElement(given, k, values, at + k);
    }
    return values;
  }

  absl::StatusOr<std::pair<Tensor, Tensor>> ContextRagged(const std::string& key, DataType type, DataType split_type) const {
    MR_ASSIGN_OR_RETURN(const FeatureColumn column, Context(key, type, /*dense=*/false));
    return std::make_pair(ValuesOf(column, type), batched_ ? SplitsOf(column, split_type, batched_) : NoSplits(split_type));
  }

  Outputs ListSparse(const std::string& key, DataType type) const {
    MR_ASSIGN_OR_RETURN(const std::vector<FeatureList> lists, Lists(key, type, /*dense=*/false));
    std::vector<int64_t> places;
    int64_t most_rows = 0, longest = 0;
    for (size_t e = 0; e < lists.size(); ++e) {
      const int64_t rows = lists[e].has_value() ? static_cast<int64_t>(lists[e]->size()) : 0;
      most_rows = std::max(most_rows, rows);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t size = SizeOf((*lists[e])[row]);
        longest = std::max(longest, size);
        for (int64_t k = 0; k < size; ++k) {
          if (batched_) places.push_back(static_cast<int64_t>(e));
          places.insert(places.end(), {row, k});
        }
      }
    }
    const int64_t rank = batched_ ? 3 : 2;
    std::vector<int64_t> shape = {most_rows, longest};
    if (batched_) shape.insert(shape.begin(), static_cast<int64_t>(lists.size()));
    const Tensor indices = IntegersOf(DataType::kInt64, places).Reshaped(Shape({static_cast<int64_t>(places.size()) / rank, rank}));
    return std::vector<Tensor>{indices, ValuesOf(Joined(lists), type), IntegersOf(DataType::kInt64, shape)};
  }

  // The lists, and how many rows each has.
  absl::StatusOr<std::pair<Tensor, Tensor>> ListDense(const std::string& key, DataType type, const Shape& shape, bool may_be_missing) const {
    MR_ASSIGN_OR_RETURN(const std::vector<FeatureList> lists, Lists(key, type, /*dense=*/true));
    MR_RETURN_IF_ERROR(CheckListSizes(key, lists, type, shape, may_be_missing));
    std::vector<int64_t> rows;
    for (const FeatureList& list : lists) rows.push_back(list.has_value() ? static_cast<int64_t>(list->size()) : 0);
    const int64_t most = rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end());
    Shape of_list({most});
    for (int64_t dim : shape.dims()) of_list.AddDim(dim);
    Tensor values(type, Batched(of_list));
    for (size_t e = 0; e < lists.size(); ++e) {
      int64_t at = static_cast<int64_t>(e) * of_list.num_elements();
      for (int64_t row = 0; row < rows[e]; ++row, at += shape.num_elements()) {
        if (const auto& feature = (*lists[e])[row]; feature.has_value()) CopyFeature(*feature, values, at);
      }
    }
    return std::make_pair(std::move(values), IntegersOf(DataType::kInt64, rows).Reshaped(Batched(Shape())));
  }

  // Values, where lists begin among rows, and rows among values.
  Outputs ListRagged(const std::string& key, DataType type, DataType split_type) const {
    MR_ASSIGN_OR_RETURN(const std::vector<FeatureList> lists, Lists(key, type, /*dense=*/false));
    const FeatureColumn rows = Joined(lists);
    std::vector<int64_t> outer = {0};
    for (const FeatureList& list : lists) outer.push_back(outer.back() + (list.has_value() ? static_cast<int64_t>(list->size()) : 0));
    const Tensor outer_splits = batched_ ? IntegersOf(split_type, outer) : NoSplits(split_type);
    return std::vector<Tensor>{ValuesOf(rows, type), outer_splits, SplitsOf(rows, split_type, /*batched=*/true)};
  }

 private:
  std::string Name(size_t record) const { return record < names_.size() ? names_[record] : "<unknown>"; }

  Shape Batched(const Shape& shape) const {
    Shape batched;
    if (batched_) batched.AddDim(static_cast<int64_t>(records_.size()));
    for (int64_t dim : shape.dims()) batched.AddDim(dim);
    return batched;
  }

  // A single record has none; TensorFlow leaves a number that means nothing in their place.
  static Tensor NoSplits(DataType type) { return Tensor(type, Shape()); }

  static FeatureColumn Joined(const std::vector<FeatureList>& lists) {
    FeatureColumn rows;
    for (const FeatureList& list : lists) {
      if (list.has_value()) rows.insert(rows.end(), list->begin(), list->end());
    }
    return rows;
  }

  // Whether it is a feature of this type. One without a list is of none; only `dense` features of a single record need one.
  bool ReadFeature(std::string_view bytes, DataType type, bool dense, std::optional<Feature>* feature) const {
    if (!(single_ ? ReadAllLists(bytes, feature) : ReadFirstList(bytes, feature))) return false;
    return feature->has_value() ? TypeOf(**feature) == type : !(single_ && dense);
  }

  absl::StatusOr<FeatureColumn> Context(const std::string& key, DataType type, bool dense) const {
    FeatureColumn column(records_.size());
    for (size_t e = 0; e < records_.size(); ++e) {
      const auto found = records_[e].context.find(key);
      if (found == records_[e].context.end() || ReadFeature(found->second, type, dense, &column[e])) continue;
      return absl::InvalidArgumentError(absl::StrCat("Name: ", Name(e), ", Context feature: ", key, ".  Data types don't match. Expected type: ",
                                                     FeatureTypeText(type)));
    }
    return column;
  }

  absl::StatusOr<FeatureList> ReadList(std::string_view bytes, const std::string& key, size_t record, DataType type, bool dense) const {
    FeatureColumn list;
    MessageFields rows(bytes);
    bool right = true;
    while (right && rows.Next()) {
      if (!rows.is_message(1) || (!single_ && rows.bytes().size() == 1)) {
        right = single_;  // protobuf passes over fields that it does not know
        continue;
      }
      if (ReadFeature(rows.bytes(), type, dense, &list.emplace_back())) continue;
      return absl::InvalidArgumentError(absl::StrCat("Name: ", Name(record), single_ && !dense ? ", Feature List: " : ", Feature list: ", key, ", Index: ",
                                                     list.size() - 1, ".  Data types don't match. Expected type: ", FeatureTypeText(type)));
    }
    if (right && rows.right()) return list;
    return absl::InvalidArgumentError(absl::StrCat("Error in sequence feature ", key, " in example ", Name(record)));
  }

  absl::StatusOr<std::vector<FeatureList>> Lists(const std::string& key, DataType type, bool dense) const {
    std::vector<FeatureList> lists(records_.size());
    for (size_t e = 0; e < records_.size(); ++e) {
      const auto found = records_[e].lists.find(key);
      if (found == records_[e].lists.end()) continue;
      MR_ASSIGN_OR_RETURN(lists[e], ReadList(found->second, key, e, type, dense));
    }
    return lists;
  }

  absl::Status CheckContextSizes(const std::string& key, const FeatureColumn& column, DataType type, const Shape& shape, const Tensor& given) const {
    int64_t most = given.num_elements();
    for (const auto& feature : column) most = std::max(most, SizeOf(feature));
    if (!single_ && most != shape.num_elements()) {
      return absl::InvalidArgumentError(absl::StrCat("Inconsistent max number of elements for feature ", key, ": expected ", shape.num_elements(),
                                                     ", but found ", most));
    }
    for (size_t e = 0; e < column.size(); ++e) {
      if (records_[e].context.count(key) == 0) {
        if (given.num_elements() > 0) continue;
        return absl::InvalidArgumentError(
            single_ ? absl::StrCat("Name: ", Name(e), ", Context feature '", key, "' is required but could not be found.")
                    : absl::StrCat("Feature: ", key, " (data type: ", FeatureTypeText(type), ") is required but could not be found."));
      }
      const int64_t size = SizeOf(column[e]);
      if (size == shape.num_elements()) continue;
      if (!single_) return absl::InvalidArgumentError(absl::StrCat("Unexpected number of elements in example ", Name(e)));
      return WrongSize(key, e, 0, type, size, shape);
    }
    return absl::OkStatus();
  }

  absl::Status CheckListSizes(const std::string& key, const std::vector<FeatureList>& lists, DataType type, const Shape& shape,
                              bool may_be_missing) const {
    int64_t most = 0;
    for (const FeatureList& list : lists) most = std::max(most, SizeOfList(list));
    const int64_t expected = shape.num_elements();
    if (!single_ && (expected == 0 || most % expected != 0)) {
      return absl::InvalidArgumentError(absl::StrCat("Feature list '", key, "' has an unexpected number of values.  Total values size: ", most,
                                                     " is not consistent with output shape: [?", shape.rank() == 0 ? "" : ",",
                                                     absl::StrJoin(shape.dims(), ","), "]"));
    }
    for (size_t e = 0; e < lists.size(); ++e) {
      if (!lists[e].has_value() && !may_be_missing) {
        return absl::InvalidArgumentError(absl::StrCat("Name: ", Name(e), ", Feature list '", key, "' is required but could not be found.  Did you mean "
                                                       "to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"));
      }
      for (size_t row = 0; lists[e].has_value() && row < lists[e]->size(); ++row) {
        const int64_t size = SizeOf((*lists[e])[row]);
        if (size != expected) return WrongSize(key, e, row, type, size, shape);
      }
    }
    return absl::OkStatus();
  }

  absl::Status WrongSize(const std::string& key, size_t record, size_t row, DataType type, int64_t size, const Shape& shape) const {
    const std::string of_type = single_ ? absl::StrCat(type == DataType::kString ? "bytes" : FeatureTypeText(type), " ") : "";
    return absl::InvalidArgumentError(absl::StrCat("Name: ", Name(record), ", Key: ", key, ", Index: ", row, ".  Number of ", of_type,
                                                   "values != expected.  values size: ", size, " but output shape: ", shape.ToString()));
  }

  bool single_, batched_;
  Texts names_;
  std::vector<SequenceRecord> records_;
};

// Parts of several features: the first parts of all, then their second parts, and so on.
class Parts {
 public:
  void Add(std::vector<Tensor> parts) { of_feature_.push_back(std::move(parts)); }
  void AppendTo(size_t parts, std::vector<Tensor>* outputs) const {
    for (size_t part = 0; part < parts; ++part) {
      for (const auto& feature : of_feature_) outputs->push_back(feature[part]);
    }
  }

 private:
  std::vector<std::vector<Tensor>> of_feature_;
};

absl::Status AppendContext(const SequenceParser& parser, const Wanted& wanted, const std::vector<Tensor>& defaults, std::vector<Tensor>* outputs) {
  Parts sparse, ragged;
  for (size_t k = 0; k < wanted.sparse_keys.size(); ++k) {
    MR_ASSIGN_OR_RETURN(std::vector<Tensor> parts, parser.ContextSparse(wanted.sparse_keys[k], wanted.sparse_types[k]));
    sparse.Add(std::move(parts));
  }
  sparse.AppendTo(3, outputs);
  for (size_t k = 0; k < wanted.dense_keys.size(); ++k) {
    MR_ASSIGN_OR_RETURN(Tensor dense, parser.ContextDense(wanted.dense_keys[k], wanted.dense_types[k], wanted.dense_shapes[k], defaults[k]));
    outputs->push_back(std::move(dense));
  }
  for (size_t k = 0; k < wanted.ragged_keys.size(); ++k) {
    MR_ASSIGN_OR_RETURN(auto rows, parser.ContextRagged(wanted.ragged_keys[k], wanted.ragged_types[k], wanted.split_types[k]));
    ragged.Add({std::move(rows.first), std::move(rows.second)});
  }
  ragged.AppendTo(2, outputs);
  return absl::OkStatus();
}

absl::Status AppendLists(const SequenceParser& parser, const SequenceRequest& request, bool with_lengths, std::vector<Tensor>* outputs) {
  const Wanted& wanted = request.lists;
  Parts sparse, dense, ragged;
  for (size_t k = 0; k < wanted.sparse_keys.size(); ++k) {
    MR_ASSIGN_OR_RETURN(std::vector<Tensor> parts, parser.ListSparse(wanted.sparse_keys[k], wanted.sparse_types[k]));
    sparse.Add(std::move(parts));
  }
  sparse.AppendTo(3, outputs);
  for (size_t k = 0; k < wanted.dense_keys.size(); ++k) {
    MR_ASSIGN_OR_RETURN(auto lists, parser.ListDense(wanted.dense_keys[k], wanted.dense_types[k], wanted.dense_shapes[k], request.may_be_missing[k]));
    dense.Add({std::move(lists.first), std::move(lists.second)});
  }
  dense.AppendTo(with_lengths ? 2 : 1, outputs);
  for (size_t k = 0; k < wanted.ragged_keys.size(); ++k) {
    MR_ASSIGN_OR_RETURN(std::vector<Tensor> parts, parser.ListRagged(wanted.ragged_keys[k], wanted.ragged_types[k], wanted.split_types[k]));
    ragged.Add(std::move(parts));
  }
  ragged.AppendTo(3, outputs);
  return absl::OkStatus();
}

}  // namespace

bool ParsesSequences(std::string_view op) { return op == "ParseSequenceExample" || op == kV2 || op == kSingle; }

Outputs ParsedSequences(std::string_view op, const AttrMap& attrs, absl::Span<const Tensor> inputs) {
  if (inputs.empty() || inputs[0].dtype() != DataType::kString) return absl::InvalidArgumentError("input 0 are records, expected strings");
  const bool single = op == kSingle;
  const Tensor& serialized = inputs[0];
  const int rank = serialized.shape().rank();
  if (rank > 1 || (rank == 1 && single) || (rank == 0 && op == "ParseSequenceExample")) {
    const char* const expected = single ? "scalar" : op == kV2 ? "scalar or vector" : "vector";
    return absl::InvalidArgumentError(absl::StrCat("Expected serialized to be a ", expected, ", got shape: ", serialized.shape().ToString()));
  }
  SequenceInputs reader(inputs);
  MR_ASSIGN_OR_RETURN(SequenceRequest request, single ? SingleRequest(attrs, reader) : BatchRequest(op, attrs, reader));
  if (!reader.at_end()) return absl::InvalidArgumentError("has more inputs than its attributes name");
  MR_RETURN_IF_ERROR(CheckRequest(op, request));
  if (!request.names.empty() && request.names.size() != serialized.strings().size()) {
    return absl::InvalidArgumentError("example_names must be empty or have the correct number of elements");
  }
  SequenceParser parser(single, rank == 1, std::move(request.names));
  MR_RETURN_IF_ERROR(parser.Read(serialized));
  std::vector<Tensor> outputs;
  MR_RETURN_IF_ERROR(AppendContext(parser, request.context, request.defaults, &outputs));
  MR_RETURN_IF_ERROR(AppendLists(parser, request, /*with_lengths=*/!single, &outputs));
  return outputs;
}

}  // namespace millrace
