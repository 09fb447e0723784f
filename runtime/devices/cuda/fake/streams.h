// Streams, events, captures and graphs of the faked CUDA. What a stream is given is kept until somebody waits for it; then the
// streams' heads that wait for nothing run in an order that chance chooses: work that should have waited for other work, and
// memory that was used again too early, are seen. A call that CUDA refuses is refused in CUDA's words.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_STREAMS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_STREAMS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace millrace::cuda::fake {

// Keeps the error for cudaGetLastError, and returns it.
cudaError_t Say(cudaError_t error);

// `work` runs in the order of the stream, once or, where it is captured, in every launch of the graph: it must have copies of
// what the caller may change. Invalid handle: no such stream, or the legacy one, which nothing here may use.
cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work);
// The same of a kernel: it must be of the device that the thread has set.
cudaError_t EnqueueKernel(cudaStream_t stream, std::function<void()> work);
// That this thread has set.
int& CurrentDevice();
// -1: no such stream.
int DeviceOf(cudaStream_t stream);
// All that streams were given has run, but what a device that hangs never comes to.
void RunAll();
// Streams, events and graphs, and all allocations, of a device that hung.
void DropStreams();
void DropMemory();
bool IsCapturing(cudaStream_t stream);
bool IsStream(cudaStream_t stream);
// All of [at, at + bytes) is of one allocation of the device's.
bool OnDevice(const void* at, size_t bytes, int device = CurrentDevice());
// For calls that may not be made by a thread that captures, which they spoil, nor in a host function of a stream.
cudaError_t MayCall();

}  // namespace millrace::cuda::fake

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_FAKE_STREAMS_H_
