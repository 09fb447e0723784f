// Stable sorting in linear time: planning sorts the same lists by other keys again and again.
#ifndef MILLRACE_PASSES_ACCESS_RADIX_SORT_H_
#define MILLRACE_PASSES_ACCESS_RADIX_SORT_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

namespace millrace {

// An index with the key that it is sorted by.
struct Keyed {
  uint64_t key = 0;
  int32_t index = 0;
};

// In the order of the numbers; not for NaN.
inline uint64_t KeyOf(double number) {
  const uint64_t bits = std::bit_cast<uint64_t>(number + 0.0);  // one zero
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

// By `first`, then by `second`.
inline uint64_t KeyOf(int32_t first, int32_t second) {
  constexpr uint32_t kSign = uint32_t{1} << 31;
  return uint64_t{static_cast<uint32_t>(first) ^ kSign} << 32 | (static_cast<uint32_t>(second) ^ kSign);
}

// Numbers below n in the order of this key fill the interval evenly, however few of them are taken.
inline uint32_t BitsReversed(uint32_t number) {
  uint32_t reversed = 0;
  for (int bit = 0; bit < 31; ++bit) reversed |= (number >> bit & 1) << (30 - bit);
  return reversed;
}

// By digits of so many bits, the lowest first.
template <int kBits>
void SortByDigits(std::vector<Keyed>& items) {
  constexpr int kDigits = (64 + kBits - 1) / kBits;
  constexpr size_t kValues = size_t{1} << kBits;
  const auto digit = [](const Keyed& item, int d) { return item.key >> (kBits * d) & (kValues - 1); };
  std::vector<std::array<uint32_t, kValues>> begin(kDigits);
  for (const Keyed& item : items) {
    for (int d = 0; d < kDigits; ++d) ++begin[d][digit(item, d)];
  }
  std::vector<Keyed> other(items.size());
  for (int d = 0; d < kDigits; ++d) {
    if (begin[d][digit(items[0], d)] == items.size()) continue;  // all the same
    uint32_t next = 0;
    for (uint32_t& count : begin[d]) {
      const uint32_t first = next;
      next += count;
      count = first;
    }
    for (const Keyed& item : items) other[begin[d][digit(item, d)]++] = item;
    items.swap(other);
  }
}

// By key, equal ones in the order they have.
inline void SortByKey(std::vector<Keyed>& items) {
  constexpr size_t kFew = 128, kMany = 1 << 15;  // from which on fewer digits are worth more counts
  if (items.size() < kFew) {
    std::stable_sort(items.begin(), items.end(), [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
  } else if (items.size() < kMany) {
    SortByDigits<8>(items);
  } else {
    SortByDigits<13>(items);
  }
}

// The numbers below `count` by their key, which is below `limit`, equal ones in their own order. Those whose key is negative are
// left out.
template <typename KeyOfNumber>
std::vector<int32_t> OrderByCounting(int32_t count, int64_t limit, KeyOfNumber&& key) {
  std::vector<int32_t> begin(limit + 1, 0);
  for (int32_t i = 0; i < count; ++i) {
    if (const int64_t k = key(i); k >= 0) ++begin[k + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int32_t> order(begin.back());
  for (int32_t i = 0; i < count; ++i) {
    if (const int64_t k = key(i); k >= 0) order[begin[k]++] = i;
  }
  return order;
}

}  // namespace millrace

#endif  // MILLRACE_PASSES_ACCESS_RADIX_SORT_H_
