// Features of tf.train.Example and tf.train.SequenceExample: lists of texts, floats or integers, as they lie in records.
#ifndef MILLRACE_SRC_GRAPH_FEATURE_LISTS_H_
#define MILLRACE_SRC_GRAPH_FEATURE_LISTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "millrace/tensor.h"

namespace millrace {

using Feature = std::variant<std::vector<std::string>, std::vector<float>, std::vector<int64_t>>;
// A feature of each of several records, where they have it.
using FeatureColumn = std::vector<std::optional<Feature>>;

// Both read a Feature's bytes, nothing where it has no list; false where the bytes are none. TensorFlow's fast parsers take the first list
// of a message and of it the first packed field; protobuf itself takes the last kind of list, with all its fields.
bool ReadFirstList(std::string_view bytes, std::optional<Feature>* feature);
bool ReadAllLists(std::string_view bytes, std::optional<Feature>* feature);

// "float", "int64" or "string".
const char* FeatureTypeText(DataType type);
DataType TypeOf(const Feature& feature);
int64_t SizeOf(const Feature& feature);
int64_t SizeOf(const std::optional<Feature>& feature);
// How many values all features have.
int64_t TotalSizeOf(const FeatureColumn& column);

// Copy values to elements `at` and following ones of a tensor of their type.
void CopyFeature(const Feature& feature, Tensor& to, int64_t at);
void CopyElement(const Tensor& from, int64_t element, Tensor& to, int64_t at);

// The column as a sparse tensor (places, values, shape): one of vectors when `batched`, else the only feature's.
std::vector<Tensor> SparseOf(const FeatureColumn& column, DataType type, bool batched);
// Values one after another, and where those of each record begin; splits of a single record are empty.
Tensor ValuesOf(const FeatureColumn& column, DataType type);
Tensor SplitsOf(const FeatureColumn& column, DataType split_type, bool batched);
// int32 or int64.
Tensor IntegersOf(DataType type, absl::Span<const int64_t> values);

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_FEATURE_LISTS_H_
