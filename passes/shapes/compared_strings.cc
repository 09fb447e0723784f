#include "passes/shapes/compared_strings.h"

#include <set>
#include <string_view>

namespace millrace {
namespace {

bool MakesNumbers(std::string_view op) {
  static const auto& ops = *new std::set<std::string_view>{
      "DenseToDenseSetOperation", "DenseToSparseSetOperation", "EditDistance", "Equal", "ListDiff", "NotEqual",
      "RaggedFillEmptyRows", "RaggedGather", "RaggedTensorToSparse", "SetSize", "SparseConcat", "SparseFillEmptyRows", "SparseSlice",
      "SparseSplit", "SparseToSparseSetOperation", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"};
  return ops.count(op) > 0;
}

}  // namespace

absl::Status TakeComparedStrings(const InferenceContext& context) {
  bool known = true;
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.dtype(i) != DataType::kString || !MakesNumbers(context.op())) continue;
    known = context.value(i) != nullptr && known;
  }
  if (known) return absl::OkStatus();
  return context.Error("the strings must be known when the graph is planned: constants, fed, or numbers of either as strings");
}

}  // namespace millrace
