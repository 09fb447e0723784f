// UnicodeScript: the scripts that code points are written in.
#include "cpu/kernels/common.h"
#include "cpu/kernels/rarest.h"
#include "graph/letters.h"

namespace millrace::cpu {

void RegisterUnicodeScriptKernels(KernelRegistry& registry) {
  AddKernel(registry, "UnicodeScript", [](const OpInstance& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return MakeKernel([count = node.outputs[0].shape.num_elements()](const KernelContext& context) {
      ParallelRange(context, count, kElementGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) context.output<int32_t>(0)[i] = ScriptOf(context.input<int32_t>(0)[i]);
      });
      return absl::OkStatus();
    });
  });
}

}  // namespace millrace::cpu
