// The elementwise kernels' source files, each with its registration; RegisterElementwiseKernels calls them.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ELEMENTWISE_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ELEMENTWISE_H_

#include "millrace/kernel.h"

namespace millrace::cpu {

void RegisterArithmeticKernels(KernelRegistry& registry);  // binary_arithmetic.cc
void RegisterComparisonKernels(KernelRegistry& registry);  // binary_compare.cc: also logical and bitwise ops
void RegisterBinaryMathKernels(KernelRegistry& registry);  // binary_math.cc: Pow, Xlogy, ...
void RegisterUnaryKernels(KernelRegistry& registry);       // unary.cc: cheap unary ops
void RegisterUnaryMathKernels(KernelRegistry& registry);   // unary_math.cc: exp, log, tanh, ...
void RegisterActivationKernels(KernelRegistry& registry);  // activation.cc: Relu, ... and gradients
void RegisterSpecialKernels(KernelRegistry& registry);     // special.cc: Erf, Lgamma, ...
void RegisterCastKernels(KernelRegistry& registry);        // cast.cc
void RegisterAddNKernels(KernelRegistry& registry);        // addn.cc: AddN, BiasAdd
void RegisterSelectKernels(KernelRegistry& registry);      // select.cc: Select, ClipByValue
void RegisterCheckKernels(KernelRegistry& registry);       // check_numerics.cc

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_ELEMENTWISE_H_
