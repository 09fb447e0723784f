// Threads that work on one thing together: a row of a softmax, a list to be sorted. Included by launch/*.cu alone.
//
// A body is called as body(crew, row) by every thread of the crew at once; on the host by the only one there is. All of
// a crew come to each Sync, Any and Reduce.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CREW_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CREW_H_

#include "cuda/launch/portable.h"

namespace millrace::cuda {

// A crew of one.
struct Alone {
  MR_DEVICE int rank() const { return 0; }
  MR_DEVICE int size() const { return 1; }
  MR_DEVICE void Sync() const {}
  MR_DEVICE bool Any(bool mine) const { return mine; }
  template <typename V, typename Combine>
  MR_DEVICE V Reduce(V mine, const Combine&) const {
    return mine;
  }
};

template <typename Body>
struct AloneBody {
  Body body;
  MR_DEVICE void operator()(int64_t row) const { body(Alone(), row); }
};

#if defined(__CUDACC__)

inline constexpr int kLongRowThreads = 512;
template <int kSize>
inline constexpr int kCrewBlock = kSize > kThreads ? kSize : kThreads;

// A warp, or a block. Of `values`, eight bytes are each thread's.
template <int kSize>
struct Crew {
  double* values;
  int thread;
  MR_DEVICE int rank() const { return thread; }
  MR_DEVICE int size() const { return kSize; }
  MR_DEVICE void Sync() const {
#if defined(__CUDA_ARCH__)
    if constexpr (kSize == kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
#endif
  }
  // Whether any thread of a block says so. A Sync.
  MR_DEVICE bool Any(bool mine) const {
    static_assert(kSize == kCrewBlock<kSize>);
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(mine ? 1 : 0) != 0;
#else
    return mine;
#endif
  }
  // combine(...) of what all threads have, by a fixed tree, whose end is the first warp's alone.
  template <typename V, typename Combine>
  MR_DEVICE V Reduce(V mine, const Combine& combine) const {
    static_assert(sizeof(V) <= sizeof(double));
    V* const shared = reinterpret_cast<V*>(values);
    shared[thread] = mine;
    Sync();
    for (int half = kSize / 2; half > 0; half /= 2) {
      if (thread < half) shared[thread] = combine(shared[thread], shared[thread + half]);
      half > kWarp ? Sync() : Crew<kWarp>().Sync();
    }
    Sync();
    const V all = shared[0];
    Sync();
    return all;
  }
};

// A multiprocessor holds two blocks of kLongRowThreads.
template <int kSize, typename Body>
__global__ void __launch_bounds__(kCrewBlock<kSize>, 2) CrewKernel(int64_t rows, const __grid_constant__ Body body, const Fault* fault) {
  if (BlockStops(fault)) return;
  __shared__ double values[kCrewBlock<kSize>];
  constexpr int kCrews = kCrewBlock<kSize> / kSize;
  const int first = static_cast<int>(threadIdx.x) / kSize * kSize;
  const Crew<kSize> crew = {values + first, static_cast<int>(threadIdx.x) - first};
  const int64_t step = static_cast<int64_t>(gridDim.x) * kCrews;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kCrews + threadIdx.x / kSize; row < rows; row += step) body(crew, row);
}

template <int kSize, typename Body>
void LaunchCrews(const Queue& queue, int64_t rows, const Body& body) {
  if (!MayLaunch(queue)) return;
  constexpr int kBlock = kCrewBlock<kSize>;
  const int64_t wanted = CeilDiv(rows, kBlock / kSize), blocks = wanted < kMaxBlocks * 8 ? wanted : kMaxBlocks * 8;
  CrewKernel<kSize><<<static_cast<unsigned>(blocks), kBlock, 0, static_cast<cudaStream_t>(queue.stream)>>>(rows, body, queue.fault);
}

// body(crew, row) for every row; how many threads take a row depends on sizes alone. Long rows have many, so that the rows that are
// gone through at once, more than once each, stay in the device's cache: 264 of them on 132 multiprocessors.
template <typename Body>
void ForEachRow(const Queue& queue, int64_t rows, int64_t columns, const Body& body) {
  constexpr int64_t kAloneColumns = 16, kWarpColumns = 2048, kFewRows = 2048, kFewColumns = 256, kBlockColumns = 4096;
  if (rows <= 0) return;
  if (columns > kBlockColumns) return LaunchCrews<kLongRowThreads>(queue, rows, body);
  if (columns <= kAloneColumns) return ForEach(queue, rows, AloneBody<Body>{body});
  if (columns > kWarpColumns || (columns > kFewColumns && rows < kFewRows)) return LaunchCrews<kThreads>(queue, rows, body);
  LaunchCrews<kWarp>(queue, rows, body);
}

template <typename Body>
__global__ void __launch_bounds__(kThreads) TaskKernel(int64_t tasks, const __grid_constant__ Body body, const Fault* fault) {
  if (BlockStops(fault)) return;
  __shared__ double values[kThreads];
  __shared__ typename Body::Shared shared;
  const Crew<kThreads> crew = {values, static_cast<int>(threadIdx.x)};
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) body(crew, task, shared);
}

// body(crew, task, shared) for every task, by a block each; Body::Shared is memory that its threads share.
template <typename Body>
void ForEachTask(const Queue& queue, int64_t tasks, const Body& body) {
  if (tasks <= 0 || !MayLaunch(queue)) return;
  const int64_t blocks = tasks < kMaxBlocks * 8 ? tasks : kMaxBlocks * 8;
  TaskKernel<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(queue.stream)>>>(tasks, body, queue.fault);
}

#else

template <typename Body>
void ForEachTask(const Queue& queue, int64_t tasks, const Body& body) {
  typename Body::Shared shared;
  ForEach(queue, tasks, [&](int64_t task) { body(Alone(), task, shared); });
}

template <typename Body>
void ForEachRow(const Queue& queue, int64_t rows, int64_t, const Body& body) {
  ForEach(queue, rows, AloneBody<Body>{body});
}

#endif

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_CREW_H_
