// Which of cuDNN's engines convolutions take, and what plans keep of that, on a cuDNN that is faked on the host: number 8 is
// the first that computes as it should, 9 needs no scratch and comes last (runtime/devices/cuda/fake/dnn.cc says the others).
#include <memory>
#include <string>
#include <vector>

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "conformance_device.h"
#include "cuda/plugin_loader.h"
#include "millrace/device.h"
#include "millrace/op.h"
#include "runtime/op_evaluator.h"
#include "stream/device_driver.h"

namespace millrace::cuda {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class FakeConvolutionTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto plugin = LoadPlugin(MILLRACE_CUDA_FAKE);
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    auto driver = (*plugin)->open({.measure_convolutions = GetParam(), .host = HostOpsOf(CpuKernels(), OpRegistry::Builtin())});
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

// Which this cuDNN has engines for where the device is described to it, and not by a handle.
TEST_P(FakeConvolutionTest, WhatTheHandlesDeviceHasNoEngineForIsAskedOfTheDeviceAsDescribed) {
  OpInstance dilated = Conv(2);
  dilated.attrs.Set("dilations", std::vector<int64_t>{1, 2, 2, 1});
  const std::string chosen = Chosen(dilated);
  EXPECT_THAT(chosen, MatchesRegex("channels_(last|first):[0-9]+/(8:2=2|9)"));
  dilated.attrs.Set(kKernelChoice, chosen);
  EXPECT_EQ(Chosen(dilated), chosen);
}

TEST_P(FakeConvolutionTest, WhereALayoutHasNoEngineTheOtherOneIsTaken) {
  EXPECT_THAT(Chosen(Conv(3)), MatchesRegex("channels_first:[0-9]+/(8:2=2|9)"));
}

// Warnings of the plugin, which shares the program's glog.
class Warnings : public google::LogSink {
 public:
  Warnings() { google::AddLogSink(this); }
  ~Warnings() override { google::RemoveLogSink(this); }
  using google::LogSink::send;
  void send(google::LogSeverity severity, const char*, const char*, int, const google::LogMessageTime&, const char* message,
            size_t length) override {
    if (severity == google::GLOG_WARNING) said.emplace_back(message, length);
  }
  std::vector<std::string> said;
};

TEST_P(FakeConvolutionTest, ALibraryThatIsMissingIsSaidOnceAndKernelsOfOursCompute) {
  OpInstance wide = Conv(2);
  wide.inputs[1] = {DataType::kFloat, Shape({3, 11, 4, 8})};
  Warnings warnings;
  EXPECT_EQ(Chosen(wide), "");
  wide.inputs[1] = {DataType::kFloat, Shape({5, 11, 4, 8})};
  EXPECT_EQ(Chosen(wide), "");
  ASSERT_EQ(warnings.said.size(), 1);
  EXPECT_THAT(warnings.said[0], HasSubstr("slower kernels take the place of cuDNN's convolutions"));
}

// Number 7 would be refused when it runs.
TEST_P(FakeConvolutionTest, WhereMemoryIsShortTheFirstEngineIsTakenUntriedWhichIsSaidOnce) {
  OpInstance large = Conv(2);
  large.inputs[0] = {DataType::kFloat, Shape({2'000'000, 6, 6, 4})};
  large.outputs[0] = {DataType::kFloat, Shape({2'000'000, 6, 6, 8})};
  Warnings warnings;
  EXPECT_THAT(Chosen(large), MatchesRegex("channels_(last|first):[0-9]+/7"));
  ASSERT_EQ(warnings.said.size(), 1);
  EXPECT_THAT(warnings.said[0], HasSubstr("forward, channels last"));
  EXPECT_THAT(warnings.said[0], HasSubstr("batch 2000000, 4 to 8 channels in 1 groups, in 6 6, out 6 6, window 3 3"));
  EXPECT_THAT(warnings.said[0], ContainsRegex("untried: a trial takes [0-9]+ bytes, and [0-9]+ are free"));
  EXPECT_THAT(Chosen(large), MatchesRegex("channels_(last|first):[0-9]+/7"));
  EXPECT_EQ(warnings.said.size(), 1);
}

// The convolution's operands take 4608 bytes; number 9 needs no scratch.
TEST_P(FakeConvolutionTest, WhatIsLentForTrialsIsAllThatTheyTake) {
  Warnings warnings;
  driver_->LendForTrials(nullptr, 0);
  EXPECT_THAT(Chosen(Conv(2)), MatchesRegex("channels_last:[0-9]+/7"));
  ASSERT_FALSE(warnings.said.empty());
  EXPECT_THAT(warnings.said[0], ContainsRegex("untried: a trial takes [0-9]+ bytes, and 0 of the budget are free for it"));
  warnings.said.clear();
  const auto memory = driver_->AllocateDevice(int64_t{1} << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto wider = [](int64_t batch) {  // each is planned for the first time
    OpInstance conv = Conv(2);
    conv.inputs[0] = {DataType::kFloat, Shape({batch, 6, 6, 4})};
    conv.outputs[0] = {DataType::kFloat, Shape({batch, 6, 6, 8})};
    return conv;
  };
  constexpr int64_t kOfThree = 1152 / 2 * 3 + 1152 + 2304 / 2 * 3 + 128;
  driver_->LendForTrials(*memory, kOfThree);
  EXPECT_THAT(Chosen(wider(3)), MatchesRegex(GetParam() ? "channels_(last|first):[0-9]+/9" : "channels_last:[0-9]+/7"));
  EXPECT_EQ(warnings.said.empty(), GetParam());
  warnings.said.clear();
  driver_->LendForTrials(*memory, int64_t{1} << 20);
  EXPECT_THAT(Chosen(wider(4)), MatchesRegex(GetParam() ? "channels_(last|first):[0-9]+/(8:2=2|9)" : "channels_last:[0-9]+/8:2=2"));
  EXPECT_THAT(warnings.said, ::testing::IsEmpty());
  driver_->LendForTrials(nullptr, 0);
  driver_->FreeDevice(*memory);
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

// A tensor of small numbers that repeat.
Tensor Numbers(DataType dtype, const Shape& shape, uint32_t seed) {
  Tensor numbers(DataType::kFloat, shape);
  for (float& value : numbers.mutable_as<float>()) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 28) / 8.0f - 1.0f;
  }
  if (dtype == DataType::kFloat) return numbers;
  OpInstance cast;
  cast.op = "Cast";
  cast.attrs = AttrMap({{"SrcT", DataType::kFloat}, {"DstT", dtype}});
  cast.inputs = {{DataType::kFloat, shape}};
  cast.outputs = {{dtype, shape}};
  return EvaluateOp(*OpRegistry::Builtin().Find("Cast"), CpuKernels(), cast, {numbers}).value()[0];
}

// As the CPU has it.
Tensor OnCpu(const OpInstance& instance, const std::vector<Tensor>& inputs) {
  return EvaluateOp(*OpRegistry::Builtin().Find(instance.op), CpuKernels(), instance, inputs).value()[0];
}

struct Fused {
  int spatial;
  bool channels_first;
  DataType dtype;
  int64_t groups;
  bool side, relu;
  const char* padding;
  int64_t stride;
};

// Of a size that no library pads alike on both sides where the padding is SAME and the stride 2.
OpInstance FusedConv(const Fused& fused) {
  OpInstance instance;
  instance.name = "conv";
  instance.op = fused.spatial == 3 ? "_FusedConv3D" : "_FusedConv2D";
  Shape::Dims image{2}, filter;
  std::vector<int64_t> strides{1};
  if (fused.channels_first) image.push_back(4), strides.push_back(1);
  for (int i = 0; i < fused.spatial; ++i) image.push_back(6), filter.push_back(3), strides.push_back(fused.stride);
  if (!fused.channels_first) image.push_back(4), strides.push_back(1);
  filter.push_back(4 / fused.groups);
  filter.push_back(8);
  const char* const formats[] = {"NHWC", "NCHW", "NDHWC", "NCDHW"};
  instance.attrs = AttrMap({{"T", fused.dtype},
                            {"padding", std::string(fused.padding)},
                            {"strides", strides},
                            {"data_format", std::string(formats[2 * (fused.spatial - 2) + (fused.channels_first ? 1 : 0)])}});
  std::vector<std::string> ops{"BiasAdd"};
  if (fused.side) ops.push_back("Add");
  if (fused.relu) ops.push_back("Relu");
  instance.attrs.Set("fused_ops", ops);
  instance.attrs.Set("num_args", int64_t{fused.side ? 2 : 1});
  instance.inputs = {{fused.dtype, Shape(image)}, {fused.dtype, Shape(filter)}, {fused.dtype, Shape({8})}};
  OpInstance alone = instance;
  alone.op = fused.spatial == 3 ? "Conv3D" : "Conv2D";
  alone.inputs.resize(2);
  EXPECT_TRUE(InferOutputs(*OpRegistry::Builtin().Find(alone.op), alone).ok());
  instance.outputs = alone.outputs;
  if (fused.side) instance.inputs.push_back(instance.outputs[0]);
  return instance;
}

std::vector<Fused> FusedCases() {
  std::vector<Fused> cases;
  for (const bool first : {false, true}) {
    for (const bool side : {false, true}) {
      for (const bool relu : {false, true}) {
        for (const DataType dtype : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16}) {
          cases.push_back({2, first, dtype, 1, side, relu, "SAME", 2});
        }
        // Which the fake has apart alone; each is compiled.
        if (side == relu) cases.push_back({2, first, DataType::kFloat, 2, side, relu, "SAME", 1});
        cases.push_back({3, first, DataType::kFloat, 1, side, relu, "VALID", 1});  // channels last: between transposes
      }
    }
  }
  return cases;
}

TEST_P(FakeConvolutionTest, BiasSumAndReluAreOneGraphWithTheConvolutionOrFollowIt) {
  DriverDevice device(*driver_);
  int apart = 0;
  for (const Fused& fused : FusedCases()) {
    OpInstance instance = FusedConv(fused);
    SCOPED_TRACE(absl::StrCat(instance.op, fused.channels_first ? " first" : " last", ", type ", std::string(DataTypeName(fused.dtype)), ", ",
                              fused.groups, " groups", fused.side ? ", side" : "", fused.relu ? ", relu" : ""));
    conformance::Case test;
    test.name = instance.name;
    test.op = instance.op;
    test.attrs = instance.attrs;
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      test.inputs.push_back(Numbers(fused.dtype, instance.inputs[i].shape, static_cast<uint32_t>(i)));
    }
    test.is_variable.assign(test.inputs.size(), false);
    // On the CPU a half is rounded after every op.
    test.atol = fused.dtype == DataType::kFloat ? 1e-5 : fused.dtype == DataType::kHalf ? 0.04 : 0.3;
    test.outputs[0] = {instance.outputs[0], 1, OnCpu(instance, test.inputs)};
    // As it chooses, and as a plan has it that holds the choice.
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(conformance::CheckCase(test, OpRegistry::Builtin(), device).ok())
          << conformance::CheckCase(test, OpRegistry::Builtin(), device);
      instance.attrs = test.attrs;
      const std::string chosen = Chosen(instance);
      EXPECT_THAT(chosen, MatchesRegex("(apart,)?channels_(first|last):[0-9]+/.*"));
      EXPECT_EQ(chosen.rfind("apart,", 0) == 0, fused.groups > 1) << chosen;
      EXPECT_EQ(chosen, instance.attrs.GetOr<std::string>(kKernelChoice, chosen));
      apart += chosen.rfind("apart,", 0) == 0 ? 1 : 0;
      test.attrs.Set(kKernelChoice, chosen);
    }
  }
  EXPECT_EQ(apart, 8);
}

// Stride 2 over an even size pads one side alone. The library is told so, but for the gradient of the input.
TEST_P(FakeConvolutionTest, UnevenPaddingIsTheLibrarysButForGradients) {
  OpInstance conv = FusedConv({2, false, DataType::kFloat, 1, false, false, "SAME", 2});
  for (const char* name : {"fused_ops", "num_args"}) conv.attrs.Erase(name);
  conv.op = "Conv2D";
  conv.inputs.resize(2);
  EXPECT_THAT(Chosen(conv), MatchesRegex("channels_(first|last):.*"));
  const auto kernel = Make(conv);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  OpInstance gradient = conv;
  gradient.op = "Conv2DBackpropInput";
  gradient.inputs = {{DataType::kInt32, Shape({4})}, conv.inputs[1], conv.outputs[0]};
  gradient.outputs = {conv.inputs[0]};
  EXPECT_THAT(Chosen(gradient), MatchesRegex("channels_(first|last),padded:.*"));
  const auto padded = Make(gradient);
  ASSERT_TRUE(padded.ok()) << padded.status();
  // The fastest measured may have another layout, or an engine that needs no scratch.
  EXPECT_TRUE(GetParam() || (*padded)->scratch_bytes() > (*kernel)->scratch_bytes());
  OpInstance of_filter = gradient;
  of_filter.op = "Conv2DBackpropFilter";
  of_filter.inputs = {conv.inputs[0], {DataType::kInt32, Shape({4})}, conv.outputs[0]};
  of_filter.outputs = {conv.inputs[1]};
  EXPECT_THAT(Chosen(of_filter), MatchesRegex("channels_(first|last),padded:.*"));
  // Either way where a plan says so.
  const std::string chosen = Chosen(gradient);
  gradient.attrs.Set(kKernelChoice, absl::StrReplaceAll(chosen, {{",padded", ""}}));
  EXPECT_EQ(Chosen(gradient), absl::StrReplaceAll(chosen, {{",padded", ""}}));
}

INSTANTIATE_TEST_SUITE_P(Choices, FakeConvolutionTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Measured" : "Ranked"; });

}  // namespace
}  // namespace millrace::cuda
