// Assignments to variables and queries about them. Reads need no kernel: they are views.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/binary.h"
#include "cpu/kernels/complex.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeAssign(const OpInstance& instance) {
  if (DataTypeSize(instance.inputs[1].dtype) == 0) return UnsupportedType(instance, instance.inputs[1].dtype);
  return MakeKernel([bytes = instance.inputs[1].size_bytes()](const KernelContext& context) {
    ParallelRange(context, bytes, kElementGrain * 4, [&](int64_t begin, int64_t end) {
      char* to = context.variable<char>(0) + begin;
      const char* from = context.input<char>(1) + begin;
      if (to != from && end > begin) std::memcpy(to, from, end - begin);
    });
    return absl::OkStatus();
  });
}

// variable op= value, by the loops of a binary op with the variable as first operand and as result.
class UpdateKernel final : public Kernel {
 public:
  explicit UpdateKernel(std::unique_ptr<Kernel> binary) : binary_(std::move(binary)) {}
  absl::Status Run(const KernelContext& context) const override {
    KernelContext update = context;
    void* output = context.inputs[0];
    update.outputs = &output;
    return binary_->Run(update);
  }

 private:
  std::unique_ptr<Kernel> binary_;
};

// For sums: those of complex numbers are sums of their parts.
KernelFactory UpdateFactory(BinaryLoops loops) {
  return [loops](OpInstance instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    Shape shape = instance.inputs[1].shape;
    const DataType dtype = instance.inputs[0].dtype;
    if (IsComplex(dtype)) {
      instance.inputs[0].dtype = dtype == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
      shape = Shape({2 * shape.num_elements()});
    }
    absl::StatusOr<std::unique_ptr<Kernel>> binary = MakeBinaryKernel(instance, loops, {}, shape, shape, shape);
    if (!binary.ok()) return binary.status();
    return std::make_unique<UpdateKernel>(*std::move(binary));
  };
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePresence(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) {
    context.output<bool>(0)[0] = *context.initialized[0];
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeVariableShape(const OpInstance& instance) {
  const DataType dtype = instance.outputs[0].dtype;
  if (dtype != DataType::kInt32 && dtype != DataType::kInt64) return UnsupportedType(instance, dtype);
  return MakeKernel([dtype, shape = instance.inputs[0].shape](const KernelContext& context) {
    for (int d = 0; d < shape.rank(); ++d) {
      if (dtype == DataType::kInt32)
        context.output<int32_t>(0)[d] = static_cast<int32_t>(shape.dim(d));
      else
        context.output<int64_t>(0)[d] = shape.dim(d);
    }
    return absl::OkStatus();
  });
}

template <typename T>
std::unique_ptr<Kernel> Counter(int64_t limit) {
  return MakeKernel([limit](const KernelContext& context) -> absl::Status {
    T& count = *context.variable<T>(0);
    if (count >= limit) return absl::OutOfRangeError(absl::StrCat("Reached limit of ", limit));
    *context.output<T>(0) = count++;
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCounter(const OpInstance& instance) {
  const int64_t limit = instance.attrs.GetOr<int64_t>("limit", 0);
  if (instance.outputs[0].dtype == DataType::kInt32) return Counter<int32_t>(limit);
  if (instance.outputs[0].dtype == DataType::kInt64) return Counter<int64_t>(limit);
  return UnsupportedType(instance, instance.outputs[0].dtype);
}

}  // namespace

void RegisterVariableKernels(KernelRegistry& registry) {
  for (const char* op : {"Assign", "AssignVariableOp"}) AddKernel(registry, op, MakeAssign);
  for (const char* op : {"AssignAdd", "AssignAddVariableOp"}) AddKernel(registry, op, UpdateFactory(AddLoops()));
  for (const char* op : {"AssignSub", "AssignSubVariableOp"}) AddKernel(registry, op, UpdateFactory(SubLoops()));
  for (const char* op : {"VarIsInitializedOp", "IsVariableInitialized"}) AddKernel(registry, op, MakePresence);
  AddKernel(registry, "VariableShape", MakeVariableShape);
  for (const char* op : {"CountUpTo", "ResourceCountUpTo"}) AddKernel(registry, op, MakeCounter);
}

}  // namespace millrace::cpu
