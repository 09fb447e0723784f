#include "cuda/launch/layout.h"

#include "cuda/launch/portable.h"

namespace millrace::cuda {
namespace {

template <typename T>
struct CopyBody {
  StridedCopy copy;
  const T* from;
  T* to;
  MR_DEVICE void operator()(int64_t i) const {
    int64_t source = copy.from_offset, target = copy.to_offset;
    for (int d = copy.rank - 1; d >= 0; --d) {
      const int64_t index = i % copy.dims[d];
      i /= copy.dims[d];
      source += index * copy.from_strides[d];
      target += index * copy.to_strides[d];
    }
    to[target] = from[source];
  }
};

template <typename T>
struct FillBody {
  const T* value;
  T* to;
  MR_DEVICE void operator()(int64_t i) const { to[i] = *value; }
};

struct ZeroBody {
  uint8_t* to;
  MR_DEVICE void operator()(int64_t i) const { to[i] = 0; }
};

MR_DEVICE inline int64_t IndexAt(const void* index, bool wide, int64_t i) {
  return wide ? static_cast<const int64_t*>(index)[i] : static_cast<const int32_t*>(index)[i];
}

template <typename T>
struct GatherBody {
  Queue queue;
  bool wide;
  int input;
  int64_t rows, indices, inner;
  const T* in;
  const void* index;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % inner, which = i / inner % indices, outer = i / inner / indices;
    const int64_t row = IndexAt(index, wide, which);
    if (row < 0 || row >= rows) {
      Report(queue, FaultCode::kIndexOutOfRange, input, row, rows);
      return;
    }
    out[i] = in[(outer * rows + row) * inner + column];
  }
};

template <typename T>
struct SegmentBody {
  Queue queue;
  bool wide;
  int64_t rows, indices, inner;
  const T* data;
  const void* index;
  T* out;
  // One thread per element of the output walks the indices in order, so the sum has one order.
  MR_DEVICE void operator()(int64_t i) const {
    using W = typename Wide<T>::type;
    const int64_t row = i / inner, column = i % inner;
    W sum = W(0);
    for (int64_t k = 0; k < indices; ++k) {
      const int64_t at = IndexAt(index, wide, k);
      if (at >= rows) {
        Report(queue, FaultCode::kIndexOutOfRange, 1, at, rows);
        return;
      }
      if (at == row) sum = static_cast<W>(sum + Widen(data[k * inner + column]));
    }
    out[i] = Wide<T>::Narrow(sum);
  }
};

template <typename T>
struct OneHotBody {
  bool wide;
  int64_t depth, inner;
  const void* index;
  const T* on;
  const T* off;
  T* out;
  MR_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % inner, d = i / inner % depth, outer = i / inner / depth;
    out[i] = IndexAt(index, wide, outer * inner + column) == d ? *on : *off;
  }
};

}  // namespace

void LaunchStridedCopy(const Queue& queue, int bytes, const StridedCopy& copy, const void* from, void* to) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, copy.elements, CopyBody<T>{copy, static_cast<const T*>(from), static_cast<T*>(to)});
  });
}

void LaunchFill(const Queue& queue, int bytes, const void* value, void* to, int64_t n) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, n, FillBody<T>{static_cast<const T*>(value), static_cast<T*>(to)});
  });
}

void LaunchZero(const Queue& queue, void* to, int64_t bytes) {
  ForEach(queue, bytes, ZeroBody{static_cast<uint8_t*>(to)});
}

void LaunchGather(const Queue& queue, int bytes, bool wide_indices, int input, int64_t outer, int64_t rows,
                  int64_t indices, int64_t inner, const void* in, const void* index, void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, outer * indices * inner,
            GatherBody<T>{queue, wide_indices, input, rows, indices, inner, static_cast<const T*>(in), index,
                          static_cast<T*>(out)});
  });
}

void LaunchSegmentSum(const Queue& queue, Type type, bool wide_indices, int64_t rows, int64_t indices, int64_t inner,
                      const void* data, const void* index, void* out) {
  const auto launch = [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, rows * inner,
            SegmentBody<T>{queue, wide_indices, rows, indices, inner, static_cast<const T*>(data), index, static_cast<T*>(out)});
  };
  if (type <= Type::kBfloat16) return ForFloating(type, launch);
  ForInteger(type, launch);
}

void LaunchOneHot(const Queue& queue, int bytes, bool wide_indices, int64_t outer, int64_t depth, int64_t inner,
                  const void* index, const void* on, const void* off, void* out) {
  ForSize(bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForEach(queue, outer * depth * inner,
            OneHotBody<T>{wide_indices, depth, inner, index, static_cast<const T*>(on), static_cast<const T*>(off),
                          static_cast<T*>(out)});
  });
}

}  // namespace millrace::cuda
