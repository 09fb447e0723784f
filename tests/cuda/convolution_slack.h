// How far a float32 convolution of a library's may be off.
#ifndef MILLRACE_TESTS_CUDA_CONVOLUTION_SLACK_H_
#define MILLRACE_TESTS_CUDA_CONVOLUTION_SLACK_H_

#include <cmath>
#include <cstdint>

#include "absl/strings/match.h"
#include "conformance/case.h"

namespace millrace::cuda {

inline double RootMeanSquare(const Tensor& tensor) {
  double sum = 0;
  for (const float value : tensor.as<float>()) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(tensor.num_elements()));
}

// 0 for other ops and types. An element of the result sums n products, whose sizes are at most n times both operands' root mean
// squares, about (by Cauchy and Schwarz). Summed as they are, each may add half an ulp of that. Winograd's algorithm sums transformed
// values: for tiles of 4x4 and windows of 3x3 its errors are about ten times those of the sum itself (Lavin and Gray, Fast Algorithms
// for Convolutional Neural Networks, 2016; Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2020).
inline double ConvolutionSlack(const conformance::Case& test) {
  constexpr double kWinograd = 10, kHalfUlp = 6e-8;
  const bool to_input = absl::StrContains(test.op, "BackpropInput"), to_filter = absl::StrContains(test.op, "BackpropFilter");
  const bool forward = test.op == "Conv2D" || test.op == "Conv3D";
  const bool is_convolution = forward || ((to_input || to_filter) && absl::StartsWith(test.op, "Conv"));
  if (!is_convolution || test.error || test.inputs.size() < (forward ? 2 : 3)) return 0;
  const Tensor& a = test.inputs[to_input ? 1 : 0];
  const Tensor& b = test.inputs[forward ? 1 : 2];
  if (a.dtype() != DataType::kFloat || b.dtype() != DataType::kFloat || a.num_elements() == 0 || b.num_elements() == 0) return 0;
  // Behind a window's sides come its channels, of the input (of a group) and of the output.
  const Tensor& filter = to_input ? a : b;
  const auto channels = [&](int from_last) { return filter.shape().dim(filter.shape().rank() - from_last); };
  const bool first = absl::StartsWith(test.attrs.GetOr<std::string>("data_format", ""), "NC");
  const int64_t outputs = to_filter ? b.shape().dim(first ? 1 : b.shape().rank() - 1) : channels(1);
  const int64_t products = to_filter ? b.num_elements() / outputs : filter.num_elements() / channels(to_input ? 2 : 1);
  return kWinograd * kHalfUlp * static_cast<double>(products) * RootMeanSquare(a) * RootMeanSquare(b);
}

}  // namespace millrace::cuda

#endif  // MILLRACE_TESTS_CUDA_CONVOLUTION_SLACK_H_
