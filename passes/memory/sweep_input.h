// SweepInput: what the packings in time of the same blocks have in common (pack_in_time.h).
#ifndef MILLRACE_PASSES_MEMORY_SWEEP_INPUT_H_
#define MILLRACE_PASSES_MEMORY_SWEEP_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "passes/memory/pack_in_time.h"

namespace millrace {

// A stable sort that allocates nothing for a few.
template <typename Iterator, typename Less>
void SortFew(Iterator begin, Iterator end, const Less& less) {
  constexpr std::ptrdiff_t kFew = 16;
  if (end - begin > kFew) return std::stable_sort(begin, end, less);
  for (Iterator i = begin; i < end; ++i) {
    const auto value = *i;
    Iterator at = i;
    for (; at != begin && less(value, *std::prev(at)); --at) *at = *std::prev(at);
    *at = value;
  }
}

// Indices by slot.
class BySlot {
 public:
  template <typename Key>  // slot of a block, -1 for those left out
  BySlot(int32_t slots, size_t blocks, Key&& key) : begin_(slots + 1, 0) {
    for (size_t b = 0; b < blocks; ++b) {
      if (key(b) >= 0) ++begin_[key(b) + 1];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    indices_.resize(begin_.back());
    std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
    for (size_t b = 0; b < blocks; ++b) {
      if (key(b) >= 0) indices_[next[key(b)]++] = static_cast<int32_t>(b);
    }
  }
  absl::Span<const int32_t> of(int32_t slot) const {
    return absl::MakeConstSpan(indices_).subspan(begin_[slot], begin_[slot + 1] - begin_[slot]);
  }

 private:
  std::vector<int32_t> begin_, indices_;
};

struct SweepInput {
  SweepInput(const std::vector<LateBlock>& late_blocks, const std::vector<PinnedPair>& pinned_pairs, int64_t address_alignment);

  bool IsLate(size_t b) const { return blocks[b].latest > blocks[b].first; }

  const std::vector<LateBlock>& blocks;
  const std::vector<PinnedPair>& pinned;
  const int64_t alignment;
  const int32_t slots;
  const std::vector<int64_t> sizes;
  const BySlot begins, needed, ends;
  const BySlot leaving;  // by the first slot at which only a copy keeps it
};

}  // namespace millrace

#endif  // MILLRACE_PASSES_MEMORY_SWEEP_INPUT_H_
