// Reductions over any set of dimensions.
//
// Values are taken in short runs into lanes of their own type and the runs into accumulators of 8 bytes (double, int64,
// uint64), in an order that depends on shapes alone: the result is close to the exact one, and its bits do not depend
// on threads.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REDUCE_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REDUCE_H_

#include <memory>

#include "absl/container/inlined_vector.h"
#include "cpu/kernels/common.h"

namespace millrace::cpu {

// An accumulator: the bits of a double, an int64 or a uint64.
using Accumulator = uint64_t;

// Most columns that Reducer::columns takes at a time.
inline constexpr int64_t kMaxColumns = 512;

// A reduction of one computed type (convert.h). Every function adds to accumulators that hold something already.
struct Reducer {
  // acc[0] by x[0 .. n).
  void (*row)(const void* x, int64_t n, Accumulator* acc) = nullptr;
  // acc[r] by x[r * count .. (r + 1) * count) for r in [0, rows), with the bits that `row` gives.
  void (*rows)(const void* x, int64_t rows, int64_t count, Accumulator* acc) = nullptr;
  // acc[c] by x[r * stride + c] for all r, for c in [0, columns).
  void (*columns)(const void* x, int64_t rows, int64_t stride, int64_t columns, Accumulator* acc) = nullptr;
  // acc[i] by from[i].
  void (*merge)(const Accumulator* from, int64_t n, Accumulator* acc) = nullptr;
  // out[i] of the computed type from acc[i], which `count` values went into.
  void (*finish)(const Accumulator* acc, int64_t n, int64_t count, void* out) = nullptr;
  // What an accumulator holds before the first value.
  Accumulator identity = 0;
};

enum class Reduction { kSum, kMean, kProd, kMax, kMin, kAll, kAny, kEuclideanNorm, kL2Loss };

// The type that loops take: int32 has to become int64 where a sum is not its result yet. Bytes are taken as they are, but for means, norms
// and products.
DataType ComputedTypeOf(Reduction reduction, DataType dtype);
// `row` null when there is none for the type.
Reducer ReducerOf(Reduction reduction, DataType dtype);

// Kernel that reduces `shape` of the instance's input 0 over the dimensions whose flag is set.
absl::StatusOr<std::unique_ptr<Kernel>> MakeReduction(const OpInstance& instance, Reduction reduction,
                                                      const Shape& shape, absl::Span<const bool> reduced);

// A tensor as outer × length × inner, `length` being one axis.
struct AxisLayout {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};
// A negative axis counts from the end; a scalar is one element along its axis.
AxisLayout MakeAxisLayout(const Shape& shape, int64_t axis);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_REDUCE_H_
