// Products of few columns whose rows, or whose sums, are many: a block of them at a time is put side by side in vectors.
#include <cstring>
#include <type_traits>

#include "cpu/kernels/common.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {
namespace {

constexpr int64_t kMany = 1024;              // rows or terms
constexpr int64_t kMost = 16;                // of what is put side by side
constexpr int64_t kTermsInARow = 256;        // as many are added up before their sum is added to the others': roundings stay few
constexpr int64_t kFlopsPerShard = 1 << 18;

// Calls fn(columns, step), of few columns without gaps with constants: loops over them vectorise.
template <typename Fn>
void WithSteps(int64_t columns, int64_t step, Fn&& fn) {
  const auto with = [&](auto constant) { fn(constant, constant); };
  if (columns != step || (columns > 4 && columns != 8)) return fn(columns, step);
  if (columns == 1) with(std::integral_constant<int64_t, 1>());
  if (columns == 2) with(std::integral_constant<int64_t, 2>());
  if (columns == 3) with(std::integral_constant<int64_t, 3>());
  if (columns == 4) with(std::integral_constant<int64_t, 4>());
  if (columns == 8) with(std::integral_constant<int64_t, 8>());
}

template <typename T>
class Narrow : public Gemm {
 public:
  Narrow(const GemmSizes& sizes, std::vector<GemmOffsets> products) : sizes_(sizes), products_(std::move(products)) {}

 protected:
  static constexpr int64_t kLanes = kGemmLanes<T>, kVectors = 4, kBlock = kVectors * kLanes;
  using Vector = GemmVector<T>;
  // Of a block of rows the elements of every column.
  using Lines = Vector[kMost][kVectors];

  int64_t count() const { return static_cast<int64_t>(products_.size()); }

  // Zeros where there are no more rows.
  static void Gather(const T* from, int64_t step, int64_t rows, int64_t columns, Lines& lines) {
    auto* to = reinterpret_cast<T*>(lines);
    if (rows < kBlock) std::fill_n(to, columns * kBlock, T(0));
    WithSteps(columns, step, [&](auto count, auto stride) {
#pragma GCC ivdep
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < count; ++column) to[column * kBlock + row] = from[row * stride + column];
      }
    });
  }

  const GemmSizes sizes_;
  const std::vector<GemmOffsets> products_;
};

// Many rows of a.
template <typename T>
class ManyRows final : public Narrow<T> {
 public:
  using Narrow<T>::Narrow;

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void*) const override {
    const int64_t blocks = (sizes_.m + kBlock - 1) / kBlock, block_flops = 2 * kBlock * sizes_.k * sizes_.n;
    ParallelRange(context, this->count() * blocks, kFlopsPerShard / block_flops + 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const GemmOffsets& product = this->products_[unit / blocks];
        RunBlock(unit % blocks * kBlock, static_cast<const T*>(factors[0]) + product.a, static_cast<const T*>(factors[1]) + product.b,
                 static_cast<T*>(c) + product.c);
      }
    });
    return absl::OkStatus();
  }

 private:
  using Narrow<T>::sizes_;
  using Narrow<T>::kBlock;
  using Narrow<T>::kVectors;
  using typename Narrow<T>::Vector;

  void RunBlock(int64_t row, const T* a, const T* b, T* c) const {
    const int64_t rows = std::min(kBlock, sizes_.m - row);
    typename Narrow<T>::Lines lines, results;
    this->Gather(a + row * sizes_.a_step, sizes_.a_step, rows, sizes_.k, lines);
    for (int64_t j = 0; j < sizes_.n; ++j) {
      Vector sums[kVectors] = {};
      for (int64_t l = 0; l < sizes_.k; ++l) {
        const T factor = b[sizes_.b_at(l, j)];
        for (int v = 0; v < kVectors; ++v) sums[v] += factor * lines[l][v];
      }
      std::memcpy(results[j], sums, sizeof(sums));
    }
    const auto* result = reinterpret_cast<const T*>(results);
    const auto write = [&](auto add) {
      WithSteps(sizes_.n, sizes_.c_step, [&](auto count, auto stride) {
        T* to = c + row * stride;
#pragma GCC ivdep
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < count; ++j) to[i * stride + j] = add() ? to[i * stride + j] + result[j * kBlock + i] : result[j * kBlock + i];
        }
      });
    };
    sizes_.add ? write(std::true_type()) : write(std::false_type());
  }
};

// Sums of many terms, of a and b both stored term by term. They are cut into pieces whose sums are added up in order.
template <typename T>
class ManyTerms final : public Narrow<T> {
 public:
  ManyTerms(const GemmSizes& sizes, std::vector<GemmOffsets> products) : Narrow<T>(sizes, std::move(products)) {
    const auto flops = static_cast<int64_t>(2 * sizes.m * sizes.n);
    pieces_ = std::max<int64_t>(NumShards(sizes.k, std::max(kFlopsPerShard / flops, kBlock)) / this->count(), 1);
  }

  int64_t scratch_bytes() const override { return this->count() * pieces_ * piece_bytes(); }

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void* scratch) const override {
    const auto sums_of = [&](int64_t unit) { return reinterpret_cast<T*>(static_cast<std::byte*>(scratch) + unit * piece_bytes()); };
    context.parallel->For(this->count() * pieces_, [&](int64_t unit) {
      const GemmOffsets& product = this->products_[unit / pieces_];
      const int64_t piece = unit % pieces_, begin = sizes_.k * piece / pieces_, end = sizes_.k * (piece + 1) / pieces_;
      const T *a = static_cast<const T*>(factors[0]) + product.a, *b = static_cast<const T*>(factors[1]) + product.b;
      sizes_.m < kLanes ? SumLines(a, b, begin, end, sums_of(unit)) : SumStrips(a, b, begin, end, sums_of(unit));
    });
    for (int64_t i = 0; i < this->count(); ++i) {
      for (int64_t row = 0; row < sizes_.m; ++row) {
        for (int64_t column = 0; column < sizes_.n; ++column) {
          T sum = 0;
          for (int64_t piece = 0; piece < pieces_; ++piece) sum += sums_of(i * pieces_ + piece)[column * sizes_.m + row];
          T& to = static_cast<T*>(c)[this->products_[i].c + row * sizes_.c_step + column];
          to = sizes_.add ? to + sum : sum;
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  using Narrow<T>::sizes_;
  using Narrow<T>::kBlock;
  using Narrow<T>::kLanes;
  using Narrow<T>::kVectors;
  using typename Narrow<T>::Vector;

  int64_t piece_bytes() const { return AlignUp(sizes_.m * sizes_.n * static_cast<int64_t>(sizeof(T))); }

  // Terms [begin, end), to sums[n][m].
  void SumLines(const T* a, const T* b, int64_t begin, int64_t end, T* sums) const {
    std::fill_n(sums, sizes_.m * sizes_.n, T(0));
    for (int64_t from = begin; from < end; from += kTermsInARow * kLanes) {
      AddLines(a, b, from, std::min(from + kTermsInARow * kLanes, end), sums);
    }
  }

  void AddLines(const T* a, const T* b, int64_t begin, int64_t end, T* sums) const {
    typename Narrow<T>::Lines of_a, of_b;
    Vector lanes[kMost][kMost];
    for (int64_t j = 0; j < sizes_.n; ++j) std::fill_n(lanes[j], sizes_.m, Vector{});
    for (int64_t term = begin; term < end; term += kBlock) {
      const int64_t terms = std::min(kBlock, end - term);
      this->Gather(a + term * sizes_.a_step, sizes_.a_step, terms, sizes_.m, of_a);
      this->Gather(b + term * sizes_.b_step, sizes_.b_step, terms, sizes_.n, of_b);
      for (int64_t j = 0; j < sizes_.n; ++j) {
        for (int64_t i = 0; i < sizes_.m; ++i) {
          Vector sum = lanes[j][i];
          for (int v = 0; v < kVectors; ++v) sum += of_a[i][v] * of_b[j][v];
          lanes[j][i] = sum;
        }
      }
    }
    for (int64_t j = 0; j < sizes_.n; ++j) {
      for (int64_t i = 0; i < sizes_.m; ++i) {
        T sum = 0;
        for (int lane = 0; lane < kLanes; ++lane) sum += lanes[j][i][lane];
        sums[j * sizes_.m + i] += sum;
      }
    }
  }
  // The same where a's rows fill vectors. The last of them ends with the last column and overlaps the one before.
  void SumStrips(const T* a, const T* b, int64_t begin, int64_t end, T* sums) const {
    int64_t column = 0;
    const auto cover = [&](auto vectors, int64_t at) {
      ForRowGroups(sizes_.n, [&](auto rows, int64_t row) {
        Vector totals[rows() * vectors()] = {}, products[rows() * vectors()];
        for (int64_t term = begin; term < end; term += kTermsInARow) {
          MultiplyTile<rows(), vectors(), 0>(std::min(kTermsInARow, end - term), b + term * sizes_.b_step + row, 1, sizes_.b_step,
                                             a + term * sizes_.a_step + at, sizes_.a_step, products);
          for (int i = 0; i < rows() * vectors(); ++i) totals[i] += products[i];
        }
        for (int i = 0; i < rows(); ++i) {
          std::memcpy(static_cast<void*>(sums + (row + i) * sizes_.m + at), totals + i * vectors(), vectors() * sizeof(Vector));
        }
      });
    };
    for (; column + kGemmVectors * kLanes <= sizes_.m; column += kGemmVectors * kLanes) cover(std::integral_constant<int, kGemmVectors>(), column);
    for (; column < sizes_.m; column += kLanes) cover(std::integral_constant<int, 1>(), std::min(column, sizes_.m - kLanes));
  }

  int64_t pieces_ = 1;
};

template <typename T>
std::unique_ptr<Gemm> Make(const GemmSizes& sizes, std::vector<GemmOffsets> products) {
  if (sizes.n >= kGemmLanes<T>) return nullptr;
  // Of other sizes the general products are as fast.
  const bool few_columns = sizes.n <= kGemmLanes<T> * 3 / 4, few_sums = sizes.m * sizes.n <= kMany * 4 || sizes.k >= 4 * sizes.m;
  if (!sizes.transpose_a && sizes.m >= kMany && sizes.k <= kMost && few_columns) return std::make_unique<ManyRows<T>>(sizes, std::move(products));
  if (sizes.transpose_a && !sizes.transpose_b && sizes.k >= kMany && sizes.m <= kMany && few_sums) {
    return std::make_unique<ManyTerms<T>>(sizes, std::move(products));
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Gemm> MakeNarrowGemm(DataType dtype, const GemmSizes& sizes, std::vector<GemmOffsets> products) {
  if (dtype == DataType::kFloat) return Make<float>(sizes, std::move(products));
  if (dtype == DataType::kDouble) return Make<double>(sizes, std::move(products));
  return nullptr;
}

}  // namespace millrace::cpu
