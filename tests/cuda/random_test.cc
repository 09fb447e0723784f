// Random numbers have the CPU's bits: by the device's kernels compiled for the host, and on the device where there is one (as one
// more family of cases for bench/gpu_check.sh).
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "conformance_device.h"
#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"
#include "cuda/plugin_loader.h"
#include "graph/random_algorithm.h"
#include "millrace/device.h"
#include "millrace/op.h"
#include "runtime/op_evaluator.h"

namespace millrace::cuda {
namespace {

constexpr int64_t kNumbers = 20003;

OpInstance Node(const std::string& op, DataType dtype) {
  OpInstance instance;
  instance.name = "numbers";
  instance.op = op;
  instance.attrs.Set("dtype", dtype);
  instance.inputs = {{DataType::kInt32, Shape({1})}, {DataType::kInt64, Shape({2})}};
  instance.outputs = {{dtype, Shape({kNumbers})}};
  return instance;
}

// `given`: the inputs behind the shape.
absl::StatusOr<Tensor> RunOn(TestDevice& device, const OpInstance& instance, const std::vector<Tensor>& given) {
  auto kernel = (*device.kernels().Find(instance.op))(instance);
  if (!kernel.ok()) return kernel.status();
  Tensor numbers(instance.outputs[0].dtype, instance.outputs[0].shape);
  std::vector<void*> inputs = {nullptr};
  for (const Tensor& input : given) {
    inputs.push_back(device.Allocate(input.size_bytes()));
    device.CopyToDevice(inputs.back(), input.data(), input.size_bytes());
  }
  void* const made = device.Allocate(numbers.size_bytes());
  InOrder runner;
  KernelContext context;
  context.instance = &instance;
  context.inputs = inputs.data();
  context.outputs = &made;
  context.parallel = &runner;
  context.stream = device.stream();
  absl::Status status = (*kernel)->Run(context);
  status.Update(device.Synchronize(instance));
  device.CopyToHost(numbers.mutable_data(), made, numbers.size_bytes());
  for (size_t i = 1; i < inputs.size(); ++i) device.Free(inputs[i]);
  device.Free(made);
  return status.ok() ? absl::StatusOr<Tensor>(numbers) : status;
}

int ExpectBitsOfCpu(TestDevice& device) {
  int passed = 0;
  const int64_t seeds[] = {17, -5};
  const int32_t shape[] = {kNumbers};
  const Tensor seed = Tensor::Vector<int64_t>(seeds);
  for (const char* op : {"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"}) {
    for (const DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16}) {
      SCOPED_TRACE(absl::StrCat(op, " ", std::string(DataTypeName(dtype))));
      const OpInstance instance = Node(op, dtype);
      const auto expected = EvaluateOp(*OpRegistry::Builtin().Find(op), CpuKernels(), instance, {Tensor::Vector<int32_t>(shape), seed});
      EXPECT_TRUE(expected.ok()) << expected.status();
      const absl::StatusOr<Tensor> numbers = RunOn(device, instance, {seed});
      EXPECT_TRUE(numbers.ok()) << numbers.status();
      const bool same = expected.ok() && numbers.ok() && numbers->BitEqual((*expected)[0]);
      EXPECT_TRUE(same);
      passed += same ? 1 : 0;
    }
  }
  return passed;
}

// Which algorithm it is, only the device knows.
TEST(RandomCudaKernelsTest, RefuseWhatIsNotPhilox) {
  constexpr int32_t kThreeFry = 2;
  HostServices services(/*written_out=*/true);
  KernelRegistry registry;
  RegisterCudaKernels(registry, services);
  const auto device = conformance::MakeHostDevice(registry);
  for (const auto& [op, dtype] : {std::pair("StatelessRandomUniformV2", DataType::kFloat), std::pair("StatelessRandomNormalV2", DataType::kFloat),
                                  std::pair("StatelessTruncatedNormalV2", DataType::kFloat), std::pair("StatelessRandomUniformIntV2", DataType::kInt32),
                                  std::pair("StatelessRandomUniformFullIntV2", DataType::kInt32)}) {
    for (const int32_t algorithm : {kThreeFry, static_cast<int32_t>(kAlgorithmAuto)}) {
      SCOPED_TRACE(absl::StrCat(op, " ", algorithm));
      const std::vector<Tensor> given = {Tensor::Vector<uint64_t>({3}), Tensor::Vector<uint64_t>({1, 2}), Tensor::Scalar<int32_t>(algorithm),
                                         Tensor::Scalar<int32_t>(-3), Tensor::Scalar<int32_t>(9)};
      OpInstance instance = Node(op, dtype);
      instance.inputs.resize(1);
      for (const Tensor& input : given) instance.inputs.push_back(input.type());
      const absl::Status status = RunOn(*device, instance, given).status();
      if (algorithm == kAlgorithmAuto) {
        EXPECT_TRUE(status.ok()) << status;
      } else {
        EXPECT_EQ(status.message(), "random algorithm 2 is not supported, expected 1 (Philox) or 3 (auto)");
      }
    }
  }
}

TEST(RandomCudaKernelsTest, RefuseManySetsOfParametersThatComeOneAfterAnother) {
  HostServices services(/*written_out=*/true);
  KernelRegistry registry;
  RegisterCudaKernels(registry, services);
  const int64_t few = int64_t{1} << 12, many = int64_t{1} << 17;
  const struct {
    const char* op;
    int64_t sets;
    Shape numbers;
    bool is_taken;
  } cases[] = {{"StatelessParameterizedTruncatedNormal", few, Shape({few}), true},
               {"StatelessParameterizedTruncatedNormal", few + 1, Shape({few + 1}), false},
               {"StatelessParameterizedTruncatedNormal", many, Shape({32, many}), true},
               {"StatelessParameterizedTruncatedNormal", many + 1, Shape({32, many + 1}), false},
               {"ParameterizedTruncatedNormal", few, Shape({few, 2}), true},
               {"ParameterizedTruncatedNormal", few + 1, Shape({few + 1, 31}), false},
               {"ParameterizedTruncatedNormal", many, Shape({many, 32}), true}};
  for (const auto& one : cases) {
    OpInstance node = Node(one.op, DataType::kFloat);
    if (node.op == "ParameterizedTruncatedNormal") node.inputs.pop_back();  // the seed
    node.inputs.resize(node.inputs.size() + 4, {DataType::kFloat, Shape({one.sets})});
    node.outputs[0].shape = one.numbers;
    const absl::Status status = (*registry.Find(node.op))(node).status();
    const bool is_refused = status.message().find("so many sets of parameters") != std::string::npos;
    EXPECT_TRUE(one.is_taken ? status.ok() : is_refused) << one.op << " " << one.numbers.ToString() << ": " << status;
  }
}

TEST(RandomCudaKernelsTest, HaveTheCpusBitsOnTheHost) {
  HostServices services(/*written_out=*/true);
  KernelRegistry registry;
  RegisterCudaKernels(registry, services);
  EXPECT_EQ(ExpectBitsOfCpu(*conformance::MakeHostDevice(registry)), 12);
}

TEST(RandomCudaDeviceTest, HasTheCpusBits) {
  const absl::StatusOr<const PluginTable*> plugin = LoadPlugin(MILLRACE_BINARY_DIR "/bin/libmillrace_cuda.so");
  if (!plugin.ok()) GTEST_SKIP() << plugin.status().message();
  auto driver = (*plugin)->open({.host = HostOpsOf(CpuKernels(), OpRegistry::Builtin())});
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  DriverDevice device(**driver);
  std::printf("%d cases passed on %s\n", ExpectBitsOfCpu(device), (*driver)->info().name.c_str());
}

}  // namespace
}  // namespace millrace::cuda
