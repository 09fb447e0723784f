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

// A copy between two dimensions, each contiguous on one side: squares go through shared memory, so that both sides are
// read and written along their lines.
inline constexpr int64_t kTile = 32;
template <typename T>
struct TransposeBody {
  struct Shared {
    T tile[kTile][kTile + 1];
  };
  Divider from_tiles, to_tiles;
  int64_t from_size, to_size;      // of the dimension that is contiguous in the source, in the target
  int64_t from_stride, to_stride;  // of the other one
  StridedIndex<2> rest;
  const T* from;
  T* to;
  template <typename Crew>
  MR_DEVICE void operator()(const Crew& crew, int64_t task, Shared& shared) const {
    const int64_t line = from_tiles(task), first = (task - line * from_tiles.by) * kTile;
    const int64_t matrix = to_tiles(line), second = (line - matrix * to_tiles.by) * kTile;
    int64_t at[2];
    rest.Offsets(matrix, at);
    for (int k = crew.rank(); k < kTile * kTile; k += crew.size()) {
      const int64_t x = k % kTile, y = k / kTile;
      if (first + x < from_size && second + y < to_size) {
        shared.tile[y][x] = from[at[0] + first + x + (second + y) * from_stride];
      }
    }
    crew.Sync();
    for (int k = crew.rank(); k < kTile * kTile; k += crew.size()) {
      const int64_t x = k % kTile, y = k / kTile;
      if (first + y < from_size && second + x < to_size) {
        to[at[1] + (first + y) * to_stride + second + x] = shared.tile[x][y];
      }
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

// The dimensions to transpose; false where there are none worth it.
bool FindTranspose(const StridedCopy& copy, int* from_dim, int* to_dim) {
  constexpr int64_t kLeast = 16;
  *from_dim = *to_dim = -1;
  for (int d = 0; d < copy.rank; ++d) {
    if (copy.dims[d] < kLeast) continue;
    if (copy.from_strides[d] == 1 && copy.to_strides[d] != 1) *from_dim = d;
    if (copy.to_strides[d] == 1 && copy.from_strides[d] != 1) *to_dim = d;
  }
  return *from_dim >= 0 && *to_dim >= 0;
}

template <typename T>
void LaunchTranspose(const Queue& queue, const StridedCopy& copy, int from_dim, int to_dim, const void* from, void* to) {
  TransposeBody<T> body;
  body.from_size = copy.dims[from_dim];
  body.to_size = copy.dims[to_dim];
  body.from_stride = copy.from_strides[to_dim];
  body.to_stride = copy.to_strides[from_dim];
  body.from = static_cast<const T*>(from);
  body.to = static_cast<T*>(to);
  const int64_t matrices = copy.elements / (body.from_size * body.to_size);
  const int64_t from_tiles = CeilDiv(body.from_size, kTile), to_tiles = CeilDiv(body.to_size, kTile);
  const int64_t tasks = matrices * from_tiles * to_tiles;
  body.from_tiles = DivideBy(from_tiles, tasks);
  body.to_tiles = DivideBy(to_tiles, tasks);
  for (int d = 0; d < copy.rank; ++d) {
    if (d == from_dim || d == to_dim) continue;
    body.rest.strides[0][body.rest.rank] = copy.from_strides[d];
    body.rest.strides[1][body.rest.rank] = copy.to_strides[d];
    body.rest.SetDim(body.rest.rank++, copy.dims[d], tasks);
  }
  ForEachTask(queue, tasks, body);
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

MR_DEVICE inline int64_t IndexAt(const void* index, bool wide, int64_t i) {
  return wide ? static_cast<const int64_t*>(index)[i] : static_cast<const int32_t*>(index)[i];
}

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
      Report(queue, FaultCode::kIndexOutOfRange, input, row, rows);
      return;
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
  int from_dim = 0, to_dim = 0;
  if (FindTranspose(copy, &from_dim, &to_dim)) {
    return ForSize(bytes, [&](auto tag) {
      LaunchTranspose<typename decltype(tag)::type>(queue, copy, from_dim, to_dim, from, to);
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
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    MapEach(queue, n, static_cast<T*>(out), MirrorGradBody<T>{IndexOf(shape, false), static_cast<const T*>(in)});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  ForInteger(type, launch);
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
