#include "cpu/kernels/convert.h"

#include <Eigen/Core>
#include <bit>
#include <limits>
#include <type_traits>

#include "graph/float8.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace millrace::cpu {
namespace {

struct Bfloat16 {
  uint16_t bits;
};

template <typename From, typename To>
To ConvertOne(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) {
    return static_cast<To>(static_cast<int32_t>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint32_t>) {
    return static_cast<To>(static_cast<int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void Convert(const void* from, void* to, int64_t n) {
  const From* in = static_cast<const From*>(from);
  To* out = static_cast<To*>(to);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = ConvertOne<From, To>(in[i]);
}

#ifdef __F16C__
constexpr int64_t kHalfLanes = 8;

void HalfToFloat(const void* from, void* to, int64_t n) {
  const uint16_t* in = static_cast<const uint16_t*>(from);
  float* out = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + kHalfLanes <= n; i += kHalfLanes) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  for (; i < n; ++i) out[i] = _cvtsh_ss(in[i]);
}

void FloatToHalf(const void* from, void* to, int64_t n) {
  const float* in = static_cast<const float*>(from);
  uint16_t* out = static_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; i + kHalfLanes <= n; i += kHalfLanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) out[i] = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
}
#else
void HalfToFloat(const void* from, void* to, int64_t n) {
  using In = Eigen::Map<const Eigen::Array<Eigen::half, Eigen::Dynamic, 1>>;
  Eigen::Map<Eigen::ArrayXf>(static_cast<float*>(to), n) = In(static_cast<const Eigen::half*>(from), n).cast<float>();
}

void FloatToHalf(const void* from, void* to, int64_t n) {
  using Out = Eigen::Map<Eigen::Array<Eigen::half, Eigen::Dynamic, 1>>;
  Out(static_cast<Eigen::half*>(to), n) =
      Eigen::Map<const Eigen::ArrayXf>(static_cast<const float*>(from), n).cast<Eigen::half>();
}
#endif

void Bfloat16ToFloat(const void* from, void* to, int64_t n) {
  const uint16_t* in = static_cast<const uint16_t*>(from);
  uint32_t* out = static_cast<uint32_t*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint32_t>(in[i]) << 16;
}

// Not the processor's instruction, which takes denormals for zero.
void FloatToBfloat16(const void* from, void* to, int64_t n) {
  const float* in = static_cast<const float*>(from);
  uint16_t* out = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t nan = ((bits >> 16) & 0x8000) | 0x7fc0;
    out[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
}

template <typename Format>
void FromFloat8(const void* from, void* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(to)[i] = Float8ToFloat<Format>(static_cast<const uint8_t*>(from)[i]);
}

template <typename Format, typename From>
void IntoFloat8(const void* from, void* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(to)[i] = ToFloat8<Format>(static_cast<const From*>(from)[i]);
}

// Of float and double alone: TensorFlow makes no numbers of 8 bits of integers.
template <typename From>
ConvertFn Float8From(DataType to) {
  if (to == DataType::kFloat8E5M2) return &IntoFloat8<E5M2, From>;
  if (to == DataType::kFloat8E4M3fn) return &IntoFloat8<E4M3fn, From>;
  return nullptr;
}

// Clears the last kBits bits of numbers; those of a NaN stay, which might be all that it has. What is left is no finer than normal numbers of To.
template <typename From, typename Bits, int kBits, typename To>
void Truncate(const void* from, void* to, int64_t n) {
  constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<From>::infinity());
  const From* in = static_cast<const From*>(from);
  To* out = static_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) {
    const Bits bits = std::bit_cast<Bits>(in[i]), rest = (Bits{1} << kBits) - 1;
    const bool nan = bits << 1 > kInfinity << 1;  // not by comparing the number with itself, which g++ 12 makes wrong code of here
    out[i] = static_cast<To>(std::bit_cast<From>(nan ? bits : bits & ~rest));
  }
}

// Of 16 bits the last kBits are cleared, but of a NaN.
template <int kBits, uint16_t kInfinity, void (*kLoad)(const void*, void*, int64_t)>
void TruncateLoaded(const void* from, void* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = static_cast<const uint16_t*>(from)[i];
    const uint16_t kept = (bits & 0x7fff) > kInfinity ? bits : static_cast<uint16_t>(bits >> kBits << kBits);
    kLoad(&kept, static_cast<float*>(to) + i, 1);
  }
}

// The last of three bits, but of a NaN.
void TruncateE4M3fn(const void* from, void* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t code = static_cast<const uint8_t*>(from)[i];
    static_cast<float*>(to)[i] = Float8ToFloat<E4M3fn>((code & 0x7f) == 0x7f ? code : code & 0xfe);
  }
}

// From the type of a number as it is computed (float, double, int64, uint64) to any stored type.
template <typename From>
ConvertFn StoreFrom(DataType to) {
  switch (to) {
    case DataType::kFloat:
      return &Convert<From, float>;
    case DataType::kDouble:
      return &Convert<From, double>;
    case DataType::kInt8:
      return &Convert<From, int8_t>;
    case DataType::kInt16:
      return &Convert<From, int16_t>;
    case DataType::kInt32:
      return &Convert<From, int32_t>;
    case DataType::kInt64:
      return &Convert<From, int64_t>;
    case DataType::kUint8:
      return &Convert<From, uint8_t>;
    case DataType::kUint16:
      return &Convert<From, uint16_t>;
    case DataType::kUint32:
      return &Convert<From, uint32_t>;
    case DataType::kUint64:
      return &Convert<From, uint64_t>;
    case DataType::kBool:
      return &Convert<From, bool>;
    default:
      return nullptr;
  }
}

ConvertFn LoadAsInt64(DataType from) {
  switch (from) {
    case DataType::kInt8:
      return &Convert<int8_t, int64_t>;
    case DataType::kInt16:
      return &Convert<int16_t, int64_t>;
    case DataType::kInt32:
      return &Convert<int32_t, int64_t>;
    case DataType::kUint8:
      return &Convert<uint8_t, int64_t>;
    case DataType::kUint16:
      return &Convert<uint16_t, int64_t>;
    case DataType::kUint32:
      return &Convert<uint32_t, int64_t>;
    case DataType::kBool:
      return &Convert<uint8_t, int64_t>;
    default:
      return nullptr;
  }
}

ConvertFn LoadAsFloat(DataType from) {
  switch (from) {
    case DataType::kFloat8E5M2:
      return &FromFloat8<E5M2>;
    case DataType::kFloat8E4M3fn:
      return &FromFloat8<E4M3fn>;
    case DataType::kHalf:
      return &HalfToFloat;
    case DataType::kBfloat16:
      return &Bfloat16ToFloat;
    case DataType::kInt8:
      return &Convert<int8_t, float>;
    case DataType::kInt16:
      return &Convert<int16_t, float>;
    case DataType::kInt32:
      return &Convert<int32_t, float>;
    case DataType::kUint8:
    case DataType::kBool:
      return &Convert<uint8_t, float>;
    case DataType::kUint16:
      return &Convert<uint16_t, float>;
    case DataType::kUint32:
      return &Convert<uint32_t, float>;
    default:
      return nullptr;
  }
}

ConvertFn FloatTo(DataType to) {
  if (IsFloat8(to)) return Float8From<float>(to);
  if (to == DataType::kHalf) return &FloatToHalf;
  if (to == DataType::kBfloat16) return &FloatToBfloat16;
  return StoreFrom<float>(to);
}

// One hop: out of the types that are computed as they are stored, and into float and int64.
ConvertFn Direct(DataType from, DataType to) {
  if (from == to && IsFloat8(from)) return &Convert<uint8_t, uint8_t>;  // as it is, a NaN too
  if (from == DataType::kFloat) return FloatTo(to);
  if (from == DataType::kDouble) return IsFloat8(to) ? Float8From<double>(to) : StoreFrom<double>(to);
  if (from == DataType::kInt64) return StoreFrom<int64_t>(to);
  if (from == DataType::kUint64) return StoreFrom<uint64_t>(to);
  if (to == DataType::kFloat) return LoadAsFloat(from);
  if (to == DataType::kInt64) return LoadAsInt64(from);
  return nullptr;
}

// The type that a two-hop conversion goes over: it holds every value of `from`.
DataType Middle(DataType from) {
  if (from == DataType::kHalf || from == DataType::kBfloat16 || IsFloat8(from)) return DataType::kFloat;
  if (LoadAsInt64(from) != nullptr) return DataType::kInt64;
  return DataType::kInvalid;
}

template <typename Format>
Conversion TruncatingToFloat8(DataType from) {
  constexpr int kKept = Format::kFractionBits;
  const ConvertFn into = &IntoFloat8<Format, float>;
  if (from == DataType::kFloat) return {&Truncate<float, uint32_t, 23 - kKept, float>, into};
  if (from == DataType::kDouble) return {&Truncate<double, uint64_t, 52 - kKept, float>, into};
  if (from == DataType::kHalf) return {&TruncateLoaded<10 - kKept, 0x7c00, &HalfToFloat>, into};
  if (from == DataType::kBfloat16) return {&TruncateLoaded<7 - kKept, 0x7f80, &Bfloat16ToFloat>, into};
  if (from == DataType::kFloat8E4M3fn && kKept == E5M2::kFractionBits) return {&TruncateE4M3fn, into};
  return {};
}

}  // namespace

Widening WideningOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat:
    case DataType::kDouble:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint64:
      return {.compute = dtype};
    case DataType::kHalf:
      return {DataType::kFloat, &HalfToFloat, &FloatToHalf};
    case DataType::kBfloat16:
      return {DataType::kFloat, &Bfloat16ToFloat, &FloatToBfloat16};
    default:
      break;
  }
  ConvertFn load = LoadAsInt64(dtype);
  if (load == nullptr) return {};
  return {DataType::kInt64, load, StoreFrom<int64_t>(dtype)};
}

Conversion ConversionOf(DataType from, DataType to) {
  if (IsFloat8(to) && !IsFloating(from) && !IsFloat8(from)) return {};
  if (ConvertFn direct = Direct(from, to)) return {.first = direct};
  // double and the 64-bit integers reach the 16-bit floats over float, as Eigen's conversions do.
  const bool wide = from == DataType::kDouble || from == DataType::kInt64 || from == DataType::kUint64;
  DataType middle = wide ? DataType::kFloat : Middle(from);
  if (Direct(middle, to) == nullptr) middle = DataType::kFloat;
  ConvertFn first = Direct(from, middle), second = Direct(middle, to);
  if (first == nullptr || second == nullptr) return {};
  return {first, second};
}

Conversion TruncatingConversionOf(DataType from, DataType to) {
  if (IsFloat8(to)) {
    const Conversion conversion = to == DataType::kFloat8E5M2 ? TruncatingToFloat8<E5M2>(from) : TruncatingToFloat8<E4M3fn>(from);
    if (conversion.covered()) return conversion;
  }
  if (from == DataType::kFloat && to == DataType::kHalf) return {&Truncate<float, uint32_t, 13, float>, &FloatToHalf};
  if (from == DataType::kFloat && to == DataType::kBfloat16) return {&Truncate<float, uint32_t, 16, float>, &FloatToBfloat16};
  if (from == DataType::kDouble && to == DataType::kFloat) return {&Truncate<double, uint64_t, 29, float>};
  if (from == DataType::kDouble && to == DataType::kHalf) return {&Truncate<double, uint64_t, 42, float>, &FloatToHalf};
  return ConversionOf(from, to);
}

}  // namespace millrace::cpu
