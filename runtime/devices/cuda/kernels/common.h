// What the CUDA kernels' host side shares.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_COMMON_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_COMMON_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/services.h"
#include "cuda/launch/elementwise.h"
#include "millrace/guard.h"
#include "millrace/status.h"

namespace millrace::cuda {

inline absl::Status Refused(const OpInstance& instance, const std::string& what) {
  return absl::UnimplementedError(
      absl::StrCat("no CUDA kernel of op '", instance.op, "' for ", what, " (node '", instance.name, "')"));
}

inline absl::StatusOr<Type> TypeOf(const OpInstance& instance, DataType dtype) {
  switch (dtype) {
    case DataType::kFloat: return Type::kFloat;
    case DataType::kDouble: return Type::kDouble;
    case DataType::kHalf: return Type::kHalf;
    case DataType::kBfloat16: return Type::kBfloat16;
    case DataType::kInt32: return Type::kInt32;
    case DataType::kInt64: return Type::kInt64;
    case DataType::kUint8: return Type::kUint8;
    case DataType::kBool: return Type::kBool;
    default: return Refused(instance, absl::StrCat("element type ", std::string(DataTypeName(dtype))));
  }
}
inline absl::StatusOr<Type> NumericTypeOf(const OpInstance& instance, DataType dtype) {
  if (dtype == DataType::kBool) return Refused(instance, "booleans");
  return TypeOf(instance, dtype);
}
inline absl::StatusOr<Type> FloatingTypeOf(const OpInstance& instance, DataType dtype) {
  if (!IsFloating(dtype)) return Refused(instance, absl::StrCat("element type ", std::string(DataTypeName(dtype))));
  return TypeOf(instance, dtype);
}
inline bool IsComplex(DataType dtype) { return dtype == DataType::kComplex64 || dtype == DataType::kComplex128; }
inline bool IsIndex(DataType dtype) { return dtype == DataType::kInt32 || dtype == DataType::kInt64; }
// Of elements that are only moved.
inline absl::StatusOr<int> ElementBytes(const OpInstance& instance, DataType dtype) {
  const int64_t bytes = DataTypeSize(dtype);
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return Refused(instance, "elements of this size");
  return static_cast<int>(bytes);
}

// Of kernels whose scratch_bytes has kLibraryAlignment to spare.
inline char* AlignedScratch(const KernelContext& context) {
  return reinterpret_cast<char*>(AlignUp(reinterpret_cast<intptr_t>(context.scratch), kLibraryAlignment));
}

// The value of input `i`, where the plan knows it; else nullptr.
inline const Tensor* ValueOf(const OpInstance& instance, size_t i) {
  const bool known = i < instance.input_values.size() && !instance.input_values[i].empty();
  return known ? &instance.input_values[i] : nullptr;
}

// Refuses a node whose value the plan knows of one of these inputs, which kernels read in their memory, or of any.
inline absl::Status ExpectOnDevice(const OpInstance& instance, std::initializer_list<int> inputs) {
  for (int i : inputs) {
    if (ValueOf(instance, i) != nullptr) return Refused(instance, "inputs that are on the host");
  }
  return absl::OkStatus();
}
inline absl::Status ExpectOnDevice(const OpInstance& instance) {
  for (int i = 0; i < static_cast<int>(instance.inputs.size()); ++i) MR_RETURN_IF_ERROR(ExpectOnDevice(instance, {i}));
  return absl::OkStatus();
}

// A kernel whose Run is `fn(const Queue&, const KernelContext&)`, which launches or returns an error.
template <typename Fn>
std::unique_ptr<Kernel> MakeLaunch(DeviceServices& services, Fn fn, int64_t scratch_bytes = 0, std::string choice = "") {
  class LaunchKernel final : public Kernel {
   public:
    LaunchKernel(DeviceServices& services, Fn fn, int64_t scratch_bytes, std::string choice)
        : services_(services), fn_(std::move(fn)), scratch_bytes_(scratch_bytes), choice_(std::move(choice)) {}
    int64_t scratch_bytes() const override { return scratch_bytes_; }
    std::string choice() const override { return choice_; }
    absl::Status Run(const KernelContext& context) const override {
      const Queue queue = services_.QueueOf(context);
      if constexpr (std::is_void_v<decltype(fn_(queue, context))>) {
        fn_(queue, context);
      } else {
        MR_RETURN_IF_ERROR(fn_(queue, context));
      }
      return services_.Launched(queue, *context.instance);
    }

   private:
    DeviceServices& services_;
    Fn fn_;
    const int64_t scratch_bytes_;
    const std::string choice_;
  };
  return std::make_unique<LaunchKernel>(services, std::move(fn), scratch_bytes, std::move(choice));
}

using Factory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(DeviceServices&, const OpInstance&);

inline void Add(KernelRegistry& registry, DeviceServices& services, std::string_view op, Factory factory) {
  const absl::Status added =
      registry.Register(op, [&services, factory](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        if (instance.attrs.GetOr(kGuarded, false)) return absl::UnimplementedError("no CUDA kernel of guarded nodes");
        return factory(services, instance);
      });
  CHECK(added.ok()) << added;
}

// InvalidArgument-free: shapes have been checked by the shape rule. Unimplemented beyond kMaxDims.
absl::StatusOr<Broadcast> BroadcastOf(const OpInstance& instance, const Shape& output,
                                      absl::Span<const Shape> inputs);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_COMMON_H_
