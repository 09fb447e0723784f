// The README's C++, as it stands there: readme_code.h is cut out of it when the build is configured.
#include <cmath>

#include <gtest/gtest.h>

#include "millrace/device.h"
#include "millrace/gradients.h"
#include "millrace/kernel.h"
#include "readme_code.h"

namespace millrace {
namespace {

TEST(Readme, ExampleTrains) {
  Tensor images(DataType::kFloat, Shape({32, 784})), classes(DataType::kInt32, Shape({32}));
  for (int64_t i = 0; i < 32; ++i) {
    classes.mutable_as<int32_t>()[i] = static_cast<int32_t>(i % 10);
    for (int64_t k = 0; k < 784; ++k) images.mutable_as<float>()[i * 784 + k] = k % 10 == i % 10 ? 0.5f : 0;
  }
  const absl::StatusOr<float> loss = Train(images, classes);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_LT(*loss, 0.1f);
}

class CubeKernel final : public Kernel {
 public:
  explicit CubeKernel(int64_t count) : count_(count) {}
  absl::Status Run(const KernelContext& context) const override {
    const float* x = static_cast<const float*>(context.inputs[0]);
    float* y = static_cast<float*>(context.outputs[0]);
    for (int64_t i = 0; i < count_; ++i) y[i] = x[i] * x[i] * x[i];
    return absl::OkStatus();
  }

 private:
  const int64_t count_;
};

TEST(Readme, OpOfOnesOwnRunsAndHasItsGradientTwice) {
  auto registry = std::make_shared<OpRegistry>(OpRegistry::Builtin());
  ASSERT_TRUE(RegisterCube(*registry).ok());
  auto kernels = std::make_shared<KernelRegistry>(CpuKernels());
  ASSERT_TRUE(kernels->Register("Cube", [](const OpInstance& instance) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<CubeKernel>(instance.outputs[0].shape.num_elements());
  }).ok());
  GraphBuilder b(registry);
  const Output x = b.Placeholder("x", DataType::kFloat, {2});
  const Output y = b.Op("Cube", {x}, {}, "y");
  const auto first = AddGradients(b, {y}, {x});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = AddGradients(b, *first, {x});
  ASSERT_TRUE(second.ok()) << second.status();
  const std::vector<std::string> fetches = {"y:0", b.TensorName((*first)[0]), b.TensorName((*second)[0])};
  const auto session = Session::Create(*std::move(b).Build(), {.ops = registry, .kernels = kernels});
  ASSERT_TRUE(session.ok()) << session.status();
  Tensor value(DataType::kFloat, Shape({2}));
  value.mutable_as<float>()[0] = 2;
  value.mutable_as<float>()[1] = -1;
  std::vector<Tensor> fetched;
  ASSERT_TRUE((*session)->Run({{"x", value}}, fetches, {}, &fetched).ok());
  EXPECT_EQ(fetched[0].as<float>()[0], 8);
  EXPECT_EQ(fetched[1].as<float>()[0], 12);
  EXPECT_EQ(fetched[2].as<float>()[0], 12);
  EXPECT_EQ(fetched[1].as<float>()[1], 3);
  EXPECT_EQ(fetched[2].as<float>()[1], -6);
}

}  // namespace
}  // namespace millrace
