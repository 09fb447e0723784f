#include "runtime/kernel_checks.h"

#include "absl/strings/str_cat.h"
#include "graph/exceptions.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const KernelFactory& factory, const OpInstance& instance) {
  return WithoutExceptions([&]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    absl::StatusOr<std::unique_ptr<Kernel>> made = factory(instance);
    if (made.ok() && *made == nullptr) return absl::InternalError("the kernel factory returned no kernel");
    return made;
  });
}

absl::Status CheckRealShapes(absl::Span<const Shape> shapes, const std::vector<TensorType>& bounds) {
  for (size_t o = 0; o < shapes.size(); ++o) {
    const Shape &shape = shapes[o], &bound = bounds[o].shape;
    bool within = shape.fully_known() && shape.rank() == bound.rank();
    for (int d = 0; within && d < shape.rank(); ++d) within = shape.dim(d) <= bound.dim(d);
    if (within) continue;
    return absl::InternalError(absl::StrCat("the kernel says that output ", o, " is ", shape.ToString(), ", which is not within ", bound.ToString(),
                                            ", the most that it may be"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
