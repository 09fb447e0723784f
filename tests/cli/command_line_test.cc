// Words, flags and warnings, with a registry of the test's own.
#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "testlib/logged.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TestRegistry : public FlagRegistry {
 public:
  std::optional<Flag> Find(const std::string& name) const override {
    const auto flag = flags_.find(name);
    if (flag == flags_.end()) return std::nullopt;
    return flag->second.first;
  }
  bool Set(const std::string& name, const std::string& value) override {
    auto& [flag, present] = flags_.at(name);
    int64_t number = 0;
    uint64_t natural = 0;
    double real = 0;
    if (flag.type == "int64" && !absl::SimpleAtoi(value, &number)) return false;
    if (flag.type == "uint64" && !absl::SimpleAtoi(value, &natural)) return false;
    if (flag.type == "double" && !absl::SimpleAtod(value, &real)) return false;
    if (flag.type == "bool" && value != "true" && value != "false") return false;
    present = value;
    return true;
  }
  std::string Value(const std::string& name) const override {
    const auto flag = flags_.find(name);
    return flag == flags_.end() ? "" : flag->second.second;
  }

 private:
  std::map<std::string, std::pair<Flag, std::string>> flags_ = {
      {"graph", {{"string", "", "a graph"}, ""}},
      {"device", {{"string", "cpu", "cpu; cuda"}, "cpu"}},
      {"tf32", {{"bool", "false", "cuda: round"}, "false"}},
      {"threads", {{"int64", "0", "of kernels"}, "0"}},
      {"steps", {{"int64", "1", "training steps"}, "1"}},
      {"seed", {{"uint64", "0", "of feeds"}, "0"}},
      {"batch", {{"int64", "0", "model: examples a step"}, "0"}},
      {"depth", {{"int64", "0", "model: layers"}, "0"}},
      {"vary", {{"string", "batch", "fit: what to search"}, "batch"}},
      {"strategy", {{"string", "", "how to fit"}, ""}},
      {"partition_size", {{"int64", "0", "nodes"}, "0"}},
      {"sync_mode", {{"int64", "0", "tflms: waits"}, "0"}},
      {"swap_distance", {{"int64", "2", "tensorflowmem: partitions apart"}, "2"}},
      {"parts", {{"string", "placement,swap", "tensorflowmem: parts"}, "placement,swap"}},
      {"plan_seconds", {{"int64", "0", "for planning"}, "0"}},
      {"share_recv", {{"bool", "false", "receive once"}, "false"}},
      {"devices", {{"string", "", "of the graph"}, ""}},
      {"replan", {{"string", "auto", "when to plan again"}, "auto"}},
      {"plan_in", {{"string", "", "a plan"}, ""}},
      {"synthetic_feeds", {{"bool", "false", "fill feeds"}, "false"}},
      {"init_targets", {{"string", "", "to run first"}, ""}},
      {"machine", {{"string", "", "rates to plan for"}, ""}},
      {"link_gbps", {{"double", "0", "slow copies"}, "0"}},
      {"disk", {{"string", "", "a folder"}, ""}},
      {"partition_sizes", {{"string", "", "sweep: sizes"}, ""}},
      {"update_parts", {{"string", "auto", "planned: parts"}, "auto"}},
      {"measure", {{"bool", "false", "machine: measure"}, "false"}},
      {"ops", {{"bool", "false", "inspect: list"}, "false"}},
      {"report_out", {{"string", "", "a report"}, ""}},
      {"v", {{"int64", "0", "of a library"}, "0"}},
      {"stderrthreshold", {{"int64", "0", "of a library"}, "0"}},
  };
};

class CommandLineTest : public testing::Test {
 protected:
  absl::StatusOr<Arguments> Parse(const std::vector<std::string>& argv) { return ParseArguments(argv, registry_); }
  std::string Error(const std::vector<std::string>& argv) {
    const absl::Status status = Parse(argv).status();
    EXPECT_EQ(ExitStatus(status), kExitUsage) << status;
    return std::string(status.message());
  }
  // What is warned of on this command line. `strategies` plan.
  std::vector<std::string> WarningsOf(const std::vector<std::string>& argv, const std::vector<std::string>& strategies) {
    registry_ = TestRegistry();
    const auto arguments = Parse(argv);
    EXPECT_TRUE(arguments.ok()) << arguments.status();
    Logged warnings(google::GLOG_WARNING);
    DropUnusedFlags(*FindCommand(argv[0]), *arguments, registry_);
    WarnOfUselessFlags(*FindCommand(argv[0]), *arguments, strategies, registry_);
    return warnings.lines;
  }

  TestRegistry registry_;
};

TEST(Usage, NamesFlagsOfTheLibraryThatEveryCommandTakes) {
  for (const char* flag : {"--flagfile=FILE", "--v=1"}) EXPECT_THAT(Usage(), HasSubstr(flag));
}

TEST_F(CommandLineTest, FlagsAreSetAndWordsRemain) {
  const auto arguments = Parse({"fit", "--steps=3", "-graph", "g.pb", "mlp", "--synthetic_feeds", "--", "--depth=1"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(arguments->words, ElementsAre("fit", "mlp", "--depth=1"));
  EXPECT_THAT(arguments->flags, ElementsAre("steps", "graph", "synthetic_feeds"));
  EXPECT_EQ(registry_.Value("steps"), "3");
  EXPECT_EQ(registry_.Value("graph"), "g.pb");
  EXPECT_EQ(registry_.Value("synthetic_feeds"), "true");
  ASSERT_TRUE(Parse({"run", "--nosynthetic_feeds", "--help"})->help);
  EXPECT_EQ(registry_.Value("synthetic_feeds"), "false");
}

TEST_F(CommandLineTest, WhatIsNoFlagOrNoValueIsWrongUsage) {
  EXPECT_EQ(Error({"run", "--stpes=3"}), "unknown flag --stpes; nearest: --steps; `millrace run --help` lists them");
  EXPECT_EQ(Error({"run", "--steps"}), "--steps needs a value");
  EXPECT_EQ(Error({"run", "--steps=many"}), "--steps=many: expected a whole number");
  EXPECT_EQ(Error({"run", "--steps="}), "--steps=: expected a whole number");
  EXPECT_EQ(Error({"run", "--steps=99999999999999999999"}), "--steps=99999999999999999999: expected a whole number nearer to 0");
  EXPECT_EQ(Error({"run", "--seed=-1"}), "--seed=-1: expected a whole number from 0 on");
  EXPECT_EQ(Error({"run", "--link_gbps=fast"}), "--link_gbps=fast: expected a number");
  EXPECT_EQ(Error({"run", "--nosteps"}), "unknown flag --nosteps; nearest: --steps; `millrace run --help` lists them");
  EXPECT_EQ(Error({"run", "--synthetic_feeds=perhaps"}), "--synthetic_feeds=perhaps: expected true or false");
}

TEST_F(CommandLineTest, NearestFlagsAreThoseOfTheCommand) {
  EXPECT_THAT(Error({"run", "--partition"}), HasSubstr("nearest: --partition_size; `millrace run"));
  EXPECT_THAT(Error({"sweep", "--partition"}), HasSubstr("nearest: --partition_sizes; `millrace sweep"));
  EXPECT_THAT(Error({"--grph=g.pb", "run"}), HasSubstr("unknown flag --grph; nearest: --graph; `millrace COMMAND --help` lists them"));
  EXPECT_EQ(Error({"run", "--frobnicate"}), "unknown flag --frobnicate; `millrace run --help` lists them");
}

TEST_F(CommandLineTest, AnUnknownCommandIsRefusedWithTheNearest) {
  EXPECT_EQ(*ExpectCommand("run"), FindCommand("run"));
  const absl::Status status = ExpectCommand("comapre").status();
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unknown command comapre; nearest: compare; expected one of run, compare,"));
}

TEST_F(CommandLineTest, HelpIsACommandToo) {
  for (const std::vector<std::string>& argv : {std::vector<std::string>{"help"}, {"--help"}, {"-h"}}) {
    EXPECT_TRUE(Parse(argv)->help);
    EXPECT_THAT(Parse(argv)->words, IsEmpty());
  }
  for (const std::vector<std::string>& argv : {std::vector<std::string>{"help", "run"}, {"run", "--help"}, {"run", "-h"}}) {
    EXPECT_TRUE(Parse(argv)->help);
    EXPECT_THAT(Parse(argv)->words, ElementsAre("run"));
  }
  for (const char* flag : {"--version", "-V"}) EXPECT_TRUE(Parse({flag})->version);
}

TEST_F(CommandLineTest, AnEmptyValueIsNotTakenForNone) {
  for (const std::vector<std::string>& argv : {std::vector<std::string>{"run", "--graph="}, {"run", "--graph", ""}, {"run", "--graph=, "}}) {
    EXPECT_THAT(Error(argv), HasSubstr("nothing is given; expected a value, or leave the flag out"));
    EXPECT_THAT(Error(argv), testing::StartsWith("--graph="));
  }
  EXPECT_THAT(Error({"run", "--flagfile="}), HasSubstr("--flagfile=: nothing is given"));
}

TEST_F(CommandLineTest, FlagFilesNameTheirLine) {
  const std::string path = (fs::temp_directory_path() / absl::StrCat("flags_", getpid())).string();
  std::ofstream(path) << "# sizes\n\n--steps=7\n  --synthetic_feeds\n";
  const auto arguments = Parse({"run", "--flagfile=" + path});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(arguments->flags, IsEmpty());
  EXPECT_THAT(arguments->flags_of_files, ElementsAre("steps", "synthetic_feeds"));
  EXPECT_THAT(arguments->flag_files, ElementsAre(path));
  EXPECT_EQ(registry_.Value("steps"), "7");
  std::ofstream(path) << "--steps=7\n--setps=8\n";
  EXPECT_THAT(Error({"run", "--flagfile", path}), HasSubstr(":2: unknown flag --setps; nearest: --steps; `millrace run --help` lists them"));
  std::ofstream(path) << "--flagfile=" << path << "\n";
  EXPECT_THAT(Error({"run", "--flagfile=" + path}), HasSubstr("more than 16 flag files"));
  fs::remove(path);
  EXPECT_THAT(Error({"run", "--flagfile=" + path}), HasSubstr("--flagfile: "));
}

TEST_F(CommandLineTest, WordsAndSizesAreChecked) {
  const auto check = [&](const std::vector<std::string>& argv) {
    const auto arguments = Parse(argv);
    EXPECT_TRUE(arguments.ok()) << arguments.status();
    return ExitStatus(CheckArguments(*FindCommand(argv[0]), *arguments, registry_));
  };
  EXPECT_EQ(check({"run"}), kExitDone);
  EXPECT_EQ(check({"run", "mlp"}), kExitUsage);
  EXPECT_THAT(std::string(CheckArguments(*FindCommand("run"), *Parse({"run", "g.pb"}), registry_).message()),
              HasSubstr("unexpected argument g.pb: files and names are given by flags"));
  EXPECT_EQ(check({"fit", "mlp"}), kExitDone);
  EXPECT_EQ(check({"fit", "mlp", "vgg"}), kExitUsage);
  EXPECT_EQ(check({"model", "mlp", "--batch=0"}), kExitUsage);
  EXPECT_EQ(check({"model", "mlp", "--batch=1"}), kExitDone);
}

TEST_F(CommandLineTest, FlagsWithoutEffectAreWarnedOf) {
  EXPECT_THAT(WarningsOf({"run", "--steps=2", "--graph=g.pb"}, {"planned"}), IsEmpty());
  EXPECT_THAT(WarningsOf({"run", "--depth=2"}, {"planned"}), ElementsAre("--depth has no effect on millrace run"));
  EXPECT_THAT(WarningsOf({"model", "mlp", "--depth=2"}, {}), ElementsAre("--depth has no effect on the model mlp"));
  EXPECT_THAT(WarningsOf({"run", "--sync_mode=2"}, {"planned"}),
              ElementsAre("--sync_mode has no effect on strategy planned: it is of tflms"));
  EXPECT_THAT(WarningsOf({"run", "--sync_mode=2"}, {"planned", "tflms"}), IsEmpty());
}

TEST_F(CommandLineTest, FlagsOfOtherCommandsAreAsIfTheyWereNotGiven) {
  EXPECT_THAT(WarningsOf({"compare", "--plan_in=p.pb", "--steps=2"}, {"planned"}), ElementsAre("--plan_in has no effect on millrace compare"));
  EXPECT_EQ(registry_.Value("plan_in"), "");
  EXPECT_EQ(registry_.Value("steps"), "2");
  EXPECT_THAT(WarningsOf({"run", "--plan_in=p.pb"}, {}), IsEmpty());
  EXPECT_EQ(registry_.Value("plan_in"), "p.pb");
  // A file of flags serves several commands.
  const std::string path = (fs::temp_directory_path() / absl::StrCat("shared_flags_", getpid())).string();
  std::ofstream(path) << "--plan_in=p.pb\n--steps=7\n";
  EXPECT_THAT(WarningsOf({"sweep", "--flagfile=" + path}, {"planned"}), IsEmpty());
  EXPECT_EQ(registry_.Value("plan_in"), "");
  EXPECT_EQ(registry_.Value("steps"), "7");
  fs::remove(path);
}

TEST_F(CommandLineTest, PartitionSizesAreOfOrdersThatAreCut) {
  for (const char* strategy : {"baseline", "lru", "reactive", "tflms"}) {
    EXPECT_THAT(WarningsOf({"run", "--partition_size=7"}, {strategy}),
                ElementsAre(absl::StrCat("--partition_size has no effect on strategy ", strategy, ": its order is not cut by size")));
  }
  for (const char* strategy : {"tensorflowmem", "planned"}) EXPECT_THAT(WarningsOf({"run", "--partition_size=7"}, {strategy}), IsEmpty());
  EXPECT_THAT(WarningsOf({"compare", "--partition_size=7"}, {"baseline", "planned"}), IsEmpty());
}

TEST_F(CommandLineTest, TimeForPlanningIsOfStrategiesThatSearch) {
  for (const char* strategy : {"baseline", "lru", "reactive", "tflms"}) {
    EXPECT_THAT(WarningsOf({"run", "--plan_seconds=7"}, {strategy}),
                ElementsAre(absl::StrCat("--plan_seconds has no effect on strategy ", strategy, ": its order is found without a search")));
  }
  for (const char* strategy : {"tensorflowmem", "planned"}) EXPECT_THAT(WarningsOf({"run", "--plan_seconds=7"}, {strategy, "lru"}), IsEmpty());
}

TEST_F(CommandLineTest, PlanningAgainTakesStepsToMeasure) {
  EXPECT_THAT(WarningsOf({"run", "--replan=wait", "--steps=8"}, {"planned"}),
              ElementsAre("--replan=wait has no effect on --steps=8: what the first 8 take plans those after them"));
  EXPECT_THAT(WarningsOf({"run", "--replan=wait", "--steps=9"}, {"planned"}), IsEmpty());
  // A device that replays steps is timed in some that it replays, first.
  const char* const cuda = "--device=cuda_emulated";
  EXPECT_THAT(WarningsOf({"run", "--replan=wait", "--steps=10", cuda}, {"planned"}),
              ElementsAre("--replan=wait has no effect on --steps=10: what the first 10 take plans those after them"));
  EXPECT_THAT(WarningsOf({"run", "--replan=wait", "--steps=11", cuda}, {"planned"}), IsEmpty());
  for (const char* mode : {"--replan=off", "--replan=auto"}) EXPECT_THAT(WarningsOf({"run", mode, "--steps=2"}, {"planned"}), IsEmpty());
  EXPECT_THAT(WarningsOf({"run", "--steps=2"}, {"planned"}), IsEmpty());
}

TEST_F(CommandLineTest, SwappedTensorsAreChosenWhereSomeAreSwapped) {
  EXPECT_THAT(WarningsOf({"run", "--swap_distance=3", "--parts=placement"}, {"tensorflowmem"}),
              ElementsAre("--swap_distance has no effect on --parts=placement: nothing is swapped"));
  EXPECT_THAT(WarningsOf({"run", "--swap_distance=3", "--parts=swap"}, {"tensorflowmem"}), IsEmpty());
}

TEST_F(CommandLineTest, ReceivesAreSharedBetweenDevices) {
  const char* const alone = "--share_recv has no effect on one device: nothing is received from another";
  EXPECT_THAT(WarningsOf({"run", "--share_recv"}, {"tensorflowmem"}), ElementsAre(alone));
  EXPECT_THAT(WarningsOf({"run", "--share_recv", "--devices=1"}, {"planned"}), ElementsAre(alone));
  EXPECT_THAT(WarningsOf({"run", "--share_recv", "--devices=2"}, {"planned"}),
              ElementsAre("--share_recv has no effect on strategy planned, which always does so"));
  EXPECT_THAT(WarningsOf({"compare", "--share_recv", "--devices=cpu:0,cpu:1"}, {"planned", "lru"}), IsEmpty());
  EXPECT_THAT(WarningsOf({"run", "--noshare_recv"}, {"planned"}), IsEmpty());
}

TEST_F(CommandLineTest, FlagsOfCudaAreOfCudaDevices) {
  EXPECT_THAT(WarningsOf({"run", "--devices=gpu:0,gpu:1", "--tf32"}, {}), IsEmpty());
  EXPECT_THAT(WarningsOf({"run", "--device=cuda", "--devices=cpu:0,cpu:1", "--tf32"}, {}), ElementsAre("--tf32 has no effect on device cpu: it is of cuda"));
  EXPECT_THAT(WarningsOf({"run", "--tf32", "--threads=2"}, {}), ElementsAre("--tf32 has no effect on device cpu: it is of cuda"));
  EXPECT_THAT(WarningsOf({"run", "--device=cuda", "--tf32"}, {}), IsEmpty());
}

TEST_F(CommandLineTest, APlanThatIsReadLeavesNothingToPlan) {
  EXPECT_THAT(WarningsOf({"run", "--plan_in=p.pb", "--strategy=lru", "--replan=wait", "--partition_size=7", "--steps=2"}, {}),
              ElementsAre("--strategy has no effect on the steps: their plan is that of --plan_in",
                          "--replan has no effect on the steps: their plan is that of --plan_in",
                          "--partition_size has no effect on the steps: their plan is that of --plan_in"));
  EXPECT_THAT(WarningsOf({"run", "--strategy=lru", "--replan=wait", "--steps=10"}, {"lru"}), IsEmpty());
}

TEST_F(CommandLineTest, WhatIsOfStepsThatRunHasNoEffectWhereNoneDoes) {
  const char* const unless_asked = ", unless the step has to be run to be planned";
  for (const std::string command : {"plan", "explain", "fit"}) {
    const std::string no_effect = absl::StrCat("--seed has no effect on millrace ", command);
    EXPECT_THAT(WarningsOf({command, "--graph=g.pb", "--seed=3"}, {"planned"}), ElementsAre(no_effect + unless_asked));
    EXPECT_THAT(WarningsOf({command, "--graph=g.pb", "--seed=3", "--device=null"}, {"planned"}), ElementsAre(no_effect));
  }
  EXPECT_THAT(WarningsOf({"plan", "--graph=g.pb", "--seed=3", "--device=cpu", "--machine=titanx.pbtxt"}, {"planned"}),
              ElementsAre("--seed has no effect on millrace plan"));
  EXPECT_THAT(WarningsOf({"export", "--graph=g.pb", "--seed=3", "--device=cpu"}, {"planned"}), ElementsAre("--seed has no effect on millrace export"));
  EXPECT_THAT(WarningsOf({"run", "--graph=g.pb", "--seed=3"}, {"planned"}), IsEmpty());
  EXPECT_THAT(WarningsOf({"sweep", "--device=null", "--seed=3", "--threads=2", "--link_gbps=2"}, {"planned"}),
              ElementsAre("--seed has no effect on device null, which runs nothing", "--threads has no effect on device null, which runs nothing"));
  EXPECT_THAT(WarningsOf({"sweep", "--device=null", "--replan=wait", "--steps=3"}, {"planned"}),
              ElementsAre("--replan has no effect on device null, which runs nothing", "--steps has no effect on device null, which runs nothing"));
  EXPECT_THAT(WarningsOf({"sweep", "--device=cpu", "--seed=3", "--threads=2"}, {"planned"}), IsEmpty());
}

TEST_F(CommandLineTest, FlagsThatNeedAnotherOneAreWarnedOfWithoutIt) {
  EXPECT_THAT(WarningsOf({"sweep", "--partition_sizes=5,10"}, {"lru"}),
              ElementsAre("--partition_sizes has no effect on strategy lru: its order is not cut by size"));
  EXPECT_THAT(WarningsOf({"sweep", "--partition_sizes=5,10"}, {"lru", "tensorflowmem"}), IsEmpty());
  EXPECT_THAT(WarningsOf({"sweep", "--partition_sizes=5,10"}, {}), IsEmpty()) << "that none is given is an error";
  EXPECT_THAT(WarningsOf({"run", "--update_parts=1MiB", "--disk=/tmp"}, {"planned"}),
              ElementsAre("--update_parts has no effect beside --disk: updates are whole"));
  EXPECT_THAT(WarningsOf({"export", "--graph=g.pb", "--init_targets=init"}, {"planned"}),
              ElementsAre("--init_targets has no effect on millrace export, which plans the step alone"));
  EXPECT_THAT(WarningsOf({"machine", "--threads=2"}, {}), ElementsAre("--threads has no effect on millrace machine without --measure"));
  EXPECT_THAT(WarningsOf({"machine", "--threads=2", "--measure"}, {}), IsEmpty());
  EXPECT_THAT(WarningsOf({"inspect", "--graph=g.pb", "--ops"}, {}), ElementsAre("--graph has no effect beside --ops"));
  EXPECT_THAT(WarningsOf({"inspect", "--ops", "--report_out=r.json", "--v=1", "--stderrthreshold=1"}, {}), IsEmpty());
  EXPECT_THAT(WarningsOf({"inspect", "--ops", "--steps=3"}, {}), ElementsAre("--steps has no effect on millrace inspect"));
}

TEST_F(CommandLineTest, FitTakesSizesOfModelsAndFeedsOfGraphs) {
  EXPECT_THAT(WarningsOf({"fit", "resnet", "--depth=50", "--seed=3"}, {"planned"}), IsEmpty());
  EXPECT_THAT(WarningsOf({"fit", "resnet", "--synthetic_feeds"}, {"planned"}),
              ElementsAre("--synthetic_feeds has no effect on fit of a generated model"));
  EXPECT_THAT(WarningsOf({"fit", "resnet", "--batch=8"}, {"planned"}), ElementsAre("--batch has no effect: --vary=batch searches it"));
  EXPECT_THAT(WarningsOf({"fit", "--graph=g.pb", "--synthetic_feeds", "--depth=50"}, {"planned"}),
              ElementsAre("--depth has no effect on fit of a graph"));
}

}  // namespace
}  // namespace millrace::cli
