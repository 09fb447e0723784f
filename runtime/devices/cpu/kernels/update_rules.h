// The update rules that complex numbers have too, each as TensorFlow's kernel computes it, rounding by rounding.
//
// A rule is made of the scalar inputs in the op's order; calling it updates one element of the variable and its slots
// by the gradient. Root and ReciprocalRoot of complex numbers come with their type.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UPDATE_RULES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UPDATE_RULES_H_

#include <cmath>
#include <concepts>

#include "cpu/kernels/optimizer.h"

namespace millrace::cpu {

template <std::floating_point T>
T Root(T x) {
  return std::sqrt(x);
}
template <std::floating_point T>
T ReciprocalRoot(T x) {
  return T{1} / std::sqrt(x);
}

template <typename T>
struct GradientDescent {
  explicit GradientDescent(const auto* c) : alpha(c[0]) {}
  void operator()(T g, T& var) const { var -= alpha * g; }
  T alpha;
};

template <typename T, bool kNesterov>
struct MomentumRule {
  explicit MomentumRule(const auto* c) : lr(c[0]), momentum(c[1]) {}
  void operator()(T g, T& var, T& accum) const {
    accum = accum * momentum + g;
    var -= kNesterov ? g * lr + accum * momentum * lr : accum * lr;
  }
  T lr, momentum;
};
template <typename T>
using Momentum = MomentumRule<T, false>;
template <typename T>
using NesterovMomentum = MomentumRule<T, true>;

template <typename T, bool kNesterov>
struct KerasMomentumRule {
  explicit KerasMomentumRule(const auto* c) : lr(c[0]), momentum(c[1]) {}
  void operator()(T g, T& var, T& accum) const {
    accum = accum * momentum - g * lr;
    var += kNesterov ? accum * momentum - g * lr : accum;
  }
  T lr, momentum;
};
template <typename T>
using KerasMomentum = KerasMomentumRule<T, false>;
template <typename T>
using KerasNesterovMomentum = KerasMomentumRule<T, true>;

template <typename T, bool kNesterov>
struct AdamRule {
  explicit AdamRule(const auto* c)
      : beta1(c[3]), beta2(c[4]), epsilon(c[5]), alpha(T(c[2]) * Root(T{1} - T(c[1])) / (T{1} - T(c[0]))) {}
  void operator()(T g, T& var, T& m, T& v) const {
    m += (g - m) * (T{1} - beta1);
    v += (g * g - v) * (T{1} - beta2);
    const T step = kNesterov ? (g * (T{1} - beta1) + beta1 * m) * alpha : m * alpha;
    var -= step / (Root(v) + epsilon);
  }
  T beta1, beta2, epsilon, alpha;
};
template <typename T>
using Adam = AdamRule<T, false>;
template <typename T>
using NesterovAdam = AdamRule<T, true>;

template <typename T, bool kUpdateSlots>
struct AdagradRule {
  explicit AdagradRule(const auto* c) : lr(c[0]) {}
  void operator()(T g, T& var, T& accum) const {
    if (kUpdateSlots) accum += g * g;
    var -= g * lr * ReciprocalRoot(accum);
  }
  T lr;
};
template <typename T>
using Adagrad = AdagradRule<T, true>;
template <typename T>
using FrozenAdagrad = AdagradRule<T, false>;

template <typename T, bool kUpdateSlots>
struct AdagradV2Rule {
  explicit AdagradV2Rule(const auto* c) : lr(c[0]), epsilon(c[1]) {}
  void operator()(T g, T& var, T& accum) const {
    if (kUpdateSlots) accum += g * g;
    var -= g * lr / (Root(accum) + epsilon);
  }
  T lr, epsilon;
};
template <typename T>
using AdagradV2 = AdagradV2Rule<T, true>;
template <typename T>
using FrozenAdagradV2 = AdagradV2Rule<T, false>;

template <typename T>
struct Adadelta {
  explicit Adadelta(const auto* c) : lr(c[0]), rho(c[1]), epsilon(c[2]) {}
  void operator()(T g, T& var, T& accum, T& accum_update) const {
    accum = accum * rho + g * g * (T{1} - rho);
    const T update = Root(accum_update + epsilon) * ReciprocalRoot(accum + epsilon) * g;
    var -= update * lr;
    accum_update = accum_update * rho + update * update * (T{1} - rho);
  }
  T lr, rho, epsilon;
};

template <typename T>
struct RMSProp {
  explicit RMSProp(const auto* c) : lr(c[0]), rho(c[1]), momentum(c[2]), epsilon(c[3]) {}
  void operator()(T g, T& var, T& ms, T& mom) const {
    ms += (g * g - ms) * (T{1} - rho);
    mom = mom * momentum + (g * lr) / Root(ms + epsilon);
    var -= mom;
  }
  T lr, rho, momentum, epsilon;
};
template <typename T>
struct CenteredRMSProp {
  explicit CenteredRMSProp(const auto* c) : lr(c[0]), rho(c[1]), momentum(c[2]), epsilon(c[3]) {}
  void operator()(T g, T& var, T& mg, T& ms, T& mom) const {
    ms += (g * g - ms) * (T{1} - rho);
    mg += (g - mg) * (T{1} - rho);
    mom = mom * momentum + (g * lr) / Root(ms - mg * mg + epsilon);
    var -= mom;
  }
  T lr, rho, momentum, epsilon;
};

// Rule over n elements of arrays of T, given its scalars.
template <template <typename> class Rule, typename T, int kSlots>
void UpdateElements(void* const* slots, const void* gradient, Rule<T> rule, int64_t n) {
  const T* g = static_cast<const T*>(gradient);
  T* s[kMaxSlots] = {};
  for (int k = 0; k < kSlots; ++k) s[k] = static_cast<T*>(slots[k]);
  T *a = s[0], *b = s[1], *c = s[2], *d = s[3];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kSlots == 1) rule(g[i], a[i]);
    if constexpr (kSlots == 2) rule(g[i], a[i], b[i]);
    if constexpr (kSlots == 3) rule(g[i], a[i], b[i], c[i]);
    if constexpr (kSlots == 4) rule(g[i], a[i], b[i], c[i], d[i]);
  }
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_UPDATE_RULES_H_
