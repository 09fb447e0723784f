// Matrix products that the MatMul family and Einsum are made of.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/kernel.h"

namespace millrace::cpu {

// c[m, n] = a[m, k] * b[k, n], c dense. A transposed factor is stored with its dimensions swapped.
struct GemmSizes {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_elements() const { return m * k; }
  int64_t b_elements() const { return k * n; }
  int64_t c_elements() const { return m * n; }
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// Which a and b (counted in whole matrices) give product i of a batch; products lie one after another in c.
struct GemmPair {
  int64_t a = 0, b = 0;
};

// A batch of products of one size. Immutable; Run may be called by several threads at once.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual int64_t scratch_bytes() const = 0;
  virtual absl::Status Run(const KernelContext& context, const void* a, const void* b, void* c, void* scratch) const = 0;
};

// Of floats, doubles, 16-bit floats (summed in float) and int32, int64. Unimplemented for other types.
absl::StatusOr<std::unique_ptr<Gemm>> MakeGemm(const OpInstance& instance, DataType dtype, GemmSizes sizes,
                                               std::vector<GemmPair> batch);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_H_
