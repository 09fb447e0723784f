// Numbers in the bytes of strings that planning knows, and their characters. They are found when the kernel is made.
#include "graph/string_codes.h"

#include <cstring>

#include "cpu/kernels/rare.h"
#include "cpu/kernels/values.h"

namespace millrace::cpu {

absl::StatusOr<std::unique_ptr<Kernel>> MakeStringCodes(const OpInstance& instance) {
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (ValueReader(instance).planned(static_cast<int>(i))) continue;
    return absl::InvalidArgumentError("the strings must be known when the graph is planned");
  }
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, StringCodes(instance.op, instance.attrs, instance.input_values));
  return MakeKernel([outputs](const KernelContext& context) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      // Strings have no memory.
      if (outputs[i].dtype() != DataType::kString && outputs[i].size_bytes() > 0) {
        std::memcpy(context.outputs[i], outputs[i].data(), outputs[i].size_bytes());
      }
    }
    return absl::OkStatus();
  });
}

void RegisterStringCodeKernels(KernelRegistry& registry) {
  for (const char* op : StringCodeOps()) AddKernel(registry, op, MakeStringCodes);
}

}  // namespace millrace::cpu
