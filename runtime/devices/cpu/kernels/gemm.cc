#include "cpu/kernels/gemm.h"

#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

#include "cpu/kernels/common.h"
#include "cpu/kernels/onednn.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

// A shard of less work costs more in dispatch than it saves.
constexpr double kFlopsPerShard = 2e6;
constexpr int64_t kRowUnit = 16, kColumnUnit = 64;  // cuts fall on multiples

// Rows and columns [row, row + rows) x [column, column + columns) of a product.
struct Tile {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

// Cuts a product along its longer side into about `wanted` tiles.
std::vector<Tile> CutProduct(const GemmSizes& sizes, int64_t wanted) {
  const bool by_rows = sizes.m >= sizes.n;
  const int64_t length = by_rows ? sizes.m : sizes.n, unit = by_rows ? kRowUnit : kColumnUnit;
  const int64_t units = (length + unit - 1) / unit, parts = std::clamp<int64_t>(wanted, 1, units);
  std::vector<Tile> tiles;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = units * i / parts * unit, end = std::min(units * (i + 1) / parts * unit, length);
    tiles.push_back(by_rows ? Tile{begin, 0, end - begin, sizes.n} : Tile{0, begin, sizes.m, end - begin});
  }
  return tiles;
}

// Work units, one per product and tile, in equal shards.
struct Schedule {
  Schedule(const GemmSizes& sizes, int64_t batch) {
    const double flops = sizes.flops() * static_cast<double>(batch);
    const auto wanted = static_cast<int64_t>(std::clamp(flops / kFlopsPerShard, 1.0, static_cast<double>(kMaxShards)));
    tiles = CutProduct(sizes, batch >= wanted ? 1 : (wanted + batch - 1) / batch);
    units = batch * static_cast<int64_t>(tiles.size());
    shards = std::min(wanted, units);
  }
  std::vector<Tile> tiles;
  int64_t units = 0, shards = 0;
};

// float32 by oneDNN's matrix product, a primitive per size of tile.
class OneDnnGemm final : public Gemm {
 public:
  // Throws dnnl::error.
  OneDnnGemm(const GemmSizes& sizes, std::vector<GemmPair> batch)
      : sizes_(sizes), batch_(std::move(batch)), schedule_(sizes, static_cast<int64_t>(batch_.size())) {
    std::map<std::pair<int64_t, int64_t>, int> built;
    for (const Tile& tile : schedule_.tiles) {
      const auto [entry, added] = built.try_emplace({tile.rows, tile.columns}, programs_.size());
      if (added) programs_.push_back(Build(tile));
      program_of_tile_.push_back(entry->second);
      scratchpad_bytes_ = std::max(scratchpad_bytes_, programs_.back().scratchpad_bytes());
    }
  }

  int64_t scratch_bytes() const override { return schedule_.shards * scratchpad_bytes_; }

  absl::Status Run(const KernelContext& context, const void* a, const void* b, void* c, void* scratch) const override {
    return onednn::RunShards(context, schedule_.shards, [&](int64_t shard) {
      const int64_t end = schedule_.units * (shard + 1) / schedule_.shards;
      for (int64_t unit = schedule_.units * shard / schedule_.shards; unit < end; ++unit) {
        MR_RETURN_IF_ERROR(RunUnit(unit, static_cast<const float*>(a), static_cast<const float*>(b),
                                   static_cast<float*>(c), static_cast<std::byte*>(scratch) + shard * scratchpad_bytes_));
      }
      return absl::OkStatus();
    });
  }

 private:
  using Desc = dnnl::memory::desc;

  int64_t a_row() const { return sizes_.transpose_a ? 1 : sizes_.k; }
  int64_t b_column() const { return sizes_.transpose_b ? sizes_.k : 1; }

  onednn::Program Build(const Tile& tile) const {
    constexpr auto kF32 = dnnl::memory::data_type::f32;
    const Desc a({tile.rows, sizes_.k}, kF32, {a_row(), sizes_.transpose_a ? sizes_.m : 1});
    const Desc b({sizes_.k, tile.columns}, kF32, {sizes_.transpose_b ? 1 : sizes_.n, b_column()});
    const Desc c({tile.rows, tile.columns}, kF32, {sizes_.n, 1});
    const dnnl::matmul::primitive_desc desc({a, b, c}, onednn::UserScratchpad(), onednn::Engine());
    return onednn::Program(dnnl::matmul(desc), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}},
                           desc.scratchpad_desc());
  }

  absl::Status RunUnit(int64_t unit, const float* a, const float* b, float* c, std::byte* scratchpad) const {
    const auto tiles = static_cast<int64_t>(schedule_.tiles.size());
    const int64_t product = unit / tiles;
    const Tile& tile = schedule_.tiles[unit % tiles];
    const GemmPair& pair = batch_[product];
    return programs_[program_of_tile_[unit % tiles]].Run(
        {a + pair.a * sizes_.a_elements() + tile.row * a_row(),
         b + pair.b * sizes_.b_elements() + tile.column * b_column(),
         c + product * sizes_.c_elements() + tile.row * sizes_.n + tile.column},
        scratchpad);
  }

  const GemmSizes sizes_;
  const std::vector<GemmPair> batch_;
  const Schedule schedule_;
  std::vector<onednn::Program> programs_;
  std::vector<int> program_of_tile_;
  int64_t scratchpad_bytes_ = 0;
};

// Any element type: panels of b packed in scratch, tiles of sums in registers.
template <typename T>
class LoopGemm final : public Gemm {
 public:
  LoopGemm(const GemmSizes& sizes, std::vector<GemmPair> batch)
      : sizes_(sizes), batch_(std::move(batch)), schedule_(sizes, static_cast<int64_t>(batch_.size())) {}

  int64_t scratch_bytes() const override { return schedule_.shards * panel_bytes(); }

  absl::Status Run(const KernelContext& context, const void* a, const void* b, void* c, void* scratch) const override {
    return onednn::RunShards(context, schedule_.shards, [&](int64_t shard) {
      auto* panel = reinterpret_cast<Sum*>(static_cast<std::byte*>(scratch) + shard * panel_bytes());
      const auto tiles = static_cast<int64_t>(schedule_.tiles.size());
      const int64_t end = schedule_.units * (shard + 1) / schedule_.shards;
      for (int64_t unit = schedule_.units * shard / schedule_.shards; unit < end; ++unit) {
        const int64_t product = unit / tiles;
        RunTile(schedule_.tiles[unit % tiles], static_cast<const T*>(a) + batch_[product].a * sizes_.a_elements(),
                static_cast<const T*>(b) + batch_[product].b * sizes_.b_elements(),
                static_cast<T*>(c) + product * sizes_.c_elements(), panel);
      }
      return absl::OkStatus();
    });
  }

 private:
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  static constexpr int kRows = 4, kColumns = 128 / sizeof(Sum);

  int64_t panel_bytes() const { return AlignUp(sizes_.k * kColumns * static_cast<int64_t>(sizeof(Sum))); }

  void RunTile(const Tile& tile, const T* a, const T* b, T* c, Sum* panel) const {
    for (int64_t column = tile.column; column < tile.column + tile.columns; column += kColumns) {
      const int64_t columns = std::min<int64_t>(kColumns, tile.column + tile.columns - column);
      PackPanel(b, column, columns, panel);
      for (int64_t row = tile.row; row < tile.row + tile.rows; row += kRows) {
        Multiply(a, row, std::min<int64_t>(kRows, tile.row + tile.rows - row), panel, c + row * sizes_.n + column, columns);
      }
    }
  }

  void PackPanel(const T* b, int64_t column, int64_t columns, Sum* panel) const {
    const int64_t row_step = sizes_.transpose_b ? 1 : sizes_.n, column_step = sizes_.transpose_b ? sizes_.k : 1;
    for (int64_t k = 0; k < sizes_.k; ++k) {
      const T* source = b + k * row_step + column * column_step;
      for (int64_t j = 0; j < kColumns; ++j) {
        panel[k * kColumns + j] = j < columns ? static_cast<Sum>(source[j * column_step]) : Sum(0);
      }
    }
  }

  // Rows past `rows` repeat the last one and are not stored.
  void Multiply(const T* a, int64_t row, int64_t rows, const Sum* panel, T* c, int64_t columns) const {
    const int64_t row_step = sizes_.transpose_a ? 1 : sizes_.k, k_step = sizes_.transpose_a ? sizes_.m : 1;
    Sum sums[kRows][kColumns] = {};
    const T* row_of[kRows];
    for (int64_t i = 0; i < kRows; ++i) row_of[i] = a + (row + std::min(i, rows - 1)) * row_step;
    for (int64_t k = 0; k < sizes_.k; ++k) {
      for (int i = 0; i < kRows; ++i) {
        const auto value = static_cast<Sum>(row_of[i][k * k_step]);
        for (int j = 0; j < kColumns; ++j) sums[i][j] += value * panel[k * kColumns + j];
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) c[i * sizes_.n + j] = static_cast<T>(sums[i][j]);
    }
  }

  const GemmSizes sizes_;
  const std::vector<GemmPair> batch_;
  const Schedule schedule_;
};

// Products without terms: zeros (or nothing).
class ZeroGemm final : public Gemm {
 public:
  explicit ZeroGemm(int64_t bytes) : bytes_(bytes) {}
  int64_t scratch_bytes() const override { return 0; }
  absl::Status Run(const KernelContext&, const void*, const void*, void* c, void*) const override {
    if (bytes_ > 0) std::memset(c, 0, bytes_);
    return absl::OkStatus();
  }

 private:
  const int64_t bytes_;
};

// A batch that shares b is one product with more rows.
void FoldBatchIntoRows(GemmSizes& sizes, std::vector<GemmPair>& batch) {
  if (batch.size() < 2 || sizes.transpose_a) return;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].a != static_cast<int64_t>(i) || batch[i].b != batch[0].b) return;
  }
  sizes.m *= static_cast<int64_t>(batch.size());
  batch.resize(1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> MakeGemm(const OpInstance& instance, DataType dtype, GemmSizes sizes,
                                               std::vector<GemmPair> batch) {
  if (sizes.flops() == 0 || batch.empty()) {
    const int64_t elements = sizes.c_elements() * static_cast<int64_t>(batch.size());
    return std::make_unique<ZeroGemm>(elements * DataTypeSize(dtype));
  }
  FoldBatchIntoRows(sizes, batch);
  switch (dtype) {
    case DataType::kFloat: {
      absl::StatusOr<std::unique_ptr<Gemm>> made = onednn::Guard(
          "multiply", [&]() -> std::unique_ptr<Gemm> { return std::make_unique<OneDnnGemm>(sizes, batch); });
      if (made.ok()) return made;
      return std::make_unique<LoopGemm<float>>(sizes, std::move(batch));
    }
    case DataType::kDouble: return std::make_unique<LoopGemm<double>>(sizes, std::move(batch));
    case DataType::kHalf: return std::make_unique<LoopGemm<Eigen::half>>(sizes, std::move(batch));
    case DataType::kBfloat16: return std::make_unique<LoopGemm<Eigen::bfloat16>>(sizes, std::move(batch));
    case DataType::kInt32: return std::make_unique<LoopGemm<int32_t>>(sizes, std::move(batch));
    case DataType::kInt64: return std::make_unique<LoopGemm<int64_t>>(sizes, std::move(batch));
    default: return UnsupportedType(instance, dtype);
  }
}

}  // namespace millrace::cpu
