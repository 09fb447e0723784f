// Gradients of the images that boxes were cropped from have the bits of samples added one after another, where a thread has an element
// or four channels; where threads share the boxes, nearly. Once as loops (cuda_kernels_test) and once on the grid (cuda_grid_test).
#include "cuda/launch/region.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/launch/scalar.h"

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

// Sums are of the type that arithmetic on T is done in, and rounded once.
template <typename T>
std::vector<T> OneAfterAnother(const Crops& crops) {
  using W = typename Wide<T>::type;
  const CropShape& s = crops.shape;
  std::vector<W> images(s.batch * s.height * s.width * s.channels, 0);
  const auto at = [&](int64_t box, float y, float x, int64_t c) -> W& {
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
        at(box, std::round(y), std::round(x), c) += static_cast<W>(g);
        continue;
      }
      const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left, above = (1 - down) * g, below = down * g;
      at(box, top, left, c) += static_cast<W>((1 - right) * above);
      at(box, top, std::ceil(x), c) += static_cast<W>(right * above);
      at(box, std::ceil(y), left, c) += static_cast<W>((1 - right) * below);
      at(box, std::ceil(y), std::ceil(x), c) += static_cast<W>(right * below);
    }
  }
  std::vector<T> rounded(images.size());
  for (size_t i = 0; i < images.size(); ++i) rounded[i] = Wide<T>::Narrow(images[i]);
  return rounded;
}

// The scratch memory is as large as is said.
template <typename T>
void ExpectSums(const Crops& crops, Type type, bool bits) {
  SCOPED_TRACE("channels " + std::to_string(crops.shape.channels) + ", boxes " + std::to_string(crops.shape.boxes) + ", type " +
               std::to_string(static_cast<int>(type)));
  const std::vector<T> expected = OneAfterAnother<T>(crops);
  std::vector<T> images(expected.size(), Wide<T>::Narrow(-7));
  std::vector<int64_t> scratch((CropGradImageScratchBytes(crops.shape) + 7) / 8 + 1, 7);
  Fault fault;
  LaunchCropGradImage({nullptr, &fault, 0}, type, crops.shape, crops.gradient.data(), crops.boxes.data(), crops.owners.data(),
                      images.data(), scratch.data());
  EXPECT_EQ(fault.code, FaultCode::kNone);
  EXPECT_EQ(scratch.back(), 7);
  double farthest = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const double off = std::fabs(static_cast<double>(Widen(images[i]) - Widen(expected[i])));
    ASSERT_FALSE(std::isnan(off)) << i;
    farthest = std::max(farthest, off);
  }
  if (bits) {
    EXPECT_EQ(std::memcmp(images.data(), expected.data(), images.size() * sizeof(T)), 0) << farthest;
  } else {
    EXPECT_LT(farthest, sizeof(T) == 2 ? 2e-2 : sizeof(T) == 8 ? 1e-12 : 1e-4);
  }
}
void ExpectSumsOfAllTypes(const Crops& crops, bool bits) {
  ExpectSums<float>(crops, Type::kFloat, bits);
  ExpectSums<double>(crops, Type::kDouble, bits);
  ExpectSums<Half>(crops, Type::kHalf, bits);
  ExpectSums<Bfloat16>(crops, Type::kBfloat16, bits);
}

TEST(CropGradientTest, ManyElementsHaveTheBitsOfSamplesOneAfterAnother) {
  for (const bool nearest : {false, true}) {
    ExpectSumsOfAllTypes(CropsOf(2, 36, 16, 60, nearest), true);  // four channels each
    ExpectSumsOfAllTypes(CropsOf(2, 36, 18, 30, nearest), true);  // channels that are no fours
  }
  ExpectSums<float>(CropsOf(2, 36, 18, 0, false), Type::kFloat, true);
}

TEST(CropGradientTest, ThreadsShareTheBoxesOfFewElements) {
  for (const int64_t boxes : {1, 31, 100, 300}) ExpectSums<float>(CropsOf(3, 12, 2, boxes, false), Type::kFloat, false);
  ExpectSumsOfAllTypes(CropsOf(3, 12, 2, 33, false), false);
}

// Of few elements no boxes are chained.
TEST(CropGradientTest, ScratchMemoryIsThatOfTheWayTaken) {
  const auto bytes = [](int64_t height) { return CropGradImageScratchBytes(CropsOf(2, height, 4, 10, false).shape); };
  EXPECT_EQ(bytes(12), 10 * (12 + 9) * 8);
  EXPECT_EQ(bytes(200), 10 * (200 + 197) * 8 + (2 + 10) * 200 * 4);
}

}  // namespace
}  // namespace millrace::cuda
