// Assign, AssignAdd, AssignSub and their kin that follow one another are one launch.
#include <cstring>
#include <memory>
#include <string_view>
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

  static bool IsCopy() { return std::string_view(GetParam()) == "Assign" || std::string_view(GetParam()) == "AssignVariableOp"; }
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
  if (IsCopy()) GTEST_SKIP() << "types of one size are copied alike";
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

// Signalling NaNs, negative zeros and integers among them.
TEST_P(AssignTest, CopiesKeepEveryBit) {
  if (!IsCopy()) GTEST_SKIP() << "no copy";
  for (const DataType dtype : {DataType::kFloat, DataType::kInt32, DataType::kDouble, DataType::kInt64, DataType::kHalf, DataType::kBool}) {
    constexpr int64_t kElements = 5003;
    const OpInstance instance = Instance(dtype, kElements);
    std::vector<unsigned char> value(instance.inputs[1].size_bytes()), variable(value.size());
    uint32_t state = 1;
    for (unsigned char& byte : value) byte = static_cast<unsigned char>((state = state * 1664525 + 1013904223) >> 24);
    const uint32_t signalling = 0x7fa00001;
    std::memcpy(value.data(), &signalling, sizeof signalling);
    void* inputs[] = {variable.data(), value.data()};
    KernelContext context;
    context.instance = &instance;
    context.inputs = inputs;
    const std::unique_ptr<Kernel> kernel = Make(instance);
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(dynamic_cast<const GroupedKernel*>(kernel.get()) != nullptr, DataTypeSize(dtype) >= 4);
    ASSERT_TRUE(kernel->Run(context).ok());
    EXPECT_TRUE(variable == value) << DataTypeName(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, AssignTest, ::testing::Values("Assign", "AssignVariableOp", "AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp"));

}  // namespace
}  // namespace millrace::cuda
