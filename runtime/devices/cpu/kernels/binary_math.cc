// Powers, logarithms of products and other binary functions that cost more than arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/kernels/arctangent.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vector_math.h"

namespace millrace::cpu {
namespace {

namespace ei = Eigen::internal;

// In float over packets, in double by the standard library. Odd powers have the sign of x, those of -0 and those that are too large
// or too small as well.
struct FloatPow {
  template <typename P>
  static P Apply(const P& x, const P& y) {
    const P half = ei::pmul(y, ei::pset1<P>(0.5f));
    const P odd = ei::pandnot(ei::pcmp_eq(ei::pfloor(y), y), ei::pcmp_eq(ei::pfloor(half), half));
    return ei::por(ei::generic_pow(x, y), ei::pand(odd, ei::pand(x, ei::pset1<P>(-0.0f))));
  }
};
struct DoublePow {
  static double Apply(double x, double y) { return std::pow(x, y); }
};
template <typename T>
constexpr BinaryLoop kAnyPower = &LoopOver<DoublePow, double>;
template <>
constexpr BinaryLoop kAnyPower<float> = &PacketPairLoop<FloatPow, float>;

// Powers that a few exact operations give, in the special cases too: norms, GELU's cube, the gradients of both.
struct PowerTwo {
  template <typename T>
  static T Apply(T x) {
    return x * x;
  }
};
struct PowerThree {
  template <typename T>
  static T Apply(T x) {
    return x * x * x;
  }
};
struct PowerOne {
  template <typename T>
  static T Apply(T x) {
    return x;
  }
};
// -0 has the root 0, and minus infinity has one here.
struct PowerHalf {
  template <typename T>
  static T Apply(T x) {
    return x == -std::numeric_limits<T>::infinity() ? -x : std::sqrt(x + T{0});
  }
};
struct PowerMinusHalf {
  template <typename T>
  static T Apply(T x) {
    return T{1} / PowerHalf::Apply(x);
  }
};

// Null for other exponents.
template <typename T>
UnaryLoop PowerLoop(T exponent) {
  if (exponent == T{2}) return &UnaryLoopOver<PowerTwo, T>;
  if (exponent == T{3}) return &UnaryLoopOver<PowerThree, T>;
  if (exponent == T{1}) return &UnaryLoopOver<PowerOne, T>;
  if (exponent == T{0.5}) return &UnaryLoopOver<PowerHalf, T>;
  if (exponent == T{-0.5}) return &UnaryLoopOver<PowerMinusHalf, T>;
  if (exponent == T{-1}) return &UnaryLoopOver<Reciprocal, T>;
  return nullptr;
}

// One exponent for all is looked at once. Exponents of their own are, too, each: the power of two numbers does not depend
// on how they are repeated.
template <typename T>
void PowLoop(BinaryMode mode, const void* va, const void* vb, void* vout, int64_t n) {
  if (n == 0) return;
  const T *a = static_cast<const T*>(va), *b = static_cast<const T*>(vb);
  T* out = static_cast<T*>(vout);
  if (mode == BinaryMode::kVectorScalar) {
    const UnaryLoop power = PowerLoop(*b);
    power != nullptr ? power(a, out, n) : kAnyPower<T>(mode, a, b, out, n);
    return;
  }
  constexpr int64_t kRun = 256;
  T bases[kRun], exponents[kRun];  // the output may be the memory of either
  const T base = *a;
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t run = std::min(kRun, n - at);
    std::copy_n(b + at, run, exponents);
    if (mode == BinaryMode::kVectorVector) {
      std::copy_n(a + at, run, bases);
    } else {
      std::fill_n(bases, run, base);
    }
    kAnyPower<T>(BinaryMode::kVectorVector, bases, exponents, out + at, run);
    for (int64_t i = 0; i < run; ++i) {
      if (const UnaryLoop power = PowerLoop(exponents[i]); power != nullptr) power(&bases[i], &out[at + i], 1);
    }
  }
}
// Wraps around. The kernel has refused negative exponents.
struct IntegerPow {
  template <typename T>
  static T Apply(T base, T exponent) {
    uint64_t result = 1, factor = static_cast<uint64_t>(base);
    for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
      if (left & 1) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  }
};

template <typename T>
void IntegerPowLoop(BinaryMode mode, const void* va, const void* vb, void* vout, int64_t n) {
  if (mode != BinaryMode::kVectorScalar) return LoopOver<IntegerPow, T>(mode, va, vb, vout, n);
  // One exponent for all: loops over numbers inside those over its bits vectorise.
  using Bits = std::make_unsigned_t<T>;
  constexpr int64_t kRun = 256;
  Bits factors[kRun], powers[kRun];
  const auto exponent = static_cast<uint64_t>(*static_cast<const T*>(vb));
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t run = std::min(kRun, n - at);
    std::copy_n(static_cast<const T*>(va) + at, run, factors);
    std::fill_n(powers, run, Bits{1});
    for (uint64_t left = exponent; left != 0; left >>= 1) {
      for (int64_t i = 0; i < run && (left & 1) != 0; ++i) powers[i] *= factors[i];
      for (int64_t i = 0; i < run && left > 1; ++i) factors[i] *= factors[i];
    }
    std::copy_n(powers, run, static_cast<T*>(vout) + at);
  }
}

struct Xlogy {
  template <typename P>
  static P Apply(const P& x, const P& y) {
    const P zero = ei::pzero(x);
    return ei::pselect(ei::pcmp_eq(x, zero), zero, ei::pmul(x, ei::plog(y)));
  }
};
struct Xlog1py {
  template <typename P>
  static P Apply(const P& x, const P& y) {
    const P zero = ei::pzero(x);
    return ei::pselect(ei::pcmp_eq(x, zero), zero, ei::pmul(x, ei::generic_plog1p(y)));
  }
};
struct NextAfter {
  template <typename T>
  static T Apply(T x, T towards) {
    return std::nextafter(x, towards);
  }
};

template <typename Op>
BinaryLoops Packets() {
  return {.on_float = &PacketPairLoop<Op, float>, .on_double = &PacketPairLoop<Op, double>};
}

}  // namespace

void RegisterBinaryMathKernels(KernelRegistry& registry) {
  const BinaryOptions math = {.grain = kMathGrain};
  const BinaryLoops pow = {.on_float = &PowLoop<float>,
                           .on_double = &PowLoop<double>,
                           .on_int32 = &IntegerPowLoop<int32_t>,
                           .on_int64 = &IntegerPowLoop<int64_t>,
                           .on_uint64 = &IntegerPowLoop<uint64_t>};
  RegisterBinary(registry, "Pow", pow, {.grain = kMathGrain, .check = DivisorCheck::kNegative});
  RegisterBinary(registry, "Xlogy", Packets<Xlogy>(), math);
  RegisterBinary(registry, "Xlog1py", Packets<Xlog1py>(), math);
  RegisterBinary(registry, "Atan2", Packets<Atan2>(), math);
  RegisterBinary(registry, "NextAfter", FloatingLoops<NextAfter>(), {.grain = kSpecialGrain});
}

}  // namespace millrace::cpu
