// The update rules of complex numbers: squares are squares, not magnitudes, and roots are the principal ones.
#include <limits>

#include "cpu/kernels/complex.h"
#include "cpu/kernels/update_rules.h"

namespace millrace::cpu {
namespace {

// A complex number whose products take no second look at infinities (see Times).
template <typename R>
struct Number {
  using Std = std::complex<R>;
  Number(R real = 0) : value(real) {}
  explicit Number(Std value) : value(value) {}

  Number& operator+=(Number b) { return *this = *this + b; }
  Number& operator-=(Number b) { return *this = *this - b; }
  friend Number operator+(Number a, Number b) { return Number(a.value + b.value); }
  friend Number operator-(Number a, Number b) { return Number(a.value - b.value); }
  friend Number operator*(Number a, Number b) { return Number(Times(a.value, b.value)); }
  friend Number operator/(Number a, Number b) { return Number(a.value / b.value); }
  friend Number Root(Number x) { return Number(std::sqrt(x.value)); }
  friend Number ReciprocalRoot(Number x) {
    return x.value == Std(0) ? Number(std::numeric_limits<R>::infinity()) : Number(R{1}) / Root(x);
  }

  Std value;
};

template <template <typename> class Rule, typename R, int kSlots>
void UpdateOver(void* const* slots, const void* gradient, const double* scalars, int64_t n) {
  Number<R> c[kMaxScalars];
  for (int k = 0; k < kMaxScalars; ++k) c[k].value = {static_cast<R>(scalars[k]), static_cast<R>(scalars[kMaxScalars + k])};
  UpdateElements<Rule, Number<R>, kSlots>(slots, gradient, Rule<Number<R>>(c), n);
}

template <template <typename> class Rule, int kSlots>
constexpr UpdateLoops Loops() {
  return {&UpdateOver<Rule, float, kSlots>, &UpdateOver<Rule, double, kSlots>};
}

struct Entry {
  std::string_view rule;
  UpdateLoops loops, other = {};
};

}  // namespace

UpdateLoops ComplexUpdateLoops(std::string_view rule, bool other) {
  static constexpr Entry kEntries[] = {
      {"GradientDescent", Loops<GradientDescent, 1>()},
      {"Momentum", Loops<Momentum, 2>(), Loops<NesterovMomentum, 2>()},
      {"KerasMomentum", Loops<KerasMomentum, 2>(), Loops<KerasNesterovMomentum, 2>()},
      {"Adam", Loops<Adam, 3>(), Loops<NesterovAdam, 3>()},
      {"Adagrad", Loops<Adagrad, 2>(), Loops<FrozenAdagrad, 2>()},
      {"AdagradV2", Loops<AdagradV2, 2>(), Loops<FrozenAdagradV2, 2>()},
      {"Adadelta", Loops<Adadelta, 3>()},
      {"RMSProp", Loops<RMSProp, 3>()},
      {"CenteredRMSProp", Loops<CenteredRMSProp, 4>()},
  };
  for (const Entry& entry : kEntries) {
    if (entry.rule == rule) return other ? entry.other : entry.loops;
  }
  return {};
}

}  // namespace millrace::cpu
