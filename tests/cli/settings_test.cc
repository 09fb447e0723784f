// What flags of devices and disks say, and errors of wrong usage.
#include "cli/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "fake_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ParseDevices, NamesAndKindsOfThem) {
  const auto parsed = [](const std::string& names, const std::string& device) {
    const auto devices = ParseDevices(names, device);
    EXPECT_TRUE(devices.ok()) << devices.status();
    return devices.value_or(Devices{});
  };
  EXPECT_THAT(parsed("", "cuda").names, IsEmpty());
  EXPECT_THAT(parsed("2", "cuda").names, ElementsAre("cuda:0", "cuda:1"));
  EXPECT_EQ(parsed("gpu:0,GPU:1", "cpu").kind, "cuda");
  EXPECT_EQ(parsed("gpu:0,cuda:1", "cpu").kind, "cuda");
  EXPECT_EQ(parsed("gpu:0,gpu:1", "cuda_emulated").kind, "cuda_emulated");
  // Planned for, whatever they are.
  EXPECT_EQ(parsed("cpu:0,gpu:1", "null").kind, "null");
  EXPECT_THAT(parsed("cpu:0,gpu:1", "null").names, ElementsAre("cpu:0", "gpu:1"));
}

TEST(ParseDevices, OfTwoKindsIsWrongUsage) {
  for (const char* const names : {"cpu:0,gpu:1", "gpu:0,cpu:1", "null:0,cpu:1"}) {
    const absl::Status status = ParseDevices(names, "cpu").status();
    EXPECT_EQ(ExitStatus(status), kExitUsage) << names;
    EXPECT_THAT(std::string(status.message()), HasSubstr("are of two kinds, expected one"));
  }
  EXPECT_THAT(std::string(ParseDevices("cpu:0,tpu:1", "cpu").status().message()), HasSubstr("tpu:1 is none of cpu, gpu, cuda and null"));
}

TEST(MakeSessionOptions, WrongParametersOfTflmsAreNamedByTheirFlags) {
  const auto message = [](const TflmsOptions& tflms) {
    Options options;
    options.strategy.tflms = tflms;
    const absl::Status status = MakeSessionOptions(options, "tflms").status();
    EXPECT_EQ(ExitStatus(status), kExitUsage);
    return std::string(status.message());
  };
  EXPECT_THAT(message({.swapout_threshold = 0}), HasSubstr("--swapout_threshold is 0"));
  EXPECT_THAT(message({.serialization = {"1..2"}}), HasSubstr("--serialization: \"1..2\""));
}

TEST(MakeSessionOptions, ADeviceIsWaitedForAsLongAsTheFlagSays) {
  Options options;
  EXPECT_EQ(MakeSessionOptions(options, "planned")->device_timeout_seconds, SessionOptions().device_timeout_seconds);
  for (const double seconds : {0.0, 2.5}) {
    options.engine.device_timeout = seconds;
    EXPECT_EQ(MakeSessionOptions(options, "planned")->device_timeout_seconds, seconds);
  }
  for (const double seconds : {-1.0, std::numeric_limits<double>::infinity()}) {
    options.engine.device_timeout = seconds;
    const absl::Status status = MakeSessionOptions(options, "planned").status();
    EXPECT_EQ(ExitStatus(status), kExitUsage);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 0 (no limit) or more seconds"));
  }
}

TEST(ParseBudget, WhatIsNoBudgetIsRefusedByTheNameOfItsFlag) {
  for (const char* const text : {"12Gip", "-5", "0", "0%", "1001%", "x%", "1GiB,", "1GiB,0", "1GiB,50%", "none,1GiB"}) {
    const absl::Status status = ParseBudget("device_memory", text).status();
    EXPECT_EQ(ExitStatus(status), kExitUsage) << text;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(absl::StrCat("--device_memory=", text, ": ")));
  }
  EXPECT_THAT(std::string(ParseBudget("budgets", "12Gip").status().message()), HasSubstr("--budgets=12Gip: size \"12Gip\" has an unknown unit; expected"));
  EXPECT_THAT(ParseBudget("device_memory", "1KiB,2KiB")->bytes_of, ElementsAre(1024, 2048));
  EXPECT_EQ(ParseBudget("device_memory", "50%")->percent, 50);
  EXPECT_EQ(ParseBudget("device_memory", "1KiB")->bytes, 1024);
}

TEST(ParseBudget, SizesAreAsManyAsDevices) {
  EXPECT_TRUE(CheckSizePerDevice(*ParseBudget("device_memory", "1KiB,2KiB"), 2).ok());
  EXPECT_TRUE(CheckSizePerDevice(*ParseBudget("device_memory", "1KiB"), 2).ok());
  Options options;
  options.argument = "mlp";
  options.vary = "batch";
  options.engine.device_memory = "1GiB,2GiB";
  FakeWorld world;
  const absl::Status status = FitCommand(options, world.environment);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_EQ(status.message(), "--device_memory=1GiB,2GiB: 2 sizes for 1 device, expected one each, or one for all");
}

TEST(MakeSessionOptions, NoPartsAreNotBesideOthers) {
  Options options;
  options.strategy.parts = {"none"};
  EXPECT_TRUE(MakeSessionOptions(options, "tensorflowmem").ok());
  options.strategy.parts = {"none", "swap"};
  EXPECT_EQ(ExitStatus(MakeSessionOptions(options, "tensorflowmem").status()), kExitUsage);
}

TEST(MakeSessionOptions, HostMemoryIsTheFlagsElseTheMachines) {
  Options options;
  const auto host_bytes = [&](const char* flag) {
    options.engine.host_memory = flag;
    return MakeSessionOptions(options, "planned")->planning.host_memory_bytes;
  };
  EXPECT_EQ(host_bytes(""), PlanningOptions::kNoLimit);
  options.engine.machine = absl::StrCat(testing::TempDir(), "/settings_test_machine_", getpid(), ".pbtxt");
  std::ofstream(options.engine.machine) << "host_memory: '2MiB' tensor_alignment_bytes: 256";
  EXPECT_EQ(host_bytes(""), 2 << 20);
  EXPECT_EQ(host_bytes("1MiB"), 1 << 20);
  EXPECT_EQ(host_bytes("none"), PlanningOptions::kNoLimit);
  EXPECT_EQ(MakeSessionOptions(options, "planned")->machine.tensor_alignment_bytes, 256);
  std::filesystem::remove(options.engine.machine);
}

TEST(MakeSessionOptions, AMachineGoesByTheNameOfItsFileToo) {
  Options options;
  options.engine.machine_folders = {"/no/such/folder", MILLRACE_SOURCE_DIR "/configs/machines"};
  for (const char* name : {"titanx", "titanx.pbtxt", MILLRACE_SOURCE_DIR "/configs/machines/titanx.pbtxt"}) {
    options.engine.machine = name;
    const auto session = MakeSessionOptions(options, "planned");
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(session->machine.name, "titanx");
  }
  options.engine.machine = "titany";
  const absl::Status unknown = MakeSessionOptions(options, "planned").status();
  EXPECT_EQ(ExitStatus(unknown), kExitUsage);
  EXPECT_THAT(std::string(unknown.message()), testing::AllOf(testing::HasSubstr("--machine=titany: no such file"),
                                                             testing::ContainsRegex("configs/machines: a100, .*titanx")));
  options.engine.machine_folders.clear();
  EXPECT_EQ(ExitStatus(MakeSessionOptions(options, "planned").status()), kExitUsage);
}

TEST(MakeSessionOptions, SlowedLinksAreThoseOfTheMachine) {
  Options options;
  options.engine.link_gbps = 3;
  EXPECT_EQ(MakeSessionOptions(options, "planned")->machine.to_host_bytes_per_second, 3e9);
  options.engine.link_gbps = 1e-12;
  const absl::Status status = MakeSessionOptions(options, "planned").status();
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_EQ(status.message(), "--link_gbps is 1e-12, expected 0 (not slowed) or GB/s, 1e-09 to 1e+21");
}

TEST(DeviceBudgets, NoneIsNoLimitWhateverTheMachineHas) {
  PlanningOptions planning;
  DeviceBudgets().Apply(planning);
  EXPECT_EQ(planning.device_memory_bytes, PlanningOptions::kNoLimit);
  EXPECT_EQ(planning.BudgetOf(0), 0);
  EXPECT_EQ(BaselineOf({}).device_memory_bytes, PlanningOptions::kNoLimit);
  DeviceBudgets{.bytes = 5}.Apply(planning);
  EXPECT_EQ(planning.BudgetOf(0), 5);
}

TEST(CheckRuns, ADiskIsAFolder) {
  SessionOptions session;
  session.device = "cpu";
  EXPECT_TRUE(CheckRuns(session).ok());
  session.disk = testing::TempDir();
  EXPECT_TRUE(CheckRuns(session).ok());
  for (const char* const none : {"/no/such/folder", "/dev/null"}) {
    session.disk = none;
    const absl::Status status = CheckRuns(session);
    EXPECT_EQ(ExitStatus(status), kExitUsage);
    EXPECT_THAT(std::string(status.message()), HasSubstr(none));
  }
}

// In a process of its own, for the sake of those who may write anywhere.
TEST(CheckRuns, ADiskCanBeWritten) {
  SessionOptions session;
  session.device = "cpu";
  session.disk = absl::StrCat(testing::TempDir(), "/settings_test_disk_", getpid());
  std::filesystem::create_directory(session.disk);
  std::filesystem::permissions(session.disk, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto exit_without_rights = [&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setuid(kNobody) != 0) std::exit(EXIT_FAILURE);
    const absl::Status status = CheckRuns(session);
    std::cerr << status.message() << "\n";
    std::exit(ExitStatus(status));
  };
  EXPECT_EXIT(exit_without_rights(), testing::ExitedWithCode(kExitUsage), ": Permission denied, expected a folder to write in");
  std::filesystem::remove(session.disk);
}

TEST(RunCommand, ABudgetThatTheDeviceHasNotTheMemoryForDoesNotFit) {
  FakeWorld world;
  int asked = 0;
  world.environment.create_session = [&](std::shared_ptr<const Graph>, const SessionOptions&) -> absl::StatusOr<std::unique_ptr<Session>> {
    ++asked;
    return absl::ResourceExhaustedError("cuda:0: cannot allocate 9 bytes of device memory, 5 of 8 are free; lower --device_memory");
  };
  Options options;
  options.input.graph = "graph.pb";
  options.input.targets = {"train"};
  options.engine.device_memory = "9";
  EXPECT_EQ(ExitStatus(RunCommand(options, world.environment)), kExitDoesNotFit);
  EXPECT_EQ(asked, 1) << "no plan finds more memory";
}

TEST(RunCommand, AnOptimizerThatThereIsNotIsWrongUsage) {
  FakeWorld world;
  Options options;
  options.input.onnx = "model.onnx";
  options.input.train = true;
  options.input.loss = "mean:y";
  options.input.optimizer = "sdg";
  const absl::Status status = RunCommand(options, world.environment);
  EXPECT_EQ(ExitStatus(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--optimizer=sdg: optimizer 'sdg', expected sgd, momentum"));
}

TEST(RunCommand, InterruptsAreCaughtOnceTheInputIsRead) {
  FakeWorld world;
  bool read = false, caught = false;
  world.environment.load_graph = [&](const std::string&) -> absl::StatusOr<Graph> {
    EXPECT_FALSE(caught) << "there is nothing to end in order yet";
    read = true;
    return Graph();
  };
  world.environment.catch_interrupts = [&] { caught = read; };
  Options options;
  options.input.graph = "graph.pb";
  options.input.targets = {"train"};
  EXPECT_TRUE(RunCommand(options, world.environment).ok());
  EXPECT_TRUE(caught);
}

TEST(Commands, TellWhatTheyFoundThoughItsReportCannotBeWritten) {
  for (const auto command : {CompareCommand, PlanCommand, SweepCommand}) {
    FakeWorld world;
    Options options;
    options.input.graph = "graph.pb";
    options.input.targets = {"train"};
    options.strategy.strategies = {"baseline"};
    options.output.report_out = "/dev/full";
    const absl::Status status = command(options, world.environment);
    EXPECT_EQ(ExitStatus(status), kExitFailed);
    EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full"));
    EXPECT_THAT(world.out.str(), testing::Not(IsEmpty()));
  }
}

TEST(AddError, KeepsTheFirstKindAndAllMessages) {
  absl::Status status;
  AddError(absl::OkStatus(), status);
  EXPECT_TRUE(status.ok());
  AddError(UsageError("a"), status);
  AddError(absl::OkStatus(), status);
  AddError(absl::InternalError("b"), status);
  EXPECT_EQ(status.message(), "a; b");
  EXPECT_EQ(ExitStatus(status), kExitUsage);
}

}  // namespace
}  // namespace millrace::cli
