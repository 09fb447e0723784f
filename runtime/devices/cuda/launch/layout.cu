#include "cuda/launch/layout.h"

#include "cuda/launch/crew.h"
#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

template <typename T>
struct CopyBody {
  StridedIndex<2> index;  // of the source, of the target
  const T* from;
  T* to;
  MR_DEVICE void operator()(int64_t i) const {
    int64_t at[2];
    index.Offsets(i, at);
    to[at[1]] = from[at[0]];
  }
};

// Several copies in one launch: elements [begin[k], begin[k + 1]) are of copy k.
inline constexpr int kMaxCopies = 8;
template <typename T>
struct CopiesBody {
  int count;
  int64_t begin[kMaxCopies + 1];
  CopyBody<T> copies[kMaxCopies];
  MR_DEVICE void operator()(int64_t i) const {
    int k = 0;
    while (k + 1 < count && i >= begin[k + 1]) ++k;
    copies[k](i - begin[k]);
  }
};

// Elements that follow one another in one of two tensors, along one dimension or along two that are one there: how far the
// other tensor is apart.
struct TileLine {
  int64_t size = 1;
  Divider inner;
  int64_t inner_stride = 0, outer_stride = 0;  // in the other tensor
  MR_DEVICE int64_t Offset(int64_t i) const {
    const int64_t outer = inner(i);
    return outer * outer_stride + (i - outer * inner.by) * inner_stride;
  }
};

// A copy between two lines, one of the source and one of the target: squares go through shared memory, so that both sides
// are read and written along their lines.
inline constexpr int kTile = 32;
template <typename T>
struct TransposeBody {
  struct Shared {
    T tile[kTile][kTile + 1];
    int64_t rows[kTile], columns[kTile];  // of the tile, where they begin in the source, in the target
  };
  static constexpr int kAtOnce = 4;  // elements that are on their way to a thread
  Divider from_tiles, to_tiles;
  TileLine from_line, to_line;  // of the source, of the target
  StridedIndex<2> rest;
  const T* from;
  T* to;
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int64_t line = from_tiles(task), first = (task - line * from_tiles.by) * kTile;
    const int64_t matrix = to_tiles(line), second = (line - matrix * to_tiles.by) * kTile;
    int64_t at[2];
    rest.Offsets(matrix, at);
    for (int k = crew.rank(); k < kTile; k += crew.size()) {
      shared.rows[k] = at[0] + first + to_line.Offset(second + k);
      shared.columns[k] = at[1] + second + from_line.Offset(first + k);
    }
    crew.Sync();
    const int64_t wide = from_line.size - first, high = to_line.size - second;
    for (int k = crew.rank(); k < kTile * kTile; k += kAtOnce * crew.size()) {
      T values[kAtOnce];
      for (int u = 0; u < kAtOnce; ++u) {
        const int x = (k + u * crew.size()) % kTile, y = (k + u * crew.size()) / kTile;
        values[u] = y < kTile && x < wide && y < high ? from[shared.rows[y] + x] : T{};
      }
      for (int u = 0; u < kAtOnce; ++u) {
        const int x = (k + u * crew.size()) % kTile, y = (k + u * crew.size()) / kTile;
        if (y < kTile) shared.tile[y][x] = values[u];
      }
    }
    crew.Sync();
    for (int k = crew.rank(); k < kTile * kTile; k += crew.size()) {
      const int x = k % kTile, y = k / kTile;
      if (y < wide && x < high) to[shared.columns[y] + x] = shared.tile[x][y];
    }
    crew.Sync();
  }
};

// Without dimensions of 1 and offsets, and with neighbours joined where both sides go on.
StridedCopy Simplify(const StridedCopy& copy) {
  StridedCopy simple;
  simple.elements = copy.elements;
  for (int d = 0; d < copy.rank; ++d) {
    if (copy.dims[d] == 1) continue;
    const int last = simple.rank - 1;
    const bool joins = last >= 0 && simple.from_strides[last] == copy.dims[d] * copy.from_strides[d] &&
                       simple.to_strides[last] == copy.dims[d] * copy.to_strides[d];
    const int at = joins ? last : simple.rank++;
    simple.dims[at] = (joins ? simple.dims[at] : 1) * copy.dims[d];
    simple.from_strides[at] = copy.from_strides[d];
    simple.to_strides[at] = copy.to_strides[d];
  }
  if (simple.rank > 0) return simple;
  simple.rank = 1;
  simple.dims[0] = simple.from_strides[0] = simple.to_strides[0] = 1;
  return simple;
}

// Bytes, up to 16, that can be moved together.
int WidestOf(const StridedCopy& copy, int bytes, const char* from, const char* to) {
  const int last = copy.rank - 1;
  if (copy.from_strides[last] != 1 || copy.to_strides[last] != 1) return bytes;
  const auto fits = [&](int wide) {
    const int64_t together = wide / bytes;
    bool all = copy.dims[last] % together == 0 && reinterpret_cast<uintptr_t>(from) % wide == 0 &&
               reinterpret_cast<uintptr_t>(to) % wide == 0;
    for (int d = 0; d < last; ++d) all = all && copy.from_strides[d] % together == 0 && copy.to_strides[d] % together == 0;
    return all;
  };
  int wide = 16;
  while (wide > bytes && !fits(wide)) wide /= 2;
  return wide;
}

// `copy` in elements that are `together` times as large.
StridedCopy Widened(StridedCopy copy, int64_t together) {
  const int last = copy.rank - 1;
  copy.elements /= together;
  copy.dims[last] /= together;
  for (int d = 0; d < last; ++d) {
    copy.from_strides[d] /= together;
    copy.to_strides[d] /= together;
  }
  return copy;
}

template <typename T>
CopyBody<T> BodyOf(const StridedCopy& copy, const void* from, void* to) {
  StridedIndex<2> index;
  index.rank = copy.rank;
  for (int d = 0; d < copy.rank; ++d) {
    index.SetDim(d, copy.dims[d], copy.elements);
    index.strides[0][d] = copy.from_strides[d];
    index.strides[1][d] = copy.to_strides[d];
  }
  return {index, static_cast<const T*>(from), static_cast<T*>(to)};
}

// The dimensions of a line in the source and in the target, inner ones first; -1: none.
struct TileDims {
  int from[2] = {-1, -1}, to[2] = {-1, -1};
  bool Has(int d) const { return d == from[0] || d == from[1] || d == to[0] || d == to[1]; }
};

// A second dimension that goes on where the first of `line` ends.
void Extend(const StridedCopy& copy, const int64_t* strides, const TileDims& dims, int* line) {
  for (int d = 0; d < copy.rank; ++d) {
    if (!dims.Has(d) && strides[d] == copy.dims[line[0]]) line[1] = d;
  }
}

int64_t LineSize(const StridedCopy& copy, const int* line) {
  return copy.dims[line[0]] * (line[1] < 0 ? 1 : copy.dims[line[1]]);
}

// False where there are no lines worth it. Of a filter's taps, inputs and outputs, each in its place on either side, the
// taps are few: they and the inputs are one line.
bool FindTranspose(const StridedCopy& copy, TileDims* dims) {
  constexpr int64_t kLeast = 16;
  *dims = TileDims();
  for (int d = 0; d < copy.rank; ++d) {
    if (copy.from_strides[d] == 1 && copy.to_strides[d] != 1) dims->from[0] = d;
    if (copy.to_strides[d] == 1 && copy.from_strides[d] != 1) dims->to[0] = d;
  }
  if (dims->from[0] < 0 || dims->to[0] < 0) return false;
  const bool from_first = copy.dims[dims->from[0]] < copy.dims[dims->to[0]];
  if (from_first) Extend(copy, copy.from_strides, *dims, dims->from);
  Extend(copy, copy.to_strides, *dims, dims->to);
  if (!from_first) Extend(copy, copy.from_strides, *dims, dims->from);
  return LineSize(copy, dims->from) >= kLeast && LineSize(copy, dims->to) >= kLeast;
}

TileLine LineOf(const StridedCopy& copy, const int* dims, const int64_t* strides) {
  TileLine line;
  line.size = LineSize(copy, dims);
  line.inner = DivideBy(copy.dims[dims[0]], line.size);
  line.inner_stride = strides[dims[0]];
  if (dims[1] >= 0) line.outer_stride = strides[dims[1]];
  return line;
}

template <typename T>
TransposeBody<T> TransposeOf(const StridedCopy& copy, const TileDims& dims, const void* from, void* to, int64_t* tasks) {
  TransposeBody<T> body;
  body.from_line = LineOf(copy, dims.from, copy.to_strides);
  body.to_line = LineOf(copy, dims.to, copy.from_strides);
  body.from = static_cast<const T*>(from);
  body.to = static_cast<T*>(to);
  const int64_t matrices = copy.elements / (body.from_line.size * body.to_line.size);
  const int64_t from_tiles = CeilDiv(body.from_line.size, kTile), to_tiles = CeilDiv(body.to_line.size, kTile);
  *tasks = matrices * from_tiles * to_tiles;
  body.from_tiles = DivideBy(from_tiles, *tasks);
  body.to_tiles = DivideBy(to_tiles, *tasks);
  for (int d = 0; d < copy.rank; ++d) {
    if (dims.Has(d)) continue;
    body.rest.strides[0][body.rest.rank] = copy.from_strides[d];
    body.rest.strides[1][body.rest.rank] = copy.to_strides[d];
    body.rest.SetDim(body.rest.rank++, copy.dims[d], *tasks);
  }
  return body;
}

template <typename T>
struct FillBody {
  const T* value;
  MR_DEVICE T operator()(int64_t) const { return *value; }
};

template <typename T>
struct ConstantBody {
  T value;
  MR_DEVICE T operator()(int64_t) const { return value; }
};

struct ZeroBody {
  MR_DEVICE uint64_t operator()(int64_t) const { return 0; }
};

template <typename T>
struct GatherBody {
  Queue queue;
  bool wide;
  int input;
  int64_t rows;
  Divider inner, indices;
  const T* in;
  const void* index;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t line = inner(i), column = i - line * inner.by, outer = indices(line), which = line - outer * indices.by;
    const int64_t row = IndexAt(index, wide, which);
    if (row < 0 || row >= rows) {
      return ReportIndex(queue, input, which, row, rows);
    }
    out[i] = in[(outer * rows + row) * inner.by + column];
  }
};

struct MirrorIndex {
  MirrorShape shape;
  Divider dims[kMaxDims];  // of the side that is walked
};

MirrorIndex IndexOf(const MirrorShape& shape, bool padded) {
  MirrorIndex index;
  index.shape = shape;
  const int64_t* const dims = padded ? shape.padded : shape.inner;
  int64_t elements = 1;
  for (int d = 0; d < shape.rank; ++d) elements *= dims[d];
  for (int d = 0; d < shape.rank; ++d) index.dims[d] = DivideBy(dims[d], elements);
  return index;
}

template <typename T>
struct MirrorBody {
  MirrorIndex index;
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    const MirrorShape& shape = index.shape;
    int64_t from = 0, scale = 1;
    for (int d = shape.rank - 1; d >= 0; --d) {
      const int64_t next = index.dims[d](i), at = i - next * index.dims[d].by - shape.before[d], size = shape.inner[d];
      i = next;
      from += (at < 0 ? -at - 1 + shape.offset : at >= size ? 2 * size - 1 - at - shape.offset : at) * scale;
      scale *= size;
    }
    return in[from];
  }
};

template <typename T>
struct MirrorGradBody {
  MirrorIndex index;
  const T* in;
  MR_DEVICE T operator()(int64_t i) const {
    const MirrorShape& shape = index.shape;
    // In every dimension the padded positions that show this element: mirrored before, itself, mirrored behind.
    int64_t at[kMaxDims][3], stride[kMaxDims], step = 1;
    int count[kMaxDims], turn[kMaxDims] = {};
    for (int d = shape.rank - 1; d >= 0; --d) {
      const int64_t next = index.dims[d](i), inner = i - next * index.dims[d].by, size = shape.inner[d];
      i = next;
      count[d] = 0;
      const int64_t low = shape.before[d] + shape.offset - 1 - inner;
      if (low >= 0 && low < shape.before[d]) at[d][count[d]++] = low;
      at[d][count[d]++] = shape.before[d] + inner;
      const int64_t high = shape.before[d] + 2 * size - 1 - shape.offset - inner;
      if (high >= shape.before[d] + size && high < shape.padded[d]) at[d][count[d]++] = high;
      stride[d] = step;
      step *= shape.padded[d];
    }
    T sum = Wide<T>::Narrow(typename Wide<T>::type(0));
    while (true) {
      int64_t from = 0;
      for (int d = 0; d < shape.rank; ++d) from += at[d][turn[d]] * stride[d];
      sum = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(Widen(sum) + Widen(in[from])));
      int d = shape.rank - 1;
      while (d >= 0 && ++turn[d] == count[d]) turn[d--] = 0;
      if (d < 0) return sum;
    }
  }
};

template <typename T>
struct OneHotBody {
  bool wide;
  Divider depth, inner;
  const void* index;
  const T* on;
  const T* off;
  MR_DEVICE T operator()(int64_t i) const {
    const int64_t line = inner(i), column = i - line * inner.by, outer = depth(line), d = line - outer * depth.by;
    return IndexAt(index, wide, outer * inner.by + column) == d ? *on : *off;
  }
};

}  // namespace

void LaunchStridedCopy(const Queue& queue, int bytes, const StridedCopy& given, const void* source, void* target) {
  const StridedCopy copy = Simplify(given);
  const char* const from = static_cast<const char*>(source) + given.from_offset * bytes;
  char* const to = static_cast<char*>(target) + given.to_offset * bytes;
  TileDims dims;
  if (FindTranspose(copy, &dims)) {
    return ForSize(bytes, [&](auto tag) {
      int64_t tasks = 0;
      const auto body = TransposeOf<typename decltype(tag)::type>(copy, dims, from, to, &tasks);
      ForEachTask(queue, tasks, body);
    });
  }
  const int wide = WidestOf(copy, bytes, from, to);
  ForWideSize(wide, [&](auto tag) {
    const StridedCopy widened = Widened(copy, wide / bytes);
    ForEach(queue, widened.elements, BodyOf<typename decltype(tag)::type>(widened, from, to));
  });
}

void LaunchStridedCopies(const Queue& queue, int bytes, const CopyTask* tasks, int count) {
  while (count > 0) {
    const int now = count < kMaxCopies ? count : kMaxCopies;
    StridedCopy copies[kMaxCopies];
    const char* from[kMaxCopies];
    char* to[kMaxCopies];
    int wide = 16;
    for (int k = 0; k < now; ++k) {
      copies[k] = Simplify(tasks[k].copy);
      from[k] = static_cast<const char*>(tasks[k].from) + tasks[k].copy.from_offset * bytes;
      to[k] = static_cast<char*>(tasks[k].to) + tasks[k].copy.to_offset * bytes;
      const int most = WidestOf(copies[k], bytes, from[k], to[k]);
      wide = most < wide ? most : wide;
    }
    ForWideSize(wide, [&](auto tag) {
      CopiesBody<typename decltype(tag)::type> body;
      body.count = now;
      body.begin[0] = 0;
      for (int k = 0; k < now; ++k) {
        const StridedCopy widened = Widened(copies[k], wide / bytes);
        body.copies[k] = BodyOf<typename decltype(tag)::type>(widened, from[k], to[k]);
        body.begin[k + 1] = body.begin[k] + widened.elements;
      }
      ForEach(queue, body.begin[now], body);
    });
    tasks += now;
    count -= now;
  }
}

void LaunchFill(const Queue& queue, int bytes, const void* value, void* to, int64_t n) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(to), FillBody<T>{static_cast<const T*>(value)});
  });
}

void LaunchFillConstant(const Queue& queue, int bytes, const void* value, void* to, int64_t n) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ConstantBody<T> body;
    memcpy(&body.value, value, sizeof(T));
    Map(queue, n, static_cast<T*>(to), body);
  });
}

void LaunchZero(const Queue& queue, void* to, int64_t bytes) {
  // Tensors begin at multiples of 8; their last bytes go one by one.
  Map(queue, bytes / 8, static_cast<uint64_t*>(to), ZeroBody());
  if (bytes % 8 != 0) Map(queue, bytes % 8, static_cast<uint8_t*>(to) + bytes / 8 * 8, ZeroBody());
}

void LaunchMirrorPad(const Queue& queue, int bytes, const MirrorShape& shape, const void* in, void* out) {
  int64_t n = 1;
  for (int d = 0; d < shape.rank; ++d) n *= shape.padded[d];
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Map(queue, n, static_cast<T*>(out), MirrorBody<T>{IndexOf(shape, true), static_cast<const T*>(in)});
  });
}

void LaunchMirrorPadGrad(const Queue& queue, Type type, const MirrorShape& shape, const void* in, void* out) {
  int64_t n = 1;
  for (int d = 0; d < shape.rank; ++d) n *= shape.inner[d];
  ForNumeric(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, n, static_cast<T*>(out), MirrorGradBody<T>{IndexOf(shape, false), static_cast<const T*>(in)});
  });
}

void LaunchGather(const Queue& queue, int bytes, bool wide_indices, int input, int64_t outer, int64_t rows,
                  int64_t indices, int64_t inner, const void* in, const void* index, void* out) {
  const int wide = WidestRows(bytes, inner, in, out);
  inner /= wide / bytes;
  ForWideSize(wide, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = outer * indices * inner;
    ForEach(queue, n, GatherBody<T>{queue, wide_indices, input, rows, DivideBy(inner, n), DivideBy(indices, n),
                                    static_cast<const T*>(in), index, static_cast<T*>(out)});
  });
}

void LaunchOneHot(const Queue& queue, int bytes, bool wide_indices, int64_t outer, int64_t depth, int64_t inner,
                  const void* index, const void* on, const void* off, void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t n = outer * depth * inner;
    Map(queue, n, static_cast<T*>(out),
        OneHotBody<T>{wide_indices, DivideBy(depth, n), DivideBy(inner, n), index, static_cast<const T*>(on),
                      static_cast<const T*>(off)});
  });
}

}  // namespace millrace::cuda
