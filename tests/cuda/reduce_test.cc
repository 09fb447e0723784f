// Reductions of every kind of shape, whichever kernel takes them: rows, columns, several dimensions between, in one piece and in
// chunks. Once as loops (cuda_kernels_test) and once on the grid (cuda_grid_test). Values are small integers, whose sums are exact
// in any order.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/reduce.h"
#include "cuda/launch/scalar.h"
#include "reductions.h"

namespace millrace::cuda {
namespace {

// The row of element i.
int64_t RowOf(const Reduction& reduction, int64_t i) {
  int64_t row = 0, stride = 1;
  for (size_t d = reduction.dims.size(); d-- > 0; i /= reduction.dims[d]) {
    if (reduction.reduced[d]) continue;
    row += i % reduction.dims[d] * stride;
    stride *= reduction.dims[d];
  }
  return row;
}

double Added(ReduceOp op, double acc, double x) {
  switch (op) {
    case ReduceOp::kProd: return acc * x;
    case ReduceOp::kMax: return std::max(acc, x);
    case ReduceOp::kMin: return std::min(acc, x);
    case ReduceOp::kL2Loss:
    case ReduceOp::kEuclideanNorm: return acc + x * x;
    default: return acc + x;
  }
}
double Stored(ReduceOp op, double acc, int64_t terms) {
  switch (op) {
    case ReduceOp::kMean: return acc / static_cast<double>(terms);
    case ReduceOp::kL2Loss: return acc / 2;
    case ReduceOp::kEuclideanNorm: return std::sqrt(acc);
    default: return acc;
  }
}

template <typename T>
void ExpectExact(ReduceOp op, Type type, const Reduction& reduction) {
  const ReduceShape shape = ShapeOf(reduction);
  const int64_t elements = shape.rows * shape.terms;
  std::mt19937 random(static_cast<uint32_t>(elements));
  std::vector<T> x(elements), y(shape.rows);
  const double first = op == ReduceOp::kProd ? 1 : op == ReduceOp::kMax ? -INFINITY : op == ReduceOp::kMin ? INFINITY : 0;
  std::vector<double> expected(shape.rows, first);
  for (int64_t i = 0; i < elements; ++i) {
    const int value = op == ReduceOp::kProd ? 1 - static_cast<int>(random() % 2 * 2) : static_cast<int>(random() % 7) - 3;
    x[i] = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(value));
    double& acc = expected[RowOf(reduction, i)];
    acc = Added(op, acc, value);
  }
  std::vector<char> partial(ReduceScratchBytes(shape.rows, shape.terms, shape.columns));
  Fault fault;
  LaunchReduce({.fault = &fault}, op, type, shape, x.data(), y.data(), partial.data());
  for (int64_t row = 0; row < shape.rows; ++row) {
    const T exact = Wide<T>::Narrow(static_cast<typename Wide<T>::type>(Stored(op, expected[row], shape.terms)));
    ASSERT_EQ(Widen(y[row]), Widen(exact)) << "row " << row << " of " << shape.rows;
  }
}

std::string Described(ReduceOp op, const Reduction& reduction) {
  return "op " + std::to_string(static_cast<int>(op)) + " of" + reduction.ToString();
}

TEST(ReduceTest, EveryShapeIsReducedExactly) {
  for (const Reduction& reduction : Reductions()) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kL2Loss, ReduceOp::kEuclideanNorm, ReduceOp::kProd,
                        ReduceOp::kMax, ReduceOp::kMin}) {
      SCOPED_TRACE(Described(op, reduction));
      const bool empty = !reduction.dims.empty() && reduction.dims.back() == 0;
      if (empty && op == ReduceOp::kMean) continue;  // not a number, on which nothing is equal
      ExpectExact<float>(op, Type::kFloat, reduction);
      if (op == ReduceOp::kSum) ExpectExact<Half>(op, Type::kHalf, reduction);
      const bool whole = op == ReduceOp::kSum || op == ReduceOp::kMax;
      if (whole && !empty) ExpectExact<int32_t>(op, Type::kInt32, reduction);
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
