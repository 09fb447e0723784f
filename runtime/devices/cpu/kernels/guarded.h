// Kernels of nodes with a guard (millrace/guard.h).
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GUARDED_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GUARDED_H_

#include "millrace/kernel.h"

namespace millrace::cpu {

// `factory`'s kernels; of a guarded node one that runs the op's kernel only where the guard is true.
KernelFactory Guarded(KernelFactory factory);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_GUARDED_H_
