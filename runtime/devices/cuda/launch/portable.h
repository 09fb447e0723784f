// Kernels written once for the device and for the host: a body is called for every index, or for every term of a sum.
// Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PORTABLE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PORTABLE_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/launch/pace.h"
#include "cuda/launch/queue.h"
#include "cuda/launch/scalar.h"
#include "cuda/launch/sum_kernels.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

namespace millrace::cuda {

// Reports what is wrong, unless something was before: the first fault of a step stands.
MR_DEVICE inline bool Report(const Queue& queue, FaultCode code, int32_t detail, int64_t value, int64_t limit, int64_t at = -1) {
#if defined(__CUDA_ARCH__)
  if (atomicCAS(reinterpret_cast<int*>(&queue.fault->code), 0, static_cast<int>(code)) != 0) return false;
#else
  if (queue.fault->code != FaultCode::kNone) return false;
  queue.fault->code = code;
#endif
  queue.fault->detail = detail;
  queue.fault->position = queue.position;
  queue.fault->value = value;
  queue.fault->limit = limit;
  queue.fault->at = at;
  return true;
}
// Element `at` of input `input` is `value`, which is not in [0, limit).
MR_DEVICE inline void ReportIndex(const Queue& queue, int32_t input, int64_t at, int64_t value, int64_t limit) {
  Report(queue, FaultCode::kIndexOutOfRange, input, value, limit, at);
}

#if defined(__CUDACC__)

template <typename Body>
__global__ void __launch_bounds__(kThreads) ForEachKernel(int64_t n, const __grid_constant__ Body body, const Fault* fault) {
  if (HasFault(fault)) return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}

// body(i) for i in [0, n), in any order and at once. Errors of the launch are found by the driver behind the kernel.
template <typename Body>
void ForEach(const Queue& queue, int64_t n, const Body& body, int64_t most_blocks = kMaxBlocks) {
  if (n <= 0 || !MayLaunch(queue)) return;
  const int64_t blocks = CeilDiv(n, kThreads) < most_blocks ? CeilDiv(n, kThreads) : most_blocks;
  ForEachKernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(queue.stream)>>>(n, body,
                                                                                                       queue.fault);
}

// Each thread has the operands of several elements on their way at once.
inline constexpr int kUnroll = 4;
template <typename T, typename Body>
__global__ void __launch_bounds__(kThreads) MapKernel(int64_t n, T* y, const __grid_constant__ Body body, const Fault* fault) {
  if (HasFault(fault)) return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * kUnroll;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  for (; i + (kUnroll - 1) * kThreads < n; i += step) {
    T values[kUnroll];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) values[k] = body(i + k * kThreads);
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) y[i + k * kThreads] = values[k];
  }
  for (; i < n; i += kThreads) y[i] = body(i);
}

// y[i] = body(i). `y` may be an operand of which body(i) reads element i alone.
template <typename T, typename Body>
void Map(const Queue& queue, int64_t n, T* y, const Body& body) {
  if (n <= 0 || !MayLaunch(queue)) return;
  const int64_t wanted = CeilDiv(n, kThreads * kUnroll), blocks = wanted < kMaxBlocks ? wanted : kMaxBlocks;
  MapKernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(queue.stream)>>>(n, y, body,
                                                                                                   queue.fault);
}

template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads)
    RowSumKernel(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, const __grid_constant__ Body body, const Fault* fault) {
  SumBlocks<Acc>(rows, terms, chunks, partial, body, fault);
}
template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads) WarpSumKernel(int64_t rows, int64_t terms, const __grid_constant__ Body body, const Fault* fault) {
  SumWarps<Acc>(rows, terms, body, fault);
}
template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads)
    ColumnSumKernel(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, const __grid_constant__ Body body, const Fault* fault) {
  SumColumns<Acc>(rows, terms, chunks, partial, body, fault);
}

#else

template <typename Body>
void ForEach(const Queue& queue, int64_t n, const Body& body, int64_t /*most_blocks*/ = kMaxBlocks) {
  if (queue.fault->code != FaultCode::kNone) return;
  for (int64_t i = 0; i < n; ++i) body(i);
}

template <typename T, typename Body>
void Map(const Queue& queue, int64_t n, T* y, const Body& body) {
  if (queue.fault->code != FaultCode::kNone) return;
  for (int64_t i = 0; i < n; ++i) y[i] = body(i);
}

#endif

template <typename T, typename Body>
struct AssignBody {
  T* y;
  Body body;
  MR_DEVICE void operator()(int64_t i) const { y[i] = body(i); }
};

// As Map, for bodies that do so much that one element at a time keeps the device busy.
template <typename T, typename Body>
void MapEach(const Queue& queue, int64_t n, T* y, const Body& body) {
  ForEach(queue, n, AssignBody<T, Body>{y, body});
}

#if defined(__CUDACC__)

// body.Store(row, body.Combine over k in [0, terms) of body.Load(row, k)) for every row, in a fixed order. `partial`
// holds rows * SumChunks(rows, terms, columns) accumulators. `columns`: neighbouring rows lie beside each other in
// memory, which they never do where `kRowsAlone`.
template <typename Acc, bool kRowsAlone = false, typename Body>
void SumRows(const Queue& queue, int64_t rows, int64_t terms, bool columns, void* partial, const Body& body) {
  if (rows <= 0 || !MayLaunch(queue)) return;
  const auto stream = static_cast<cudaStream_t>(queue.stream);
  const SumGrid grid = SumGridOf(rows, terms, columns);
  const auto blocks = static_cast<unsigned>(grid.blocks), rest_blocks = static_cast<unsigned>(grid.rest_blocks);
  const int64_t chunks = grid.chunks;
  Acc* sums = chunks > 1 ? static_cast<Acc*>(partial) : nullptr;
  if (grid.kind == SumKind::kColumns) {
    if constexpr (!kRowsAlone) {
      ColumnSumKernel<Acc><<<blocks, kThreads, 0, stream>>>(rows, terms, chunks, sums, body, queue.fault);
    }
  } else if (grid.kind == SumKind::kWarps) {
    WarpSumKernel<Acc><<<blocks, kThreads, 0, stream>>>(rows, terms, body, queue.fault);
  } else {
    RowSumKernel<Acc><<<blocks, kThreads, 0, stream>>>(rows, terms, chunks, sums, body, queue.fault);
  }
  if (chunks == 1 || !MayLaunch(queue)) return;
  const auto rest = PartialOf(sums, chunks, body);
  if (grid.rest_kind == SumKind::kWarps) {
    WarpSumKernel<Acc><<<rest_blocks, kThreads, 0, stream>>>(rows, chunks, rest, queue.fault);
  } else {
    RowSumKernel<Acc><<<rest_blocks, kThreads, 0, stream>>>(rows, chunks, 1, nullptr, rest, queue.fault);
  }
}

#else

template <typename Acc, bool kRowsAlone = false, typename Body>
void SumRows(const Queue& queue, int64_t rows, int64_t terms, bool columns, void* partial, const Body& body) {
  const int64_t chunks = SumChunks(rows, terms, columns), per_chunk = CeilDiv(terms, chunks);
  Acc* sums = chunks > 1 ? static_cast<Acc*>(partial) : nullptr;
  ForEach(queue, rows * chunks, [&](int64_t block) {
    const int64_t row = block / chunks, chunk = block % chunks, begin = chunk * per_chunk;
    const Acc acc = SumTerms<1, Acc>(body, row, begin, begin + per_chunk < terms ? begin + per_chunk : terms);
    if (sums != nullptr) {
      sums[block] = acc;
    } else {
      body.Store(row, acc);
    }
  });
  if (chunks == 1) return;
  const auto rest = PartialOf(sums, chunks, body);
  ForEach(queue, rows, [&](int64_t row) { body.Store(row, SumTerms<1, Acc>(rest, row, 0, chunks)); });
}

#endif

template <typename T>
struct Tag {
  using type = T;
};
template <typename Fn>
void ForFloating(Type type, const Fn& fn) {
  switch (type) {
    case Type::kFloat: return fn(Tag<float>());
    case Type::kDouble: return fn(Tag<double>());
    case Type::kHalf: return fn(Tag<Half>());
    case Type::kBfloat16: return fn(Tag<Bfloat16>());
    default: return;  // the kernel's factory has refused others
  }
}
// Integers that graphs compute with; factories refuse the others.
template <typename Fn>
void ForInteger(Type type, const Fn& fn) {
  switch (type) {
    case Type::kInt32: return fn(Tag<int32_t>());
    case Type::kInt64: return fn(Tag<int64_t>());
    case Type::kUint8: return fn(Tag<uint8_t>());
    default: return;
  }
}

template <typename Fn>
void ForNumeric(Type type, const Fn& fn) {
  type <= Type::kBfloat16 ? ForFloating(type, fn) : ForInteger(type, fn);
}

// Element i of a tensor of int64 where it is `wide`, else of int32.
MR_DEVICE inline int64_t IndexAt(const void* index, bool wide, int64_t i) {
  return wide ? static_cast<const int64_t*>(index)[i] : static_cast<const int32_t*>(index)[i];
}

// Several elements that are moved together.
struct alignas(16) Sixteen {
  uint64_t low, high;
};

template <typename Fn>
void ForSize(int bytes, const Fn& fn);
// The same for elements that are moved together, up to 16 bytes.
template <typename Fn>
void ForWideSize(int bytes, const Fn& fn) {
  bytes == 16 ? fn(Tag<Sixteen>()) : ForSize(bytes, fn);
}

// Bytes, up to 16, that can be moved together in rows of `inner` elements that follow one another on both sides.
inline int WidestRows(int bytes, int64_t inner, const void* from, const void* to) {
  int wide = 16;
  const auto fits = [&] {
    return inner * bytes % wide == 0 && reinterpret_cast<uintptr_t>(from) % wide == 0 && reinterpret_cast<uintptr_t>(to) % wide == 0;
  };
  while (wide > bytes && !fits()) wide /= 2;
  return wide;
}

// For kernels that only move elements.
template <typename Fn>
void ForSize(int bytes, const Fn& fn) {
  switch (bytes) {
    case 1: return fn(Tag<uint8_t>());
    case 2: return fn(Tag<uint16_t>());
    case 4: return fn(Tag<uint32_t>());
    case 8: return fn(Tag<uint64_t>());
    default: return;
  }
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PORTABLE_H_
