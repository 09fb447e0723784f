// The services of CUDA kernels on the host: launches are loops that end before they return.
#ifndef MILLRACE_TESTS_CUDA_HOST_SERVICES_H_
#define MILLRACE_TESTS_CUDA_HOST_SERVICES_H_

#include "cuda/kernels/services.h"

namespace millrace::cuda {

class HostServices final : public DeviceServices {
 public:
  Queue QueueOf(const KernelContext& context) override {
    fault_ = Fault();
    return {context.stream, &fault_, 0};
  }
  absl::Status Launched(const Queue& queue) override { return FaultStatus(*queue.fault); }
  absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape& shape) override;
  absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) override;

 private:
  Fault fault_;
};

}  // namespace millrace::cuda

#endif  // MILLRACE_TESTS_CUDA_HOST_SERVICES_H_
