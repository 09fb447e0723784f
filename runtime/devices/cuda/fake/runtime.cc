// A CUDA runtime without a device, for the plugin's own code: memory is the host's, streams keep what they are given until they
// are waited for (streams.h), kernels run on a grid of the host's (grid.h). What it is given that CUDA would refuse, it refuses:
// copies beyond an allocation or of the wrong kind, memory that is not there, calls that a capture forbids.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda/fake/faults.h"
#include "cuda/fake/streams.h"

namespace {

using millrace::cuda::fake::Block;
using millrace::cuda::fake::Count;
using millrace::cuda::fake::CountMost;
using millrace::cuda::fake::CountStray;
using millrace::cuda::fake::CurrentDevice;
using millrace::cuda::fake::DeviceOf;
using millrace::cuda::fake::Enqueue;
using millrace::cuda::fake::Enter;
using millrace::cuda::fake::IsCapturing;
using millrace::cuda::fake::MayCall;
using millrace::cuda::fake::OnDevice;
using millrace::cuda::fake::Process;
using millrace::cuda::fake::RunAll;
using millrace::cuda::fake::Say;
using millrace::cuda::fake::Setting;

enum class Kind { kDevice, kHost, kRegistered };
struct Piece {
  size_t bytes = 0;
  Kind kind = Kind::kDevice;
  int device = 0;  // that it is on, or was made for
};
std::mutex memory_mutex;
std::map<const char*, Piece> memory;  // by address
char kernel_of_library;               // stands for every one

// The piece that holds [at, at + bytes), or begins before and ends in it; end() where none does.
const Piece* Holding(const void* at, size_t bytes, bool* whole) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const char* const begin = static_cast<const char*>(at);
  auto found = memory.upper_bound(begin);
  if (found == memory.begin()) return nullptr;
  --found;
  if (begin >= found->first + found->second.bytes) return nullptr;
  *whole = begin + bytes <= found->first + found->second.bytes;
  return &found->second;
}
bool IsPinned(const void* at, size_t bytes) {
  bool whole = false;
  const Piece* const piece = Holding(at, bytes, &whole);
  return piece != nullptr && piece->kind != Kind::kDevice && whole;
}
bool TouchesDevice(const void* at, size_t bytes) {
  bool whole = false;
  const Piece* const piece = Holding(at, bytes, &whole);
  return piece != nullptr && piece->kind == Kind::kDevice;
}

// What a context and libraries take at once, and what code does once a kernel has been launched.
constexpr int kDevices = 4;
constexpr size_t kTotalBytes = size_t{2} << 30, kContextBytes = size_t{1} << 30, kCodeBytes = size_t{64} << 20;
// On the device that is set.
size_t AllocatedBytes() {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  size_t bytes = 0;
  for (const auto& [at, piece] : memory) bytes += piece.kind == Kind::kDevice && piece.device == CurrentDevice() ? piece.bytes : 0;
  return bytes;
}
size_t FreeBytes() {
  const size_t taken = kContextBytes + (Count("launch") > 0 ? kCodeBytes : 0) + AllocatedBytes();
  return kTotalBytes - std::min(taken, kTotalBytes);
}

cudaError_t Take(void** at, size_t bytes, Kind kind) {
  if (const cudaError_t error = Enter(kind == Kind::kDevice ? "alloc" : "hostalloc"); error != cudaSuccess) return error;
  if (const cudaError_t error = MayCall(); error != cudaSuccess) return error;
  // Not a byte more than was asked for: AddressSanitizer sees what is read behind it.
  if (bytes > FreeBytes() || posix_memalign(at, 256, bytes > 0 ? bytes : 1) != 0) return Say(cudaErrorMemoryAllocation);
  std::memset(*at, 0xcb, bytes);  // what nothing has written yet
  {
    const std::lock_guard<std::mutex> lock(memory_mutex);
    memory[static_cast<char*>(*at)] = {bytes > 0 ? bytes : 1, kind, CurrentDevice()};
  }
  CountMost("bytes", static_cast<int64_t>(AllocatedBytes()));
  return cudaSuccess;
}

// Once nothing uses it any more, as CUDA waits for that.
cudaError_t GiveBack(void* at, Kind kind, cudaError_t otherwise) {
  if (at == nullptr) return cudaSuccess;
  const cudaError_t entered = Enter();
  if (const cudaError_t error = MayCall(); error != cudaSuccess) return error;
  RunAll();
  Block("giving back memory");
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const auto found = memory.find(static_cast<const char*>(at));
  if (found == memory.end() || found->second.kind != kind) return Say(otherwise);
  CountStray(found->second.device);
  memory.erase(found);
  if (kind != Kind::kRegistered) std::free(at);
  return entered;  // a device that is lost gives nothing back before the process ends, but this one is the host's
}

// Whether a page of [at, at + bytes) is page-locked already, as it stands in a page that another range has part of.
bool SharesPage(const void* at, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto first = [](const void* from) { return reinterpret_cast<uintptr_t>(from) / kPage; };
  const auto last = [](const void* from, size_t size) { return (reinterpret_cast<uintptr_t>(from) + size - 1) / kPage; };
  const std::lock_guard<std::mutex> lock(memory_mutex);
  for (const auto& [from, piece] : memory) {
    if (piece.kind == Kind::kRegistered && first(from) <= last(at, bytes) && first(at) <= last(from, piece.bytes)) return true;
  }
  return false;
}

}  // namespace

bool millrace::cuda::fake::OnDevice(const void* at, size_t bytes, int device) {
  bool whole = false;
  const Piece* const piece = Holding(at, bytes, &whole);
  return piece != nullptr && piece->kind == Kind::kDevice && whole && piece->device == device;
}

void millrace::cuda::fake::DropMemory() {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  for (const auto& [at, piece] : memory) {
    if (piece.kind != Kind::kRegistered) std::free(const_cast<char*>(at));
  }
  memory.clear();
}

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) { return *version = Setting("driver", 13000), cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = Setting("devices", kDevices);
  if (const int error = Setting("init", 0); error != 0) return Say(static_cast<cudaError_t>(error));
  return Say(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  const cudaError_t error = Enter();
  if (error != cudaSuccess) return error;
  if (device < 0 || device >= Setting("devices", kDevices)) return Say(cudaErrorInvalidDevice);
  return CurrentDevice() = device, cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "fake");
  const int64_t process = Process();  // a new one may open what another one has lost
  std::memcpy(properties->uuid.bytes, &process, sizeof process);
  properties->major = Setting("capability", 90) / 10;
  properties->minor = Setting("capability", 90) % 10;
  properties->multiProcessorCount = 1;
  return cudaSuccess;
}
// Otherwise as where a container hides what the device is.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: return *value = Setting("capability", 90) / 10, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: return *value = Setting("capability", 90) % 10, cudaSuccess;
    case cudaDevAttrHostNumaId: return *value = 0, cudaSuccess;
    default: return Say(cudaErrorNotSupported);
  }
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  return *free_bytes = FreeBytes(), *total_bytes = kTotalBytes, cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorECCUncorrectable: return "cudaErrorECCUncorrectable";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorLaunchOutOfResources: return "cudaErrorLaunchOutOfResources";
    case cudaErrorInitializationError: return "cudaErrorInitializationError";
    case cudaErrorUnknown: return "cudaErrorUnknown";
    default: return "fakeError";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorECCUncorrectable: return "uncorrectable ECC error encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorInitializationError: return "initialization error";
    case cudaErrorUnknown: return "unknown error";
    case cudaErrorStreamCaptureUnsupported: return "not permitted while the stream is captured";
    case cudaErrorStreamCaptureInvalidated: return "the capture was spoilt before";
    case cudaErrorStreamCaptureUnjoined: return "the capture has streams that its first does not wait for";
    case cudaErrorStreamCaptureIsolation: return "an event from outside of the capture";
    case cudaErrorCapturedEvent: return "an event of a capture that has ended";
    case cudaErrorInvalidResourceHandle: return "no such stream or event";
    case cudaErrorInvalidValue: return "an invalid value";
    default: return "an error of the fake";
  }
}

cudaError_t cudaMalloc(void** at, size_t bytes) { return Take(at, bytes, Kind::kDevice); }
cudaError_t cudaFree(void* at) { return GiveBack(at, Kind::kDevice, cudaErrorInvalidValue); }
cudaError_t cudaHostAlloc(void** at, size_t bytes, unsigned) { return Take(at, bytes, Kind::kHost); }
cudaError_t cudaFreeHost(void* at) { return GiveBack(at, Kind::kHost, cudaErrorInvalidValue); }
cudaError_t cudaHostRegister(void* at, size_t bytes, unsigned) {
  if (const cudaError_t error = Enter("pin"); error != cudaSuccess) return error;
  if (const cudaError_t error = MayCall(); error != cudaSuccess) return error;
  if (at == nullptr || bytes == 0) return Say(cudaErrorInvalidValue);
  bool whole = false;
  if (SharesPage(at, bytes) || Holding(at, bytes, &whole) != nullptr) return Say(cudaErrorHostMemoryAlreadyRegistered);
  const std::lock_guard<std::mutex> lock(memory_mutex);
  memory[static_cast<char*>(at)] = {bytes, Kind::kRegistered, CurrentDevice()};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* at) { return GiveBack(at, Kind::kRegistered, cudaErrorHostMemoryNotRegistered); }
cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  if (bytes > 0 && !OnDevice(at, bytes, DeviceOf(stream))) return Say(cudaErrorInvalidValue);
  return Enqueue(stream, [=] { std::memset(at, value, bytes); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = Enter("copy"); error != cudaSuccess) return error;
  if (bytes == 0) return Enqueue(stream, [] {});
  const bool to_host = kind == cudaMemcpyDeviceToHost;
  if (!to_host && kind != cudaMemcpyHostToDevice) return Say(cudaErrorInvalidMemcpyDirection);
  const void *const device = to_host ? from : to, *const host = to_host ? to : from;
  if (!OnDevice(device, bytes, DeviceOf(stream)) || TouchesDevice(host, bytes)) return Say(cudaErrorInvalidValue);
  const auto copy = [=] { std::memmove(to, from, bytes); };
  if (IsPinned(host, bytes)) return Enqueue(stream, copy);
  if (IsCapturing(stream)) return MayCall(), Say(cudaErrorStreamCaptureUnsupported);
  // Pageable memory: the caller waits for the stream, and copies.
  if (const cudaError_t error = cudaStreamSynchronize(stream); error != cudaSuccess) return error;
  copy();
  return cudaSuccess;
}

// A library is taken as it is, as CUDA does: what is wrong with its code shows when a kernel is first asked of. Code for a device does
// not load here: groups of elementwise ops go to the kernel that reads them.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**, unsigned) {
  if (const cudaError_t error = Enter("library"); error != cudaSuccess) return error;
  return *library = reinterpret_cast<cudaLibrary_t>(&kernel_of_library), cudaSuccess;
}
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return Block("cudaLibraryUnload"), cudaSuccess; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char*) {
  return *kernel = reinterpret_cast<cudaKernel_t>(&kernel_of_library), cudaSuccess;
}
// Kernels here are compiled for devices of compute capability 9.0.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (const cudaError_t error = Enter(); error != cudaSuccess) return error;
  if (kernel == nullptr) return Say(cudaErrorInvalidDeviceFunction);
  if (kernel == &kernel_of_library) return Say(static_cast<cudaError_t>(Setting("code", cudaErrorNotSupported)));
  std::memset(attributes, 0, sizeof *attributes);
  return Say(Setting("capability", 90) == 90 ? cudaSuccess : cudaErrorNoKernelImageForDevice);
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) { return Say(cudaErrorNotSupported); }

}  // extern "C"
