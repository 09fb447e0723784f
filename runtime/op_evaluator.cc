#include "runtime/op_evaluator.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"
#include "millrace/status.h"
#include "runtime/kernel_checks.h"
#include "runtime/string_evaluator.h"

namespace millrace {
namespace {

class SerialRunner final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(i);
  }
};

// The tensor's memory, or the beginning of it, under another type.
Tensor MemoryAs(const Tensor& tensor, DataType dtype, const Shape& shape) {
  auto owner = std::make_shared<Tensor>(tensor);
  return Tensor::Wrap(dtype, shape, owner->mutable_data(), owner);
}

}  // namespace

absl::Status InferOutputs(const OpDef& def, OpInstance& instance) {
  std::vector<const Tensor*> values(instance.inputs.size(), nullptr);
  for (size_t i = 0; i < instance.input_values.size(); ++i) {
    if (!instance.input_values[i].empty()) values[i] = &instance.input_values[i];
  }
  InferenceContext context(instance.name, instance.op, instance.attrs, instance.inputs, values);
  MR_RETURN_IF_ERROR(def.InferShapes(context));
  instance.outputs.assign(context.outputs().begin(), context.outputs().end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> EvaluateOp(const OpDef& def, const KernelRegistry& kernels,
                                               const OpInstance& instance, std::vector<Tensor> inputs,
                                               ParallelRunner* parallel) {
  if (def.is_view) {
    const TensorType& type = instance.outputs[0];
    const bool whole = type.dtype == inputs[0].dtype() && type.shape.num_elements() == inputs[0].num_elements();
    return std::vector<Tensor>{whole ? inputs[0].Reshaped(type.shape) : MemoryAs(inputs[0], type.dtype, type.shape)};
  }
  if (EvaluatesStrings(instance)) return EvaluateStrings(def, kernels, instance, inputs);
  const KernelFactory* factory = kernels.Find(instance.op);
  if (factory == nullptr) {
    return absl::UnimplementedError(absl::StrCat("no kernel of op '", instance.op, "' (node '", instance.name, "')"));
  }
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, MakeKernel(*factory, instance));
  const int64_t scratch_bytes = kernel->scratch_bytes();
  if (scratch_bytes < 0) return absl::InternalError(absl::StrCat("the kernel needs scratch memory of ", scratch_bytes, " bytes, expected 0 or more"));
  std::vector<Tensor> outputs;
  for (const TensorType& type : instance.outputs) {
    if (!type.shape.fully_known()) {
      return absl::InvalidArgumentError(absl::StrCat("node '", instance.name, "' has an output of unknown shape ",
                                                     type.ToString(), ", expected a known one"));
    }
    outputs.emplace_back(type.dtype, type.shape);
  }
  if (def.returns_variable) outputs[0] = inputs[0];
  std::vector<void*> in, out;
  for (Tensor& tensor : inputs) in.push_back(tensor.mutable_data());
  for (Tensor& tensor : outputs) out.push_back(tensor.mutable_data());
  Tensor scratch(DataType::kUint8, Shape({scratch_bytes}));
  Tensor state(DataType::kUint8, Shape({def.state_bytes}));
  const bool initialized = true;
  std::vector<const bool*> initialized_inputs(inputs.size(), &initialized);
  std::vector<Shape> shapes;
  for (const TensorType& type : instance.outputs) shapes.push_back(type.shape);
  SerialRunner serial;
  KernelContext context;
  context.instance = &instance;
  context.inputs = in.data();
  context.outputs = out.data();
  context.scratch = scratch.mutable_data();
  context.state = state.mutable_data();
  context.parallel = parallel != nullptr ? parallel : &serial;
  context.initialized = initialized_inputs.data();
  context.output_shapes = shapes.data();
  MR_RETURN_IF_ERROR(WithoutKernelExceptions([&] { return kernel->Run(context); }));
  MR_RETURN_IF_ERROR(CheckRealShapes(shapes, instance.outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (shapes[i] != outputs[i].shape()) outputs[i] = MemoryAs(outputs[i], outputs[i].dtype(), shapes[i]);
  }
  return outputs;
}

}  // namespace millrace
