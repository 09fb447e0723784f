// Sparse matrices, which TensorFlow keeps in variants, as sparse tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "millrace/session.h"
#include "text_session.h"

namespace millrace {
namespace {

using testing::SessionOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// a = [0 1 0; 2 0 3] and b = [0 0 4; 5 0 0].
constexpr char kMatrices[] = R"(
at_a = Const() {dtype=int64, value=int64[3,2]{0, 1, 1, 0, 1, 2}}
of_a = Const() {dtype=float, value=float[3]{1.0, 2.0, 3.0}}
at_b = Const() {dtype=int64, value=int64[2,2]{0, 2, 1, 0}}
of_b = Const() {dtype=float, value=float[2]{4.0, 5.0}}
shape = Const() {dtype=int64, value=int64[2]{2, 3}}
a = SparseTensorToCSRSparseMatrix(at_a, of_a, shape) {T=float}
b = SparseTensorToCSRSparseMatrix(at_b, of_b, shape) {T=float}
)";

std::vector<float> DenseOf(const std::string& more) {
  const auto session = SessionOf(absl::StrCat(kMatrices, more, "\ndense = CSRSparseMatrixToDense(c) {type=float}\n"));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"dense"}, {}, &out);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return {};
  return {out[0].as<float>().begin(), out[0].as<float>().end()};
}

TEST(SparseMatrices, AreMultipliedWithEachOther) {
  EXPECT_THAT(DenseOf("c = SparseMatrixSparseMatMul(a, b) {type=float, transpose_b=true}"), ElementsAre(0, 0, 12, 10));
  EXPECT_THAT(DenseOf("c = SparseMatrixSparseMatMul(a, b) {type=float, adjoint_a=true}"), ElementsAre(10, 0, 0, 0, 0, 4, 15, 0, 0));
  EXPECT_THAT(DenseOf("t = SparseMatrixTranspose(b) {type=float}\nc = SparseMatrixSparseMatMul(t, a) {type=float, transpose_a=true, transpose_b=true}"),
              ElementsAre(0, 12, 0, 10));
}

TEST(SparseMatrices, WhoseProductIsCutShortHaveTheEntriesThatAreThere) {
  const auto session = SessionOf(absl::StrCat(kMatrices, R"(
c = SparseMatrixSparseMatMul(a, b) {type=float, transpose_b=true}
count = SparseMatrixNNZ(c)
parts = CSRSparseMatrixToSparseTensor(c) {type=float}
)"));
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {"count", "parts:0", "parts:1", "parts:2"}, {}, &out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(out[0].IntAt(0), 2);
  EXPECT_THAT(out[1].as<int64_t>(), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(out[2].as<float>(), ElementsAre(12, 10));
  EXPECT_THAT(out[3].as<int64_t>(), ElementsAre(2, 2));
}

TEST(SparseMatrices, AreHandedOnAndAdded) {
  EXPECT_THAT(DenseOf("i = Identity(a) {T=variant}\nj = Conj(i) {T=variant}\nc = AddN(j, b, a) {T=variant, N=3}"), ElementsAre(0, 2, 4, 9, 0, 6));
}

// What TensorFlow computes on GPUs alone.
TEST(SparseMatrices, AreScaledAddedAndNormalized) {
  constexpr char kFactors[] = R"(
two = Const() {dtype=float, value=float[]{2.0}}
minus = Const() {dtype=float, value=float[]{-1.0}}
)";
  EXPECT_THAT(DenseOf(absl::StrCat(kFactors, "c = SparseMatrixAdd(a, b, two, minus) {T=float}")), ElementsAre(0, 2, -4, -1, 0, 6));
  EXPECT_THAT(DenseOf(absl::StrCat(kFactors, "c = SparseMatrixMul(a, minus) {T=float}")), ElementsAre(0, -1, 0, -2, 0, -3));
  EXPECT_THAT(DenseOf(absl::StrCat(kFactors, "z = SparseMatrixZeros(shape) {type=float}\nc = SparseMatrixAdd(z, b, two, two) {T=float}")),
              ElementsAre(0, 0, 8, 10, 0, 0));
  const std::vector<float> soft = DenseOf("c = SparseMatrixSoftmax(a) {type=float}");
  ASSERT_EQ(soft.size(), 6);
  EXPECT_THAT(std::vector<float>(soft.begin(), soft.begin() + 3), ElementsAre(0, 1, 0));
  EXPECT_FLOAT_EQ(soft[3], 0.26894142f);
  EXPECT_EQ(soft[4], 0);
  EXPECT_FLOAT_EQ(soft[5], 0.73105858f);
}

TEST(SparseMatrices, WhoseSumsAreNanKeepThem) {
  for (const char* sum : {"c = SparseMatrixAdd(a, n, one, one) {T=float}", "c = AddN(a, n) {T=variant, N=2}", "c = AddN(n, a) {T=variant, N=2}"}) {
    const std::vector<float> dense = DenseOf(absl::StrCat(R"(
one = Const() {dtype=float, value=float[]{1.0}}
of_n = Const() {dtype=float, value=float[3]{nan, 1.0, 1.0}}
n = SparseTensorToCSRSparseMatrix(at_a, of_n, shape) {T=float}
)",
                                                          sum));
    ASSERT_EQ(dense.size(), 6) << sum;
    EXPECT_TRUE(std::isnan(dense[1])) << sum;
    EXPECT_EQ(dense[3], 3) << sum;
  }
}

std::string ErrorOf(const std::string& text) {
  std::vector<Tensor> out;
  return std::string(SessionOf(text)->Run({}, {"dense"}, {}, &out).message());
}

TEST(SparseMatrices, OfWhichThereIsABatchAreRefused) {
  EXPECT_THAT(ErrorOf(R"(
at = Const() {dtype=int64, value=int64[1,3]{0, 0, 0}}
of = Const() {dtype=float, value=float[1]{1.0}}
shape = Const() {dtype=int64, value=int64[3]{1, 1, 1}}
c = SparseTensorToCSRSparseMatrix(at, of, shape) {T=float}
dense = CSRSparseMatrixToDense(c) {type=float}
)"),
              HasSubstr("[3]"));
}

TEST(SparseMatrices, OfComplexNumbersAreRefused) {
  EXPECT_THAT(ErrorOf(absl::StrCat(kMatrices, "c = SparseTensorToCSRSparseMatrix(at_a, of_a, shape) {T=complex64}\n"
                                              "dense = CSRSparseMatrixToDense(c) {type=complex64}\n")),
              HasSubstr("sparse matrices of complex64 are not supported"));
}

TEST(SparseMatrices, ThatOtherOpsTakeAreRefused) {
  EXPECT_THAT(ErrorOf(absl::StrCat(kMatrices, "c = Neg(a) {T=variant}\ndense = CSRSparseMatrixToDense(c) {type=float}\n")),
              HasSubstr("takes a sparse matrix, which is supported by ops of sparse matrices only"));
}

TEST(SparseMatrices, ThatDoNotFitAreAnError) {
  EXPECT_THAT(ErrorOf(absl::StrCat(kMatrices, "c = SparseMatrixSparseMatMul(a, b) {type=float}\ndense = CSRSparseMatrixToDense(c) {type=float}\n")),
              HasSubstr("inner dimension does not match: 3 vs. 2"));
}

TEST(SparseMatrices, TooLargeForTheirIndicesAreAnError) {
  EXPECT_THAT(ErrorOf(R"(
at = Const() {dtype=int64, value=int64[1,2]{0, 0}}
of = Const() {dtype=float, value=float[1]{1.0}}
shape = Const() {dtype=int64, value=int64[2]{1, 1099511627776}}
a = SparseTensorToCSRSparseMatrix(at, of, shape) {T=float}
c = SparseMatrixSparseMatMul(a, a) {type=float, transpose_a=true}
dense = SparseMatrixNNZ(c)
)"),
              HasSubstr("a dimension of 1099511627776, expected 31 bits"));
}

}  // namespace
}  // namespace millrace
