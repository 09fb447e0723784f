// Every gradient rule where dimensions are not known when the graph is built: the gradients of the same case with known shapes.
#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/gradients.h"
#include "millrace/graph_ops.h"
#include "millrace/session.h"
#include "millrace/status.h"

namespace millrace::testing {
namespace {

struct Differentiated {
  absl::Status case_built;  // without its gradients
  TensorType y;
  std::vector<std::string> gradients;  // by input, "" where there is none
  std::map<std::string, Tensor> feeds;
  Graph graph;
};

// kBound: the first dimension is a bound, of what a mask leaves (all of it).
enum class Known { kAll, kAllButTheFirst, kNone, kBound };

Shape WhatIsKnown(Known known, const Shape& shape) {
  Shape result = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (known == Known::kNone || (known == Known::kAllButTheFirst && i == 0)) result.set_dim(i, -1);
  }
  return result;
}

// The case with its inputs and the cotangent of its result fed; where not all is known, the result is of type `y_type`.
absl::StatusOr<Differentiated> Differentiate(const GradientCase& c, Known known, const TensorType& y_type) {
  GraphBuilder b;
  std::vector<Output> inputs;
  Differentiated result;
  const auto placeholder = [&](const std::string& name, const TensorType& type, double low, double high, uint64_t seed) {
    result.feeds[name] = RandomTensor(type, low, high, seed);
    const Output fed = b.Placeholder(name, type.dtype, WhatIsKnown(known, type.shape));
    if (known != Known::kBound || type.shape.rank() == 0) return fed;
    const Shape rows({type.shape.dim(0)});
    Tensor keep(DataType::kBool, rows);
    std::fill_n(keep.mutable_as<bool>().begin(), rows.dim(0), true);
    result.feeds["keep_" + name] = keep;
    const Output kept = b.Op("Where", {b.Placeholder("keep_" + name, DataType::kBool, rows)}, {{"T", DataType::kBool}});
    return ops::Gather(fed, ops::Squeeze(kept, {1}));
  };
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const CaseInput& input = c.inputs[i];
    inputs.push_back(placeholder(absl::StrCat("x", i), {c.dtype, input.shape}, input.low, input.high, i + 1));
  }
  Output y;
  try {
    y = c.build(b, inputs);
  } catch (const std::exception& error) {  // the case takes a tensor of the shape
    result.case_built = absl::InvalidArgumentError(error.what());
    return result;
  }
  result.case_built = !b.ok() ? b.status() : y.valid() ? absl::OkStatus() : absl::InvalidArgumentError("no result");
  if (!result.case_built.ok()) return result;
  result.y = known == Known::kAll ? y.type() : y_type;
  const Output product = y * placeholder("cotangent", result.y, 0.5, 1.5, 100);
  const Output loss = ops::Sum(ops::Reshape(product, {-1}), {0}, false, "loss");
  MR_ASSIGN_OR_RETURN(std::vector<Output> gradients, AddGradients(b, {loss}, inputs));
  if (c.second) {  // of the sum of the first ones' squares, in their place
    std::vector<Output> squares;
    for (const Output& gradient : gradients) {
      if (gradient.valid()) squares.push_back(ops::Sum(ops::Reshape(ops::Square(gradient), {-1}), {0}));
    }
    MR_ASSIGN_OR_RETURN(gradients, AddGradients(b, squares, inputs, {.scope = "second"}));
  }
  for (const Output& gradient : gradients) result.gradients.push_back(gradient.valid() ? b.TensorName(gradient) : "");
  MR_ASSIGN_OR_RETURN(result.graph, std::move(b).Build());
  return result;
}

absl::StatusOr<std::vector<Tensor>> Values(Differentiated& differentiated) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(std::move(differentiated.graph), {}));
  std::vector<std::string> fetches;
  for (const std::string& gradient : differentiated.gradients) {
    if (!gradient.empty()) fetches.push_back(gradient);
  }
  std::vector<Tensor> fetched;
  MR_RETURN_IF_ERROR(session->Run(differentiated.feeds, fetches, {}, &fetched));
  return fetched;
}

// Ops whose rules ask for shapes that are known.
bool AsksForShapes(const std::string& message) {
  static const auto& ops = *new std::set<std::string>{
      "(RFFT", "(IRFFT", "(ImageProjectiveTransformV", "(SparseDenseCwise", "(ExtractImagePatches)", "(ExtractVolumePatches)", "(TensorStridedSliceUpdate)",
      "(Qr)", "(ScaleAndTranslateGrad)", "(LRNGrad)", "(Svd)", "(MatrixSquareRoot)", "(SparseTensorDenseMatMul)", "(SparseToDense)", "(SparseSoftmax)", "(SparseReorder)", "(RaggedTensorToSparse)", "(GatherV2): needs known shapes, or batch_dims"};
  return absl::StrContains(message, "needs known shapes") &&
         std::any_of(ops.begin(), ops.end(), [&](const std::string& op) { return absl::StrContains(message, op); });
}

class UnknownShapes : public ::testing::TestWithParam<std::tuple<Known, GradientCase>> {};

TEST_P(UnknownShapes, GiveTheGradientsOfKnownOnes) {
  const GradientCase& c = std::get<1>(GetParam());
  if (c.name.starts_with("Unpack")) GTEST_SKIP() << "how many parts there are is not known";
  if (c.name == "Einsum_ellipsis") GTEST_SKIP() << "what an ellipsis stands for is 1 in one operand";
  absl::StatusOr<Differentiated> known = Differentiate(c, Known::kAll, {});
  ASSERT_TRUE(known.ok()) << known.status();
  ASSERT_TRUE(known->case_built.ok()) << known->case_built;
  absl::StatusOr<Differentiated> unknown = Differentiate(c, std::get<0>(GetParam()), known->y);
  if (!unknown.ok() && AsksForShapes(std::string(unknown.status().message()))) GTEST_SKIP() << unknown.status();
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  if (!unknown->case_built.ok()) GTEST_SKIP() << unknown->case_built;
  const absl::StatusOr<std::vector<Tensor>> expected = Values(*known), computed = Values(*unknown);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(computed.ok()) << computed.status();
  ASSERT_EQ(expected->size(), computed->size());
  for (size_t i = 0; i < expected->size(); ++i) {
    const Tensor &want = (*expected)[i], &got = (*computed)[i];
    ASSERT_EQ(got.type(), want.type());
    const double tolerance = want.dtype() == DataType::kDouble ? 1e-12 : 1e-5;
    for (int64_t k = 0; k < want.num_elements(); ++k) {
      EXPECT_NEAR(got.DoubleAt(k), want.DoubleAt(k), tolerance * std::max(1.0, std::abs(want.DoubleAt(k)))) << "gradient " << i << " [" << k << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, UnknownShapes,
                         ::testing::Combine(::testing::Values(Known::kNone, Known::kAllButTheFirst, Known::kBound), ::testing::ValuesIn(GradientCases())),
                         [](const ::testing::TestParamInfo<std::tuple<Known, GradientCase>>& info) {
                           const Known known = std::get<0>(info.param);
                           return absl::StrCat(std::get<1>(info.param).name, known == Known::kNone ? "_none" : known == Known::kBound ? "_bound" : "_all_but_the_first");
                         });

}  // namespace
}  // namespace millrace::testing
