// What recurrent kernels share: their scratch, and 16-bit floats by kernels of float.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_RECURRENT_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_RECURRENT_H_

#include <initializer_list>
#include <memory>
#include <numeric>
#include <utility>

#include "cuda/kernels/common.h"

namespace millrace::cuda {

using Planned = std::shared_ptr<Product>;

// Parts of a kernel's scratch, one after the other.
struct Room {
  int64_t end = 0;
  int64_t Take(int64_t bytes) { return std::exchange(end, end + AlignUp(bytes, kLibraryAlignment)); }
  int64_t TakeFloats(int64_t elements) { return Take(elements * static_cast<int64_t>(sizeof(float))); }
  int64_t total() const { return end + kLibraryAlignment; }
};

inline float* FloatsAt(char* scratch, int64_t offset) { return reinterpret_cast<float*>(scratch + offset); }

// Of operands that begin at these bytes of tensors.
inline int64_t AlignmentOf(std::initializer_list<int64_t> offsets) {
  int64_t alignment = kTensorAlignment;
  for (int64_t offset : offsets) alignment = std::gcd(alignment, offset);
  return alignment;
}

// `factory`'s kernels of float; halves and bfloat16 are computed as float from the first step to the last, as on the CPU: states that
// were rounded in every step would drift. Refuses double precision, and floating inputs that are on the host.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWidened(DeviceServices& services, const OpInstance& node, Factory factory);
template <Factory kFactory>
absl::StatusOr<std::unique_ptr<Kernel>> Widened(DeviceServices& services, const OpInstance& node) {
  return MakeWidened(services, node, kFactory);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_RECURRENT_H_
