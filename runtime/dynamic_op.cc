#include "runtime/dynamic_op.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "millrace/guard.h"
#include "millrace/status.h"
#include "runtime/kernel_checks.h"

namespace millrace {

namespace {

// Whether the last input says if the node runs at all. A Print that is guarded passes its input on, which its kernel knows.
bool IsGuarded(const OpInstance& planned) {
  return planned.op != "Print" && !planned.inputs.empty() && planned.attrs.GetOr(kGuarded, false);
}

}  // namespace

absl::Status DynamicOp::Run(const KernelContext& context, std::vector<Shape>& shapes, Launch launch) {
  if (IsGuarded(planned_)) {
    bool holds = true;
    MR_RETURN_IF_ERROR(device_.CopyToHost(&holds, context.inputs[planned_.inputs.size() - 1], sizeof(holds)));
    for (size_t o = 0; !holds && o < planned_.outputs.size(); ++o) {
      if (step_.output_shapes[o] >= 0) shapes[step_.output_shapes[o]] = planned_.outputs[o].shape;
    }
    if (!holds) return absl::OkStatus();
  }
  std::vector<Tensor> values(step_.run_time_values != 0 ? planned_.inputs.size() : 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i >= 64 || (step_.run_time_values >> i & 1) == 0) continue;
    values[i] = Tensor(planned_.inputs[i].dtype, InputShape(i, shapes));
    if (values[i].size_bytes() > 0) {
      MR_RETURN_IF_ERROR(
          device_.CopyToHost(values[i].mutable_data(), context.inputs[i], values[i].size_bytes()));
    }
  }
  auto found = std::find_if(made_.begin(), made_.end(), [&](const auto& m) { return Fits(*m, values, shapes); });
  if (found == made_.end()) {
    MR_RETURN_IF_ERROR(Add(std::move(values), shapes));
  } else if (found != made_.begin()) {
    std::rotate(made_.begin(), found, found + 1);
  }
  const Instanced& made = *made_.front();
  output_shapes_.clear();
  for (const TensorType& type : made.instance.outputs) output_shapes_.push_back(type.shape);
  if (made.kernel != nullptr) {
    KernelContext now = context;
    now.instance = &made.instance;
    now.output_shapes = output_shapes_.data();
    MR_RETURN_IF_ERROR(launch(*made.kernel, now));
    MR_RETURN_IF_ERROR(CheckRealShapes(output_shapes_, made.instance.outputs));
  }
  for (size_t o = 0; o < output_shapes_.size(); ++o) {
    if (step_.output_shapes[o] >= 0) shapes[step_.output_shapes[o]] = output_shapes_[o];
  }
  return absl::OkStatus();
}

bool DynamicOp::Fits(const Instanced& made, const std::vector<Tensor>& values, const std::vector<Shape>& shapes) const {
  for (size_t i = 0; i < made.instance.inputs.size(); ++i) {
    if (made.instance.inputs[i].shape != InputShape(i, shapes)) return false;
    if (i < values.size() && !values[i].empty() && !values[i].BitEqual(made.instance.input_values[i])) return false;
  }
  return true;
}

absl::Status DynamicOp::Add(std::vector<Tensor> values, const std::vector<Shape>& shapes) {
  auto made = std::make_unique<Instanced>();
  OpInstance& instance = made->instance;
  instance = planned_;
  if (IsGuarded(planned_)) {  // rules and kernels of an op need not know of guards
    instance.inputs.pop_back();
    instance.attrs.Set(kGuarded, false);
    if (instance.input_values.size() > instance.inputs.size()) instance.input_values.resize(instance.inputs.size());
    if (values.size() > instance.inputs.size()) values.resize(instance.inputs.size());
  }
  for (size_t i = 0; i < instance.inputs.size(); ++i) instance.inputs[i].shape = InputShape(i, shapes);
  if (!values.empty()) instance.input_values.resize(instance.inputs.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].empty()) instance.input_values[i] = std::move(values[i]);
  }
  MR_RETURN_IF_ERROR(infer_(instance));
  MR_RETURN_IF_ERROR(CheckOutputs(instance.outputs));
  if (!step_.is_view) {
    MR_ASSIGN_OR_RETURN(made->kernel, kernels_.Make(instance, device_index_));
    if (made->kernel->scratch_bytes() > step_.scratch_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("its kernel for inputs of this step's shapes needs ", made->kernel->scratch_bytes(),
                       " bytes of scratch, ", step_.scratch_bytes, " are planned"));
    }
  }
  if (made_.size() >= kKeptShapes) made_.pop_back();
  made_.insert(made_.begin(), std::move(made));
  return absl::OkStatus();
}

absl::Status DynamicOp::CheckOutputs(const std::vector<TensorType>& outputs) const {
  if (outputs.size() != planned_.outputs.size()) {
    return absl::InternalError(absl::StrCat("has ", outputs.size(), " outputs, planned were ", planned_.outputs.size()));
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const TensorType& planned = planned_.outputs[o];
    if (!outputs[o].shape.fully_known()) {
      return absl::InternalError(absl::StrCat("the shape of output ", o, " is ", outputs[o].ToString(),
                                              " even when running, expected a known one"));
    }
    if (step_.output_shapes[o] < 0 && outputs[o].shape != planned.shape) {
      return absl::InternalError(
          absl::StrCat("output ", o, " is ", outputs[o].ToString(), ", planned was ", planned.ToString()));
    }
    if (outputs[o].size_bytes() > planned.size_bytes()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "output ", o, " is ", outputs[o].ToString(), " in this step, memory is planned for at most ",
          planned.ToString(), " (", planned.size_bytes(), " bytes)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
