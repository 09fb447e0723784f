// Which pixels of an image make those of a resampled one, and with which weights. Included by kernels of the CPU and by those that
// are compiled for devices.
#ifndef MILLRACE_SRC_GRAPH_RESAMPLING_H_
#define MILLRACE_SRC_GRAPH_RESAMPLING_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/anywhere.h"

namespace millrace {

// ResizeArea: an axis whose output pixels are `scale` input pixels wide. A single input pixel has no corners to align.
inline float AreaScale(int64_t in, int64_t out, bool align_corners) {
  const bool corners = align_corners && in > 1 && out > 1;
  return corners ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : static_cast<float>(in) / static_cast<float>(out);
}

// The input pixels that an output pixel covers, from the first one, and how much of each. The last ones may be beyond the image.
struct AreaCover {
  int64_t first, count;
  float begin, end, scale;
  MR_ANYWHERE float Part(int64_t k) const {
    const float place = static_cast<float>(first + k);
    if (place < begin) return place + 1 > end ? scale : place + 1 - begin;
    return place + 1 > end ? end - place : 1.0f;
  }
};
MR_ANYWHERE inline AreaCover AreaCoverOf(int64_t pixel, float scale) {
  const float begin = static_cast<float>(pixel) * scale, end = static_cast<float>(pixel + 1) * scale;
  const int64_t first = static_cast<int64_t>(floorf(begin));
  return {first, static_cast<int64_t>(ceilf(end)) - first, begin, end, scale};
}

// The filters of ScaleAndTranslate.
enum class ResampleFilter { kLanczos1, kLanczos3, kLanczos5, kGaussian, kBox, kTriangle, kKeysCubic, kMitchellCubic };

// By TensorFlow's names.
inline std::optional<ResampleFilter> ResampleFilterOf(std::string_view name) {
  constexpr std::string_view kNames[] = {"lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"};
  int number = 0;
  for (const std::string_view known : kNames) {
    if (known == name) return static_cast<ResampleFilter>(number);
    ++number;
  }
  return std::nullopt;
}

MR_ANYWHERE inline float RadiusOf(ResampleFilter filter) {
  switch (filter) {
    case ResampleFilter::kLanczos3: return 3;
    case ResampleFilter::kLanczos5: return 5;
    case ResampleFilter::kGaussian: return 1.5f;
    case ResampleFilter::kKeysCubic:
    case ResampleFilter::kMitchellCubic: return 2;
    default: return 1;
  }
}

MR_ANYWHERE inline float Lanczos(float radius, float x) {
  constexpr float kPi = 3.14159265358979323846f;
  if (x > radius) return 0;
  if (x < 1e-3f) return 1;
  return radius * sinf(kPi * x) * sinf(kPi * x / radius) / (kPi * kPi * x * x);
}

// The weight at distance x >= 0.
MR_ANYWHERE inline float WeightOf(ResampleFilter filter, float x) {
  switch (filter) {
    // A standard deviation of half a pixel, cut at three of them.
    case ResampleFilter::kGaussian: return x >= 1.5f ? 0 : expf(-x * x / 0.5f);
    case ResampleFilter::kBox: return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0;
    case ResampleFilter::kTriangle: return x < 1 ? 1 - x : 0;
    case ResampleFilter::kKeysCubic:
      if (x >= 2) return 0;
      return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
    case ResampleFilter::kMitchellCubic:
      if (x >= 2) return 0;
      if (x >= 1) return ((-7.0f / 18 * x + 2) * x - 10.0f / 3) * x + 16.0f / 9;
      return (7.0f / 6 * x - 2) * x * x + 8.0f / 9;
    default: return Lanczos(RadiusOf(filter), x);
  }
}

// Weights that sum to less are left as they are.
inline constexpr float kLeastWeights = 1000 * 1.17549435e-38f;

// One axis of ScaleAndTranslate.
struct ResampleAxis {
  // The run of input pixels that make an output pixel; none where its centre is outside of the image. Neither the starts nor the
  // ends of later pixels come earlier.
  struct Span {
    float centre;
    int64_t start, end;
  };

  ResampleFilter filter;
  int64_t input;
  float inverse, inverse_shift, widening;

  MR_ANYWHERE float reach() const { return RadiusOf(filter) * widening; }
  MR_ANYWHERE Span SpanOf(int64_t pixel) const {
    const float centre = (static_cast<float>(pixel) + 0.5f) * inverse + inverse_shift;
    if (centre > static_cast<float>(input)) return {centre, input, input};
    if (!(centre >= 0)) return {centre, 0, 0};
    return {centre, Inside(ceilf(centre - reach() - 0.5f)), Inside(floorf(centre + reach() - 0.5f)) + 1};
  }
  // Not yet divided by the sum of the span's.
  MR_ANYWHERE float WeightAt(const Span& span, int64_t at) const {
    return WeightOf(filter, fabsf((static_cast<float>(at) + 0.5f - span.centre) / widening));
  }
  // What no span is longer than: 2 * reach() + 1, but for rounding.
  int64_t most_pixels() const {
    const float most = ceilf(2 * reach()) + 3;
    return most < static_cast<float>(input) ? static_cast<int64_t>(most) : input;
  }

 private:
  MR_ANYWHERE int64_t Inside(float place) const {
    if (!(place > 0)) return 0;
    if (place >= static_cast<float>(input)) return input - 1;
    const int64_t at = static_cast<int64_t>(place);
    return at < input ? at : input - 1;
  }
};
MR_ANYWHERE inline ResampleAxis ResampleAxisOf(ResampleFilter filter, bool antialias, int64_t input, float scale, float shift) {
  const float inverse = 1.0f / scale;
  return {filter, input, inverse, -inverse * shift, antialias && inverse > 1.0f ? inverse : 1.0f};
}

}  // namespace millrace

#endif  // MILLRACE_SRC_GRAPH_RESAMPLING_H_
