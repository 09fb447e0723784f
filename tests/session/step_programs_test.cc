// Which programs of a session go on having an executor.
#include "session/step_programs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "testlib/executor_fixture.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

// y = Mix(x); `to_pool`: copied to the pool, by a thread.
ExecutionPlan SmallPlan(bool to_pool) {
  PlanBuilder b(128);
  b.Feed("x", 2);
  b.In("x:0", b.FeedRef("x"), 0, 8);
  b.Compute("y", "Mix", {{0, 2}}, {{64, 2}}, {b.AfterIn()});
  if (to_pool) b.Out("y:0", 64, 8, b.PoolRef(0), {b.AfterCompute()});
  return b.Build();
}

class StopOldestTest : public ::testing::Test {
 protected:
  // The names of programs with an executor, of twelve that were used one after another, when one more is to have one.
  std::string Running(bool to_pool, size_t most_nodes) {
    StepPrograms programs;
    for (int p = 0; p < 12; ++p) {
      auto program = std::make_unique<StepProgram>();
      program->plan = std::make_shared<const ExecutionPlan>(SmallPlan(to_pool));
      auto executor = Executor::Create(program->plan, runtime_.context());
      EXPECT_TRUE(executor.ok()) << executor.status();
      program->executor = *std::move(executor);
      program->last_use = p;
      programs[std::string(1, static_cast<char>('a' + p))] = std::move(program);
    }
    EXPECT_TRUE(StopOldest("", 4, most_nodes, runtime_.variables, runtime_.kernels, programs).ok());
    std::string running;
    for (const auto& [name, program] : programs) running += program->executor != nullptr ? name : "";
    return running;
  }

  Runtime runtime_;
};

TEST_F(StopOldestTest, ThoseWithThreadsAreFew) { EXPECT_EQ(Running(/*to_pool=*/true, 100), "jkl"); }

TEST_F(StopOldestTest, ThoseWithoutGoOnWhileTheyAreSmallTogether) {
  EXPECT_EQ(Running(/*to_pool=*/false, 100), "abcdefghijkl");
  EXPECT_EQ(Running(/*to_pool=*/false, 6), "hijkl");
  EXPECT_EQ(Running(/*to_pool=*/false, 1), "jkl") << "the last ones in any case";
}

}  // namespace
}  // namespace millrace::testing
