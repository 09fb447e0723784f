#include "cuda/launch/layout.h"

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

void LaunchStridedCopy(const Queue& queue, int bytes, const StridedCopy& copy, const void* from, void* to) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    StridedIndex<2> index;
    index.rank = copy.rank;
    for (int d = 0; d < copy.rank; ++d) {
      index.SetDim(d, copy.dims[d], copy.elements);
      index.strides[0][d] = copy.from_strides[d];
      index.strides[1][d] = copy.to_strides[d];
    }
    ForEach(queue, copy.elements,
            CopyBody<T>{index, static_cast<const T*>(from) + copy.from_offset, static_cast<T*>(to) + copy.to_offset});
  });
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
  ForSize(bytes, [&](auto tag) {
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
