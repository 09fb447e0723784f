// What the CUDA plugin and the program that loads it agree on: one symbol, which gives the table below. Both sides are
// C++ of one build; `abi` says so, and a plugin of another build is refused before anything of it is called.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_API_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_API_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "millrace/kernel.h"
#include "millrace/op.h"
#include "stream/device_driver.h"

namespace millrace::cuda {

// What runs on the host where the device has no kernel for it. It refers to registries that outlive the driver.
struct HostOps {
  const KernelRegistry* kernels = nullptr;
  std::function<const OpDef*(const std::string& op)> describe;  // nullptr for ops that are in no registry
};

struct DriverOptions {
  int index = 0;                              // of the device, as CUDA counts them
  bool tf32 = false;                          // float32 products and convolutions may round their inputs to TF32
  bool measure_convolutions = false;          // SessionOptions::measure_convolutions
  double timeout_seconds = 0;                 // SessionOptions::device_timeout_seconds
  HostOps host;
};

// Grows by one with every change of the types that cross: this table, DeviceDriver, Kernel, OpInstance, Tensor.
inline constexpr int32_t kPluginVersion = 10;
inline constexpr char kPluginSymbol[] = "millrace_cuda_plugin_v1";

struct PluginTable {
  int32_t version = kPluginVersion;
  const char* abi = nullptr;  // PluginAbi() of the plugin's build
  absl::StatusOr<std::unique_ptr<DeviceDriver>> (*open)(const DriverOptions& options) = nullptr;
};
using PluginEntry = const PluginTable* (*)();

// What must be equal on both sides: the compiler and the sizes of what crosses.
inline std::string PluginAbi() {
  return std::string("g++ ") + __VERSION__ + " version " + std::to_string(kPluginVersion) + " sizes " +
         std::to_string(sizeof(OpInstance)) + " " + std::to_string(sizeof(Tensor)) + " " +
         std::to_string(sizeof(KernelContext)) + " " + std::to_string(sizeof(DriverInfo)) + " " +
         std::to_string(sizeof(AttrValue)) + " " + std::to_string(sizeof(DriverOptions)) + " " + std::to_string(sizeof(OpDef));
}

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_PLUGIN_API_H_
