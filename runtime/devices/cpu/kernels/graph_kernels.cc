// Kernels of the ops that hold a graph together and that move bytes: DeepCopy; the time of day.
#include <chrono>
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeDeepCopy(const OpInstance& instance) {
  const int64_t bytes = instance.outputs[0].size_bytes();
  return MakeKernel([bytes](const KernelContext& context) {
    ParallelRange(context, bytes, kElementGrain * 4, [&](int64_t begin, int64_t end) {
      std::memcpy(context.output<char>(0) + begin, context.input<char>(0) + begin, end - begin);
    });
    return absl::OkStatus();
  });
}

// Seconds since 1970, to the microsecond.
absl::StatusOr<std::unique_ptr<Kernel>> MakeTimestamp(const OpInstance&) {
  return MakeKernel([](const KernelContext& context) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    *context.output<double>(0) = static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()) / 1e6;
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterGraphKernels(KernelRegistry& registry) {
  AddKernel(registry, "DeepCopy", MakeDeepCopy);
  AddKernel(registry, "Timestamp", MakeTimestamp);
}

}  // namespace millrace::cpu
