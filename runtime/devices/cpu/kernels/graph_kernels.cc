// Kernels of the ops that hold a graph together and that move bytes: DeepCopy.
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

}  // namespace

void RegisterGraphKernels(KernelRegistry& registry) { AddKernel(registry, "DeepCopy", MakeDeepCopy); }

}  // namespace millrace::cpu
