// The services of CUDA kernels on the host: launches are loops that end before they return. Any thread.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_EMULATED_HOST_SERVICES_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_EMULATED_HOST_SERVICES_H_

#include "cuda/kernels/services.h"

namespace millrace::cuda {

class HostServices : public DeviceServices {
 public:
  // Where products and convolutions are `written_out`, they are loops over float alone; else there are none, so that the
  // host's own kernels take them.
  explicit HostServices(bool written_out) : written_out_(written_out) {}
  Queue QueueOf(const KernelContext& context) override;
  absl::Status Launched(const Queue& queue, const OpInstance& instance) override { return FaultStatus(*queue.fault, instance); }
  absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape& shape) override;
  absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) override;
  // None: trees are read.
  absl::StatusOr<std::shared_ptr<const CompiledFusion>> CompileFusion(const std::string&) override {
    return absl::UnimplementedError("no compiler");
  }
  absl::Status LoadState(const Queue& queue, void* device, const void* host, int64_t bytes) override;
  absl::Status StoreState(const Queue& queue, void* host, const void* device, int64_t bytes) override;

 private:
  const bool written_out_;
};

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_EMULATED_HOST_SERVICES_H_
