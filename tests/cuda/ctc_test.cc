// CTC's losses and gradients are those of all paths of classes that read as the labels. Once as loops (cuda_kernels_test) and once on the
// grid (cuda_grid_test).
#include "cuda/launch/ctc.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::cuda {
namespace {

constexpr int64_t kTimes = 5, kClasses = 4, kBlankClass = kClasses - 1;

struct CtcBatch {
  std::vector<std::vector<int32_t>> labels;
  std::vector<int32_t> lengths;
  std::vector<double> inputs;  // [times, batch, classes]
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  double At(int64_t t, int64_t b, int64_t k) const { return inputs[(t * size() + b) * kClasses + k]; }
};
CtcBatch BatchOf(std::vector<std::vector<int32_t>> labels, std::vector<int32_t> lengths) {
  CtcBatch batch = {std::move(labels), std::move(lengths), {}};
  for (int64_t i = 0; i < kTimes * batch.size() * kClasses; ++i) batch.inputs.push_back(static_cast<double>(i * 37 % 23) / 7 - 1.5);
  return batch;
}

struct CtcAnswer {
  std::vector<double> loss, gradient;
};
CtcAnswer Launched(const CtcBatch& batch) {
  CtcShape shape;
  shape.time = kTimes;
  shape.batch = batch.size();
  shape.classes = kClasses;
  std::vector<int64_t> indices;
  std::vector<int32_t> values;
  for (int64_t b = 0; b < batch.size(); ++b) {
    for (size_t i = 0; i < batch.labels[b].size(); ++i) {
      indices.insert(indices.end(), {b, static_cast<int64_t>(i)});
      values.push_back(batch.labels[b][i]);
    }
  }
  shape.labels = static_cast<int64_t>(values.size());
  CtcAnswer answer = {std::vector<double>(batch.size(), 7), std::vector<double>(batch.inputs.size(), 7)};
  std::vector<int64_t> scratch((CtcScratchBytes(shape) + 7) / 8 + 1, 77);
  Fault fault;
  LaunchCtc({nullptr, &fault, 0}, Type::kDouble, shape, batch.inputs.data(), indices.data(), values.data(), batch.lengths.data(), answer.loss.data(),
            answer.gradient.data(), scratch.data());
  EXPECT_EQ(fault.code, FaultCode::kNone);
  EXPECT_EQ(scratch.back(), 77);
  return answer;
}

// Of sequence b: softmaxes less what the paths that read as its labels have of each class.
void AddAllPaths(const CtcBatch& batch, int64_t b, CtcAnswer& answer) {
  const int64_t length = batch.lengths[b];
  std::vector<double> softmax(length * kClasses), share(length * kClasses, 0);
  for (int64_t t = 0; t < length; ++t) {
    double sum = 0;
    for (int64_t k = 0; k < kClasses; ++k) sum += std::exp(batch.At(t, b, k));
    for (int64_t k = 0; k < kClasses; ++k) softmax[t * kClasses + k] = std::exp(batch.At(t, b, k)) / sum;
  }
  int64_t paths = 1;
  for (int64_t t = 0; t < length; ++t) paths *= kClasses;
  double total = 0;
  for (int64_t path = 0; path < paths; ++path) {
    std::vector<int64_t> classes;
    std::vector<int32_t> read;
    double probability = 1;
    for (int64_t t = 0, rest = path; t < length; ++t, rest /= kClasses) {
      const int64_t k = rest % kClasses;
      if (k != kBlankClass && (t == 0 || k != classes.back())) read.push_back(static_cast<int32_t>(k));
      classes.push_back(k);
      probability *= softmax[t * kClasses + k];
    }
    if (read != batch.labels[b]) continue;
    total += probability;
    for (int64_t t = 0; t < length; ++t) share[t * kClasses + classes[t]] += probability;
  }
  answer.loss[b] = -std::log(total);
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t k = 0; k < kClasses; ++k) answer.gradient[(t * batch.size() + b) * kClasses + k] = softmax[t * kClasses + k] - share[t * kClasses + k] / total;
  }
}

TEST(CtcTest, LossesAndGradientsAreThoseOfAllPaths) {
  const CtcBatch batch = BatchOf({{0}, {1, 1}, {2, 0, 2}, {0, 1, 0}, {2, 2}, {1, 2, 1, 0}}, {1, 5, 4, 3, 3, 5});
  CtcAnswer expected = {std::vector<double>(batch.size()), std::vector<double>(batch.inputs.size())};
  for (int64_t b = 0; b < batch.size(); ++b) AddAllPaths(batch, b, expected);
  const CtcAnswer found = Launched(batch);
  for (size_t b = 0; b < expected.loss.size(); ++b) EXPECT_NEAR(found.loss[b], expected.loss[b], 1e-12) << b;
  for (size_t i = 0; i < expected.gradient.size(); ++i) EXPECT_NEAR(found.gradient[i], expected.gradient[i], 1e-12) << i;
}

TEST(CtcTest, NanAtOneTimeIsNanAtAllTimesOfItsSequenceAlone) {
  CtcBatch batch = BatchOf({{0, 1}, {1}, {2, 0}}, {3, 3, 4});
  const CtcAnswer before = Launched(batch);
  batch.inputs[(1 * batch.size() + 1) * kClasses + 2] = std::nan("");
  const CtcAnswer found = Launched(batch);
  for (int64_t b = 0; b < batch.size(); ++b) {
    const auto expect = [&](double value, double former, bool none) {
      if (none) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, former);
      }
    };
    expect(found.loss[b], before.loss[b], b == 1);
    for (int64_t t = 0; t < kTimes; ++t) {
      for (int64_t k = 0; k < kClasses; ++k) {
        const int64_t at = (t * batch.size() + b) * kClasses + k;
        SCOPED_TRACE(at);
        expect(found.gradient[at], before.gradient[at], b == 1 && t < batch.lengths[b]);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
