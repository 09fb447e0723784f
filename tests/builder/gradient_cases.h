// Small graphs of which every differentiable op's gradient is checked: loss = sum(y * cotangent), y made of inputs
// x0, x1, … by the op.
//
// The same cases are differentiated by TensorFlow (make_gradients.py, from the graphs that write_gradient_cases
// writes); its gradients are in gradients.txt.
#ifndef MILLRACE_TESTS_BUILDER_GRADIENT_CASES_H_
#define MILLRACE_TESTS_BUILDER_GRADIENT_CASES_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "millrace/graph_builder.h"

namespace millrace::testing {

struct CaseInput {
  Shape shape;
  double low = -2;
  double high = 2;
};

struct GradientCase {
  using Build = std::function<Output(GraphBuilder&, const std::vector<Output>&)>;
  std::string name;  // the op's and what is special
  std::vector<CaseInput> inputs;
  Build build;
  // TensorFlow has no gradient of the gradient, or it is 0 almost everywhere.
  bool second = true;
  DataType dtype = DataType::kDouble;  // float for ops that TensorFlow has in float only
  // What is written in its place is not the derivative: a straight-through estimator, an implicit differentiation.
  bool derivative = true;
};

inline void PrintTo(const GradientCase& c, std::ostream* out) { *out << c.name; }

std::vector<GradientCase> GradientCases();
// `count` cases of every family, from this seed on. GradientCases() has the first few.
std::vector<GradientCase> RandomGradientCases(uint64_t first_seed, int count);

// The graph of a case with nodes "x0" …, "y", "cotangent" and "loss"; inputs are constants with fixed pseudo-random
// values. Returns the inputs.
std::vector<Output> BuildCase(const GradientCase& gradient_case, GraphBuilder& b);

// Fixed pseudo-random numbers in [low, high).
Tensor RandomTensor(const TensorType& type, double low, double high, uint64_t seed);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_BUILDER_GRADIENT_CASES_H_
