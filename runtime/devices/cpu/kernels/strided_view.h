// Tensors seen along labels with a stride each: what Einsum and other products of any layout are made of.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_STRIDED_VIEW_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_STRIDED_VIEW_H_

#include <optional>
#include <vector>

#include "cpu/kernels/common.h"

namespace millrace::cpu {

// A loop over `size` elements, `from` and `to` elements apart in two tensors.
struct StridedLoop {
  int64_t size = 1, from = 0, to = 0;
};

// to[...] = the sum over `summed` of from[...], for all of `kept`. 16-bit floats are summed in float.
struct StridedSum {
  std::vector<StridedLoop> kept, summed;

  template <typename T>
  void Run(const KernelContext& context, const T* from, T* to) const;
};

// Offset of every combination of the loops, the last loop fastest.
inline std::vector<StridedLoop> OffsetsOf(const std::vector<StridedLoop>& loops) {
  std::vector<StridedLoop> offsets(1);
  for (const StridedLoop& loop : loops) {
    std::vector<StridedLoop> longer;
    longer.reserve(offsets.size() * loop.size);
    for (const StridedLoop& offset : offsets) {
      for (int64_t i = 0; i < loop.size; ++i) longer.push_back({1, offset.from + i * loop.from, offset.to + i * loop.to});
    }
    offsets = std::move(longer);
  }
  return offsets;
}

namespace internal {

template <typename T>
using StridedSumType = std::conditional_t<sizeof(T) == 2, float, T>;

template <typename T>
StridedSumType<T> SumOver(const StridedLoop* loops, size_t count, const T* from) {
  if (count == 0) return static_cast<StridedSumType<T>>(*from);
  StridedSumType<T> sum = 0;
  for (int64_t i = 0; i < loops->size; ++i) sum += SumOver(loops + 1, count - 1, from + i * loops->from);
  return sum;
}

}  // namespace internal

template <typename T>
void StridedSum::Run(const KernelContext& context, const T* from, T* to) const {
  const StridedLoop inner = kept.empty() ? StridedLoop() : kept.back();
  int64_t outer = 1, terms = 1;
  for (size_t i = 0; i + 1 < kept.size(); ++i) outer *= kept[i].size;
  for (const StridedLoop& loop : summed) terms *= loop.size;
  if (outer * inner.size == 0) return;
  ParallelRange(context, outer, kElementGrain / std::max<int64_t>(inner.size * terms, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const T* source = from;
      T* target = to;
      int64_t rest = index;
      for (size_t i = kept.size() < 2 ? 0 : kept.size() - 1; i-- > 0;) {
        source += rest % kept[i].size * kept[i].from;
        target += rest % kept[i].size * kept[i].to;
        rest /= kept[i].size;
      }
      if (summed.empty()) {
        for (int64_t i = 0; i < inner.size; ++i) target[i * inner.to] = source[i * inner.from];
      } else {
        for (int64_t i = 0; i < inner.size; ++i) {
          target[i * inner.to] = static_cast<T>(internal::SumOver(summed.data(), summed.size(), source + i * inner.from));
        }
      }
    }
  });
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_STRIDED_VIEW_H_
