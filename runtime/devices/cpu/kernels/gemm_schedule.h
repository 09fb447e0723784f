// How products are cut into work units that run side by side: by sizes alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_SCHEDULE_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_SCHEDULE_H_

#include <algorithm>
#include <vector>

#include "cpu/kernels/common.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/shards.h"
#include "millrace/status.h"

namespace millrace::cpu {

// Rows and columns [row, row + rows) x [column, column + columns) of a product.
struct GemmTile {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

// Work units, one per product and tile, in equal shards. Products are cut along their longer side, at multiples of
// 16 rows or `column_unit` columns, only when there are too few of them.
class GemmSchedule {
 public:
  // A shard should have `flops_per_shard` of work.
  GemmSchedule(const GemmSizes& sizes, int64_t products, double flops_per_shard, int64_t column_unit = 64) {
    const double flops = sizes.flops() * static_cast<double>(products);
    const auto wanted = static_cast<int64_t>(std::clamp(flops / flops_per_shard, 1.0, static_cast<double>(kMaxShards)));
    const bool by_rows = sizes.m >= sizes.n;
    const int64_t length = by_rows ? sizes.m : sizes.n, unit = by_rows ? 16 : column_unit;
    const int64_t lengths = (length + unit - 1) / unit;
    const int64_t parts = std::clamp<int64_t>((wanted + products - 1) / products, 1, lengths);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = lengths * i / parts * unit, end = std::min(lengths * (i + 1) / parts * unit, length);
      tiles_.push_back(by_rows ? GemmTile{begin, 0, end - begin, sizes.n} : GemmTile{0, begin, sizes.m, end - begin});
    }
    units_ = products * parts;
    shards_ = std::min(wanted, units_);
  }

  const std::vector<GemmTile>& tiles() const { return tiles_; }
  int64_t shards() const { return shards_; }

  // Calls fn(shard, product, index of the tile) -> absl::Status for all units; a shard's units one after another.
  template <typename Fn>
  absl::Status ForUnits(const KernelContext& context, Fn&& fn) const {
    const auto tiles = static_cast<int64_t>(tiles_.size());
    return RunShards(context, shards_, [&](int64_t shard) {
      const int64_t end = units_ * (shard + 1) / shards_;
      for (int64_t unit = units_ * shard / shards_; unit < end; ++unit) {
        MR_RETURN_IF_ERROR(fn(shard, unit / tiles, unit % tiles));
      }
      return absl::OkStatus();
    });
  }

 private:
  std::vector<GemmTile> tiles_;
  int64_t units_ = 0, shards_ = 0;
};

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GEMM_SCHEDULE_H_
