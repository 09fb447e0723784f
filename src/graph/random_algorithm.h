// TensorFlow's numbers of the algorithms of random numbers.
#ifndef MILLRACE_SRC_GRAPH_RANDOM_ALGORITHM_H_
#define MILLRACE_SRC_GRAPH_RANDOM_ALGORITHM_H_

#include <cstdint>

namespace millrace {

// Philox, ThreeFry, and what a device takes by itself, which is Philox here.
inline constexpr int64_t kAlgorithmPhilox = 1, kAlgorithmThreeFry = 2, kAlgorithmAuto = 3;
constexpr bool IsPhilox(int64_t algorithm) { return algorithm == kAlgorithmPhilox || algorithm == kAlgorithmAuto; }

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_RANDOM_ALGORITHM_H_
