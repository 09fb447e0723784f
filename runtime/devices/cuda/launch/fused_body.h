// Around kernels that are written for one group of elementwise ops and compiled while a program runs. No standard headers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_BODY_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_BODY_H_

#include "cuda/launch/elementwise_math.h"

namespace millrace::cuda {

inline constexpr int kMaxFusedOperands = 16;
inline constexpr int kMaxFusedResults = 8;
inline constexpr int kFusedThreads = 256, kFusedUnroll = 4;

struct FusedArguments {
  int64_t elements = 0;
  Divider row;  // length of what is read or written by rows
  const void* inputs[kMaxFusedOperands] = {};
  int64_t pitches[kMaxFusedOperands] = {};  // elements from row to row of inputs that are read by rows; 0: one row repeats
  Divider each[kMaxFusedOperands], count[kMaxFusedOperands], width[kMaxFusedOperands];  // of spread inputs (graph/spread.h)
  void* outputs[kMaxFusedResults] = {};     // one may be an input of which element i is read for element i alone
  int64_t output_pitches[kMaxFusedResults] = {};
  const void* fault = nullptr;  // its first word says that something before has gone wrong
};

// Operands: one per element, one for all, rows that lie apart or repeat; spread: one for each run of elements, of runs that
// repeat, or parts of several elements. kSmall: none of the dividers has dividends of 2^31 and more.
template <typename T>
MR_DEVICE T FullOperand(const FusedArguments& a, int k, int64_t i) {
  return static_cast<const T*>(a.inputs[k])[i];
}
template <typename T>
MR_DEVICE T OneOperand(const FusedArguments& a, int k, int64_t) {
  return static_cast<const T*>(a.inputs[k])[0];
}
template <typename T, bool kSmall>
MR_DEVICE T RowOperand(const FusedArguments& a, int k, int64_t i) {
  const auto [row, column] = a.row.Split<kSmall>(i);
  return static_cast<const T*>(a.inputs[k])[row * a.pitches[k] + column];
}

template <typename T, bool kSmall>
MR_DEVICE T RunOperand(const FusedArguments& a, int k, int64_t i) {
  return static_cast<const T*>(a.inputs[k])[a.each[k].Split<kSmall>(i).quotient];
}
template <typename T, bool kSmall>
MR_DEVICE T TurnOperand(const FusedArguments& a, int k, int64_t i) {
  return static_cast<const T*>(a.inputs[k])[a.count[k].Split<kSmall>(a.each[k].Split<kSmall>(i).quotient).rest];
}
template <typename T, bool kSmall>
MR_DEVICE T PartOperand(const FusedArguments& a, int k, int64_t i) {
  const int64_t part = a.count[k].Split<kSmall>(a.each[k].Split<kSmall>(i).quotient).rest;
  return static_cast<const T*>(a.inputs[k])[part * a.width[k].by + a.width[k].Split<kSmall>(i).rest];
}

template <typename T>
MR_DEVICE void StoreFull(const FusedArguments& a, int k, int64_t i, T value) {
  static_cast<T*>(a.outputs[k])[i] = value;
}
template <typename T, bool kSmall>
MR_DEVICE void StoreRow(const FusedArguments& a, int k, int64_t i, T value) {
  const auto [row, column] = a.row.Split<kSmall>(i);
  static_cast<T*>(a.outputs[k])[row * a.output_pitches[k] + column] = value;
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// Each thread has the operands of several elements on their way at once.
template <typename Body>
__device__ void RunFused(const FusedArguments& a, const Body& body) {
  if (*static_cast<const int32_t*>(a.fault) != 0) return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kFusedThreads * kFusedUnroll;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kFusedThreads * kFusedUnroll + threadIdx.x;
  for (; i + (kFusedUnroll - 1) * kFusedThreads < a.elements; i += step) {
    typename Body::Values values[kFusedUnroll];
#pragma unroll
    for (int k = 0; k < kFusedUnroll; ++k) values[k] = body.Compute(i + k * kFusedThreads);
#pragma unroll
    for (int k = 0; k < kFusedUnroll; ++k) body.Store(i + k * kFusedThreads, values[k]);
  }
  for (; i < a.elements; i += kFusedThreads) body.Store(i, body.Compute(i));
}

#define MR_FUSED_KERNEL(Body)                                                                                     \
  extern "C" __global__ void __launch_bounds__(millrace::cuda::kFusedThreads)                                      \
      millrace_fused(const __grid_constant__ millrace::cuda::FusedArguments arguments) {                           \
    using namespace millrace::cuda;                                                                                \
    RunFused(arguments, Body{arguments});                                                                          \
  }

#else

#define MR_FUSED_KERNEL(Body)                                                                                     \
  extern "C" void millrace_fused(const millrace::cuda::FusedArguments* arguments) {                                \
    using namespace millrace::cuda;                                                                                \
    const Body body{*arguments};                                                                                   \
    for (int64_t i = 0; i < arguments->elements; ++i) body.Store(i, body.Compute(i));                              \
  }

#endif

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_FUSED_BODY_H_
