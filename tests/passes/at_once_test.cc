// What is planned at once: every task, the plans of one after another, and what passes took on every thread.
#include "passes/at_once.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "passes/pass_clock.h"
#include "passes/pipeline.h"
#include "plan/plan_text.h"
#include "testlib/random_graph.h"
#include "testlib/random_request.h"
#include "testlib/test_ops.h"

namespace millrace {
namespace {

TEST(RunAtOnce, RunsTasksThatWaitForOneAnother) {
  constexpr size_t kTasks = 3;
  std::mutex mutex;
  std::condition_variable changed;
  size_t arrived = 0;
  std::vector<std::thread::id> threads(kTasks);
  std::vector<bool> met(kTasks);
  RunAtOnce(kTasks, [&](size_t task) {
    std::unique_lock<std::mutex> lock(mutex);
    threads[task] = std::this_thread::get_id();
    ++arrived;
    changed.notify_all();
    met[task] = changed.wait_for(lock, std::chrono::seconds(20), [&] { return arrived == kTasks; });
  });
  EXPECT_EQ(met, std::vector<bool>(kTasks, true));
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  RunAtOnce(0, [](size_t) { FAIL(); });
}

TEST(PassClock, CountsPassesOfAllThreadsAndTellsOfItsOwn) {
  std::vector<std::string> told;
  PassClock clock([&](const std::string& pass) { told.push_back(pass); });
  RunAtOnce(2, [&](size_t task) {
    for (int k = 0; k < 100; ++k) const PassClock::Run run(&clock, task == 0 ? "order" : "storage");
    const PassClock::Run both(&clock, "verify");
  });
  int64_t order = 0, storage = 0, verify = 0;
  for (const PassTime& pass : clock.passes()) (pass.name == "order" ? order : pass.name == "storage" ? storage : verify) += pass.runs;
  EXPECT_EQ(order, 100);
  EXPECT_EQ(storage, 100);
  EXPECT_EQ(verify, 2);
  EXPECT_EQ(told.size(), 101u);
}

// The plan as text, or why there is none. With a clock whose deadline is far away everything is planned one after another.
std::string PlanOf(uint32_t seed, int devices, int64_t budget_bytes, bool one_by_one) {
  const OpRegistry ops = TestOps();
  RandomGraph random(seed, devices, /*backward=*/true);
  StubOracle oracle;
  CompileRequest request = RequestOf(random, ops, oracle, devices);
  request.options.device_memory_bytes = budget_bytes;
  if (one_by_one) request.options.plan_seconds = 1e6;
  const absl::StatusOr<Compiled> compiled = Compile(request);
  return compiled.ok() ? PlanToText(compiled->plan) : std::string(compiled.status().message());
}

TEST(PlanAtOnce, MakesThePlansOfOneAfterAnother) {
  int planned = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const int devices = 1 + static_cast<int>(seed % 4);
    const int64_t budget = seed % 7 == 0 ? 0 : 1500 + 200 * static_cast<int64_t>(seed % 13);
    const std::string at_once = PlanOf(seed, devices, budget, false);
    EXPECT_EQ(at_once, PlanOf(seed, devices, budget, true)) << "seed " << seed;
    planned += at_once.find("does not fit") == std::string::npos ? 1 : 0;
  }
  EXPECT_GE(planned, 30);
}

}  // namespace
}  // namespace millrace
