// Cast.
#include "cpu/kernels/common.h"
#include "cpu/kernels/convert.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeCast(const OpInstance& instance) {
  const DataType from = instance.inputs[0].dtype, to = instance.outputs[0].dtype;
  const int64_t elements = instance.inputs[0].shape.num_elements();
  const int64_t from_bytes = DataTypeSize(from), to_bytes = DataTypeSize(to);
  const bool truncates = instance.attrs.GetOr<bool>("Truncate", false);
  const Conversion conversion = truncates ? TruncatingConversionOf(from, to) : ConversionOf(from, to);
  if (!conversion.covered()) {
    return absl::UnimplementedError(absl::StrCat("no CPU kernel of op 'Cast' from ", std::string(DataTypeName(from)),
                                                 " to ", std::string(DataTypeName(to)), " (node '", instance.name,
                                                 "')"));
  }
  return MakeKernel([=](const KernelContext& context) {
    ParallelRange(context, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      const char* x = context.input<char>(0);
      char* y = context.output<char>(0);
      if (conversion.second == nullptr) {
        conversion.first(x + begin * from_bytes, y + begin * to_bytes, end - begin);
        return;
      }
      for (int64_t i = begin; i < end; i += kBlockElements) {
        conversion.RunBlock(x + i * from_bytes, y + i * to_bytes, std::min(kBlockElements, end - i));
      }
    });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterCastKernels(KernelRegistry& registry) { AddKernel(registry, "Cast", MakeCast); }

}  // namespace millrace::cpu
