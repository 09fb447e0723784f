// Every convolution of the bench's models, asked of the cuDNN that is installed, for devices that are described and not here:
// each has a plan that is deterministic, of the precision asked for, and within the scratch allowed. What asks is the plugin's
// own code, behind the kernels that a device would run.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/merge.h"
#include "cuda/kernels/register.h"
#include "cuda/plugin/dnn_plan.h"
#include "millrace/device.h"
#include "planned_device.h"

namespace millrace::cuda {
namespace {

struct Asked {
  int with_plan = 0;
  size_t fewest = SIZE_MAX, most = 0;  // plans
  int64_t most_scratch = 0;            // of the first
  std::set<std::string> without;
};

// Keeps what it was asked.
class AskedDevice final : public PlannedDevice {
 public:
  using PlannedDevice::PlannedDevice;
  const Asked& asked() const { return asked_; }

  absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) override {
    const auto plans = RankDnnPlans(shape, limits_, {.device = &device_});
    if (!plans.ok()) {
      asked_.without.insert(absl::StrCat(shape.in_channels, " to ", shape.out_channels, ": ", plans.status().message()));
      return plans.status();
    }
    ++asked_.with_plan;
    asked_.fewest = std::min(asked_.fewest, plans->size());
    asked_.most = std::max(asked_.most, plans->size());
    const DnnPlan& first = plans->front();
    EXPECT_LE(first.scratch_bytes, MostScratchBytes(shape, limits_));
    asked_.most_scratch = std::max(asked_.most_scratch, first.scratch_bytes);
    // What a plan file keeps of it makes it again.
    for (const DnnPlan& plan : *plans) {
      const auto again = NamedDnnPlan(shape, limits_, {.device = &device_}, plan.name);
      EXPECT_TRUE(again.ok() && again->scratch_bytes == plan.scratch_bytes) << plan.name << ": " << again.status();
    }
    return std::make_unique<PlannedConvolution>(first);
  }

 private:
  Asked asked_;
};

struct Model {
  const char* name;
  ModelOptions options;
  bool biases = false;  // behind convolutions
};
const Model kModels[] = {
    {"resnet", {.batch = 64, .image_size = 224, .depth = 50}},
    {"unet3d", {.batch = 1}, true},
    {"deeplab", {.batch = 1, .image_size = 2048}, true},
    {"googlenet", {.batch = 15, .image_size = 2240}, true},
    {"deepspeech", {.steps_unrolled = 400}},
};

bool IsConvolution(const std::string& op) {
  const std::string_view plain = op.rfind("_Fused", 0) == 0 ? std::string_view(op).substr(6) : op;
  return plain.rfind("Conv2D", 0) == 0 || plain.rfind("Conv3D", 0) == 0;
}

// The nodes of a training step that are convolutions, one of each kind.
std::vector<OpInstance> Convolutions(const Model& model) {
  SessionOptions options;
  options.device = "null";
  options.planning.strategy = "baseline";
  options.planning.fuse = true;
  const auto plan = PlanStep(model.name, model.options, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::map<std::string, OpInstance> kinds;
  for (const OpInstance& instance : (*plan)->instances) {
    if (!IsConvolution(instance.op)) continue;
    std::string kind = instance.op;
    for (const TensorType& type : instance.inputs) absl::StrAppend(&kind, " ", type.shape.ToString());
    absl::StrAppend(&kind, " ", instance.outputs[0].shape.ToString(), " ", instance.attrs.GetOr<std::string>("padding", ""));
    kinds.emplace(kind, instance);
  }
  std::vector<OpInstance> all;
  for (auto& [kind, instance] : kinds) all.push_back(std::move(instance));
  return all;
}

OpInstance In(DataType dtype, OpInstance instance) {
  for (std::vector<TensorType>* types : {&instance.inputs, &instance.outputs}) {
    for (TensorType& type : *types) {
      if (type.dtype == DataType::kFloat) type.dtype = dtype;
    }
  }
  return instance;
}

class DnnPlansTest : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    if (cudnnGetVersion() < kOldestDnn) GTEST_SKIP() << "cuDNN " << cudnnGetVersion() << " takes no devices by description";
  }
};

TEST_P(DnnPlansTest, EveryConvolutionHasADeterministicPlanWithinTheScratchAllowed) {
  const std::vector<OpInstance> convolutions = Convolutions(GetParam());
  ASSERT_FALSE(convolutions.empty());
  const std::pair<const char*, std::string> devices[] = {{"H100", H100()}, {"H200", H200()}};
  const struct {
    const char* name;
    DataType dtype;
    bool tf32;
  } precisions[] = {{"float32", DataType::kFloat, false},
                    {"tf32", DataType::kFloat, true},
                    {"bfloat16", DataType::kBfloat16, false},
                    {"float16", DataType::kHalf, false}};
  for (const auto& [device_name, json] : devices) {
    const auto device = DnnDeviceDescribed(json);
    ASSERT_TRUE(device.ok()) << device.status();
    for (const auto& precision : precisions) {
      SCOPED_TRACE(absl::StrCat(device_name, " ", precision.name));
      AskedDevice services(*device, {.tf32 = precision.tf32});
      KernelRegistry kernels;
      RegisterCudaKernels(kernels, services);
      int fused = 0;
      for (const OpInstance& convolution : convolutions) {
        const auto kernel = (*kernels.Find(convolution.op))(In(precision.dtype, convolution));
        ASSERT_TRUE(kernel.ok()) << kernel.status();
        const std::string choice = (*kernel)->choice();
        EXPECT_NE(choice, "") << convolution.name << " is left to the kernel that writes the definition out";
        EXPECT_EQ(choice.find("apart"), std::string::npos) << convolution.name << " has its bias apart";
        fused += absl::StartsWith(convolution.op, "_Fused") ? 1 : 0;
      }
      const Asked& asked = services.asked();
      for (const std::string& which : asked.without) ADD_FAILURE() << which;
      EXPECT_EQ(fused > 0, GetParam().biases) << fused << " with their bias";
      std::printf("%s, %s, %s: %d kinds of convolutions, %d with a bias, %d to %d plans each, at most %.0f MiB of scratch for the first\n",
                  GetParam().name, device_name, precision.name, asked.with_plan, fused, static_cast<int>(asked.fewest),
                  static_cast<int>(asked.most), static_cast<double>(asked.most_scratch) / (1 << 20));
    }
  }
}

struct Size {
  const char* name;
  ModelOptions options;
  double gigabytes;
};

// With the scratch of cuDNN's engines for an H200 and of the device's own kernels.
void PlanSize(const Size& size, bool channels_first) {
  const auto device = DnnDeviceDescribed(H200());
  ASSERT_TRUE(device.ok()) << device.status();
  PlannedDevice services(*device);
  KernelRegistry kernels;
  RegisterCudaKernels(kernels, services);
  SessionOptions options;
  options.planning.fuse = true;
  options.planning.channels_first = channels_first;
  options.planning.device_memory_bytes = static_cast<int64_t>(size.gigabytes * 1e9);
  options.kernels = std::make_shared<const KernelRegistry>(
      MergeKernels(kernels, CpuKernels(), [](const OpInstance&, std::unique_ptr<Kernel> kernel) { return kernel; }));
  const auto plan = PlanStep(size.name, size.options, options);
  EXPECT_TRUE(plan.ok()) << size.name << (channels_first ? ", channels first: " : ": ") << plan.status();
  if (!plan.ok()) return;
  int64_t scratch = 0;
  for (const Lane& lane : (*plan)->lanes) {
    for (const ComputeStep& step : lane.compute) scratch = std::max(scratch, step.scratch_bytes);
  }
  std::printf("%s%s: %.0f GB, peak %.2f GB, at most %.0f MB of scratch for a node\n", size.name, channels_first ? ", channels first" : "",
              size.gigabytes, static_cast<double>((*plan)->devices[0].peak_live_bytes) / 1e9, static_cast<double>(scratch) / 1e6);
}

// The large ones of bench/gpu_check.sh, and GoogLeNet's largest batch at 12 GB: at 15 the gradient of its first pool holds more.
TEST(DnnSizesTest, TheBenchsSizesFitTheirBudgets) {
  if (cudnnGetVersion() < kOldestDnn) GTEST_SKIP();
  const Size sizes[] = {
      {"googlenet", {.batch = 15, .image_size = 2240}, 16}, {"googlenet", {.batch = 11, .image_size = 2240}, 12},
      {"googlenet", {.batch = 14, .image_size = 2240}, 12},
      {"resnet", {.batch = 1, .image_size = 7500, .depth = 50}, 16}, {"deeplab", {.batch = 1, .image_size = 2048}, 16},
      {"unet3d", {.batch = 1, .image_size = 192}, 16}, {"deepspeech", {.steps_unrolled = 400}, 12},
  };
  for (const Size& size : sizes) {
    PlanSize(size, size.name != std::string("deepspeech"));
  }
}

// Of TensorFlowMem's rows at 12 GB what a second or so plans, with the scratch that an H200 would take. The others are planned
// where MILLRACE_LARGE_SIZES is set: ResNet of 1001 and 1916 layers take minutes on a busy machine.
TEST(DnnSizesTest, TensorFlowMemsRowsFitTwelveGigabytes) {
  if (cudnnGetVersion() < kOldestDnn) GTEST_SKIP();
  PlanSize({"resnet", {.batch = 16, .depth = 504}, 12}, true);
  PlanSize({"deepspeech", {.steps_unrolled = 800}, 12}, false);
}

TEST(DnnSizesTest, TensorFlowMemsLargestRowsFitTwelveGigabytes) {
  if (cudnnGetVersion() < kOldestDnn || std::getenv("MILLRACE_LARGE_SIZES") == nullptr) GTEST_SKIP();
  for (const bool first : {false, true}) {
    PlanSize({"resnet", {.batch = 16, .depth = 504}, 12}, first);
    PlanSize({"resnet", {.batch = 32, .depth = 1001}, 12}, first);
    PlanSize({"resnet", {.batch = 16, .depth = 1916}, 12}, first);
  }
  PlanSize({"moe_transformer", {.batch = 8, .experts = 48}, 12}, false);
}

TEST(DnnDeviceTest, WhatADeviceIsCanBeTakenToAnotherMachine) {
  if (cudnnGetVersion() < kOldestDnn) GTEST_SKIP();
  const auto device = DnnDeviceDescribed(H200());
  ASSERT_TRUE(device.ok()) << device.status();
  const auto text = DnnDeviceText(*device);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, H200());
}

TEST(DnnDeviceTest, ADeviceThatIsNotHereOrNotDescribedIsAnError) {
  if (cudnnGetVersion() < kOldestDnn) GTEST_SKIP();
  EXPECT_FALSE(DnnDeviceDescribed("{}").ok());
  EXPECT_FALSE(DnnDevice(77).ok());
}

// Which the library ranks behind others (RankByMeasurements).
TEST(DnnRankingTest, WhatMeasuresFasterOnAnH200GoesFirst) {
  if (cudnnGetVersion() != 91900) GTEST_SKIP() << "cuDNN " << cudnnGetVersion() << " was not measured";
  const auto device = DnnDeviceDescribed(H200());
  ASSERT_TRUE(device.ok()) << device.status();
  const auto first = [&](const ConvShape& shape, bool tf32) {
    const auto plans = RankDnnPlans(shape, {.tf32 = tf32}, {.device = &*device});
    EXPECT_TRUE(plans.ok()) << plans.status();
    return plans.ok() ? plans->front().name : "";
  };
  ConvShape deep;
  deep.channels_first = true;
  deep.batch = 64;
  deep.in_channels = deep.out_channels = 512;
  deep.in = deep.out = {7, 7, 1};
  deep.kernel = {3, 3, 1};
  deep.pad = deep.pad_after = {1, 1, 0};
  EXPECT_EQ(first(deep, false), "91900/70:2=4,18=0");
  EXPECT_NE(first(deep, true), "91900/70:2=4,18=0") << "with tensor cores the ranking stays";
  ConvShape volume;
  volume.part = ConvPart::kFilter;
  volume.channels_first = true;
  volume.spatial = 3;
  volume.batch = 1;
  volume.in_channels = volume.out_channels = 64;
  volume.in = volume.out = {144, 144, 144};
  volume.kernel = {3, 3, 3};
  volume.pad = volume.pad_after = {1, 1, 1};
  EXPECT_EQ(first(volume, false), "91900/1");
  volume.in_channels = 192;
  EXPECT_EQ(first(volume, false), "91900/67:2=12") << "a larger filter";
}

INSTANTIATE_TEST_SUITE_P(Models, DnnPlansTest, ::testing::ValuesIn(kModels), [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace millrace::cuda
