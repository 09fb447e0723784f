// Whole models through the plugin's own code on the faked CUDA (runtime/devices/cuda/fake): its streams, events, captures and
// graphs, and its kernels on a grid of threads.
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "millrace/device.h"
#include "millrace/session.h"
#include "session/model_run.h"

namespace millrace::testing {
namespace {

struct SmallModelOf {
  const char* name;
  ModelOptions options;
};

class FakeModelsTest : public ::testing::TestWithParam<SmallModelOf> {};

TEST_P(FakeModelsTest, GraphsStreamsAndBudgetsHaveTheSameBits) {
  ASSERT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
  const auto graph = BuildModel(GetParam().name, GetParam().options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.threads = 1;
  std::vector<float> expected_losses = ModelRun(*graph, options).Steps(4);
  std::map<std::string, std::string> expected;
  int64_t peak = 0;
  options.device = "cuda";
  options.planning.pack_rows = true;
  for (const char* cuda_graph : {"off", "on"}) {
    for (const char* strategy : {"baseline", "planned"}) {
      SCOPED_TRACE(std::string(strategy) + ", graph " + cuda_graph);
      options.cuda_graph = cuda_graph;
      options.planning.strategy = strategy;
      // Groups and their reductions have the bits of the ops apart; convolutions with a bias round it with the sum.
      options.planning.fuse = !expected.empty() || GetParam().name == std::string("unet3d");
      options.planning.device_memory_bytes = strategy == std::string("planned") ? peak * 7 / 10 : 0;
      ModelRun run(*graph, options);
      // After the first step one is captured and the others are replayed.
      const std::vector<float> losses = run.Steps(4);
      ASSERT_EQ(losses.size(), 4) << run.status();
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected_losses[i], 1e-3 * std::abs(expected_losses[i]));
      if (peak == 0) peak = run.report().predicted_peak_device_bytes;
      const auto variables = run.Variables();
      if (expected.empty()) expected = variables;
      EXPECT_TRUE(variables == expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FakeModelsTest,
                         ::testing::Values(SmallModelOf{"resnet", {.batch = 1, .image_size = 16, .classes = 10, .depth = 11, .variant = "cifar"}},
                                           SmallModelOf{"lstm", {.batch = 2, .layers = 1, .hidden = 8, .steps_unrolled = 4, .vocab = 20, .dropout = 0}},
                                           SmallModelOf{"unet3d", {.batch = 1, .image_size = 8, .channels = 2, .levels = 2}},
                                           SmallModelOf{"moe_transformer",
                                                        {.batch = 2, .layers = 1, .hidden = 8, .heads = 2, .steps_unrolled = 4, .vocab = 20, .experts = 2}}),
                         [](const auto& param) { return std::string(param.param.name); });

std::map<std::string, int> CountOps(const RunReport& report) {
  std::map<std::string, int> count;
  for (const OpInstance& instance : report.plan->instances) ++count[instance.op];
  return count;
}

// Batch norms with their Relus (passes/rewrite/fuse_norms.h), channels last and first.
TEST(FakeNormsTest, WithTheirRelusHaveTheBitsOfTheOpsAlone) {
  ASSERT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
  for (const char* precision : {"", "bfloat16"}) {
    const auto graph =
        BuildModel("resnet", {.batch = 1, .image_size = 16, .classes = 10, .depth = 11, .variant = "cifar", .precision = precision});
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const bool channels_first : {false, true}) {
      SCOPED_TRACE(std::string(precision) + (channels_first ? " channels first" : " channels last"));
      std::map<std::string, std::string> expected;
      for (const bool fuse : {false, true}) {
        SessionOptions options;
        options.threads = 1;
        options.device = "cuda";
        options.planning.channels_first = channels_first;
        options.planning.fuse = fuse;
        ModelRun run(*graph, options);
        ASSERT_EQ(run.Steps(2).size(), 2) << run.status();
        std::map<std::string, int> count = CountOps(run.report());
        EXPECT_EQ(count["_FusedBatchNormEx"], fuse ? 10 : 0);
        EXPECT_EQ(count["_FusedBatchNormReluGrad"], fuse ? 10 : 0);
        EXPECT_EQ(count["_AssignMovingAverage"], fuse ? 20 : 0);
        if (!fuse) expected = run.Variables();
        EXPECT_TRUE(run.Variables() == expected);
      }
    }
  }
}

// A block of ResNet's: the second batch norm takes the sum with the shortcut; the gradient of the last Relu goes to both.
TEST(FakeNormsTest, WithTheirSumsHaveTheBitsOfTheOpsAlone) {
  ASSERT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
  const char* const text = R"(
x = Placeholder() {dtype=float, shape=shape[2,5,3,8]}
s = Placeholder() {dtype=float, shape=shape[8]}
o = Placeholder() {dtype=float, shape=shape[8]}
g = Placeholder() {dtype=float, shape=shape[2,5,3,8]}
none = Const() {dtype=float, value=float[0]{}}
n1 = FusedBatchNormV3(x, s, o, none, none) {T=float, U=float, is_training=true, epsilon=0.001}
r1 = Relu(n1) {T=float}
t = Tanh(r1) {T=float}
n2 = FusedBatchNormV3(t, s, o, none, none) {T=float, U=float, is_training=true, epsilon=0.001}
sum = AddV2(n2, x) {T=float}
r2 = Relu(sum) {T=float}
d2 = ReluGrad(g, r2) {T=float}
g2 = FusedBatchNormGradV3(d2, t, s, n2:3, n2:4, n2:5) {T=float, U=float, is_training=true, epsilon=0.001}
dt = TanhGrad(t, g2) {T=float}
d1 = ReluGrad(dt, r1) {T=float}
g1 = FusedBatchNormGradV3(d1, x, s, n1:3, n1:4, n1:5) {T=float, U=float, is_training=true, epsilon=0.001}
dx = AddV2(g1, d2) {T=float}
)";
  const auto numbers = [](const Shape& shape, int step) {
    Tensor tensor(DataType::kFloat, shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.mutable_as<float>()[i] = static_cast<float>(i * step % 101) / 40 - 1;
    return tensor;
  };
  const Session::Feeds feeds = {{"x", numbers(Shape({2, 5, 3, 8}), 37)}, {"g", numbers(Shape({2, 5, 3, 8}), 53)},
                                 {"s", numbers(Shape({8}), 19)}, {"o", numbers(Shape({8}), 23)}};
  for (const char* device : {"cpu", "cuda"}) {
    std::vector<Tensor> expected;
    for (const bool fuse : {false, true}) {
      SessionOptions options;
      options.device = device;
      options.planning.fuse = fuse;
      auto graph = ParseGraphText(text);
      ASSERT_TRUE(graph.ok()) << graph.status();
      const auto session = Session::Create(*std::move(graph), options);
      ASSERT_TRUE(session.ok()) << session.status();
      std::vector<Tensor> out;
      const absl::Status status = (*session)->Run(feeds, {"r2", "dx", "g1:1", "g1:2", "g2:1", "n2:1"}, {}, &out);
      ASSERT_TRUE(status.ok()) << status;
      std::map<std::string, int> count = CountOps((*session)->last_run());
      EXPECT_EQ(count["_FusedBatchNormEx"], fuse ? 2 : 0);
      EXPECT_EQ(count["_FusedBatchNormReluGrad"], fuse ? 1 : 0);
      if (!fuse) expected = out;
      for (size_t i = 0; i < out.size(); ++i) EXPECT_TRUE(out[i].BitEqual(expected[i])) << device << ", " << i;
    }
  }
}

// Cube, of a program's own: a kernel for the host, which throws for negative numbers.
class CubeKernel final : public Kernel {
 public:
  absl::Status Run(const KernelContext& context) const override {
    const float x = context.input<float>(0)[0];
    if (x < 0) throw std::runtime_error("boom");
    context.output<float>(0)[0] = x * x * x;
    return absl::OkStatus();
  }
};

// The host's kernels are called by a thread of CUDA's.
TEST(FakeFallbackTest, AKernelOfTheHostThatThrowsIsAnErrorOfItsNode) {
  ASSERT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
  auto ops = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  OpDef def;
  def.name = "Cube";
  def.shape = [](InferenceContext& context) {
    context.AddOutput(context.dtype(0), context.shape(0));
    return absl::OkStatus();
  };
  ASSERT_TRUE(ops->Register(def).ok());
  auto kernels = std::make_shared<KernelRegistry>(CpuKernels());
  ASSERT_TRUE(kernels->Register("Cube", [](const OpInstance&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<CubeKernel>();
  }).ok());
  for (const char* cuda_graph : {"off", "on"}) {
    SessionOptions options;
    options.ops = ops;
    options.kernels = kernels;
    options.device = "cuda";
    options.cuda_graph = cuda_graph;
    auto graph = ParseGraphText("x = Placeholder() {dtype=float, shape=shape[1]}\ny = Cube(x) {}\nz = Neg(y) {T=float}\n");
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto session = Session::Create(*std::move(graph), options);
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<Tensor> out;
    for (const float x : {2.0f, 3.0f, -1.0f, 4.0f}) {
      const absl::Status status = (*session)->Run({{"x", Tensor::Vector<float>({x})}}, {"z"}, {}, &out);
      if (x < 0) {
        EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("node 'y' (Cube): threw an exception: boom"));
        continue;
      }
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(out[0].as<float>()[0], -x * x * x);
    }
  }
}

// What is positive, or everything: the side that is taken says how many there are, which a kernel of the host finds out, as it
// copies the side; what follows runs on the device.
TEST(FakeFallbackTest, SizesOfTheBranchThatIsTakenReachTheDevice) {
  ASSERT_EQ(setenv("MILLRACE_CUDA_PLUGIN", MILLRACE_CUDA_FAKE, 1), 0);
  auto graph = ParseGraphText(R"(
p = Placeholder() {dtype=bool, shape=shape[]}
x = Placeholder() {dtype=float, shape=shape[3]}
s = Switch(x, p) {T=float}
zero = Const() {dtype=float, value=float[]{0}}
mask = Greater(s:1, zero) {T=float}
where = Where(mask) {T=bool}
flat = Const() {dtype=int32, value=int32[1]{-1}}
rows = Reshape(where, flat) {T=int64, Tshape=int32}
axis = Const() {dtype=int32, value=int32[]{0}}
kept = GatherV2(s:1, rows, axis) {Taxis=int32, Tindices=int64, Tparams=float}
all = Identity(s) {T=float}
y = Merge(all, kept) {N=2, T=float}
twice = AddV2(y, y) {T=float}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  SessionOptions options;
  options.device = "cuda";
  const auto session = Session::Create(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto run = [&](bool p, float a, float b, float c) {
    Tensor taken(DataType::kBool, Shape());
    taken.mutable_as<bool>()[0] = p;
    std::vector<Tensor> out;
    const absl::Status status = (*session)->Run({{"p", taken}, {"x", Tensor::Vector<float>({a, b, c})}}, {"twice"}, {}, &out);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? std::vector<float>(out[0].as<float>().begin(), out[0].as<float>().end()) : std::vector<float>{-1};
  };
  EXPECT_THAT(run(true, 1, -2, 3), ::testing::ElementsAre(2, 6));
  EXPECT_THAT(run(false, 1, -2, 3), ::testing::ElementsAre(2, -4, 6));
  EXPECT_THAT(run(true, -1, -2, -3), ::testing::ElementsAre());
}

}  // namespace
}  // namespace millrace::testing
