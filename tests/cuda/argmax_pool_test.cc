// The gradient of pooling by places that lie outside of their windows, as whoever feeds places may have them.
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/queue.h"
#include "cuda/launch/window.h"

namespace millrace::cuda {
namespace {

// Windows of 2 x 2 beside each other.
PoolShape ShapeOf(int64_t batch, int64_t rows, int64_t columns, int64_t channels) {
  PoolShape shape;
  shape.batch = batch;
  shape.channels = channels;
  shape.in[1] = rows;
  shape.in[2] = columns;
  for (int d : {1, 2}) {
    shape.out[d] = shape.in[d] / 2;
    shape.window[d] = shape.stride[d] = 2;
  }
  return shape;
}

// Each gradient goes to its place, in the order of the windows. The second of two images has all places within their windows.
void ExpectSumsInOrder(const PoolShape& shape) {
  const int64_t columns = shape.in[2], image = shape.in[1] * columns * shape.channels, windows = image / 4;
  std::vector<int64_t> places(shape.batch * windows);
  std::vector<float> dy(places.size()), dx(shape.batch * image, -7), expected(dx.size());
  for (int64_t i = 0; i < static_cast<int64_t>(places.size()); ++i) {
    const int64_t k = i % windows, c = k % shape.channels, pixel = k / shape.channels, y = pixel / (columns / 2), x = pixel % (columns / 2);
    places[i] = i < windows ? k * 7919 % (image / 3) * 3 % image : ((2 * y + 1) * columns + 2 * x) * shape.channels + c;
    dy[i] = static_cast<float>(i % 1013) * 0.37f - 3;
    expected[i / windows * image + places[i]] += dy[i];
  }
  Fault fault;
  std::vector<char> scratch(ArgmaxPoolGradScratchBytes(shape));
  LaunchArgmaxPoolGrad({nullptr, &fault, 0}, Type::kFloat, shape, /*in_batch=*/false, /*wide=*/true, dy.data(), places.data(), dx.data(),
                       scratch.data());
  EXPECT_EQ(fault.code, FaultCode::kNone);
  EXPECT_TRUE(dx == expected);
}

TEST(ArgmaxPoolTest, GradientsGoToPlacesOutsideOfTheirWindows) { ExpectSumsInOrder(ShapeOf(2, 90, 84, 3)); }

TEST(ArgmaxPoolTest, LargeImagesDoNotTakeTheirElementsTimesTheirWindows) {
  const auto start = std::chrono::steady_clock::now();
  ExpectSumsInOrder(ShapeOf(1, 1024, 1024, 1));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 20);
}

}  // namespace
}  // namespace millrace::cuda
