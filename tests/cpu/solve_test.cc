// Solutions of linear equations: the matrix times them is the side again, for columns that fill registers and that do not.
#include <gtest/gtest.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

TEST(Solve, TheMatrixTimesTheSolutionIsTheSide) {
  for (int64_t n : {1, 2, 5, 8, 33, 70}) {
    Tensor matrix = TestValues(DataType::kDouble, Shape({n, n}), 1);
    for (int64_t i = 0; i < n; ++i) matrix.mutable_as<double>()[i * n + (i * 3 + 1) % n] += 40;  // rows are exchanged
    for (int64_t columns : {1, 9, 32, 45}) {
      const Tensor side = TestValues(DataType::kDouble, Shape({n, columns}), 2);
      for (bool adjoint : {false, true}) {
        AttrMap solves, multiplies;
        solves.Set("adjoint", adjoint);
        multiplies.Set("transpose_a", adjoint);
        const Tensor x = EvaluateOnThreads({"MatrixSolve", solves, {matrix, side}});
        std::vector<double> expected(side.as<double>().begin(), side.as<double>().end());
        ExpectClose(EvaluateOnThreads({"MatMul", multiplies, {matrix, x}}), expected, 1e-11);
      }
    }
    std::vector<double> one(n * n, 0);
    for (int64_t i = 0; i < n; ++i) one[i * n + i] = 1;
    ExpectClose(EvaluateOnThreads({"MatMul", {}, {matrix, EvaluateOnThreads({"MatrixInverse", {}, {matrix}})}}), one, 1e-11);
  }
}

}  // namespace
}  // namespace millrace::cpu
