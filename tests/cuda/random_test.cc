// Random numbers have the CPU's bits: by the device's kernels compiled for the host, and on the device where there is one (as one
// more family of cases for bench/gpu_check.sh).
#include <cstdio>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "conformance_device.h"
#include "cuda/emulated/host_services.h"
#include "cuda/kernels/register.h"
#include "cuda/plugin_loader.h"
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

absl::StatusOr<Tensor> RunOn(TestDevice& device, const OpInstance& instance, const Tensor& seed) {
  auto kernel = (*device.kernels().Find(instance.op))(instance);
  if (!kernel.ok()) return kernel.status();
  Tensor numbers(instance.outputs[0].dtype, instance.outputs[0].shape);
  void *const given = device.Allocate(seed.size_bytes()), *const made = device.Allocate(numbers.size_bytes());
  device.CopyToDevice(given, seed.data(), seed.size_bytes());
  void* const inputs[] = {nullptr, given};
  InOrder runner;
  KernelContext context;
  context.instance = &instance;
  context.inputs = inputs;
  context.outputs = &made;
  context.parallel = &runner;
  context.stream = device.stream();
  absl::Status status = (*kernel)->Run(context);
  status.Update(device.Synchronize(instance));
  device.CopyToHost(numbers.mutable_data(), made, numbers.size_bytes());
  device.Free(given);
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
      const absl::StatusOr<Tensor> numbers = RunOn(device, instance, seed);
      EXPECT_TRUE(numbers.ok()) << numbers.status();
      const bool same = expected.ok() && numbers.ok() && numbers->BitEqual((*expected)[0]);
      EXPECT_TRUE(same);
      passed += same ? 1 : 0;
    }
  }
  return passed;
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
