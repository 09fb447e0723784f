// Around kernels that are written for one tree of elementwise ops and compiled while a program runs. No standard headers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_BODY_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_BODY_H_

#include "cuda/launch/elementwise_math.h"

namespace millrace::cuda {

inline constexpr int kMaxFusedOperands = 16;
inline constexpr int kFusedThreads = 256, kFusedUnroll = 4;

struct FusedArguments {
  int64_t elements = 0;
  Divider row;  // length of the operands that repeat over rows
  const void* inputs[kMaxFusedOperands] = {};
  void* output = nullptr;  // may be an input of which element i is read for element i alone
  const void* fault = nullptr;  // its first word says that something before has gone wrong
};

// Operands: one per element, one for all, one per place in a row.
template <typename T>
MR_DEVICE T FullOperand(const FusedArguments& a, int k, int64_t i) {
  return static_cast<const T*>(a.inputs[k])[i];
}
template <typename T>
MR_DEVICE T OneOperand(const FusedArguments& a, int k, int64_t) {
  return static_cast<const T*>(a.inputs[k])[0];
}
template <typename T>
MR_DEVICE T RowOperand(const FusedArguments& a, int k, int64_t i) {
  return static_cast<const T*>(a.inputs[k])[i - a.row(i) * a.row.by];
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// Each thread has the operands of several elements on their way at once.
template <typename T, typename Body>
__device__ void RunFused(const FusedArguments& a, const Body& body) {
  if (*static_cast<const int32_t*>(a.fault) != 0) return;
  T* const y = static_cast<T*>(a.output);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kFusedThreads * kFusedUnroll;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kFusedThreads * kFusedUnroll + threadIdx.x;
  for (; i + (kFusedUnroll - 1) * kFusedThreads < a.elements; i += step) {
    T values[kFusedUnroll];
#pragma unroll
    for (int k = 0; k < kFusedUnroll; ++k) values[k] = body(i + k * kFusedThreads);
#pragma unroll
    for (int k = 0; k < kFusedUnroll; ++k) y[i + k * kFusedThreads] = values[k];
  }
  for (; i < a.elements; i += kFusedThreads) y[i] = body(i);
}

#define MR_FUSED_KERNEL(T, Body)                                                                                  \
  extern "C" __global__ void __launch_bounds__(millrace::cuda::kFusedThreads)                                      \
      millrace_fused(const __grid_constant__ millrace::cuda::FusedArguments arguments) {                           \
    using namespace millrace::cuda;                                                                                \
    RunFused<T>(arguments, Body{arguments});                                                                       \
  }

#else

#define MR_FUSED_KERNEL(T, Body)                                                                                  \
  extern "C" void millrace_fused(const millrace::cuda::FusedArguments* arguments) {                                \
    using namespace millrace::cuda;                                                                                \
    const Body body{*arguments};                                                                                   \
    for (int64_t i = 0; i < arguments->elements; ++i) static_cast<T*>(arguments->output)[i] = body(i);             \
  }

#endif

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_BODY_H_
