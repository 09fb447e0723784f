#include "cpu/kernels/gemm.h"

#include <cstring>

#include "cpu/kernels/common.h"

namespace millrace::cpu {
namespace {

// Products without terms: zeros (or nothing).
class ZeroGemm final : public Gemm {
 public:
  ZeroGemm(const GemmSizes& sizes, std::vector<GemmOffsets> products, int64_t element_bytes)
      : sizes_(sizes), products_(std::move(products)), element_bytes_(element_bytes) {}

  absl::Status Run(const KernelContext&, const void*, const void*, void* c, void*) const override {
    if (sizes_.n == 0) return absl::OkStatus();
    for (const GemmOffsets& product : products_) {
      for (int64_t row = 0; row < sizes_.m; ++row) {
        std::memset(static_cast<std::byte*>(c) + (product.c + row * sizes_.c_step) * element_bytes_, 0,
                    sizes_.n * element_bytes_);
      }
    }
    return absl::OkStatus();
  }

 private:
  const GemmSizes sizes_;
  const std::vector<GemmOffsets> products_;
  const int64_t element_bytes_;
};

// Products that share b and follow one another in a and c are one product with more rows.
void FoldProductsIntoRows(GemmSizes& sizes, std::vector<GemmOffsets>& products) {
  if (products.size() < 2 || sizes.transpose_a) return;
  for (size_t i = 0; i < products.size(); ++i) {
    const GemmOffsets& product = products[i];
    const auto rows = static_cast<int64_t>(i) * sizes.m;
    if (product.b != products[0].b || product.a - products[0].a != rows * sizes.a_step ||
        product.c - products[0].c != rows * sizes.c_step) {
      return;
    }
  }
  sizes.m *= static_cast<int64_t>(products.size());
  products.resize(1);
}

}  // namespace

GemmSizes GemmSizes::Dense(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  return {m, n, k, transpose_a, transpose_b, transpose_a ? m : k, transpose_b ? k : n, n};
}

absl::StatusOr<std::unique_ptr<Gemm>> MakeGemm(const OpInstance& instance, DataType dtype, GemmSizes sizes,
                                               std::vector<GemmOffsets> products) {
  if (sizes.flops() == 0 || products.empty()) {
    return std::make_unique<ZeroGemm>(sizes, std::move(products), DataTypeSize(dtype));
  }
  FoldProductsIntoRows(sizes, products);
  if (std::unique_ptr<Gemm> direct = MakeDirectGemm(dtype, sizes, products)) return direct;
  if (dtype == DataType::kFloat) {
    if (std::unique_ptr<Gemm> dots = MakeDotsGemm(sizes, products)) return dots;
  }
  return MakePackedGemm(instance, dtype, sizes, std::move(products));
}

}  // namespace millrace::cpu
