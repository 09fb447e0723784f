// The update rules of real numbers, those of update_rules.h among them, in one table.
#include "cpu/kernels/update_rules.h"

#include <cmath>

namespace millrace::cpu {
namespace {

template <typename T>
T Sign(T x) {
  return x != x ? x : static_cast<T>((x > T{0}) - (x < T{0}));
}
template <typename T>
T PositivePart(T x) {
  return x < T{0} ? T{0} : x;
}

// Towards g.
template <typename T>
struct MovingAverage {
  explicit MovingAverage(const double* c) : rate(c[0]) {}
  void operator()(T g, T& var) const { var -= (var - g) * rate; }
  T rate;
};

template <typename T>
struct AdamWithAmsgrad : Adam<T> {
  using Adam<T>::Adam;
  void operator()(T g, T& var, T& m, T& v, T& vhat) const {
    m += (g - m) * (T{1} - this->beta1);
    v += (g * g - v) * (T{1} - this->beta2);
    vhat = vhat < v ? v : vhat;
    var -= (m * this->alpha) / (std::sqrt(vhat) + this->epsilon);
  }
};

template <typename T>
struct AdaMax {
  explicit AdaMax(const double* c) : beta1(c[2]), beta2(c[3]), epsilon(c[4]), rate(T(c[1]) / (T{1} - T(c[0]))) {}
  void operator()(T g, T& var, T& m, T& v) const {
    m += (g - m) * (T{1} - beta1);
    const T decayed = beta2 * v, size = std::fabs(g);
    v = decayed < size ? size : decayed;
    var -= rate * (m / (v + epsilon));
  }
  T beta1, beta2, epsilon, rate;
};

template <typename T>
struct AdagradDA {
  explicit AdagradDA(const double* c) : lr(c[0]), l1_steps(T(c[3]) * T(c[1])), l2_steps(T(c[2]) * T(c[3]) * T(c[0])) {}
  void operator()(T g, T& var, T& sum, T& squares) const {
    sum += g;
    squares += g * g;
    const T shrunk = l1_steps > T{0} ? Sign(sum) * PositivePart(std::fabs(sum) - l1_steps) : sum;
    var = (T{-1} * lr * shrunk) / (l2_steps + std::sqrt(squares));
  }
  T lr, l1_steps, l2_steps;
};

// The proximal step from `at` with rate `lr`.
template <typename T>
T Proximal(T at, T lr, T l1, T l2) {
  const T shrunk = l1 > T{0} ? Sign(at) * PositivePart(std::fabs(at) - lr * l1) : at;
  return shrunk / (T{1} + l2 * lr);
}
template <typename T>
struct ProximalGradientDescent {
  explicit ProximalGradientDescent(const double* c) : lr(c[0]), l1(c[1]), l2(c[2]) {}
  void operator()(T g, T& var) const { var = Proximal(var - g * lr, lr, l1, l2); }
  T lr, l1, l2;
};
template <typename T>
struct ProximalAdagrad {
  explicit ProximalAdagrad(const double* c) : lr(c[0]), l1(c[1]), l2(c[2]) {}
  void operator()(T g, T& var, T& accum) const {
    accum += g * g;
    const T rate = lr * (T{1} / std::sqrt(accum));
    var = Proximal(var - g * rate, rate, l1, l2);
  }
  T lr, l1, l2;
};

// kScaled: the attribute multiply_linear_by_lr. kShrinks: the V2 ops' l2_shrinkage.
template <typename T, bool kShrinks, bool kScaled>
struct FtrlRule {
  explicit FtrlRule(const double* c)
      : lr(c[0]), l1(c[1]), l2(c[2]), shrinkage(kShrinks ? c[3] : 0), power(-c[kShrinks ? 4 : 3]) {}
  T Power(T x) const { return power == T(0.5) ? std::sqrt(x) : std::pow(x, power); }
  void operator()(T g, T& var, T& accum, T& linear) const {
    const T shrunk = kShrinks ? g + T{2} * shrinkage * var : g;
    const T new_accum = accum + g * g;
    const T new_power = Power(new_accum), growth = new_power - Power(accum);
    const T threshold = kScaled ? l1 * lr : l1;
    linear += kScaled ? shrunk * lr - growth * var : shrunk - growth / lr * var;
    const T divisor = kScaled ? new_power + T{2} * l2 * lr : new_power / lr + T{2} * l2;
    var = std::fabs(linear) > threshold ? (threshold * Sign(linear) - linear) / divisor : T{0};
    accum = new_accum;
  }
  T lr, l1, l2, shrinkage, power;
};
template <typename T>
using Ftrl = FtrlRule<T, false, false>;
template <typename T>
using ScaledFtrl = FtrlRule<T, false, true>;
template <typename T>
using FtrlV2 = FtrlRule<T, true, false>;
template <typename T>
using ScaledFtrlV2 = FtrlRule<T, true, true>;

template <typename T>
struct AddSign {
  explicit AddSign(const double* c) : lr(c[0]), alpha(c[1]), decay(c[2]), beta(c[3]) {}
  void operator()(T g, T& var, T& m) const {
    m = m * beta + g * (T{1} - beta);
    var -= lr * (alpha + decay * (Sign(g) * Sign(m))) * g;
  }
  T lr, alpha, decay, beta;
};
template <typename T>
struct PowerSign {
  explicit PowerSign(const double* c)
      : lr(c[0]), beta(c[3]), grown(std::exp(T(c[1]) * T(c[2]))), shrunk(std::exp(-(T(c[1]) * T(c[2])))) {}
  void operator()(T g, T& var, T& m) const {
    m = m * beta + g * (T{1} - beta);
    const T agreement = Sign(g) * Sign(m);
    const T scale = agreement > T{0} ? grown : agreement < T{0} ? shrunk : T{1} + agreement;  // 1, or NaN
    var -= lr * scale * g;
  }
  T lr, beta, grown, shrunk;
};

template <template <typename> class Rule, typename T, int kSlots>
void UpdateOver(void* const* slots, const void* gradient, const double* scalars, int64_t n) {
  UpdateElements<Rule, T, kSlots>(slots, gradient, Rule<T>(scalars), n);
}

template <template <typename> class Rule, int kSlots>
constexpr UpdateLoops Loops() {
  return {&UpdateOver<Rule, float, kSlots>, &UpdateOver<Rule, double, kSlots>};
}

}  // namespace

absl::Span<const UpdateRule> UpdateRules() {
  static constexpr UpdateRule kRules[] = {
      {"GradientDescent", 1, 2, true, false, Loops<GradientDescent, 1>()},
      {"Momentum", 2, 3, true, true, Loops<Momentum, 2>(), "use_nesterov", true, Loops<NesterovMomentum, 2>()},
      {"KerasMomentum", 2, 3, false, true, Loops<KerasMomentum, 2>(), "use_nesterov", true,
       Loops<KerasNesterovMomentum, 2>()},
      {"Adam", 3, 9, true, false, Loops<Adam, 3>(), "use_nesterov", true, Loops<NesterovAdam, 3>()},
      {"AdamWithAmsgrad", 4, 10, false, false, Loops<AdamWithAmsgrad, 4>()},
      {"AdaMax", 3, 8, true, false, Loops<AdaMax, 3>()},
      {"Adagrad", 2, 3, true, true, Loops<Adagrad, 2>(), "update_slots", false, Loops<FrozenAdagrad, 2>()},
      {"AdagradV2", 2, 4, true, true, Loops<AdagradV2, 2>(), "update_slots", false, Loops<FrozenAdagradV2, 2>()},
      {"AdagradDA", 3, 3, true, true, Loops<AdagradDA, 3>()},
      {"ProximalGradientDescent", 1, 4, true, true, Loops<ProximalGradientDescent, 1>()},
      {"ProximalAdagrad", 2, 5, true, true, Loops<ProximalAdagrad, 2>()},
      {"Adadelta", 3, 6, true, true, Loops<Adadelta, 3>()},
      {"Ftrl", 3, 3, true, true, Loops<Ftrl, 3>(), "multiply_linear_by_lr", true, Loops<ScaledFtrl, 3>()},
      {"FtrlV2", 3, 3, true, true, Loops<FtrlV2, 3>(), "multiply_linear_by_lr", true, Loops<ScaledFtrlV2, 3>()},
      {"RMSProp", 3, 7, true, true, Loops<RMSProp, 3>()},
      {"CenteredRMSProp", 4, 8, true, true, Loops<CenteredRMSProp, 4>()},
      {"AddSign", 2, 6, true, false, Loops<AddSign, 2>()},
      {"PowerSign", 2, 6, true, false, Loops<PowerSign, 2>()},
  };
  return kRules;
}

const UpdateRule& MovingAverageRule() {
  static constexpr UpdateRule kRule = {"MovingAverage", 1, 2, false, false, Loops<MovingAverage, 1>()};
  return kRule;
}

}  // namespace millrace::cpu
