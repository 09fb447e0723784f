// The gradient of local response normalisation goes through large tensors in parts, so that its scratch stays small.
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/image.h"
#include "cuda/launch/queue.h"

namespace millrace::cuda {
namespace {

constexpr int64_t kChannels = 7, kPositions = 1300000;  // three parts, the last one shorter

std::vector<float> Values(int64_t count, int64_t step) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * step % 97) * 0.03125f - 1.5f;
  return values;
}

TEST(LrnGradTest, PartsHaveTheBitsOfPositionsOneByOne) {
  const LrnShape all = {.positions = kPositions, .channels = kChannels, .radius = 2, .bias = 1, .alpha = 0.5f, .beta = 0.75f};
  const auto dy = Values(kPositions * kChannels, 31), x = Values(kPositions * kChannels, 17), y = Values(kPositions * kChannels, 5);
  EXPECT_LT(LrnGradScratchBytes(all), int64_t{33} << 20);
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  std::vector<float> dx(dy.size(), -7), scratch(LrnGradScratchBytes(all) / sizeof(float));
  LaunchLrnGrad(queue, Type::kFloat, all, dy.data(), x.data(), y.data(), dx.data(), scratch.data());
  LrnShape one = all;
  one.positions = 1;
  for (int64_t position = 0; position < kPositions; position += 997) {
    const int64_t at = position * kChannels;
    float expected[kChannels];
    LaunchLrnGrad(queue, Type::kFloat, one, &dy[at], &x[at], &y[at], expected, scratch.data());
    for (int64_t c = 0; c < kChannels; ++c) ASSERT_EQ(dx[at + c], expected[c]) << position << ", " << c;
  }
  for (const float value : dx) ASSERT_NE(value, -7);
}

TEST(LrnGradTest, MayOverwriteAnyOfItsInputs) {
  const LrnShape all = {.positions = kPositions, .channels = kChannels, .radius = 2, .bias = 1, .alpha = 0.5f, .beta = 0.75f};
  const std::vector<float> inputs[] = {Values(kPositions * kChannels, 31), Values(kPositions * kChannels, 17),
                                       Values(kPositions * kChannels, 5)};
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  std::vector<float> apart(inputs[0].size()), scratch(LrnGradScratchBytes(all) / sizeof(float));
  LaunchLrnGrad(queue, Type::kFloat, all, inputs[0].data(), inputs[1].data(), inputs[2].data(), apart.data(), scratch.data());
  for (int reused = 0; reused < 3; ++reused) {
    std::vector<float> place = inputs[reused];
    const auto input = [&](int i) { return i == reused ? place.data() : inputs[i].data(); };
    LaunchLrnGrad(queue, Type::kFloat, all, input(0), input(1), input(2), place.data(), scratch.data());
    EXPECT_TRUE(place == apart) << "over input " << reused;
  }
}

}  // namespace
}  // namespace millrace::cuda
