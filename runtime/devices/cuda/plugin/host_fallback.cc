#include "cuda/plugin/host_fallback.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <glog/logging.h>

#include "cuda/kernels/merge.h"
#include "cuda/launch/pace.h"
#include "cuda/plugin/cuda_errors.h"
#include "graph/exceptions.h"
#include "millrace/status.h"

namespace millrace::cuda {
namespace {

class SerialRunner final : public ParallelRunner {
 public:
  void For(int64_t shards, absl::FunctionRef<void(int64_t)> fn) override {
    for (int64_t i = 0; i < shards; ++i) fn(i);
  }
};

// Page-locked memory where that is to be had.
class Staging {
 public:
  explicit Staging(const CudaServices& services) : services_(services) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    if (services_.watch().given_up()) {
      KeepForever(std::make_shared<Tensor>(std::move(pageable_)));  // a stream may still write there
    } else if (pinned_) {
      services_.Use().IgnoreError();  // what is asked for next says so, too
      cudaFreeHost(data_);
    }
  }
  void Reserve(int64_t bytes) {
    bytes = std::max<int64_t>(bytes, kTensorAlignment);
    pinned_ = cudaHostAlloc(&data_, static_cast<size_t>(bytes), cudaHostAllocDefault) == cudaSuccess;
    if (pinned_) return;
    cudaGetLastError();
    pageable_ = Tensor(DataType::kUint8, Shape({bytes + kTensorAlignment}));
    data_ = reinterpret_cast<void*>(AlignUp(reinterpret_cast<intptr_t>(pageable_.mutable_data())));
  }
  char* data() const { return static_cast<char*>(data_); }
  bool pinned() const { return pinned_; }

 private:
  const CudaServices& services_;
  void* data_ = nullptr;
  bool pinned_ = false;
  Tensor pageable_;
};

// One run that the stream will make: all that its host function needs.
struct Call {
  const Kernel* kernel = nullptr;
  CudaServices* services = nullptr;
  KernelContext context;
  int64_t position = 0;
  std::vector<void*> inputs, outputs;
  std::vector<char> flags;
  std::vector<const bool*> initialized;
  Fault* fault = nullptr;  // the stream's fault word, copied before the call and back after it
};

void RunKernel(Call& call) {
  if (call.fault->code != FaultCode::kNone) return;  // as kernels on the device do
  SerialRunner serial;
  call.context.parallel = &serial;
  // CUDA's thread that calls this would not survive an exception.
  const absl::Status status = WithoutKernelExceptions([&] { return call.kernel->Run(call.context); });
  if (status.ok()) return;
  call.fault->code = FaultCode::kOnHost;
  call.fault->position = call.position;
  call.services->ReportHostFault({call.position, status});
}

void RunCall(void* argument) {
  Call& call = *static_cast<Call*>(argument);
  DeviceWatch& watch = call.services->watch();
  if (!watch.BeginHostCall()) return;
  RunKernel(call);
  watch.EndHostCall();
}

// Tensors are read.
VariableUse UseOf(const OpDef* op, int input) {
  if (op == nullptr) return {input};
  const auto is_it = [input](const VariableUse& use) { return use.input == input; };
  const auto use = std::find_if(op->variables.begin(), op->variables.end(), is_it);
  return use == op->variables.end() ? VariableUse{input} : *use;
}

class FallbackKernel final : public Kernel {
 public:
  FallbackKernel(const OpInstance& instance, std::unique_ptr<Kernel> kernel, const OpDef* op, CudaServices& services)
      : services_(services), kernel_(std::move(kernel)), staging_(services) {
    int64_t end = 0;
    const auto place = [&end](int64_t bytes, std::vector<int64_t>& offsets) {
      offsets.push_back(end);
      end = AlignUp(end + bytes);
    };
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      uses_.push_back(UseOf(op, static_cast<int>(i)));
      place(HasMemory(i) ? instance.inputs[i].size_bytes() : 0, input_offsets_);
    }
    for (const TensorType& output : instance.outputs) place(output.size_bytes(), output_offsets_);
    fault_offset_ = end;
    scratch_offset_ = end + AlignUp(sizeof(Fault));
    const absl::Status used = services.Use();
    LOG_IF(WARNING, !used.ok()) << used;
    staging_.Reserve(scratch_offset_ + AlignUp(kernel_->scratch_bytes()));
  }

  bool can_capture() const { return staging_.pinned(); }

  absl::Status Run(const KernelContext& context) const override {
    const OpInstance& instance = *context.instance;
    const auto stream = static_cast<cudaStream_t>(context.stream);
    auto call = std::make_shared<Call>();
    FillCall(context, *call);
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      if (call->inputs[i] == context.inputs[i] || !HasMemory(i)) continue;  // known by value, on the host
      MR_RETURN_IF_ERROR(Copy(call->inputs[i], context.inputs[i], instance.inputs[i], cudaMemcpyDeviceToHost, stream));
    }
    MR_RETURN_IF_ERROR(CopyBytes(call->fault, services_.fault(), sizeof(Fault), cudaMemcpyDeviceToHost, stream));
    MR_RETURN_IF_ERROR(MayGive(stream));
    MR_RETURN_IF_ERROR(
        CudaStatus(cudaLaunchHostFunc(stream, &RunCall, call.get()), services_.device(), "cudaLaunchHostFunc"));
    MR_RETURN_IF_ERROR(services_.Keep(call, stream));
    MR_RETURN_IF_ERROR(CopyBytes(services_.fault(), call->fault, sizeof(Fault), cudaMemcpyHostToDevice, stream));
    for (size_t o = 0; o < instance.outputs.size(); ++o) {
      MR_RETURN_IF_ERROR(Copy(context.outputs[o], call->outputs[o], instance.outputs[o], cudaMemcpyHostToDevice, stream));
    }
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      if (!uses_[i].writes()) continue;
      MR_RETURN_IF_ERROR(Copy(context.inputs[i], call->inputs[i], instance.inputs[i], cudaMemcpyHostToDevice, stream));
    }
    return absl::OkStatus();
  }

 private:
  // A variable that is only asked whether it has a value has none on the device.
  bool HasMemory(size_t input) const { return uses_[input].access != VariableAccess::kPresence; }

  // The host kernel's own context: staged tensors, and what the host knows now.
  void FillCall(const KernelContext& context, Call& call) const {
    const OpInstance& instance = *context.instance;
    call.kernel = kernel_.get();
    call.services = &services_;
    call.context = context;
    call.position = services_.position();
    call.fault = reinterpret_cast<Fault*>(staging_.data() + fault_offset_);
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      const bool by_value = i < instance.input_values.size() && !instance.input_values[i].empty() &&
                            context.inputs[i] == instance.input_values[i].data();
      call.inputs.push_back(by_value ? context.inputs[i] : staging_.data() + input_offsets_[i]);
      if (context.initialized != nullptr) call.flags.push_back(*context.initialized[i]);
    }
    for (size_t o = 0; o < instance.outputs.size(); ++o) {
      void* staged = staging_.data() + output_offsets_[o];
      for (size_t i = 0; i < instance.inputs.size(); ++i) {
        const bool shared = context.outputs[o] == context.inputs[i] && instance.outputs[o].size_bytes() > 0 &&
                            instance.outputs[o].size_bytes() == instance.inputs[i].size_bytes();
        if (shared) staged = call.inputs[i];  // in place, or the variable itself
      }
      call.outputs.push_back(staged);
    }
    call.context.inputs = call.inputs.data();
    call.context.outputs = call.outputs.data();
    call.context.scratch = staging_.data() + scratch_offset_;
    call.context.stream = nullptr;
    for (const char& flag : call.flags) call.initialized.push_back(reinterpret_cast<const bool*>(&flag));
    if (!call.initialized.empty()) call.context.initialized = call.initialized.data();
  }

  // Another operation: one call is five of them and more.
  static absl::Status MayGive(cudaStream_t stream) {
    return MayLaunch(Queue{stream}) ? absl::OkStatus() : absl::UnavailableError("the device does not answer");
  }
  absl::Status Copy(void* to, const void* from, const TensorType& type, cudaMemcpyKind kind, cudaStream_t stream) const {
    return CopyBytes(to, from, type.size_bytes(), kind, stream);
  }
  absl::Status CopyBytes(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind, cudaStream_t stream) const {
    if (bytes == 0) return absl::OkStatus();
    // CUDA would do so itself, for ever if need be.
    if (!staging_.pinned()) MR_RETURN_IF_ERROR(services_.watch().Synchronize(stream));
    MR_RETURN_IF_ERROR(MayGive(stream));
    return CudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream), services_.device(),
                      "cudaMemcpyAsync");
  }

  CudaServices& services_;
  const std::unique_ptr<Kernel> kernel_;
  std::vector<int64_t> input_offsets_, output_offsets_;
  int64_t fault_offset_ = 0;
  int64_t scratch_offset_ = 0;
  std::vector<VariableUse> uses_;  // by input
  Staging staging_;
};

}  // namespace

void AddHostFallbacks(const HostOps& host, CudaServices& services, KernelRegistry& registry) {
  registry = MergeKernels(registry, *host.kernels, [&services, host](const OpInstance& instance, std::unique_ptr<Kernel> kernel) {
    return std::make_unique<FallbackKernel>(instance, std::move(kernel), host.describe(instance.op), services);
  });
}

bool CanCaptureFallback(const Kernel& kernel) {
  const auto* fallback = dynamic_cast<const FallbackKernel*>(&kernel);
  return fallback == nullptr || fallback->can_capture();
}

}  // namespace millrace::cuda
