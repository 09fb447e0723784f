// Sparse tensors as they come, (indices [n, rank], values [n], dense shape [rank]): their dimensions and whether indices are inside.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SPARSE_SHAPES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SPARSE_SHAPES_H_

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/values.h"
#include "graph/shape_math.h"
#include "graph/value_errors.h"
#include "millrace/status.h"

namespace millrace::cpu {

// The dense shape that an input is: none of its dimensions is negative, and int64 holds their product.
inline absl::StatusOr<Ints> DenseShape(const KernelContext& context, int input) {
  MR_ASSIGN_OR_RETURN(Ints dims, ValueReader(context).ints(input));
  MR_RETURN_IF_ERROR(DenseElements(dims).status());
  return dims;
}

// InvalidArgument for an index of an input's rows that is not in a tensor of these dimensions.
template <typename Index>
absl::Status CheckInside(const KernelContext& context, int input, absl::Span<const int64_t> dims) {
  const Shape& shape = context.input_type(input).shape;
  const Index* indices = context.input<Index>(input);
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (indices[i] >= 0 && indices[i] < dims[i % rank]) continue;
    return absl::InvalidArgumentError(absl::StrCat("indices", IndexString(shape, i), " = ", indices[i], " is out of bounds: need 0 <= index < ",
                                                   dims[i % rank]));
  }
  return absl::OkStatus();
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_SPARSE_SHAPES_H_
