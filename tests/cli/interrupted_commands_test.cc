// What commands leave behind when Ctrl-C ends them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "commands_fixture.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class InterruptedCommandsTest : public CommandsFixture {
 protected:
  InterruptedCommandsTest() : CommandsFixture("interrupted_commands") {}
};

TEST_F(InterruptedCommandsTest, RunEndsAfterTheStepWithAReport) {
  world_.engine.interrupt_after = 2;
  options_.input.steps = 1000;
  options_.output.report_out = Path("report.json");
  const absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ExitStatus(status), kExitFailed);
  EXPECT_EQ(world_.engine.steps_run, 2);
  EXPECT_THAT(Read("report.json"), HasSubstr("interrupted after step 2 of 1000"));
}

TEST_F(InterruptedCommandsTest, RunLeavesFilesThatItHasNothingForAndNamesThem) {
  options_.output.variables_out = Path("variables.npz");
  options_.output.fetches_out = Path("fetches.npz");
  options_.output.checkpoint_out = Path("checkpoint");
  options_.output.profile_out = Path("profile.pbtxt");
  options_.output.plot_out = Path("plot.svg");
  options_.plan_out = Path("plan.pb");
  options_.input.steps = 1000;
  world_.engine.interrupt_planning = true;
  absl::Status status = RunCommand(options_, world_.environment);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  for (const char* name : {"variables.npz is not written: no step could begin yet", "checkpoint is not written: no step could begin yet",
                           "fetches.npz is not written: no step has ended", "profile.pbtxt: nothing ran", "plot.svg is not written: nothing was planned",
                           "plan.pb is not written: nothing was planned"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
  EXPECT_THAT(world_.saved, testing::IsEmpty());
  // After the initialisers variables have values, fetches have none.
  world_.engine.interrupt_planning = false;
  world_.engine.interrupt_after = 0;
  options_.output.profile_out = options_.output.plot_out = options_.plan_out = "";
  status = RunCommand(options_, world_.environment);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("interrupted after step 0 of 1000\nhint: files are missing, too: ", Path("fetches.npz"), " is not written: no step has ended"));
  EXPECT_THAT(world_.saved, testing::UnorderedElementsAre(testing::Key(Path("variables.npz")), testing::Key(Path("checkpoint"))));
}

TEST_F(InterruptedCommandsTest, RunWritesTheFetchesOfTheLastStep) {
  world_.engine.interrupt_after = 2;
  options_.output.fetches_out = Path("fetches.npz");
  EXPECT_EQ(std::string(RunCommand(options_, world_.environment).message()), "interrupted after step 2 of 3");
  EXPECT_NEAR(world_.saved[Path("fetches.npz")].at("loss:0").DoubleAt(0), 1.0 / 3, 1e-6);
}

TEST_F(InterruptedCommandsTest, CompareSaysAfterWhichStrategy) {
  world_.engine.interrupt_after = 3;  // the last step of the first strategy
  const absl::Status status = CompareCommand(options_, world_.environment);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("interrupted after strategy 1 of 3"));
  EXPECT_EQ(world_.engine.steps_run, 3);
}

TEST_F(InterruptedCommandsTest, SweepDrawsThePointsThatItHas) {
  options_.sweep.csv_out = Path("sweep.csv");
  options_.output.plot_out = Path("sweep.svg");
  world_.engine.interrupt_after = 6;  // the last step of the second point
  EXPECT_EQ(std::string(SweepCommand(options_, world_.environment).message()), "interrupted after row 2 of 3");
  EXPECT_THAT(Read("sweep.csv"), HasSubstr("tensorflowmem,none,0,OK,"));
  EXPECT_THAT(Read("sweep.svg"), testing::AllOf(HasSubstr("baseline"), HasSubstr("tensorflowmem")));
  fs::remove(Path("sweep.svg"));
  world_.engine.steps_run = world_.engine.interrupt_after = 0;
  EXPECT_EQ(std::string(SweepCommand(options_, world_.environment).message()), "interrupted after row 0 of 3");
  EXPECT_FALSE(fs::exists(Path("sweep.svg")));
}

}  // namespace
}  // namespace millrace::cli
