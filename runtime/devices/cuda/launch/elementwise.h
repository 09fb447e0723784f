// Element by element, with broadcasting.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_H_

#include "cuda/launch/elementwise_ops.h"
#include "cuda/launch/queue.h"

namespace millrace::cuda {

inline constexpr int kMaxDims = 8;

// How the elements of an output of these dimensions, outermost first, find theirs in each input; 0 where it repeats.
struct Broadcast {
  int rank = 0;
  int64_t elements = 0;
  int64_t dims[kMaxDims] = {};
  int64_t strides[3][kMaxDims] = {};
};

void LaunchUnary(const Queue& queue, UnaryOp op, Type type, const void* x, void* y, int64_t n, double alpha);
void LaunchBinary(const Queue& queue, BinaryOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                  void* y, double alpha);
void LaunchCompare(const Queue& queue, CompareOp op, Type type, const Broadcast& shape, const void* a, const void* b,
                   bool* y);
void LaunchLogical(const Queue& queue, LogicalOp op, const Broadcast& shape, const bool* a, const bool* b, bool* y);
// Elements of `bytes` bytes each.
void LaunchSelect(const Queue& queue, int bytes, const Broadcast& shape, const bool* condition, const void* a,
                  const void* b, void* y);
void LaunchCast(const Queue& queue, Type from, Type to, const void* x, void* y, int64_t n);
// y = sum of `count` inputs, in their order. `y` may be one of them. Scratch: sums on their way where there are many.
int64_t AddNScratchBytes(Type type, int count, int64_t n);
void LaunchAddN(const Queue& queue, Type type, const void* const* inputs, int count, void* y, int64_t n, void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_H_
