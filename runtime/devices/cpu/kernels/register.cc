#include "cpu/kernels/register.h"

namespace millrace::cpu {

void RegisterCpuKernels(KernelRegistry&) {}

}  // namespace millrace::cpu
