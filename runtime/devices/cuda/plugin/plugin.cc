// The plugin's one symbol.
#include "cuda/plugin/cuda_driver.h"
#include "cuda/plugin_api.h"

extern "C" __attribute__((visibility("default"))) const millrace::cuda::PluginTable* millrace_cuda_plugin_v1() {
  static const std::string abi = millrace::cuda::PluginAbi();
  static const millrace::cuda::PluginTable table = {millrace::cuda::kPluginVersion, abi.c_str(),
                                                    &millrace::cuda::OpenCudaDriver};
  return &table;
}
