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

// c[m, n] = a[m, k] * b[k, n], or c += a * b. A transposed factor is stored with its dimensions swapped.
struct GemmSizes {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool add = false;  // onto what c holds
  // Elements from a stored row to the next.
  int64_t a_step = 0, b_step = 0, c_step = 0;

  // Of matrices stored without gaps.
  static GemmSizes Dense(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b);
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
  // Element (i, j) of a factor.
  int64_t a_at(int64_t i, int64_t j) const { return transpose_a ? j * a_step + i : i * a_step + j; }
  int64_t b_at(int64_t i, int64_t j) const { return transpose_b ? j * b_step + i : i * b_step + j; }
};

// Elements from the start of each tensor to the matrices of one product.
struct GemmOffsets {
  int64_t a = 0, b = 0, c = 0;
};

// Products of one size. Immutable; Run may be called by several threads at once.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual int64_t scratch_bytes() const { return 0; }
  // factors: a and b of every term that is summed; one pair, but for what MakeGemmSum makes.
  virtual absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void* scratch) const = 0;
  absl::Status Run(const KernelContext& context, const void* a, const void* b, void* c, void* scratch) const {
    const void* const factors[] = {a, b};
    return RunSum(context, factors, c, scratch);
  }
};

// Of floats, doubles, 16-bit floats (summed in float), int32 and int64; Unimplemented for other types. The
// products' results must not overlap.
absl::StatusOr<std::unique_ptr<Gemm>> MakeGemm(const OpInstance& instance, DataType dtype, GemmSizes sizes,
                                               std::vector<GemmOffsets> products);

// c = a0 * b0 + a1 * b1 + …, of float32 or float64: `terms` dense products of these sizes, added up in their order.
absl::StatusOr<std::unique_ptr<Gemm>> MakeGemmSum(const OpInstance& instance, DataType dtype, const GemmSizes& sizes,
                                                  int64_t terms);

// The kinds that MakeGemm chooses from; all require sizes.flops() > 0.
//
// Any type by packed panels; float32 and float64 may have several terms.
absl::StatusOr<std::unique_ptr<Gemm>> MakePackedGemm(const OpInstance& instance, DataType dtype, const GemmSizes& sizes,
                                                     std::vector<GemmOffsets> products, int64_t terms = 1);
// Products too small or too thin to be worth packing; nullptr when these are not.
std::unique_ptr<Gemm> MakeDirectGemm(DataType dtype, const GemmSizes& sizes, std::vector<GemmOffsets> products);
std::unique_ptr<Gemm> MakeDotsGemm(DataType dtype, const GemmSizes& sizes, std::vector<GemmOffsets> products);
// Products of fewer columns than a vector has, of many rows or many terms; nullptr for others.
std::unique_ptr<Gemm> MakeNarrowGemm(DataType dtype, const GemmSizes& sizes, std::vector<GemmOffsets> products);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_H_
