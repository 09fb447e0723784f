// Every convolution of the bench's models, asked of the cuDNN that is installed, for devices that are described and not here:
// each has a plan that is deterministic, of the precision asked for, and within the scratch allowed. What asks is the plugin's
// own code, behind the kernels that a device would run.
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cuda/kernels/register.h"
#include "cuda/plugin/dnn_plan.h"
#include "millrace/session.h"
#include "models/models.h"

namespace millrace::cuda {
namespace {

// As cuDNN writes them, with the figures of data sheets.
std::string Hopper(const char* name, int64_t memory_bytes, int memory_khz) {
  return absl::StrCat(
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)",
      R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)",
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)",
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":)", memory_bytes,
      R"(,"smClockRateKHz":1980000,"memClockRateKHz":)", memory_khz,
      R"(,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,"deviceName":")", name, "\"}");
}

struct Asked {
  int convolutions = 0, with_plan = 0;
  size_t fewest = SIZE_MAX, most = 0;  // plans
  int64_t most_scratch = 0;            // of the first
  std::set<std::string> without;
};

class NamedConvolution final : public Convolution {
 public:
  explicit NamedConvolution(const DnnPlan& plan) : name_(plan.name), scratch_bytes_(plan.scratch_bytes) {}
  int64_t scratch_bytes() const override { return scratch_bytes_; }
  std::string algorithm() const override { return name_; }
  absl::Status Run(const Queue&, void*, void*, void*, void*) const override { return absl::UnimplementedError("no device"); }

 private:
  const std::string name_;
  const int64_t scratch_bytes_;
};

// A device whose convolutions are planned and cannot run.
class PlanningServices final : public DeviceServices {
 public:
  PlanningServices(const DnnDescriptor& device, bool tf32) : device_(device), limits_{.tf32 = tf32} {}
  const Asked& asked() const { return asked_; }

  absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) override {
    ++asked_.convolutions;
    const auto plans = RankDnnPlans(shape, limits_, device_);
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
      const auto again = NamedDnnPlan(shape, limits_, device_, plan.name);
      EXPECT_TRUE(again.ok() && again->scratch_bytes == plan.scratch_bytes) << plan.name << ": " << again.status();
    }
    return std::make_unique<NamedConvolution>(first);
  }

  Queue QueueOf(const KernelContext&) override { return {}; }
  absl::Status Launched(const Queue&) override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape&) override { return absl::UnimplementedError(""); }
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> CompileFusion(const std::string&) override {
    return absl::UnimplementedError("");
  }
  absl::Status LoadState(const Queue&, void*, const void*, int64_t) override { return absl::OkStatus(); }
  absl::Status StoreState(const Queue&, void*, const void*, int64_t) override { return absl::OkStatus(); }

 private:
  const DnnDescriptor& device_;
  const DnnLimits limits_;
  Asked asked_;
};

struct Model {
  const char* name;
  ModelOptions options;
};
const Model kModels[] = {
    {"resnet", {.batch = 64, .image_size = 224, .depth = 50}},
    {"unet3d", {.batch = 1}},
    {"deeplab", {.batch = 1, .image_size = 2048}},
    {"googlenet", {.batch = 15, .image_size = 2240}},
    {"deepspeech", {.steps_unrolled = 400}},
};

bool IsConvolution(const std::string& op) { return absl::StartsWith(op, "Conv2D") || absl::StartsWith(op, "Conv3D"); }

// The nodes of a training step that are convolutions, one of each kind.
std::vector<OpInstance> Convolutions(const Model& model) {
  auto graph = BuildModel(model.name, model.options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  Session::FeedTypes feeds;
  for (int32_t i = 0; i < graph->num_ids(); ++i) {
    const Node& node = graph->node(NodeId{i});
    if (node.op == "Placeholder") feeds[node.name] = node.outputs[0];
  }
  SessionOptions options;
  options.device = "null";
  options.planning.strategy = "baseline";
  auto session = Session::Create(*std::move(graph), options);
  EXPECT_TRUE(session.ok()) << session.status();
  const auto plan = (*session)->Plan(feeds, {"loss:0"}, {"train"});
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
  const std::pair<const char*, std::string> devices[] = {{"H100", Hopper("NVIDIA H100 80GB HBM3", int64_t{85} << 30, 2619000)},
                                                         {"H200", Hopper("NVIDIA H200", int64_t{140} << 30, 3201000)}};
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
      PlanningServices services(*device, precision.tf32);
      KernelRegistry kernels;
      RegisterCudaKernels(kernels, services);
      for (const OpInstance& convolution : convolutions) {
        const auto kernel = (*kernels.Find(convolution.op))(In(precision.dtype, convolution));
        ASSERT_TRUE(kernel.ok()) << kernel.status();
        EXPECT_NE((*kernel)->choice(), "") << convolution.name << " is left to the kernel that writes the definition out";
      }
      const Asked& asked = services.asked();
      for (const std::string& which : asked.without) ADD_FAILURE() << which;
      std::printf("%s, %s, %s: %d kinds of convolutions, %d to %d plans each, at most %.0f MiB of scratch for the first\n",
                  GetParam().name, device_name, precision.name, asked.with_plan, static_cast<int>(asked.fewest),
                  static_cast<int>(asked.most), static_cast<double>(asked.most_scratch) / (1 << 20));
    }
  }
}

TEST(DnnDeviceTest, ADeviceThatIsNotHereOrNotDescribedIsAnError) {
  if (cudnnGetVersion() < kOldestDnn) GTEST_SKIP();
  EXPECT_FALSE(DnnDeviceDescribed("{}").ok());
  EXPECT_FALSE(DnnDevice(77).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, DnnPlansTest, ::testing::ValuesIn(kModels), [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace millrace::cuda
