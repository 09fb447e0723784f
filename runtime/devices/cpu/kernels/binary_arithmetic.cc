// Add, Sub, Mul, the divisions and remainders, Maximum, Minimum and their kin.
#include <Eigen/Core>
#include <cmath>
#include <type_traits>

#include "cpu/kernels/arithmetic.h"
#include "cpu/kernels/binary.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {
namespace {

struct Add {
  template <typename T>
  static T Apply(T a, T b) {
    return Wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Sub {
  template <typename T>
  static T Apply(T a, T b) {
    return Wrapping(a, b, [](auto x, auto y) { return x - y; });
  }
};
struct Mul {
  template <typename T>
  static T Apply(T a, T b) {
    return Wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct SquaredDifference {
  template <typename T>
  static T Apply(T a, T b) {
    return Mul::Apply(Sub::Apply(a, b), Sub::Apply(a, b));
  }
};

// A NaN in either operand is the result.
struct Maximum {
  template <typename T>
  static T Apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <typename T>
  static T Apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <typename T>
T Remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(a, b);
  else if constexpr (std::is_signed_v<T>)
    return b == -1 ? T{0} : a % b;
  else
    return a % b;
}

// Real division of floats, division towards zero of integers.
struct Div {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a / b;
    else
      return Quotient(a, b);
  }
};
struct TruncateDiv {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::trunc(a / b);
    else
      return Quotient(a, b);
  }
};
struct FloorDiv {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::floor(a / b);
    } else {
      const T quotient = Quotient(a, b);
      return (a < 0) != (b < 0) && Remainder(a, b) != 0 ? quotient - 1 : quotient;
    }
  }
};
struct TruncateMod {
  template <typename T>
  static T Apply(T a, T b) {
    return Remainder(a, b);
  }
};
// The remainder has the divisor's sign.
struct FloorMod {
  template <typename T>
  static T Apply(T a, T b) {
    const T remainder = Remainder(a, b);
    return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
  }
};

struct DivNoNan {
  template <typename T>
  static T Apply(T a, T b) {
    return b == T{0} ? T{0} : a / b;
  }
};
struct MulNoNan {
  template <typename T>
  static T Apply(T a, T b) {
    return b == T{0} ? T{0} : a * b;
  }
};
struct Xdivy {
  template <typename T>
  static T Apply(T a, T b) {
    return a == T{0} ? T{0} : a / b;
  }
};

// Of half and bfloat16, quotients are rounded to the type before they are made whole.
template <typename Whole, typename Narrow>
struct OfNarrow {
  static float Apply(float a, float b) { return Whole::Apply(static_cast<float>(static_cast<Narrow>(a / b)), 1.0f); }
};
template <typename Whole>
void RegisterWholeDivision(KernelRegistry& registry, const char* op, const BinaryOptions& options) {
  AddKernel(registry, op, [options](const OpInstance& instance) {
    BinaryLoops loops = NumericLoops<Whole>();
    if (instance.inputs[0].dtype == DataType::kHalf) loops.on_float = &LoopOver<OfNarrow<Whole, Eigen::half>, float>;
    if (instance.inputs[0].dtype == DataType::kBfloat16) loops.on_float = &LoopOver<OfNarrow<Whole, Eigen::bfloat16>, float>;
    return MakeBinaryKernel(instance, loops, options, instance.inputs[0].shape, instance.inputs[1].shape, instance.outputs[0].shape);
  });
}

}  // namespace

BinaryLoops AddLoops() { return NumericLoops<Add>(); }
BinaryLoops SubLoops() { return NumericLoops<Sub>(); }
BinaryLoops MulLoops() { return NumericLoops<Mul>(); }
BinaryLoops DivLoops() { return NumericLoops<Div>(); }
BinaryLoops MaximumLoops() { return NumericLoops<Maximum>(); }
BinaryLoops MinimumLoops() { return NumericLoops<Minimum>(); }

void RegisterArithmeticKernels(KernelRegistry& registry) {
  for (const char* op : {"Add", "AddV2"}) RegisterBinary(registry, op, AddLoops());
  RegisterBinary(registry, "Sub", SubLoops());
  RegisterBinary(registry, "Mul", MulLoops());
  RegisterBinary(registry, "Maximum", MaximumLoops());
  RegisterBinary(registry, "Minimum", MinimumLoops());
  RegisterBinary(registry, "SquaredDifference", NumericLoops<SquaredDifference>());
  const BinaryOptions divides = {.grain = kElementGrain / 4, .check = DivisorCheck::kZero};
  for (const char* op : {"RealDiv", "Div"}) RegisterBinary(registry, op, DivLoops(), divides);
  RegisterWholeDivision<TruncateDiv>(registry, "TruncateDiv", divides);
  RegisterWholeDivision<FloorDiv>(registry, "FloorDiv", divides);
  RegisterBinary(registry, "FloorMod", NumericLoops<FloorMod>(), divides);
  for (const char* op : {"Mod", "TruncateMod"}) RegisterBinary(registry, op, NumericLoops<TruncateMod>(), divides);
  RegisterBinary(registry, "DivNoNan", FloatingLoops<DivNoNan>());
  RegisterBinary(registry, "MulNoNan", FloatingLoops<MulNoNan>());
  RegisterBinary(registry, "Xdivy", FloatingLoops<Xdivy>());
}

}  // namespace millrace::cpu
