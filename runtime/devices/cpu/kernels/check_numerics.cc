// CheckNumerics: the input, or an error when it holds a NaN or an infinity.
#include <atomic>
#include <cstring>

#include "cpu/kernels/common.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/register.h"
#include "graph/value_errors.h"

namespace millrace::cpu {
namespace {

// Copies n numbers whose bits with the exponent mask all set are no numbers, and says which of those there are.
template <typename Bits>
uint32_t CopyAndCheck(const void* from, void* to, int64_t n, Bits exponent_mask) {
  const Bits* x = static_cast<const Bits*>(from);
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  if (from != to) std::memcpy(to, from, n * sizeof(Bits));
  bool special = false;
  for (int64_t i = 0; i < n; ++i) special |= (x[i] & exponent_mask) == exponent_mask;
  uint32_t found = 0;
  for (int64_t i = 0; special && i < n; ++i) {
    const Bits magnitude = x[i] & static_cast<Bits>(~kSign);
    if (magnitude > exponent_mask)
      found |= NotFinite::kNan;
    else if (magnitude == exponent_mask)
      found |= (x[i] & kSign) != 0 ? NotFinite::kNegativeInf : NotFinite::kPositiveInf;
  }
  return found;
}

uint32_t CopyAndCheck(DataType dtype, const void* from, void* to, int64_t n) {
  switch (dtype) {
    case DataType::kFloat:
      return CopyAndCheck<uint32_t>(from, to, n, 0x7f800000);
    case DataType::kDouble:
      return CopyAndCheck<uint64_t>(from, to, n, 0x7ff0000000000000);
    case DataType::kHalf:
      return CopyAndCheck<uint16_t>(from, to, n, 0x7c00);
    default:
      return CopyAndCheck<uint16_t>(from, to, n, 0x7f80);
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCheckNumerics(const OpInstance& instance) {
  const DataType dtype = instance.inputs[0].dtype;
  if (!IsFloating(dtype)) return UnsupportedType(instance, dtype);
  const int64_t elements = instance.inputs[0].shape.num_elements(), bytes = DataTypeSize(dtype);
  const std::string message = instance.attrs.GetOr<std::string>("message", "");
  const bool with_sign = instance.op == "CheckNumericsV2";
  return MakeKernel([=](const KernelContext& context) -> absl::Status {
    std::atomic<uint32_t> found = 0;
    ParallelRange(context, elements, kElementGrain, [&](int64_t begin, int64_t end) {
      found |= CopyAndCheck(dtype, context.input<char>(0) + begin * bytes, context.output<char>(0) + begin * bytes,
                            end - begin);
    });
    if (found == 0) return absl::OkStatus();
    return NotFiniteError(message, found, with_sign);
  });
}

}  // namespace

void RegisterCheckKernels(KernelRegistry& registry) {
  for (const char* op : {"CheckNumerics", "CheckNumericsV2"}) AddKernel(registry, op, MakeCheckNumerics);
}

}  // namespace millrace::cpu
