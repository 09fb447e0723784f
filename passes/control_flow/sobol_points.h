// Points of a Sobol sequence, as TensorFlow's SobolSample gives them.
#ifndef MILLRACE_PASSES_CONTROL_FLOW_SOBOL_POINTS_H_
#define MILLRACE_PASSES_CONTROL_FLOW_SOBOL_POINTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "millrace/tensor.h"

namespace millrace {

// `count` points of `dimensions` numbers, the first `skip` left out. `dtype`: float or double. InvalidArgument where TensorFlow
// refuses the numbers, Unimplemented where there are more dimensions than are known (3667), ResourceExhausted for more than 1 GiB.
absl::StatusOr<Tensor> SobolPoints(int64_t dimensions, int64_t count, int64_t skip, DataType dtype);

}  // namespace millrace

#endif  // MILLRACE_PASSES_CONTROL_FLOW_SOBOL_POINTS_H_
