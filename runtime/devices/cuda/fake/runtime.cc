// A CUDA runtime without a device, for the plugin's own code: memory is the host's, streams do at once what they are
// given, kernels are those compiled for the host. What it is given that CUDA would refuse, it refuses. No graphs: kernels
// here cannot be recorded.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace {

struct FakeEvent {
  bool timed = false, recorded = false;
  std::chrono::steady_clock::time_point when;
};
struct FakeStream {
  int alive = 0x57;
};
cudaError_t last_error = cudaSuccess;

cudaError_t Say(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
bool IsStream(cudaStream_t stream) { return stream != nullptr && reinterpret_cast<FakeStream*>(stream)->alive == 0x57; }
FakeEvent* EventOf(cudaEvent_t event) { return reinterpret_cast<FakeEvent*>(event); }

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return Say(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "fake");
  properties->major = 9;
  properties->multiProcessorCount = 1;
  return cudaSuccess;
}
// As where a container hides what the device is.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute != cudaDevAttrComputeCapabilityMajor && attribute != cudaDevAttrComputeCapabilityMinor) {
    return Say(cudaErrorNotSupported);
  }
  return *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0, cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return *free_bytes = size_t{1} << 30, *total_bytes = size_t{2} << 30, cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) { return "fakeError"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the fake"; }
cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (bytes > size_t{1} << 30) return Say(cudaErrorMemoryAllocation);
  // Not a byte more than was asked for: AddressSanitizer sees what is read behind it.
  if (posix_memalign(memory, 256, bytes > 0 ? bytes : 1) != 0) return Say(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xcb, bytes);  // what nothing has written yet
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaMemset(void* memory, int value, size_t bytes) { return std::memset(memory, value, bytes), cudaSuccess; }
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return IsStream(stream) ? cudaMemset(memory, value, bytes) : Say(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (!IsStream(stream)) return Say(cudaErrorInvalidResourceHandle);
  return std::memmove(to, from, bytes), cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = reinterpret_cast<cudaStream_t>(new FakeStream), cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete reinterpret_cast<FakeStream*>(stream), cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return Say(IsStream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return Say(IsStream(stream) && event != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  if (!IsStream(stream)) return Say(cudaErrorInvalidResourceHandle);
  return function(argument), cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent{(flags & cudaEventDisableTiming) == 0, false, {}});
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete EventOf(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!IsStream(stream)) return Say(cudaErrorInvalidResourceHandle);
  EventOf(event)->recorded = true;
  EventOf(event)->when = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  for (cudaEvent_t event : {from, to}) {
    if (!EventOf(event)->timed || !EventOf(event)->recorded) return Say(cudaErrorInvalidResourceHandle);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(EventOf(to)->when - EventOf(from)->when).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return Say(cudaErrorStreamCaptureUnsupported); }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  return *graph = nullptr, Say(cudaErrorStreamCaptureUnmatched);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) { return Say(cudaErrorNotSupported); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return Say(cudaErrorNotSupported); }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

// Code for a device does not load here: groups of elementwise ops go to the kernel that reads them.
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**, unsigned) {
  return Say(cudaErrorNotSupported);
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) { return Say(cudaErrorNotSupported); }
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) { return Say(cudaErrorNotSupported); }

}  // extern "C"
