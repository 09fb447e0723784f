// Powers, logarithms of products and other binary functions that cost more than arithmetic.
#include <cmath>

#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vector_math.h"

namespace millrace::cpu {
namespace {

namespace ei = Eigen::internal;

// In float over packets, in double by the standard library.
struct FloatPow {
  template <typename P>
  static P Apply(const P& x, const P& y) {
    return ei::generic_pow(x, y);
  }
};
struct DoublePow {
  static double Apply(double x, double y) { return std::pow(x, y); }
};
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
struct Atan2 {
  template <typename T>
  static T Apply(T y, T x) {
    return std::atan2(y, x);
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
  BinaryLoops pow = IntegerLoops<IntegerPow>();
  pow.on_float = &PacketPairLoop<FloatPow, float>;
  pow.on_double = &LoopOver<DoublePow, double>;
  RegisterBinary(registry, "Pow", pow, {.grain = kMathGrain, .check = DivisorCheck::kNegative});
  RegisterBinary(registry, "Xlogy", Packets<Xlogy>(), math);
  RegisterBinary(registry, "Xlog1py", Packets<Xlog1py>(), math);
  RegisterBinary(registry, "Atan2", FloatingLoops<Atan2>(), {.grain = kSpecialGrain});
  RegisterBinary(registry, "NextAfter", FloatingLoops<NextAfter>(), {.grain = kSpecialGrain});
}

}  // namespace millrace::cpu
