// Random plans that are right by construction, and what they must compute.
#ifndef MILLRACE_TESTS_TESTLIB_RANDOM_PLAN_H_
#define MILLRACE_TESTS_TESTLIB_RANDOM_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "millrace/plan.h"

namespace millrace::testing {

struct RandomPlanOptions {
  uint64_t seed = 0;
  int nodes = 60;
  int slots = 6;       // of the arena: fewer slots, more copies
  int variables = 3;
  int64_t elements = 5;
  bool groups = true;
};

struct RandomPlan {
  ExecutionPlan plan;
  std::vector<float> feed;
  // Values of fetches and variables after step 1, 2, … when all variables are 0 at first and every step is fed `feed`.
  struct Results {
    std::vector<std::vector<float>> fetches;
    std::map<std::string, std::vector<float>> variables;
  };
  std::vector<Results> expected;
};

// Nodes mix up to three earlier tensors or add one to a variable; tensors leave and come back as room demands; every
// step waits for no more than it must. Variables live on the device, or there but for the middle of the step, or come from
// their homes, by chance.
RandomPlan MakeRandomPlan(const RandomPlanOptions& options, int steps);

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_TESTLIB_RANDOM_PLAN_H_
