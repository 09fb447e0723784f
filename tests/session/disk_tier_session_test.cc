// Training under a host budget that variables and swapped tensors do not fit, with a disk below it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "disk_session.h"
#include "graph/text.h"
#include "testlib/open_session.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Nothing there that could go to disk.
TEST(DiskTierSessionTest, ConstantsBeyondHostMemoryAreRefused) {
  absl::StatusOr<Graph> graph = ParseGraphText(R"(
x = Placeholder() {dtype=float, shape=shape[1024]}
c = Const() {dtype=float, value=float[1024]{3 ...}}
y = AddV2(x, c) {T=float})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto session = OpenSession(*std::move(graph), WithDisk(Options("baseline"), kDiskBounceBytes + kStateReserveBytes + 1000));
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = (*session)->Plan({{"x", {DataType::kFloat, Shape({1024})}}}, {"y"}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("short by 3096"));
}

TEST(DiskTierSessionTest, VariablesBeyondHostMemoryTrainWithTheSameBits) {
  for (const char* strategy : {"planned", "tensorflowmem", "lru"}) {
    ModelRun plain(Options(strategy));
    const std::vector<float> losses = plain.Steps(3);
    ASSERT_TRUE(plain.status().ok()) << plain.status();
    const auto variables = plain.Variables();
    for (const int64_t budget : {HostBudget(plain, 0.3), HostBudget(plain, 0.1), HostBudget(plain, 0)}) {
      ModelRun tiered(WithDisk(Options(strategy), budget));
      EXPECT_EQ(tiered.Steps(3), losses) << strategy << " " << budget;
      ASSERT_TRUE(tiered.status().ok()) << strategy << " " << budget << ": " << tiered.status();
      EXPECT_EQ(tiered.Variables(), variables) << strategy << " " << budget;
      EXPECT_LE(tiered.report().peak_host_bytes, budget) << strategy << " " << budget;
      EXPECT_EQ(tiered.report().bytes_from_disk, tiered.report().plan->bytes_from_disk);
      EXPECT_GT(tiered.report().bytes_from_disk, 0) << strategy << " " << budget;
    }
  }
}

TEST(DiskTierSessionTest, TransfersTakeTheTimeOfTheRateThatIsAskedFor) {
  ModelRun plain(Options("planned"));
  const int64_t budget = HostBudget(plain, 0.1);
  SessionOptions slow = WithDisk(Options("planned"), budget);
  constexpr double kRate = 0.25e6;
  slow.disk_gbps = kRate / 1e9;
  ModelRun paced(slow);
  paced.Steps(1);
  ASSERT_TRUE(paced.status().ok()) << paced.status();
  const RunReport& report = paced.report();
  const double least = static_cast<double>(std::max(report.bytes_from_disk, report.bytes_to_disk)) / kRate;
  ASSERT_GT(least, 0.05);  // far more than the disk takes
  EXPECT_GE(report.step_seconds.back(), 0.95 * least);
  EXPECT_GE(report.predicted_step_seconds, 0.95 * least);
  // Which is time that compute waits. The faked CUDA runs streams when something waits for them: its times are none.
  if (TestDevice() != "cuda") {
    EXPECT_GT(report.stall_seconds, 0.5 * report.step_seconds.back());
  }
  // It is told what was planned for, and what came of it.
  EXPECT_EQ(report.disk_bytes_per_second, kRate);
  for (const double measured : {report.to_disk_bytes_per_second, report.from_disk_bytes_per_second}) {
    EXPECT_GT(measured, 0.2 * kRate);
    EXPECT_LT(measured, 1.3 * kRate);
  }
}

TEST(DiskTierSessionTest, VariablesAreReadOneByOne) {
  ModelRun plain(Options("planned"));
  plain.Steps(1);
  ModelRun tiered(WithDisk(Options("planned"), HostBudget(plain, 0.1)));
  tiered.Steps(1);
  ASSERT_TRUE(tiered.status().ok()) << tiered.status();
  const auto all = plain.session().Variables();
  ASSERT_TRUE(all.ok() && all->size() > 1);
  auto next = all->begin();
  const absl::Status read = tiered.session().ReadVariables([&](const std::string& name, const Tensor& value) {
    EXPECT_EQ(name, next->first);
    EXPECT_TRUE(value.BitEqual(next->second)) << name;
    ++next;
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok() && next == all->end()) << read;
  int taken = 0;
  const absl::Status ended = tiered.session().ReadVariables([&](const std::string&, const Tensor&) {
    return ++taken == 2 ? absl::ResourceExhaustedError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(ended, absl::ResourceExhaustedError("enough"));
  EXPECT_EQ(taken, 2);
}

TEST(DiskTierSessionTest, WhatLivesOnTheDeviceNeedsNoHostMemory) {
  ModelRun plain(Options("baseline", 0));
  const std::vector<float> losses = plain.Steps(2);
  SessionOptions options = WithDisk(Options("baseline", 0), HostBudget(plain, 0));
  ModelRun tiered(options);
  EXPECT_EQ(tiered.Steps(2), losses);
  ASSERT_TRUE(tiered.status().ok()) << tiered.status();
  EXPECT_EQ(tiered.report().bytes_to_disk, 0);
  EXPECT_EQ(tiered.Variables(), plain.Variables());
  options.disk.clear();
  options.planning.host_memory_bytes = 20000;
  ModelRun refused(options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
}

TEST(DiskTierSessionTest, ReplanningCarriesVariablesOver) {
  ModelRun plain(Options("planned"));
  const std::vector<float> losses = plain.Steps(9);
  SessionOptions options = WithDisk(Options("planned"), HostBudget(plain, 0.3));
  options.replan = {.mode = ReplanOptions::Mode::kWait, .skipped_steps = 1, .measured_steps = 2, .least_gain = -100};
  ModelRun tiered(options);
  EXPECT_EQ(tiered.Steps(9), losses);
  ASSERT_TRUE(tiered.status().ok()) << tiered.status();
  EXPECT_EQ(tiered.report().replans, 2);
  EXPECT_EQ(tiered.Variables(), plain.Variables());
}

TEST(DiskTierSessionTest, ABudgetBelowTheLargestTensorIsRefused) {
  ModelRun plain(Options("planned"));
  plain.Steps(1);
  ModelRun refused(WithDisk(Options("planned"), HostBudget(plain, 0) - 2 * kDiskPageBytes));
  refused.Steps(1);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("short by"));
}

// Whose pool takes all that the budget leaves: initializers' states are there before.
TEST(DiskTierSessionTest, StatesOfManyInitializersHaveRoom) {
  constexpr int kVariables = 1100;
  std::string text = "x = Placeholder() {dtype=float, shape=shape[64]}\nshape = Const() {dtype=int32, value=int32[1]{64}}\n";
  std::string inits, sum = "x";
  for (int i = 0; i < kVariables; ++i) {
    absl::StrAppend(&text, "v", i, " = VarHandleOp() {dtype=float, shape=shape[64], shared_name=\"v", i, "\"}\n",
                    "r", i, " = RandomStandardNormal(shape) {T=int32, dtype=float}\n",
                    "a", i, " = AssignVariableOp(v", i, ", r", i, ") {dtype=float}\n",
                    "w", i, " = ReadVariableOp(v", i, ") {dtype=float}\n",
                    "s", i, " = AddV2(", sum, ", w", i, ") {T=float}\n");
    sum = absl::StrCat("s", i);
    absl::StrAppend(&inits, " ^a", i);
  }
  absl::StrAppend(&text, "init = NoOp()", inits, "\n");
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options = Options("planned");
  options.planning.host_memory_bytes = int64_t{3} << 20;
  options.disk = ::testing::TempDir();
  auto session = OpenSession(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  absl::Status ran = (*session)->Run({}, {}, {"init"}, nullptr);
  ASSERT_TRUE(ran.ok()) << ran;
  std::vector<Tensor> fetched;
  ran = (*session)->Run({{"x", Tensor(DataType::kFloat, Shape({64}))}}, {absl::StrCat(sum, ":0")}, {}, &fetched);
  EXPECT_TRUE(ran.ok()) << ran;
}

TEST(DiskTierSessionTest, APlanWithoutATierIsRefused) {
  ModelRun untiered(Options("planned"));
  SessionOptions options = Options("planned");
  options.planning.host_memory_bytes = int64_t{1} << 30;
  options.disk = ::testing::TempDir();
  ModelRun tiered(options);
  const absl::Status used = tiered.session().UsePlan(untiered.TrainPlan(), TypesOf(tiered.feeds()), {"loss:0"}, {"train"});
  ASSERT_TRUE(used.ok()) << used;
  tiered.Steps(1);
  EXPECT_EQ(tiered.status().code(), absl::StatusCode::kFailedPrecondition) << tiered.status();
}

TEST(DiskTierSessionTest, ADiskNeedsABudgetAndAFolder) {
  SessionOptions options = Options("planned");
  options.disk = ::testing::TempDir();
  EXPECT_EQ(OpenSession(SmallModel(), options).status().code(), absl::StatusCode::kInvalidArgument);
  options.planning.host_memory_bytes = 1 << 20;
  options.disk = "/proc/nowhere";
  EXPECT_EQ(OpenSession(SmallModel(), options).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Eight variables of which two or three fit the device, and not all fit host memory; each is updated by what `x` may make fail.
Graph CheckedUpdates() {
  std::string text = R"(
x = Placeholder() {dtype=float, shape=shape[4096]}
one = Const() {dtype=float, value=float[4096]{1 ...}}
checked = CheckNumerics(x) {T=float, message="x"}
)";
  std::string inits, updates;
  for (int i = 0; i < 8; ++i) {
    absl::StrAppend(&text, "v", i, " = VarHandleOp() {dtype=float, shape=shape[4096], shared_name=\"v", i, "\"}\n",
                    "a", i, " = AssignVariableOp(v", i, ", one) {dtype=float}\n",
                    "r", i, " = ReadVariableOp(v", i, ") {dtype=float}\n",
                    "d", i, " = Mul(checked, r", i, ") {T=float}\n",
                    "u", i, " = AssignSubVariableOp(v", i, ", d", i, ") {dtype=float}\n");
    absl::StrAppend(&inits, " ^a", i);
    absl::StrAppend(&updates, " ^u", i);
  }
  absl::StrAppend(&text, "init = NoOp()", inits, "\ntrain = NoOp()", updates, "\n");
  absl::StatusOr<Graph> graph = ParseGraphText(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

TEST(DiskTierSessionTest, AKernelThatFailsLeavesWhatIsOnDiskAsItWas) {
  SessionOptions options = WithDisk(Options("planned"), kDiskBounceBytes + kStateReserveBytes + (16 << 10) + (80 << 10));
  auto session = OpenSession(CheckedUpdates(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  absl::Status ran = (*session)->Run({}, {}, {"init"}, nullptr);
  ASSERT_TRUE(ran.ok()) << ran;
  for (const float x : {0.5f, std::numeric_limits<float>::infinity(), 0.25f}) {
    Tensor value(DataType::kFloat, Shape({4096}));
    std::fill_n(value.mutable_as<float>().data(), 4096, x);
    ran = (*session)->Run({{"x", value}}, {}, {"train"}, nullptr);
    if (std::isfinite(x)) {
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_GT((*session)->last_run().bytes_to_disk, 0);
    } else {
      EXPECT_THAT(std::string(ran.message()), AllOf(HasSubstr("node 'checked' (CheckNumerics)"), HasSubstr("no variable has changed")));
    }
    const auto variables = (*session)->Variables();
    ASSERT_TRUE(variables.ok()) << variables.status();
    for (const auto& [name, tensor] : *variables) EXPECT_EQ(tensor.as<float>()[4095], x == 0.25f ? 0.375f : 0.5f) << name << " " << x;
  }
}

}  // namespace
}  // namespace millrace::testing
