// ArgMax and ArgMin.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "cpu/kernels/common.h"
#include "cpu/kernels/reduce.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

// Positions are of the first of equal elements; a NaN comes after every number.
template <bool kMin, typename T>
bool Better(T x, T best) {
  return (kMin ? x < best : x > best) || (best != best && x == x);
}

// What elements are compared by, which loops over vectorise: 16-bit floats by their bits, as signed magnitudes turned around for minima, NaN
// less than all others; what else there is as it is.
template <bool kMin, typename T>
struct Keys {
  static constexpr bool kAsMin = kMin;
  static T Of(T x) { return x; }
};
template <bool kMin, typename T>
struct ShortFloatKeys {
  static constexpr bool kAsMin = false;
  static int16_t Of(T x) {
    constexpr int16_t kInfinity = std::is_same_v<T, Eigen::half> ? 0x7c00 : 0x7f80;
    const auto bits = std::bit_cast<int16_t>(x);
    const int16_t size = bits & 0x7fff, key = (bits < 0) != kMin ? -size : size;
    return size > kInfinity ? std::numeric_limits<int16_t>::min() : key;
  }
};
template <bool kMin>
struct Keys<kMin, Eigen::half> : ShortFloatKeys<kMin, Eigen::half> {};
template <bool kMin>
struct Keys<kMin, Eigen::bfloat16> : ShortFloatKeys<kMin, Eigen::bfloat16> {};

// Elements that are compared side by side.
constexpr int64_t kSideBySide = 64;

// The first of the best in a row of at least kSideBySide: the best value by lanes, then where it stands.
template <bool kMin, typename T>
int64_t ArgOfRow(const T* x, int64_t n) {
  using K = Keys<kMin, T>;
  using Key = decltype(K::Of(*x));
  Key lanes[kSideBySide];
  std::transform(x, x + kSideBySide, lanes, K::Of);
  for (int64_t at = kSideBySide; at < n; at += kSideBySide) {
    const T* values = x + std::min(at, n - kSideBySide);
    for (int64_t k = 0; k < kSideBySide; ++k) {
      const Key key = K::Of(values[k]);
      lanes[k] = Better<K::kAsMin, Key>(key, lanes[k]) ? key : lanes[k];
    }
  }
  Key best = lanes[0];
  for (int64_t k = 1; k < kSideBySide; ++k) best = Better<K::kAsMin, Key>(lanes[k], best) ? lanes[k] : best;
  const T* const found = std::find_if(x, x + n, [best](T value) { return K::Of(value) == best; });
  return found == x + n ? 0 : found - x;  // all of them NaN
}

// The same of columns side by side, `stride` elements from row to row.
template <bool kMin, typename T>
void ArgOfColumns(const T* x, int64_t length, int64_t stride, int64_t columns, int32_t* out) {
  using K = Keys<kMin, T>;
  using Key = decltype(K::Of(*x));
  Key best[kSideBySide];
  int32_t positions[kSideBySide] = {};
  std::transform(x, x + columns, best, K::Of);
  for (int64_t k = 1; k < length; ++k) {
    const T* values = x + k * stride;
    for (int64_t c = 0; c < columns; ++c) {
      const Key key = K::Of(values[c]);
      const bool better = Better<K::kAsMin, Key>(key, best[c]);
      positions[c] = better ? static_cast<int32_t>(k) : positions[c];
      best[c] = better ? key : best[c];
    }
  }
  std::copy_n(positions, columns, out);
}

// Outputs [begin, end), at most kSideBySide, to `out`. Short rows are transposed, and columns then.
template <bool kMin, typename T>
void ArgRange(const AxisLayout& layout, const T* x, int64_t begin, int64_t end, int32_t* out) {
  const int64_t length = layout.length;
  if (layout.inner == 1 && length < kSideBySide) {
    T columns[kSideBySide * kSideBySide];
    for (int64_t k = 0; k < length; ++k) {
      for (int64_t r = begin; r < end; ++r) columns[k * kSideBySide + r - begin] = x[r * length + k];
    }
    return ArgOfColumns<kMin>(columns, length, kSideBySide, end - begin, out);
  }
  for (int64_t i = begin; i < end;) {
    const int64_t column = i % layout.inner;
    const int64_t columns = std::min(layout.inner - column, end - i);
    const T* first = x + i / layout.inner * length * layout.inner + column;
    if (layout.inner == 1) {
      out[i - begin] = static_cast<int32_t>(ArgOfRow<kMin, T>(first, length));
    } else {
      ArgOfColumns<kMin>(first, length, layout.inner, columns, out + i - begin);
    }
    i += columns;
  }
}

// Of 2, 4 or 8 bytes, signed or not.
void StorePositions(const int32_t* positions, int64_t n, int64_t bytes, char* out) {
  if (bytes == 8) std::copy_n(positions, n, reinterpret_cast<int64_t*>(out));
  if (bytes == 4) std::copy_n(positions, n, reinterpret_cast<int32_t*>(out));
  if (bytes == 2) std::copy_n(positions, n, reinterpret_cast<uint16_t*>(out));
}

template <bool kMin>
absl::StatusOr<std::unique_ptr<Kernel>> MakeArgReduction(const OpInstance& instance) {
  const Shape& shape = instance.inputs[0].shape;
  const DataType index = instance.outputs[0].dtype;
  if (!IsInteger(index) || DataTypeSize(index) == 1) return UnsupportedType(instance, index);
  const AxisLayout layout = MakeAxisLayout(shape, instance.input_values[1].IntAt(0));
  if (layout.length > std::numeric_limits<int32_t>::max()) {
    return absl::UnimplementedError(absl::StrCat("no CPU kernel of op '", instance.op, "' for an axis of ", layout.length,
                                                 " elements (node '", instance.name, "')"));
  }
  const int64_t bytes = DataTypeSize(index);
  const auto make = [&](auto tag) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    using T = typename decltype(tag)::type;
    return MakeKernel([layout, bytes](const KernelContext& context) {
      const int64_t outputs = layout.outer * layout.inner;
      ParallelRange(context, outputs, kElementGrain / 4 / std::max<int64_t>(layout.length, 1),
                    [&](int64_t begin, int64_t end) {
                      int32_t positions[kSideBySide];
                      for (int64_t at = begin; at < end; at += kSideBySide) {
                        const int64_t last = std::min(at + kSideBySide, end);
                        ArgRange<kMin>(layout, context.input<T>(0), at, last, positions);
                        StorePositions(positions, last - at, bytes, context.output<char>(0) + at * bytes);
                      }
                    });
      return absl::OkStatus();
    });
  };
  if (instance.inputs[0].dtype == DataType::kBool) return make(TypeTag<uint8_t>());
  return DispatchNumeric(instance, instance.inputs[0].dtype, make);
}

}  // namespace

AxisLayout MakeAxisLayout(const Shape& shape, int64_t axis) {
  AxisLayout layout;
  if (axis < 0) axis += shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    (d < axis ? layout.outer : d == axis ? layout.length : layout.inner) *= shape.dim(d);
  }
  return layout;
}

void RegisterArgReductionKernels(KernelRegistry& registry) {
  AddKernel(registry, "ArgMax", MakeArgReduction<false>);
  AddKernel(registry, "ArgMin", MakeArgReduction<true>);
}

}  // namespace millrace::cpu
