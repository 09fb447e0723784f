// A tree of elementwise ops as the text of a kernel.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_SOURCE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_SOURCE_H_

#include <string>

#include "cuda/launch/fused.h"

namespace millrace::cuda {

// C++ of a kernel for this tree, which includes launch/fused_body.h. Sizes are no part of it but that all dividers' dividends
// are below 2^31 where `small`.
std::string FusedSource(const FusedProgram& program, bool small);

// The same with reductions, which includes launch/fused_reduce_body.h. Beside the program, what the text depends on.
struct FusedReduceText {
  SumKind kind = SumKind::kBlocks, rest_kind = SumKind::kBlocks;
  bool chunks = false;  // several of a row
  bool small = true;    // also of terms
  int term_rank = 1;    // 0: above 2
  bool of_row[kMaxFusedOperands] = {};  // inputs of which all terms of a row have the same element
};
std::string FusedReduceSource(const FusedReduceProgram& program, const FusedReduceText& how);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_FUSED_SOURCE_H_
