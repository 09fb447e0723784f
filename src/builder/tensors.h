// Small constant tensors of any element type.
#ifndef MILLRACE_SRC_BUILDER_TENSORS_H_
#define MILLRACE_SRC_BUILDER_TENSORS_H_

#include "absl/status/statusor.h"
#include "millrace/tensor.h"

namespace millrace {

// Every element is `value`, rounded to `dtype` when that is a floating-point type. InvalidArgument for types that are not
// numbers or bool, and for values that an integer type or bool does not hold exactly.
absl::StatusOr<Tensor> FilledTensor(DataType dtype, Shape shape, double value);

}  // namespace millrace

#endif  // MILLRACE_SRC_BUILDER_TENSORS_H_
