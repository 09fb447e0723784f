#include "cpu/kernels/gemm.h"

#include <cstring>

#include "cpu/kernels/common.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// Of as many terms a product is better cut in pieces of its sums than in its result.
constexpr int64_t kLongSum = 1 << 16;

// Products without terms: zeros (or nothing).
class ZeroGemm final : public Gemm {
 public:
  ZeroGemm(const GemmSizes& sizes, std::vector<GemmOffsets> products, int64_t element_bytes)
      : sizes_(sizes), products_(std::move(products)), element_bytes_(element_bytes) {}

  absl::Status RunSum(const KernelContext&, const void* const*, void* c, void*) const override {
    if (sizes_.n == 0 || sizes_.add) return absl::OkStatus();
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

// One product after another.
class SerialSum final : public Gemm {
 public:
  SerialSum(std::unique_ptr<Gemm> first, std::unique_ptr<Gemm> others, int64_t terms)
      : first_(std::move(first)), others_(std::move(others)), terms_(terms) {}

  int64_t scratch_bytes() const override { return std::max(first_->scratch_bytes(), others_->scratch_bytes()); }

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void* scratch) const override {
    MR_RETURN_IF_ERROR(first_->RunSum(context, factors, c, scratch));
    for (int64_t i = 1; i < terms_; ++i) MR_RETURN_IF_ERROR(others_->RunSum(context, factors + 2 * i, c, scratch));
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Gemm> first_, others_;
  const int64_t terms_;
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
  return {m, n, k, transpose_a, transpose_b, false, transpose_a ? m : k, transpose_b ? k : n, n};
}

absl::StatusOr<std::unique_ptr<Gemm>> MakeGemm(const OpInstance& instance, DataType dtype, GemmSizes sizes,
                                               std::vector<GemmOffsets> products) {
  if (sizes.flops() == 0 || products.empty()) {
    return std::make_unique<ZeroGemm>(sizes, std::move(products), DataTypeSize(dtype));
  }
  FoldProductsIntoRows(sizes, products);
  if (sizes.k >= kLongSum) {
    if (std::unique_ptr<Gemm> narrow = MakeNarrowGemm(dtype, sizes, products)) return narrow;
  }
  if (std::unique_ptr<Gemm> direct = MakeDirectGemm(dtype, sizes, products)) return direct;
  if (std::unique_ptr<Gemm> dots = MakeDotsGemm(dtype, sizes, products)) return dots;
  if (std::unique_ptr<Gemm> narrow = MakeNarrowGemm(dtype, sizes, products)) return narrow;
  return MakePackedGemm(instance, dtype, sizes, std::move(products));
}

absl::StatusOr<std::unique_ptr<Gemm>> MakeGemmSum(const OpInstance& instance, DataType dtype, const GemmSizes& sizes,
                                                  int64_t terms) {
  if (dtype != DataType::kFloat && dtype != DataType::kDouble) return UnsupportedType(instance, dtype);
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> first, MakeGemm(instance, dtype, sizes, {GemmOffsets()}));
  if (terms == 1) return first;
  // Short terms are packed as one product.
  GemmSizes all = sizes;
  all.k *= terms;
  if (all.flops() > 0 && MakeDirectGemm(dtype, all, {GemmOffsets()}) == nullptr && MakeDotsGemm(dtype, sizes, {GemmOffsets()}) == nullptr) {
    return MakePackedGemm(instance, dtype, sizes, {GemmOffsets()}, terms);
  }
  GemmSizes further = sizes;
  further.add = true;
  MR_ASSIGN_OR_RETURN(std::unique_ptr<Gemm> others, MakeGemm(instance, dtype, further, {GemmOffsets()}));
  return std::make_unique<SerialSum>(std::move(first), std::move(others), terms);
}

}  // namespace millrace::cpu
