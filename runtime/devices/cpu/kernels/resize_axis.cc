#include "cpu/kernels/resize_axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::cpu {
namespace {

float Scale(ResizeAlignment alignment, int64_t input, int64_t output) {
  if (alignment.align_corners && output > 1) return static_cast<float>(input - 1) / static_cast<float>(output - 1);
  return static_cast<float>(input) / static_cast<float>(output);
}

void AddNearest(ResizeAlignment alignment, float scale, int64_t at, ResizeAxis& axis) {
  const float where = alignment.half_pixel_centers ? (static_cast<float>(at) + 0.5f) * scale : static_cast<float>(at) * scale;
  const float whole = alignment.align_corners ? std::round(where) : std::floor(where);
  axis.index.push_back(std::clamp<int64_t>(static_cast<int64_t>(whole), 0, axis.input - 1));
  axis.weight.push_back(1.0f);
}

float Position(ResizeAlignment alignment, float scale, int64_t at) {
  if (alignment.half_pixel_centers) return (static_cast<float>(at) + 0.5f) * scale - 0.5f;
  return static_cast<float>(at) * scale;
}

void AddBilinear(float where, ResizeAxis& axis) {
  const float lower = std::floor(where), lerp = where - lower;
  axis.index.push_back(std::max<int64_t>(static_cast<int64_t>(lower), 0));
  axis.index.push_back(std::min<int64_t>(static_cast<int64_t>(std::ceil(where)), axis.input - 1));
  axis.weight.push_back(1.0f - lerp);
  axis.weight.push_back(lerp);
}

// Values of the cubic kernel with coefficient `a` at distance x and x + 1, in [0, 1] steps of 1/1024 as TensorFlow
// tabulates it.
constexpr float kCubicSteps = 1024.0f;
float CubicNear(float a, float x) { return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f; }
float CubicFar(float a, float x) { return ((a * (x + 1.0f) - 5.0f * a) * (x + 1.0f) + 8.0f * a) * (x + 1.0f) - 4.0f * a; }

// With half pixel centers the weights of positions outside are dropped and the others scaled to a sum of 1; otherwise
// positions outside count as the nearest one inside.
void AddBicubic(bool half_pixel_centers, float where, ResizeAxis& axis) {
  const float a = half_pixel_centers ? -0.5f : -0.75f;
  const float lower = std::floor(where);
  const float step = static_cast<float>(std::lrint((where - lower) * kCubicSteps));
  const float x = step / kCubicSteps, y = (kCubicSteps - step) / kCubicSteps;
  float weights[4] = {CubicFar(a, x), CubicNear(a, x), CubicNear(a, y), CubicFar(a, y)};
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    const int64_t at = static_cast<int64_t>(lower) - 1 + k, inside = std::clamp<int64_t>(at, 0, axis.input - 1);
    if (half_pixel_centers && inside != at) weights[k] = 0.0f;
    axis.index.push_back(inside);
    sum += weights[k];
  }
  const bool normalize = half_pixel_centers && std::abs(sum) >= 1000.0f * std::numeric_limits<float>::min();
  for (float weight : weights) axis.weight.push_back(normalize ? weight * (1.0f / sum) : weight);
}

}  // namespace

void AddTaps(ResizeMethod method, ResizeAlignment alignment, ResizeAxis& axis) {
  axis.taps = method == ResizeMethod::kNearest ? 1 : method == ResizeMethod::kBilinear ? 2 : 4;
  axis.index.reserve(axis.output * axis.taps);
  axis.weight.reserve(axis.output * axis.taps);
  const float scale = Scale(alignment, axis.input, axis.output);
  for (int64_t at = 0; at < axis.output; ++at) {
    switch (method) {
      case ResizeMethod::kNearest: AddNearest(alignment, scale, at, axis); break;
      case ResizeMethod::kBilinear: AddBilinear(Position(alignment, scale, at), axis); break;
      case ResizeMethod::kBicubic:
        AddBicubic(alignment.half_pixel_centers, Position(alignment, scale, at), axis);
        break;
    }
  }
}

}  // namespace millrace::cpu
