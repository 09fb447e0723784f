#include "session/open_device.h"

#include <algorithm>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cpu/cpu_device.h"
#include "cuda/emulated/emulated_kernels.h"
#include "cuda/plugin_loader.h"
#include "millrace/device.h"
#include "millrace/status.h"
#include "stream/emulated_driver.h"
#include "stream/stream_device.h"

namespace millrace {
namespace {

absl::StatusOr<std::unique_ptr<DeviceDriver>> OpenCudaDriver(const SessionOptions& options, int index) {
  MR_ASSIGN_OR_RETURN(const cuda::PluginTable* plugin, cuda::LoadPlugin());
  const KernelRegistry* host = options.kernels != nullptr ? options.kernels.get() : &CpuKernels();
  MR_ASSIGN_OR_RETURN(std::unique_ptr<DeviceDriver> driver,
                      plugin->open({.index = index,
                                    .tf32 = options.tf32,
                                    .measure_convolutions = options.measure_convolutions,
                                    .timeout_seconds = options.device_timeout_seconds,
                                    .host = cuda::HostOpsOf(*host, options.ops != nullptr ? *options.ops : OpRegistry::Builtin())}));
  const DriverInfo& info = driver->info();
  LOG(INFO) << "cuda:" << index << " is " << info.name << ", " << FormatBytes(info.total_bytes) << ", of which "
            << FormatBytes(info.context_bytes) << " are taken by the CUDA context and other programs";
  return driver;
}

absl::StatusOr<std::unique_ptr<RuntimeDevice>> OpenDevice(const SessionOptions& options, int index,
                                                          const std::shared_ptr<EmulatedMachine>& emulated_machine) {
  if (options.device == "null") return std::unique_ptr<RuntimeDevice>();
  if (options.device == "cpu") {
    return options.kernels ? cpu::MakeCpuDevice(index, options.kernels) : cpu::MakeCpuDevice(index);
  }
  if (!options.on_cuda()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown device '", options.device, "', expected one of cpu, cuda, cuda_emulated, null"));
  }
  if (options.link_gbps > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("link_gbps slows copies of the device cpu, not of ", options.device, ": its link is what it is"));
  }
  MR_ASSIGN_OR_RETURN(const GraphCapture capture, ParseGraphCapture(options.cuda_graph));
  std::unique_ptr<DeviceDriver> driver;
  if (options.device == "cuda") {
    MR_ASSIGN_OR_RETURN(driver, OpenCudaDriver(options, index));
  } else {
    EmulatedOptions emulated;
    emulated.device_memory_bytes = int64_t{1} << 40;  // mapped, not touched
    emulated.seed = options.seed + static_cast<uint64_t>(index);
    emulated.max_delay_microseconds = 20;
    const KernelRegistry* host = options.kernels != nullptr ? options.kernels.get() : &CpuKernels();
    MR_ASSIGN_OR_RETURN(driver, MakeEmulatedDriver(cuda::MakeEmulatedKernels(*host), emulated, emulated_machine));
  }
  return MakeStreamDevice(options.device, index, std::move(driver), capture);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<RuntimeDevice>>> OpenDevices(const SessionOptions& options, int count) {
  std::vector<std::unique_ptr<RuntimeDevice>> devices;
  const auto emulated_machine = options.device == "cuda_emulated" ? MakeEmulatedMachine() : nullptr;
  for (int index = 0; index < count; ++index) {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<RuntimeDevice> device, OpenDevice(options, index, emulated_machine));
    if (device != nullptr) devices.push_back(std::move(device));
  }
  return devices;
}

Machine MachineOf(const RuntimeDevice& device, Machine machine) {
  const auto* stream = dynamic_cast<const StreamDevice*>(&device);
  if (stream == nullptr) return machine;
  machine.tensor_alignment_bytes = StreamDevice::kAlignment;
  if (machine.name != Machine().name) return machine;
  const DriverInfo& info = stream->driver().info();
  if (info.flops_per_second <= 0 || info.memory_bytes_per_second <= 0) return machine;
  machine.name = "cuda";
  // The libraries load their code when it is first used.
  constexpr int64_t kForLibraries = int64_t{1} << 30;
  machine.device_memory_bytes = std::max<int64_t>(info.free_bytes - kForLibraries, 0);
  // What large products and convolutions of float32 reach of an H200's rate (bench/results/cuda_h200.md).
  machine.flops_per_second = info.flops_per_second * 0.7;
  machine.convolution_flops_per_second = info.flops_per_second * 0.52;
  machine.memory_bytes_per_second = info.memory_bytes_per_second * 0.8;
  // PCIe of the generation that came with it, page-locked.
  machine.to_host_bytes_per_second = machine.to_device_bytes_per_second = info.compute_capability >= 90 ? 50e9 : 24e9;
  machine.copy_latency_seconds = 8e-6;
  machine.launch_seconds = 3e-6;
  machine.copy_launch_seconds = 0.8e-6;  // bench/results/cuda_h200.md
  return machine;
}

}  // namespace millrace
