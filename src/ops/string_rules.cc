#include "ops/string_rules.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/string_codes.h"
#include "millrace/status.h"
#include "ops/rules.h"

namespace millrace {

absl::Status ExpectKnownStrings(const InferenceContext& context, int input) {
  if (input >= context.num_inputs()) return context.Error("has no inputs, expected strings");
  if (context.dtype(input) != DataType::kString) {
    return context.Error(absl::StrCat("input ", input, " is ", context.input(input).ToString(), ", expected strings"));
  }
  if (context.value(input) != nullptr) return absl::OkStatus();
  return context.Error("the strings must be known when the graph is planned: constants, fed, or numbers of either as strings");
}

absl::Status StringCodesShape(InferenceContext& context) {
  std::vector<Tensor> values;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Tensor* value = context.value(i);
    if (value == nullptr && context.dtype(i) == DataType::kString) return ExpectKnownStrings(context, i);
    if (value == nullptr) return context.Error(absl::StrCat("input ", i, " must be known when the graph is planned"));
    values.push_back(*value);
  }
  const auto outputs = StringCodes(context.op(), context.attrs(), values);
  if (!outputs.ok()) return ErrorAtNode(context, outputs.status());
  for (const Tensor& output : *outputs) context.AddOutput(output.dtype(), output.shape());
  return absl::OkStatus();
}

}  // namespace millrace
