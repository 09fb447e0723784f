// Training under a host budget that variables and swapped tensors do not fit, with a disk below it.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_device.h"
#include "graph/text.h"
#include "model_run.h"
#include "plan/disk_layout.h"
#include "plan/plan_verifier.h"
#include "runtime/executor.h"
#include "session/asker.h"
#include "testlib/open_session.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kDeviceBudget = 60000;

SessionOptions Options(const std::string& strategy, int64_t device_budget = kDeviceBudget) {
  SessionOptions options;
  options.threads = 1;
  options.planning.strategy = strategy;
  options.planning.device_memory_bytes = device_budget;
  options.replan.mode = ReplanOptions::Mode::kOff;
  return options;
}

int64_t ConstantBytes(const ExecutionPlan& plan) {
  int64_t bytes = 0;
  for (const PlanConstant& constant : plan.constants) bytes += AlignUp(constant.value.size_bytes());
  return bytes;
}

// The budget at which this part of what the host pool would hold in whole pages fits, and the largest tensor.
int64_t HostBudget(ModelRun& run, double part) {
  const auto plan = run.TrainPlan();
  const ExecutionPlan& untiered = *plan;
  const int64_t fixed =
      kDiskBounceBytes + kStateReserveBytes + std::max(ConstantBytes(untiered), ConstantBytes(*run.InitPlan()));
  int64_t pages = 0, largest = 0;
  for (const PlanVariable& variable : untiered.variables) {
    const int64_t bytes = AlignUp(variable.type.size_bytes(), kDiskPageBytes);
    largest = std::max(largest, bytes);
    pages += bytes;
  }
  for (const Lane& lane : untiered.lanes) {
    for (const CopyStep& copy : lane.copies) {
      if (copy.host.kind == HostRef::Kind::kPool) largest = std::max(largest, AlignUp(copy.bytes, kDiskPageBytes));
    }
  }
  const int64_t pool_bytes = untiered.host_pool_bytes;
  return fixed + std::max(largest, static_cast<int64_t>(part * static_cast<double>(pages + pool_bytes)));
}

SessionOptions WithDisk(SessionOptions options, int64_t host_budget) {
  options.planning.host_memory_bytes = host_budget;
  options.disk = ::testing::TempDir();
  return options;
}

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
  slow.disk_gbps = 0.001;
  ModelRun paced(slow);
  paced.Steps(1);
  ASSERT_TRUE(paced.status().ok()) << paced.status();
  const RunReport& report = paced.report();
  const double least = static_cast<double>(std::max(report.bytes_from_disk, report.bytes_to_disk)) / 1e6;
  ASSERT_GT(least, 0.05);  // far more than the disk takes
  EXPECT_GE(report.step_seconds.back(), 0.95 * least);
  EXPECT_GE(report.predicted_step_seconds, 0.95 * least);
  // It is told what was planned for, and what came of it.
  EXPECT_EQ(report.disk_bytes_per_second, 1e6);
  for (const double measured : {report.to_disk_bytes_per_second, report.from_disk_bytes_per_second}) {
    EXPECT_GT(measured, 0.2e6);
    EXPECT_LT(measured, 1.3e6);
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
  Session::FeedTypes types;
  for (const auto& [name, tensor] : tiered.feeds()) types.emplace(name, tensor.type());
  const absl::Status used = tiered.session().UsePlan(untiered.TrainPlan(), types, {"loss:0"}, {"train"});
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

// Executors over plans of a session, with lanes that are held up and a disk that fails.
class TieredEngine : private LaneObserver {
 public:
  // A plan of the steps under `options`, and one under each of `others`.
  explicit TieredEngine(const Graph& graph, const SessionOptions& options, const std::vector<SessionOptions>& others = {})
      : feeds_(FeedsOf(graph)),
        host_(options.planning.host_memory_bytes),
        variables_(&host_),
        runner_(MakeTbbTaskRunner(1)),
        device_(cpu::MakeCpuDevice(0)),
        kernels_(CpuKernels()) {
    auto disk = DiskTier::Create({.folder = ::testing::TempDir(),
                                  .fault = [this](bool write, int64_t, int64_t bytes) { return Fault(write, bytes); }},
                                 &host_);
    EXPECT_TRUE(disk.ok()) << disk.status();
    disk_ = *std::move(disk);
    variables_.UseDisk(disk_.get());
    auto session = OpenSession(graph.Clone(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    Session::FeedTypes types;
    for (const auto& [name, tensor] : feeds_) types.emplace(name, tensor.type());
    init_ = Make((*session)->Plan({}, {}, {"init"}));
    train_.push_back(Make((*session)->Plan(types, {"loss:0"}, {"train"})));
    for (const SessionOptions& other : others) {
      auto another = OpenSession(graph.Clone(), other);
      EXPECT_TRUE(another.ok()) << another.status();
      train_.push_back(Make((*another)->Plan(types, {"loss:0"}, {"train"})));
    }
  }

  absl::Status Init() { return init_->RunStep({}, nullptr, nullptr); }
  absl::Status Step(size_t which = 0) {
    std::vector<Tensor> feeds;
    for (const PlanFeed& feed : train_[which]->plan().feeds) feeds.push_back(feeds_.at(feed.name.substr(0, feed.name.find(':'))));
    return train_[which]->RunStep(feeds, nullptr, nullptr);
  }
  // Another executor of the same plan, as sessions make them of plans that were forgotten.
  void MakeAgain(size_t which) { train_[which] = Make(std::make_shared<const ExecutionPlan>(train_[which]->plan())); }
  // Runs what initialises as if it were asked. After it, there is no such executor.
  absl::Status Ask() {
    AskingProgram program{std::make_shared<const ExecutionPlan>(init_->plan()), std::move(init_)};
    return RunAsking(program, {}, variables_).status();
  }
  absl::Status Set(const std::string& name, const Tensor& value) { return variables_.Set(name, value); }
  int64_t bytes_read() const { return bytes_read_; }
  // As before another plan is made: nobody's turn.
  absl::Status Rest() { return variables_.Acquire(nullptr); }
  int64_t disk_bytes() const { return disk_->reserved_bytes(); }
  absl::StatusOr<std::string> Digest() { return variables_.Digest(); }
  const ExecutionPlan& plan() const { return train_[0]->plan(); }

  void DelayLanes(uint64_t seed) { seed_ = seed; }
  // The transfer that comes after this many more in that direction ends with `error`; negative: none does.
  void FailAfter(int transfers, bool write, int error) {
    write_ = write;
    error_ = error;
    transfers_ = transfers;
  }
  int transfers_left() const { return transfers_; }

 private:
  std::unique_ptr<Executor> Make(const absl::StatusOr<std::shared_ptr<const ExecutionPlan>>& plan) {
    EXPECT_TRUE(plan.ok()) << plan.status();
    ExecutorOptions options;
    options.observer = this;
    auto executor = Executor::Create(*plan, {{device_.get()}, runner_.get(), &kernels_, &host_, &variables_, disk_.get()},
                                     options);
    EXPECT_TRUE(executor.ok()) << executor.status();
    return *std::move(executor);
  }
  int Fault(bool write, int64_t bytes) {
    if (!write) bytes_read_ += bytes;
    if (write != write_ || transfers_ < 0) return 0;
    return transfers_.fetch_sub(1) == 0 ? error_ : 0;
  }
  absl::Status BeforeStep(int32_t lane, int64_t step) override {
    if (seed_ == 0) return absl::OkStatus();
    uint64_t x = seed_ * 31 + static_cast<uint64_t>(lane * 1000003 + step);
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    if (x % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(x / 16 % 300));
    return absl::OkStatus();
  }

  const Session::Feeds feeds_;
  std::atomic<int> transfers_{-1};
  std::atomic<int64_t> bytes_read_{0};
  bool write_ = true;
  int error_ = 0;
  uint64_t seed_ = 0;
  HostMemory host_;
  std::unique_ptr<DiskTier> disk_;
  VariableStore variables_;
  std::unique_ptr<TaskRunner> runner_;
  std::unique_ptr<RuntimeDevice> device_;
  KernelCache kernels_;
  std::unique_ptr<Executor> init_;
  std::vector<std::unique_ptr<Executor>> train_;
};

SessionOptions TightOptions() {
  ModelRun plain(Options("planned"));
  plain.Steps(1);
  return WithDisk(Options("planned"), HostBudget(plain, 0.1));
}

TEST(DiskTierSessionTest, BitsDoNotDependOnWhenLanesRun) {
  const SessionOptions options = TightOptions();
  const Graph graph = SmallModel();
  std::string digest;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    TieredEngine engine(graph, options);
    engine.DelayLanes(seed);
    ASSERT_TRUE(engine.Init().ok());
    for (int step = 0; step < 2; ++step) ASSERT_TRUE(engine.Step().ok()) << seed;
    const auto found = engine.Digest();
    ASSERT_TRUE(found.ok()) << found.status();
    if (seed == 0) digest = *found;
    EXPECT_EQ(*found, digest) << seed;
  }
}

TEST(DiskTierSessionTest, BitsDoNotDependOnWhenAnotherPlanTakesOver) {
  const SessionOptions options = TightOptions();
  std::vector<SessionOptions> others(2, options);
  others[0].planning.strategy = "tensorflowmem";
  others[1].planning.device_memory_bytes = 0;
  const Graph graph = SmallModel();
  std::string digest;
  for (const std::vector<size_t>& plans : {std::vector<size_t>{0, 0, 0, 0}, {0, 1, 2, 0}, {2, 0, 0, 1}, {1, 2, 1, 2}}) {
    TieredEngine engine(graph, options, others);
    engine.DelayLanes(plans[0] * 7 + plans[1]);
    ASSERT_TRUE(engine.Init().ok());
    for (const size_t which : plans) {
      const absl::Status status = engine.Step(which);
      ASSERT_TRUE(status.ok()) << status;
    }
    const auto found = engine.Digest();
    ASSERT_TRUE(found.ok()) << found.status();
    if (digest.empty()) digest = *found;
    EXPECT_EQ(*found, digest) << plans[0] << plans[1] << plans[2] << plans[3];
  }
}

TEST(DiskTierSessionTest, ExecutorsThatComeAndGoTakeNoMoreOfTheDisk) {
  const SessionOptions options = TightOptions();
  const Graph graph = SmallModel();
  TieredEngine kept(graph, options), again(graph, options);
  ASSERT_GT(kept.plan().disk_scratch_bytes, 0);
  ASSERT_TRUE(kept.Init().ok() && again.Init().ok());
  const int64_t bytes = again.disk_bytes();
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(kept.Step().ok());
    again.MakeAgain(0);
    ASSERT_TRUE(again.Step().ok());
    EXPECT_EQ(again.disk_bytes(), bytes);
  }
  const auto want = kept.Digest(), got = again.Digest();
  ASSERT_TRUE(want.ok() && got.ok());
  EXPECT_EQ(*got, *want);
}

TEST(DiskTierSessionTest, AQuestionReadsOnlyTheVariablesThatItWrites) {
  TieredEngine engine(SmallModel(), TightOptions());
  constexpr int64_t kOtherBytes = 8 << 20;
  ASSERT_TRUE(engine.Init().ok() && engine.Step().ok());
  ASSERT_TRUE(engine.Set("other", Tensor(DataType::kUint8, Shape({kOtherBytes}))).ok());
  const auto before = engine.Digest();
  const int64_t read = engine.bytes_read();
  const absl::Status asked = engine.Ask();
  ASSERT_TRUE(asked.ok()) << asked;
  EXPECT_GT(engine.bytes_read(), read);
  EXPECT_LT(engine.bytes_read(), read + kOtherBytes);
  const auto after = engine.Digest();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(*after, *before);
}

// Memory that the kernel holds for this process whatever it unmaps.
int64_t PinnedKiB() {
  std::ifstream status("/proc/self/status");
  int64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmPin:", 0) == 0) std::istringstream(line.substr(6)) >> kib;
  }
  return kib;
}

TEST(DiskTierSessionTest, AnExecutorWhoseTurnIsOverHoldsNoPagesOfThePool) {
  TieredEngine engine(SmallModel(), TightOptions());
  ASSERT_TRUE(engine.Init().ok() && engine.Step().ok());
  if (PinnedKiB() == 0) GTEST_SKIP() << "no fixed buffers of io_uring here";
  ASSERT_TRUE(engine.Rest().ok());
  EXPECT_EQ(PinnedKiB(), 0);
  ASSERT_TRUE(engine.Step().ok());
  EXPECT_GT(PinnedKiB(), 0);
}

TEST(DiskTierSessionTest, AFailedTransferEndsTheStepAndTheFormerValuesRunAgain) {
  const SessionOptions options = TightOptions();
  const Graph graph = SmallModel();
  for (const bool write : {true, false}) {
    int failures = 0;
    for (int transfer = 0; transfer < 30; transfer += 9) {
      TieredEngine engine(graph, options);
      ASSERT_TRUE(engine.Init().ok());
      ASSERT_TRUE(engine.Step().ok());
      engine.FailAfter(transfer, write, transfer % 2 == 0 ? EIO : ENOSPC);
      const absl::Status status = engine.Step();
      if (engine.transfers_left() >= 0) break;  // there are not so many
      ++failures;
      ASSERT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()), HasSubstr("disk tier in"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("changed"));
      EXPECT_TRUE(engine.Step().ok());
      EXPECT_TRUE(engine.Digest().ok());
    }
    EXPECT_GT(failures, 1) << write;
  }
}

TEST(DiskTierSessionTest, ATransferThatFailsBeforeAnyUpdateLeavesAllVariablesAsTheyWere) {
  SessionOptions options = TightOptions();
  options.planning.accumulate_products = false;  // more to hold, so that the first transfer comes before any update
  const Graph graph = SmallModel();
  TieredEngine engine(graph, options);
  ASSERT_TRUE(engine.Init().ok());
  ASSERT_TRUE(engine.Step().ok());
  const auto before = engine.Digest();
  engine.FailAfter(0, false, EIO);  // the first transfer of the step
  const absl::Status status = engine.Step();
  EXPECT_THAT(std::string(status.message()), HasSubstr("no variable has changed"));
  const auto after = engine.Digest();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(*after, *before);
}

TEST(DiskTierSessionTest, TheVerifierFindsAMissingWaitOfADiskStep) {
  const SessionOptions options = TightOptions();
  TieredEngine engine(SmallModel(), options);
  int found = 0;
  for (size_t l = 0; l < engine.plan().lanes.size(); ++l) {
    const Lane& lane = engine.plan().lanes[l];
    if (lane.kind != LaneKind::kToDisk && lane.kind != LaneKind::kFromDisk) continue;
    for (size_t i = 0; i < lane.copies.size(); ++i) {
      if (lane.copies[i].waits.empty()) continue;
      ExecutionPlan broken = engine.plan();
      broken.lanes[l].copies[i].waits.clear();
      if (!VerifyPlan(broken).ok()) ++found;
    }
  }
  EXPECT_GT(found, 5);
}

}  // namespace
}  // namespace millrace::testing
