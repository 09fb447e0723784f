// Which of cuDNN's engines convolutions take, and what plans keep of that, on a cuDNN that is faked on the host: number 8 is
// the first that computes as it should, 9 needs no scratch and comes last (runtime/devices/cuda/fake/dnn.cc says the others).
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cuda/plugin_loader.h"
#include "millrace/device.h"
#include "stream/device_driver.h"

namespace millrace::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class FakeConvolutionTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto plugin = LoadPlugin(MILLRACE_CUDA_FAKE);
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    auto driver = (*plugin)->open({.measure_convolutions = GetParam(), .host_kernels = &CpuKernels()});
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
  }

  // A 3 x 3 (x 3) convolution, with what a plan has chosen for it.
  static OpInstance Conv(int spatial, const std::string& choice = "") {
    OpInstance instance;
    instance.name = "conv";
    instance.op = spatial == 3 ? "Conv3D" : "Conv2D";
    Shape::Dims image{2}, filter, out{2};
    for (int i = 0; i < spatial; ++i) {
      image.push_back(6);
      filter.push_back(3);
      out.push_back(6);
    }
    image.push_back(4);
    filter.push_back(4);
    filter.push_back(8);
    out.push_back(8);
    instance.inputs = {{DataType::kFloat, Shape(image)}, {DataType::kFloat, Shape(filter)}};
    instance.outputs = {{DataType::kFloat, Shape(out)}};
    instance.attrs.Set("padding", std::string("SAME"));
    instance.attrs.Set("strides", std::vector<int64_t>(spatial + 2, 1));
    if (!choice.empty()) instance.attrs.Set(kKernelChoice, choice);
    return instance;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> Make(const OpInstance& instance) {
    return (*driver_->kernels().Find(instance.op))(instance);
  }
  std::string Chosen(const OpInstance& instance) {
    const auto kernel = Make(instance);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? (*kernel)->choice() : "";
  }

  std::unique_ptr<DeviceDriver> driver_;
};

TEST_P(FakeConvolutionTest, TakesTheFirstEngineThatIsDeterministicAndRunsAndSaysWhich) {
  const std::string chosen = Chosen(Conv(2));
  // The fastest measured may be either of two.
  EXPECT_THAT(chosen, MatchesRegex(GetParam() ? "channels_(last|first):[0-9]+/(8:2=2|9)" : "channels_last:[0-9]+/8:2=2"));
  EXPECT_EQ(Chosen(Conv(2)), chosen) << "equal convolutions compute alike";
}

TEST_P(FakeConvolutionTest, WhereALayoutHasNoEngineTheOtherOneIsTaken) {
  EXPECT_THAT(Chosen(Conv(3)), MatchesRegex("channels_first:[0-9]+/(8:2=2|9)"));
}

TEST_P(FakeConvolutionTest, APlansChoiceIsFollowed) {
  const std::string chosen = Chosen(Conv(2));
  const std::string version = chosen.substr(chosen.find(':') + 1, chosen.find('/') - chosen.find(':') - 1);
  for (const char* engine : {"8:2=2", "9"}) {
    for (const char* layout : {"channels_last:", "channels_first:"}) {
      const std::string choice = absl::StrCat(layout, version, "/", engine);
      EXPECT_EQ(Chosen(Conv(2, choice)), choice);
    }
  }
}

TEST_P(FakeConvolutionTest, AChoiceThatCannotBeFollowedIsAnErrorThatSaysWhy) {
  const std::string chosen = Chosen(Conv(2));
  const std::string version = chosen.substr(chosen.find(':') + 1, chosen.find('/') - chosen.find(':') - 1);
  const std::pair<const char*, const char*> wrong[] = {
      {"V/0", "the same bits always"},        // not deterministic
      {"V/1", "--tf32"},                      // tensor cores
      {"V/2", "--tf32"},                      // inputs are rounded
      {"V/3", "the same bits always"},        // sums are rounded
      {"V/5", "bytes of scratch"},
      {"V/6", "a plan"},                      // refused when it is planned
      {"V/8", "an engine's configuration"},   // its knob is not set
      {"V/8:2=7", "an engine's configuration"},
      {"V/42", "an engine"},
      {"90001/8:2=2", "plan again"},
  };
  for (const auto& [engine, why] : wrong) {
    const absl::Status status =
        Make(Conv(2, absl::StrCat("channels_last:", absl::StrReplaceAll(engine, {{"V", version}})))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << engine << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << engine;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the plan was made with engine")) << engine;
  }
  for (const char* engine : {"8", "x/8", "90001/", "90001/8:", "90001/8:2", "90001/8:2=x", "90001/8/1"}) {
    const absl::Status status = Make(Conv(2, absl::StrCat("channels_last:", engine))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << engine << ": " << status;
  }
  EXPECT_EQ(Make(Conv(2, "sideways:90001/8")).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Choices, FakeConvolutionTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Measured" : "Ranked"; });

}  // namespace
}  // namespace millrace::cuda
