#include "cpu/kernels/elementwise.h"

#include "cpu/kernels/fused.h"
#include "cpu/kernels/register.h"

namespace millrace::cpu {

void RegisterElementwiseKernels(KernelRegistry& registry) {
  RegisterArithmeticKernels(registry);
  RegisterComparisonKernels(registry);
  RegisterBinaryMathKernels(registry);
  RegisterUnaryKernels(registry);
  RegisterUnaryMathKernels(registry);
  RegisterActivationKernels(registry);
  RegisterSpecialKernels(registry);
  RegisterCastKernels(registry);
  RegisterAddNKernels(registry);
  RegisterSelectKernels(registry);
  RegisterCheckKernels(registry);
  RegisterFusedKernels(registry);
  RegisterFusedProducts(registry);
  RegisterFusedReductions(registry);
}

}  // namespace millrace::cpu
