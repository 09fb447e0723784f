#include <cmath>
#include <functional>

#include <gmock/gmock.h>

#include "kernel_testing.h"

namespace millrace::cpu {
namespace {

using Labels = std::vector<std::vector<int32_t>>;

NodeRun Ctc(const Tensor& inputs, const Labels& labels, const std::vector<int32_t>& lengths, AttrMap attrs = {},
            const char* op = "CTCLoss") {
  std::vector<int64_t> indices;
  std::vector<int32_t> values;
  for (size_t b = 0; b < labels.size(); ++b) {
    for (size_t i = 0; i < labels[b].size(); ++i) {
      indices.insert(indices.end(), {static_cast<int64_t>(b), static_cast<int64_t>(i)});
      values.push_back(labels[b][i]);
    }
  }
  const int64_t n = static_cast<int64_t>(values.size());
  return {op, std::move(attrs),
          {inputs, Tensor::Vector<int64_t>(indices).Reshaped(Shape({n, 2})), Tensor::Vector<int32_t>(values),
           Tensor::Vector<int32_t>(lengths)}};
}

AttrMap Flag(const char* name, bool value) {
  AttrMap attrs;
  attrs.Set(name, value);
  return attrs;
}

// -log of the summed probability of every path of `length` classes that reads as `labels`.
double BruteForce(const Tensor& inputs, int64_t b, int64_t length, const std::vector<int32_t>& labels, int32_t blank,
                  bool merge) {
  const int64_t batch = inputs.shape().dim(1), classes = inputs.shape().dim(2);
  std::vector<int32_t> path(length);
  double total = 0;
  const std::function<void(int64_t, double)> extend = [&](int64_t t, double probability) {
    if (t < length) {
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(inputs.DoubleAt((t * batch + b) * classes + c));
      for (int64_t c = 0; c < classes; ++c) {
        path[t] = static_cast<int32_t>(c);
        extend(t + 1, probability * std::exp(inputs.DoubleAt((t * batch + b) * classes + c)) / sum);
      }
      return;
    }
    std::vector<int32_t> read;
    for (int64_t i = 0; i < length; ++i) {
      if (path[i] != blank && !(merge && i > 0 && path[i] == path[i - 1])) read.push_back(path[i]);
    }
    if (read == labels) total += probability;
  };
  extend(0, 1.0);
  return -std::log(total);
}

Tensor Inputs() { return TestValues(DataType::kDouble, Shape({5, 3, 4}), 1); }

TEST(CtcLoss, SumsOverEveryPathThatReadsAsTheLabels) {
  const Labels labels = {{0, 1}, {2, 2}, {1, 0, 1}};
  const std::vector<int32_t> lengths = {5, 4, 3};
  for (bool merge : {true, false}) {
    const Tensor loss = EvaluateOnThreads(Ctc(Inputs(), labels, lengths, Flag("ctc_merge_repeated", merge)));
    for (int b = 0; b < 3; ++b) {
      EXPECT_NEAR(loss.DoubleAt(b), BruteForce(Inputs(), b, lengths[b], labels[b], 3, merge), 1e-12) << b << merge;
    }
  }
}

TEST(CtcLoss, GradientIsThatOfFiniteDifferences) {
  const Labels labels = {{0, 1}, {2, 2}, {1}};
  const std::vector<int32_t> lengths = {5, 4, 2};
  const Tensor gradient = Evaluate(Ctc(Inputs(), labels, lengths)).value()[1];
  for (int64_t i = 0; i < gradient.num_elements(); ++i) {
    double losses[2];
    for (int side = 0; side < 2; ++side) {
      Tensor moved = Inputs();
      moved.mutable_as<double>()[i] += side == 0 ? -1e-5 : 1e-5;
      const Tensor loss = Evaluate(Ctc(moved, labels, lengths)).value()[0];
      losses[side] = loss.DoubleAt(0) + loss.DoubleAt(1) + loss.DoubleAt(2);
    }
    EXPECT_NEAR(gradient.DoubleAt(i), (losses[1] - losses[0]) / 2e-5, 1e-8) << i;
  }
}

TEST(CtcLoss, BlankIsTheFirstClassInVersionTwo) {
  const Tensor inputs = TestValues(DataType::kFloat, Shape({5, 1, 4}), 1);
  const Tensor loss = EvaluateOnThreads(Ctc(inputs, {{3, 1}}, {5}, {}, "CTCLossV2"));
  EXPECT_NEAR(loss.DoubleAt(0), BruteForce(inputs, 0, 5, {3, 1}, 0, true), 1e-5);
}

TEST(CtcLoss, CollapsesAndDropsLabelsAsTensorFlow) {
  const auto loss = [](const Labels& labels, const AttrMap& attrs) {
    return Evaluate(Ctc(Inputs(), labels, {5, 5, 5}, attrs)).value()[0];
  };
  EXPECT_TRUE(loss({{0, 0, 1}, {1}, {2, 2}}, Flag("preprocess_collapse_repeated", true))
                  .BitEqual(loss({{0, 1}, {1}, {2}}, {})));
  EXPECT_TRUE(loss({{0, 3}, {1, 9}, {2}}, {}).BitEqual(loss({{0}, {1}, {2}}, {}))) << "null labels at the end";
}

TEST(CtcLoss, WithoutAnyPathTheLossIsInfiniteAndTheGradientTheSoftmax) {
  const std::vector<Tensor> outputs = Evaluate(Ctc(Inputs(), {{0, 0}, {1}, {2}}, {2, 5, 5})).value();
  EXPECT_EQ(outputs[0].DoubleAt(0), INFINITY);
  double sum = 0;
  for (int c = 0; c < 4; ++c) sum += outputs[1].DoubleAt(c);
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(CtcLoss, SkipsTooLongLabelsWhenAsked) {
  const AttrMap skip = Flag("ignore_longer_outputs_than_inputs", true);
  const std::vector<Tensor> outputs = Evaluate(Ctc(Inputs(), {{0, 1, 2}, {1}, {2}}, {2, 0, 5}, skip)).value();
  EXPECT_EQ(outputs[0].DoubleAt(0), 0);
  EXPECT_EQ(outputs[0].DoubleAt(1), 0);
  EXPECT_GT(outputs[0].DoubleAt(2), 0);
  EXPECT_EQ(outputs[1].DoubleAt(0), 0);
}

TEST(CtcLoss, RefusesBadLabels) {
  const auto error = [](const Labels& labels, const std::vector<int32_t>& lengths) {
    return Evaluate(Ctc(Inputs(), labels, lengths)).status().ToString();
  };
  using testing::HasSubstr;
  EXPECT_THAT(error({{0, 1, 2}, {1}, {2}}, {2, 5, 5}), HasSubstr("sequence 0 has 3 labels but only 2 times"));
  EXPECT_THAT(error({{0}, {}, {2}}, {5, 5, 5}), HasSubstr("sequence 1 has no labels"));
  EXPECT_THAT(error({{0}, {-1}, {2}}, {5, 5, 5}), HasSubstr("label -1 of sequence 1 is out of range"));
  EXPECT_THAT(error({{0, 3, 1}, {1}, {2}}, {5, 5, 5}), HasSubstr("follows a null label"));
  EXPECT_THAT(error({{0}, {1}, {2}}, {6, 5, 5}), HasSubstr("sequence_length[0] is 6, expected [0, 5]"));
  EXPECT_THAT(error({{0}, {1}, {2}, {1}}, {5, 5, 5}), HasSubstr("expected a sequence in [0, 3)"));
  EXPECT_THAT(error({{0}, {1}, {2}}, {5, 5}), HasSubstr("expected [time,batch,classes] and [batch]"));
  NodeRun unordered = Ctc(Inputs(), {{0}, {1}, {2}}, {5, 5, 5});
  std::swap(unordered.inputs[1].mutable_as<int64_t>()[0], unordered.inputs[1].mutable_as<int64_t>()[2]);
  EXPECT_THAT(Evaluate(unordered).status().ToString(), HasSubstr("out of order"));
}

}  // namespace
}  // namespace millrace::cpu
