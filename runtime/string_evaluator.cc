#include "runtime/string_evaluator.h"

#include <cctype>
#include <map>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "graph/number_text.h"
#include "graph/table.h"
#include "millrace/op.h"
#include "millrace/status.h"
#include "runtime/op_evaluator.h"

namespace millrace {
namespace {

using Outputs = absl::StatusOr<std::vector<Tensor>>;

// Ops that move elements whatever these are, or compare two for equality.
bool MovesElements(const std::string& op) {
  static const auto& ops = *new std::set<std::string>{
      "BroadcastTo", "Concat",   "ConcatV2", "DynamicPartition", "DynamicStitch", "Equal",     "Fill",   "Gather",       "GatherNd", "GatherV2",
      "NotEqual",    "Pack",     "Reverse",  "ReverseV2",        "Roll",          "Select",    "SelectV2", "Slice",      "Split",    "SplitV",
      "StridedSlice", "Tile",    "Transpose", "Unpack",          "Unique",        "UniqueV2"};
  return ops.count(op) > 0;
}

template <typename Change>
Outputs Changed(const Tensor& strings, Change change) {
  Tensor result(DataType::kString, strings.shape());
  for (size_t i = 0; i < strings.strings().size(); ++i) result.mutable_strings()[i] = change(strings.strings()[i]);
  return std::vector<Tensor>{std::move(result)};
}

Outputs AsString(const OpInstance& instance, const Tensor& numbers) {
  MR_ASSIGN_OR_RETURN(const NumberText text, NumberText::Create(instance.attrs, numbers.dtype()));
  Tensor result(DataType::kString, numbers.shape());
  for (int64_t i = 0; i < numbers.num_elements(); ++i) result.mutable_strings()[i] = text.Of(numbers, i);
  return std::vector<Tensor>{std::move(result)};
}

Outputs Join(const OpInstance& instance, absl::Span<const Tensor> inputs) {
  const std::string separator = instance.attrs.GetOr<std::string>("separator", "");
  Tensor result(DataType::kString, instance.outputs[0].shape);
  for (int64_t i = 0; i < result.num_elements(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (k > 0) result.mutable_strings()[i] += separator;
      result.mutable_strings()[i] += inputs[k].strings()[inputs[k].shape().rank() == 0 ? 0 : i];
    }
  }
  return std::vector<Tensor>{std::move(result)};
}

// Numbers in place of strings: equal ones have equal numbers.
class Numbering {
 public:
  Tensor Numbers(const Tensor& strings) {
    Tensor numbers(DataType::kInt32, strings.shape());
    for (int64_t i = 0; i < strings.num_elements(); ++i) {
      const auto [found, added] = numbers_.emplace(strings.strings()[i], static_cast<int32_t>(texts_.size()));
      if (added) texts_.push_back(strings.strings()[i]);
      numbers.mutable_as<int32_t>()[i] = found->second;
    }
    return numbers;
  }
  Tensor Strings(const Tensor& numbers) const {
    Tensor strings(DataType::kString, numbers.shape());
    for (int64_t i = 0; i < numbers.num_elements(); ++i) strings.mutable_strings()[i] = texts_[numbers.as<int32_t>()[i]];
    return strings;
  }

 private:
  std::map<std::string, int32_t> numbers_;
  std::vector<std::string> texts_;
};

Outputs MoveNumbers(const KernelRegistry& kernels, const OpInstance& instance, absl::Span<const Tensor> inputs) {
  Numbering numbering;
  OpInstance of_numbers = instance;
  std::vector<Tensor> numbers(inputs.begin(), inputs.end());
  of_numbers.input_values.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() == DataType::kString) numbers[i] = numbering.Numbers(inputs[i]);
    of_numbers.inputs[i].dtype = numbers[i].dtype();
    of_numbers.input_values[i] = numbers[i];
  }
  for (TensorType& type : of_numbers.outputs) {
    if (type.dtype == DataType::kString) type.dtype = DataType::kInt32;
  }
  const OpDef* def = OpRegistry::Builtin().Find(instance.op);
  MR_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, EvaluateOp(*def, kernels, of_numbers, std::move(numbers)));
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (instance.outputs[o].dtype == DataType::kString) outputs[o] = numbering.Strings(outputs[o]);
  }
  return outputs;
}

}  // namespace

bool EvaluatesStrings(const OpInstance& instance) {
  const auto is_string = [](const TensorType& type) { return type.dtype == DataType::kString; };
  if (std::any_of(instance.outputs.begin(), instance.outputs.end(), is_string)) return true;
  return MovesElements(instance.op) && std::any_of(instance.inputs.begin(), instance.inputs.end(), is_string);
}

Outputs EvaluateStrings(const KernelRegistry& kernels, const OpInstance& instance, absl::Span<const Tensor> inputs) {
  const std::string& op = instance.op;
  if (op == "AsString") return AsString(instance, inputs[0]);
  if (op == "StringJoin") return Join(instance, inputs);
  if (op == "_FindInTable") {
    MR_ASSIGN_OR_RETURN(const Table table, Table::Create(instance.attrs));
    Tensor found(DataType::kString, inputs[0].shape());
    for (int64_t i = 0; i < found.num_elements(); ++i) {
      const int64_t at = table.Find(inputs[0], i);
      found.mutable_strings()[i] = at < 0 ? inputs[1].strings()[0] : table.values().strings()[at];
    }
    return std::vector<Tensor>{std::move(found)};
  }
  // TensorFlow's take bytes for themselves unless an encoding is given.
  const bool bytes = instance.attrs.GetOr<std::string>("encoding", "").empty();
  if (op == "StringLower" && bytes) return Changed(inputs[0], [](const std::string& s) { return absl::AsciiStrToLower(s); });
  if (op == "StringUpper" && bytes) return Changed(inputs[0], [](const std::string& s) { return absl::AsciiStrToUpper(s); });
  if (op == "StringStrip") {
    return Changed(inputs[0], [](const std::string& s) { return std::string(absl::StripAsciiWhitespace(s)); });
  }
  if (MovesElements(op)) return MoveNumbers(kernels, instance, inputs);
  return absl::UnimplementedError(absl::StrCat("the strings of op '", op, "' (node '", instance.name, "') are not computed"));
}

}  // namespace millrace
