// Connectionist temporal classification (Graves et al., ICML 2006).
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CTC_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CTC_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

struct CtcShape {
  int64_t time = 0, batch = 0, classes = 0, labels = 0;
  bool merge_repeated = true, ignore_longer = false;
  bool blank_first = false;  // class 0 is the blank, not the last one
};

// What is wrong with sequence `at` of the batch (FaultCode::kBadSequence), or, where the name says so, with the indices of label `at`.
enum class CtcFault : int32_t {
  kLength,          // is `value`, not in [0, limit]
  kNoLabels,
  kLabel,           // `value` is no class
  kAfterNull,       // `value` follows a label of at least `limit`, which is none
  kTooManyLabels,   // `value` labels, `limit` times
  kSequenceOfLabel, // it is of sequence `value`, not in [0, limit)
  kOrderOfLabel,    // position `limit` of sequence `value` is repeated or out of order
};

int64_t CtcScratchBytes(const CtcShape& shape);
// inputs [time, batch, classes]; indices [labels, 2] of (sequence, position), in order; loss [batch], gradient as inputs.
void LaunchCtc(const Queue& queue, Type type, const CtcShape& shape, const void* inputs, const int64_t* indices,
               const int32_t* values, const int32_t* lengths, void* loss, void* gradient, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CTC_H_
