// Cases of _SumProducts and _AddProducts, which only passes make: whole numbers, so that sums have the same bits in any
// order.
#ifndef MILLRACE_TESTS_CUDA_PRODUCT_SUMS_H_
#define MILLRACE_TESTS_CUDA_PRODUCT_SUMS_H_

#include <cstdint>
#include <vector>

#include <Eigen/Core>

#include "absl/strings/str_cat.h"
#include "conformance/case.h"

namespace millrace::cuda {

inline void SetAt(Tensor& tensor, int64_t i, double value) {
  switch (tensor.dtype()) {
    case DataType::kFloat: tensor.mutable_as<float>()[i] = static_cast<float>(value); break;
    case DataType::kDouble: tensor.mutable_as<double>()[i] = value; break;
    case DataType::kHalf: static_cast<Eigen::half*>(tensor.mutable_data())[i] = Eigen::half(static_cast<float>(value)); break;
    default: static_cast<Eigen::bfloat16*>(tensor.mutable_data())[i] = Eigen::bfloat16(static_cast<float>(value));
  }
}

// Ones, twos and their negatives at a few places, else zeros, so that bfloat16 holds every sum.
inline Tensor SparseNumbers(DataType dtype, const Shape& shape, uint32_t seed) {
  Tensor tensor(dtype, shape);
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t draw = state >> 24;
    SetAt(tensor, i, draw < 96 ? static_cast<double>(draw % 5) - 2 : 0);
  }
  return tensor;
}

// Of `terms` products of m x k by k x n; every third one has a k that is larger by 2 where they are `uneven`.
inline conformance::Case ProductSum(DataType dtype, int64_t m, int64_t n, int64_t k, int terms, bool transpose_a,
                                    bool transpose_b, bool onto, bool uneven) {
  conformance::Case one;
  one.op = onto ? "_AddProducts" : "_SumProducts";
  one.name = absl::StrCat(std::string(DataTypeName(dtype)), "_", m, "x", n, "x", k, "_", terms, transpose_a ? "_ta" : "",
                          transpose_b ? "_tb" : "", onto ? "_onto" : "", uneven ? "_uneven" : "");
  one.attrs.Set("transpose_a", transpose_a);
  one.attrs.Set("transpose_b", transpose_b);
  std::vector<double> sum(m * n);
  if (onto) {
    one.inputs.push_back(SparseNumbers(dtype, Shape({m, n}), 99));
    for (int64_t i = 0; i < m * n; ++i) sum[i] = one.inputs[0].DoubleAt(i);
  }
  for (int t = 0; t < terms; ++t) {
    const int64_t depth = uneven && t % 3 == 1 ? k + 2 : k;
    const Tensor a = SparseNumbers(dtype, transpose_a ? Shape({depth, m}) : Shape({m, depth}), 2 * t + 1);
    const Tensor b = SparseNumbers(dtype, transpose_b ? Shape({n, depth}) : Shape({depth, n}), 2 * t + 2);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t d = 0; d < depth; ++d) {
          sum[i * n + j] += a.DoubleAt(transpose_a ? d * m + i : i * depth + d) * b.DoubleAt(transpose_b ? j * depth + d : d * n + j);
        }
      }
    }
    one.inputs.push_back(a);
    one.inputs.push_back(b);
  }
  one.is_variable.assign(one.inputs.size(), false);
  Tensor expected(dtype, Shape({m, n}));
  for (int64_t i = 0; i < m * n; ++i) SetAt(expected, i, sum[i]);
  one.outputs[0] = {expected.type(), 1, expected};
  return one;
}

inline std::vector<conformance::Case> ProductSums(const std::vector<DataType>& dtypes) {
  std::vector<conformance::Case> cases;
  for (DataType dtype : dtypes) {
    for (int terms : {1, 2, 7, 8, 9, 17}) {
      for (int bits = 0; bits < 16; ++bits) {
        cases.push_back(ProductSum(dtype, 12, 20, 4, terms, bits & 1, bits & 2, bits & 4, bits & 8));
        if (bits % 5 == 0) cases.push_back(ProductSum(dtype, 7, 33, 3, terms, bits & 1, bits & 2, bits & 4, bits & 8));
      }
    }
  }
  return cases;
}

}  // namespace millrace::cuda

#endif  // MILLRACE_TESTS_CUDA_PRODUCT_SUMS_H_
