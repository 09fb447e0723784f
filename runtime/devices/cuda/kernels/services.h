// What the CUDA kernels ask of the device that they run on. The plugin answers with CUDA's libraries, tests with loops
// on the host.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_SERVICES_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_SERVICES_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/launch/queue.h"
#include "millrace/kernel.h"

namespace millrace::cuda {

// c[b] = a[b] * b[b], row-major; a is m x k (k x m when transposed), b k x n (n x k). A stride of 0 repeats a matrix.
struct ProductShape {
  Type type = Type::kFloat;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements
};

class Product {
 public:
  virtual ~Product() = default;
  virtual int64_t scratch_bytes() const = 0;
  virtual absl::Status Run(const Queue& queue, const void* a, const void* b, void* c, void* scratch) const = 0;
};

enum class ConvPart { kForward, kInput, kFilter };

// Channels last; filters are [out_channels][spatial …][in_channels / groups]. Padding is the same on both sides.
struct ConvShape {
  using Sizes = std::array<int64_t, 3>;
  ConvPart part = ConvPart::kForward;
  Type type = Type::kFloat;
  int spatial = 2;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Sizes in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};
};

class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual int64_t scratch_bytes() const = 0;
  // The part that is computed is written, the other two are read.
  virtual absl::Status Run(const Queue& queue, void* input, void* filter, void* output, void* scratch) const = 0;
};

class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  virtual Queue QueueOf(const KernelContext& context) = 0;
  // What the launches on `queue` since QueueOf have found wrong, where that is known at once; OK on a device, whose
  // driver finds it at the end of the step.
  virtual absl::Status Launched(const Queue& queue) = 0;
  // Unimplemented where the device has no such product or convolution.
  virtual absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) = 0;
};

// In words, for the error of the node.
absl::Status FaultStatus(const Fault& fault);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_SERVICES_H_
