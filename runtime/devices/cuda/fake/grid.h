// A grid of the device's threads, run by the host: the kernels that are launched there, as they stand, with their blocks, warps,
// shared memory and barriers. Blocks run one after another, in any order; of a block's threads one runs at a time, until it
// waits at a barrier, in an order that changes from barrier to barrier, with some warps ahead of others: what a kernel computes
// without a barrier that it needs comes out wrong. It takes the place of what nvcc knows by itself (src/cmake/CudaPlugin.cmake).
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_GRID_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_GRID_H_

#include <cstdint>
#include <functional>

#if defined(MILLRACE_GRID_ON_HOST)
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static thread_local
#endif

namespace millrace::cuda {

#if defined(MILLRACE_GRID_ON_HOST)
using cudaStream_t = void*;
#endif
struct GridIndex {
  unsigned x = 0;
};
inline thread_local GridIndex threadIdx, blockIdx, gridDim, blockDim;

void __syncthreads();
int __syncthreads_or(int mine);
void __syncwarp();
// As on the device, they order nothing else.
inline int atomicCAS(int* at, int expected, int value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline int atomicOr(int* at, int bits) { return __atomic_fetch_or(at, bits, __ATOMIC_RELAXED); }

namespace fake {

// Runs `thread` for all threads of all blocks. Ends the program where the threads of a block wait at different barriers, or some
// have ended that others wait for: devices go on then, and whoever waited finds nothing of theirs.
void RunGrid(int64_t blocks, int threads, const std::function<void()>& thread);

// From the next RunGrid on, under ThreadSanitizer: it is told of threads of a block and of their barriers, so that it reports what two of
// them do to the same memory without a barrier between. Blocks count as one after another, as their shared memory is the same.
void LookForRaces();

// What a launch becomes: RunGrid at once, or in the order of a stream, as whoever links this has it.
void LaunchGrid(void* stream, int64_t blocks, int threads, std::function<void()> thread);

}  // namespace fake
}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_GRID_H_
