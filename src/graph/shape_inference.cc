#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "millrace/guard.h"
#include "millrace/op.h"
#include "millrace/status.h"

namespace millrace {

void InferenceContext::AddOutput(DataType dtype, Shape shape) {
  // Most shapes are an input's, and then share its memory.
  constexpr size_t kLooks = 2;
  for (size_t i = 0; i < std::min(inputs_.size(), kLooks); ++i) {
    if (inputs_[i].shape == shape) {
      shape = inputs_[i].shape;
      break;
    }
  }
  outputs_.push_back({dtype, std::move(shape)});
}

absl::Status InferenceContext::Error(std::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat("node '", std::string(node_name_), "' (", std::string(op_), "): ", std::string(message)));
}

absl::Status InferenceContext::ExpectInputs(int count) const {
  if (num_inputs() == count + (attrs().GetOr(kGuarded, false) ? 1 : 0)) return absl::OkStatus();
  return Error(absl::StrCat("has ", num_inputs(), " inputs, expected ", count));
}

absl::Status InferenceContext::ExpectInputsRead() const {
  if (!missing_input_.has_value()) return absl::OkStatus();
  return Error(absl::StrCat("has ", num_inputs(), " inputs, expected an input ", *missing_input_));
}

const TensorType& InferenceContext::NoInput() {
  static const TensorType& none = *new TensorType{DataType::kInvalid, Shape({})};
  return none;
}

namespace {

// Whether the node has the inputs and outputs that its op names beside the shape rule.
absl::Status CheckNamed(const OpDef& def, const InferenceContext& context) {
  int inputs = def.is_view || def.returns_variable ? 1 : 0;
  for (const VariableUse& use : def.variables) inputs = std::max(inputs, use.input + 1);
  const int given = context.num_inputs() - (context.attrs().GetOr(kGuarded, false) ? 1 : 0);
  if (given < inputs) {
    return context.Error(absl::StrCat("has ", given, " inputs, expected at least ", inputs, ", as its op names them"));
  }
  if ((def.is_view || def.returns_variable) && context.outputs().empty()) {
    return context.Error("has no output, expected one, which is its input");
  }
  return absl::OkStatus();
}

absl::Status CheckViewFits(const InferenceContext& context) {
  const TensorType& input = context.input(0);
  const TensorType& output = context.outputs()[0];
  if (!input.shape.fully_known() || !output.shape.fully_known()) return absl::OkStatus();
  const bool fits = input.dtype == output.dtype ? output.shape.num_elements() <= input.shape.num_elements() : output.size_bytes() <= input.size_bytes();
  if (fits) return absl::OkStatus();
  return context.Error(absl::StrCat("is ", output.ToString(), ", expected no more than its input ", input.ToString(), ", which it is a view of"));
}

}  // namespace

absl::Status OpDef::InferShapes(InferenceContext& context) const {
  absl::Status ruled = WithoutExceptions([&] { return shape(context); });
  if (absl::IsInternal(ruled)) {
    ruled = absl::InternalError(absl::StrCat("node '", std::string(context.node_name()), "' (", std::string(context.op()),
                                             "): the shape rule ", ruled.message()));
  }
  const absl::Status read = context.ExpectInputsRead();
  if (!read.ok() || !ruled.ok()) return read.ok() ? ruled : read;
  MR_RETURN_IF_ERROR(CheckNamed(*this, context));
  if (is_view) MR_RETURN_IF_ERROR(CheckViewFits(context));
  const int count = static_cast<int>(context.outputs().size());
  for (int output : context.bound_outputs()) {
    if (output < 0 || output >= count) return context.Error(absl::StrCat("marks a bound of output ", output, ", has ", count, " outputs"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
