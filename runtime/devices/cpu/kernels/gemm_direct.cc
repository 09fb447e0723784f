// Products with few rows or short sums, of a b stored by rows: both factors are read where they are.
#include <type_traits>

#include "cpu/kernels/gemm_schedule.h"
#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {
namespace {

constexpr double kFlopsPerShard = 1e6;
constexpr int kPrefetchRows = 10;
constexpr int64_t kLongRow = 256;  // columns
// Sums of more terms are added up in runs of as many: roundings stay few.
constexpr int64_t kTermsInARow = 4096;
// Rows that one pass over b can serve; elements of b that stay in the nearest cache.
constexpr int64_t kMaxDirectRows = 32, kMaxDirectElements = 8192;

template <typename T>
class DirectGemm final : public Gemm {
 public:
  // When `swapped`, a and b have changed places in sizes and products.
  DirectGemm(const GemmSizes& sizes, std::vector<GemmOffsets> products, bool swapped)
      : sizes_(sizes),
        products_(std::move(products)),
        swapped_(swapped),
        schedule_(sizes, static_cast<int64_t>(products_.size()), kFlopsPerShard) {}

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void*) const override {
    const void *const a = factors[swapped_], *const b = factors[!swapped_];
    return schedule_.ForUnits(context, [&](int64_t, int64_t product, int64_t tile) {
      RunTile(schedule_.tiles()[tile], static_cast<const T*>(a) + products_[product].a,
              static_cast<const T*>(b) + products_[product].b, static_cast<T*>(c) + products_[product].c);
      return absl::OkStatus();
    });
  }

 private:
  static constexpr int64_t kLanes = kGemmLanes<T>;
  static constexpr int kSums = kGemmRows * kGemmVectors;

  // Terms of the sums, which are added onto c or are all that it holds.
  struct Terms {
    int64_t count;
    bool add;
  };

  void RunTile(const GemmTile& tile, const T* a, const T* b, T* c) const {
    const int64_t a_step = sizes_.transpose_a ? sizes_.a_step : 1;
    for (int64_t term = 0; term < sizes_.k; term += kTermsInARow) {
      RunTerms(tile, {std::min(kTermsInARow, sizes_.k - term), sizes_.add || term > 0}, a + term * a_step, b + term * sizes_.b_step, c);
    }
  }

  void RunTerms(const GemmTile& tile, Terms terms, const T* a, const T* b, T* c) const {
    // A b that stays near is passed over once per group of rows, so that c is written in order; a larger one once.
    if (sizes_.n * sizes_.k <= kMaxDirectElements) {
      for (int64_t row = 0; row < tile.rows; row += kGemmRows) {
        RunRows({tile.row + row, tile.column, std::min<int64_t>(kGemmRows, tile.rows - row), tile.columns}, terms, a, b, c);
      }
    } else if (tile.rows == 1 && !terms.add && tile.columns >= kLongRow && tile.columns % kLanes == 0) {
      RunRow(tile, terms.count, a + (sizes_.transpose_a ? tile.row : tile.row * sizes_.a_step), b + tile.column, c + tile.row * sizes_.c_step + tile.column);
    } else {
      RunRows(tile, terms, a, b, c);
    }
  }

  // A single row from many columns: a few rows of b at a time over their whole length, as processors fetch ahead. Sums wait in c.
  void RunRow(const GemmTile& tile, int64_t terms, const T* a, const T* b, T* c) const {
    const int64_t a_step = sizes_.transpose_a ? sizes_.a_step : 1;
    std::fill_n(c, tile.columns, T(0));
    ForRowGroups<8>(terms, [&](auto rows, int64_t term) {
      T factors[rows()];
      for (int i = 0; i < rows(); ++i) factors[i] = a[(term + i) * a_step];
      const T* from = b + term * sizes_.b_step;
      for (int64_t column = 0; column < tile.columns; column += kLanes) {
        GemmVector<T> sum, row;
        std::memcpy(&sum, c + column, sizeof(sum));
        for (int i = 0; i < rows(); ++i) {
          std::memcpy(&row, from + i * sizes_.b_step + column, sizeof(row));
          sum += factors[i] * row;
        }
        std::memcpy(c + column, &sum, sizeof(sum));
      }
    });
  }

  // A single row takes more columns at a time. The last vector ends with the last column and overlaps the one before.
  void RunRows(const GemmTile& tile, Terms terms, const T* a, const T* b, T* c) const {
    const int64_t end = tile.column + tile.columns;
    int64_t column = tile.column;
    const auto cover = [&](auto vectors) {
      for (; column + vectors() * kLanes <= end; column += vectors() * kLanes) RunColumns<vectors()>(tile, terms, column, a, b, c);
    };
    if (tile.rows == 1) cover(std::integral_constant<int, kSums / 2>());
    cover(std::integral_constant<int, kGemmVectors>());
    cover(std::integral_constant<int, 2>());
    cover(std::integral_constant<int, 1>());
    if (column < end) RunColumns<1>(tile, terms, end - kLanes, a, b, c, column - (end - kLanes));
  }

  // The first `done` columns have been written already.
  template <int kVectors>
  void RunColumns(const GemmTile& tile, Terms terms, int64_t column, const T* a, const T* b, T* c, int64_t done = 0) const {
    const int64_t row_step = sizes_.transpose_a ? 1 : sizes_.a_step, k_step = sizes_.transpose_a ? sizes_.a_step : 1;
    ForRowGroups<std::min(kGemmRows, kSums / kVectors)>(tile.rows, [&](auto rows, int64_t first) {
      const int64_t row = tile.row + first;
      GemmVector<T> sums[rows() * kVectors];
      MultiplyTile<rows(), kVectors, kPrefetchRows>(terms.count, a + row * row_step, row_step, k_step, b + column, sizes_.b_step,
                                                    sums);
      for (int i = 0; i < rows(); ++i) {
        T* to = c + (row + i) * sizes_.c_step + column;
        if (terms.add) {
          AddRow<kVectors>(&sums[i * kVectors], done, to);
        } else {  // what is `done` may be another tile's, which may have further terms already
          std::memcpy(to + done, reinterpret_cast<const T*>(&sums[i * kVectors]) + done, kVectors * sizeof(sums[0]) - done * sizeof(T));
        }
      }
    });
  }

  template <int kVectors>
  static void AddRow(const GemmVector<T>* sums, int64_t done, T* to) {
    if (done > 0) {
      for (int64_t lane = done; lane < kLanes; ++lane) to[lane] += sums[0][lane];
      return;
    }
    for (int v = 0; v < kVectors; ++v) {
      GemmVector<T> sum;
      std::memcpy(&sum, to + v * kLanes, sizeof(sum));
      sum += sums[v];
      std::memcpy(to + v * kLanes, &sum, sizeof(sum));
    }
  }

  const GemmSizes sizes_;
  const std::vector<GemmOffsets> products_;
  const bool swapped_;
  const GemmSchedule schedule_;
};

bool Fits(const GemmSizes& sizes, int64_t lanes) {
  // A tile's last vector must lie inside the row.
  return !sizes.transpose_b && sizes.n >= lanes && (sizes.m <= kMaxDirectRows || sizes.n * sizes.k <= kMaxDirectElements);
}

// c is a vector: the same as its transpose, b' * a'.
bool IsColumn(const GemmSizes& sizes) { return sizes.n == 1 && sizes.c_step == 1; }

GemmSizes Transposed(const GemmSizes& sizes) {
  return {sizes.n, sizes.m, sizes.k, !sizes.transpose_b, !sizes.transpose_a, sizes.add, sizes.b_step, sizes.a_step, sizes.m};
}

template <typename T>
std::unique_ptr<Gemm> Make(const GemmSizes& sizes, std::vector<GemmOffsets> products) {
  if (Fits(sizes, kGemmLanes<T>)) return std::make_unique<DirectGemm<T>>(sizes, std::move(products), false);
  if (!IsColumn(sizes) || !Fits(Transposed(sizes), kGemmLanes<T>)) return nullptr;
  for (GemmOffsets& product : products) std::swap(product.a, product.b);
  return std::make_unique<DirectGemm<T>>(Transposed(sizes), std::move(products), true);
}

}  // namespace

std::unique_ptr<Gemm> MakeDirectGemm(DataType dtype, const GemmSizes& sizes, std::vector<GemmOffsets> products) {
  if (dtype == DataType::kFloat) return Make<float>(sizes, std::move(products));
  if (dtype == DataType::kDouble) return Make<double>(sizes, std::move(products));
  return nullptr;
}

}  // namespace millrace::cpu
