#include "cuda/launch/top_k.h"

#include <type_traits>
#include <utility>

#include "cuda/launch/choice.h"
#include "cuda/launch/crew.h"
#include "cuda/launch/scan.h"
#include "cuda/launch/sort.h"

namespace millrace::cuda {
namespace {

// The best of those that come after the one chosen last, NaNs first; of one rank, last.
template <typename T>
struct NextBestBody {
  using W = typename Wide<T>::type;
  bool wide;
  int64_t columns, k, rank;
  const T* x;
  T* values;
  void* indices;
  MR_DEVICE Choice<W> Identity() const { return {W(0), -1}; }
  MR_DEVICE Choice<W> Combine(const Choice<W>& a, const Choice<W>& b) const { return Before(b, a, false, k > 1) ? b : a; }
  MR_DEVICE Choice<W> Load(int64_t row, int64_t column) const {
    const Choice<W> choice = {Widen(x[row * columns + column]), column};
    if (rank == 0) return choice;
    const int64_t last = IndexAt(indices, wide, row * k + rank - 1);
    return Before({Widen(x[row * columns + last]), last}, choice, false, true) ? choice : Identity();
  }
  MR_DEVICE void Store(int64_t row, const Choice<W>& best) const {
    if (best.index < 0) return;
    values[row * k + rank] = x[row * columns + best.index];
    PutIndex(indices, wide, row * k + rank, best.index);
  }
};

// Where a value comes among others, the greatest first: equal ones, zeros of either sign and NaNs at the same place, NaNs first.
MR_DEVICE inline uint32_t PlaceOf(float value) {
  if (value != value) return 0;
  const uint32_t bits = BitsOf(value + 0.0f);
  return bits >> 31 != 0 ? bits : ~(bits | 0x80000000u);
}
MR_DEVICE inline uint32_t PlaceOf(int32_t value) { return ~(static_cast<uint32_t>(value) ^ 0x80000000u); }

// A piece of a row: places and columns together, which are all different. Where a row has several, each leaves the columns of its k best,
// which are sorted in their turn; behind them stands what comes after all columns.
template <typename T>
struct SortedTopTask {
  struct Shared {
    uint64_t list[kMostSortedAtOnce];
  };
  using W = std::conditional_t<std::is_same_v<typename Wide<T>::type, float>, float, int32_t>;
  static constexpr uint32_t kNone = ~uint32_t{0};  // no column
  bool wide;
  int64_t columns, k;
  const T* x;
  T* values;
  void* indices;
  int64_t there;          // of a row, which is x, or `given`
  const uint32_t* given;  // what pieces have left
  Divider pieces;         // of a row
  uint32_t* left;         // [rows, pieces, k]

  MR_DEVICE uint64_t KeyAt(int64_t row, int64_t i) const {
    const auto column = given != nullptr ? given[row * there + i] : static_cast<uint32_t>(i);
    if (column == kNone) return ~uint64_t{0};
    return static_cast<uint64_t>(PlaceOf(static_cast<W>(Widen(x[row * columns + column])))) << 32 | column;
  }
  MR_DEVICE void Store(int64_t row, int64_t rank, uint32_t column) const {
    values[row * k + rank] = x[row * columns + column];
    PutIndex(indices, wide, row * k + rank, column);
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    uint64_t* const list = shared.list;
    const int64_t row = pieces(task), begin = (task - row * pieces.by) * kMostSortedAtOnce;
    const int64_t count = there - begin < kMostSortedAtOnce ? there - begin : kMostSortedAtOnce;
    int64_t size = 1;
    while (size < count) size *= 2;
    for (int64_t i = crew.rank(); i < size; i += crew.size()) list[i] = i < count ? KeyAt(row, begin + i) : ~uint64_t{0};
    crew.Sync();
    SortAtOnce(crew, list, size);
    for (int64_t rank = crew.rank(); rank < k; rank += crew.size()) {
      if (pieces.by == 1) {
        Store(row, rank, static_cast<uint32_t>(list[rank]));
      } else {
        left[task * k + rank] = rank < count ? static_cast<uint32_t>(list[rank]) : kNone;
      }
    }
    crew.Sync();  // the list is the next task's
  }
};

int64_t PiecesOf(int64_t there) { return CeilDiv(there, kMostSortedAtOnce); }

// What the pieces of a row leave.
int64_t RowScratchBytes(const TopShape& shape) {
  const int64_t pieces = PiecesOf(shape.columns), then = PiecesOf(pieces * shape.k);
  return ((pieces > 1 ? pieces : 0) + (then > 1 ? then : 0)) * shape.k * static_cast<int64_t>(sizeof(uint32_t));
}
// Rows that are sorted before others, so that scratch memory does not grow with them; as many pieces keep a device busy.
int64_t RowsAtOnce(const TopShape& shape) {
  constexpr int64_t kManyBytes = int64_t{8} << 20;
  const int64_t bytes = RowScratchBytes(shape);
  if (bytes * shape.rows <= kManyBytes) return shape.rows;
  return bytes < kManyBytes ? kManyBytes / bytes : 1;
}

// In rounds, which leave half of a row, or less, and in two parts of the scratch memory by turns.
template <typename T>
void SortRowsAtOnce(const Queue& queue, int64_t rows, SortedTopTask<T> task, uint32_t* scratch) {
  const int64_t first = PiecesOf(task.columns);
  uint32_t *next = scratch, *other = first > 1 ? scratch + rows * first * task.k : nullptr;
  task.there = task.columns;
  for (int64_t pieces = 0; pieces != 1;) {
    pieces = PiecesOf(task.there);
    task.pieces = DivideBy(pieces, rows * pieces);
    task.left = next;
    ForEachTask(queue, rows * pieces, task);
    task.given = next;
    task.there = pieces * task.k;
    next = std::exchange(other, next);
  }
}

template <typename T>
void SortTop(const Queue& queue, const TopShape& shape, const T* x, T* values, void* indices, uint32_t* scratch) {
  const int64_t at_once = RowsAtOnce(shape), k = shape.k;
  for (int64_t row = 0; row < shape.rows; row += at_once) {
    const int64_t rows = shape.rows - row < at_once ? shape.rows - row : at_once;
    void* const to = static_cast<char*>(indices) + row * k * (shape.wide ? 8 : 4);
    SortRowsAtOnce<T>(queue, rows, {shape.wide, shape.columns, k, x + row * shape.columns, values + row * k, to, 0, nullptr, {}, nullptr}, scratch);
  }
}

// The greatest of a row in a heap, whose front is the last of them, by the steps of libstdc++'s std::make_heap and its like, which the
// CPU's kernel takes: they say where unsorted ones and NaNs end up. Elements [0, k) are where the results go; element k there is only at
// the beginning. One thread's.
template <typename T>
struct TopHeap {
  using W = typename Wide<T>::type;
  struct Element {
    T value;
    int64_t index;
  };
  bool wide;
  int64_t k;
  T* values;      // of the row
  void* indices;  // all
  int64_t first;  // of the row's
  Element behind;

  MR_DEVICE static bool Before(const Element& a, const Element& b) {
    const W a_value = Widen(a.value), b_value = Widen(b.value);
    return b_value < a_value || (!(a_value < b_value) && a.index < b.index);
  }
  MR_DEVICE Element Get(int64_t i) const {
    if (i == k) return behind;
    return {values[i], IndexAt(indices, wide, first + i)};
  }
  MR_DEVICE void Set(int64_t i, const Element& element) {
    if (i == k) {
      behind = element;
      return;
    }
    values[i] = element.value;
    PutIndex(indices, wide, first + i, element.index);
  }
  // Up from `hole`, not above `top`.
  MR_DEVICE void Push(int64_t hole, int64_t top, const Element& element) {
    while (hole > top && Before(Get((hole - 1) / 2), element)) {
      Set(hole, Get((hole - 1) / 2));
      hole = (hole - 1) / 2;
    }
    Set(hole, element);
  }
  // Down from `hole` in a heap of `size`, then up.
  MR_DEVICE void Adjust(int64_t hole, int64_t size, const Element& element) {
    const int64_t top = hole;
    int64_t child = hole;
    while (child < (size - 1) / 2) {
      child = 2 * (child + 1);
      if (Before(Get(child), Get(child - 1))) --child;
      Set(hole, Get(child));
      hole = child;
    }
    if (size % 2 == 0 && child == (size - 2) / 2) {
      child = 2 * child + 1;
      Set(hole, Get(child));
      hole = child;
    }
    Push(hole, top, element);
  }
  // The front of a heap of `size` goes behind the others.
  MR_DEVICE void Pop(int64_t size) {
    if (size < 2) return;
    const Element last = Get(size - 1);
    Set(size - 1, Get(0));
    Adjust(0, size - 1, last);
  }
  MR_DEVICE void Make(const T* from, int64_t size) {
    for (int64_t i = 0; i < size; ++i) Set(i, {from[i], i});
    for (int64_t parent = size / 2 - 1; parent >= 0; --parent) Adjust(parent, size, Get(parent));
    if (size > k) Pop(size);
  }
  MR_DEVICE void Offer(const Element& element) {
    if (!Before(element, Get(0))) return;
    Pop(k);
    Push(k - 1, 0, element);
  }
  MR_DEVICE void Sort() {
    for (int64_t size = k; size > 1; --size) Pop(size);
  }
};

// Rows by their heaps: all, or of those that are sorted the ones whose results begin with NaN, as all do that have
// one.
template <typename T>
struct HeapRowBody {
  using Heap = TopHeap<T>;
  TopShape shape;
  bool all;
  const T* x;
  T* values;
  void* indices;
  // The threads look for the first of some columns that enters the heap; from there on one thread offers it a few, and all look again.
  template <typename Crew>
  MR_DEVICE void OfferRow(const Crew& crew, const T* from, int64_t begin, Heap& heap) const {
    constexpr int kAtOnce = 4;
    constexpr int64_t kRun = 8;
    const int64_t step = static_cast<int64_t>(kAtOnce) * crew.size();
    MR_NO_UNROLL for (int64_t base = begin, last = begin; base < shape.columns; base = last) {
      const int64_t end = base + step < shape.columns ? base + step : shape.columns;
      const auto front = heap.Get(0);
      int64_t enters = end;
      MR_UNROLL for (int u = kAtOnce - 1; u >= 0; --u) {
        const int64_t i = base + u * crew.size() + crew.rank(), at = i < end ? i : end - 1;
        if (Heap::Before({from[at], at}, front)) enters = at;
      }
      enters = crew.Reduce(enters, [](int64_t a, int64_t b) { return a < b ? a : b; });
      last = enters + kRun < end ? enters + kRun : end;
      for (int64_t i = enters; crew.rank() == 0 && i < last; ++i) heap.Offer({from[i], i});
      crew.Sync();
    }
  }
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t row) const {
    const int64_t k = shape.k, size = k < shape.columns ? k + 1 : k;
    const T* const from = x + row * shape.columns;
    Heap heap = {shape.wide, k, values + row * k, indices, row * k, {}};
    const bool taken = all || Widen(heap.values[0]) != Widen(heap.values[0]);
    crew.Sync();
    if (!taken) return;
    if (crew.rank() == 0) heap.Make(from, size);
    crew.Sync();
    OfferRow(crew, from, size, heap);
    if (crew.rank() == 0 && (shape.sorted || k == shape.columns)) heap.Sort();
    crew.Sync();
  }
};

// The greatest of every row, sorted, NaNs first; of one rank, last.
template <typename T>
void GreatestOfRows(const Queue& queue, Type type, const TopShape& shape, const T* x, T* values, void* indices, void* scratch) {
  if constexpr (sizeof(T) <= sizeof(int32_t)) {
    if (TopKSorts(type, shape.columns, shape.k)) return SortTop(queue, shape, x, values, indices, static_cast<uint32_t*>(scratch));
  }
  for (int64_t rank = 0; rank < shape.k; ++rank) {
    SumRows<Choice<typename Wide<T>::type>>(queue, shape.rows, shape.columns, false, scratch,
                                            NextBestBody<T>{shape.wide, shape.columns, shape.k, rank, x, values, indices});
  }
}

}  // namespace

bool TopKSorts(Type type, int64_t columns, int64_t k) {
  constexpr int64_t kFewRanks = 16;
  const bool fits = columns <= kMostSortedAtOnce || (k <= kMostSortedAtOnce / 2 && columns <= INT32_MAX);
  return type != Type::kDouble && type != Type::kInt64 && k > kFewRanks && fits;
}
bool TopKHeaps(const TopShape& shape) { return !shape.sorted && shape.k > 1 && shape.k < shape.columns; }
int64_t TopKScratchBytes(Type type, const TopShape& shape) {
  if (TopKHeaps(shape)) return 0;
  if (!TopKSorts(type, shape.columns, shape.k)) return ArgScratchBytes({shape.rows, shape.columns, 1});
  return RowsAtOnce(shape) * RowScratchBytes(shape);
}

void LaunchTopK(const Queue& queue, Type type, const TopShape& shape, const void* x, void* values, void* indices, void* scratch) {
  if (shape.k == 0) return;
  ForNumber(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool all = TopKHeaps(shape);
    const HeapRowBody<T> heaps = {shape, all, static_cast<const T*>(x), static_cast<T*>(values), indices};
    if (!all) GreatestOfRows(queue, type, shape, heaps.x, heaps.values, indices, scratch);
    if (all || (shape.k > 1 && !std::is_integral_v<T>)) ForEachRow(queue, shape.rows, shape.columns, heaps);
  });
}

}  // namespace millrace::cuda
