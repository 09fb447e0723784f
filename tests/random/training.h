// A random graph trained under options, and what two such runs have in common.
#ifndef MILLRACE_TESTS_RANDOM_TRAINING_H_
#define MILLRACE_TESTS_RANDOM_TRAINING_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/session.h"
#include "random/random_graph.h"

namespace millrace {

inline constexpr int kRandomSteps = 3;

// Of an environment variable, or `fallback` without one.
int64_t FromEnvironment(const char* name, int64_t fallback);

struct TrainingResult {
  std::vector<Tensor> fetched;  // of all steps
  std::map<std::string, Tensor> variables;
  RunReport run;
};

// `init`, and steps of `train`.
absl::StatusOr<TrainingResult> Train(const TrainingGraph& random, const SessionOptions& options, int steps = kRandomSteps);

// The same steps, the first by a session with options of its own, that hands variables and the nodes' states over.
absl::StatusOr<TrainingResult> TrainHandedOver(const TrainingGraph& random, const SessionOptions& first, const SessionOptions& others);

// What differs in its bits first; empty when nothing does.
std::string Difference(const TrainingGraph& random, const TrainingResult& found, const TrainingResult& expected);

// As Difference, of floats that are further apart than `tolerance` times the largest one of their tensor, or of 1.
std::string FarApart(const TrainingGraph& random, const TrainingResult& found, const TrainingResult& expected, double tolerance);

// The CUDA device's engine and kernels on threads.
inline constexpr char kEmulated[] = "cuda_emulated";

// A third of the nodes asks for each of two of these devices.
TrainingGraph Spread(const TrainingGraph& whole, const std::string& device, std::mt19937_64& random);

// A strategy, partition size, budget of 30 to 110 % of `peak`, threads; now and then a disk tier, or two devices.
SessionOptions RandomOptions(const std::string& device, int64_t peak, std::mt19937_64& random);
std::string Describe(const SessionOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TESTS_RANDOM_TRAINING_H_
