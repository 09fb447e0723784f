// Kernels of 16-bit floats by kernels of float: for ops too rare to have loops of their own.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_WIDENED_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_WIDENED_H_

#include "millrace/kernel.h"

namespace millrace::cpu {

// `factory`'s kernels; of a node whose first output is half or bfloat16 the float kernel, with its floating inputs and
// outputs converted in scratch. Requires an op that neither updates variables nor shrinks its outputs.
KernelFactory Widened(KernelFactory factory);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_WIDENED_H_
