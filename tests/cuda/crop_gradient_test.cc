// Gradients of the images that boxes were cropped from have the bits of samples added one after another, where a thread has an element
// or four channels; where threads share the boxes, nearly. Once as loops (cuda_kernels_test) and once on the grid (cuda_grid_test).
#include "cuda/launch/region.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::cuda {
namespace {

struct Crops {
  CropShape shape;
  std::vector<float> boxes, gradient;
  std::vector<int32_t> owners;
};

Crops CropsOf(int64_t batch, int64_t side, int64_t channels, int64_t boxes, bool nearest) {
  Crops crops;
  crops.shape = {.batch = batch, .height = side, .width = side - 3, .channels = channels, .boxes = boxes, .crop_height = 7, .crop_width = 5,
                 .nearest = nearest};
  std::mt19937 random(7);
  std::uniform_real_distribution<float> corner(-0.1f, 1.1f), number(-1, 1);
  for (int64_t b = 0; b < boxes; ++b) {
    crops.owners.push_back(static_cast<int32_t>(random() % batch));
    for (int k = 0; k < 4; ++k) crops.boxes.push_back(corner(random));
  }
  for (int64_t i = 0; i < boxes * 7 * 5 * channels; ++i) crops.gradient.push_back(number(random));
  return crops;
}

float PositionOf(float low, float high, int64_t i, int64_t size, int64_t samples) {
  return low * static_cast<float>(size - 1) + static_cast<float>(i) * ((high - low) * (static_cast<float>(size - 1) / static_cast<float>(samples - 1)));
}

std::vector<float> OneAfterAnother(const Crops& crops) {
  const CropShape& s = crops.shape;
  std::vector<float> images(s.batch * s.height * s.width * s.channels, 0);
  const auto at = [&](int64_t box, float y, float x, int64_t c) -> float& {
    return images[((crops.owners[box] * s.height + static_cast<int64_t>(y)) * s.width + static_cast<int64_t>(x)) * s.channels + c];
  };
  for (int64_t box = 0; box < s.boxes; ++box) {
    const float* const corners = crops.boxes.data() + 4 * box;
    for (int64_t k = 0; k < s.crop_height * s.crop_width * s.channels; ++k) {
      const int64_t c = k % s.channels, j = k / s.channels % s.crop_width, i = k / s.channels / s.crop_width;
      const float y = PositionOf(corners[0], corners[2], i, s.height, s.crop_height), x = PositionOf(corners[1], corners[3], j, s.width, s.crop_width);
      if (y < 0 || y > static_cast<float>(s.height - 1) || x < 0 || x > static_cast<float>(s.width - 1)) continue;
      const float g = crops.gradient[box * s.crop_height * s.crop_width * s.channels + k];
      if (s.nearest) {
        at(box, std::round(y), std::round(x), c) += g;
        continue;
      }
      const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left, above = (1 - down) * g, below = down * g;
      at(box, top, left, c) += (1 - right) * above;
      at(box, top, std::ceil(x), c) += right * above;
      at(box, std::ceil(y), left, c) += (1 - right) * below;
      at(box, std::ceil(y), std::ceil(x), c) += right * below;
    }
  }
  return images;
}

void ExpectSums(const Crops& crops, bool bits) {
  SCOPED_TRACE("channels " + std::to_string(crops.shape.channels) + ", boxes " + std::to_string(crops.shape.boxes));
  const std::vector<float> expected = OneAfterAnother(crops);
  std::vector<float> images(expected.size(), -7);
  std::vector<char> scratch(CropGradImageScratchBytes(crops.shape));
  Fault fault;
  LaunchCropGradImage({nullptr, &fault, 0}, Type::kFloat, crops.shape, crops.gradient.data(), crops.boxes.data(), crops.owners.data(),
                      images.data(), scratch.data());
  EXPECT_EQ(fault.code, FaultCode::kNone);
  float farthest = 0;
  for (size_t i = 0; i < images.size(); ++i) farthest = std::max(farthest, std::fabs(images[i] - expected[i]));
  if (bits) {
    EXPECT_TRUE(images == expected) << farthest;
  } else {
    EXPECT_LT(farthest, 1e-4);
  }
}

TEST(CropGradientTest, ManyElementsHaveTheBitsOfSamplesOneAfterAnother) {
  for (const bool nearest : {false, true}) {
    ExpectSums(CropsOf(2, 70, 16, 60, nearest), true);  // four channels each
    ExpectSums(CropsOf(2, 70, 18, 30, nearest), true);  // channels that are no fours
  }
  ExpectSums(CropsOf(2, 70, 16, 0, false), true);
}

TEST(CropGradientTest, ThreadsShareTheBoxesOfFewElements) {
  for (const int64_t boxes : {1, 31, 33, 100, 300}) ExpectSums(CropsOf(3, 12, 2, boxes, false), false);
}

}  // namespace
}  // namespace millrace::cuda
