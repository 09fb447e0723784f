#include "cuda/launch/sort.h"

#include "cuda/launch/crew.h"

namespace millrace::cuda {
namespace {

// Sorting: digits of four bits, least significant first. A thread takes a chunk of the items in order, so that each
// pass keeps the order of equal digits.
inline constexpr int64_t kSortChunk = 32;
inline constexpr int kDigitBits = 4, kDigits = 1 << kDigitBits;

struct KeyBody {
  Queue queue;
  RowIndex index;
  const void* indices;
  int32_t* keys;
  int32_t* items;
  int32_t skipped;  // comes after all rows
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t row = RowOf(queue, index, indices, i);
    keys[i] = row < 0 ? skipped : static_cast<int32_t>(row);
    items[i] = static_cast<int32_t>(i);
  }
};

// Short lists in one launch: an item's place is the number of those below it, row and place together, which are all
// different. A task places kItems; its crew counts in kParts of the list.
struct ShortSort {
  static constexpr int64_t kMost = kMostSortedAtOnce;
  static constexpr int kItems = 32, kParts = 8;
  struct Shared {
    uint64_t list[kMost];
    int32_t below[kParts][kItems];
  };
  Queue queue;
  RowIndex index;
  const void* indices;
  int64_t n;
  int32_t* keys;
  int32_t* items;
  int32_t skipped;
  int64_t tasks() const { return CeilDiv(n, kItems); }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int count = static_cast<int>(n), first = static_cast<int>(task) * kItems, part = (count + kParts - 1) / kParts;
    for (int i = crew.rank(); i < count; i += crew.size()) {
      const int64_t row = RowOf(queue, index, indices, i);
      shared.list[i] = static_cast<uint64_t>(row < 0 ? skipped : row) << 32 | static_cast<uint32_t>(i);
    }
    crew.Sync();
    for (int k = crew.rank(); k < kItems * kParts; k += crew.size()) {
      const int item = k % kItems, begin = k / kItems * part, end = begin + part < count ? begin + part : count;
      int32_t below = 0;
      if (first + item < count) {
        const uint64_t mine = shared.list[first + item];
        for (int i = begin; i < end; ++i) below += shared.list[i] < mine ? 1 : 0;
      }
      shared.below[k / kItems][item] = below;
    }
    crew.Sync();
    for (int item = crew.rank(); item < kItems && first + item < count; item += crew.size()) {
      int32_t place = 0;
      for (int p = 0; p < kParts; ++p) place += shared.below[p][item];
      keys[place] = static_cast<int32_t>(shared.list[first + item] >> 32);
      items[place] = first + item;
    }
    crew.Sync();
  }
};

// counts[digit][chunk]
struct CountBody {
  const int32_t* keys;
  int64_t n, chunks;
  int shift;
  int32_t* counts;
  MR_DEVICE void operator()(int64_t chunk) const {
    int32_t mine[kDigits] = {};
    const int64_t end = (chunk + 1) * kSortChunk < n ? (chunk + 1) * kSortChunk : n;
    for (int64_t i = chunk * kSortChunk; i < end; ++i) ++mine[keys[i] >> shift & (kDigits - 1)];
    for (int d = 0; d < kDigits; ++d) counts[d * chunks + chunk] = mine[d];
  }
};

struct PlaceBody {
  const int32_t* keys;
  const int32_t* items;
  int64_t n, chunks;
  int shift;
  const int32_t* places;
  int32_t* sorted_keys;
  int32_t* sorted_items;
  MR_DEVICE void operator()(int64_t chunk) const {
    int32_t next[kDigits];
    for (int d = 0; d < kDigits; ++d) next[d] = places[d * chunks + chunk];
    const int64_t end = (chunk + 1) * kSortChunk < n ? (chunk + 1) * kSortChunk : n;
    for (int64_t i = chunk * kSortChunk; i < end; ++i) {
      const int32_t at = next[keys[i] >> shift & (kDigits - 1)]++;
      sorted_keys[at] = keys[i];
      sorted_items[at] = items[i];
    }
  }
};

// Exclusive prefix sums, in chunks whose totals are summed the same way.
inline constexpr int64_t kPrefixChunk = 64;
struct PrefixTotalBody {
  const int32_t* values;
  int64_t n;
  MR_DEVICE int32_t operator()(int64_t chunk) const {
    const int64_t end = (chunk + 1) * kPrefixChunk < n ? (chunk + 1) * kPrefixChunk : n;
    int32_t total = 0;
    for (int64_t i = chunk * kPrefixChunk; i < end; ++i) total += values[i];
    return total;
  }
};
struct PrefixBody {
  int32_t* values;
  int64_t n;
  const int32_t* before;  // of chunks; nullptr: one chunk
  MR_DEVICE void operator()(int64_t chunk) const {
    const int64_t end = (chunk + 1) * kPrefixChunk < n ? (chunk + 1) * kPrefixChunk : n;
    int32_t total = before == nullptr ? 0 : before[chunk];
    for (int64_t i = chunk * kPrefixChunk; i < end; ++i) {
      const int32_t value = values[i];
      values[i] = total;
      total += value;
    }
  }
};

int64_t PrefixScratch(int64_t n) {
  int64_t elements = 0;
  while (n > kPrefixChunk) elements += n = CeilDiv(n, kPrefixChunk);
  return elements;
}

void Prefix(const Queue& queue, int32_t* values, int64_t n, int32_t* scratch) {
  const int64_t chunks = CeilDiv(n, kPrefixChunk);
  if (chunks <= 1) return ForEach(queue, 1, PrefixBody{values, n, nullptr});
  MapEach(queue, chunks, scratch, PrefixTotalBody{values, n});
  Prefix(queue, scratch, chunks, scratch + chunks);
  ForEach(queue, chunks, PrefixBody{values, n, scratch});
}

struct SortScratch {
  int32_t *keys[2], *items[2], *counts, *prefix;
};
SortScratch Place(void* scratch, int64_t n) {
  int32_t* at = static_cast<int32_t*>(scratch);
  SortScratch s;
  for (int i = 0; i < 2; ++i) {
    s.keys[i] = at;
    s.items[i] = at + n;
    at += 2 * n;
  }
  s.counts = at;
  s.prefix = at + kDigits * CeilDiv(n, kSortChunk);
  return s;
}

}  // namespace

int64_t ScatterScratchBytes(int64_t count, int64_t rows) {
  static_cast<void>(rows);
  const int64_t counts = kDigits * CeilDiv(count, kSortChunk);
  return (4 * count + counts + PrefixScratch(counts)) * static_cast<int64_t>(sizeof(int32_t));
}

SortedRows SortRows(const Queue& queue, const RowIndex& index, int64_t rows, const void* indices, void* scratch) {
  const int64_t n = index.count, chunks = CeilDiv(n, kSortChunk);
  SortScratch s = Place(scratch, n);
  const int32_t skipped = static_cast<int32_t>(rows);
  if (n <= ShortSort::kMost) {
    const ShortSort sort = {queue, index, indices, n, s.keys[0], s.items[0], skipped};
    ForEachTask(queue, sort.tasks(), sort);
    return {s.keys[0], s.items[0], skipped};
  }
  ForEach(queue, n, KeyBody{queue, index, indices, s.keys[0], s.items[0], skipped});
  int from = 0;
  for (int shift = 0; shift < 31 && rows >> shift > 0; shift += kDigitBits) {
    ForEach(queue, chunks, CountBody{s.keys[from], n, chunks, shift, s.counts});
    Prefix(queue, s.counts, kDigits * chunks, s.prefix);
    ForEach(queue, chunks, PlaceBody{s.keys[from], s.items[from], n, chunks, shift, s.counts, s.keys[1 - from], s.items[1 - from]});
    from = 1 - from;
  }
  return {s.keys[from], s.items[from], skipped};
}

}  // namespace millrace::cuda
