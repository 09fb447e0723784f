// Executors of plans with a disk tier, when lanes are held up, disks fail and devices are lost.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/emulated/emulated_kernels.h"
#include "disk_session.h"
#include "graph/digest.h"
#include "millrace/status.h"
#include "plan/plan_verifier.h"
#include "runtime/executor.h"
#include "session/asker.h"
#include "session/open_device.h"
#include "stream/emulated_driver.h"
#include "stream/stream_device.h"
#include "testlib/open_session.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

// Of a session under some options: what initialises, a plan of the steps, and one of them under each of other options.
struct TierPlans {
  Session::Feeds feeds;
  int64_t host_memory_bytes = 0;
  std::shared_ptr<const ExecutionPlan> init;
  std::vector<std::shared_ptr<const ExecutionPlan>> train;
};

TierPlans MakePlans(const SessionOptions& options, const std::vector<SessionOptions>& others = {}) {
  const Graph graph = SmallModel();
  TierPlans plans;
  plans.feeds = FeedsOf(graph);
  plans.host_memory_bytes = options.planning.host_memory_bytes;
  ModelRun first(graph, options);
  plans.init = first.InitPlan();
  plans.train.push_back(first.TrainPlan());
  for (const SessionOptions& other : others) plans.train.push_back(ModelRun(graph, other).TrainPlan());
  return plans;
}

// Executors over such plans, with lanes that are held up and a disk that fails.
class TieredEngine : private LaneObserver {
 public:
  explicit TieredEngine(const TierPlans& plans) : TieredEngine(plans, OpenTestDevice()) {}
  TieredEngine(const TierPlans& plans, std::unique_ptr<RuntimeDevice> device)
      : feeds_(plans.feeds),
        device_(std::move(device)),
        host_(plans.host_memory_bytes),
        variables_(&host_),
        runner_(MakeTbbTaskRunner(1)),
        kernels_(device_->kernels()) {
    host_.set_listener(device_->host_memory_listener());
    auto disk = DiskTier::Create({.folder = ::testing::TempDir(),
                                  .fault = [this](bool write, int64_t, int64_t bytes) { return Fault(write, bytes); }},
                                 &host_);
    EXPECT_TRUE(disk.ok()) << disk.status();
    disk_ = *std::move(disk);
    variables_.UseDisk(disk_.get());
    init_ = Make(plans.init);
    for (const auto& plan : plans.train) train_.push_back(Make(plan));
  }

  absl::Status Init() { return init_->RunStep({}, nullptr, nullptr); }
  absl::Status Step(size_t which = 0, StepStats* stats = nullptr) {
    std::vector<Tensor> feeds;
    for (const PlanFeed& feed : train_[which]->plan().feeds) feeds.push_back(feeds_.at(feed.name.substr(0, feed.name.find(':'))));
    return train_[which]->RunStep(feeds, nullptr, stats);
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
  absl::StatusOr<std::string> Digest() {
    MR_ASSIGN_OR_RETURN(const auto values, variables_.Read());
    return TensorsDigest(values);
  }
  absl::StatusOr<std::map<std::string, Tensor>> Variables() { return variables_.Read(); }
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
  static std::unique_ptr<RuntimeDevice> OpenTestDevice() {
    SessionOptions options;
    options.device = TestDevice();
    auto devices = OpenDevices(options, 1);
    EXPECT_TRUE(devices.ok()) << devices.status();
    return std::move((*devices)[0]);
  }
  std::unique_ptr<Executor> Make(const std::shared_ptr<const ExecutionPlan>& plan) {
    ExecutorOptions options;
    options.observer = this;
    auto executor = Executor::Create(plan, {{device_.get()}, runner_.get(), &kernels_, &host_, &variables_, disk_.get()},
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
  std::unique_ptr<RuntimeDevice> device_;
  HostMemory host_;
  std::unique_ptr<DiskTier> disk_;
  VariableStore variables_;
  std::unique_ptr<TaskRunner> runner_;
  KernelCache kernels_;
  std::unique_ptr<Executor> init_;
  std::vector<std::unique_ptr<Executor>> train_;
};

SessionOptions TightOptions() {
  ModelRun plain(Options("planned"));
  plain.Steps(1);
  return WithDisk(Options("planned"), HostBudget(plain, 0.1));
}
const TierPlans& TightPlans() {
  static const auto& plans = *new TierPlans(MakePlans(TightOptions()));
  return plans;
}

TEST(DiskTierEngineTest, BitsDoNotDependOnWhenLanesRun) {
  std::string digest;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    TieredEngine engine(TightPlans());
    engine.DelayLanes(seed);
    ASSERT_TRUE(engine.Init().ok());
    for (int step = 0; step < 2; ++step) ASSERT_TRUE(engine.Step().ok()) << seed;
    const auto found = engine.Digest();
    ASSERT_TRUE(found.ok()) << found.status();
    if (seed == 0) digest = *found;
    EXPECT_EQ(*found, digest) << seed;
  }
}

TEST(DiskTierEngineTest, BitsDoNotDependOnWhenAnotherPlanTakesOver) {
  const SessionOptions options = TightOptions();
  std::vector<SessionOptions> others(2, options);
  others[0].planning.strategy = "tensorflowmem";
  others[1].planning.device_memory_bytes = 0;
  const TierPlans tiers = MakePlans(options, others);
  std::string digest;
  for (const std::vector<size_t>& plans : {std::vector<size_t>{0, 0, 0, 0}, {0, 1, 2, 0}, {2, 0, 0, 1}, {1, 2, 1, 2}}) {
    TieredEngine engine(tiers);
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

TEST(DiskTierEngineTest, ExecutorsThatComeAndGoTakeNoMoreOfTheDisk) {
  TieredEngine kept(TightPlans()), again(TightPlans());
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

TEST(DiskTierEngineTest, AQuestionReadsOnlyTheVariablesThatItWrites) {
  TieredEngine engine(TightPlans());
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

TEST(DiskTierEngineTest, AnExecutorWhoseTurnIsOverHoldsNoPagesOfThePool) {
  TieredEngine engine(TightPlans());
  ASSERT_TRUE(engine.Init().ok() && engine.Step().ok());
  if (PinnedKiB() == 0) GTEST_SKIP() << "no fixed buffers of io_uring here";
  ASSERT_TRUE(engine.Rest().ok());
  EXPECT_EQ(PinnedKiB(), 0);
  ASSERT_TRUE(engine.Step().ok());
  EXPECT_GT(PinnedKiB(), 0);
}

TEST(DiskTierEngineTest, AFailedTransferEndsTheStepAndTheFormerValuesRunAgain) {
  for (const bool write : {true, false}) {
    int failures = 0;
    for (int transfer = 0; transfer < 30; transfer += 9) {
      TieredEngine engine(TightPlans());
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

TEST(DiskTierEngineTest, ATransferThatFailsBeforeAnyUpdateLeavesAllVariablesAsTheyWere) {
  SessionOptions options = TightOptions();
  options.planning.accumulate_products = false;  // more to hold, so that the first transfer comes before any update
  TieredEngine engine(MakePlans(options));
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

// A device behind streams, with the kernels of the one that options name.
std::unique_ptr<RuntimeDevice> DeviceWithFaults(const EmulatedOptions& options) {
  auto driver = MakeEmulatedDriver(cuda::MakeEmulatedKernels(CpuKernels()), options);
  EXPECT_TRUE(driver.ok()) << driver.status();
  return MakeStreamDevice("cuda_emulated", 0, *std::move(driver), GraphCapture::kAuto);
}

// What is not said to have changed has its value from before the step, on disk, too.
TEST(DiskTierEngineTest, ADeviceThatIsLostInAStepLeavesVariablesOldOrNamed) {
  SessionOptions options = TightOptions();
  options.device = "cuda_emulated";
  const TierPlans plans = MakePlans(options);
  EmulatedCounts counts;
  {
    TieredEngine whole(plans, DeviceWithFaults({.counts = &counts}));
    ASSERT_TRUE(whole.Init().ok() && whole.Step().ok());
  }
  const int64_t operations = counts.operations;
  int failures = 0, changed = 0;
  for (int64_t operation = operations / 4; operation < operations; operation += operations / 25) {
    TieredEngine engine(plans, DeviceWithFaults({.seed = static_cast<uint64_t>(operation), .max_delay_microseconds = 100,
                                                 .faults = {.lose_device = operation}}));
    if (!engine.Init().ok()) continue;
    const auto before = engine.Variables();
    if (!before.ok()) continue;  // lost in its copies
    StepStats stats;
    const absl::Status status = engine.Step(0, &stats);
    if (status.ok()) continue;  // there were more of them than in the other order
    ++failures;
    ASSERT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("was lost"));
    auto after = engine.Variables();
    if (!after.ok()) after = engine.Variables();  // the first says which values were on the device alone
    ASSERT_TRUE(after.ok()) << after.status();
    const std::set<std::string> named(stats.changed_variables.begin(), stats.changed_variables.end());
    changed += !named.empty();
    for (const auto& [name, value] : *after) {
      EXPECT_TRUE(named.count(name) > 0 || value.BitEqual(before->at(name))) << operation << " " << name << ": " << status;
    }
    EXPECT_FALSE(engine.Step().ok());
  }
  EXPECT_GT(failures, 10);
  EXPECT_GT(changed, 2);
}

TEST(DiskTierEngineTest, TheVerifierFindsAMissingWaitOfADiskStep) {
  TieredEngine engine(TightPlans());
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
