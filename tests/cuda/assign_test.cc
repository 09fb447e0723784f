// Updates of variables by AssignAdd, AssignSub and their kin that follow one another are one launch.
#include <vector>

#include <gtest/gtest.h>

#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"
#include "stream/launch_group.h"

namespace millrace::cuda {
namespace {

class AssignTest : public ::testing::TestWithParam<const char*> {
 protected:
  AssignTest() { RegisterCudaKernels(registry_, services_); }

  static OpInstance Instance(DataType dtype, int64_t n) {
    const TensorType type = {dtype, Shape({n})};
    OpInstance instance;
    instance.name = "update";
    instance.op = GetParam();
    instance.inputs = {type, type};
    return instance;
  }
  std::unique_ptr<Kernel> Make(const OpInstance& instance) {
    auto kernel = (*registry_.Find(instance.op))(instance);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? *std::move(kernel) : nullptr;
  }

  HostServices services_{/*written_out=*/false};
  KernelRegistry registry_;
};

TEST_P(AssignTest, SeveralAreOneLaunchWithTheBitsOfOneByOne) {
  constexpr int kVariables = 70;  // more than go into one launch
  struct Update {
    OpInstance instance;
    std::unique_ptr<Kernel> kernel;
    std::vector<float> variable, value, expected;
    void* inputs[2];
  };
  std::vector<Update> updates(kVariables);
  LaunchGroup group;
  for (int k = 0; k < kVariables; ++k) {
    Update& update = updates[k];
    const int64_t n = k % 7 == 0 ? 9000 + k : 1 + k;
    update.instance = Instance(DataType::kFloat, n);
    for (int64_t i = 0; i < n; ++i) {
      update.variable.push_back(static_cast<float>(i * 31 % 97) * 0.3f);
      update.value.push_back(static_cast<float>(i * 17 % 89) * 0.7f - 20.0f);
    }
    update.expected = update.variable;
    update.kernel = Make(update.instance);
    ASSERT_NE(update.kernel, nullptr);
    KernelContext context;
    context.instance = &update.instance;
    update.inputs[0] = update.expected.data();
    update.inputs[1] = update.value.data();
    context.inputs = update.inputs;
    ASSERT_TRUE(update.kernel->Run(context).ok());
    EXPECT_FALSE(update.expected == update.variable);
    update.inputs[0] = update.variable.data();
    const auto* grouped = dynamic_cast<const GroupedKernel*>(update.kernel.get());
    ASSERT_NE(grouped, nullptr);
    ASSERT_TRUE(group.Add(*grouped, context));
    // It would write what the group writes.
    EXPECT_FALSE(group.Add(*grouped, context));
  }
  ASSERT_TRUE(group.members()[0].kernel->RunTogether(group.members()).ok());
  for (int k = 0; k < kVariables; ++k) EXPECT_TRUE(updates[k].variable == updates[k].expected) << k;
}

TEST_P(AssignTest, OfAnotherTypeOrAnotherOpGoesApart) {
  const std::unique_ptr<Kernel> floats = Make(Instance(DataType::kFloat, 4)), halves = Make(Instance(DataType::kHalf, 4)),
                                integers = Make(Instance(DataType::kInt64, 4));
  OpInstance opposite = Instance(DataType::kFloat, 4);
  opposite.op = opposite.op.find("Add") == std::string::npos ? "AssignAdd" : "AssignSub";
  const std::unique_ptr<Kernel> other = Make(opposite);
  const auto group = [](const std::unique_ptr<Kernel>& kernel) { return dynamic_cast<const GroupedKernel&>(*kernel).group(); };
  EXPECT_NE(group(floats), group(halves));
  EXPECT_NE(group(floats), group(other));
  EXPECT_EQ(dynamic_cast<const GroupedKernel*>(integers.get()), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Ops, AssignTest, ::testing::Values("AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp"));

}  // namespace
}  // namespace millrace::cuda
