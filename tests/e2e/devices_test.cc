// Graphs over several devices, from outside: the same bits on one, two and four of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "program.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DevicesTest : public testing::Test {
 protected:
  void MakeModel(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "model");
    arguments.push_back("--out=" + program_.Path("model.pb"));
    const Outcome outcome = program_.Run(arguments);
    ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  }

  Outcome Run(const std::string& command, const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {command, "--graph=" + program_.Path("model.pb"), "--fetches=loss:0",
                                          "--targets=train", "--synthetic_feeds"};
    if (command != "plan" && command != "export") arguments.insert(arguments.end(), {"--init_targets=init", "--steps=2"});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return program_.Run(arguments);
  }

  static std::string Digests(const Outcome& outcome) {
    std::smatch match;
    EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
    EXPECT_TRUE(std::regex_search(outcome.out, match, std::regex("digests .*"))) << outcome.out;
    return match.str();
  }

  void ExpectSameBits(const std::vector<std::vector<std::string>>& runs) {
    const std::string one = Digests(Run("run", {"--strategy=baseline"}));
    for (const std::vector<std::string>& flags : runs) EXPECT_EQ(Digests(Run("run", flags)), one) << flags[0] << " " << flags[1];
  }

  TestedProgram program_;
};

TEST_F(DevicesTest, MixtureOfExpertsHasTheSameBitsOnOneTwoAndFourDevices) {
  MakeModel({"moe_transformer", "--devices=4", "--experts=4", "--layers=2", "--hidden=32", "--heads=2",
             "--steps_unrolled=8", "--vocab=50", "--batch=2"});
  ExpectSameBits({{"--devices=2", "--strategy=baseline"},
                  {"--devices=4", "--strategy=baseline", "--threads=1"},
                  {"--devices=cpu:0,cpu:1,cpu:2,cpu:3", "--strategy=tensorflowmem", "--partition_size=7"},
                  {"--devices=4", "--strategy=tensorflowmem", "--partition_size=1", "--share_recv"},
                  {"--devices=4", "--strategy=planned", "--device_memory=70%"},
                  {"--devices=2", "--strategy=lru", "--device_memory=60%"},
                  {"--devices=4", "--strategy=lru", "--device_memory=80%", "--share_recv", "--threads=4"}});
}

TEST_F(DevicesTest, ModelParallelResnetHasTheSameBits) {
  MakeModel({"resnet", "--devices=4", "--variant=cifar", "--depth=29", "--image_size=16", "--batch=2", "--classes=10"});
  ExpectSameBits({{"--devices=4", "--strategy=tensorflowmem"},
                  {"--devices=2", "--strategy=planned", "--device_memory=60%"}});
}

TEST_F(DevicesTest, PlansPlotsTracesExportsAndReportsOneSchedule) {
  MakeModel({"resnet", "--devices=2", "--variant=cifar", "--depth=11", "--image_size=8", "--batch=2", "--classes=10"});
  const Outcome plan = Run("plan", {"--devices=null:0,null:1", "--report_out=" + program_.Path("report.json"),
                                    "--trace_out=" + program_.Path("trace.json"), "--plot_out=" + program_.Path("plot.svg"),
                                    "--plan_out=" + program_.Path("plan.txt")});
  ASSERT_EQ(plan.exit_status, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("null:0"), HasSubstr("null:1"), HasSubstr(" recvs")));
  EXPECT_THAT(program_.Read("report.json"), AllOf(HasSubstr("\"devices\""), HasSubstr("\"name\": \"null:1\""),
                                                  HasSubstr("\"recvs\"")));
  EXPECT_THAT(program_.Read("trace.json"), AllOf(HasSubstr("null:0"), HasSubstr("null:1"), HasSubstr("/recv")));
  EXPECT_THAT(program_.Read("plot.svg"), AllOf(HasSubstr("null:0"), HasSubstr("null:1")));
  EXPECT_THAT(program_.Read("plan.txt"), AllOf(HasSubstr("compute/1"), HasSubstr("to-device/1")));
  const Outcome exported = Run("export", {"--devices=2", "--out=" + program_.Path("rewritten.pbtxt")});
  ASSERT_EQ(exported.exit_status, 0) << exported.err;
  EXPECT_THAT(program_.Read("rewritten.pbtxt"), AllOf(HasSubstr("\"Send\""), HasSubstr("\"Recv\"")));
  EXPECT_THAT(exported.out, HasSubstr(" sends, "));
}

TEST_F(DevicesTest, ASoftPlacementIsSaidOnce) {
  MakeModel({"resnet", "--devices=2", "--variant=cifar", "--depth=11", "--image_size=8", "--batch=2", "--classes=10"});
  const std::string line = "device /device:GPU:1 is not there: its nodes are placed on cpu:0";
  const auto expect_once = [&](const Outcome& outcome, int exit_status) {
    EXPECT_EQ(outcome.exit_status, exit_status) << outcome.err;
    const size_t first = outcome.err.find(line);
    EXPECT_NE(first, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find(line, first + 1), std::string::npos) << outcome.err;
  };
  expect_once(Run("run", {}), 0);
  expect_once(Run("run", {"--device_memory=100KiB", "--plot_out=" + program_.Path("plot.svg")}), 3);  // and hints, by further plans
  expect_once(Run("compare", {"--strategies=baseline,lru", "--device_memory=90%"}), 0);
}

TEST_F(DevicesTest, WrongDevicesAreWrongUsage) {
  MakeModel({"resnet", "--variant=cifar", "--depth=11", "--image_size=8", "--batch=2", "--classes=10"});
  for (const char* flag : {"--devices=cpu:0,cpu:0", "--devices=0", "--devices=tpu:0", "--devices=cpu:0,,"}) {
    EXPECT_EQ(Run("run", {flag}).exit_status, 2) << flag;
  }
  EXPECT_EQ(Run("run", {"--devices=2", "--device_memory=1GiB,1GiB,1GiB"}).exit_status, 2);
  EXPECT_EQ(Run("run", {"--devices=2", "--device_memory=1GiB,1KiB"}).exit_status, 0);
  EXPECT_EQ(Run("run", {"--devices=2", "--device_memory=1KiB,1GiB"}).exit_status, 3);
}

}  // namespace
}  // namespace millrace
