// Cases of _SumProducts and _AddProducts, which only passes make, and of a large gradient of a filter: whole numbers, so that sums have the same bits in any
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

// The gradient of the filter of a picture's first convolution, 7x7 by steps of 2 and with one column more behind than before.
inline conformance::Case FirstFilterGradient(int64_t batch, int64_t size, int64_t outputs) {
  constexpr int64_t kWindow = 7, kBefore = 2, kColors = 3;
  const int64_t half = size / 2;
  conformance::Case one;
  one.op = "Conv2DBackpropFilter";
  one.name = absl::StrCat("first_", batch, "x", size, "x", size, "_", outputs);
  one.attrs.Set("strides", std::vector<int64_t>{1, 2, 2, 1});
  one.attrs.Set("padding", std::string("SAME"));
  one.inputs = {SparseNumbers(DataType::kFloat, Shape({batch, size, size, kColors}), 1),
                Tensor::Vector<int32_t>({kWindow, kWindow, kColors, static_cast<int32_t>(outputs)}),
                SparseNumbers(DataType::kFloat, Shape({batch, half, half, outputs}), 2)};
  one.is_variable.assign(one.inputs.size(), false);
  Tensor expected(DataType::kFloat, Shape({kWindow, kWindow, kColors, outputs}));
  const auto x = one.inputs[0].as<float>(), dy = one.inputs[2].as<float>();
  for (int64_t at = 0; at < dy.size(); ++at) {
    if (dy[at] == 0) continue;
    const int64_t output = at % outputs, column = at / outputs % half, row = at / outputs / half % half, image = at / outputs / half / half;
    for (int64_t k = 0; k < kWindow * kWindow * kColors; ++k) {
      const int64_t y = 2 * row + k / kColors / kWindow - kBefore, z = 2 * column + k / kColors % kWindow - kBefore;
      if (y < 0 || y >= size || z < 0 || z >= size) continue;
      expected.mutable_as<float>()[k * outputs + output] += dy[at] * x[((image * size + y) * size + z) * kColors + k % kColors];
    }
  }
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
