// The texts of the headers that kernels compiled at run time include; kernel_headers.cc is made when the build is configured.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_KERNEL_HEADERS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_KERNEL_HEADERS_H_

#include <vector>

namespace millrace::cuda {

struct KernelHeader {
  const char* name;  // as it is included
  const char* text;
};
const std::vector<KernelHeader>& KernelHeaders();

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_KERNEL_HEADERS_H_
