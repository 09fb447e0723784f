// Several kernels in one launch: which may go together, and that the engine launches them so.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "stream/launch_group.h"
#include "stream_fixture.h"
#include "testlib/plan_builder.h"

namespace millrace::testing {
namespace {

TEST(MemoryRangesTest, RangesOverlapWhereTheyShareAByte) {
  char memory[100];
  MemoryRanges ranges;
  ranges.Add(memory + 10, 10);
  ranges.Add(memory + 40, 20);
  EXPECT_TRUE(ranges.Overlaps(memory + 19, 1));
  EXPECT_FALSE(ranges.Overlaps(memory + 20, 20));
  EXPECT_TRUE(ranges.Overlaps(memory + 5, 6));
  EXPECT_FALSE(ranges.Overlaps(memory + 5, 5));
  EXPECT_TRUE(ranges.Overlaps(memory, 100));
  // One range inside another must not hide its end.
  ranges.Add(memory + 45, 5);
  EXPECT_TRUE(ranges.Overlaps(memory + 55, 2));
  ranges.Clear();
  EXPECT_FALSE(ranges.Overlaps(memory, 100));
}

struct Launches {
  std::atomic<int> alone{0}, together{0}, members{0};
};

// AddTo as a kernel of which several may be one launch.
class GroupedAdd final : public GroupedKernel {
 public:
  explicit GroupedAdd(Launches& launches) : launches_(launches) {}
  absl::Status Run(const KernelContext& context) const override {
    ++launches_.alone;
    Add(context);
    return absl::OkStatus();
  }
  int64_t group() const override { return 7; }
  int written_inputs() const override { return 1; }
  absl::Status RunTogether(absl::Span<const GroupMember> members) const override {
    ++launches_.together;
    launches_.members += static_cast<int>(members.size());
    for (const GroupMember& member : members) Add(member.context);
    return absl::OkStatus();
  }

 private:
  static void Add(const KernelContext& context) {
    for (int64_t k = 0; k < context.input_type(0).shape.num_elements(); ++k) {
      context.variable<float>(0)[k] += context.input<float>(1)[k];
    }
  }
  Launches& launches_;
};

// Feed x; v0, v1, v2 += x; v0 += x once more; fetch Mix(x).
ExecutionPlan Additions() {
  PlanBuilder b(512);
  for (int v = 0; v < 3; ++v) b.Variable(absl::StrCat("v", v), 4, 64 * v);
  b.Feed("x", 4);
  b.In("x:0", b.FeedRef("x"), 256, 16);
  for (int v : {0, 1, 2, 0}) {
    ComputeStep& add = b.Compute("add", "AddTo", {{64 * v, 4, absl::StrCat("v", v)}, {256, 4}}, {}, {b.AfterIn()});
    add.input_variables = {v, -1};
    add.writes_variables = {v};
    if (b.plan().lanes[0].compute.size() > 1) add.waits.clear();
  }
  b.Compute("y", "Mix", {{256, 4}}, {{320, 4}});
  b.Fetch("y:0", 4);
  b.Out("y:0", 320, 16, b.FetchRef("y:0"), {b.AfterCompute()});
  return b.Build();
}

class GroupedLaunchTest : public ::testing::TestWithParam<GraphCapture> {};

TEST_P(GroupedLaunchTest, UpdatesThatFollowOneAnotherAreOneLaunchUntilOneTouchesWhatAnotherWrites) {
  Launches launches;
  auto kernels = std::make_shared<KernelRegistry>();
  for (const std::string& name : SharedTestKernels()->Names()) {
    const KernelFactory factory = name == "AddTo" ? KernelFactory([&](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      return std::make_unique<GroupedAdd>(launches);
    }) : *SharedTestKernels()->Find(name);
    ASSERT_TRUE(kernels->Register(name, factory).ok());
  }
  auto driver = MakeEmulatedDriver(kernels, {.max_delay_microseconds = 50});
  ASSERT_TRUE(driver.ok()) << driver.status();
  Runtime runtime(MakeTbbTaskRunner(1), MakeStreamDevice("emulated", 0, *std::move(driver), GetParam()));
  runtime.host.set_listener(runtime.device->host_memory_listener());
  const ExecutionPlan plan = Additions();
  {
    auto executor = runtime.Make(plan);
    ASSERT_TRUE(executor.ok()) << executor.status();
    ZeroVariables(plan, runtime.variables);
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE((*executor)->RunStep({Tensor::Vector<float>({1, 2, 3, 4})}, nullptr, nullptr).ok());
    }
    const auto values = runtime.variables.Read();
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(Values(values->at("v0")), (std::vector<float>{6, 12, 18, 24}));
    EXPECT_EQ(Values(values->at("v1")), (std::vector<float>{3, 6, 9, 12}));
  }
  runtime.host.set_listener(nullptr);
  EXPECT_EQ(launches.together, 3);
  EXPECT_EQ(launches.members, 9);  // the second addition to v0 goes alone
  EXPECT_EQ(launches.alone, 3);
}

INSTANTIATE_TEST_SUITE_P(Capture, GroupedLaunchTest, ::testing::Values(GraphCapture::kOff, GraphCapture::kAuto));

}  // namespace
}  // namespace millrace::testing
