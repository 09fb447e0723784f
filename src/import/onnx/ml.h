// What lowerings of classic machine learning (domain ai.onnx.ml) share.
#ifndef MILLRACE_SRC_IMPORT_ONNX_ML_H_
#define MILLRACE_SRC_IMPORT_ONNX_ML_H_

#include <string>
#include <vector>

#include "onnx/lowering.h"

namespace millrace::onnx {

// Two dimensions, rows of features, in float or double; a vector is one row.
absl::StatusOr<Output> FeatureRows(NodeContext& c);

// x times the transposed matrix [count, columns] in an attribute.
absl::StatusOr<Output> TimesRows(const NodeContext& c, const Output& x, const std::vector<float>& rows, const char* name);

Output LongVector(GraphBuilder& b, const IntList& values);

// What post_transform makes of scores [rows, classes]; of one score only PROBIT makes another, as onnxruntime has it.
absl::StatusOr<Output> PostTransformed(const NodeContext& c, const Output& scores);
absl::StatusOr<Output> PostTransformed(const NodeContext& c, const Output& scores, const std::string& transform);

// Scores of two classes of which only the second has one: that of the first is what it lacks to 1, or to 0.
absl::StatusOr<Output> BothScores(const NodeContext& c, const Output& score, bool probability);

// The labels of classes with these numbers, from the first of the attributes that is given: of strings, then of integers.
absl::StatusOr<Output> LabelsOf(const NodeContext& c, const Output& numbers, const char* strings, const char* ints);
// How many labels there are.
int64_t CountLabels(const NodeContext& c, const char* strings, const char* ints);

}  // namespace millrace::onnx

#endif  // MILLRACE_SRC_IMPORT_ONNX_ML_H_
