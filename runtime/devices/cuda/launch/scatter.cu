// Updates of one row are brought together by a stable sort of the row numbers (sort.h) and combined in their order, element by
// element, so that sums have one order whatever runs first: a few by one thread, more by a block, which has many on their way.
#include "cuda/launch/scatter.h"

#include "cuda/launch/crew.h"
#include "cuda/launch/pack.h"
#include "cuda/launch/portable.h"
#include "cuda/launch/sort.h"

namespace millrace::cuda {
namespace {

template <typename T>
struct GatherRowsBody {
  Queue queue;
  RowIndex index;
  Divider inner;
  const T* in;
  const void* indices;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t which = inner(i), row = RowOf(queue, index, indices, which);
    if (row >= 0) out[i] = in[row * inner.by + i - which * inner.by];
  }
};

template <typename T>
MR_DEVICE T CombineOne(CombineOp op, T a, T b) {
  switch (op) {
    case CombineOp::kAdd: return static_cast<T>(a + b);
    case CombineOp::kSub: return static_cast<T>(a - b);
    case CombineOp::kMul: return static_cast<T>(a * b);
    case CombineOp::kDiv: return static_cast<T>(a / b);
    case CombineOp::kMax: return a < b ? b : a;
    case CombineOp::kMin: return b < a ? b : a;
    case CombineOp::kMaxOrNan: return a < b || b != b ? b : a;
    case CombineOp::kMinOrNan: return b < a || b != b ? b : a;
    case CombineOp::kAssign: break;
  }
  return b;
}

// Copies an element to memory that a block's threads share; the thread goes on, and finds it there after CopiesEnd.
template <typename T>
MR_DEVICE void BeginCopy(T* to, const T* from) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) >= 4) {
    const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(from), "n"(sizeof(T)) : "memory");
    return;
  }
#endif
  *to = *from;
}
MR_DEVICE inline void CopiesEnd() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Items of a row's updates that lie beside each other in the sorted order.
struct Runs {
  static constexpr int kShort = 16;  // items of a short one, at most
  int64_t n;
  SortedRows sorted;
  MR_DEVICE bool BeginsAt(int64_t k) const {
    const int32_t row = sorted.rows[k];
    return row != sorted.skipped && (k == 0 || sorted.rows[k - 1] != row);
  }
  MR_DEVICE bool IsAt(int64_t k, int32_t row) const { return k < n && sorted.rows[k] == row; }
  // The row at k, or -1 behind the last one; and its item, where it is `row`, else `otherwise`. Without branches, so that loads that
  // wait for these can be on their way together.
  MR_DEVICE int32_t RowAt(int64_t k) const {
    const int32_t row = sorted.rows[k < n ? k : n - 1];
    return k < n ? row : -1;
  }
  MR_DEVICE int32_t ItemAt(int64_t k, bool is_there, int32_t otherwise) const {
    const int32_t item = sorted.items[k < n ? k : n - 1];
    return is_there ? item : otherwise;
  }
  MR_DEVICE bool IsLong(int64_t first) const { return IsAt(first + kShort, sorted.rows[first]); }
};

// A short run by a thread for each kPack elements of the row.
template <typename T, int kPack>
struct ShortRunBody {
  CombineOp op;
  Runs runs;
  Divider packs;  // of a row
  int64_t step;   // of updates, 0 where one is for all
  const T* updates;
  T* out;
  MR_DEVICE Pack<T, kPack> Update(int32_t item, int64_t pack) const {
    return Load<kPack>(updates + (item * packs.by + pack) * step);
  }
  MR_DEVICE void Combine(const Pack<T, kPack>& update, Pack<T, kPack>& value) const {
    for (int j = 0; j < kPack; ++j) value.of[j] = Wide<T>::Narrow(CombineOne(op, Widen(value.of[j]), Widen(update.of[j])));
  }
  MR_DEVICE void operator()(int64_t i) const {
    constexpr int kAtOnce = 4;
    const int64_t first = packs(i), pack = i - first * packs.by;
    if (!runs.BeginsAt(first) || runs.IsLong(first)) return;
    const int32_t row = runs.sorted.rows[first], item = runs.sorted.items[first];
    T* const at = out + (row * packs.by + pack) * kPack;
    Pack<T, kPack> value = Load<kPack>(at), loaded[kAtOnce];
    Combine(Update(item, pack), value);
    for (int64_t k = first + 1; runs.IsAt(k, row); k += kAtOnce) {
      bool is_there[kAtOnce];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        is_there[u] = runs.RowAt(k + u) == row;
        loaded[u] = Update(runs.ItemAt(k + u, is_there[u], item), pack);
      }
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        if (is_there[u]) Combine(loaded[u], value);
      }
    }
    Store(at, value);
  }
};

// The long runs that begin in a window of the sorted order, kColumns columns of each. The crew brings updates to shared memory,
// kBrought at a time, while its first threads, one for a column, add up those that came before.
template <typename T, bool kAdds>
struct LongRunTask {
  using W = typename Wide<T>::type;
  static constexpr int kWindow = 64, kSlots = kWindow / Runs::kShort;  // no two long runs begin within a slot
  static constexpr int kColumns = 16, kBrought = sizeof(T) > 4 ? 112 : 224;
  struct Shared {
    int64_t begins[kSlots];  // -1 where none does
    T values[kColumns];
    T updates[2][kBrought * kColumns];
  };
  CombineOp op;
  Runs runs;
  int64_t inner, step, tiles;  // step: of updates, 0 where one is for all
  const T* updates;
  T* out;
  int64_t tasks() const { return CeilDiv(runs.n, kWindow) * tiles; }

  // What of the row's updates [base, base + kBrought) is there.
  template <typename Crew>
  MR_DEVICE void Bring(const Crew& crew, int64_t base, int32_t row, int64_t left, T* to) const {
    constexpr int kAll = kBrought * kColumns, kAtOnce = 7;
    MR_NO_UNROLL for (int i = crew.rank(); i < kAll; i += kAtOnce * crew.size()) {
      int64_t items[kAtOnce];
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        const int e = i + u * crew.size();
        const int64_t k = base + e / kColumns;
        items[u] = runs.ItemAt(k, e < kAll && runs.RowAt(k) == row, -1);
      }
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
        const int e = i + u * crew.size();
        const int64_t column = left + e % kColumns;
        if (items[u] >= 0 && column < inner) BeginCopy(to + e, updates + (items[u] * inner + column) * step);
      }
    }
  }
  // How many of the updates [base, base + kBrought) are the row's.
  MR_DEVICE int CountAt(int64_t base, int32_t row) const {
    if (runs.IsAt(base + kBrought - 1, row)) return kBrought;
    int low = 0, high = kBrought;
    while (low < high) {
      const int middle = (low + high) / 2;
      runs.IsAt(base + middle, row) ? low = middle + 1 : high = middle;
    }
    return low;
  }
  MR_DEVICE T Next(T value, T update) const {
    const W a = Widen(value), b = Widen(update);
    if constexpr (kAdds) return Wide<T>::Narrow(static_cast<W>(a + b));
    return Wide<T>::Narrow(CombineOne(op, a, b));
  }
  MR_DEVICE T AddUp(T value, const T* from, int count) const {
    constexpr int kTerms = 16;
    int r = 0;
    MR_NO_UNROLL for (; r + kTerms <= count; r += kTerms) {
      T terms[kTerms];
      MR_UNROLL for (int u = 0; u < kTerms; ++u) terms[u] = from[(r + u) * kColumns];
      MR_UNROLL for (int u = 0; u < kTerms; ++u) value = Next(value, terms[u]);
    }
    MR_NO_UNROLL for (; r < count; ++r) value = Next(value, from[r * kColumns]);
    return value;
  }
  template <typename Crew>
  MR_DEVICE void Combine(const Crew& crew, int64_t first, int64_t left, Shared& shared) const {
    const int32_t row = runs.sorted.rows[first];
    Bring(crew, first, row, left, shared.updates[0]);
    CopiesEnd();
    crew.Sync();
    for (int64_t base = first, half = 0; runs.IsAt(base, row); base += kBrought, half = 1 - half) {
      Bring(crew, base + kBrought, row, left, shared.updates[1 - half]);
      for (int column = crew.rank(); column < kColumns && left + column < inner; column += crew.size()) {
        T* const at = out + row * inner + left + column;
        const T before = base == first ? *at : shared.values[column];
        *at = shared.values[column] = AddUp(before, shared.updates[half] + column, CountAt(base, row));
      }
      CopiesEnd();
      crew.Sync();
    }
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int64_t window = task / tiles, begin = window * kWindow, left = (task - window * tiles) * kColumns;
    for (int slot = crew.rank(); slot < kSlots; slot += crew.size()) shared.begins[slot] = -1;
    crew.Sync();
    for (int i = crew.rank(); i < kWindow && begin + i < runs.n; i += crew.size()) {
      if (runs.BeginsAt(begin + i) && runs.IsLong(begin + i)) shared.begins[i / Runs::kShort] = begin + i;
    }
    crew.Sync();
    for (int slot = 0; slot < kSlots; ++slot) {
      if (shared.begins[slot] >= 0) Combine(crew, shared.begins[slot], left, shared);
    }
    crew.Sync();
  }
};

template <typename T>
void CombineRuns(const Queue& queue, CombineOp op, bool one_update, const Runs& runs, int64_t inner, const T* updates, T* out) {
  const auto launch_short = [&]<int kPack>(Tag<Pack<T, kPack>>) {
    const int64_t packs = inner / kPack, all = runs.n * packs;
    ForEach(queue, all, ShortRunBody<T, kPack>{op, runs, DivideBy(packs, all), one_update ? 0 : kPack, updates, out});
  };
  constexpr int kMost = sizeof(Sixteen) / sizeof(T);
  const bool together = !one_update && WidestRows(sizeof(T), inner, updates, out) == sizeof(Sixteen);
  together ? launch_short(Tag<Pack<T, kMost>>()) : launch_short(Tag<Pack<T, 1>>());
  if (runs.n <= Runs::kShort) return;
  const auto launch_long = [&](auto task) {
    task.op = op;
    task.runs = runs;
    task.inner = inner;
    task.step = one_update ? 0 : 1;
    task.tiles = CeilDiv(inner, task.kColumns);
    task.updates = updates;
    task.out = out;
    ForEachTask(queue, task.tasks(), task);
  };
  op == CombineOp::kAdd ? launch_long(LongRunTask<T, true>()) : launch_long(LongRunTask<T, false>());
}

}  // namespace

void LaunchGatherRows(const Queue& queue, int bytes, const RowIndex& index, int64_t inner, const void* in,
                      const void* indices, void* out) {
  const int wide = WidestRows(bytes, inner, in, out);
  inner /= wide / bytes;
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = index.count * inner;
    ForEach(queue, n, GatherRowsBody<T>{queue, index, DivideBy(inner, n), static_cast<const T*>(in), indices,
                                        static_cast<T*>(out)});
  });
}

void LaunchScatterRows(const Queue& queue, CombineOp op, Type type, const RowIndex& index, int64_t rows, int64_t inner,
                       bool one_update, const void* indices, const void* updates, void* out, void* scratch) {
  const int64_t n = index.count;
  if (n == 0 || inner == 0 || rows == 0) return;
  const SortedRows sorted = SortRows(queue, index, rows, indices, scratch);
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    CombineRuns(queue, op, one_update, {n, sorted}, inner, static_cast<const T*>(updates), static_cast<T*>(out));
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  if (type == Type::kBool) return launch(Tag<uint8_t>());
  ForInteger(type, launch);
}

}  // namespace millrace::cuda
