// Each element of the result is one thread's, which combines its rows in their order, several of them on their way. Of a long segment
// a block brings the rows, and of its threads one for each column combines them.
#include "cuda/launch/segment.h"

#include <limits>
#include <type_traits>

#include "cuda/launch/crew.h"
#include "cuda/launch/pack.h"
#include "cuda/launch/portable.h"
#include "cuda/launch/sort.h"

namespace millrace::cuda {
namespace {

// Numbers that a launch takes along as its arguments, which are 4 KiB at most.
struct PutBody {
  static constexpr int64_t kMost = 960;
  int32_t values[kMost];
  int32_t* to;
  MR_DEVICE void operator()(int64_t i) const { to[i] = values[i]; }
};

struct BeginsBody {
  Queue queue;
  RowIndex index;
  bool checks;
  const void* ids;
  int32_t* begins;
  // Where the ids rise, the first and the last one tell whether all are in range.
  MR_DEVICE void Check(int64_t i) const {
    const int64_t id = NumberAt(index, ids, i), before = i == 0 ? id : NumberAt(index, ids, i - 1), limit = index.dims[0];
    if (id < before) {
      Report(queue, FaultCode::kNotSorted, index.input, id, before, i);
    } else if ((i == 0 && id < 0) || (i + 1 == index.count && id >= limit)) {
      ReportIndex(queue, index.input, i, id, limit);
    }
  }
  MR_DEVICE void operator()(int64_t i) const {
    if (checks && i < index.count) Check(i);
    if (i > index.dims[0]) return;
    int64_t low = 0, high = index.count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      NumberAt(index, ids, middle) < i ? low = middle + 1 : high = middle;
    }
    begins[i] = static_cast<int32_t>(low);
  }
};

struct CheckBody {
  Queue queue;
  RowIndex index;
  Divider depth;
  const void* indices;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t number = NumberAt(index, indices, i), limit = index.dims[i - depth(i) * depth.by];
    if (number < 0 || number >= limit) ReportIndex(queue, index.input, i, number, limit);
  }
};

// The next of two.
struct TimesNext {
  template <typename W>
  MR_DEVICE W operator()(W a, W b) const { return static_cast<W>(a * b); }
};
struct LargerNext {
  template <typename W>
  MR_DEVICE W operator()(W a, W b) const { return a < b ? b : a; }
};
struct SmallerNext {
  template <typename W>
  MR_DEVICE W operator()(W a, W b) const { return b < a ? b : a; }
};
struct LargerOrLaterNext {
  template <typename W>
  MR_DEVICE W operator()(W a, W b) const { return a > b ? a : b; }
};
struct SmallerOrLaterNext {
  template <typename W>
  MR_DEVICE W operator()(W a, W b) const { return a < b ? a : b; }
};
struct PlusNext {
  template <typename W>
  MR_DEVICE W operator()(W a, W b) const { return static_cast<W>(a + b); }
};

// What is combined, and how.
template <typename T>
struct SegmentRule {
  using W = typename Wide<T>::type;
  static constexpr int64_t kLong = 256;  // items of a segment that is not long, at most
  SegmentOp op;
  W none;  // of a segment without rows
  SegmentItems items;
  MR_DEVICE bool TakesFirst() const { return op < SegmentOp::kMaxOrLater; }
  MR_DEVICE int64_t ItemAt(int64_t k) const { return items.order == nullptr ? k : items.order[k]; }
  MR_DEVICE int64_t RowOfItem(int64_t item) const {
    if (items.numbers == nullptr) return item;
    const int64_t at = item * items.step + items.offset;
    return IndexAt(items.numbers, items.wide, at);
  }
  MR_DEVICE bool Weighs() const { return items.values != nullptr || items.scales != nullptr; }
  MR_DEVICE W Weight(int64_t item, int64_t row) const {
    if (items.values != nullptr) return Widen(static_cast<const T*>(items.values)[item]);
    return items.scales != nullptr ? static_cast<const W*>(items.scales)[row] : W(1);
  }
  // As it is where nothing weighs it: a product would change the bits of NaN.
  MR_DEVICE W Weighed(T element, W weight) const { return Weighs() ? static_cast<W>(Widen(element) * weight) : Widen(element); }
  // fn of what combines two: where a long chain waits for each, the op is not to be looked at for each.
  template <typename Fn>
  MR_DEVICE W WithNext(const Fn& fn) const {
    switch (op) {
      case SegmentOp::kProd: return fn(TimesNext());
      case SegmentOp::kMax: return fn(LargerNext());
      case SegmentOp::kMin: return fn(SmallerNext());
      case SegmentOp::kMaxOrLater: return fn(LargerOrLaterNext());
      case SegmentOp::kMinOrLater: return fn(SmallerOrLaterNext());
      default: return fn(PlusNext());
    }
  }
  MR_DEVICE W Next(W a, W b) const {
    return WithNext([&](const auto& next) { return next(a, b); });
  }
  // Of a segment of `count` items.
  MR_DEVICE T Result(W value, int64_t count) const {
    if (count > 0 && (op == SegmentOp::kMean || op == SegmentOp::kSqrtN)) {
      const auto number = static_cast<double>(count);
      value = static_cast<W>(value / static_cast<W>(op == SegmentOp::kMean ? number : sqrt(number)));
    }
    return Wide<T>::Narrow(value);
  }
};

// A segment by a thread for each kPack elements of the row.
template <typename T, int kPack>
struct SegmentBody {
  using W = typename Wide<T>::type;
  static constexpr int kAtOnce = kPack > 1 ? 4 : 8;
  SegmentRule<T> rule;
  Divider packs;  // of a row
  const T* data;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t segment = packs(i), pack = i - segment * packs.by;
    const int64_t begin = rule.items.begins[segment], end = rule.items.begins[segment + 1];
    if (end - begin > rule.kLong) return;
    W value[kPack];
    for (int j = 0; j < kPack; ++j) value[j] = rule.none;
    for (int64_t k = begin; k < end; k += kAtOnce) {
      Pack<T, kPack> loaded[kAtOnce];
      W weights[kAtOnce];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        const int64_t item = rule.ItemAt(k + u < end ? k + u : end - 1), row = rule.RowOfItem(item);
        weights[u] = rule.Weight(item, row);
        loaded[u] = Load<kPack>(data + (row * packs.by + pack) * kPack);
      }
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        const bool first = k + u == begin && rule.TakesFirst();
        for (int j = 0; j < kPack && k + u < end; ++j) {
          const W term = rule.Weighed(loaded[u].of[j], weights[u]);
          value[j] = first ? term : rule.Next(value[j], term);
        }
      }
    }
    Pack<T, kPack> result;
    for (int j = 0; j < kPack; ++j) result.of[j] = rule.Result(value[j], end - begin);
    Store(out + i * kPack, result);
  }
};

// The long segment, if any, that begins among kLong items of the order, kColumns columns of it: no two do, and it goes on behind them.
template <typename T>
struct LongSegmentTask {
  using W = typename Wide<T>::type;
  static constexpr int kColumns = 16, kTerms = 4096;
  struct Shared {
    int64_t segment;  // -1: none
    W values[kColumns], terms[kTerms];
  };
  SegmentRule<T> rule;
  int64_t inner, tiles;
  const T* data;
  T* out;
  int64_t tasks() const { return rule.items.count / rule.kLong * tiles; }

  MR_DEVICE int64_t SegmentOf(int64_t window) const {
    const int64_t behind = (window + 1) * rule.kLong;
    int64_t low = 0, high = rule.items.segments + 1;  // the first that does not begin before this item
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      rule.items.begins[middle] < behind ? low = middle + 1 : high = middle;
    }
    const int64_t segment = low - 1;
    if (segment == rule.items.segments) return -1;
    const int64_t begin = rule.items.begins[segment], end = rule.items.begins[segment + 1];
    return begin >= window * rule.kLong && end - begin > rule.kLong ? segment : -1;
  }
  // terms[k * columns + column] of `there` items from item `base` of the order on.
  template <typename Crew>
  MR_DEVICE void Bring(const Crew& crew, int64_t base, int there, int64_t left, int columns, W* terms) const {
    constexpr int kAtOnce = 8;
    const int all = there * columns;
    MR_NO_UNROLL for (int i = crew.rank(); i < all; i += kAtOnce * crew.size()) {
      W loaded[kAtOnce];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        const int e = i + u * crew.size() < all ? i + u * crew.size() : all - 1, k = e / columns;
        const int64_t item = rule.ItemAt(base + k), row = rule.RowOfItem(item);
        loaded[u] = rule.Weighed(data[row * inner + left + e - k * columns], rule.Weight(item, row));
      }
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        if (i + u * crew.size() < all) terms[i + u * crew.size()] = loaded[u];
      }
    }
  }
  // Terms are loaded while those before them are combined.
  template <typename Next>
  MR_DEVICE static W AddUp(W value, const W* terms, int there, int columns, const Next& next) {
    constexpr int kAtOnce = 8;
    const int whole = there - there % kAtOnce;
    W ahead[kAtOnce] = {};
    MR_UNROLL for (int u = 0; u < kAtOnce && whole > 0; ++u) ahead[u] = terms[u * columns];
    int k = 0;
    MR_NO_UNROLL for (; k < whole; k += kAtOnce) {
      const int from = k + kAtOnce < whole ? k + kAtOnce : k;
      W loaded[kAtOnce];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        loaded[u] = ahead[u];
        ahead[u] = terms[(from + u) * columns];
      }
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) value = next(value, loaded[u]);
    }
    for (; k < there; ++k) value = next(value, terms[k * columns]);
    return value;
  }
  template <typename Crew>
  MR_DEVICE void Combine(const Crew& crew, int64_t segment, int64_t left, Shared& shared) const {
    const int64_t begin = rule.items.begins[segment], end = rule.items.begins[segment + 1];
    const int columns = static_cast<int>(inner - left < kColumns ? inner - left : kColumns), brought = kTerms / columns;
    for (int64_t base = begin; base < end; base += brought) {
      const int there = static_cast<int>(end - base < brought ? end - base : brought);
      Bring(crew, base, there, left, columns, shared.terms);
      crew.Sync();
      for (int column = crew.rank(); column < columns; column += crew.size()) {
        const bool first = base == begin && rule.TakesFirst();
        const W before = first ? shared.terms[column] : base == begin ? rule.none : shared.values[column];
        const int from = first ? 1 : 0;
        const W* const terms = shared.terms + from * columns + column;
        shared.values[column] = rule.WithNext([&](const auto& next) { return AddUp(before, terms, there - from, columns, next); });
      }
      crew.Sync();
    }
    for (int column = crew.rank(); column < columns; column += crew.size()) {
      out[segment * inner + left + column] = rule.Result(shared.values[column], end - begin);
    }
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int64_t window = task / tiles, left = (task - window * tiles) * kColumns;
    if (crew.rank() == 0) shared.segment = SegmentOf(window);
    crew.Sync();
    const int64_t segment = shared.segment;
    if (segment >= 0) Combine(crew, segment, left, shared);
    crew.Sync();
  }
};

// The largest number that is not infinite.
template <typename T>
auto Largest() {
  if constexpr (std::is_same_v<T, Half>) return Widen(Half{0x7bff});
  else if constexpr (std::is_same_v<T, Bfloat16>) return Widen(Bfloat16{0x7f7f});
  else return std::numeric_limits<T>::max();
}

template <typename T>
typename Wide<T>::type NoneOf(SegmentOp op) {
  using W = typename Wide<T>::type;
  switch (op) {
    case SegmentOp::kProd: return W(1);
    case SegmentOp::kMaxOrLater: return std::numeric_limits<W>::is_integer ? std::numeric_limits<W>::lowest() : static_cast<W>(-Largest<T>());
    case SegmentOp::kMinOrLater: return Largest<T>();
    default: return W(0);
  }
}

template <typename T>
void Reduce(const Queue& queue, SegmentOp op, const SegmentItems& items, int64_t inner, const T* data, T* out) {
  const SegmentRule<T> rule = {op, NoneOf<T>(op), items};
  const auto launch = [&]<int kPack>(Tag<Pack<T, kPack>>) {
    const int64_t packs = inner / kPack, all = items.segments * packs;
    ForEach(queue, all, SegmentBody<T, kPack>{rule, DivideBy(packs, all), data, out});
  };
  // Elements are loaded together where enough threads are left to keep the device busy.
  constexpr int kMost = sizeof(T) > 4 ? 2 : 4;
  const bool many = items.segments * inner >= kMaxBlocks * kThreads;
  const bool together = many && inner % kMost == 0 && WidestRows(sizeof(T), inner, data, out) >= static_cast<int>(kMost * sizeof(T));
  together ? launch(Tag<Pack<T, kMost>>()) : launch(Tag<Pack<T, 1>>());
  const LongSegmentTask<T> task = {rule, inner, CeilDiv(inner, LongSegmentTask<T>::kColumns), data, out};
  ForEachTask(queue, task.tasks(), task);
}

}  // namespace

void LaunchPutBegins(const Queue& queue, const int32_t* values, int64_t n, int32_t* begins) {
  for (int64_t first = 0; first < n; first += PutBody::kMost) {
    const int64_t part = n - first < PutBody::kMost ? n - first : PutBody::kMost;
    PutBody body = {};
    memcpy(body.values, values + first, static_cast<size_t>(part) * sizeof(int32_t));
    body.to = begins + first;
    ForEach(queue, part, body);
  }
}

void LaunchBegins(const Queue& queue, const RowIndex& index, bool checks, const void* ids, int32_t* begins) {
  const int64_t places = index.dims[0] + 1;
  ForEach(queue, checks && index.count > places ? index.count : places, BeginsBody{queue, index, checks, ids, begins});
}

void LaunchCheckIndices(const Queue& queue, const RowIndex& index, const void* indices) {
  const int64_t n = index.count * index.depth;
  ForEach(queue, n, CheckBody{queue, index, DivideBy(index.depth, n), indices});
}

void LaunchSegments(const Queue& queue, SegmentOp op, Type type, const SegmentItems& items, int64_t inner, const void* data, void* out) {
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Reduce(queue, op, items, inner, static_cast<const T*>(data), static_cast<T*>(out));
  });
}

int64_t SortedItemsScratchBytes(int64_t count, int64_t segments) {
  return ScatterScratchBytes(count, segments) + (segments + 1) * static_cast<int64_t>(sizeof(int32_t));
}

SegmentItems SortItems(const Queue& queue, const RowIndex& index, int64_t segments, const void* ids, void* scratch) {
  SortedRows sorted;
  if (index.count > 0) sorted = SortRows(queue, index, segments, ids, scratch);
  auto* begins = reinterpret_cast<int32_t*>(static_cast<char*>(scratch) + ScatterScratchBytes(index.count, segments));
  RowIndex of_sorted;
  of_sorted.count = index.count;
  of_sorted.dims[0] = segments;
  LaunchBegins(queue, of_sorted, /*checks=*/false, sorted.rows, begins);
  SegmentItems items;
  items.count = index.count;
  items.segments = segments;
  items.begins = begins;
  items.order = sorted.items;
  return items;
}

}  // namespace millrace::cuda
