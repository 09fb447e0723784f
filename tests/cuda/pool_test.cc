// The gradient of max pooling goes through large batches in parts, so that its scratch stays small.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/pool.h"
#include "cuda/launch/queue.h"

namespace millrace::cuda {
namespace {

TEST(PoolGradTest, PartsHaveTheBitsOfImagesOneByOne) {
  // Windows overlap; three images of 1,440,000 windows make two parts.
  const PoolShape all = {.batch = 3, .channels = 4, .in = {1, 1201, 1201}, .out = {1, 600, 600}, .window = {1, 3, 3}, .stride = {1, 2, 2}};
  const int64_t inputs = all.channels * 1201 * 1201, outputs = all.channels * 600 * 600;
  std::vector<float> x(all.batch * inputs), y(all.batch * outputs), dy(all.batch * outputs), dx(x.size(), -7);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 101) * 0.25f;
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i * 31 % 97) * 0.03125f - 1.5f;
  Fault fault;
  const Queue queue = {nullptr, &fault, 0};
  constexpr auto kRule = PoolGradRule::kFirstMaximum;
  const int64_t bytes = PoolGradScratchBytes(kRule, all);
  EXPECT_EQ(bytes, 2 * outputs * 4);
  std::vector<int32_t> scratch(bytes / sizeof(int32_t));
  LaunchPoolGrad(queue, Type::kFloat, kRule, all, x.data(), y.data(), dy.data(), dx.data(), scratch.data());
  PoolShape one = all;
  one.batch = 1;
  std::vector<float> expected(inputs);
  for (int64_t image = 0; image < all.batch; ++image) {
    LaunchPoolGrad(queue, Type::kFloat, kRule, one, &x[image * inputs], &y[image * outputs], &dy[image * outputs], expected.data(),
                   scratch.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), dx.begin() + image * inputs)) << image;
  }
}

}  // namespace
}  // namespace millrace::cuda
