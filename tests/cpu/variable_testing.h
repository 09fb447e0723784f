// Optimizer rules as formulas in double, and runs of nodes that update variables.
#ifndef MILLRACE_TESTS_CPU_VARIABLE_TESTING_H_
#define MILLRACE_TESTS_CPU_VARIABLE_TESTING_H_

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernel_testing.h"
#include "typed_values.h"

namespace millrace::cpu {

// Copies that share no bytes: variables among the inputs are updated in place.
inline std::vector<Tensor> FreshCopies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) {
    copies.emplace_back(tensor.dtype(), tensor.shape());
    std::copy_n(static_cast<const char*>(tensor.data()), tensor.size_bytes(),
                static_cast<char*>(copies.back().mutable_data()));
  }
  return copies;
}

// The inputs after the node ran; the same bits on every number of threads.
inline std::vector<Tensor> InputsAfter(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> after = FreshCopies(inputs);
  const auto serial = Evaluate({op, attrs, after});
  EXPECT_TRUE(serial.ok()) << serial.status();
  for (int threads : {1, 3}) {
    ThreadsRunner runner(threads);
    const std::vector<Tensor> parallel = FreshCopies(inputs);
    EXPECT_TRUE(Evaluate({op, attrs, parallel}, &runner).ok());
    for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].BitEqual(parallel[i])) << op << " input " << i;
  }
  return after;
}

// One element of a rule: s are the variable and its slots, c the scalars in the op's order.
using Step = std::function<void(std::vector<double>& s, double g, const std::vector<double>& c)>;

struct RuleCase {
  std::string name;
  int slots;
  int gradient;  // its input
  std::vector<double> scalars;
  Step step;
  std::string attr = "";
  bool value = true;
  bool reference = true;
};

inline double Sign(double x) { return double((x > 0) - (x < 0)); }
inline double Shrunk(double x, double by) { return Sign(x) * std::max(std::fabs(x) - by, 0.0); }

inline const Step kAdam = [](std::vector<double>& s, double g, const std::vector<double>& c) {
  s[1] += (g - s[1]) * (1 - c[3]);
  s[2] += (g * g - s[2]) * (1 - c[4]);
  s[0] -= c[2] * std::sqrt(1 - c[1]) / (1 - c[0]) * s[1] / (std::sqrt(s[2]) + c[5]);
};
inline const Step kFtrl = [](std::vector<double>& s, double g, const std::vector<double>& c) {
  const bool v2 = c.size() == 5;
  const double power = -c.back(), shrunk = v2 ? g + 2 * c[3] * s[0] : g;
  const double next = s[1] + g * g;
  s[2] += shrunk - (std::pow(next, power) - std::pow(s[1], power)) / c[0] * s[0];
  s[0] = std::fabs(s[2]) > c[1] ? (c[1] * Sign(s[2]) - s[2]) / (std::pow(next, power) / c[0] + 2 * c[2]) : 0;
  s[1] = next;
};

inline std::vector<RuleCase> GradientRules() {
  using V = std::vector<double>;
  return {
      {"GradientDescent", 1, 2, {0.1}, [](V& s, double g, const V& c) { s[0] -= c[0] * g; }},
      {"Momentum",
       2,
       3,
       {0.1, 0.9},
       [](V& s, double g, const V& c) {
         s[1] = s[1] * c[1] + g;
         s[0] -= c[0] * s[1];
       }},
      {"Momentum",
       2,
       3,
       {0.1, 0.9},
       [](V& s, double g, const V& c) {
         s[1] = s[1] * c[1] + g;
         s[0] -= c[0] * (g + s[1] * c[1]);
       },
       "use_nesterov"},
      {"KerasMomentum",
       2,
       3,
       {0.1, 0.9},
       [](V& s, double g, const V& c) {
         s[1] = s[1] * c[1] - g * c[0];
         s[0] += s[1];
       },
       "",
       true,
       false},
      {"Adam", 3, 9, {0.9, 0.99, 0.1, 0.8, 0.95, 1e-3}, kAdam},
      {"Adam",
       3,
       9,
       {0.9, 0.99, 0.1, 0.8, 0.95, 1e-3},
       [](V& s, double g, const V& c) {
         s[1] += (g - s[1]) * (1 - c[3]);
         s[2] += (g * g - s[2]) * (1 - c[4]);
         const double rate = c[2] * std::sqrt(1 - c[1]) / (1 - c[0]);
         s[0] -= rate * (g * (1 - c[3]) + c[3] * s[1]) / (std::sqrt(s[2]) + c[5]);
       },
       "use_nesterov"},
      {"AdamWithAmsgrad",
       4,
       10,
       {0.9, 0.99, 0.1, 0.8, 0.95, 1e-3},
       [](V& s, double g, const V& c) {
         s[1] += (g - s[1]) * (1 - c[3]);
         s[2] += (g * g - s[2]) * (1 - c[4]);
         s[3] = std::max(s[3], s[2]);
         s[0] -= c[2] * std::sqrt(1 - c[1]) / (1 - c[0]) * s[1] / (std::sqrt(s[3]) + c[5]);
       },
       "",
       true,
       false},
      {"AdaMax",
       3,
       8,
       {0.9, 0.1, 0.8, 0.95, 1e-3},
       [](V& s, double g, const V& c) {
         s[1] += (g - s[1]) * (1 - c[2]);
         s[2] = std::max(c[3] * s[2], std::fabs(g));
         s[0] -= c[1] / (1 - c[0]) * s[1] / (s[2] + c[4]);
       }},
      {"Adagrad",
       2,
       3,
       {0.1},
       [](V& s, double g, const V& c) {
         s[1] += g * g;
         s[0] -= c[0] * g / std::sqrt(s[1]);
       }},
      {"Adagrad",
       2,
       3,
       {0.1},
       [](V& s, double g, const V& c) { s[0] -= c[0] * g / std::sqrt(s[1]); },
       "update_slots",
       false},
      {"AdagradV2",
       2,
       4,
       {0.1, 0.01},
       [](V& s, double g, const V& c) {
         s[1] += g * g;
         s[0] -= c[0] * g / (std::sqrt(s[1]) + c[1]);
       }},
      {"AdagradDA",
       3,
       3,
       {0.1, 0.2, 0.3, 4},
       [](V& s, double g, const V& c) {
         s[1] += g;
         s[2] += g * g;
         s[0] = -c[0] * Shrunk(s[1], c[1] * c[3]) / (c[2] * c[3] * c[0] + std::sqrt(s[2]));
       }},
  };
}

// Rules with bounds, running averages or signs.
inline std::vector<RuleCase> OtherRules() {
  using V = std::vector<double>;
  return {
      {"ProximalGradientDescent",
       1,
       4,
       {0.1, 0.2, 0.3},
       [](V& s, double g, const V& c) { s[0] = Shrunk(s[0] - c[0] * g, c[0] * c[1]) / (1 + c[0] * c[2]); }},
      {"ProximalAdagrad",
       2,
       5,
       {0.1, 0.2, 0.3},
       [](V& s, double g, const V& c) {
         s[1] += g * g;
         const double rate = c[0] / std::sqrt(s[1]);
         s[0] = Shrunk(s[0] - rate * g, rate * c[1]) / (1 + rate * c[2]);
       }},
      {"Adadelta",
       3,
       6,
       {0.1, 0.9, 0.01},
       [](V& s, double g, const V& c) {
         s[1] = s[1] * c[1] + g * g * (1 - c[1]);
         const double update = std::sqrt(s[2] + c[2]) / std::sqrt(s[1] + c[2]) * g;
         s[0] -= update * c[0];
         s[2] = s[2] * c[1] + update * update * (1 - c[1]);
       }},
      {"Ftrl", 3, 3, {0.1, 0.2, 0.3, -0.5}, kFtrl},
      {"Ftrl", 3, 3, {0.1, 0.2, 0.3, -0.7}, kFtrl},
      {"FtrlV2", 3, 3, {0.1, 0.2, 0.3, 0.05, -0.5}, kFtrl},
      {"RMSProp",
       3,
       7,
       {0.1, 0.9, 0.8, 0.01},
       [](V& s, double g, const V& c) {
         s[1] += (g * g - s[1]) * (1 - c[1]);
         s[2] = s[2] * c[2] + g * c[0] / std::sqrt(s[1] + c[3]);
         s[0] -= s[2];
       }},
      {"CenteredRMSProp",
       4,
       8,
       {0.1, 0.9, 0.8, 200},
       [](V& s, double g, const V& c) {
         s[2] += (g * g - s[2]) * (1 - c[1]);
         s[1] += (g - s[1]) * (1 - c[1]);
         s[3] = s[3] * c[2] + g * c[0] / std::sqrt(s[2] - s[1] * s[1] + c[3]);
         s[0] -= s[3];
       }},
      {"AddSign",
       2,
       6,
       {0.1, 1.5, 0.7, 0.9},
       [](V& s, double g, const V& c) {
         s[1] = s[1] * c[3] + g * (1 - c[3]);
         s[0] -= c[0] * (c[1] + c[2] * Sign(g) * Sign(s[1])) * g;
       }},
      {"PowerSign",
       2,
       6,
       {0.1, 1.5, 0.7, 0.9},
       [](V& s, double g, const V& c) {
         s[1] = s[1] * c[3] + g * (1 - c[3]);
         s[0] -= c[0] * std::exp(c[1] * c[2] * Sign(g) * Sign(s[1])) * g;
       }},
  };
}

inline std::vector<RuleCase> Rules() {
  std::vector<RuleCase> rules = GradientRules();
  for (const RuleCase& rule : OtherRules()) rules.push_back(rule);
  return rules;
}

// Slots after the variable hold positive numbers (they are often squares).
inline std::vector<Tensor> SlotsOf(const RuleCase& rule, DataType dtype, const Shape& shape) {
  std::vector<Tensor> slots;
  for (int k = 0; k < rule.slots; ++k) {
    slots.push_back(NumbersOf(dtype, shape, 10 + k));
    if (k > 0) slots.back() = EvaluateOnThreads({"Abs", {}, {slots.back()}});
    if (k > 0) slots.back() = EvaluateOnThreads({"AddV2", {}, {slots.back(), TensorOf(dtype, {0.5})}});
  }
  return slots;
}

inline std::vector<Tensor> UpdateInputs(const RuleCase& rule, const std::vector<Tensor>& slots, const Tensor& gradient,
                                        const Tensor* indices) {
  std::vector<Tensor> inputs = slots;
  for (size_t next = 0; next < rule.scalars.size() || static_cast<int>(inputs.size()) == rule.gradient;) {
    if (static_cast<int>(inputs.size()) == rule.gradient) {
      inputs.push_back(gradient);
      if (indices != nullptr) inputs.push_back(*indices);
      continue;
    }
    const bool steps = rule.name == "AdagradDA" && next == 3;
    inputs.push_back(TensorOf(steps ? DataType::kInt64 : gradient.dtype(), {rule.scalars[next++]}, Shape()));
  }
  return inputs;
}

}  // namespace millrace::cpu

#endif  // MILLRACE_TESTS_CPU_VARIABLE_TESTING_H_
