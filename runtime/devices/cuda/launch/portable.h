// Kernels written once for the device and for the host: a body is called for every index, or for every term of a sum.
// Included by launch/*.cu alone.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PORTABLE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_PORTABLE_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/launch/queue.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define MR_DEVICE __host__ __device__
#else
#define MR_DEVICE
#endif

namespace millrace::cuda {

inline constexpr int kThreads = 256;
inline constexpr int64_t kMaxBlocks = 132 * 16;  // more turns of a grid-stride loop beyond

MR_DEVICE inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

// Adds to a counter that several indices share; returns what was there. Integers only: the sum of floats would depend
// on the order.
MR_DEVICE inline int32_t AtomicAdd(int32_t* counter, int32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(counter, value);
#else
  const int32_t before = *counter;
  *counter += value;
  return before;
#endif
}

#if defined(__CUDACC__)

template <typename Body>
__global__ void __launch_bounds__(kThreads) ForEachKernel(int64_t n, Body body, const Fault* fault) {
  if (fault->code != FaultCode::kNone) return;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}

// body(i) for i in [0, n), in any order and at once. Errors of the launch are found by the driver behind the kernel.
template <typename Body>
void ForEach(const Queue& queue, int64_t n, const Body& body) {
  if (n <= 0) return;
  const int64_t blocks = CeilDiv(n, kThreads) < kMaxBlocks ? CeilDiv(n, kThreads) : kMaxBlocks;
  ForEachKernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(queue.stream)>>>(n, body,
                                                                                                       queue.fault);
}

// A block per row (and chunk of it): each thread takes every kThreads-th term, then a fixed tree over the threads.
template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads)
    RowSumKernel(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, Body body, const Fault* fault) {
  if (fault->code != FaultCode::kNone) return;
  __shared__ Acc shared[kThreads];
  const int64_t per_chunk = (terms + chunks - 1) / chunks;
  for (int64_t block = blockIdx.x; block < rows * chunks; block += gridDim.x) {
    const int64_t row = block / chunks, begin = block % chunks * per_chunk;
    const int64_t end = begin + per_chunk < terms ? begin + per_chunk : terms;
    Acc acc = body.Identity();
    for (int64_t k = begin + threadIdx.x; k < end; k += kThreads) acc = body.Combine(acc, body.Load(row, k));
    shared[threadIdx.x] = acc;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) shared[threadIdx.x] = body.Combine(shared[threadIdx.x], shared[threadIdx.x + half]);
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      if (partial != nullptr) {
        partial[block] = shared[0];
      } else {
        body.Store(row, shared[0]);
      }
    }
    __syncthreads();
  }
}

// For sums over an outer dimension: neighbouring threads take neighbouring rows, so that loads are contiguous.
inline constexpr int kColumnThreads = 32, kColumnParts = 8;
template <typename Acc, typename Body>
__global__ void __launch_bounds__(kThreads)
    ColumnSumKernel(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, Body body, const Fault* fault) {
  if (fault->code != FaultCode::kNone) return;
  __shared__ Acc shared[kColumnParts][kColumnThreads];
  const int column = threadIdx.x % kColumnThreads, part = threadIdx.x / kColumnThreads;
  const int64_t per_chunk = (terms + chunks - 1) / chunks;
  const int64_t tiles = (rows + kColumnThreads - 1) / kColumnThreads;
  for (int64_t block = blockIdx.x; block < tiles * chunks; block += gridDim.x) {
    const int64_t row = block / chunks * kColumnThreads + column, chunk = block % chunks, begin = chunk * per_chunk;
    const int64_t end = begin + per_chunk < terms ? begin + per_chunk : terms;
    Acc acc = body.Identity();
    if (row < rows) {
      for (int64_t k = begin + part; k < end; k += kColumnParts) acc = body.Combine(acc, body.Load(row, k));
    }
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
void ForEach(const Queue& queue, int64_t n, const Body& body) {
  if (queue.fault->code != FaultCode::kNone) return;
  for (int64_t i = 0; i < n; ++i) body(i);
}

#endif

// Chunks that a row of so many terms is cut into, so that few long rows still fill the device. Depends on sizes alone,
// so bits do too.
inline int64_t SumChunks(int64_t rows, int64_t terms) {
  constexpr int64_t kTermsPerChunk = 4096, kWantedBlocks = 512;
  const int64_t most = CeilDiv(terms, kTermsPerChunk), wanted = CeilDiv(kWantedBlocks, rows > 0 ? rows : 1);
  const int64_t chunks = most < wanted ? most : wanted;
  return chunks < 1 ? 1 : chunks;
}

// Sums over the chunks of rows.
template <typename Acc, typename Body>
struct PartialBody {
  const Acc* partial;
  int64_t chunks;
  Body body;
  MR_DEVICE void operator()(int64_t row) const {
    Acc acc = body.Identity();
    for (int64_t c = 0; c < chunks; ++c) acc = body.Combine(acc, partial[row * chunks + c]);
    body.Store(row, acc);
  }
};

// body.Store(row, body.Combine over k in [0, terms) of body.Load(row, k)) for every row, in a fixed order. `partial`
// holds rows * SumChunks(rows, terms) accumulators. `columns`: neighbouring rows lie beside each other in memory.
template <typename Acc, typename Body>
void SumRows(const Queue& queue, int64_t rows, int64_t terms, bool columns, void* partial, const Body& body) {
  if (rows <= 0) return;
  const int64_t chunks = SumChunks(rows, terms);
  Acc* sums = chunks > 1 ? static_cast<Acc*>(partial) : nullptr;
#if defined(__CUDACC__)
  const auto stream = static_cast<cudaStream_t>(queue.stream);
  const int64_t units = columns ? CeilDiv(rows, kColumnThreads) * chunks : rows * chunks;
  const unsigned blocks = static_cast<unsigned>(units < kMaxBlocks * 8 ? units : kMaxBlocks * 8);
  if (columns) {
    ColumnSumKernel<Acc><<<blocks, kThreads, 0, stream>>>(rows, terms, chunks, sums, body, queue.fault);
  } else {
    RowSumKernel<Acc><<<blocks, kThreads, 0, stream>>>(rows, terms, chunks, sums, body, queue.fault);
  }
#else
  static_cast<void>(columns);
  const int64_t per_chunk = CeilDiv(terms, chunks);
  ForEach(queue, rows * chunks, [&](int64_t block) {
    const int64_t row = block / chunks, begin = block % chunks * per_chunk;
    Acc acc = body.Identity();
    for (int64_t k = begin; k < begin + per_chunk && k < terms; ++k) acc = body.Combine(acc, body.Load(row, k));
    if (sums != nullptr) {
      sums[block] = acc;
    } else {
      body.Store(row, acc);
    }
  });
#endif
  if (chunks > 1) ForEach(queue, rows, PartialBody<Acc, Body>{sums, chunks, body});
}

// Half precision as 16 bits, so that both compilers agree: round to nearest, ties to even.
struct Bfloat16 {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};

MR_DEVICE inline uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
MR_DEVICE inline float FloatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

MR_DEVICE inline float Widen(Bfloat16 x) { return FloatOf(static_cast<uint32_t>(x.bits) << 16); }
MR_DEVICE inline float Widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  if (rest >= 0x7c00u) return FloatOf(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // The exponent is moved by a product, which also makes denormal halves right.
  const float magnitude = FloatOf(rest << 13) * FloatOf(0x77800000u);
  return FloatOf(sign | BitsOf(magnitude));
}
MR_DEVICE inline float Widen(float x) { return x; }
MR_DEVICE inline double Widen(double x) { return x; }
template <typename T>
MR_DEVICE inline T Widen(T x) {
  return x;
}

MR_DEVICE inline Bfloat16 NarrowBfloat16(float x) {
  const uint32_t bits = BitsOf(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
MR_DEVICE inline Half NarrowHalf(float x) {
  const uint32_t bits = BitsOf(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (rest >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (rest < 0x38800000u) {
    // Denormal: adding a half rounds at the right bit.
    const float sum = FloatOf(rest) + 0.5f;
    return {static_cast<uint16_t>(sign | (BitsOf(sum) - 0x3f000000u))};
  }
  const uint32_t rounded = rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u;
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

// The type that arithmetic on T is done in, and the way back.
template <typename T>
struct Wide {
  using type = T;
  MR_DEVICE static T Narrow(T x) { return x; }
};
template <>
struct Wide<Half> {
  using type = float;
  MR_DEVICE static Half Narrow(float x) { return NarrowHalf(x); }
};
template <>
struct Wide<Bfloat16> {
  using type = float;
  MR_DEVICE static Bfloat16 Narrow(float x) { return NarrowBfloat16(x); }
};

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
