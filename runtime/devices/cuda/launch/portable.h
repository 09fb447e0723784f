// Kernels written once for the device and for the host: a body is called for every index, or for every term of a sum.
// Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PORTABLE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PORTABLE_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/launch/queue.h"
#include "cuda/launch/scalar.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif
#if defined(__CUDA_ARCH__)
#define MR_UNROLL _Pragma("unroll")
#define MR_NO_UNROLL _Pragma("unroll 1")
#else
#define MR_UNROLL
#define MR_NO_UNROLL
#endif

namespace millrace::cuda {

inline constexpr int kThreads = 256;
inline constexpr int64_t kMaxBlocks = 132 * 16;  // more turns of a grid-stride loop beyond
// Where a body takes so many registers that not a whole part of these run at once: the last round is a small part of so many.
inline constexpr int64_t kManyBlocks = 8 * kMaxBlocks;

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Reports what is wrong; the first fault of a step stands.
MR_DEVICE inline void Report(const Queue& queue, FaultCode code, int32_t detail, int64_t value, int64_t limit) {
#if defined(__CUDA_ARCH__)
  if (atomicCAS(reinterpret_cast<int*>(&queue.fault->code), 0, static_cast<int>(code)) != 0) return;
#else
  if (queue.fault->code != FaultCode::kNone) return;
  queue.fault->code = code;
#endif
  queue.fault->detail = detail;
  queue.fault->position = queue.position;
  queue.fault->value = value;
  queue.fault->limit = limit;
}

// Offsets into several operands of index i, row-major over the dimensions.
inline constexpr int kMostDims = 8;
template <int kOperands>
struct StridedIndex {
  int rank = 0;
  Divider dims[kMostDims];
  int64_t strides[kOperands][kMostDims] = {};
  MR_DEVICE void Offsets(int64_t i, int64_t* at) const {
    for (int k = 0; k < kOperands; ++k) at[k] = 0;
    MR_NO_UNROLL for (int d = rank - 1; d > 0; --d) {
      const int64_t next = dims[d](i), index = i - next * dims[d].by;
      i = next;
      for (int k = 0; k < kOperands; ++k) at[k] += index * strides[k][d];
    }
    if (rank == 0) return;
    for (int k = 0; k < kOperands; ++k) at[k] += i * strides[k][0];
  }
  MR_DEVICE int64_t Offset(int64_t i) const {
    int64_t at[kOperands];
    Offsets(i, at);
    return at[0];
  }
  // Host: dimension `d` of `rank`, outermost first; indices stay below `bound`.
  void SetDim(int d, int64_t dim, int64_t bound) { dims[d] = DivideBy(dim, bound); }
};

// What Combine makes of a row's terms k, k + kStep, ... below `end`, in this order. Where the body has Row(row), terms are read
// in two steps, Fetch(k) and Value of what that gave, so that kAtOnce of them are on their way at once.
template <int kStep, typename Acc, typename Body>
MR_DEVICE Acc SumTerms(const Body& body, int64_t row, int64_t k, int64_t end) {
  Acc acc = body.Identity();
  if constexpr (requires { body.Row(row); }) {
    const auto terms = body.Row(row);
    constexpr int kAtOnce = decltype(terms)::kAtOnce;
    decltype(terms.Fetch(k)) loaded[kAtOnce];
    MR_NO_UNROLL for (; k + (kAtOnce - 1) * kStep < end; k += kAtOnce * kStep) {
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) loaded[u] = terms.Fetch(k + u * kStep);
      MR_UNROLL for (int u = 0; u < kAtOnce; ++u) acc = body.Combine(acc, terms.Value(loaded[u]));
    }
    MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
      if (k + u * kStep < end) loaded[u] = terms.Fetch(k + u * kStep);
    }
    MR_UNROLL for (int u = 0; u < kAtOnce; ++u) {
      if (k + u * kStep < end) acc = body.Combine(acc, terms.Value(loaded[u]));
    }
  } else {
    for (; k < end; k += kStep) acc = body.Combine(acc, body.Load(row, k));
  }
  return acc;
}

#if defined(__CUDACC__)

// Whether something was reported before, for all threads of a block alike: another block may report it meanwhile, and those that
// wait for one another go on or end together. All threads call it.
__device__ inline bool BlockStops(const Fault* fault) { return __syncthreads_or(fault->code != FaultCode::kNone ? 1 : 0) != 0; }

template <typename Body>
__global__ void __launch_bounds__(kThreads) ForEachKernel(int64_t n, Body body, const Fault* fault) {
  if (fault->code != FaultCode::kNone) return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}

// body(i) for i in [0, n), in any order and at once. Errors of the launch are found by the driver behind the kernel.
template <typename Body>
void ForEach(const Queue& queue, int64_t n, const Body& body, int64_t most_blocks = kMaxBlocks) {
  if (n <= 0) return;
  const int64_t blocks = CeilDiv(n, kThreads) < most_blocks ? CeilDiv(n, kThreads) : most_blocks;
  ForEachKernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(queue.stream)>>>(n, body,
                                                                                                       queue.fault);
}

// Each thread has the operands of several elements on their way at once.
inline constexpr int kUnroll = 4;
template <typename T, typename Body>
__global__ void __launch_bounds__(kThreads) MapKernel(int64_t n, T* y, Body body, const Fault* fault) {
  if (fault->code != FaultCode::kNone) return;
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
  if (n <= 0) return;
  const int64_t wanted = CeilDiv(n, kThreads * kUnroll), blocks = wanted < kMaxBlocks ? wanted : kMaxBlocks;
  MapKernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(queue.stream)>>>(n, y, body,
                                                                                                   queue.fault);
}

// What a block takes. Blocks run about in their order, and go through memory in its order: where a row lies in one piece, chunk by
// chunk of row by row; where rows take turns in memory, as columns do and where a body says RowsTakeTurns, row by row of chunk by chunk.
// Then the device's memory is read line by line, and what was read last, which the cache holds, is its end.
struct RowChunk {
  int64_t row, chunk;
  int64_t place;  // of its sum: those of a row lie beside each other
};
template <bool kTurns>
MR_DEVICE RowChunk RowChunkOf(int64_t block, int64_t rows, int64_t chunks) {
  if constexpr (kTurns) return {block % rows, block / rows, block % rows * chunks + block / rows};
  return {block / chunks, block % chunks, block};
}

// A block per row (and chunk of it): each thread takes every kThreads-th term, then a fixed tree over the threads.
template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads)
    RowSumKernel(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, Body body, const Fault* fault) {
  if (BlockStops(fault)) return;
  __shared__ Acc shared[kThreads];
  const int64_t per_chunk = (terms + chunks - 1) / chunks;
  for (int64_t block = blockIdx.x; block < rows * chunks; block += gridDim.x) {
    const auto [row, chunk, place] = RowChunkOf<requires { typename Body::RowsTakeTurns; }>(block, rows, chunks);
    const int64_t begin = chunk * per_chunk;
    const int64_t end = begin + per_chunk < terms ? begin + per_chunk : terms;
    shared[threadIdx.x] = SumTerms<kThreads, Acc>(body, row, begin + threadIdx.x, end);
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) shared[threadIdx.x] = body.Combine(shared[threadIdx.x], shared[threadIdx.x + half]);
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      if (partial != nullptr) {
        partial[place] = shared[0];
      } else {
        body.Store(row, shared[0]);
      }
    }
    __syncthreads();
  }
}

// A warp per row, for rows that are too short for a block.
inline constexpr int kWarp = 32, kWarps = kThreads / kWarp;
template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads) WarpSumKernel(int64_t rows, int64_t terms, Body body, const Fault* fault) {
  if (BlockStops(fault)) return;
  __shared__ Acc shared[kThreads];
  const int lane = threadIdx.x % kWarp;
  Acc* const mine = shared + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; row < rows; row += step) {
    *mine = SumTerms<kWarp, Acc>(body, row, lane, terms);
    __syncwarp();
    for (int half = kWarp / 2; half > 0; half /= 2) {
      if (lane < half) *mine = body.Combine(*mine, mine[half]);
      __syncwarp();
    }
    if (lane == 0) body.Store(row, *mine);
    __syncwarp();
  }
}

// For sums over an outer dimension: neighbouring threads take neighbouring rows, so that loads are contiguous.
inline constexpr int kColumnThreads = 32, kColumnParts = 8;
template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads)
    ColumnSumKernel(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, Body body, const Fault* fault) {
  if (BlockStops(fault)) return;
  __shared__ Acc shared[kColumnParts][kColumnThreads];
  const int column = threadIdx.x % kColumnThreads, part = threadIdx.x / kColumnThreads;
  const int64_t per_chunk = (terms + chunks - 1) / chunks;
  const int64_t tiles = (rows + kColumnThreads - 1) / kColumnThreads;
  for (int64_t block = blockIdx.x; block < tiles * chunks; block += gridDim.x) {
    const RowChunk of_tile = RowChunkOf<true>(block, tiles, chunks);
    const int64_t row = of_tile.row * kColumnThreads + column, chunk = of_tile.chunk, begin = chunk * per_chunk;
    const int64_t end = begin + per_chunk < terms ? begin + per_chunk : terms;
    Acc acc = row < rows ? SumTerms<kColumnParts, Acc>(body, row, begin + part, end) : body.Identity();
    shared[part][column] = acc;
    __syncthreads();
    if (part == 0 && row < rows) {
      for (int p = 1; p < kColumnParts; ++p) acc = body.Combine(acc, shared[p][column]);
      if (partial != nullptr) {
        partial[row * chunks + chunk] = acc;
      } else {
        body.Store(row, acc);
      }
    }
    __syncthreads();
  }
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

// Chunks that the sum of so many terms is cut into, so that few long rows still fill the device: a device of 132
// multiprocessors has 660 to 1,056 such blocks at once, and of several rounds of them the last, which may be nearly empty, is a
// small part. Depends on sizes alone, so bits do too. `columns` as in SumRows.
inline int64_t SumChunks(int64_t rows, int64_t terms, bool columns) {
  constexpr int64_t kWantedBlocks = 4096, kRowTerms = 4096, kColumnTerms = 256;
  const int64_t units = columns ? CeilDiv(rows, 32) : rows;
  const int64_t most = CeilDiv(terms, columns ? kColumnTerms : kRowTerms);
  const int64_t wanted = CeilDiv(kWantedBlocks, units > 0 ? units : 1);
  const int64_t chunks = most < wanted ? most : wanted;
  return chunks < 1 ? 1 : chunks;
}

// The sum over the chunks of a row, which lie beside each other. Rule: a body, or what of it is not about loading.
template <typename Acc, typename Rule>
struct PartialBody {
  const Acc* partial;
  int64_t chunks;
  Rule rule;
  MR_DEVICE Acc Identity() const { return rule.Identity(); }
  MR_DEVICE Acc Combine(Acc a, Acc b) const { return rule.Combine(a, b); }
  MR_DEVICE Acc Load(int64_t row, int64_t k) const { return partial[row * chunks + k]; }
  MR_DEVICE void Store(int64_t row, Acc acc) const { rule.Store(row, acc); }
};
template <typename Acc, typename Body>
auto PartialOf(const Acc* partial, int64_t chunks, const Body& body) {
  if constexpr (requires { body.rule; }) {
    return PartialBody<Acc, decltype(body.rule)>{partial, chunks, body.rule};
  } else {
    return PartialBody<Acc, Body>{partial, chunks, body};
  }
}

#if defined(__CUDACC__)

inline constexpr int64_t kWarpTerms = 1024;  // longest row that a warp takes
inline constexpr int64_t kWarpChunks = 256;  // and of sums of chunks, which are few rows

// body.Store(row, body.Combine over k in [0, terms) of body.Load(row, k)) for every row, in a fixed order. `partial`
// holds rows * SumChunks(rows, terms, columns) accumulators. `columns`: neighbouring rows lie beside each other in
// memory, which they never do where `kRowsAlone`.
template <typename Acc, bool kRowsAlone = false, typename Body>
void SumRows(const Queue& queue, int64_t rows, int64_t terms, bool columns, void* partial, const Body& body) {
  if (rows <= 0) return;
  const auto stream = static_cast<cudaStream_t>(queue.stream);
  const auto grid = [](int64_t units) { return static_cast<unsigned>(units < kMaxBlocks * 8 ? units : kMaxBlocks * 8); };
  const int64_t chunks = SumChunks(rows, terms, columns);
  Acc* sums = chunks > 1 ? static_cast<Acc*>(partial) : nullptr;
  if (columns) {
    if constexpr (!kRowsAlone) {
      const int64_t blocks = CeilDiv(rows, kColumnThreads) * chunks;
      ColumnSumKernel<Acc><<<grid(blocks), kThreads, 0, stream>>>(rows, terms, chunks, sums, body, queue.fault);
    }
  } else if (terms <= kWarpTerms) {
    WarpSumKernel<Acc><<<grid(CeilDiv(rows, kWarps)), kThreads, 0, stream>>>(rows, terms, body, queue.fault);
  } else {
    RowSumKernel<Acc><<<grid(rows * chunks), kThreads, 0, stream>>>(rows, terms, chunks, sums, body, queue.fault);
  }
  if (chunks == 1) return;
  const auto rest = PartialOf(sums, chunks, body);
  if (chunks <= kWarpChunks) {
    WarpSumKernel<Acc><<<grid(CeilDiv(rows, kWarps)), kThreads, 0, stream>>>(rows, chunks, rest, queue.fault);
  } else {
    RowSumKernel<Acc><<<grid(rows), kThreads, 0, stream>>>(rows, chunks, 1, nullptr, rest, queue.fault);
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
