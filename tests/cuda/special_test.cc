// Special functions where the CPU's kernels and the device's are by the same approximations, and where those of the device go further.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cpu/kernels/register.h"
#include "cuda/kernels/register.h"
#include "fused_kernels.h"

namespace millrace::cuda {
namespace {

// Of float64, by the CPU's kernels or by the device's, compiled for the host.
class SpecialTest : public ::testing::Test {
 protected:
  SpecialTest() {
    cpu::RegisterCpuKernels(cpu_);
    RegisterCudaKernels(cuda_, services_);
  }
  static std::vector<double> Run(const KernelRegistry& kernels, const std::string& op, const std::vector<std::vector<double>>& inputs) {
    OpInstance node;
    node.name = node.op = op;
    std::vector<Tensor> tensors;
    const TensorType type = {DataType::kDouble, Shape({static_cast<int64_t>(inputs[0].size())})};
    for (const std::vector<double>& input : inputs) {
      tensors.push_back(Tensor::Vector<double>(input));
      node.inputs.push_back(type);
    }
    node.outputs = {type};
    const auto kernel = (*kernels.Find(op))(node);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    const std::string bytes = RunAll(**kernel, node, tensors);
    std::vector<double> values(inputs[0].size());
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  HostServices services_{/*written_out=*/true};
  KernelRegistry cpu_, cuda_;
};

// A library's own functions differ by more far out, where those here round x - pi / 4 as the CPU does.
TEST_F(SpecialTest, BesselFunctionsAreTheCpusToAFewRoundingsAsFarAsTenThousand) {
  std::vector<double> x = {0, 1e-320, 1e-20, 1e-6, 1e-5, 5};
  for (double at = 0.01; at < 1e4; at *= 1.003) x.push_back(at);
  for (const char* op : {"BesselJ0", "BesselJ1", "BesselY0", "BesselY1"}) {
    const std::vector<double> expected = Run(cpu_, op, {x}), values = Run(cuda_, op, {x});
    for (size_t i = 0; i < x.size(); ++i) {
      if (values[i] == expected[i]) continue;  // infinities, too
      const double size = std::max(std::fabs(expected[i]), std::min(1.0, 1 / std::sqrt(x[i])));
      EXPECT_LE(std::fabs(values[i] - expected[i]), 16 * 0x1p-53 * size) << op << " of " << x[i];
    }
  }
}

// Where the CPU's series, TensorFlow's, end before they have converged. Expected: the first terms of expansions in 1 / sqrt(a).
TEST_F(SpecialTest, IncompleteGammaFunctionsConvergeWhereAIsLarge) {
  const double kPi = 3.14159265358979323846;
  const std::vector<double> a = {1e4, 1e5, 1e6, 1e7};
  for (const double beyond : {0.0, 1e-12}) {  // the power series, the continued fraction
    std::vector<double> x = a;
    for (double& at : x) at *= 1 + beyond;
    const std::vector<double> below = Run(cuda_, "Igamma", {a, x}), above = Run(cuda_, "Igammac", {a, x}),
                              by_a = Run(cuda_, "IgammaGradA", {a, x}), of_sample = Run(cuda_, "RandomGammaGrad", {a, x});
    for (size_t i = 0; i < a.size(); ++i) {
      const double density = 1 / std::sqrt(2 * kPi * a[i]);
      EXPECT_NEAR(below[i], 0.5 + density / 3, 1e-7) << a[i];
      EXPECT_NEAR(above[i], 0.5 - density / 3, 1e-7) << a[i];
      EXPECT_NEAR(by_a[i], -density, 1e-4 * density) << a[i];
      EXPECT_NEAR(of_sample[i], 1 + 1 / (6 * a[i]), 1e-9) << a[i];
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
