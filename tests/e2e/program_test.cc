// The program as scripts use it: flags, files, signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "program.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome outcome = program_.Run(
        {"model", "resnet", "--depth=50", "--image_size=32", "--batch=2", "--classes=10", "--out=" + program_.Path("model.pb")});
    ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("23,528,522 parameters"));
  }

  std::vector<std::string> Training(const std::string& command, const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {command, "--graph=" + program_.Path("model.pb"), "--fetches=loss:0",
                                          "--targets=train", "--init_targets=init", "--synthetic_feeds"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  }

  // Starts a run that would take hours and returns once it is under way.
  pid_t StartLongRun() const {
    const pid_t pid = program_.Start(Training("run", {"--steps=1000000", "--report_out=" + program_.Path("report.json")}));
    // The report's temporary file shows that signals are caught by now.
    while (program_.Files().size() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return pid;
  }

  Program program_;
};

TEST_F(ProgramTest, RunWritesEveryOutputWhole) {
  const Outcome outcome = program_.Run(
      Training("run", {"--steps=2", "--strategy=tensorflowmem", "--device_memory=60%",
                       "--report_out=" + program_.Path("report.json"), "--trace_out=" + program_.Path("trace.json"),
                       "--plot_out=" + program_.Path("plot.svg"), "--variables_out=" + program_.Path("variables.npz"),
                       "--fetches_out=" + program_.Path("fetches.npz")}));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(program_.Files(), (std::vector<std::string>{"fetches.npz", "model.pb", "plot.svg", "report.json", "trace.json",
                                                        "variables.npz"}));
  EXPECT_THAT(program_.Read("report.json"), AllOf(HasSubstr("\"status\": \"OK\""), HasSubstr("\"losses\": [")));
  EXPECT_THAT(program_.Read("trace.json"), AllOf(HasSubstr("(measured)"), HasSubstr("(predicted)"), HasSubstr("swap_in")));
  EXPECT_THAT(program_.Read("plot.svg"),
              AllOf(HasSubstr("without swapping (baseline, predicted)"), HasSubstr(">measured<"), HasSubstr(">budget ")));
}

TEST_F(ProgramTest, CompareFindsTheSameBitsUnderEveryStrategy) {
  const Outcome outcome = program_.Run(
      Training("compare", {"--steps=2", "--strategies=baseline,tensorflowmem,lru", "--device_memory=60%"}));
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("baseline *"), HasSubstr("reference"), HasSubstr("equal"),
                                 testing::Not(HasSubstr("DIFFERS"))));
}

TEST_F(ProgramTest, SweepWritesATableAndAPicture) {
  const Outcome outcome = program_.Run(
      Training("sweep", {"--device=null", "--strategies=baseline,tensorflowmem", "--partition_sizes=5,50",
                         "--budgets=70%,100%", "--csv_out=" + program_.Path("sweep.csv"),
                         "--plot_out=" + program_.Path("sweep.svg")}));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(program_.Read("sweep.csv"), AllOf(HasSubstr("tensorflowmem,70%,5,OK,"), HasSubstr("baseline,100%,0,OK,"),
                                                HasSubstr("baseline,70%,5,RESOURCE_EXHAUSTED,")));
  EXPECT_THAT(program_.Read("sweep.svg"), HasSubstr("partition size (nodes)"));
}

TEST_F(ProgramTest, PlanNeedsNoDeviceAndWritesThePlanAsText) {
  const Outcome outcome = program_.Run(
      Training("plan", {"--machine=" MILLRACE_SOURCE_DIR "/configs/machines/titanx.pbtxt",
                        "--plan_out=" + program_.Path("plan.txt")}));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("titanx"), HasSubstr("budget 12.00 GiB")));
  EXPECT_THAT(program_.Read("plan.txt"), HasSubstr("Conv2D"));
}

TEST_F(ProgramTest, InspectCountsAndFindsTheLargestOperation) {
  const Outcome outcome = program_.Run({"inspect", "--graph=" + program_.Path("model.pb")});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("vertices"), HasSubstr("Conv2D 53"), HasSubstr("unsupported  none"),
                                 HasSubstr("largest node")));
}

TEST_F(ProgramTest, ExportShowsPartitionsSwapsAndReasons) {
  for (const char* name : {"rewritten.pbtxt", "rewritten.dot", "rewritten.pb"}) {
    const Outcome outcome = program_.Run(Training("export", {"--strategy=tensorflowmem", "--partition_size=20",
                                                             "--out=" + program_.Path(name)}));
    ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
    EXPECT_THAT(program_.Read(name), AllOf(HasSubstr("swap_in"), HasSubstr("partition")));
  }
  EXPECT_THAT(program_.Read("rewritten.pbtxt"), HasSubstr("_reason"));
}

TEST_F(ProgramTest, FlagsMayComeFromAFile) {
  program_.Write("flags", "# an experiment\n--steps=2\n\n--strategy=lru\n");
  Outcome outcome = program_.Run(Training("run", {"--flagfile=" + program_.Path("flags")}));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("strategy       lru"));
  program_.Write("flags", "--steps=2\n--steps=two\n");
  outcome = program_.Run(Training("run", {"--flagfile=" + program_.Path("flags")}));
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("flags:2: --steps=two: expected a value of type int64"));
}

TEST_F(ProgramTest, EveryCommandHasHelp) {
  const Outcome all = program_.Run({"--help"});
  EXPECT_EQ(all.exit_status, 0);
  for (const char* command : {"run", "compare", "sweep", "plan", "inspect", "export", "model"}) {
    EXPECT_THAT(all.out, HasSubstr(std::string("  ") + command));
    const Outcome outcome = program_.Run({command, "--help"});
    EXPECT_EQ(outcome.exit_status, 0);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("--report_out"), HasSubstr("Example:")));
  }
}

TEST_F(ProgramTest, InterruptEndsAfterTheStepWithAReport) {
  const pid_t pid = StartLongRun();
  kill(pid, SIGINT);
  const Outcome outcome = program_.Wait(pid);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("CANCELLED: interrupted after step"));
  EXPECT_THAT(program_.Read("report.json"), HasSubstr("\"status\": \"CANCELLED\""));
}

}  // namespace
}  // namespace millrace
