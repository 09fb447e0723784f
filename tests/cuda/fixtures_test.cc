// TensorFlow's training graphs on the CUDA device's kernels: which nodes of them are left to the host.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "cuda/emulated/host_services.h"
#include "cuda/kernels/merge.h"
#include "cuda/kernels/register.h"
#include "millrace/device.h"
#include "millrace/import.h"
#include "millrace/session.h"

namespace millrace::testing {
namespace {

using ::testing::IsSubsetOf;

constexpr char kFolder[] = MILLRACE_SOURCE_DIR "/tests/e2e/fixtures";

class FixtureKernelsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FixtureKernelsTest, LeaveNothingToTheHostButWhatLibrariesAndShapesOfDataTake) {
  const std::string folder = absl::StrCat(kFolder, "/", GetParam());
  const std::string file = absl::StrCat(::testing::TempDir(), "/", GetParam(), "_", getpid(), ".pb");
  ASSERT_EQ(std::system(absl::StrCat("gzip -dc ", folder, "/graph.pb.gz > ", file).c_str()), 0);
  auto graph = LoadGraph(file);
  std::filesystem::remove(file);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto feeds = LoadArrays(folder + "/feeds.npz");
  ASSERT_TRUE(feeds.ok()) << feeds.status();

  cuda::HostServices services(/*written_out=*/false);
  KernelRegistry device;
  cuda::RegisterCudaKernels(device, services);
  std::map<std::string, std::string> fallbacks;  // node to op
  SessionOptions options;
  options.threads = 1;
  options.planning.strategy = "baseline";
  options.planning.fuse = true;
  options.kernels = std::make_shared<const KernelRegistry>(
      cuda::MergeKernels(device, CpuKernels(), [&](const OpInstance& instance, std::unique_ptr<Kernel> kernel) {
        fallbacks[instance.name] = instance.op;
        return kernel;
      }));
  auto session = Session::Create(*std::move(graph), options);
  ASSERT_TRUE(session.ok()) << session.status();
  Session::FeedTypes types;
  for (const auto& [name, tensor] : *feeds) types.emplace(name, tensor.type());
  const auto plan = (*session)->Plan(types, {"loss:0"}, {"train"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  if (GetParam() == std::string("moe_dynamic")) {
    // Kernels of ops whose shapes the data decides are made when they run.
    Session::Feeds values;
    for (const auto& [name, tensor] : *feeds) values[name] = tensor;
    ASSERT_TRUE((*session)->Run({}, {}, {"init"}, nullptr).ok());
    const absl::Status run = (*session)->Run(values, {"loss:0"}, {"train"}, nullptr);
    ASSERT_TRUE(run.ok()) << run;
  }
  // What was computed while planning is not in the plan.
  std::set<std::string> left;
  for (const OpInstance& instance : (*plan)->instances) {
    const auto found = fallbacks.find(instance.name);
    if (found != fallbacks.end() && found->second == instance.op) left.insert(instance.op);
  }
  const std::set<std::string> allowed = {
      // cuBLASLt and cuDNN take these on a device.
      "MatMul", "_FusedMatMul", "BatchMatMul", "BatchMatMulV2", "Einsum", "_SumProducts", "_AddProducts",
      // Few numbers, which the host must know before it goes on: how many there are is the shape of what follows.
      "Unique", "Where", "DynamicPartition", "BroadcastGradientArgs", "ConcatOffset", "Slice"};
  EXPECT_THAT(left, IsSubsetOf(allowed));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, FixtureKernelsTest,
                         ::testing::Values("deeplab", "deepspeech", "googlenet", "lstm_ptb", "mlp_ref", "moe_dynamic",
                                           "moe_transformer", "resnet110_preact", "resnet50", "transformer_random", "unet3d"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace millrace::testing
