// Telling the runtime what an output whose type is a bound really is. Where the bound is certain (nothing in it, say)
// nobody asks.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REAL_SHAPES_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REAL_SHAPES_H_

#include <utility>

#include "millrace/kernel.h"

namespace millrace::cpu {

inline void SetRealDim(const KernelContext& context, int64_t output, int dim, int64_t size) {
  if (context.output_shapes != nullptr) context.output_shapes[output].set_dim(dim, size);
}

inline void SetRealShape(const KernelContext& context, int64_t output, Shape shape) {
  if (context.output_shapes != nullptr) context.output_shapes[output] = std::move(shape);
}

// Rows of a sparse tensor: `rows` of `rank` indices in one output, as many values in another.
inline void SetRealRows(const KernelContext& context, int64_t indices, int64_t values, int64_t rows, int64_t rank) {
  SetRealShape(context, indices, Shape({rows, rank}));
  SetRealShape(context, values, Shape({rows}));
}

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REAL_SHAPES_H_
