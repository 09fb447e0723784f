#include "cpu/kernels/elementwise.h"

#include "cpu/kernels/register.h"

namespace millrace::cpu {

void RegisterElementwiseKernels(KernelRegistry& registry) {
  RegisterArithmeticKernels(registry);
  RegisterUnaryKernels(registry);
  RegisterUnaryMathKernels(registry);
  RegisterActivationKernels(registry);
  RegisterCastKernels(registry);
  RegisterAddNKernels(registry);
}

}  // namespace millrace::cpu
