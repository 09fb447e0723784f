// Every gradient rule against finite differences, and the gradients of its gradients.
#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "builder/gradient_cases.h"
#include "millrace/gradients.h"
#include "millrace/graph_ops.h"
#include "millrace/status.h"
#include "testlib/graph_interpreter.h"

namespace millrace::testing {
namespace {

double At(const Tensor& tensor, int64_t i) { return tensor.DoubleAt(i); }

void SetAt(Tensor& tensor, int64_t i, double value) {
  if (tensor.dtype() == DataType::kDouble) {
    tensor.mutable_as<double>()[i] = value;
  } else {
    tensor.mutable_as<float>()[i] = static_cast<float>(value);
  }
}

Tensor CopyOf(const Tensor& from) {
  Tensor to(from.dtype(), from.shape());
  for (int64_t i = 0; i < from.num_elements(); ++i) SetAt(to, i, At(from, i));
  return to;
}

absl::StatusOr<double> Evaluate(GraphInterpreter& interpreter, const std::map<std::string, Tensor>& feeds,
                                const std::string& scalar) {
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> fetched, interpreter.Run(feeds, {scalar}));
  return At(fetched[0], 0);
}

// Compares the tensors `gradients` with central differences of `scalar` in x0, x1, …
absl::Status CompareWithDifferences(const GradientCase& c, const Graph& graph, const std::string& scalar,
                                    const std::vector<std::string>& gradients, std::string* mismatch) {
  const bool wide = c.dtype == DataType::kDouble;
  const double step = wide ? 1e-5 : 1e-2, tolerance = wide ? 1e-6 : 2e-2;
  GraphInterpreter interpreter(graph);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].empty()) continue;
    const std::string x = absl::StrCat("x", i);
    MR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, interpreter.Run({}, {x + ":0", gradients[i]}));
    for (int64_t k = 0; k < values[0].num_elements(); ++k) {
      Tensor moved = CopyOf(values[0]);
      SetAt(moved, k, At(values[0], k) + step);
      MR_ASSIGN_OR_RETURN(const double above, Evaluate(interpreter, {{x, moved}}, scalar));
      SetAt(moved, k, At(values[0], k) - step);
      MR_ASSIGN_OR_RETURN(const double below, Evaluate(interpreter, {{x, moved}}, scalar));
      const double difference = (above - below) / (2 * step), gradient = At(values[1], k);
      if (std::abs(gradient - difference) <= tolerance * std::max(1.0, std::abs(difference))) continue;
      absl::StrAppend(mismatch, "\n  d ", scalar, " / d ", x, "[", k, "]: gradient ", gradient, ", difference ",
                      difference);
    }
  }
  return absl::OkStatus();
}

class GradientRule : public ::testing::TestWithParam<GradientCase> {};

std::vector<std::string> Names(const GraphBuilder& b, const std::vector<Output>& outputs) {
  std::vector<std::string> names;
  for (const Output& output : outputs) names.push_back(output.valid() ? b.TensorName(output) : "");
  return names;
}

TEST_P(GradientRule, EqualsFiniteDifferences) {
  const GradientCase& c = GetParam();
  if (!c.derivative) return;
  GraphBuilder b;
  const std::vector<Output> inputs = BuildCase(c, b);
  ASSERT_TRUE(b.ok()) << b.status();
  const Output loss = b.OutputOf({b.graph().Find("loss"), 0});
  const absl::StatusOr<std::vector<Output>> gradients = AddGradients(b, {loss}, inputs);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  std::string mismatch;
  const absl::Status status = CompareWithDifferences(c, b.graph(), "loss:0", Names(b, *gradients), &mismatch);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(mismatch, "");
}

TEST_P(GradientRule, HasAGradientItself) {
  const GradientCase& c = GetParam();
  if (!c.second || !c.derivative) return;
  GraphBuilder b;
  const std::vector<Output> inputs = BuildCase(c, b);
  ASSERT_TRUE(b.ok()) << b.status();
  // Squared, so that the gradient depends on the inputs even where the op is linear.
  const Output y = b.OutputOf({b.graph().Find("y"), 0});
  const Output loss = ops::Sum(ops::Square(y), {});
  const absl::StatusOr<std::vector<Output>> first = AddGradients(b, {loss}, inputs);
  ASSERT_TRUE(first.ok()) << first.status();
  std::vector<Output> parts;
  uint64_t seed = 200;
  for (const Output& gradient : *first) {
    if (!gradient.valid()) continue;
    parts.push_back(ops::Sum(gradient * b.Const(RandomTensor(gradient.type(), 0.5, 1.5, seed++)), {}));
  }
  const Output second_loss = ops::AddN(parts, "second_loss");
  const std::string scalar = b.TensorName(parts.size() == 1 ? ops::Identity(parts[0], "second_loss") : second_loss);
  const absl::StatusOr<std::vector<Output>> second =
      AddGradients(b, {b.OutputOf({b.graph().Find("second_loss"), 0})}, inputs, {.scope = "second"});
  ASSERT_TRUE(second.ok()) << second.status();
  std::string mismatch;
  const absl::Status status = CompareWithDifferences(c, b.graph(), scalar, Names(b, *second), &mismatch);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(mismatch, "");
}

// Where TensorFlow passes no gradient on although there is one.
std::vector<GradientCase> CasesBeyondTensorFlow() {
  const std::vector<CaseInput> image = {{{3, 2, 2, 2}}, {{2}, 0.5, 2}, {{2}}, {{2}}, {{2}, 0.5, 2}};
  const auto all_outputs = [](const Operation& op) {
    return ops::Concat({ops::Reshape(op.output(0), {-1}), op.output(1), op.output(2)}, 0);
  };
  std::vector<GradientCase> cases;
  cases.push_back({"FusedBatchNorm_statistics", {image.begin(), image.begin() + 3}, [=](GraphBuilder& b, const std::vector<Output>& x) {
                     return all_outputs(Operation(&b, ops::FusedBatchNorm(x[0], x[1], x[2], 0.01f).y.node()));
                   }, true, DataType::kFloat});
  for (const bool average : {false, true}) {
    cases.push_back({average ? "FusedBatchNorm_averages" : "FusedBatchNorm_nchw_statistics", image, [=](GraphBuilder& b, const std::vector<Output>& x) {
                       return all_outputs(b.Op("FusedBatchNormV3", x, {{"T", DataType::kFloat}, {"U", DataType::kFloat}, {"epsilon", 0.01f},
                                                                      {"exponential_avg_factor", average ? 0.25f : 1.0f},
                                                                      {"data_format", average ? "NHWC" : "NCHW"}, {"is_training", true}}));
                     }, true, DataType::kFloat});
  }
  // TensorFlow has no gradient of its gradient: MaxPoolGradGrad takes no EXPLICIT padding.
  cases.push_back({"MaxPool_EXPLICIT", {{{2, 5, 4, 2}}}, [](GraphBuilder& b, const std::vector<Output>& x) {
                     return b.Op("MaxPool", x, {{"ksize", std::vector<int64_t>{1, 3, 2, 1}}, {"strides", std::vector<int64_t>{1, 2, 1, 1}},
                                                {"padding", "EXPLICIT"}, {"explicit_paddings", std::vector<int64_t>{0, 0, 2, 1, 0, 1, 0, 0}}}).output(0);
                   }});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(BeyondTensorFlow, GradientRule, ::testing::ValuesIn(CasesBeyondTensorFlow()),
                         [](const ::testing::TestParamInfo<GradientCase>& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Cases, GradientRule, ::testing::ValuesIn(GradientCases()),
                         [](const ::testing::TestParamInfo<GradientCase>& info) { return info.param.name; });

}  // namespace
}  // namespace millrace::testing
