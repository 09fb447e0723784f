// Checks of values.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CHECK_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CHECK_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

inline constexpr int64_t kCheckNumericsScratchBytes = sizeof(int32_t);
// y = x, n floating numbers, or in place; a fault (FaultCode::kNotFinite) that says what there is that is no number, as of graph/value_errors.h.
void LaunchCheckNumerics(const Queue& queue, Type type, const void* x, void* y, int64_t n, void* scratch);

// An element of `bytes` bytes.
struct ShownElement {
  const void* at = nullptr;
  int bytes = 0;
};
// Where the condition does not hold, a fault (FaultCode::kAssertion) that has the `count` elements, at most kMostInTuple, in its tuple.
void LaunchAssert(const Queue& queue, const bool* condition, const ShownElement* shown, int count);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CHECK_H_
