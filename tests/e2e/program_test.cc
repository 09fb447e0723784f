// The program as scripts use it: flags, files, signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "program.h"

namespace millrace {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

bool Catches(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  ADD_FAILURE() << "process " << pid << " has ended";
  return true;
}

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
  pid_t StartLongRun(std::vector<std::string> flags = {}) const {
    flags.push_back("--steps=1000000");
    flags.push_back("--report_out=" + program_.Path("report.json"));
    const pid_t pid = program_.Start(Training("run", flags));
    while (!Catches(pid, SIGINT)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return pid;
  }

  TestedProgram program_;
};

TEST_F(ProgramTest, SizesOfOtherModelsAreWarnedOf) {
  const Outcome outcome = program_.Run({"model", "vgg", "--experts=4", "--batch=2", "--out=" + program_.Path("vgg.pb")});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("--experts has no effect on the model vgg"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("--batch")));
}

TEST_F(ProgramTest, FlagsOfOtherStrategiesAreWarnedOf) {
  const std::vector<std::string> flags = {"--sync_mode=2", "--swap_distance=3", "--recompute=off", "--device_memory=4GiB"};
  const Outcome planned = program_.Run(Training("plan", flags));
  ASSERT_EQ(planned.exit_status, 0) << planned.err;
  EXPECT_THAT(planned.err, AllOf(HasSubstr("--sync_mode has no effect on strategy planned: it is of tflms"),
                                 HasSubstr("--swap_distance has no effect on strategy planned"), Not(HasSubstr("--recompute"))));
  std::vector<std::string> of_two = flags;
  of_two.insert(of_two.end(), {"--strategies=tflms,tensorflowmem", "--device=null"});
  const Outcome sweep = program_.Run(Training("sweep", of_two));
  EXPECT_THAT(sweep.err, AllOf(HasSubstr("--recompute has no effect on strategy tflms, tensorflowmem"), Not(HasSubstr("--sync_mode"))));
}

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
                                                HasSubstr("baseline,70%,0,RESOURCE_EXHAUSTED,")));
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
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("nodes  "), HasSubstr("Conv2D 53"), HasSubstr("unsupported  none"),
                                 HasSubstr("largest node")));
}

TEST_F(ProgramTest, InspectRefusesAStepThatTheGraphDoesNotHave) {
  const std::string graph = "--graph=" + program_.Path("model.pb");
  for (const char* flag : {"--fetches=nowhere", "--targets=nowhere", "--feeds=nowhere.npz", "--feed_shapes=nowhere:1x2", "--checkpoint_in=nowhere",
                           "--init_targets=nowhere"}) {
    const Outcome outcome = program_.Run({"inspect", graph, flag});
    const bool names_file = absl::StartsWith(flag, "--feeds") || absl::StartsWith(flag, "--checkpoint_in");
    EXPECT_EQ(outcome.exit_status, names_file ? 2 : 1) << flag;
    EXPECT_THAT(outcome.err, HasSubstr("nowhere"));
    EXPECT_THAT(outcome.out, HasSubstr("nodes  "));
  }
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

TEST_F(ProgramTest, AnExportedGraphOfPartsIsReadAgain) {
  const std::string graph = program_.Path("adam.pb"), out = program_.Path("parts.pbtxt");
  ASSERT_EQ(program_.Run({"model", "mlp", "--batch=2", "--layers=2", "--hidden=128", "--optimizer=adam", "--out=" + graph}).exit_status, 0);
  const Outcome exported = program_.Run({"export", "--graph=" + graph, "--fetches=loss:0", "--targets=train", "--synthetic_feeds",
                                         "--device_memory=70%", "--update_parts=8KiB", "--out=" + out});
  ASSERT_EQ(exported.exit_status, 0) << exported.err;
  EXPECT_THAT(program_.Read("parts.pbtxt"), HasSubstr("[0:"));  // shared_name of a part
  EXPECT_EQ(program_.Run({"inspect", "--graph=" + out}).exit_status, 0);
}

TEST_F(ProgramTest, FlagsMayComeFromAFile) {
  program_.Write("flags", "# an experiment\n--steps=2\n\n--strategy=lru\n");
  Outcome outcome = program_.Run(Training("run", {"--flagfile=" + program_.Path("flags")}));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("strategy       lru"));
  program_.Write("flags", "--steps=2\n--steps=two\n");
  outcome = program_.Run(Training("run", {"--flagfile=" + program_.Path("flags")}));
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("flags:2: --steps=two: expected a whole number"));
}

TEST_F(ProgramTest, EveryCommandHasHelp) {
  const Outcome all = program_.Run({"--help"});
  EXPECT_EQ(all.exit_status, 0);
  for (const char* command : {"run", "compare", "sweep", "plan", "inspect", "export", "explain", "fit", "machine", "model"}) {
    EXPECT_THAT(all.out, HasSubstr(std::string("  ") + command));
    const Outcome outcome = program_.Run({command, "--help"});
    EXPECT_EQ(outcome.exit_status, 0);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("--report_out"), HasSubstr("Example:")));
  }
  const std::string run = program_.Run({"run", "--help"}).out;
  EXPECT_THAT(run, AllOf(HasSubstr("(on; --noearly_start for off)"), HasSubstr("\nInput:\n  --graph "), HasSubstr("\nOutput:\n"), HasSubstr("(default 2)"), HasSubstr("(default planned)")));
  EXPECT_EQ(program_.Run({"help", "run"}).out, run);
  EXPECT_EQ(program_.Run({"help"}).out, all.out);
}

TEST_F(ProgramTest, EveryFlagIsInItsCommandsHelpUnderAHeadingAndNoLineIsLong) {
  for (const char* command : {"run", "compare", "sweep", "plan", "inspect", "export", "explain", "fit", "machine", "model"}) {
    const std::string help = program_.Run({command, "--help"}).out;
    for (const absl::string_view line : absl::StrSplit(help, '\n')) EXPECT_LE(line.size(), 100) << command << ": " << line;
    EXPECT_THAT(help, Not(HasSubstr("\nOther:"))) << command;
  }
  EXPECT_THAT(program_.Run({"model", "--help"}).out, HasSubstr("(default: the model's own)"));
  EXPECT_THAT(program_.Run({"sweep", "--help"}).out, HasSubstr("Exit status: 0 also where some rows do not fit"));
}

TEST_F(ProgramTest, WhatIsMisspeltIsOfferedAsItIsSpelt) {
  Outcome outcome = program_.Run({"run", "--grpah=model.pb"});
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_EQ(outcome.err, "millrace: unknown flag --grpah; nearest: --graph; `millrace run --help` lists them\n");
  outcome = program_.Run({"help", "comapre"});
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("nearest: compare"));
}

TEST_F(ProgramTest, AWarningIsALineOfThePrograms) {
  const Outcome outcome = program_.Run(Training("plan", {"--device=null", "--sync_mode=2"}));
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.err, "millrace: warning: --sync_mode has no effect on strategy planned: it is of tflms\n");
  const std::string also = program_.Run(Training("plan", {"--device=null", "--sync_mode=2", "--alsologtostderr"})).err;
  EXPECT_THAT(also, HasSubstr("--sync_mode has no effect"));
  EXPECT_EQ(std::count(also.begin(), also.end(), '\n'), 1) << also;
}

TEST_F(ProgramTest, WhatIsLoggedIsInFilesOfAFolderToo) {
  const std::string folder = program_.Path("logs");
  EXPECT_EQ(program_.Run(Training("plan", {"--device=null", "--log_dir=" + folder})).err, "millrace: --log_dir=" + folder + ": expected a folder to write in\n");
  std::filesystem::create_directory(folder);
  const Outcome outcome = program_.Run(Training("plan", {"--device=null", "--sync_mode=2", "--log_dir=" + folder}));
  EXPECT_THAT(outcome.err, testing::StartsWith("millrace: warning: --sync_mode has no effect"));
  std::string logged;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) logged += program_.Read("logs/" + entry.path().filename().string());
  }
  EXPECT_THAT(logged, HasSubstr("--sync_mode has no effect"));
  const Outcome nowhere = program_.Run(Training("plan", {"--device=null", "--logtostderr", "--log_dir=" + folder}));
  EXPECT_EQ(nowhere.exit_status, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("with --logtostderr nothing is written to files"));
}

TEST_F(ProgramTest, OnlyTheFlagNamesAFolderForWhatIsLogged) {
  setenv("TEST_TMPDIR", program_.Path("missing").c_str(), 1);
  const Outcome outcome = program_.Run({"--version"});
  unsetenv("TEST_TMPDIR");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
}

TEST_F(ProgramTest, MachinesThatComeWithTheProgramGoByTheirNames) {
  const Outcome known = program_.Run({"machine", "--machine=titanx"});
  EXPECT_EQ(known.exit_status, 0) << known.err;
  EXPECT_THAT(known.out, HasSubstr("titanx"));
  const Outcome unknown = program_.Run({"machine", "--machine=titany"});
  EXPECT_EQ(unknown.exit_status, 2);
  EXPECT_THAT(unknown.err, testing::ContainsRegex("--machine=titany: no such file, and none of the machines in .*/machines: a100, .*titanx"));
}

TEST_F(ProgramTest, TheVersionIsANumber) {
  const Outcome outcome = program_.Run({"--version"});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.out, testing::MatchesRegex("millrace [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(program_.Run({"-V"}).out, outcome.out);
}

TEST_F(ProgramTest, NamesInAListMayHaveSpacesBetweenThem) {
  const Outcome outcome = program_.Run(Training("run", {"--fetches=loss:0, loss:0", "--fetches_out=" + program_.Path("fetches.npz")}));
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
}

TEST_F(ProgramTest, NamesOfACheckpointThatTheGraphLacksAreWarnedOf) {
  const std::string prefix = program_.Path("ck");
  ASSERT_EQ(program_.Run(Training("run", {"--checkpoint_out=" + prefix})).exit_status, 0);
  ASSERT_EQ(program_.Run({"model", "mlp", "--batch=2", "--layers=1", "--out=" + program_.Path("other.pb")}).exit_status, 0);
  const Outcome same = program_.Run(Training("plan", {"--checkpoint_in=" + prefix}));
  EXPECT_EQ(same.exit_status, 0);
  EXPECT_THAT(same.err, Not(AnyOf(HasSubstr("the graph has no variable"), HasSubstr("no value of"))));
  const Outcome other = program_.Run(Training("plan", {"--checkpoint_in=" + prefix, "--graph=" + program_.Path("other.pb")}));
  EXPECT_THAT(other.err, HasSubstr("the graph has no variable"));
  ASSERT_EQ(program_.Run({"model", "mlp", "--batch=2", "--layers=9", "--out=" + program_.Path("deep.pb")}).exit_status, 0);
  const Outcome deep = program_.Run(Training("plan", {"--checkpoint_in=" + prefix, "--graph=" + program_.Path("deep.pb")}));
  EXPECT_THAT(deep.err, AllOf(HasSubstr("no value of "), HasSubstr(" more, which start as the init_targets leave them")));
}

TEST_F(ProgramTest, InterruptEndsAfterTheStepWithAReport) {
  const pid_t pid = StartLongRun();
  kill(pid, SIGINT);
  const Outcome outcome = program_.Wait(pid);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, AnyOf(HasSubstr("CANCELLED: interrupted after step"), HasSubstr("planning was interrupted")));
  EXPECT_THAT(program_.Read("report.json"), HasSubstr("\"status\": \"CANCELLED\""));
}

TEST_F(ProgramTest, OneInterruptEndsAWaitForTheReaderOfAPipe) {
  const std::string pipe = program_.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // Opened before the work, as a shell opens it, and nothing is there to be ended in order.
  pid_t pid = program_.Start(Training("run", {"--report_out=" + pipe}));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(pid, SIGTERM);
  EXPECT_EQ(program_.Wait(pid).exit_status, -1);
  // Opened after the work, whose other files are written all the same.
  pid = program_.Start(Training("run", {"--fetches_out=" + pipe, "--variables_out=" + program_.Path("variables.npz")}));
  while (program_.Files().size() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(pid, SIGTERM);
  const Outcome outcome = program_.Wait(pid);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("CANCELLED: interrupted while the pipe " + pipe + " had no reader"));
}

TEST_F(ProgramTest, AReaderOfAPipeFindsAllOfTheFile) {
  const std::string pipe = program_.Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const pid_t pid = program_.Start(Training("run", {"--fetches_out=" + pipe}));
  const std::string bytes = program_.Read("pipe");
  const Outcome outcome = program_.Wait(pid);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(bytes, testing::StartsWith("PK"));
}

TEST_F(ProgramTest, AKilledRunLeavesNoFiles) {
  const pid_t pid = StartLongRun();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(pid, SIGKILL);
  EXPECT_EQ(program_.Wait(pid).exit_status, -1);
  EXPECT_THAT(program_.Files(), testing::ElementsAre("model.pb"));
}

TEST_F(ProgramTest, StandardOutputThatTakesNothingCostsNoFilesAndIsAnError) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  close(pipe_ends[0]);  // as when the reader of `millrace run … | head` has left
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const std::vector<std::string> arguments = Training("run", {"--tflms_debug", "--strategy=tflms", "--report_out=" + program_.Path("report.json"),
                                                              "--variables_out=" + program_.Path("variables.npz")});
  for (const int out : {pipe_ends[1], full, TestedProgram::kClosed}) {
    const Outcome outcome = program_.Wait(program_.Start(arguments, out));
    EXPECT_EQ(outcome.exit_status, 1) << out;
    EXPECT_THAT(outcome.err, HasSubstr("cannot write the results to standard output")) << out;
    EXPECT_THAT(program_.Read("report.json"), AllOf(testing::StartsWith("{"), testing::EndsWith("}\n"))) << out;
    EXPECT_THAT(program_.Files(), testing::ElementsAre("model.pb", "report.json", "variables.npz")) << out;
    unlink(program_.Path("report.json").c_str());
    unlink(program_.Path("variables.npz").c_str());
  }
  close(pipe_ends[1]);
  close(full);
}

TEST_F(ProgramTest, AReportThatCannotBeWrittenCostsNoVariables) {
  const Outcome outcome =
      program_.Run(Training("run", {"--report_out=/dev/full", "--variables_out=" + program_.Path("variables.npz")}));
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/dev/full"));
  EXPECT_THAT(program_.Files(), testing::Contains("variables.npz"));
}

TEST_F(ProgramTest, AFileThatGrowsPastTheLimitIsAnError) {
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  const pid_t pid = program_.Start(Training("run", {"--variables_out=" + program_.Path("variables.npz")}));
  ASSERT_EQ(prlimit(pid, RLIMIT_FSIZE, &small, nullptr), 0);
  const Outcome outcome = program_.Wait(pid);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("variables.npz"), HasSubstr("File too large")));
  EXPECT_THAT(program_.Files(), testing::ElementsAre("model.pb"));
}

TEST_F(ProgramTest, APictureOfADiskTierHasItsLanes) {
  const std::vector<std::string> flags = {"--device_memory=60%", "--host_memory=60MiB", "--disk=" + program_.Path(""),
                                          "--plot_out=" + program_.Path("plot.svg"), "--html_out=" + program_.Path("page.html")};
  const Outcome outcome = program_.Run(Training("run", flags));
  ASSERT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(program_.Read("plot.svg"), AllOf(HasSubstr(">to disk<"), HasSubstr(">from disk<")));
  EXPECT_THAT(program_.Read("page.html"), HasSubstr("{\"kind\":\"to-disk\""));
}

TEST_F(ProgramTest, InterruptWhilePlanningAgainEndsAfterTheStepToo) {
  const pid_t pid = StartLongRun({"--device_memory=60%", "--threads=1"});
  // Somewhere around the eighth step, after which the planner starts.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill(pid, SIGINT);
  const Outcome outcome = program_.Wait(pid);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, AnyOf(HasSubstr("CANCELLED: interrupted after step"), HasSubstr("planning was interrupted")));
}

TEST_F(ProgramTest, MeasuredTimesAreKeptAndPlannedWith) {
  const std::string profile = program_.Path("times.pbtxt");
  const Outcome run = program_.Run(Training("run", {"--steps=9", "--device_memory=60%", "--replan=wait", "--profile_out=" + profile}));
  ASSERT_EQ(run.exit_status, 0) << run.err;
  EXPECT_THAT(program_.Read("times.pbtxt"), AllOf(HasSubstr("steps: 5"), HasSubstr("types: \"")));
  const Outcome plan = program_.Run(Training("plan", {"--device_memory=60%", "--profile_in=" + profile}));
  ASSERT_EQ(plan.exit_status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("from measured times"));
  const Outcome early = program_.Run(Training("run", {"--steps=2", "--profile_out=" + profile}));
  EXPECT_EQ(early.exit_status, 2);  // before the steps
  EXPECT_THAT(early.err, HasSubstr("it takes --steps=8 or more, not 2"));
  const Outcome wrong = program_.Run(Training("run", {"--profile_in=" + program_.Path("model.pb")}));
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("not a profile"));
}

TEST_F(ProgramTest, VariablesBeyondHostMemoryGoToDisk) {
  const std::vector<std::string> flags = {"--steps=2", "--device_memory=60%", "--host_memory=60MiB"};
  const Outcome refused = program_.Run(Training("run", flags));
  EXPECT_EQ(refused.exit_status, 3);
  std::vector<std::string> with_disk = flags;
  with_disk.push_back("--disk=" + program_.Path(""));
  const Outcome tiered = program_.Run(Training("run", with_disk));
  ASSERT_EQ(tiered.exit_status, 0) << tiered.err;
  EXPECT_THAT(tiered.out, testing::ContainsRegex("disk           per step .* to disk at .* GB/s, .* from disk at .* GB/s; planned at 1 GB/s\n"));
  const Outcome plain = program_.Run(Training("run", {"--steps=2"}));
  const auto digests = [](const std::string& out) { return out.substr(out.find("digests")); };
  EXPECT_EQ(digests(tiered.out), digests(plain.out));
  EXPECT_EQ(program_.Files(), (std::vector<std::string>{"model.pb"}));
}

}  // namespace
}  // namespace millrace
