// Combines rows of updates into rows of an output, in a fixed order: scatter and unsorted segment reductions.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SCATTER_ROWS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SCATTER_ROWS_H_

#include <cmath>

#include "cpu/kernels/complex.h"

namespace millrace::cpu {

// kMaxOrLater and kMinOrLater take the later one of two that do not compare: a NaN alone stays. kMaxOrNan and kMinOrNan take a NaN.
enum class Combine { kAssign, kAdd, kSub, kMul, kMax, kMin, kMaxOrLater, kMinOrLater, kMaxOrNan, kMinOrNan };

template <typename T, Combine kCombine>
inline T CombineOne(T a, T b) {
  if constexpr (kCombine == Combine::kAdd) return static_cast<T>(a + b);
  if constexpr (kCombine == Combine::kSub) return static_cast<T>(a - b);
  if constexpr (kCombine == Combine::kMul) return Product(a, b);
  if constexpr (kCombine == Combine::kMax) return a < b ? b : a;
  if constexpr (kCombine == Combine::kMin) return b < a ? b : a;
  if constexpr (kCombine == Combine::kMaxOrLater) return a > b ? a : b;
  if constexpr (kCombine == Combine::kMinOrLater) return a < b ? a : b;
  if constexpr (kCombine == Combine::kMaxOrNan) return a < b || b != b ? b : a;
  if constexpr (kCombine == Combine::kMinOrNan) return b < a || b != b ? b : a;
  return b;
}

// Of a row, so that a shard's work is more than its looking at the targets of the others, and bytes of an output that the cache holds: of
// larger ones a shard waits for memory, whatever it looks at.
inline constexpr int64_t kColumnsPerShard = 16, kNearBytes = int64_t{1} << 20;

// out[targets[r]] = combine(out[targets[r]], updates[r]) for r = 0 … rows-1, rows of `width` elements; a negative
// target skips the row. Every output element sees its updates in order of r: shards own columns or output rows. Every shard
// looks at all targets, so there are few shards where rows are narrow.
template <typename T, Combine kCombine>
void ScatterRowsAs(const KernelContext& context, const int64_t* targets, int64_t rows, int64_t width,
                   const T* updates, T* out, int64_t out_rows) {
  const int64_t per_shard = out_rows * width * static_cast<int64_t>(sizeof(T)) > kNearBytes ? 1 : kColumnsPerShard;
  const int64_t shards = NumShards(rows * width, kElementGrain, std::clamp<int64_t>(width / per_shard, 1, kMaxShards));
  const bool by_columns = width >= 64 * shards;
  auto run = [&](int64_t shard) {
    const int64_t first = by_columns ? width * shard / shards : 0;
    const int64_t last = by_columns ? width * (shard + 1) / shards : width;
    const int64_t low = by_columns ? 0 : out_rows * shard / shards;
    const int64_t high = by_columns ? out_rows : out_rows * (shard + 1) / shards;
    if (width == 1) {
      for (int64_t r = 0; r < rows; ++r) {
        if (targets[r] >= 0 && targets[r] < out_rows) out[targets[r]] = CombineOne<T, kCombine>(out[targets[r]], updates[r]);
      }
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (targets[r] < low || targets[r] >= high) continue;
      T* to = out + targets[r] * width;
      const T* from = updates + r * width;
      for (int64_t c = first; c < last; ++c) to[c] = CombineOne<T, kCombine>(to[c], from[c]);
    }
  };
  if (shards == 1) {
    run(0);
  } else {
    context.parallel->For(shards, run);
  }
}

template <typename T>
void ScatterRows(const KernelContext& context, Combine combine, const int64_t* targets, int64_t rows, int64_t width,
                 const T* updates, T* out, int64_t out_rows) {
  auto run = [&]<Combine kCombine>() {
    ScatterRowsAs<T, kCombine>(context, targets, rows, width, updates, out, out_rows);
  };
  switch (combine) {
    case Combine::kAssign: return run.template operator()<Combine::kAssign>();
    case Combine::kAdd: return run.template operator()<Combine::kAdd>();
    case Combine::kSub: return run.template operator()<Combine::kSub>();
    case Combine::kMul: return run.template operator()<Combine::kMul>();
    case Combine::kMax: return run.template operator()<Combine::kMax>();
    case Combine::kMin: return run.template operator()<Combine::kMin>();
    case Combine::kMaxOrLater: return run.template operator()<Combine::kMaxOrLater>();
    case Combine::kMinOrLater: return run.template operator()<Combine::kMinOrLater>();
    case Combine::kMaxOrNan: return run.template operator()<Combine::kMaxOrNan>();
    case Combine::kMinOrNan: return run.template operator()<Combine::kMinOrNan>();
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SCATTER_ROWS_H_
