// Whole models on the CUDA device's kernels, compiled for the host: against the CPU's, and as one or several devices on
// streams that are held up at random.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/emulated/host_services.h"
#include "cuda/kernels/merge.h"
#include "cuda/kernels/register.h"
#include "millrace/device.h"
#include "session/model_run.h"

namespace millrace::testing {
namespace {

using ::testing::IsSubsetOf;

struct SmallModelOf {
  const char* name;
  ModelOptions options;
};
void PrintTo(const SmallModelOf& model, std::ostream* out) { *out << model.name; }

const SmallModelOf kModels[] = {
    {"mlp", {.batch = 4, .hidden = 16}},
    {"resnet", {.batch = 2, .image_size = 16, .classes = 10, .depth = 11, .variant = "cifar"}},
    {"lstm", {.batch = 2, .layers = 1, .hidden = 8, .steps_unrolled = 4, .vocab = 20, .dropout = 0.1}},
    {"unet3d", {.batch = 1, .image_size = 8, .channels = 4, .levels = 2}},
    {"moe_transformer",
     {.batch = 2, .layers = 2, .hidden = 16, .heads = 2, .steps_unrolled = 8, .vocab = 20, .experts = 4, .dropout = 0}},
    {"deepspeech", {.batch = 2, .layers = 1, .hidden = 8, .steps_unrolled = 12, .dropout = 0}},
};

// Sixteen bits between the layers, weights in float32.
const SmallModelOf kNarrowModels[] = {
    {"mlp", {.batch = 4, .hidden = 16, .precision = "float16"}},
    {"resnet", {.batch = 2, .image_size = 16, .classes = 10, .depth = 11, .variant = "cifar", .precision = "bfloat16", .learning_rate = 0.001}},
    {"unet3d", {.batch = 1, .image_size = 8, .channels = 4, .levels = 2, .precision = "bfloat16"}},
    {"moe_transformer",
     {.batch = 2, .layers = 2, .hidden = 16, .heads = 2, .steps_unrolled = 8, .vocab = 20, .experts = 4, .dropout = 0, .precision = "bfloat16"}},
};

class CudaModelsTest : public ::testing::TestWithParam<SmallModelOf> {
 protected:
  Graph Model() const {
    auto graph = BuildModel(GetParam().name, GetParam().options);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }
};

void ExpectClose(const std::vector<float>& a, const std::vector<float>& b, double relative = 1e-3) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * std::abs(a[i])) << "step " << i;
}

// Only what cuBLASLt and cuDNN do on a device is left to the CPU here.
TEST_P(CudaModelsTest, RunsOnItsOwnKernelsAndAgreesWithTheCpu) {
  cuda::HostServices services(/*written_out=*/false);
  KernelRegistry device;
  cuda::RegisterCudaKernels(device, services);
  std::set<std::string> left;
  const auto merged = std::make_shared<const KernelRegistry>(
      cuda::MergeKernels(device, CpuKernels(), [&](const OpInstance& instance, std::unique_ptr<Kernel> kernel) {
        left.insert(instance.op);
        return kernel;
      }));
  SessionOptions on_cpu, on_cuda;
  on_cpu.threads = on_cuda.threads = 1;
  on_cuda.kernels = merged;
  on_cuda.planning.pack_rows = true;
  const Graph graph = Model();
  std::vector<float> expected, losses;
  {
    ModelRun cpu(graph, on_cpu), cuda(graph, on_cuda);
    expected = cpu.Steps(3);
    losses = cuda.Steps(3);
    ASSERT_TRUE(cpu.status().ok()) << cpu.status();
    ASSERT_TRUE(cuda.status().ok()) << cuda.status();
  }
  ASSERT_EQ(losses.size(), 3);
  ExpectClose(expected, losses, GetParam().options.precision.empty() ? 1e-3 : 1e-2);
  const std::set<std::string> libraries = {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3D",
                                           "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", "MatMul", "_FusedMatMul", "BatchMatMulV2",
                                           "_SumProducts", "_AddProducts"};
  EXPECT_THAT(left, IsSubsetOf(libraries));
}

// Without DeepSpeech: its many small nodes, each of them held up, would take a minute.
class CudaModelBitsTest : public CudaModelsTest {};

TEST_P(CudaModelBitsTest, StreamsPartitionsBudgetsAndFusionDoNotChangeABit) {
  const Graph graph = Model();
  std::map<std::string, std::string> expected;
  for (const char* strategy : {"baseline", "planned", "tensorflowmem"}) {
    SessionOptions options;
    options.threads = 1;
    options.device = "cuda_emulated";
    options.planning.strategy = strategy;
    options.planning.fuse = !expected.empty();  // trees as one kernel have the bits of their ops
    options.planning.pack_rows = true;
    if (strategy == std::string("tensorflowmem")) options.planning.partition_size = 7;
    ModelRun run(graph, options);
    ASSERT_EQ(run.Steps(4).size(), 4) << strategy << ": " << run.status();  // on streams, captured, replayed
    const auto variables = run.Variables();
    if (expected.empty()) expected = variables;
    EXPECT_TRUE(variables == expected) << strategy;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CudaModelsTest, ::testing::ValuesIn(kModels),
                         [](const auto& param) { return std::string(param.param.name); });
INSTANTIATE_TEST_SUITE_P(NarrowModels, CudaModelsTest, ::testing::ValuesIn(kNarrowModels),
                         [](const auto& param) { return std::string(param.param.name); });
INSTANTIATE_TEST_SUITE_P(NarrowModels, CudaModelBitsTest, ::testing::ValuesIn(kNarrowModels),
                         [](const auto& param) { return std::string(param.param.name); });
INSTANTIATE_TEST_SUITE_P(Models, CudaModelBitsTest, ::testing::ValuesIn(std::begin(kModels), std::end(kModels) - 1),
                         [](const auto& param) { return std::string(param.param.name); });

// Convolutions with their channels first, between Transposes: the results are those of channels last to rounding, and the same
// bits under every strategy and budget.
class ChannelsFirstTest : public CudaModelsTest {
 protected:
  static int Count(const RunReport& report, bool (*counts)(const OpInstance&)) {
    const auto& instances = report.plan->instances;
    return static_cast<int>(std::count_if(instances.begin(), instances.end(), counts));
  }
  static bool IsFirst(const OpInstance& instance) { return instance.attrs.GetOr<std::string>("data_format", "").rfind("NC", 0) == 0; }
  static bool IsLast(const OpInstance& instance) {
    return instance.op.find("Conv") != std::string::npos && instance.attrs.GetOr<std::string>("data_format", "NHWC").rfind("NC", 0) != 0;
  }
};

TEST_P(ChannelsFirstTest, RegionsOfConvolutionsGiveTheSameResultsUnderEveryPlan) {
  const Graph graph = Model();
  std::vector<float> last;
  std::map<std::string, std::string> expected;
  int64_t budget = 0;
  for (const char* run_as : {"last", "baseline", "tensorflowmem", "planned"}) {
    SessionOptions options;
    options.threads = 1;
    options.device = "cuda_emulated";
    options.planning.fuse = true;
    options.planning.channels_first = run_as != std::string("last");
    options.planning.strategy = options.planning.channels_first ? run_as : "baseline";
    if (run_as == std::string("tensorflowmem")) options.planning.partition_size = 7;
    if (run_as == std::string("planned")) options.planning.device_memory_bytes = budget;
    ModelRun run(graph, options);
    const std::vector<float> losses = run.Steps(4);
    ASSERT_EQ(losses.size(), 4) << run_as << ": " << run.status();
    if (!options.planning.channels_first) {
      last = losses;
      EXPECT_EQ(Count(run.report(), IsFirst), 0);
      continue;
    }
    EXPECT_GT(Count(run.report(), IsFirst), 0) << run_as;
    EXPECT_EQ(Count(run.report(), IsLast), 0) << run_as;
    if (expected.empty()) {
      ExpectClose(last, losses);
      expected = run.Variables();
      budget = run.report().predicted_peak_device_bytes * 8 / 10;
    }
    EXPECT_TRUE(run.Variables() == expected) << run_as;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ChannelsFirstTest, ::testing::Values(kModels[1]),
                         [](const auto& param) { return std::string(param.param.name); });

// Steps 4 to 8 are measured, on streams; then graphs go on, with the same bits.
TEST(CudaReplanTest, StepsAreMeasuredNodeByNodeAndPlansMadeWithTheirTimes) {
  std::map<std::string, std::string> expected;
  for (const auto mode : {ReplanOptions::Mode::kOff, ReplanOptions::Mode::kWait}) {
    auto graph = BuildModel("mlp", {.batch = 4, .hidden = 16});
    ASSERT_TRUE(graph.ok()) << graph.status();
    SessionOptions options;
    options.threads = 1;
    options.device = "cuda_emulated";
    options.planning.strategy = "planned";
    options.replan.mode = mode;
    ModelRun run(*graph, options);
    ASSERT_EQ(run.Steps(12).size(), 12) << run.status();
    EXPECT_EQ(run.report().measured_times, mode == ReplanOptions::Mode::kWait);
    if (expected.empty()) expected = run.Variables();
    EXPECT_TRUE(run.Variables() == expected);
  }
}

TEST(SeveralCudaDevicesTest, GiveTheBitsOfOne) {
  std::map<std::string, std::string> expected;
  for (int devices : {1, 2, 4}) {
    auto graph = BuildModel("moe_transformer", {.batch = 2, .layers = 2, .hidden = 16, .heads = 2, .steps_unrolled = 8,
                                                .vocab = 20, .experts = 4, .devices = 4, .dropout = 0});
    ASSERT_TRUE(graph.ok()) << graph.status();
    SessionOptions options;
    options.threads = 1;
    options.device = "cuda_emulated";
    for (int d = 0; d < devices; ++d) options.planning.devices.push_back("gpu:" + std::to_string(d));
    ModelRun run(*graph, options);
    ASSERT_EQ(run.Steps(4).size(), 4) << devices << " devices: " << run.status();
    if (devices > 1) {
      EXPECT_GT(run.report().sends, 0);
    }
    const auto variables = run.Variables();
    if (expected.empty()) expected = variables;
    EXPECT_TRUE(variables == expected) << devices << " devices";
  }
}

}  // namespace
}  // namespace millrace::testing
