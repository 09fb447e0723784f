// Einsum against a sum over all combinations of labels in double.
#include <map>

#include <Eigen/Core>
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

// Every letter is a label of its own; sizes by letter. An ellipsis is written out by the caller.
std::vector<double> Reference(const std::string& equation, const std::vector<Tensor>& inputs,
                              const std::map<char, int64_t>& sizes) {
  const std::vector<std::string> sides = absl::StrSplit(equation, "->"), terms = absl::StrSplit(sides[0], ',');
  int64_t combinations = 1, output_size = 1;
  for (const auto& [label, size] : sizes) combinations *= size;
  for (char label : sides[1]) output_size *= sizes.at(label);
  std::vector<double> output(output_size, 0);
  for (int64_t index = 0; index < combinations; ++index) {
    std::map<char, int64_t> at;
    int64_t rest = index;
    for (const auto& [label, size] : sizes) at[label] = rest % size, rest /= size;
    const auto offset = [&](const std::string& term) {
      int64_t offset = 0;
      for (char label : term) offset = offset * sizes.at(label) + at[label];
      return offset;
    };
    double value = 1;
    for (size_t i = 0; i < inputs.size(); ++i) value *= inputs[i].DoubleAt(offset(terms[i]));
    output[offset(sides[1])] += value;
  }
  return output;
}

void Check(const std::string& equation, std::map<char, int64_t> sizes, DataType dtype = DataType::kFloat) {
  std::erase_if(sizes, [&](const auto& entry) { return equation.find(entry.first) == std::string::npos; });
  SCOPED_TRACE(absl::StrCat(equation, " ", std::string(DataTypeName(dtype))));
  std::vector<Tensor> inputs;
  const std::vector<std::string> sides = absl::StrSplit(equation, "->"), terms = absl::StrSplit(sides[0], ',');
  for (size_t i = 0; i < terms.size(); ++i) {
    Shape shape;
    for (char label : terms[i]) shape.AddDim(sizes.at(label));
    inputs.push_back(TestValues(dtype, shape, static_cast<uint32_t>(i + 1)));
  }
  AttrMap attrs;
  attrs.Set("equation", equation);
  const Tensor output = EvaluateOnThreads({"Einsum", attrs, inputs});
  Shape shape;
  for (char label : sides[1]) shape.AddDim(sizes.at(label));
  EXPECT_EQ(output.shape(), shape);
  ExpectClose(output, Reference(equation, inputs, sizes), Tolerance(dtype));
}

TEST(EinsumTest, OneInputIsTransposedSummedOrTakenAlongADiagonal) {
  const std::map<char, int64_t> ij{{'i', 5}, {'j', 7}}, ijk{{'i', 3}, {'j', 4}, {'k', 5}};
  for (DataType dtype : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kBfloat16, DataType::kInt32, DataType::kInt64}) {
    for (const char* equation : {"ij->ji", "ij->i", "ij->j", "ij->", "ij->ij"}) Check(equation, ij, dtype);
    Check("ii->i", {{'i', 4}}, dtype);
    Check("ii->", {{'i', 4}}, dtype);
    Check("i->ii", {{'i', 4}}, dtype);
  }
  for (const char* equation : {"ijk->kji", "ijk->j", "ijk->ki", "iijk->kij", "ijk->kiij"}) Check(equation, ijk);
  Check("ij->ji", {{'i', 300}, {'j', 400}});
}

TEST(EinsumTest, ProductsOfEveryLayoutAgreeWithTheSum) {
  const std::map<char, int64_t> sizes{{'i', 3}, {'j', 4}, {'k', 5}};
  for (const char* equation : {"ij,jk->ik", "ij,jk->ki", "ji,jk->ik", "ij,kj->ik", "ji,kj->ki", "ijk,jk->i", "ijk,j->ik",
                               "ij,jk->", "ij,jk->j", "ij,jk->ijk", "ij,jk->kji", "ijk,ijk->ijk", "ijk,kji->jik", "ijk,k->ijk",
                               "ijk,ikj->i", "iij,jk->ik", "ij,jk->iik", "ijk,ij->", "ij,k->kij", "ij,jkk->ik"}) {
    Check(equation, sizes);
  }
  for (DataType dtype : {DataType::kDouble, DataType::kHalf, DataType::kInt32}) {
    for (const char* equation : {"ij,jk->ik", "ij,jk->kij", "ijk,ijk->ki", "ij,ij->ij"}) Check(equation, sizes, dtype);
  }
}

TEST(EinsumTest, AttentionsProductsAgreeWithTheSum) {
  const std::map<char, int64_t> sizes{{'a', 2}, {'b', 9}, {'c', 3}, {'d', 8}, {'e', 11}};
  for (const char* equation : {"abcd,aecd->acbe", "acbe,aecd->abcd", "acbe,abcd->aecd", "abc,cde->abde", "abde,cde->abc",
                               "abc,abde->cde", "abcd,cde->abe", "aecd,abcd->acbe"}) {
    Check(equation, sizes);
  }
}

TEST(EinsumTest, LargeProductsAgreeWithTheSum) {
  Check("abc,cd->abd", {{'a', 20}, {'b', 30}, {'c', 40}, {'d', 50}});
  Check("abc,abd->acd", {{'a', 20}, {'b', 30}, {'c', 40}, {'d', 35}});
  Check("ab,cb->ca", {{'a', 100}, {'b', 70}, {'c', 90}});
}

TEST(EinsumTest, EllipsisBroadcasts) {
  AttrMap attrs;
  attrs.Set("equation", std::string("...ij,...jk->i...k"));
  const Tensor a = TestValues(DataType::kFloat, Shape({4, 1, 2, 3}), 1), b = TestValues(DataType::kFloat, Shape({5, 3, 6}), 2);
  const Tensor got = EvaluateOnThreads({"Einsum", attrs, {a, b}});
  EXPECT_EQ(got.shape(), Shape({2, 4, 5, 6}));
  const std::vector<double> expected =
      Reference("xij,yjk->ixyk", {a, b}, {{'x', 4}, {'y', 5}, {'i', 2}, {'j', 3}, {'k', 6}});
  ExpectClose(got, expected, Tolerance(DataType::kFloat));
}

TEST(EinsumTest, EmptySumsAreZero) {
  AttrMap attrs;
  attrs.Set("equation", std::string("ij,jk->ik"));
  const Tensor zeros = EvaluateOnThreads(
      {"Einsum", attrs, {Tensor(DataType::kFloat, Shape({2, 0})), Tensor(DataType::kFloat, Shape({0, 3}))}});
  ExpectClose(zeros, std::vector<double>(6, 0.0), 0);
}

TEST(EinsumTest, ErrorsSayWhatDoesNotFit) {
  const auto message = [](const char* equation, const std::vector<Shape>& shapes) {
    NodeRun run{"Einsum", {}, {}};
    run.attrs.Set("equation", std::string(equation));
    for (const Shape& shape : shapes) run.inputs.push_back(Tensor(DataType::kFloat, shape));
    return std::string(Infer(run).status().message());
  };
  EXPECT_THAT(message("ij,jk", {Shape({2, 3}), Shape({3, 4})}), testing::HasSubstr("expected exactly one '->'"));
  EXPECT_THAT(message("ij->i", {Shape({2, 3}), Shape({3, 4})}), testing::HasSubstr("is for 1 inputs, the node has 2"));
  EXPECT_THAT(message("ij,jk->ik", {Shape({2, 3}), Shape({5, 4})}), testing::HasSubstr("label 'j' is 3 and"));
  EXPECT_THAT(message("ij->i", {Shape({2})}), testing::HasSubstr("is for rank 2, but the input is [2]"));
  EXPECT_THAT(message("ij->k", {Shape({2, 3})}), testing::HasSubstr("output label 'k' is in no input"));
  EXPECT_THAT(message("...i->i", {Shape({2, 3})}), testing::HasSubstr("the output has no '...'"));
  EXPECT_THAT(message("i j->i", {Shape({2, 3})}), testing::HasSubstr("is not letters"));
  EXPECT_THAT(message("...i,...i->...", {Shape({2, 3}), Shape({4, 3})}), testing::HasSubstr("do not broadcast"));
}

}  // namespace
}  // namespace millrace::cpu
