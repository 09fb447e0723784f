// float32 and float64 products with few rows, of a and b both stored along k: dot products of several rows and columns at a time.
#include <cstring>

#include "cpu/kernels/gemm_schedule.h"
#include "cpu/kernels/gemm_tile.h"

namespace millrace::cpu {
namespace {

constexpr double kFlopsPerShard = 1e6;
// Dot products of at least kMinK terms with at most kMaxRows rows of a beat packing b.
constexpr int64_t kMaxRows = 8, kMinK = 128;
template <typename T>
constexpr int kLanes = kGemmLanes<T>;
template <typename T>
using Mask = GemmVector<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;

template <typename T>
GemmVector<T> Load(const T* from) {
  GemmVector<T> vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

// The lanes of kLanes vectors added up by halves: lane i of the result is the sum of vector i. A step joins two vectors
// of groups (of one vector's lanes each): what is left of their groups is half as long and all in one vector.
template <typename T, int kLength = kLanes<T>>
GemmVector<T> SumLanes(const GemmVector<T>* vectors) {
  if constexpr (kLength == 1) {
    return vectors[0];
  } else {
    // A group's first half goes to `low`, its second one to `high`; lanes of the second vector count from kLanes on.
    Mask<T> low, high;
    for (int lane = 0; lane < kLanes<T>; ++lane) {
      low[lane] = lane / (kLength / 2) * kLength + lane % (kLength / 2);
      high[lane] = low[lane] + kLength / 2;
    }
    GemmVector<T> joined[kLength / 2];
#pragma GCC unroll 8
    for (int i = 0; i < kLength / 2; ++i) {
      joined[i] = __builtin_shuffle(vectors[2 * i], vectors[2 * i + 1], low) +
                  __builtin_shuffle(vectors[2 * i], vectors[2 * i + 1], high);
    }
    return SumLanes<T, kLength / 2>(joined);
  }
}

// The bits of lanes that `mask` keeps.
template <typename T>
GemmVector<T> Keep(const GemmVector<T>& vector, const Mask<T>& mask) {
  Mask<T> bits;
  std::memcpy(&bits, &vector, sizeof(bits));
  bits &= mask;
  GemmVector<T> kept;
  std::memcpy(&kept, &bits, sizeof(kept));
  return kept;
}

template <typename T, int kRows, int kColumns>
struct DotSums {
  GemmVector<T> v[kRows][kColumns] = {};
};

template <typename T>
class DotsGemm final : public Gemm {
 public:
  DotsGemm(const GemmSizes& sizes, std::vector<GemmOffsets> products)
      : sizes_(sizes),
        products_(std::move(products)),
        schedule_(sizes, static_cast<int64_t>(products_.size()), kFlopsPerShard),
        b_step_(sizes.transpose_b ? sizes.b_step : 1) {}

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void*) const override {
    const void *const a = factors[0], *const b = factors[1];
    return schedule_.ForUnits(context, [&](int64_t, int64_t product, int64_t tile) {
      RunTile(schedule_.tiles()[tile], static_cast<const T*>(a) + products_[product].a,
              static_cast<const T*>(b) + products_[product].b, static_cast<T*>(c) + products_[product].c);
      return absl::OkStatus();
    });
  }

 private:
  static constexpr int kLanes = kGemmLanes<T>;
  using Vector = GemmVector<T>;

  void RunTile(const GemmTile& tile, const T* a, const T* b, T* c) const {
    if (tile.rows >= kGemmRows) {
      RunColumns<kGemmVectors>(tile, a, b, c);
    } else {
      RunColumns<4>(tile, a, b, c);
    }
  }

  template <int kColumns>
  void RunColumns(const GemmTile& tile, const T* a, const T* b, T* c) const {
    const int64_t end = tile.column + tile.columns;
    int64_t column = tile.column;
    for (; column + kColumns <= end; column += kColumns) RunRows<kColumns>(tile, column, a, b, c);
    for (; column < end; ++column) RunRows<1>(tile, column, a, b, c);
  }

  template <int kColumns>
  void RunRows(const GemmTile& tile, int64_t column, const T* a, const T* b, T* c) const {
    ForRowGroups<kColumns == 4 ? kGemmRows / 2 : kGemmRows>(tile.rows, [&](auto rows, int64_t first) {
      Dots<rows(), kColumns>(tile.row + first, column, a, b, c);
    });
  }

  // With one row and one column alone, four sums run side by side.
  template <int kRows, int kColumns>
  void Dots(int64_t row, int64_t column, const T* a, const T* b, T* c) const {
    constexpr int kSums = kRows * kColumns == 1 ? 4 : 1;
    DotSums<T, kRows, kColumns> sums[kSums];
    Mask<T> mask = {};
    a += row * sizes_.a_step;
    b += column * b_step_;
    int64_t k = 0;
    for (; k + kSums * kLanes <= sizes_.k; k += kSums * kLanes) {
#pragma GCC unroll 4
      for (int s = 0; s < kSums; ++s) AddProducts<false>(a + k + s * kLanes, b + k + s * kLanes, mask, sums[s]);
    }
    for (; k + kLanes <= sizes_.k; k += kLanes) AddProducts<false>(a + k, b + k, mask, sums[0]);
    if (k < sizes_.k) {
      // The last vector ends with the last element; what it has of the one before is left out.
      for (int lane = 0; lane < kLanes; ++lane) mask[lane] = lane < kLanes - (sizes_.k - k) ? 0 : -1;
      AddProducts<true>(a + sizes_.k - kLanes, b + sizes_.k - kLanes, mask, sums[0]);
    }
    Vector all[kLanes * ((kRows * kColumns + kLanes - 1) / kLanes)] = {};
#pragma GCC unroll 24
    for (int i = 0; i < kRows * kColumns; ++i) {
      all[i] = sums[0].v[i / kColumns][i % kColumns];
      for (int s = 1; s < kSums; ++s) all[i] += sums[s].v[i / kColumns][i % kColumns];
    }
    for (int first = 0; first < kRows * kColumns; first += kLanes) {
      const Vector totals = SumLanes<T>(all + first);
      for (int i = first; i < std::min(first + kLanes, kRows * kColumns); ++i) {
        T& to = c[(row + i / kColumns) * sizes_.c_step + column + i % kColumns];
        to = sizes_.add ? to + totals[i - first] : totals[i - first];
      }
    }
  }

  template <bool kMasked, int kRows, int kColumns>
  void AddProducts(const T* a, const T* b, const Mask<T>& mask, DotSums<T, kRows, kColumns>& sums) const {
    Vector columns[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      columns[j] = Load(b + j * b_step_);
      if constexpr (kMasked) columns[j] = Keep<T>(columns[j], mask);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      Vector factor = Load(a + i * sizes_.a_step);
      if constexpr (kMasked) factor = Keep<T>(factor, mask);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sums.v[i][j] += factor * columns[j];
    }
  }

  const GemmSizes sizes_;
  const std::vector<GemmOffsets> products_;
  const GemmSchedule schedule_;
  const int64_t b_step_;
};

bool Fits(const GemmSizes& sizes, int64_t lanes) {
  const bool b_along_k = sizes.transpose_b || (sizes.n == 1 && sizes.b_step == 1);
  const bool a_along_k = !sizes.transpose_a || (sizes.m == 1 && sizes.a_step == 1);
  if (!a_along_k || !b_along_k || sizes.k < lanes) return false;
  return sizes.m == 1 || sizes.n == 1 || (sizes.m <= kMaxRows && sizes.k >= kMinK);
}

template <typename T>
std::unique_ptr<Gemm> Make(const GemmSizes& sizes, std::vector<GemmOffsets> products) {
  return Fits(sizes, kLanes<T>) ? std::make_unique<DotsGemm<T>>(sizes, std::move(products)) : nullptr;
}

}  // namespace

std::unique_ptr<Gemm> MakeDotsGemm(DataType dtype, const GemmSizes& sizes, std::vector<GemmOffsets> products) {
  if (dtype == DataType::kFloat) return Make<float>(sizes, std::move(products));
  if (dtype == DataType::kDouble) return Make<double>(sizes, std::move(products));
  return nullptr;
}

}  // namespace millrace::cpu
