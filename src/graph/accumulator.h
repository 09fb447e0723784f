// What a conditional accumulator of gradients keeps, in a block of bytes that is all zero in the beginning.
//
//   bytes   [gradients there, global step: 64 bytes][sparse ones: how many gradients had a row, int32 a row][sums]
#ifndef MILLRACE_SRC_GRAPH_ACCUMULATOR_H_
#define MILLRACE_SRC_GRAPH_ACCUMULATOR_H_

#include <algorithm>
#include <cstdint>

#include "millrace/attr.h"
#include "millrace/types.h"

namespace millrace {

struct AccumulatorLayout {
  DataType dtype = DataType::kFloat;  // attribute "gradient_dtype"
  Shape shape;                        // "gradient_shape": of the whole gradient, also where single rows of it come
  bool mean = true;                   // "mean": else what is taken is the sum
  bool sparse = false;                // "sparse"

  static AccumulatorLayout Of(const AttrMap& attrs) {
    return {attrs.GetOr<DataType>("gradient_dtype", DataType::kInvalid), attrs.GetOr<Shape>("gradient_shape", Shape::UnknownRank()),
            attrs.GetOr<bool>("mean", true), attrs.GetOr<bool>("sparse", false)};
  }
  void WriteTo(AttrMap& attrs) const {
    attrs.Set("gradient_dtype", dtype);
    attrs.Set("gradient_shape", shape);
    attrs.Set("mean", mean);
    attrs.Set("sparse", sparse);
  }

  static constexpr int64_t kHeaderBytes = 64;
  // The rest requires a shape that is known, and of sparse ones a rank of at least 1.
  int64_t rows() const { return sparse ? shape.dim(0) : 1; }
  int64_t row_elements() const { return shape.num_elements() / std::max<int64_t>(rows(), 1); }
  int64_t sums_at() const { return kHeaderBytes + (sparse ? AlignUp(rows() * static_cast<int64_t>(sizeof(int32_t))) : 0); }
  int64_t bytes() const { return sums_at() + shape.num_elements() * DataTypeSize(dtype); }
};

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_ACCUMULATOR_H_
