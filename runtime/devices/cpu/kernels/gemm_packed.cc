// Products of any element type: b packed into panels of three vectors of columns, once for all that use it, a into
// groups of rows by blocks. (oneDNN's product is as fast on dense matrices, but every shard packs b again, and where
// rows have gaps it allocates.)
#include <type_traits>

#include "cpu/kernels/convert.h"
#include "cpu/kernels/gemm_schedule.h"
#include "cpu/kernels/gemm_tile.h"
#include "cpu/kernels/transpose_tile.h"

namespace millrace::cpu {
namespace {

constexpr double kFlopsPerShard = 2e6;
constexpr int64_t kBlockRows = 64, kBlockK = 256;  // of a block of a
constexpr int64_t kPrefetchVectors = 3;  // of a b that is transposed
constexpr int64_t kShortK = 64;  // from here down, c costs more than b: fewer rows of it are written at a time

template <typename T>
class PackedGemm final : public Gemm {
 public:
  PackedGemm(const GemmSizes& sizes, std::vector<GemmOffsets> products, int64_t terms)
      : sizes_(sizes),
        products_(std::move(products)),
        depth_(sizes.k * terms),
        schedule_(WholeSum(sizes, terms), static_cast<int64_t>(products_.size()), kFlopsPerShard, kPanel),
        shared_b_(products_.size() == 1) {
    int64_t columns = 0;
    for (const GemmTile& tile : schedule_.tiles()) columns = std::max(columns, tile.columns);
    a_bytes_ = Bytes(std::min(kBlockRows, sizes.m), block_k());
    b_bytes_ = Bytes(depth_, RoundUp(shared_b_ ? sizes.n : columns));
  }

  // Packed b, shared or a shard's own; a block of a for every shard.
  int64_t scratch_bytes() const override { return schedule_.shards() * a_bytes_ + (shared_b_ ? 1 : schedule_.shards()) * b_bytes_; }

  absl::Status RunSum(const KernelContext& context, const void* const* factors, void* c, void* scratch) const override {
    auto* blocks = static_cast<std::byte*>(scratch);
    std::byte* panels = blocks + schedule_.shards() * a_bytes_;
    if (shared_b_) PackShared(context, {factors + 1, products_[0].b}, reinterpret_cast<Sum*>(panels));
    return schedule_.ForUnits(context, [&](int64_t shard, int64_t product, int64_t index) {
      const GemmTile& tile = schedule_.tiles()[index];
      const GemmOffsets& offsets = products_[product];
      auto* packed = reinterpret_cast<Sum*>(panels + (shared_b_ ? 0 : shard * b_bytes_));
      if (shared_b_) {
        packed += tile.column * depth_;
      } else {
        PackColumns({factors + 1, offsets.b}, tile.column, tile.column + tile.columns, packed);
      }
      RunTile(tile, {factors, offsets.a}, packed, static_cast<T*>(c) + offsets.c,
              reinterpret_cast<Sum*>(blocks + shard * a_bytes_));
      return absl::OkStatus();
    });
  }

 private:
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  static constexpr int64_t kLanes = kGemmLanes<Sum>;
  static constexpr int64_t kPanel = kGemmVectors * kLanes;
  static constexpr bool kIsShort = !std::is_same_v<T, Sum>;
  static constexpr DataType kShortType = std::is_same_v<T, Eigen::half> ? DataType::kHalf : DataType::kBfloat16;

  // One side of the product: every second pointer is that of the next term, sizes_.k further along the sum.
  struct Factor {
    const void* const* terms;
    int64_t offset;
    const T* term(int64_t i) const { return static_cast<const T*>(terms[2 * i]) + offset; }
  };

  static GemmSizes WholeSum(GemmSizes sizes, int64_t terms) {
    sizes.k *= terms;
    return sizes;
  }
  static int64_t Bytes(int64_t rows, int64_t columns) { return AlignUp(rows * columns * static_cast<int64_t>(sizeof(Sum))); }
  static int64_t RoundUp(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }
  // A row of 16-bit floats, a vector at a time.
  static void Widen(const T* from, Sum* to, int64_t n) {
    if constexpr (kIsShort) {
      static const ConvertFn load = WideningOf(kShortType).load;
      load(from, to, n);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Sum>(from[i]);
    }
  }

  // 16-bit results are rounded once: their sums are not cut into blocks of k.
  int64_t block_k() const { return std::is_same_v<T, Sum> ? std::min(depth_, kBlockK) : depth_; }

  // Calls fn(term, first k in it, number) for what [begin, begin + depth) of the sum has in each term.
  template <typename Fn>
  void ForTerms(int64_t begin, int64_t depth, Fn&& fn) const {
    for (int64_t k = begin; k < begin + depth;) {
      const int64_t inner = k % sizes_.k, count = std::min(sizes_.k - inner, begin + depth - k);
      fn(k / sizes_.k, inner, count);
      k += count;
    }
  }

  void PackShared(const KernelContext& context, Factor b, Sum* packed) const {
    const int64_t panels = (sizes_.n + kPanel - 1) / kPanel;
    ParallelRange(context, panels, kElementGrain / (depth_ * kPanel) + 1, [&](int64_t begin, int64_t end) {
      PackColumns(b, begin * kPanel, std::min(end * kPanel, sizes_.n), packed + begin * kPanel * depth_);
    });
  }

  // Panels of columns [begin, end): [k][columns rounded up to vectors], zeros past the last column.
  void PackColumns(Factor b, int64_t begin, int64_t end, Sum* packed) const {
    for (int64_t column = begin; column < end; column += kPanel) {
      const int64_t columns = std::min(kPanel, end - column), width = RoundUp(columns);
      if (columns < width) std::memset(static_cast<void*>(packed), 0, depth_ * width * sizeof(Sum));
      for (int64_t term = 0; term * sizes_.k < depth_; ++term, packed += sizes_.k * width) {
        if (sizes_.transpose_b) {
          PackTransposed(b.term(term) + column * sizes_.b_step, columns, width, packed);
          continue;
        }
        for (int64_t k = 0; k < sizes_.k; ++k) {
          const T* from = b.term(term) + k * sizes_.b_step + column;
          Widen(from, packed + k * width, columns);
        }
      }
    }
  }

  void PackTransposed(const T* b, int64_t columns, int64_t width, Sum* packed) const {
    for (int64_t k = 0; k < sizes_.k; k += kLanes) {
      const int64_t depth = std::min(kLanes, sizes_.k - k);
      for (int64_t j = 0; j < columns; j += kLanes) {
        const T* from = b + j * sizes_.b_step + k;
        Sum* to = packed + k * width + j;
        for (int64_t column = 0; column < std::min(kLanes, columns - j); ++column) {
          __builtin_prefetch(from + column * sizes_.b_step + kPrefetchVectors * kLanes);
        }
        if (depth == kLanes) {
          if constexpr (std::is_same_v<T, Sum>) {
            TransposeTile<Sum>::Run(from, sizes_.b_step, columns - j, to, width);
          } else {
            Sum tile[kLanes * kLanes];
            for (int64_t column = 0; column < std::min(kLanes, columns - j); ++column) {
              Widen(from + column * sizes_.b_step, tile + column * kLanes, kLanes);
            }
            TransposeTile<Sum>::Run(tile, kLanes, columns - j, to, width);
          }
          continue;
        }
        for (int64_t column = 0; column < std::min(kLanes, columns - j); ++column) {
          for (int64_t i = 0; i < depth; ++i) to[i * width + column] = static_cast<Sum>(from[column * sizes_.b_step + i]);
        }
      }
    }
  }

  // Rows of a that meet a panel: packed in groups as ForRowGroups has them, [k][row], or where they are.
  struct Rows {
    const Sum* elements;
    int64_t rows, depth;
    int64_t row_step;  // 0: packed
  };

  // What is not packed must lie in one term.
  Rows TakeRows(Factor a, int64_t row, int64_t rows, int64_t k, int64_t depth, Sum* packed) const {
    if constexpr (std::is_same_v<T, Sum>) {
      if (!sizes_.transpose_a) return {a.term(k / sizes_.k) + sizes_.a_at(row, k % sizes_.k), rows, depth, sizes_.a_step};
    }
    if (!sizes_.transpose_a) {
      for (int64_t i = 0; i < rows; ++i) Widen(a.term(k / sizes_.k) + sizes_.a_at(row + i, k % sizes_.k), packed + i * depth, depth);
      return {packed, rows, depth, depth};
    }
    if constexpr (kIsShort) {
      int64_t at = 0;
      ForTerms(k, depth, [&](int64_t term, int64_t begin, int64_t inner) {
        for (int64_t l = 0; l < inner; ++l, ++at) {
          Sum wide[kBlockRows];
          Widen(a.term(term) + sizes_.a_at(row, begin + l), wide, rows);
          ForRowGroups(rows, [&](auto count, int64_t first) {
            std::memcpy(packed + first * depth + at * count(), wide + first, count() * sizeof(Sum));
          });
        }
      });
    } else {
      ForRowGroups(rows, [&](auto count, int64_t first) {
        Sum* to = packed + first * depth;
        ForTerms(k, depth, [&](int64_t term, int64_t begin, int64_t inner) {
          for (int64_t l = 0; l < inner; ++l, to += count()) {
            const T* from = a.term(term) + sizes_.a_at(row + first, begin + l);
            for (int i = 0; i < count(); ++i) to[i] = from[i];
          }
        });
      });
    }
    return {packed, rows, depth, 0};
  }

  void RunTile(const GemmTile& tile, Factor a, const Sum* panels, T* c, Sum* block) const {
    const int64_t block_rows = depth_ <= kShortK ? kGemmRows : kBlockRows;
    for (int64_t k = 0, depth = 0; k < depth_; k += depth) {
      depth = std::min(block_k(), depth_ - k);
      if (!sizes_.transpose_a) depth = std::min(depth, sizes_.k - k % sizes_.k);
      const bool add = sizes_.add || k > 0;
      for (int64_t row = tile.row; row < tile.row + tile.rows; row += block_rows) {
        const Rows rows = TakeRows(a, row, std::min(block_rows, tile.row + tile.rows - row), k, depth, block);
        for (int64_t column = 0; column < tile.columns; column += kPanel) {
          const int64_t columns = std::min(kPanel, tile.columns - column), width = RoundUp(columns);
          const Sum* panel = panels + column * depth_ + k * width;
          T* to = c + row * sizes_.c_step + tile.column + column;
          if (width == kPanel) RunPanel<kGemmVectors>(rows, panel, columns, to, add);
          if (width == 2 * kLanes) RunPanel<2>(rows, panel, columns, to, add);
          if (width == kLanes) RunPanel<1>(rows, panel, columns, to, add);
        }
      }
    }
  }

  template <int kVectors>
  void RunPanel(const Rows& block, const Sum* panel, int64_t columns, T* c, bool add) const {
    ForRowGroups(block.rows, [&](auto count, int64_t first) {
      GemmVector<Sum> sums[count() * kVectors];
      if (block.row_step == 0) {
        MultiplyTile<count(), kVectors, 0>(block.depth, block.elements + first * block.depth, 1, count(), panel,
                                           kVectors * kLanes, sums);
      } else {
        MultiplyTile<count(), kVectors, 0>(block.depth, block.elements + first * block.row_step, block.row_step, 1, panel,
                                           kVectors * kLanes, sums);
      }
      for (int i = 0; i < count(); ++i) {
        StoreRow<kVectors>(&sums[i * kVectors], columns, c + (first + i) * sizes_.c_step, add);
      }
    });
  }

  template <int kVectors>
  static void StoreRow(const GemmVector<Sum>* sums, int64_t columns, T* to, bool add) {
    Sum row[kVectors * kLanes];
    if (std::is_same_v<T, Sum> && columns == kVectors * kLanes) {
      for (int v = 0; v < kVectors; ++v) {
        GemmVector<Sum> sum = sums[v];
        if (add) {
          GemmVector<Sum> before;
          std::memcpy(&before, to + v * kLanes, sizeof(before));
          sum += before;
        }
        std::memcpy(static_cast<void*>(to + v * kLanes), &sum, sizeof(sum));
      }
      return;
    }
    std::memcpy(row, sums, sizeof(row));
    if constexpr (kIsShort) {
      static const ConvertFn store = WideningOf(kShortType).store;
      Sum before[kVectors * kLanes];
      if (add) {
        Widen(to, before, columns);
        for (int64_t j = 0; j < columns; ++j) row[j] = before[j] + row[j];
      }
      store(row, to, columns);
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j] = add ? to[j] + row[j] : row[j];
    }
  }

  const GemmSizes sizes_;
  const std::vector<GemmOffsets> products_;
  const int64_t depth_;  // of the whole sum
  const GemmSchedule schedule_;
  const bool shared_b_;
  int64_t a_bytes_ = 0, b_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> MakePackedGemm(const OpInstance& instance, DataType dtype, const GemmSizes& sizes,
                                                     std::vector<GemmOffsets> products, int64_t terms) {
  switch (dtype) {
    case DataType::kFloat: return std::make_unique<PackedGemm<float>>(sizes, std::move(products), terms);
    case DataType::kDouble: return std::make_unique<PackedGemm<double>>(sizes, std::move(products), terms);
    case DataType::kHalf: return std::make_unique<PackedGemm<Eigen::half>>(sizes, std::move(products), terms);
    case DataType::kBfloat16: return std::make_unique<PackedGemm<Eigen::bfloat16>>(sizes, std::move(products), terms);
    case DataType::kInt32: return std::make_unique<PackedGemm<int32_t>>(sizes, std::move(products), terms);
    case DataType::kInt64: return std::make_unique<PackedGemm<int64_t>>(sizes, std::move(products), terms);
    default: return UnsupportedType(instance, dtype);
  }
}

}  // namespace millrace::cpu
