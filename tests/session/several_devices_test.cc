// Sessions over several devices: shapes that are known only when running cross between them, errors of any device end the
// step, control edges hold across devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "model_run.h"
#include "testlib/open_session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::OpenSession;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Session> Make(const std::string& text, int devices, SessionOptions options = {}) {
  for (int d = 0; d < devices; ++d) options.planning.devices.push_back(absl::StrCat("cpu:", d));
  return testing::SessionOf(text, std::move(options));
}

std::vector<float> Floats(const Tensor& tensor) { return {tensor.as<float>().begin(), tensor.as<float>().end()}; }

// Rows of x that a mask keeps are found on one device, doubled on another, summed on the first.
constexpr char kMasked[] = R"(
x = Placeholder() {dtype=float, shape=shape[5,2]}
mask = Placeholder() {dtype=bool, shape=shape[5]}
where = Where(mask) {T=bool} on "/cpu:0"
flat_shape = Const() {dtype=int32, value=int32[1]{-1}}
rows = Reshape(where, flat_shape) {T=int64, Tshape=int32}
axis = Const() {dtype=int32, value=int32[]{0}}
kept = GatherV2(x, rows, axis) {Taxis=int32, Tindices=int64, Tparams=float} on "/cpu:1"
twice = AddV2(kept, kept) {T=float} on "/cpu:1"
more = AddV2(twice, kept) {T=float} on "/cpu:2"
total = Sum(more, axis) {T=float, Tidx=int32, keep_dims=false} on "/cpu:0"
)";

TEST(SeveralDevices, ShapesKnownOnlyWhenRunningCross) {
  Tensor x(DataType::kFloat, Shape({5, 2}));
  for (int i = 0; i < 10; ++i) x.mutable_as<float>()[i] = static_cast<float>(i + 1);
  for (int devices : {1, 2, 3}) {
    for (bool share : {false, true}) {
      SessionOptions options;
      options.planning.share_recv = share;
      const std::unique_ptr<Session> session = Make(kMasked, devices, options);
      for (int kept : {2, 0, 5, 1}) {
        Tensor mask(DataType::kBool, Shape({5}));
        for (int i = 0; i < 5; ++i) mask.mutable_as<bool>()[i] = i < kept;
        std::vector<Tensor> out;
        const absl::Status status = session->Run({{"x", x}, {"mask", mask}}, {"more", "total"}, {}, &out);
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(out[0].shape(), Shape({kept, 2}));
        // 3 * (1 + 3 + … ) and 3 * (2 + 4 + …).
        const float odd = static_cast<float>(3 * kept * kept), even = static_cast<float>(3 * kept * (kept + 1));
        EXPECT_THAT(Floats(out[1]), ElementsAre(odd, even)) << devices << " devices, " << kept << " rows";
      }
    }
  }
}

// No bytes cross, but how many rows there are does.
TEST(SeveralDevices, ShapesOfTensorsWithoutBytesCross) {
  const std::unique_ptr<Session> session = Make(R"(
mask = Placeholder() {dtype=bool, shape=shape[0]}
where = Where(mask) {T=bool} on "/cpu:0"
first = Const() {dtype=int32, value=int32[1]{0}}
total = Sum(where, first) {T=int64, Tidx=int32, keep_dims=false} on "/cpu:1"
)", 2);
  std::vector<Tensor> out;
  const absl::Status status = session->Run({{"mask", Tensor(DataType::kBool, Shape({0}))}}, {"total"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].IntAt(0), 0);
}

// 20 steps, of which one in `period`, the last of them, picks what is not there: an error of `picked`, after which no variable has changed.
void RunWithBadSteps(Session& session, int period, const std::vector<std::string>& fetches, const std::vector<std::string>& targets) {
  for (int step = 0; step < 20; ++step) {
    const bool bad = step % period == period - 1;
    const Tensor index = Tensor::Vector<int32_t>({bad ? 7 : 1});
    const absl::Status status = session.Run({{"index", index}}, fetches, targets, nullptr);
    EXPECT_EQ(status.ok(), !bad) << status;
    if (bad) {
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("node 'picked' (GatherV2)"), HasSubstr("no variable has changed")));
    }
  }
}

// A counter on each device; the second is raised after the first by a control edge alone.
constexpr char kGuarded[] = R"(
a = VarHandleOp() {dtype=float, shape=shape[], shared_name="a"} on "/cpu:0"
b = VarHandleOp() {dtype=float, shape=shape[], shared_name="b"} on "/cpu:1"
zero = Const() {dtype=float, value=float[]{0}}
one = Const() {dtype=float, value=float[]{1}}
init_a = AssignVariableOp(a, zero) {dtype=float}
init_b = AssignVariableOp(b, zero) {dtype=float}
index = Placeholder() {dtype=int32, shape=shape[1]}
axis = Const() {dtype=int32, value=int32[]{0}}
table = Const() {dtype=float, value=float[2]{10, 20}}
picked = GatherV2(table, index, axis) {Taxis=int32, Tindices=int32, Tparams=float} on "/cpu:1"
add_a = AssignAddVariableOp(a, one) ^picked {dtype=float}
between = NoOp() ^add_a
add_b = AssignAddVariableOp(b, one) ^between {dtype=float}
)";

TEST(SeveralDevices, AnErrorOfOneDeviceStopsWhatControlEdgesGuardOnOthers) {
  for (int threads : {1, 4}) {
    SessionOptions options;
    options.threads = threads;
    const std::unique_ptr<Session> session = Make(kGuarded, 2, options);
    ASSERT_TRUE(session->Run({}, {}, {"init_a", "init_b"}, nullptr).ok());
    RunWithBadSteps(*session, 2, {"picked"}, {"add_b"});
    const auto variables = session->Variables();
    ASSERT_TRUE(variables.ok());
    EXPECT_THAT(Floats(variables->at("a")), ElementsAre(10));
    EXPECT_THAT(Floats(variables->at("b")), ElementsAre(10));
  }
}

// What is picked goes from the first device to the second and the third, each of which adds it to a variable of its own.
constexpr char kPassedOn[] = R"(
a = VarHandleOp() {dtype=float, shape=shape[1], shared_name="a"} on "/cpu:0"
b = VarHandleOp() {dtype=float, shape=shape[1], shared_name="b"} on "/cpu:1"
c = VarHandleOp() {dtype=float, shape=shape[1], shared_name="c"} on "/cpu:2"
zero = Const() {dtype=float, value=float[1]{0}}
init_a = AssignVariableOp(a, zero) {dtype=float}
init_b = AssignVariableOp(b, zero) {dtype=float}
init_c = AssignVariableOp(c, zero) {dtype=float}
index = Placeholder() {dtype=int32, shape=shape[1]}
axis = Const() {dtype=int32, value=int32[]{0}}
table = Const() {dtype=float, value=float[2]{10, 20}}
picked = GatherV2(table, index, axis) {Taxis=int32, Tindices=int32, Tparams=float} on "/cpu:0"
twice = AddV2(picked, picked) {T=float} on "/cpu:1"
fourfold = AddV2(twice, twice) {T=float} on "/cpu:2"
add_a = AssignAddVariableOp(a, picked) {dtype=float}
add_b = AssignAddVariableOp(b, twice) {dtype=float}
add_c = AssignAddVariableOp(c, fourfold) {dtype=float}
)";

TEST(SeveralDevices, AnErrorOfOneDeviceStopsWhatFollowsFromItOnOthers) {
  for (const char* const graphs : {"auto", "off"}) {
    SessionOptions options;
    options.threads = 2;
    options.cuda_graph = graphs;
    const std::unique_ptr<Session> session = Make(kPassedOn, 3, options);
    ASSERT_TRUE(session->Run({}, {}, {"init_a", "init_b", "init_c"}, nullptr).ok());
    // Three good steps before the first bad one: the fourth is a graph.
    RunWithBadSteps(*session, 4, {}, {"add_a", "add_b", "add_c"});
    const auto variables = session->Variables();
    ASSERT_TRUE(variables.ok());
    EXPECT_THAT(Floats(variables->at("a")), ElementsAre(300));
    EXPECT_THAT(Floats(variables->at("b")), ElementsAre(600));
    EXPECT_THAT(Floats(variables->at("c")), ElementsAre(1200));
  }
}

// What is read of a reference is its memory, on other devices too: of three uses of one read, each finds what was written before it.
constexpr char kReferenceRead[] = R"(
x = Placeholder() {dtype=float, shape=shape[]}
v = VariableV2() {dtype=float, shape=shape[]} on "/cpu:0"
one = Const() {dtype=float, value=float[]{1}}
ten = Const() {dtype=float, value=float[]{10}}
init = Assign(v, one) {T=float}
read = Identity(v) {T=float} on "/cpu:0"
before = Mul(read, ten) {T=float} on "/cpu:1"
first = AssignAdd(v, x) ^before {T=float} on "/cpu:0"
between = Mul(read, ten) ^first {T=float} on "/cpu:1"
more = Mul(read, read) ^first {T=float} on "/cpu:1"
second = AssignAdd(v, between) ^more {T=float} on "/cpu:0"
after = Mul(read, ten) ^second {T=float} on "/cpu:1"
both = AddV2(second, read) {T=float} on "/cpu:1"
)";

TEST(SeveralDevices, FindWhatWasWrittenToAReferenceBefore) {
  for (int devices : {1, 2}) {
    for (bool share : {false, true}) {
      for (const char* strategy : {"baseline", "tensorflowmem", "planned"}) {
        SessionOptions options;
        options.planning.strategy = strategy;
        options.planning.share_recv = share;
        const std::unique_ptr<Session> session = Make(kReferenceRead, devices, options);
        ASSERT_TRUE(session->Run({}, {}, {"init"}, nullptr).ok());
        std::vector<float> values;
        for (int step = 0; step < 2; ++step) {
          std::vector<Tensor> out;
          const absl::Status status = session->Run({{"x", Tensor::Scalar(2.0f)}}, {"before", "between", "more", "after", "both"}, {}, &out);
          ASSERT_TRUE(status.ok()) << status;
          for (const Tensor& tensor : out) values.push_back(tensor.as<float>()[0]);
        }
        EXPECT_THAT(values, ElementsAre(10, 30, 9, 330, 66, 330, 350, 1225, 3850, 770)) << devices << " devices, " << strategy << (share ? ", shared" : "");
      }
    }
  }
}

// The second has nothing to do; the first waits for 8 MB at 0.4 GB/s.
TEST(SeveralDevices, ADeviceWithoutWorkIsNotTheBusiest) {
  SessionOptions options;
  options.link_gbps = 0.4;
  const std::unique_ptr<Session> session = Make(R"(
x = Placeholder() {dtype=float, shape=shape[2000000]}
y = Relu(x) {T=float} on "/cpu:0"
)", 2, options);
  ASSERT_TRUE(session->Run({{"x", Tensor(DataType::kFloat, Shape({2000000}))}}, {}, {"y"}, nullptr).ok());
  EXPECT_GE(session->last_run().stall_seconds, 0.015);
}

TEST(SeveralDevices, AreOfTheSessionsKindWithABudgetEach) {
  SessionOptions options;
  options.planning.devices = {"cpu:0", "gpu:1"};
  EXPECT_EQ(OpenSession(Graph(), options).status().code(), absl::StatusCode::kInvalidArgument);
  options.planning.devices = {"cpu:0", "cpu:1"};
  options.planning.device_memory_bytes_of = {1 << 20};
  EXPECT_EQ(OpenSession(Graph(), options).status().code(), absl::StatusCode::kInvalidArgument);
}

// A pipeline of two devices whose links are slow: what saves copies is computed again on either device.
TEST(SeveralDevices, ValuesAreComputedAgainOnEachWithTheSameBits) {
  const auto graph = BuildModel("resnet", {.batch = 8, .image_size = 16, .depth = 20, .devices = 2, .variant = "cifar", .seed = 3});
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto options = [](const std::string& strategy, const std::vector<int64_t>& budgets) {
    SessionOptions options = testing::UnderBudget(strategy, 0);
    options.planning.devices = {"cpu:0", "cpu:1"};
    options.planning.device_memory_bytes_of = budgets;
    options.machine.to_host_bytes_per_second = options.machine.to_device_bytes_per_second = 2e8;
    options.replan.mode = ReplanOptions::Mode::kOff;
    return options;
  };
  testing::ModelRun reference(*graph, options("baseline", {}));
  const std::vector<float> losses = reference.Steps(3);
  ASSERT_TRUE(reference.status().ok()) << reference.status();
  std::vector<int64_t> budgets;
  for (const PlanDevice& device : reference.TrainPlan()->devices) budgets.push_back(device.arena_bytes / 2);
  SessionOptions again = options("planned", budgets), moved = again;
  moved.planning.recompute = Recompute::kOff;
  testing::ModelRun run(*graph, again);
  const std::vector<float> again_losses = run.Steps(3);
  ASSERT_TRUE(run.status().ok()) << run.status();
  EXPECT_EQ(again_losses, losses);
  EXPECT_TRUE(run.Variables() == reference.Variables());
  const auto plan = run.TrainPlan(), plan_of_moves = testing::ModelRun(*graph, moved).TrainPlan();
  std::vector<int> recomputed(2, 0);
  for (const Lane& lane : plan->lanes) {
    for (const ComputeStep& step : lane.compute) {
      if (absl::StrContains(plan->instances[step.instance].name, "/recompute")) ++recomputed[lane.device];
    }
  }
  EXPECT_GT(recomputed[0], 0);
  EXPECT_GT(recomputed[1], 0);
  EXPECT_LT(plan->predicted_step_seconds, 0.9 * plan_of_moves->predicted_step_seconds);
  for (size_t d = 0; d < budgets.size(); ++d) EXPECT_LE(plan->devices[d].arena_bytes, budgets[d]);
}

}  // namespace
}  // namespace millrace
