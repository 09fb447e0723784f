// Matrix products against a direct sum in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Core>
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

std::vector<double> Product(const Tensor& a, const Tensor& b, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                            int64_t first_a = 0, int64_t first_b = 0) {
  std::vector<double> c(m * n, 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) {
        c[i * n + j] += a.DoubleAt(first_a + (ta ? l * m + i : i * k + l)) * b.DoubleAt(first_b + (tb ? j * k + l : l * n + j));
      }
    }
  }
  return c;
}

void CheckMatMul(int64_t m, int64_t n, int64_t k, bool ta, bool tb, DataType dtype) {
  SCOPED_TRACE(absl::StrCat(m, "x", n, "x", k, " ", ta, tb, " ", std::string(DataTypeName(dtype))));
  const Tensor a = TestValues(dtype, ta ? Shape({k, m}) : Shape({m, k}), 1);
  const Tensor b = TestValues(dtype, tb ? Shape({n, k}) : Shape({k, n}), 2);
  AttrMap attrs;
  attrs.Set("transpose_a", ta);
  attrs.Set("transpose_b", tb);
  const Tensor c = EvaluateOnThreads({"MatMul", attrs, {a, b}});
  EXPECT_EQ(c.shape(), Shape({m, n}));
  ExpectClose(c, Product(a, b, m, n, k, ta, tb), Tolerance(dtype));
}

TEST(MatMulTest, AgreesWithDirectSumForEveryTransposeAndType) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16, DataType::kInt32,
                         DataType::kInt64}) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        CheckMatMul(7, 5, 3, ta, tb, dtype);
        CheckMatMul(1, 37, 19, ta, tb, dtype);
        CheckMatMul(41, 1, 23, ta, tb, dtype);
        CheckMatMul(3, 4, 1, ta, tb, dtype);
        CheckMatMul(33, 65, 17, ta, tb, dtype);
      }
    }
  }
}

TEST(MatMulTest, NarrowProductsAgreeWithDirectSum) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble}) {
    for (int64_t few : {1, 2, 3, 7}) {
      for (int64_t depth : {3, 4, 8, 16}) CheckMatMul(1100, few, depth, false, depth == 4, dtype);
      for (int64_t rows : {1, 4, 13, 21}) CheckMatMul(rows, few, 1500, true, false, dtype);
    }
    CheckMatMul(3, 4, 30000, true, false, dtype);
  }
}

// Sums of so many terms of 0.1, of a product with that many rows and columns.
void ExpectFewRoundings(const std::string& op, const char* transpose, std::vector<int64_t> batch, int64_t rows, int64_t terms, double tolerance,
                        int64_t columns = 4) {
  std::vector<int64_t> of_a = batch, of_b = batch;
  of_a.insert(of_a.end(), {terms, rows});
  of_b.insert(of_b.end(), {terms, columns});
  Tensor a(DataType::kFloat, Shape(of_a)), b(DataType::kFloat, Shape(of_b));
  std::ranges::fill(a.mutable_as<float>(), 1.0f);
  std::ranges::fill(b.mutable_as<float>(), 0.1f);
  AttrMap attrs;
  attrs.Set(transpose, true);
  const Tensor sums = EvaluateOnThreads({op, attrs, {a, b}});
  for (const float sum : sums.as<float>()) EXPECT_NEAR(sum, 0.1 * static_cast<double>(terms), tolerance);
}

// Of floats in a row the roundings would add up to 6e-4.
TEST(MatMulTest, RoundingsOfManyTermsStayFew) {
  ExpectFewRoundings("MatMul", "transpose_a", {}, 16, 1000000, 5);
  ExpectFewRoundings("BatchMatMulV2", "adj_x", {16}, 3, 300000, 0.5);
  ExpectFewRoundings("MatMul", "transpose_a", {}, 16, 1000000, 5, 1);
  ExpectFewRoundings("MatMul", "transpose_a", {}, 1, 300000, 2, 20);
  ExpectFewRoundings("MatMul", "transpose_a", {}, 2, 300000, 2, 20);
}

TEST(MatMulTest, CutProductsAgreeWithDirectSum) {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      CheckMatMul(20, 800, 300, ta, tb, DataType::kFloat);
      CheckMatMul(803, 70, 130, ta, tb, DataType::kFloat);
      CheckMatMul(300, 200, 50, ta, tb, DataType::kDouble);
      CheckMatMul(1, 3000, 500, ta, tb, DataType::kFloat);
      CheckMatMul(3001, 1, 500, ta, tb, DataType::kFloat);
      CheckMatMul(4, 1030, 300, ta, tb, DataType::kFloat);
    }
  }
}

// Sums longer than a block, rows and columns that are no multiples of a register tile.
TEST(MatMulTest, PackedProductsAgreeWithDirectSum) {
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kInt32}) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        CheckMatMul(67, 101, 530, ta, tb, dtype);
        CheckMatMul(150, 31, 33, ta, tb, dtype);
      }
    }
  }
}

TEST(MatMulTest, ThinProductsAgreeWithDirectSum) {
  for (int64_t m : {1, 2, 3, 6, 7, 8, 13}) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        CheckMatMul(m, 211, 151, ta, tb, DataType::kFloat);
        CheckMatMul(m, 16, 1000, ta, tb, DataType::kFloat);
        CheckMatMul(211, m, 151, ta, tb, DataType::kFloat);
        CheckMatMul(m, 50, 40, ta, tb, DataType::kDouble);
        CheckMatMul(m, 61, 151, ta, tb, DataType::kDouble);
        CheckMatMul(61, m, 151, ta, tb, DataType::kDouble);
        CheckMatMul(m, 512, 77, ta, tb, DataType::kFloat);
        if (m != 3 && m != 8) continue;
        CheckMatMul(m, 17, 5000, ta, tb, DataType::kFloat);
        CheckMatMul(17, m, 5000, ta, tb, DataType::kFloat);
        CheckMatMul(m, 17, 5000, ta, tb, DataType::kDouble);
      }
    }
  }
}

// Sums in several runs of terms, whose last columns are fewer than a vector has: that vector begins in another tile's columns.
TEST(MatMulTest, LongSumsOfColumnsThatEndWithinAVector) {
  constexpr int64_t kTerms = 5000;
  for (int64_t n : {65, 72, 79, 200}) {
    Tensor a(DataType::kFloat, Shape({32, kTerms})), b(DataType::kFloat, Shape({kTerms, n}));
    for (float& x : a.mutable_as<float>()) x = 1;
    for (float& x : b.mutable_as<float>()) x = 1;
    ExpectClose(EvaluateOnThreads({"MatMul", AttrMap(), {a, b}}), std::vector<double>(32 * n, kTerms), 0);
    Tensor c(DataType::kDouble, Shape({32, kTerms})), d(DataType::kDouble, Shape({kTerms, n}));
    for (double& x : c.mutable_as<double>()) x = 1;
    for (double& x : d.mutable_as<double>()) x = 1;
    ExpectClose(EvaluateOnThreads({"MatMul", AttrMap(), {c, d}}), std::vector<double>(32 * n, kTerms), 0);
  }
}

// A vector beyond the last element must not be read into a sum.
TEST(MatMulTest, SumsEndWithTheRow) {
  Tensor a = TestValues(DataType::kFloat, Shape({2, 21}), 1), b = TestValues(DataType::kFloat, Shape({1, 21}), 2);
  a.mutable_as<float>()[21 + 4] = std::numeric_limits<float>::infinity();
  AttrMap attrs;
  attrs.Set("transpose_b", true);
  const Tensor c = EvaluateOnThreads({"MatMul", attrs, {a, b}});
  EXPECT_NEAR(c.as<float>()[0], Product(a, b, 1, 1, 21, false, true)[0], 1e-4);
  EXPECT_TRUE(std::isinf(c.as<float>()[1]));
}

TEST(MatMulTest, EmptyMatricesGiveEmptyOrZeroProducts) {
  const Tensor none = EvaluateOnThreads(
      {"MatMul", {}, {Tensor(DataType::kFloat, Shape({0, 3})), TestValues(DataType::kFloat, Shape({3, 2}), 1)}});
  EXPECT_EQ(none.shape(), Shape({0, 2}));
  const Tensor zeros = EvaluateOnThreads(
      {"MatMul", {}, {Tensor(DataType::kFloat, Shape({2, 0})), Tensor(DataType::kFloat, Shape({0, 4}))}});
  ExpectClose(zeros, std::vector<double>(8, 0.0), 0);
}

// Batch dimensions of a and b broadcast to [batch...].
void CheckBatch(const std::string& op, const Shape& batch_a, const Shape& batch_b, const Shape& batch,
                const std::vector<int64_t>& of_a, const std::vector<int64_t>& of_b, bool ta, bool tb) {
  const int64_t m = 5, n = 6, k = 7;
  Shape shape_a = batch_a, shape_b = batch_b, shape = batch;
  for (int64_t dim : {ta ? k : m, ta ? m : k}) shape_a.AddDim(dim);
  for (int64_t dim : {tb ? n : k, tb ? k : n}) shape_b.AddDim(dim);
  for (int64_t dim : {m, n}) shape.AddDim(dim);
  const Tensor a = TestValues(DataType::kFloat, shape_a, 1), b = TestValues(DataType::kFloat, shape_b, 2);
  AttrMap attrs;
  attrs.Set("adj_x", ta);
  attrs.Set("adj_y", tb);
  const Tensor c = EvaluateOnThreads({op, attrs, {a, b}});
  EXPECT_EQ(c.shape(), shape);
  std::vector<double> expected;
  for (size_t i = 0; i < of_a.size(); ++i) {
    const std::vector<double> one = Product(a, b, m, n, k, ta, tb, of_a[i] * m * k, of_b[i] * k * n);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  ExpectClose(c, expected, Tolerance(DataType::kFloat));
}

TEST(BatchMatMulTest, BroadcastsBatchDimensions) {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      CheckBatch("BatchMatMul", Shape({3}), Shape({3}), Shape({3}), {0, 1, 2}, {0, 1, 2}, ta, tb);
      CheckBatch("BatchMatMulV2", Shape({2, 1}), Shape({3}), Shape({2, 3}), {0, 0, 0, 1, 1, 1}, {0, 1, 2, 0, 1, 2}, ta, tb);
      CheckBatch("BatchMatMulV2", Shape({2, 2}), Shape(), Shape({2, 2}), {0, 1, 2, 3}, {0, 0, 0, 0}, ta, tb);
      CheckBatch("BatchMatMulV3", Shape(), Shape({2, 2}), Shape({2, 2}), {0, 0, 0, 0}, {0, 1, 2, 3}, ta, tb);
    }
  }
}

absl::Status ErrorOf(const NodeRun& run) { return Infer(run).status(); }

TEST(MatMulErrorsTest, NameTheShapes) {
  const auto zeros = [](const Shape& shape) { return Tensor(DataType::kFloat, shape); };
  EXPECT_THAT(ErrorOf({"MatMul", {}, {zeros(Shape({2, 3})), zeros(Shape({4, 2}))}}).message(),
              testing::HasSubstr("cannot multiply [2,3] by [4,2]: the inner dimensions are 3 and 4"));
  EXPECT_THAT(ErrorOf({"MatMul", {}, {zeros(Shape({2, 3, 1})), zeros(Shape({4, 2}))}}).message(),
              testing::HasSubstr("expected rank 2"));
  EXPECT_THAT(ErrorOf({"BatchMatMul", {}, {zeros(Shape({1, 2, 3})), zeros(Shape({2, 3, 2}))}}).message(),
              testing::HasSubstr("expected equal batch dimensions"));
  EXPECT_THAT(ErrorOf({"BatchMatMulV2", {}, {zeros(Shape({3, 2, 3})), zeros(Shape({2, 3, 2}))}}).message(),
              testing::HasSubstr("do not broadcast"));
  const Tensor doubles(DataType::kDouble, Shape({3, 2}));
  EXPECT_THAT(ErrorOf({"MatMul", {}, {zeros(Shape({2, 3})), doubles}}).message(), testing::HasSubstr("element type"));
}

// A sum of `terms` products, onto a value when `add`.
void CheckSum(int64_t m, int64_t n, int64_t k, int terms, bool ta, bool tb, bool add, DataType dtype) {
  SCOPED_TRACE(absl::StrCat(terms, " of ", m, "x", n, "x", k, " ", ta, tb, add, " ", std::string(DataTypeName(dtype))));
  NodeRun run{add ? "_AddProducts" : "_SumProducts"};
  run.attrs.Set("transpose_a", ta);
  run.attrs.Set("transpose_b", tb);
  std::vector<double> expected(m * n, 0);
  if (add) {
    run.inputs.push_back(TestValues(dtype, Shape({m, n}), 99));
    for (int64_t i = 0; i < m * n; ++i) expected[i] = run.inputs[0].DoubleAt(i);
  }
  for (int i = 0; i < terms; ++i) {
    const Tensor a = TestValues(dtype, ta ? Shape({k, m}) : Shape({m, k}), 2 * i + 1);
    const Tensor b = TestValues(dtype, tb ? Shape({n, k}) : Shape({k, n}), 2 * i + 2);
    const std::vector<double> product = Product(a, b, m, n, k, ta, tb);
    for (int64_t j = 0; j < m * n; ++j) expected[j] += product[j];
    run.inputs.push_back(a);
    run.inputs.push_back(b);
  }
  const Tensor c = EvaluateOnThreads(run);
  EXPECT_EQ(c.shape(), Shape({m, n}));
  ExpectClose(c, expected, Tolerance(dtype));
}

// Sizes for every kind of product: read in place with a row's end that overlaps, by dot products, packed, cut.
TEST(SumOfProductsTest, AgreesWithDirectSum) {
  for (bool add : {false, true}) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        for (int terms : {1, 2, 5}) {
          CheckSum(5, 37, 9, terms, ta, tb, add, DataType::kFloat);
          CheckSum(40, 3, 7, terms, ta, tb, add, DataType::kFloat);
          CheckSum(70, 101, 8, terms, ta, tb, add, DataType::kFloat);
          CheckSum(70, 101, 150, terms, ta, tb, add, DataType::kFloat);
          CheckSum(3, 211, 151, terms, ta, tb, add, DataType::kFloat);
          CheckSum(33, 65, 12, terms, ta, tb, add, DataType::kDouble);
        }
        CheckSum(256, 512, 8, 20, ta, tb, add, DataType::kFloat);
        CheckSum(8, 600, 260, 2, ta, tb, add, DataType::kFloat);
      }
    }
  }
}

TEST(SumOfProductsTest, UnequalProductsAreErrors) {
  const Tensor a = TestValues(DataType::kFloat, Shape({2, 3}), 1), b = TestValues(DataType::kFloat, Shape({3, 4}), 2);
  const Tensor c = TestValues(DataType::kFloat, Shape({2, 5}), 3);
  EXPECT_THAT(Evaluate({"_SumProducts", {}, {a, b, a}}).status().message(), testing::HasSubstr("3 factors"));
  EXPECT_THAT(Evaluate({"_AddProducts", {}, {c, a, b}}).status().message(), testing::HasSubstr("expected float[2,5]"));
  EXPECT_THAT(Evaluate({"_SumProducts", {}, {a, b, b, a}}).status().message(), testing::HasSubstr("cannot multiply"));
}

}  // namespace
}  // namespace millrace::cpu
