#include "passes/memory/sweep_input.h"

#include <algorithm>
#include <map>

#include "millrace/types.h"

namespace millrace {
namespace {

// Sizes that hold this part of all bytes times slots are popular.
constexpr double kPopular = 0.002;

int32_t SlotsOf(const std::vector<LateBlock>& blocks) {
  int32_t slots = 1;
  for (const LateBlock& block : blocks) slots = std::max(slots, block.last + 1);
  return slots;
}

// Tensors are aligned, so one of twice the elements may be a little less than two aligned ones: its hole would hold only
// one of them. Such sizes become whole multiples of popular ones.
std::vector<int64_t> MatchedSizes(const std::vector<LateBlock>& blocks, int64_t alignment) {
  std::map<int64_t, double> areas;
  double all = 0;
  for (const LateBlock& block : blocks) {
    const double area = static_cast<double>(block.bytes) * (block.last - block.first + 1);
    areas[block.bytes] += area;
    all += area;
  }
  std::map<int64_t, int64_t> matched;
  std::vector<int64_t> popular;
  for (const auto& [bytes, area] : areas) {
    int64_t& result = matched[bytes] = bytes;
    for (int64_t size : popular) {
      const int64_t times = (bytes + size - 1) / size;
      if (times * size - bytes < times * alignment) result = std::max(result, times * size);
    }
    if (area > kPopular * all) popular.push_back(result);
  }
  std::vector<int64_t> sizes;
  for (const LateBlock& block : blocks) sizes.push_back(matched.at(block.bytes));
  return sizes;
}

}  // namespace

SweepInput::SweepInput(const std::vector<LateBlock>& late_blocks, const std::vector<PinnedPair>& pinned_pairs, int64_t address_alignment)
    : blocks(late_blocks),
      pinned(pinned_pairs),
      alignment(address_alignment),
      slots(SlotsOf(blocks)),
      sizes(MatchedSizes(blocks, alignment)),
      begins(slots, blocks.size(), [&](size_t b) { return blocks[b].first; }),
      needed(slots, blocks.size(), [&](size_t b) { return IsLate(b) ? blocks[b].latest : -1; }),
      ends(slots, blocks.size(), [&](size_t b) { return blocks[b].last; }),
      leaving(slots, blocks.size(), [&](size_t b) { return blocks[b].leaves < blocks[b].last ? blocks[b].leaves + 1 : -1; }) {}

}  // namespace millrace
