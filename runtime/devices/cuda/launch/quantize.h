// Numbers rounded to what few bits can hold, and colours of images.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_QUANTIZE_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_QUANTIZE_H_

#include "cuda/launch/queue.h"

namespace millrace::cuda {

// Rows of channels, which have a range each, or all the one in `least` and `most` where there are no pointers.
struct FakeQuantShape {
  int64_t rows = 0, channels = 1;
  float lowest = 0, highest = 255;  // levels
  float least = 0, most = 0;
};
int64_t FakeQuantScratchBytes(const FakeQuantShape& shape);
void LaunchFakeQuant(const Queue& queue, const FakeQuantShape& shape, const float* x, const float* min, const float* max, float* y,
                     void* scratch);
// Gradients of what is in its range pass; others are summed up for the end that cut them off, where there are pointers.
int64_t FakeQuantGradScratchBytes(const FakeQuantShape& shape);
void LaunchFakeQuantGrad(const Queue& queue, const FakeQuantShape& shape, const float* dy, const float* x, const float* min,
                         const float* max, float* dx, float* dmin, float* dmax, void* scratch);

// A grid that maps 0 to itself for each slice of [outer, slices, inner], of a range that is given, or of the one that the slice has.
struct RoundTripShape {
  int64_t outer = 1, slices = 1, inner = 1;
  bool is_signed = true, range_given = false, narrow = false, half_up = false;
  int64_t bits = 8;
  bool wide_bits = false;  // those at a pointer, which are 64 bits wide then
};
int64_t RoundTripScratchBytes(const RoundTripShape& shape);
// Float and double. `min` and `max` are not read where no range is given; bits at a pointer stand for those of the shape. Faults:
// a slice whose range ends before it begins (kBadRange, value and limit are the bits of its ends as doubles); bits that are not in
// [1, 62], of input 3.
void LaunchRoundTrip(const Queue& queue, Type type, const RoundTripShape& shape, const void* x, const void* min, const void* max,
                     const void* bits, void* y, void* scratch);
// The gradients of what is in the range.
void LaunchRoundTripGrad(const Queue& queue, Type type, const RoundTripShape& shape, const void* dy, const void* x, const void* min,
                         const void* max, void* dx);

enum class ColourChange { kRgbToHsv, kHsvToRgb, kTurnHue, kScaleSaturation };
// `amount`: by how much hue turns, or saturation is scaled.
void LaunchColours(const Queue& queue, Type type, ColourChange change, int64_t pixels, const void* x, const float* amount, void* y);

// Each channel of each image moves away from its mean by `factor`.
struct ContrastShape {
  int64_t images = 0, pixels = 0, channels = 0;
};
int64_t ContrastScratchBytes(const ContrastShape& shape);
void LaunchContrast(const Queue& queue, Type type, const ContrastShape& shape, const void* x, const float* factor, void* y,
                    void* scratch);

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_QUANTIZE_H_
