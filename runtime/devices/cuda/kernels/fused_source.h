// A tree of elementwise ops as the text of a kernel.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_SOURCE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_SOURCE_H_

#include <string>

#include "cuda/launch/fused.h"

namespace millrace::cuda {

// C++ of a kernel for this tree, which includes launch/fused_body.h. Sizes are no part of it but that all dividers' dividends
// are below 2^31 where `small`.
std::string FusedSource(const FusedProgram& program, bool small);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_SOURCE_H_
