#include "cuda/plugin/cuda_driver.h"

#include <cuda_runtime_api.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"
#include "cuda/kernels/register.h"
#include "cuda/launch/device_code.h"
#include "cuda/launch/faults.h"
#include "cuda/plugin/cuda_errors.h"
#include "cuda/plugin/cuda_services.h"
#include "cuda/plugin/device_watch.h"
#include "cuda/plugin/host_fallback.h"
#include "cuda/plugin/page_locked.h"
#include "cuda/plugin/run_ahead.h"
#include "millrace/status.h"
#include "stream/driver_errors.h"

namespace millrace::cuda {
namespace {

#define MR_CUDA(call) MR_RETURN_IF_ERROR(CudaStatus(call, info_.name, #call))

cudaStream_t Raw(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t RawEvent(DeviceEvent event) { return static_cast<cudaEvent_t>(event); }

class CudaDriver final : public DeviceDriver {
 public:
  explicit CudaDriver(const DriverOptions& options) : options_(options) {}
  ~CudaDriver() override {
    if (GivenUp()) {
      KeepForever(std::shared_ptr<CudaServices>(std::move(services_)));  // what its streams hold refers to it
      return;
    }
    cudaSetDevice(options_.index);
    registry_ = KernelRegistry();
    services_.reset();
    for (const auto& [stream, published] : published_) cudaFreeHost(published);
    if (fault_host_ != nullptr) cudaFreeHost(fault_host_);
    if (fault_ != nullptr) cudaFree(fault_);
  }

  absl::Status Init() {
    info_.name = absl::StrCat("cuda:", options_.index);
    MR_CUDA(cudaSetDevice(options_.index));
    MR_RETURN_IF_ERROR(FillInfo());
    // Whatever waits for it might wait for ever.
    if (WasGivenUp(identity_)) return DeviceLost(info_.name, "it did not answer a session of this process");
    watch_ = std::make_shared<DeviceWatch>(info_.name, options_.index, identity_, options_.timeout_seconds);
    run_ahead_ = std::make_unique<RunAhead>(watch_);
    MR_RETURN_IF_ERROR(CheckCode());
    void* fault = nullptr;
    MR_CUDA(cudaMalloc(&fault, sizeof(Fault)));
    fault_ = static_cast<Fault*>(fault);
    MR_RETURN_IF_ERROR(ClearFault());
    MR_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&fault_host_), sizeof(Fault), cudaHostAllocDefault));
    MR_ASSIGN_OR_RETURN(services_, CudaServices::Create(watch_, options_.index, fault_, {options_.tf32, options_.measure_convolutions}));
    RegisterCudaKernels(registry_, *services_);
    AddHostFallbacks(options_.host, *services_, registry_);
    // What is not free now: the context, the libraries' own memory, and other programs.
    size_t free_bytes = 0, total_bytes = 0;
    MR_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    info_.free_bytes = static_cast<int64_t>(free_bytes);
    info_.total_bytes = static_cast<int64_t>(total_bytes);
    info_.context_bytes = info_.total_bytes - info_.free_bytes;
    return absl::OkStatus();
  }

  const DriverInfo& info() const override { return info_; }
  const KernelRegistry& kernels() const override { return registry_; }

  absl::StatusOr<void*> AllocateDevice(int64_t bytes) override {
    MR_RETURN_IF_ERROR(watch_->Use());
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t free_bytes = 0, total_bytes = 0;
      cudaMemGetInfo(&free_bytes, &total_bytes);
      return OutOfDeviceMemory(info_.name, bytes, static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes));
    }
    MR_RETURN_IF_ERROR(CudaStatus(error, info_.name, "cudaMalloc"));
    return memory;
  }
  void FreeDevice(void* memory) override {
    if (GivenUp()) return;
    cudaSetDevice(options_.index);
    cudaFree(memory);
  }
  void LendForTrials(void* memory, int64_t bytes) override {
    services_->LendForTrials(memory, bytes);
  }
  absl::Status LoadKernels() override { return services_->LoadFusions(); }
  absl::StatusOr<int64_t> FreeBytes() override {
    MR_RETURN_IF_ERROR(watch_->Use());
    size_t free_bytes = 0, total_bytes = 0;
    MR_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    return static_cast<int64_t>(free_bytes);
  }
  absl::Status PinHost(void* memory, int64_t bytes) override {
    MR_RETURN_IF_ERROR(watch_->Use());
    PreferNode(memory, bytes);
    const cudaError_t error = cudaHostRegister(memory, static_cast<size_t>(bytes), cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error == cudaSuccess) {
      AddPageLocked(memory, bytes);
      return absl::OkStatus();
    }
    cudaGetLastError();
    return PinningRefused(bytes, cudaGetErrorString(error));
  }
  bool UnpinHost(void* memory) override {
    RemovePageLocked(memory);
    if (GivenUp()) return false;
    cudaSetDevice(options_.index);
    cudaHostUnregister(memory);
    return true;
  }

  absl::StatusOr<DeviceStream> CreateStream() override {
    MR_RETURN_IF_ERROR(watch_->Use());
    cudaStream_t stream = nullptr;
    MR_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return static_cast<DeviceStream>(stream);
  }
  void DestroyStream(DeviceStream stream) override {
    if (GivenUp()) return;
    cudaSetDevice(options_.index);
    if (services_ != nullptr) services_->LeaveStream(Raw(stream));
    run_ahead_->Leave(Raw(stream));
    if (const auto published = published_.find(stream); published != published_.end()) {
      cudaFreeHost(published->second);
      published_.erase(published);
    }
    cudaStreamDestroy(Raw(stream));
  }
  absl::Status Synchronize(DeviceStream stream) override {
    run_ahead_->Idle(Raw(stream));
    return watch_->Synchronize(Raw(stream));
  }

  absl::StatusOr<DeviceEvent> CreateEvent(bool timed) override {
    MR_RETURN_IF_ERROR(watch_->Use());
    cudaEvent_t event = nullptr;
    MR_CUDA(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
    return static_cast<DeviceEvent>(event);
  }
  void DestroyEvent(DeviceEvent event) override {
    if (GivenUp()) return;
    cudaSetDevice(options_.index);
    cudaEventDestroy(RawEvent(event));
  }
  absl::Status Record(DeviceEvent event, DeviceStream stream) override {
    MR_RETURN_IF_ERROR(BeforeCall(stream));
    MR_CUDA(cudaEventRecord(RawEvent(event), Raw(stream)));
    return absl::OkStatus();
  }
  absl::Status WaitFor(DeviceStream stream, DeviceEvent event) override {
    MR_RETURN_IF_ERROR(BeforeCall(stream));
    MR_CUDA(cudaStreamWaitEvent(Raw(stream), RawEvent(event), 0));
    return absl::OkStatus();
  }
  absl::Status SynchronizeEvent(DeviceEvent event) override { return watch_->Synchronize(RawEvent(event)); }
  absl::StatusOr<double> SecondsBetween(DeviceEvent from, DeviceEvent to) override {
    MR_RETURN_IF_ERROR(watch_->Use());
    float milliseconds = 0;
    MR_CUDA(cudaEventElapsedTime(&milliseconds, RawEvent(from), RawEvent(to)));
    return static_cast<double>(milliseconds) * 1e-3;
  }

  absl::Status CopyToHost(void* host, const void* device, int64_t bytes, DeviceStream stream) override {
    MR_RETURN_IF_ERROR(BeforeCopy(host, bytes, stream));
    MR_CUDA(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, Raw(stream)));
    return absl::OkStatus();
  }
  absl::Status CopyToDevice(void* device, const void* host, int64_t bytes, DeviceStream stream) override {
    MR_RETURN_IF_ERROR(BeforeCopy(host, bytes, stream));
    MR_CUDA(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, Raw(stream)));
    return absl::OkStatus();
  }

  absl::Status Launch(const Kernel& kernel, const KernelContext& context, DeviceStream stream, int64_t position) override {
    MR_RETURN_IF_ERROR(BeforeCall(stream));
    services_->set_position(position);
    MR_RETURN_IF_ERROR(run_ahead_->Around([&] { return kernel.Run(context); }));
    // A launch that was refused (a bad configuration) says so only here.
    MR_CUDA(cudaPeekAtLastError());
    return absl::OkStatus();
  }

  const GroupedKernel* Grouped(const Kernel& kernel) const override { return dynamic_cast<const GroupedKernel*>(&kernel); }
  absl::Status LaunchTogether(absl::Span<const GroupMember> members, DeviceStream stream, int64_t position) override {
    MR_RETURN_IF_ERROR(BeforeCall(stream));
    services_->set_position(position);
    MR_RETURN_IF_ERROR(run_ahead_->Around([&] { return members[0].kernel->RunTogether(members); }));
    MR_CUDA(cudaPeekAtLastError());
    return absl::OkStatus();
  }

  absl::Status PublishFaults(DeviceStream stream) override {
    MR_RETURN_IF_ERROR(BeforeCall(stream));
    Fault*& published = published_[stream];
    if (published == nullptr) {
      // Any device's kernels read it.
      MR_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&published), sizeof(Fault), cudaHostAllocPortable | cudaHostAllocMapped));
    }
    MR_CUDA(cudaMemcpyAsync(published, fault_, sizeof(Fault), cudaMemcpyDeviceToHost, Raw(stream)));
    return absl::OkStatus();
  }
  absl::Status TakeOverFaults(DeviceStream stream, DeviceDriver& other, DeviceStream from, int64_t position) override {
    MR_RETURN_IF_ERROR(BeforeCall(stream));
    const std::map<DeviceStream, Fault*>& published = static_cast<CudaDriver&>(other).published_;
    const auto found = published.find(from);
    if (found == published.end()) return absl::InternalError(absl::StrCat(info_.name, ": a stream of ", other.info().name, " has published no fault"));
    TakeOverFault({Raw(stream), fault_, position}, found->second);
    MR_CUDA(cudaPeekAtLastError());
    return absl::OkStatus();
  }
  absl::StatusOr<KernelFault> TakeFault(DeviceStream stream, NodeAt node_at) override {
    MR_RETURN_IF_ERROR(watch_->Use());
    MR_CUDA(cudaMemcpyAsync(fault_host_, fault_, sizeof(Fault), cudaMemcpyDeviceToHost, Raw(stream)));
    MR_RETURN_IF_ERROR(watch_->Synchronize(Raw(stream)));
    KernelFault fault = services_->TakeHostFault();
    if (fault_host_->code == FaultCode::kNone) return fault;
    if (fault_host_->code != FaultCode::kOnHost) {
      const OpInstance* const node = node_at(fault_host_->position);
      fault = {fault_host_->position, FaultStatus(*fault_host_, node != nullptr ? *node : OpInstance()),
               fault_host_->code == FaultCode::kElsewhere};
    }
    MR_CUDA(cudaMemsetAsync(fault_, 0, sizeof(Fault), Raw(stream)));
    MR_RETURN_IF_ERROR(watch_->Synchronize(Raw(stream)));
    return fault;
  }

  absl::Status BeginCapture(DeviceStream stream) override {
    MR_RETURN_IF_ERROR(watch_->Use());
    MR_RETURN_IF_ERROR(services_->LoadFusions());
    // Of this thread alone: another one may be planning.
    MR_CUDA(cudaStreamBeginCapture(Raw(stream), cudaStreamCaptureModeThreadLocal));
    return absl::OkStatus();
  }
  absl::StatusOr<DeviceGraph> EndCapture(DeviceStream stream) override {
    cudaGraph_t graph = nullptr;
    // Before all that may go wrong: nothing is to be captured any more.
    MR_CUDA(cudaStreamEndCapture(Raw(stream), &graph));
    cudaGraphExec_t executable = nullptr;
    absl::Status made = watch_->Use();
    if (made.ok()) made = CudaStatus(cudaGraphInstantiate(&executable, graph, 0), info_.name, "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    MR_RETURN_IF_ERROR(made);
    return static_cast<DeviceGraph>(executable);
  }
  absl::Status LaunchGraph(DeviceGraph graph, DeviceStream stream) override {
    MR_RETURN_IF_ERROR(watch_->Use());
    MR_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), Raw(stream)));
    return absl::OkStatus();
  }
  void DestroyGraph(DeviceGraph graph) override {
    if (GivenUp()) return;
    cudaSetDevice(options_.index);
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
  }
  bool CanCapture(const Kernel& kernel) const override { return CanCaptureFallback(kernel); }

 private:
  bool GivenUp() const { return watch_ != nullptr && watch_->given_up(); }

  // One that gives the stream something to do.
  absl::Status BeforeCall(DeviceStream stream) {
    MR_RETURN_IF_ERROR(watch_->Use());
    return run_ahead_->BeforeCall(Raw(stream));
  }

  // CUDA waits for the stream itself where host memory is not page-locked, for ever if need be.
  absl::Status BeforeCopy(const void* host, int64_t bytes, DeviceStream stream) {
    return IsPageLocked(host, bytes) ? BeforeCall(stream) : Synchronize(stream);
  }

  // On a stream of its own: neither the legacy stream nor the device as a whole may be waited for while another session
  // captures a step.
  absl::Status ClearFault() {
    MR_ASSIGN_OR_RETURN(const DeviceStream stream, CreateStream());
    absl::Status cleared = CudaStatus(cudaMemsetAsync(fault_, 0, sizeof(Fault), Raw(stream)), info_.name, "cudaMemsetAsync");
    cleared.Update(Synchronize(stream));
    DestroyStream(stream);
    return cleared;
  }

  absl::Status FillInfo() {
    cudaDeviceProp properties;
    MR_CUDA(cudaGetDeviceProperties(&properties, options_.index));
    info_.name = absl::StrCat(properties.name, " (cuda:", options_.index, ")");
    // With its index, where a virtual machine gives all devices the same one.
    identity_ = absl::StrCat(options_.index, " ", absl::string_view(properties.uuid.bytes, sizeof properties.uuid.bytes));
    info_.compute_capability = properties.major * 10 + properties.minor;
    MR_CUDA(cudaDriverGetVersion(&info_.driver_version));
    MR_CUDA(cudaRuntimeGetVersion(&info_.runtime_version));
    // Rates are for planning: a device that does not tell is planned for as any other.
    const auto attribute = [&](cudaDeviceAttr which, int otherwise) {
      int value = otherwise;
      if (cudaDeviceGetAttribute(&value, which, options_.index) == cudaSuccess) return value;
      cudaGetLastError();
      return otherwise;
    };
    const int clock_khz = attribute(cudaDevAttrClockRate, 0), memory_khz = attribute(cudaDevAttrMemoryClockRate, 0);
    const int bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, 0);
    info_.numa_node = attribute(cudaDevAttrHostNumaId, -1);
    constexpr double kLanesPerProcessor = 128;
    info_.flops_per_second = 2.0 * kLanesPerProcessor * properties.multiProcessorCount * clock_khz * 1e3;
    info_.memory_bytes_per_second = 2.0 * memory_khz * 1e3 * bus_bits / 8;
    return absl::OkStatus();
  }

  // Otherwise the first kernel of the first step would find out.
  absl::Status CheckCode() const {
    const DeviceCode code = CompiledDeviceCode();
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, code.kernel);
    switch (error) {
      case cudaErrorNoKernelImageForDevice:
      case cudaErrorInvalidDeviceFunction:
      case cudaErrorInvalidKernelImage:
      case cudaErrorUnsupportedPtxVersion:
        cudaGetLastError();
        return NoDeviceCode(info_.name, info_.compute_capability, code.architectures, cudaGetErrorString(error));
      default: return CudaStatus(error, info_.name, "cudaFuncGetAttributes");
    }
  }

  // Pages that come from now on lie near the device, where there are nodes to choose from.
  void PreferNode(void* memory, int64_t bytes) const {
    constexpr int kPreferred = 1;  // MPOL_PREFERRED
    constexpr int kMostNodes = 64;
    if (info_.numa_node < 0 || info_.numa_node >= kMostNodes) {
      VLOG(1) << info_.name << ": no host memory is known to be near, " << bytes << " bytes lie where the system puts them";
      return;
    }
    const unsigned long mask = 1UL << info_.numa_node;
    // The kernel takes one node less than it is told of. A hint: where it is refused, pages lie wherever the system puts them.
    const bool done = syscall(SYS_mbind, memory, static_cast<unsigned long>(bytes), kPreferred, &mask, kMostNodes + 1UL, 0U) == 0;
    const std::string refused = done ? "" : std::strerror(errno);
    VLOG(1) << info_.name << ": " << bytes << " bytes of host memory " << (done ? "" : "do not ") << "prefer NUMA node " << info_.numa_node
            << (done ? "" : ": ") << refused;
  }

  const DriverOptions options_;
  DriverInfo info_;
  std::string identity_;         // of the device, in this process
  Fault* fault_ = nullptr;       // on the device
  Fault* fault_host_ = nullptr;  // page-locked
  std::map<DeviceStream, Fault*> published_;  // page-locked, for other devices
  std::shared_ptr<DeviceWatch> watch_;
  std::unique_ptr<RunAhead> run_ahead_;
  std::unique_ptr<CudaServices> services_;
  KernelRegistry registry_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceDriver>> OpenCudaDriver(const DriverOptions& options) {
  int version = 0, runtime = 0, count = 0;
  const auto fails = [](cudaError_t error) { return DriverFails(absl::StrCat(cudaGetErrorName(error), ", ", cudaGetErrorString(error))); };
  if (const cudaError_t error = cudaDriverGetVersion(&version); error != cudaSuccess) return fails(error);
  if (version == 0) return NoDriver("libcuda.so.1 was not found");
  if (const cudaError_t error = cudaRuntimeGetVersion(&runtime); error != cudaSuccess) return fails(error);
  if (version / 1000 < runtime / 1000) return DriverTooOld(version, runtime / 1000 * 1000);
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) return DriverTooOld(version, runtime);
  if (error == cudaErrorNoDevice) {
    count = 0;
  } else if (error != cudaSuccess) {
    return fails(error);
  }
  if (options.index < 0 || options.index >= count) return NoDevice(options.index, count);
  auto driver = std::make_unique<CudaDriver>(options);
  MR_RETURN_IF_ERROR(driver->Init());
  return std::unique_ptr<DeviceDriver>(std::move(driver));
}

}  // namespace millrace::cuda
