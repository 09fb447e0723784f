// Which input positions, with which weights, give one output position of a resized dimension.
#ifndef MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RESIZE_AXIS_H_
#define MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RESIZE_AXIS_H_

#include <cstdint>
#include <vector>

#include "millrace/attr.h"

namespace millrace::cpu {

enum class ResizeMethod { kNearest, kBilinear, kBicubic };

// How coordinates of the output fall on the input.
struct ResizeAlignment {
  bool align_corners = false;
  bool half_pixel_centers = false;
  static ResizeAlignment Of(const AttrMap& attrs) {
    return {attrs.GetOr<bool>("align_corners", false), attrs.GetOr<bool>("half_pixel_centers", false)};
  }
};

inline constexpr int kMaxResizeTaps = 4;

struct ResizeAxis {
  int taps = 1;  // at most kMaxResizeTaps
  int64_t input = 0;
  int64_t output = 0;
  std::vector<int64_t> index;  // taps per output position, once AddTaps was called
  std::vector<float> weight;
};

// Requires positive sizes.
void AddTaps(ResizeMethod method, ResizeAlignment alignment, ResizeAxis& axis);

}  // namespace millrace::cpu

#endif  // MILLRACE_RUNTIME_DEVICES_CPU_KERNELS_RESIZE_AXIS_H_
