// Gradients of convolutions that are computed as another convolution or a product, against the same written out.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/emulated/host_services.h"
#include "cuda/kernels/common.h"
#include "cuda/kernels/conv_gradients.h"
#include "cuda/launch/conv.h"

namespace millrace::cuda {
namespace {

using ::testing::StartsWith;
using Sizes = ConvShape::Sizes;

struct GradientCase {
  const char* name;
  const char* choice;  // what it begins with; "" for none of these
  ConvPart part;
  int64_t batch, in_channels, out_channels;
  Sizes in, kernel, stride, dilation, pad;
};
void PrintTo(const GradientCase& one, std::ostream* out) { *out << one.name; }

constexpr ConvPart kInput = ConvPart::kInput, kFilter = ConvPart::kFilter;
const GradientCase kCases[] = {
    {"same padding", "turned:", kInput, 2, 3, 5, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {"no padding", "turned:", kInput, 2, 3, 5, {5, 6, 7}, {2, 3, 4}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {"one tap", "turned:", kInput, 2, 4, 3, {1, 6, 7}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {"dilated", "turned:", kInput, 2, 3, 5, {1, 9, 8}, {1, 3, 2}, {1, 1, 1}, {1, 2, 3}, {0, 2, 0}},
    {"padded beyond the window", "", kInput, 2, 3, 5, {1, 6, 7}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {"one tap of four", "spread:", kInput, 2, 3, 5, {1, 7, 8}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
    {"windows side by side", "spread:", kInput, 2, 4, 8, {4, 6, 8}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}},
    {"windows with rests", "spread:", kInput, 1, 4, 8, {5, 9, 11}, {2, 2, 2}, {2, 3, 4}, {1, 1, 1}, {0, 0, 0}},
    {"rows of one tap, apart", "spread:", kInput, 2, 16, 1, {1, 8, 9}, {1, 2, 1}, {1, 3, 2}, {1, 1, 1}, {0, 0, 0}},
    {"filters that are not aligned", "", kInput, 2, 3, 5, {1, 6, 8}, {1, 2, 2}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
    {"windows that overlap", "", kInput, 2, 4, 8, {1, 7, 9}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
    {"one image", "product", kFilter, 1, 3, 5, {1, 6, 7}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {"several images", "product", kFilter, 3, 3, 5, {1, 12, 13}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {"several volumes, every other pixel", "product", kFilter, 2, 3, 4, {9, 11, 12}, {1, 1, 1}, {2, 2, 1}, {1, 1, 1}, {0, 0, 0}},
    {"more taps", "", kFilter, 2, 3, 4, {1, 6, 7}, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
};

std::vector<float> Values(int64_t count, int64_t step) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i * step % 101) * 0.03125f - 1.5f;
  return values;
}

int64_t Volume(const Sizes& size) { return size[0] * size[1] * size[2]; }

class ConvGradientsTest : public ::testing::TestWithParam<std::tuple<GradientCase, bool>> {
 protected:
  ConvShape Shape() const {
    const auto& [one, first] = GetParam();
    ConvShape shape;
    shape.channels_first = first;
    shape.part = one.part;
    shape.spatial = 3;
    shape.batch = one.batch;
    shape.in_channels = one.in_channels;
    shape.out_channels = one.out_channels;
    shape.in = one.in;
    shape.kernel = one.kernel;
    shape.stride = one.stride;
    shape.dilation = one.dilation;
    shape.pad = shape.pad_after = one.pad;
    for (int d = 0; d < 3; ++d) {
      shape.out[d] = (one.in[d] + 2 * one.pad[d] - one.dilation[d] * (one.kernel[d] - 1) - 1) / one.stride[d] + 1;
    }
    return shape;
  }

  // The gradient written out.
  static std::vector<float> Expected(const ConvShape& shape, std::vector<float>& input, std::vector<float>& filter,
                                     std::vector<float>& output) {
    DirectConv direct;
    direct.channels_first = shape.channels_first;
    direct.batch = shape.batch;
    direct.in_channels = shape.in_channels;
    direct.out_channels = shape.out_channels;
    for (int d = 0; d < 3; ++d) {
      direct.in[d] = shape.in[d];
      direct.out[d] = shape.out[d];
      direct.kernel[d] = shape.kernel[d];
      direct.stride[d] = shape.stride[d];
      direct.dilation[d] = shape.dilation[d];
      direct.pad[d] = shape.pad[d];
    }
    Fault fault;
    const Queue queue{nullptr, &fault, 0};
    std::vector<char> scratch(static_cast<size_t>(ConvFilterScratchBytes(direct)));
    std::vector<float> gradient((shape.part == kInput ? input : filter).size());
    if (shape.part == kInput) {
      LaunchConvInput(queue, Type::kFloat, direct, filter.data(), output.data(), gradient.data());
    } else {
      LaunchConvFilter(queue, Type::kFloat, direct, input.data(), output.data(), gradient.data(), scratch.data());
    }
    return gradient;
  }

  HostServices services_{true};
};

TEST_P(ConvGradientsTest, AgreesWithTheGradientWrittenOut) {
  const ConvShape shape = Shape();
  const std::string choice = std::get<0>(GetParam()).choice;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakeConvGradient(services_, shape, "");
  if (choice.empty()) {
    EXPECT_TRUE(absl::IsUnimplemented(kernel.status())) << kernel.status();
    return;
  }
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT((*kernel)->choice(), StartsWith(choice));
  auto input = Values(shape.batch * shape.in_channels * Volume(shape.in), 31);
  auto filter = Values(shape.in_channels * shape.out_channels * Volume(shape.kernel), 17);
  auto output = Values(shape.batch * shape.out_channels * Volume(shape.out), 5);
  const std::vector<float> expected = Expected(shape, input, filter, output);
  // As a plan keeps it, too.
  const auto kept = MakeConvGradient(services_, shape, (*kernel)->choice());
  ASSERT_TRUE(kept.ok()) << kept.status();
  for (const Kernel* one : {kernel->get(), kept->get()}) {
    std::vector<float> gradient(expected.size(), -7);
    std::vector<char> scratch(static_cast<size_t>(one->scratch_bytes()));
    void* const inputs[] = {shape.part == kInput ? nullptr : input.data(), shape.part == kInput ? filter.data() : nullptr, output.data()};
    void* const outputs[] = {gradient.data()};
    KernelContext context;
    context.inputs = inputs;
    context.outputs = outputs;
    context.scratch = scratch.data();
    ASSERT_TRUE(one->Run(context).ok());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(gradient[i], expected[i], 1e-4) << i;
  }
}

TEST_P(ConvGradientsTest, AnotherKernelsChoiceIsNotFollowed) {
  EXPECT_TRUE(absl::IsUnimplemented(MakeConvGradient(services_, Shape(), "channels_last:91900/1").status()));
}

class Tf32Services final : public HostServices {
 public:
  Tf32Services() : HostServices(true) {}
  bool tf32() const override { return true; }
};

TEST_P(ConvGradientsTest, TensorCoresHaveTheirOwn) {
  Tf32Services tensor_cores;
  EXPECT_TRUE(absl::IsUnimplemented(MakeConvGradient(tensor_cores, Shape(), "").status()));
  ConvShape half = Shape();
  half.type = Type::kHalf;
  EXPECT_TRUE(absl::IsUnimplemented(MakeConvGradient(services_, half, "").status()));
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvGradientsTest, ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Bool()),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param).name;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name + (std::get<1>(info.param) ? "_first" : "_last");
                         });

}  // namespace
}  // namespace millrace::cuda
