// Arithmetic on sizes of dimensions, none of them negative. What int64 cannot hold becomes its largest value, which no
// memory has room for.
#ifndef MILLRACE_SRC_OPS_SIZES_H_
#define MILLRACE_SRC_OPS_SIZES_H_

#include <cstdint>

namespace millrace {

inline int64_t SizeSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

inline int64_t SizeProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

}  // namespace millrace

#endif  // MILLRACE_SRC_OPS_SIZES_H_
