// What the CUDA kernels ask of the device that they run on. The plugin answers with CUDA's libraries, tests with loops
// on the host.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_SERVICES_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_SERVICES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/launch/queue.h"
#include "millrace/kernel.h"

namespace millrace::cuda {

struct FusedArguments;
struct FusedReduceArguments;

// What is done to a product or convolution before it is rounded to its type: a bias of its columns or channels is added; of
// this sum the larger of it and 0 is taken, or Gelu with the hyperbolic tangent.
enum class Epilogue { kNone, kBias, kBiasRelu, kBiasGelu };

// c[b] = a[b] * b[b], row-major; a is m x k (k x m when transposed), b k x n (n x k). A stride of 0 repeats a matrix.
struct ProductShape {
  Type type = Type::kFloat;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements
  int64_t alignment = kTensorAlignment;               // of the operands, in bytes
  Epilogue epilogue = Epilogue::kNone;
};

// Of scratch memory that libraries get; tensors are aligned to kTensorAlignment alone.
inline constexpr int64_t kLibraryAlignment = 256;

class Product {
 public:
  virtual ~Product() = default;
  // Aligned to kLibraryAlignment.
  virtual int64_t scratch_bytes() const = 0;
  // `onto`, if any, is added: c itself, or memory apart from it. `bias`: where the epilogue has one.
  virtual absl::Status Run(const Queue& queue, const void* a, const void* b, const void* onto, const void* bias, void* c,
                           void* scratch) const = 0;
};

enum class ConvPart { kForward, kInput, kFilter };

// Channels last, filters [out_channels][spatial …][in_channels / groups]; or channels first, filters
// [out_channels][in_channels / groups][spatial …].
struct ConvShape {
  using Sizes = std::array<int64_t, 3>;
  bool channels_first = false;
  ConvPart part = ConvPart::kForward;
  Type type = Type::kFloat;
  int spatial = 2;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  std::string algorithm;  // the library's name of it; "": the library chooses
  Sizes in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0}, pad_after{0, 0, 0};
  // Of kForward; a tensor like the output is added, too, before the activation.
  Epilogue epilogue = Epilogue::kNone;
  bool side = false;
};

// In device memory; where the shape has neither, `bias` and `side` are not read.
struct ConvTensors {
  void *input = nullptr, *filter = nullptr, *output = nullptr;
  void *bias = nullptr, *side = nullptr;
};

class Convolution {
 public:
  virtual ~Convolution() = default;
  // Aligned to kLibraryAlignment.
  virtual int64_t scratch_bytes() const = 0;
  // What ConvShape.algorithm names.
  virtual std::string algorithm() const { return ""; }
  // Measured when it was planned; 0 where that was not done.
  virtual double seconds() const { return 0; }
  // The part that is computed is written, the others are read.
  virtual absl::Status Run(const Queue& queue, const ConvTensors& tensors, void* scratch) const = 0;
};

// A kernel compiled from the text that FusedSource gives, or FusedReduceSource, which is launched as LaunchReduce is. The compiler may
// still be at it: the first launch waits. Unimplemented where there turns out to be none: nothing has been launched then.
class CompiledFusion {
 public:
  virtual ~CompiledFusion() = default;
  // What the first launch would begin with, and once more where memory was short then. Not while a step is captured.
  virtual absl::Status Ready() const { return absl::OkStatus(); }
  virtual absl::Status Launch(const Queue& queue, const FusedArguments& arguments) const = 0;
  virtual absl::Status LaunchReduce(const Queue& queue, const FusedReduceArguments& arguments) const = 0;
};

class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  virtual Queue QueueOf(const KernelContext& context) = 0;
  // What the launches on `queue` since QueueOf have found wrong, where that is known at once; OK on a device, whose
  // driver finds it at the end of the step. `instance`: the node that they were for.
  virtual absl::Status Launched(const Queue& queue, const OpInstance& instance) = 0;
  // Whether floats may be rounded to TF32 in products and convolutions.
  virtual bool tf32() const { return false; }
  // Unimplemented where the device has no such product or convolution.
  virtual absl::StatusOr<std::unique_ptr<Product>> PlanProduct(const ProductShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<Convolution>> PlanConvolution(const ConvShape& shape) = 0;
  // Unimplemented where there is no compiler, or it does not answer. One kernel for equal texts.
  virtual absl::StatusOr<std::shared_ptr<const CompiledFusion>> CompileFusion(const std::string& source) = 0;
  // Copies of a node's state, which is in host memory, in the order of the queue.
  virtual absl::Status LoadState(const Queue& queue, void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status StoreState(const Queue& queue, void* host, const void* device, int64_t bytes) = 0;
};

// Of an Assert: an input that is in the kernels' memory, and how many of its elements the error shows. The plan knows the others.
struct ShownInput {
  int input = 0;
  int64_t count = 0;
};
std::vector<ShownInput> ShownInputs(const OpInstance& instance);

// In words, for the error of the node, which `instance` describes.
absl::Status FaultStatus(const Fault& fault, const OpInstance& instance);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_KERNELS_SERVICES_H_
