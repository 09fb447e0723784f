#include "cuda/launch/rearrange.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

// Where elements of matrices lie in their diagonals, and the other way round.
struct DiagonalIndex {
  DiagonalShape shape;
  Divider columns, rows;   // of the matrices
  Divider length, count;   // of the diagonals
  struct Place {
    int64_t batch, row, column;
    MR_DEVICE int64_t diagonal() const { return column - row; }
  };
  MR_DEVICE Place InMatrix(int64_t i) const {
    const int64_t line = columns(i), batch = rows(line);
    return {batch, line - batch * rows.by, i - line * columns.by};
  }
  MR_DEVICE bool Has(int64_t diagonal) const { return diagonal >= shape.lower && diagonal <= shape.upper; }
  MR_DEVICE int64_t LengthOf(int64_t diagonal) const {
    const int64_t down = shape.rows + (diagonal < 0 ? diagonal : 0), right = shape.columns - (diagonal > 0 ? diagonal : 0);
    return down < right ? down : right;
  }
  MR_DEVICE int64_t PaddingOf(int64_t diagonal) const {
    const bool left = (diagonal >= 0 && shape.left_above) || (diagonal <= 0 && shape.left_below);
    return left ? 0 : shape.length - LengthOf(diagonal);
  }
  // Of an element that is on one of the diagonals.
  MR_DEVICE int64_t InDiagonals(const Place& place) const {
    const int64_t diagonal = place.diagonal(), first = diagonal > 0 ? diagonal : 0;
    return (place.batch * count.by + shape.upper - diagonal) * length.by + place.column - first + PaddingOf(diagonal);
  }
  // Where in the matrices element i of the diagonals is; -1: it is padding.
  MR_DEVICE int64_t OfDiagonals(int64_t i) const {
    const int64_t line = length(i), batch = count(line), diagonal = shape.upper - (line - batch * count.by);
    const int64_t at = i - line * length.by - PaddingOf(diagonal);
    if (at < 0 || at >= LengthOf(diagonal)) return -1;
    const int64_t column = at + (diagonal > 0 ? diagonal : 0);
    return (batch * shape.rows + column - diagonal) * shape.columns + column;
  }
};

int64_t MatrixElements(const DiagonalShape& shape) { return shape.batch * shape.rows * shape.columns; }
int64_t DiagonalElements(const DiagonalShape& shape) { return shape.batch * (shape.upper - shape.lower + 1) * shape.length; }

DiagonalIndex IndexOf(const DiagonalShape& shape) {
  const int64_t elements = MatrixElements(shape), in_diagonals = DiagonalElements(shape);
  return {shape, DivideBy(shape.columns, elements), DivideBy(shape.rows, elements), DivideBy(shape.length, in_diagonals),
          DivideBy(shape.upper - shape.lower + 1, in_diagonals)};
}

template <typename T>
struct PaddingValue {
  const T* at;
  T constant;
  MR_DEVICE T operator()() const { return at != nullptr ? *at : constant; }
};

template <typename T>
PaddingValue<T> ValueOf(const DiagonalPadding& padding) {
  PaddingValue<T> value = {static_cast<const T*>(padding.value), T{}};
  memcpy(&value.constant, &padding.bits, sizeof(T));
  return value;
}

template <typename T>
struct MatrixDiagBody {
  DiagonalIndex index;
  PaddingValue<T> padding;
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    const DiagonalIndex::Place place = index.InMatrix(i);
    return index.Has(place.diagonal()) ? in[index.InDiagonals(place)] : padding();
  }
};

template <typename T>
struct MatrixDiagPartBody {
  DiagonalIndex index;
  PaddingValue<T> padding;
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t at = index.OfDiagonals(i);
    return at < 0 ? padding() : in[at];
  }
};

template <typename T>
struct MatrixSetDiagBody {
  DiagonalIndex index;
  const T* in;
  const T* diagonals;
  MR_DEVICE T operator()(int64_t i) const {
    const DiagonalIndex::Place place = index.InMatrix(i);
    return index.Has(place.diagonal()) ? diagonals[index.InDiagonals(place)] : in[i];
  }
};

template <typename T>
struct StoreDiagonalsBody {
  DiagonalIndex index;
  const T* diagonals;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t at = index.OfDiagonals(i);
    if (at >= 0) out[at] = diagonals[i];
  }
};

template <typename T>
struct BandPartBody {
  DiagonalIndex index;
  const T* in;
  MR_DEVICE T operator()(int64_t i) const { return index.Has(index.InMatrix(i).diagonal()) ? in[i] : T{}; }
};

template <typename T>
struct RollBody {
  int rank;
  Divider inner, dims[kMaxDims];
  int64_t shifts[kMaxDims];
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    int64_t rest = inner(i), scale = inner.by, from = i - rest * inner.by;
    MR_NO_UNROLL for (int d = rank - 1; d >= 0; --d) {
      const int64_t next = dims[d](rest), at = rest - next * dims[d].by - shifts[d];
      from += (at < 0 ? at + dims[d].by : at) * scale;
      scale *= dims[d].by;
      rest = next;
    }
    return in[from];
  }
};

template <typename T>
struct ReverseSequenceBody {
  Queue queue;
  bool wide;
  Divider inner, step_stride, steps, batch_stride, batches;
  const T* in;
  const void* lengths;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t run = inner(i), above_step = step_stride(run), above_batch = batch_stride(run);
    const int64_t step = above_step - steps(above_step) * steps.by, batch = above_batch - batches(above_batch) * batches.by;
    const int64_t length = IndexAt(lengths, wide, batch);
    if (length < 0 || length > steps.by) return ReportIndex(queue, 1, batch, length, steps.by + 1);
    out[i] = in[step < length ? i + (length - 1 - 2 * step) * step_stride.by * inner.by : i];
  }
};

// A place in pictures: which one, where, which element there.
struct PictureIndex {
  Divider inner, columns, rows;
  struct Place {
    int64_t picture, row, column, element;
  };
  MR_DEVICE Place operator()(int64_t i) const {
    const int64_t place = inner(i), line = columns(place), picture = rows(line);
    return {picture, line - picture * rows.by, place - line * columns.by, i - place * inner.by};
  }
};

PictureIndex IndexOf(const int64_t* dims, int64_t inner, int64_t elements) {
  return {DivideBy(inner, elements), DivideBy(dims[1], elements), DivideBy(dims[0], elements)};
}

template <typename T>
struct SpaceToBatchBody {
  BlockShape shape;
  PictureIndex index;  // of the blocked side
  Divider images, block;
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    const PictureIndex::Place to = index(i);
    const int64_t offset = images(to.picture), image = to.picture - offset * images.by, down = block(offset);
    const int64_t row = to.row * block.by + down - shape.before[0];
    const int64_t column = to.column * block.by + offset - down * block.by - shape.before[1];
    if (row < 0 || row >= shape.plain[0] || column < 0 || column >= shape.plain[1]) return T{};
    return in[((image * shape.plain[0] + row) * shape.plain[1] + column) * index.inner.by + to.element];
  }
};

template <typename T>
struct BatchToSpaceBody {
  BlockShape shape;
  PictureIndex index;  // of the plain side
  Divider block;
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    const PictureIndex::Place to = index(i);
    const int64_t below = to.row + shape.before[0], right = to.column + shape.before[1];
    const int64_t row = block(below), column = block(right);
    const int64_t offset = (below - row * block.by) * block.by + right - column * block.by;
    const int64_t picture = offset * shape.images + to.picture;
    return in[((picture * shape.blocked[0] + row) * shape.blocked[1] + column) * index.inner.by + to.element];
  }
};

template <typename T>
struct PatchesBody {
  PatchShape shape;
  Divider depth, size[3], out[3];
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t all = depth(i), element = i - all * depth.by;
    int64_t at[3], rest = all;
    for (int d = 2; d >= 0; --d) {
      const int64_t next = size[d](rest);
      at[d] = (rest - next * size[d].by) * shape.rate[d] - shape.before[d];
      rest = next;
    }
    bool inside = true;
    for (int d = 2; d >= 0; --d) {
      const int64_t next = out[d](rest);
      at[d] += (rest - next * out[d].by) * shape.stride[d];
      inside = inside && at[d] >= 0 && at[d] < shape.in[d];
      rest = next;
    }
    if (!inside) return T{};
    return in[(((rest * shape.in[0] + at[0]) * shape.in[1] + at[1]) * shape.in[2] + at[2]) * depth.by + element];
  }
};

template <typename T>
struct BatchGatherBody {
  Queue queue;
  bool wide;
  int64_t limit;
  Divider inner, count, outer;
  const T* in;
  const void* index;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t line = inner(i), column = i - line * inner.by, slab = count(line), which = line - slab * count.by;
    const int64_t at = outer(slab) * count.by + which, row = IndexAt(index, wide, at);
    if (row < 0 || row >= limit) return ReportIndex(queue, 1, at, row, limit);
    out[i] = in[(slab * limit + row) * inner.by + column];
  }
};

template <typename Index>
struct InvertBody {
  Queue queue;
  int64_t n;
  const Index* in;
  Index* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t at = in[i];
    if (at < 0 || at >= n) return ReportIndex(queue, 0, i, at, n);
    out[at] = static_cast<Index>(i);
  }
};

// Of those that name the same place, one alone finds itself there.
template <typename Index>
struct CheckInverseBody {
  Queue queue;
  int64_t n;
  const Index* in;
  const Index* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t at = in[i];
    if (out[at] != i) ReportIndex(queue, 0, i, at, n);
  }
};

struct WrapRowsBody {
  int64_t rows;
  const int32_t* in;
  MR_DEVICE int32_t operator()(int64_t i) const {
    const int64_t rest = in[i] % rows;
    return static_cast<int32_t>(rest < 0 ? rest + rows : rest);
  }
};

template <typename T>
MR_DEVICE typename Wide<T>::type Rounded(typename Wide<T>::type x) {
  return Widen(Wide<T>::Narrow(x));
}

template <typename T>
struct LinSpaceBody {
  using W = typename Wide<T>::type;
  int64_t n;
  const T* start;
  const T* stop;
  MR_DEVICE T operator()(int64_t i) const {
    if (i == 0) return *start;
    if (i == n - 1) return *stop;
    const W first = Widen(*start), step = Rounded<T>(Rounded<T>(Widen(*stop) - first) / Rounded<T>(static_cast<W>(n - 1)));
    return Wide<T>::Narrow(first + Rounded<T>(step * Rounded<T>(static_cast<W>(i))));
  }
};

template <typename T>
struct CrossBody {
  using W = typename Wide<T>::type;
  const T* a;
  const T* b;
  T* out;
  MR_DEVICE void operator()(int64_t row) const {
    W x[3], y[3];
    for (int i = 0; i < 3; ++i) {
      x[i] = Widen(a[3 * row + i]);
      y[i] = Widen(b[3 * row + i]);
    }
    for (int i = 0; i < 3; ++i) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
      const W plus = Rounded<T>(static_cast<W>(x[j] * y[k])), minus = Rounded<T>(static_cast<W>(x[k] * y[j]));
      out[3 * row + i] = Wide<T>::Narrow(static_cast<W>(plus - minus));
    }
  }
};

}  // namespace

void LaunchMatrixDiag(const Queue& queue, int bytes, const DiagonalShape& shape, const DiagonalPadding& padding, const void* in,
                      void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, MatrixElements(shape), static_cast<T*>(out),
        MatrixDiagBody<T>{IndexOf(shape), ValueOf<T>(padding), static_cast<const T*>(in)});
  });
}

void LaunchMatrixDiagPart(const Queue& queue, int bytes, const DiagonalShape& shape, const DiagonalPadding& padding,
                          const void* in, void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, DiagonalElements(shape), static_cast<T*>(out),
        MatrixDiagPartBody<T>{IndexOf(shape), ValueOf<T>(padding), static_cast<const T*>(in)});
  });
}

void LaunchMatrixSetDiag(const Queue& queue, int bytes, const DiagonalShape& shape, const void* in, const void* diagonals,
                         void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const values = static_cast<const T*>(diagonals);
    T* const to = static_cast<T*>(out);
    if (in == out) return ForEach(queue, DiagonalElements(shape), StoreDiagonalsBody<T>{IndexOf(shape), values, to});
    Map(queue, MatrixElements(shape), to, MatrixSetDiagBody<T>{IndexOf(shape), static_cast<const T*>(in), values});
  });
}

void LaunchMatrixBandPart(const Queue& queue, int bytes, const DiagonalShape& shape, const void* in, void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, MatrixElements(shape), static_cast<T*>(out), BandPartBody<T>{IndexOf(shape), static_cast<const T*>(in)});
  });
}

void LaunchRoll(const Queue& queue, int bytes, const RollShape& shape, const void* in, void* out) {
  const int wide = WidestRows(bytes, shape.inner, in, out);
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    int64_t n = shape.inner / (wide / bytes);
    for (int d = 0; d < shape.rank; ++d) n *= shape.dims[d];
    RollBody<T> body = {shape.rank, DivideBy(shape.inner / (wide / bytes), n), {}, {}, static_cast<const T*>(in)};
    for (int d = 0; d < shape.rank; ++d) {
      body.dims[d] = DivideBy(shape.dims[d], n);
      body.shifts[d] = shape.shifts[d];
    }
    Map(queue, n, static_cast<T*>(out), body);
  });
}

void LaunchReverseSequence(const Queue& queue, int bytes, const SequenceShape& shape, const void* in, const void* lengths,
                           void* out) {
  const int wide = WidestRows(bytes, shape.inner, in, out);
  const int64_t inner = shape.inner / (wide / bytes), n = shape.runs * inner;
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, n, ReverseSequenceBody<T>{queue, shape.wide_lengths, DivideBy(inner, n), DivideBy(shape.step_stride, n),
                                             DivideBy(shape.steps, n), DivideBy(shape.batch_stride, n),
                                             DivideBy(shape.batches, n), static_cast<const T*>(in), lengths,
                                             static_cast<T*>(out)});
  });
}

void LaunchSpaceToBatch(const Queue& queue, int bytes, const BlockShape& shape, const void* in, void* out) {
  const int wide = WidestRows(bytes, shape.inner, in, out);
  const int64_t inner = shape.inner / (wide / bytes), pictures = shape.images * shape.block * shape.block;
  const int64_t n = pictures * shape.blocked[0] * shape.blocked[1] * inner;
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(out),
        SpaceToBatchBody<T>{shape, IndexOf(shape.blocked, inner, n), DivideBy(shape.images, pictures),
                            DivideBy(shape.block, pictures), static_cast<const T*>(in)});
  });
}

void LaunchBatchToSpace(const Queue& queue, int bytes, const BlockShape& shape, const void* in, void* out) {
  const int wide = WidestRows(bytes, shape.inner, in, out);
  const int64_t inner = shape.inner / (wide / bytes), n = shape.images * shape.plain[0] * shape.plain[1] * inner;
  const int64_t down = shape.plain[0] + shape.before[0], right = shape.plain[1] + shape.before[1];
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(out),
        BatchToSpaceBody<T>{shape, IndexOf(shape.plain, inner, n), DivideBy(shape.block, down > right ? down : right),
                            static_cast<const T*>(in)});
  });
}

void LaunchPatches(const Queue& queue, int bytes, const PatchShape& shape, const void* in, void* out) {
  const int wide = WidestRows(bytes, shape.depth, in, out);
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t depth = shape.depth / (wide / bytes);
    int64_t n = shape.batch * depth;
    for (int d = 0; d < 3; ++d) n *= shape.out[d] * shape.size[d];
    PatchesBody<T> body = {shape, DivideBy(depth, n), {}, {}, static_cast<const T*>(in)};
    for (int d = 0; d < 3; ++d) {
      body.size[d] = DivideBy(shape.size[d], n);
      body.out[d] = DivideBy(shape.out[d], n);
    }
    MapEach(queue, n, static_cast<T*>(out), body);
  });
}

void LaunchBatchGather(const Queue& queue, int bytes, const BatchGatherShape& shape, const void* in, const void* index, void* out) {
  const int wide = WidestRows(bytes, shape.inner, in, out);
  const int64_t inner = shape.inner / (wide / bytes), n = shape.batch * shape.outer * shape.count * inner;
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, n, BatchGatherBody<T>{queue, shape.wide_indices, shape.limit, DivideBy(inner, n), DivideBy(shape.count, n),
                                         DivideBy(shape.outer, n), static_cast<const T*>(in), index, static_cast<T*>(out)});
  });
}

void LaunchInvertPermutation(const Queue& queue, bool wide, int64_t n, const void* in, void* out) {
  const auto launch = [&](auto tag) {
    using Index = typename decltype(tag)::type;
    const Index* const from = static_cast<const Index*>(in);
    Index* const to = static_cast<Index*>(out);
    ForEach(queue, n, InvertBody<Index>{queue, n, from, to});
    ForEach(queue, n, CheckInverseBody<Index>{queue, n, from, to});
  };
  wide ? launch(Tag<int64_t>()) : launch(Tag<int32_t>());
}

void LaunchWrapRows(const Queue& queue, int64_t rows, int64_t n, const int32_t* in, int32_t* out) {
  Map(queue, n, out, WrapRowsBody{rows, in});
}

void LaunchLinSpace(const Queue& queue, Type type, const void* start, const void* stop, void* out, int64_t n) {
  ForFloating(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(out), LinSpaceBody<T>{n, static_cast<const T*>(start), static_cast<const T*>(stop)});
  });
}

void LaunchCross(const Queue& queue, Type type, const void* a, const void* b, void* out, int64_t rows) {
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, rows, CrossBody<T>{static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out)});
  });
}

}  // namespace millrace::cuda
