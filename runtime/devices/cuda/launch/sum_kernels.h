// Sums of many terms, row by row: how they are cut, and in which order terms are added. Part of portable.h, and of kernels that are
// compiled while a program runs. No standard headers.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SUM_KERNELS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SUM_KERNELS_H_

#include "cuda/launch/queue.h"
#include "cuda/launch/scalar.h"

#if defined(__CUDA_ARCH__)
#define MR_UNROLL _Pragma("unroll")
#define MR_NO_UNROLL _Pragma("unroll 1")
#else
#define MR_UNROLL
#define MR_NO_UNROLL
#endif

namespace millrace::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32, kWarps = kThreads / kWarp;
inline constexpr int kColumnThreads = 32, kColumnParts = 8;  // of a block that sums columns
inline constexpr int64_t kMaxBlocks = 132 * 16;  // more turns of a grid-stride loop beyond
// Where a body takes so many registers that not a whole part of these run at once: the last round is a small part of so many.
inline constexpr int64_t kManyBlocks = 8 * kMaxBlocks;

// Which threads take a row: a block, a warp, or those of a block that takes neighbouring rows.
enum class SumKind { kBlocks, kWarps, kColumns };

MR_DEVICE inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
#if !defined(__CUDACC_RTC__)
  // Dimension `d` of `rank`, outermost first; indices stay below `bound`.
  void SetDim(int d, int64_t dim, int64_t bound) { dims[d] = DivideBy(dim, bound); }
#endif
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
MR_DEVICE auto PartialOf(const Acc* partial, int64_t chunks, const Body& body) {
  if constexpr (requires { body.rule; }) {
    return PartialBody<Acc, decltype(body.rule)>{partial, chunks, body.rule};
  } else {
    return PartialBody<Acc, Body>{partial, chunks, body};
  }
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// Whether something was reported before, for all threads of a block alike: another block may report it meanwhile, and those that
// wait for one another go on or end together. All threads call it.
__device__ inline bool BlockStops(const Fault* fault) { return __syncthreads_or(HasFault(fault) ? 1 : 0) != 0; }

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
__device__ void SumBlocks(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, const Body& body, const Fault* fault) {
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
template <typename Acc, typename Body>
__device__ void SumWarps(int64_t rows, int64_t terms, const Body& body, const Fault* fault) {
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
template <typename Acc, typename Body>
__device__ void SumColumns(int64_t rows, int64_t terms, int64_t chunks, Acc* partial, const Body& body, const Fault* fault) {
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

#endif

#if !defined(__CUDACC_RTC__)

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

inline constexpr int64_t kWarpTerms = 1024;  // longest row that a warp takes
inline constexpr int64_t kWarpChunks = 256;  // and of sums of chunks, which are few rows

// The launch of a sum; where it is cut into chunks, another one adds these up.
struct SumGrid {
  SumKind kind = SumKind::kBlocks, rest_kind = SumKind::kBlocks;
  int64_t chunks = 1;
  int64_t blocks = 0, rest_blocks = 0;
};
inline SumGrid SumGridOf(int64_t rows, int64_t terms, bool columns) {
  const auto grid = [](int64_t units) { return units < kMaxBlocks * 8 ? units : kMaxBlocks * 8; };
  const auto of_kind = [&](SumKind kind, int64_t chunks) {
    if (kind == SumKind::kWarps) return grid(CeilDiv(rows, kWarps));
    return grid((kind == SumKind::kColumns ? CeilDiv(rows, kColumnThreads) : rows) * chunks);
  };
  SumGrid sum;
  sum.chunks = SumChunks(rows, terms, columns);
  sum.kind = columns ? SumKind::kColumns : terms <= kWarpTerms ? SumKind::kWarps : SumKind::kBlocks;
  sum.blocks = of_kind(sum.kind, sum.chunks);
  if (sum.chunks == 1) return sum;
  sum.rest_kind = sum.chunks <= kWarpChunks ? SumKind::kWarps : SumKind::kBlocks;
  sum.rest_blocks = of_kind(sum.rest_kind, 1);
  return sum;
}

#endif

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_SUM_KERNELS_H_
