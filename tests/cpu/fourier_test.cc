// Kernels of Fourier transforms, which tell their scratch for lengths of which no tables could be made.
#include <cstdint>

#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

int64_t ScratchOf(const char* op, const TensorType& input, const TensorType& output, int32_t length) {
  OpInstance instance{.name = "node", .op = op, .inputs = {input, {DataType::kInt32, Shape({1})}}, .outputs = {output}};
  instance.input_values = {Tensor(), Tensor::Vector<int32_t>({length})};
  const absl::StatusOr<std::unique_ptr<Kernel>> kernel = (*CpuKernels().Find(op))(instance);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? (*kernel)->scratch_bytes() : -1;
}

TEST(FourierTest, ScratchOfLongLinesNeedsNoTables) {
  constexpr int64_t kLong = int64_t{1} << 40;
  const TensorType line{DataType::kComplex64, Shape({kLong})};
  const TensorType reals{DataType::kFloat, Shape({1 << 30})}, spectrum{DataType::kComplex64, Shape({(1 << 29) + 1})};
  for (const char* op : {"FFT", "IFFT"}) EXPECT_GE(ScratchOf(op, line, line, 0), kLong * 8) << op;
  EXPECT_GE(ScratchOf("RFFT", reals, spectrum, 1 << 30), int64_t{4} << 30);
  EXPECT_GE(ScratchOf("IRFFT", spectrum, reals, 1 << 30), int64_t{8} << 30);
  const TensorType prime{DataType::kComplex64, Shape({INT32_MAX})};
  EXPECT_GT(ScratchOf("FFT", prime, prime, 0), int64_t{INT32_MAX} * 16);
}

}  // namespace
}  // namespace millrace::cpu
