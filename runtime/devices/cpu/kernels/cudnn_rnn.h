// Recurrent layers as cuDNN has them. Only register.cc needs this.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CUDNN_RNN_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CUDNN_RNN_H_

#include "cpu/kernels/register.h"

namespace millrace::cpu {

void RegisterCudnnRnnKernels(KernelRegistry& registry);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_CUDNN_RNN_H_
