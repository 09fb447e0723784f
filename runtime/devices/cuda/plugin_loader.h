// Opens the CUDA plugin. Nothing of CUDA is linked into the program: where the plugin or its libraries are missing, all
// other devices work.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_LOADER_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_LOADER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cuda/plugin_api.h"
#include "millrace/kernel.h"
#include "millrace/op.h"

namespace millrace::cuda {

inline constexpr char kPluginFile[] = "libmillrace_cuda.so";

// The plugin at `path`, or, when that is empty, the one of $MILLRACE_CUDA_PLUGIN, or without it the first there is of: the folder of libmillrace.so in a
// program that embeds it, the folder of the program, ../lib and ../lib64 beside it, and where the loader looks. It stays
// loaded. NotFound says where it was looked for and why it did not load; FailedPrecondition that it is of another build.
absl::StatusOr<const PluginTable*> LoadPlugin(const std::string& path = "");

// For DriverOptions, of registries that outlive the driver.
HostOps HostOpsOf(const KernelRegistry& kernels, const OpRegistry& ops);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_LOADER_H_
