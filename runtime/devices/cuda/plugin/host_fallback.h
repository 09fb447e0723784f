// Ops that have no kernel on the device run on the host, as part of the stream: inputs are copied out, the CPU's kernel
// runs as a host function of the stream, outputs are copied back. No step waits for it but those behind it.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_HOST_FALLBACK_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_HOST_FALLBACK_H_

#include "cuda/plugin/cuda_services.h"
#include "cuda/plugin_api.h"
#include "millrace/kernel.h"

namespace millrace::cuda {

// For every op of `host`: where `registry` has no kernel, or its factory refuses an instance as Unimplemented, the
// host's kernel.
void AddHostFallbacks(const HostOps& host, CudaServices& services, KernelRegistry& registry);

// False for a fallback whose memory could not be page-locked.
bool CanCaptureFallback(const Kernel& kernel);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_HOST_FALLBACK_H_
