// What kernels and their factories are held to: programs bring their own.
#ifndef MILLRACE_RUNTIME_KERNEL_CHECKS_H_
#define MILLRACE_RUNTIME_KERNEL_CHECKS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "millrace/kernel.h"

namespace millrace {

// The factory's kernel; Internal where there is none, or what the factory throws.
absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const KernelFactory& factory, const OpInstance& instance);

// Whether every shape that a kernel has set (KernelContext::output_shapes) is within its bound, which is all that there is memory for.
absl::Status CheckRealShapes(absl::Span<const Shape> shapes, const std::vector<TensorType>& bounds);

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_KERNEL_CHECKS_H_
